//! Which reconciliations a Kustomization goes through, with which spec, and what each of them comes to.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{Finalization, Node, NodeId, Pass, PassOutcome, Removal, SimulationEvent, Trigger};
use super::outcomes::{FinalState, PossibleOutcomes};
use super::scope;
use super::scope::Scopes;
use super::{Consequences, Preview, Refusal, outcomes};
use crate::flux::build;
use crate::flux::build::{Answers, BuildContext, BuildError, DataOverrides, Needs};
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::object::Resource;
use crate::ownership::Members;
use crate::ownership::schemes::flux::inventory_members;
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND, RECONCILE, SSA};
use crate::plan::{Reason, ReasonCode};

/// A spec that a pass of a Kustomization applies.
pub(crate) type SpecChange = (NodeId, usize, KustomizationSpec);

/// What one round of the computation works with.
pub(crate) struct Round<'r, 'a> {
    /// What follows from the last round.
    pub(crate) consequences: &'r Consequences<'a>,
    /// Where objects live.
    pub(crate) scopes: Scopes<'r>,
    /// What was had so far.
    pub(crate) answers: &'r Answers,
    /// What must be had.
    pub(crate) needs: Needs,
}

impl Preview<'_> {
    /// For every Kustomization the specs that some pass applies, in order: from whom, in which pass, and which.
    pub(crate) fn spec_changes(&self) -> BTreeMap<NamespacedName, Vec<SpecChange>> {
        let mut changes: BTreeMap<NamespacedName, Vec<SpecChange>> = BTreeMap::new();
        for node in &self.nodes {
            for (number, pass) in node.passes.iter().enumerate() {
                for (id, built) in pass.desired().into_iter().flatten().filter(|(id, _)| id.is(GROUP, KIND)) {
                    // Of what is encrypted as a whole only the live spec is known.
                    if !outcomes::is_skipped(built) && built.manifest.is_object() {
                        let spec =
                            KustomizationSpec::new(built.manifest.get("spec").unwrap_or(&serde_json::Value::Null));
                        changes.entry(NamespacedName::of(id)).or_default().push((node.id.clone(), number, spec));
                    }
                }
            }
        }
        changes
    }

    /// The life of a Kustomization that exists.
    pub(crate) fn live_node(
        &self,
        key: &NamespacedName,
        live: &Resource,
        changes: &[SpecChange],
        round: &mut Round<'_, '_>,
    ) -> Node {
        let id = NodeId { key: key.clone(), fresh: false };
        let removal = self.removal(key, live, round.consequences);
        let live_spec = KustomizationSpec::of(live);
        let object = &live.object;
        let frozen = [RECONCILE, SSA].iter().any(|mark| {
            object
                .label_or_annotation(mark)
                .is_some_and(|value| matches!(value.to_lowercase().as_str(), "disabled" | "ignore"))
        });
        let foreign = object.writers.iter().any(|writer| {
            writer.suspend && &*writer.manager != "kustomize-controller" && !writer.manager.starts_with("kubectl")
        });
        let mut specs = vec![(None, live_spec.clone())];
        let mut current = live_spec;
        for (parent, number, desired) in changes.iter().filter(|_| !frozen) {
            let merged = current.after_apply(desired, foreign);
            if merged != current {
                specs.push((Some((parent.clone(), *number)), merged.clone()));
                current = merged;
            }
        }
        // A dependant waits for its dependency at the new revision; by then its parent has changed the spec.
        let waits = |spec: &KustomizationSpec| {
            let dependencies = spec.depends_on(&key.namespace);
            let source = spec.source(&key.namespace);
            let same = |other: &NamespacedName| {
                self.live.get(other).is_some_and(|live| KustomizationSpec::of(live).source(&other.namespace) == source)
            };
            dependencies.iter().any(same)
        };
        if specs.len() > 1 && waits(&specs[0].1) {
            specs.remove(0);
        }
        let crowded = self.queued() > self.world.workers;
        let overtaken = crowded && specs.len() > 1 && specs[0].0.is_none();
        let last = specs.pop();
        let mut passes: Vec<Pass> =
            specs.into_iter().flat_map(|(trigger, spec)| self.earlier_passes(key, spec, trigger, round)).collect();
        if let Some(first) = passes.first_mut() {
            first.optional |= overtaken;
        }
        passes.extend(last.into_iter().flat_map(|(trigger, spec)| self.final_passes(key, spec, trigger, round)));
        if object.deleting.is_some() {
            passes.clear();
        }
        let (inventory, unreadable) = match inventory_members(&live.content) {
            Members::Listed(ids) => (ids.into_iter().collect(), None),
            Members::Unreadable(why) => (BTreeSet::new(), Some(why)),
            _ => (BTreeSet::new(), None),
        };
        Node { id, passes, removal, inventory, unreadable }
    }

    /// The life of a Kustomization that is created, or created again.
    pub(crate) fn fresh_node(
        &self,
        key: &NamespacedName,
        changes: &[SpecChange],
        round: &mut Round<'_, '_>,
    ) -> Option<Node> {
        // Only who stays can bring it (back); of those the spec of the last pass counts for a Kustomization that returns.
        let stays = |id: &NodeId| id.key != *key && self.nodes.iter().any(|node| node.id == *id && node.stays());
        let mut changes: Vec<&SpecChange> = changes.iter().filter(|(parent, ..)| stays(parent)).collect();
        if self.live.contains_key(key) {
            changes.drain(..changes.len().saturating_sub(1));
        }
        changes.dedup_by(|next, earlier| next.2 == earlier.2);
        let (last, earlier) = changes.split_last()?;
        let mut passes = self.brought(key, earlier.iter().copied(), round);
        let (parent, number, desired) = last;
        passes.extend(self.final_passes(key, desired.clone(), Some((parent.clone(), *number)), round));
        Some(Node::fresh(key, passes, None))
    }

    /// A Kustomization that only such bring as go themselves. It may come and act before they go; then it goes with them,
    /// or stays where they leave their objects, and what it may not delete stays in either case.
    pub(crate) fn passing_node(
        &self,
        key: &NamespacedName,
        changes: &[SpecChange],
        fate: &PossibleOutcomes,
        round: &mut Round<'_, '_>,
    ) -> Option<Node> {
        let mut passes = self.brought(key, changes.iter(), round);
        passes.iter_mut().for_each(|pass| pass.optional = true);
        let deletes = passes.last()?.spec.finalizer_deletes(self.world.features.deletion_policy);
        let goes = fate.ends.contains(&FinalState::Never);
        let removal = goes.then(|| Removal {
            triggers: changes.iter().map(|(parent, ..)| SimulationEvent::Finalize(parent.clone())).collect(),
            sure: !fate.ends.contains(&FinalState::Appears),
            finalization: deletes.map_or_else(Finalization::Leaves, |()| Finalization::Deletes),
        });
        Some(Node::fresh(key, passes, removal))
    }

    /// One pass for each specification that a parent brings.
    fn brought<'c>(
        &self,
        key: &NamespacedName,
        changes: impl Iterator<Item = &'c SpecChange>,
        round: &mut Round<'_, '_>,
    ) -> Vec<Pass> {
        changes
            .map(|(parent, number, desired)| {
                self.pass(key, desired.clone(), Some((parent.clone(), *number)), &DataOverrides::new(), round)
            })
            .collect()
    }

    /// The passes with a spec that another follows: the variables may change before the spec does.
    fn earlier_passes(
        &self,
        key: &NamespacedName,
        spec: KustomizationSpec,
        trigger: Trigger,
        round: &mut Round<'_, '_>,
    ) -> Vec<Pass> {
        let mut passes = self.final_passes(key, spec, trigger, round);
        if let [old, new] = passes.as_mut_slice() {
            (old.optional, new.optional) = (new.optional, true);
        }
        passes
    }

    /// The passes with the spec that stays: with the variables as they are, and with what the change makes of them.
    fn final_passes(
        &self,
        key: &NamespacedName,
        spec: KustomizationSpec,
        trigger: Trigger,
        round: &mut Round<'_, '_>,
    ) -> Vec<Pass> {
        let Some(renewed) = self.renewed(key, &spec, round.consequences, round.answers) else {
            return vec![self.pass(key, spec, trigger, &DataOverrides::new(), round)];
        };
        let mut passes = vec![];
        if renewed.old_first != Some(false) {
            let mut old = self.pass(key, spec.clone(), trigger.clone(), &DataOverrides::new(), round);
            old.optional |= renewed.old_first.is_none();
            passes.push(old);
        }
        passes.push(self.pass(key, spec, renewed.by.or(trigger), &renewed.data, round));
        passes
    }

    fn pass(
        &self,
        key: &NamespacedName,
        spec: KustomizationSpec,
        trigger: Trigger,
        replaced: &DataOverrides,
        round: &mut Round<'_, '_>,
    ) -> Pass {
        let (outcome, sure) = self.outcome(key, &spec, replaced, round);
        Pass { spec, trigger, outcome, optional: !sure }
    }

    /// How many Kustomizations a new revision puts in the queue.
    fn queued(&self) -> usize {
        let follows = |(key, live): &(&NamespacedName, &&Resource)| {
            self.world.trees.contains_key(&KustomizationSpec::of(live).source(&key.namespace))
        };
        self.live.iter().filter(follows).count()
    }

    /// What a pass with this spec comes to, and whether it is sure to happen.
    fn outcome(
        &self,
        key: &NamespacedName,
        spec: &KustomizationSpec,
        replaced: &DataOverrides,
        round: &mut Round<'_, '_>,
    ) -> (PassOutcome, bool) {
        let source = spec.source(&key.namespace);
        let elsewhere = |code, detail: String| (PassOutcome::Elsewhere(Reason::new(code, detail)), true);
        if let Some(reason) = self.world.pinned.get(&source) {
            let detail = format!("{source} is not deployed from this ref but from {reason}");
            return elsewhere(ReasonCode::OtherSource, detail);
        }
        let Some(artifact) = self.world.trees.get(&source) else {
            return elsewhere(ReasonCode::OtherSource, format!("{source} is not this tree"));
        };
        let hindrance = self.blocked(key, spec);
        if let Some(hindrance) = hindrance.as_ref().filter(|hindrance| hindrance.sure) {
            return (PassOutcome::Blocked(hindrance.reason.clone()), true);
        }
        let mut context = BuildContext::new(self.world.features, round.answers, &mut round.needs);
        context.overrides = replaced;
        let built = match build::build(artifact, key, spec, &mut context) {
            None => return elsewhere(ReasonCode::NotBuilt, "it is not built yet".to_owned()),
            Some(Err(error @ BuildError::EncryptedPatch(_))) => {
                return elsewhere(ReasonCode::Encrypted, error.to_string());
            }
            Some(Err(BuildError::Failed(message))) => {
                return (PassOutcome::Blocked(Reason::new(ReasonCode::BuildFailed, message)), true);
            }
            Some(Ok(_)) if spec.is_remote() => {
                let detail = "its objects are in another cluster (spec.kubeConfig)";
                return elsewhere(ReasonCode::OtherCluster, detail.to_owned());
            }
            Some(Ok(built)) => built,
        };
        let Some(built) = self.unveiled(key, built, round) else {
            let detail = "the revision that it applied last is not built yet";
            return elsewhere(ReasonCode::NotBuilt, detail.to_owned());
        };
        (self.judged(key, round.scopes.place(built)), hindrance.is_none())
    }

    /// An application that the server refuses stops there.
    fn judged(&self, key: &NamespacedName, outcome: PassOutcome) -> PassOutcome {
        let PassOutcome::Applied(desired) = &outcome else { return outcome };
        let refused = |refusal: &&Refusal| {
            refusal.owner == *key && desired.get(&refusal.id).is_some_and(|built| built.manifest == refusal.manifest)
        };
        match self.refusals.iter().find(refused) {
            Some(refusal) => scope::stopped(desired.clone(), &refusal.id, refusal.why.clone()),
            None => outcome,
        }
    }
}
