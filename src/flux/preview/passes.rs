//! Which reconciliations a Kustomization goes through, with which spec, and what each of them comes to.

use std::collections::{BTreeMap, BTreeSet};

use super::fate::{End, Fate};
use super::model::{Event, Finalization, Node, NodeId, Pass, PassOutcome, Removal};
use super::scope::Scopes;
use super::{Consequences, OrNull, Preview, fate, key_of, spec_of};
use crate::flux::build::{self, Answers, Needs};
use crate::flux::spec::{Key, Spec};
use crate::object::FullObject;
use crate::ownership::Members;
use crate::ownership::flux_kustomization::{self, GROUP, KIND};

impl Preview<'_> {
    /// For every Kustomization the specs that some pass applies, in order: from whom, in which pass, and which.
    pub(super) fn spec_changes(&self) -> BTreeMap<Key, Vec<(NodeId, usize, Spec)>> {
        let mut changes: BTreeMap<Key, Vec<_>> = BTreeMap::new();
        for node in &self.nodes {
            for (number, pass) in node.passes.iter().enumerate() {
                for (id, built) in pass.desired().into_iter().flatten().filter(|(id, _)| id.is(GROUP, KIND)) {
                    let skipped = built.is_marked(fate::RECONCILE, "disabled") || built.is_marked(fate::SSA, "ignore");
                    // Of what is encrypted as a whole only the live spec is known.
                    if !skipped && built.manifest.is_object() {
                        let spec = Spec::new(built.manifest.get("spec").unwrap_or_default_ref());
                        changes.entry(key_of(id)).or_default().push((node.id.clone(), number, spec));
                    }
                }
            }
        }
        changes
    }

    #[expect(clippy::too_many_arguments, reason = "one state of the world, taken apart")]
    pub(super) fn live_node(
        &self,
        key: &Key,
        live: &FullObject,
        changes: &[(NodeId, usize, Spec)],
        consequences: &Consequences<'_>,
        scopes: &Scopes<'_>,
        answers: &Answers,
        needs: &mut Needs,
    ) -> Node {
        let id = NodeId { key: key.clone(), fresh: false };
        let removal = self.removal(key, live, consequences);
        let live_spec = Spec::new(live.at("/spec").unwrap_or_default_ref());
        let object = &live.object;
        let frozen = [fate::RECONCILE, fate::SSA].iter().any(|mark| {
            object.mark(mark).is_some_and(|value| matches!(value.to_lowercase().as_str(), "disabled" | "ignore"))
        });
        let foreign = object.writers.iter().any(|writer| {
            writer.suspend && &*writer.manager != "kustomize-controller" && !writer.manager.starts_with("kubectl")
        });
        let mut specs = vec![(None, live_spec.clone())];
        let mut current = live_spec;
        for (parent, number, desired) in changes.iter().filter(|_| !frozen) {
            let merged = current.merged(desired, foreign);
            if merged != current {
                specs.push((Some((parent.clone(), *number)), merged.clone()));
                current = merged;
            }
        }
        // A dependant waits for its dependency at the new revision; by then its parent has changed the spec.
        let waits = |spec: &Spec| {
            let dependencies = spec.depends_on(&key.namespace);
            let source = spec.source(&key.namespace);
            let same =
                |other: &Key| self.live.get(other).is_some_and(|live| spec_of(live).source(&other.namespace) == source);
            dependencies.iter().any(same)
        };
        if specs.len() > 1 && waits(&specs[0].1) {
            specs.remove(0);
        }
        let crowded = self.queued() > self.world.workers;
        let optional = crowded && specs.len() > 1 && specs[0].0.is_none();
        let mut passes = Vec::new();
        for (number, (trigger, spec)) in specs.into_iter().enumerate() {
            let (outcome, sure) = self.outcome(key, &spec, scopes, answers, needs);
            passes.push(Pass { spec, trigger, outcome, optional: !sure || (optional && number == 0) });
        }
        if object.deleting.is_some() {
            passes.clear();
        }
        let (inventory, unreadable) = match flux_kustomization::inventory_members(&live.content) {
            Members::Listed(ids) => (ids.into_iter().collect(), None),
            Members::Unreadable(why) => (BTreeSet::new(), Some(why)),
            _ => (BTreeSet::new(), None),
        };
        Node { id, passes, removal, inventory, unreadable }
    }

    pub(super) fn fresh_node(
        &self,
        key: &Key,
        changes: &[(NodeId, usize, Spec)],
        scopes: &Scopes<'_>,
        answers: &Answers,
        needs: &mut Needs,
    ) -> Option<Node> {
        // Only who stays can bring it (back); of those the spec of the last pass counts for a Kustomization that returns.
        let stays = |id: &NodeId| id.key != *key && self.nodes.iter().any(|node| node.id == *id && node.stays());
        let mut changes: Vec<_> = changes.iter().filter(|(parent, ..)| stays(parent)).collect();
        if self.live.contains_key(key) {
            changes.drain(..changes.len().saturating_sub(1));
        }
        let mut passes: Vec<Pass> = Vec::new();
        for (parent, number, desired) in changes {
            if passes.last().is_some_and(|pass| pass.spec == *desired) {
                continue;
            }
            let (outcome, sure) = self.outcome(key, desired, scopes, answers, needs);
            let trigger = Some((parent.clone(), *number));
            passes.push(Pass { spec: desired.clone(), trigger, outcome, optional: !sure });
        }
        let id = NodeId { key: key.clone(), fresh: true };
        (!passes.is_empty()).then_some(Node { id, passes, removal: None, inventory: BTreeSet::new(), unreadable: None })
    }

    /// A Kustomization that only such bring as go themselves. It may come and act before they go; then it goes with them,
    /// or stays where they leave their objects, and what it may not delete stays in either case.
    pub(super) fn passing_node(
        &self,
        key: &Key,
        changes: &[(NodeId, usize, Spec)],
        fate: &Fate,
        scopes: &Scopes<'_>,
        answers: &Answers,
        needs: &mut Needs,
    ) -> Option<Node> {
        let mut passes: Vec<Pass> = Vec::new();
        for (parent, number, desired) in changes {
            let (outcome, _) = self.outcome(key, desired, scopes, answers, needs);
            let trigger = Some((parent.clone(), *number));
            passes.push(Pass { spec: desired.clone(), trigger, outcome, optional: true });
        }
        let deletes = passes.last()?.spec.finalizer_deletes(self.world.features.deletion_policy);
        let goes = fate.ends.contains(&End::Never);
        let removal = goes.then(|| Removal {
            triggers: changes.iter().map(|(parent, ..)| Event::Finalize(parent.clone())).collect(),
            sure: !fate.ends.contains(&End::Appears),
            finalization: deletes.map_or_else(Finalization::Leaves, |()| Finalization::Deletes),
        });
        let id = NodeId { key: key.clone(), fresh: true };
        Some(Node { id, passes, removal, inventory: BTreeSet::new(), unreadable: None })
    }

    /// How many Kustomizations a new revision puts in the queue.
    fn queued(&self) -> usize {
        let follows =
            |(key, live): &(&Key, &&FullObject)| self.world.trees.contains_key(&spec_of(live).source(&key.namespace));
        self.live.iter().filter(follows).count()
    }

    /// What a pass with this spec comes to, and whether it is sure to happen.
    fn outcome(
        &self,
        key: &Key,
        spec: &Spec,
        scopes: &Scopes<'_>,
        answers: &Answers,
        needs: &mut Needs,
    ) -> (PassOutcome, bool) {
        let source = spec.source(&key.namespace);
        let elsewhere = |why: String| (PassOutcome::Elsewhere(why), true);
        if let Some(reason) = self.world.pinned.get(&source) {
            return elsewhere(format!("{source} is not deployed from this ref but from {reason}"));
        }
        let Some(artifact) = self.world.trees.get(&source) else {
            return elsewhere(format!("{source} is not this tree"));
        };
        let hindrance = self.blocked(key, spec);
        if let Some(hindrance) = hindrance.as_ref().filter(|hindrance| hindrance.sure) {
            return (PassOutcome::Blocked(hindrance.reason.clone()), true);
        }
        let built = match build::build(artifact, key, spec, self.world.features, answers, needs) {
            None => return elsewhere("it is not built yet".to_owned()),
            Some(Err(reason)) => {
                return match build::needs_key(artifact, spec, self.world.features) {
                    Some(file) => elsewhere(format!("without keys it cannot be built: {file} hides what it patches")),
                    None => (PassOutcome::Blocked(reason), true),
                };
            }
            Some(Ok(_)) if spec.is_remote() => {
                return elsewhere("its objects live in another cluster (spec.kubeConfig)".to_owned());
            }
            Some(Ok(built)) => built,
        };
        let Some(built) = self.unveiled(key, built, answers, needs) else {
            return elsewhere("what it applied last is not built yet".to_owned());
        };
        (scopes.place(built), hindrance.is_none())
    }
}
