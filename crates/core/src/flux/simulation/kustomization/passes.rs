//! The reconciliations of each Kustomization: their specs, and the outcome of each.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::blockers::{blocker, denied_source};
use super::classes::wait_for_classes;
use super::containers::{comes_back, fail_without_containers};
use super::deletions::{changes_of_live, deletion_of};
use super::derivation::Derivation;
use super::ignored_fields::stop_by_ignore_rules;
use super::live_spec::{SpecChange, live_specs};
use super::scope::{stop_at, stop_from};
use super::source_states::{SourceState, may_come_before_its_source, source_states, without_missing_content};
use super::unserved_versions::unserved_objects;
use super::variables::variable_update;
use crate::flux::build;
use crate::flux::build::{BuildContext, BuildFailure, DataOverrides, Interrupt};
use crate::flux::controllers::is_finalizing;
use crate::flux::simulation::model::clusters::in_cluster;
use crate::flux::simulation::model::disclosure::hide_reasons;
use crate::flux::simulation::model::facts::refused_deletions::stuck_kustomization;
use crate::flux::simulation::model::facts::standing_failures::add_standing_failure;
use crate::flux::simulation::model::node::{
    Blocker, BuiltObjects, Finalization, Forced, KustomizationDeletion, Node, NodeId, Pass, PassId, PassOutcome,
    PassSpec, SimulationEvent,
};
use crate::flux::simulation::model::owner_names::{owner_id, relative_clause};
use crate::flux::simulation::model::refusals::{Premise, Refusal};
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::schedule::cycles::has_cycle;
use crate::flux::simulation::schedule::outcomes::FinalState;
use crate::flux::source::artifact::Artifact;
use crate::flux::spec::{KustomizationSpec, NamespacedName, SourceId};
use crate::flux::stages::stage;
use crate::kubernetes::deletion::order::apply_order;
use crate::kubernetes::object::{ObjectId, Resource};
use crate::ownership::Members;
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};
use crate::plan::{Reason, ReasonCode};

/// Returns true if a Kustomization depends on another one of the same source.
fn waits_for_same_source(state: &State<'_>, key: &NamespacedName, spec: &KustomizationSpec) -> bool {
    let source = spec.source(&key.namespace);
    spec.waits_for(&key.namespace, state.input.features.additive_ready_expr).iter().any(|other| {
        state.live.get(other).is_some_and(|live| KustomizationSpec::of(live).source(&other.namespace) == source)
    })
}

/// Stops an application with a spec in the first stage with an object that the server refuses. Returns also the condition of
/// a refusal that the change can end.
fn apply_refusals(
    state: &State<'_>,
    key: &NamespacedName,
    spec: &KustomizationSpec,
    outcome: PassOutcome,
) -> (PassOutcome, Option<Reason>) {
    let (PassOutcome::Applied(objects) | PassOutcome::Partial { desired: objects, .. }) = &outcome else {
        return (outcome, None);
    };
    let custom = &state.input.flags.custom_stage_kinds;
    // A stage that fails in the middle, or after its last object, has passed its check.
    let applied = outcome.applied_objects();
    let missing = objects.keys().filter(|id| applied.is_none_or(|applied| !applied.contains_key(*id)));
    let interrupted = missing.map(|id| stage(id, custom)).min();
    let refusals = refusals_of_run(state, key, spec, objects).filter(|refusal| {
        !comes_back(state, &refusal.id, objects)
            && !was_replaced_before(state, key, spec, &refusal.id)
            && interrupted.is_none_or(|interrupted| stage(&refusal.id, custom) <= interrupted)
    });
    let (open, certain): (Vec<&Refusal>, Vec<&Refusal>) = refusals.partition(|refusal| refusal.condition.is_some());
    let first = certain.into_iter().min_by(|a, b| {
        let [earlier, later] = [a, b].map(|refusal| (stage(&refusal.id, custom), refusal.is_late));
        let order = if a.is_late { apply_order(&a.id, &b.id) } else { Ordering::Equal };
        earlier.cmp(&later).then(order)
    });
    let failing = first.map(|refusal| stage(&refusal.id, custom));
    let mut may_stop =
        open.into_iter().filter(|refusal| failing.is_none_or(|failing| stage(&refusal.id, custom) < failing));
    let condition =
        may_stop.find_map(|refusal| Some(Reason::new(ReasonCode::MayBeRefused, refusal.condition.clone()?)));
    let stopped = first.map(|refusal| {
        let stop = if refusal.is_late { stop_from } else { stop_at };
        stop(objects.clone(), &refusal.id, refusal.message.clone(), custom)
    });
    let is_earlier = stopped.as_ref().is_some_and(|stopped| stopped.applied_objects() != outcome.applied_objects());
    (stopped.filter(|_| is_earlier).unwrap_or(outcome), condition)
}

/// Returns what the server refuses of the objects that a Kustomization applies in a run with a spec.
fn refusals_of_run<'s>(
    state: &'s State<'_>,
    key: &NamespacedName,
    spec: &KustomizationSpec,
    objects: &BuiltObjects,
) -> impl Iterator<Item = &'s Refusal> {
    state.refusals.iter().filter(move |refusal| {
        let built = objects.get(&refusal.id);
        refusal.owner == *key
            && refusal.spec.apply_fields() == spec.apply_fields()
            && built.is_some_and(|built| built.manifest == refusal.manifest)
    })
}

/// Returns the changes without which the server refuses an object that a Kustomization applies in a run with a spec.
fn delays_of_run(
    state: &State<'_>,
    key: &NamespacedName,
    spec: &KustomizationSpec,
    outcome: &PassOutcome,
) -> Vec<Premise> {
    let delays = state.delays.iter().filter(|delay| {
        let built = outcome.applied_objects().and_then(|objects| objects.get(&delay.id));
        delay.owner == *key
            && delay.spec.apply_fields() == spec.apply_fields()
            && built.is_some_and(|built| built.manifest == delay.manifest)
    });
    delays.flat_map(|delay| delay.after.iter().cloned()).collect()
}

/// Returns true if an earlier run of a live Kustomization, with another spec, has created an object anew: what the server
/// refuses to change is gone by then.
pub(crate) fn was_replaced_before(
    state: &State<'_>,
    key: &NamespacedName,
    spec: &KustomizationSpec,
    id: &ObjectId,
) -> bool {
    let passes = state.node(&NodeId::live(key)).map_or(&[][..], |node| &node.passes);
    let earlier = passes.iter().take_while(|pass| pass.spec != *spec);
    earlier.into_iter().any(|pass| !pass.is_optional && pass.condition.is_none() && pass.replaces(id))
}

/// Returns the live objects that a pass with an outcome deletes by force. It asks the server about a whole stage before it
/// applies anything of it, and deletes what it replaces at once.
fn forced_objects(
    state: &State<'_>,
    key: &NamespacedName,
    spec: &KustomizationSpec,
    outcome: &PassOutcome,
) -> BTreeMap<ObjectId, Forced> {
    let (applied, desired) = match outcome {
        PassOutcome::Applied(objects) => (objects, objects),
        PassOutcome::Partial { applied, desired, .. } => (applied, desired),
        PassOutcome::Blocked(_) | PassOutcome::Unknown(_) => return BTreeMap::new(),
    };
    let custom = &state.input.flags.custom_stage_kinds;
    let missing = desired.keys().filter(|id| !applied.contains_key(*id));
    let failing = missing.map(|id| stage(id, custom)).min();
    let certain = refusals_of_run(state, key, spec, desired).filter(|refusal| refusal.condition.is_none());
    let ids = certain.map(|refusal| &refusal.id);
    let refused: Vec<&ObjectId> = ids.filter(|id| Some(stage(id, custom)) == failing).collect();
    let own = state.forced.iter().filter(|forced| {
        let built = desired.get(&forced.id);
        forced.owner == *key
            && forced.spec.apply_fields() == spec.apply_fields()
            && built.is_some_and(|built| built.manifest == forced.manifest)
    });
    let reached = own.filter(|forced| failing.is_none_or(|failing| stage(&forced.id, custom) <= failing));
    let deleted = reached.map(|forced| {
        let in_failing_stage = failing == Some(stage(&forced.id, custom));
        let comes_back = forced.comes_back && !in_failing_stage;
        let is_stuck = refused.is_empty() && stuck_kustomization(state, &forced.id).is_some();
        let is_alone = is_stuck || refused == [&forced.id];
        let is_certain = !in_failing_stage || is_alone;
        (forced.id.clone(), Forced { comes_back, is_certain, reason: forced.reason.clone() })
    });
    deleted.collect()
}

/// Stops an application with a spec at the first Kustomization that it deletes by force and that stays.
fn stop_if_stuck(
    state: &State<'_>,
    key: &NamespacedName,
    spec: &KustomizationSpec,
    outcome: PassOutcome,
) -> PassOutcome {
    let forced = forced_objects(state, key, spec, &outcome);
    let PassOutcome::Applied(objects) = &outcome else { return outcome };
    match forced.keys().find_map(|id| Some((id, stuck_kustomization(state, id)?))) {
        Some((id, failure)) => stop_at(objects.clone(), id, failure, &state.input.flags.custom_stage_kinds),
        None => outcome,
    }
}

impl Derivation<'_, '_> {
    /// Returns the lifetime of a live Kustomization.
    pub(crate) fn live_node(&mut self, key: &NamespacedName, live: &Resource, changes: &[SpecChange]) -> Node {
        let deletion = deletion_of(self, live, changes);
        let mut passes = vec![];
        if live.object.deletion_timestamp.is_none() && !self.is_deleted_while_it_waits(key, live, deletion.as_ref()) {
            passes = self.live_passes(key, live, &changes_of_live(self, live, changes));
        }
        fail_without_containers(self, &NodeId::live(key), &mut passes);
        wait_for_classes(self, key, &mut passes);
        let (inventory, unreadable_inventory) = match self.state.members(live) {
            Members::Listed(ids) => (ids.into_iter().collect(), None),
            Members::Unreadable(error) => (BTreeSet::new(), Some(error)),
            _ => (BTreeSet::new(), None),
        };
        Node {
            id: NodeId::live(key),
            deletion,
            earlier_parents: BTreeSet::new(),
            inventory,
            misplaced: self.state.misplaced_members(live),
            unreadable_inventory,
            unserved: unserved_objects(self.state, &self.definitions, key, live, passes.last()),
            passes,
        }
    }

    fn live_passes(&mut self, key: &NamespacedName, live: &Resource, changes: &[SpecChange]) -> Vec<Pass> {
        let mut specs = live_specs(live, changes, &self.state.input.flags);
        if self.state.live_spec_holds_secrets(live) {
            specs[0].spec = specs[0].spec.clone().with_secrets(true);
        }
        // A dependant waits for its dependency at the new revision; by then its parent has changed the spec, unless the
        // parent waits too.
        let is_waiting = specs.len() > 1 && waits_for_same_source(self.state, key, &specs[0].spec);
        let parent_waits = is_waiting && specs[1].trigger.as_ref().is_some_and(|parent| self.waits(parent));
        if is_waiting && !parent_waits {
            specs.remove(0);
        }
        let source = specs[0].spec.source(&key.namespace);
        // Whatever keeps the workers busy, a suspension that comes first stops everything.
        let is_stopped = specs.last().is_some_and(|last| last.spec.is_suspended());
        let comes_late = self.state.exceeds_workers || parent_waits || is_stopped || has_cycle(self.state, &source);
        let may_be_overtaken = specs.len() > 1 && specs[0].trigger.is_none() && comes_late;
        let last = specs.pop();
        let nexts = specs.iter().skip(1).chain(&last).map(|next| next.trigger.clone()).collect::<Vec<_>>();
        let earlier = specs.into_iter().zip(nexts);
        let mut passes: Vec<Pass> =
            earlier.flat_map(|(spec, next)| self.earlier_passes(key, spec, next.as_ref())).collect();
        if let Some(first) = passes.first_mut() {
            first.is_optional |= may_be_overtaken;
            first.is_needed_without_next &= !may_be_overtaken;
        }
        passes.extend(last.into_iter().flat_map(|spec| self.final_passes(key, spec)));
        for pass in &mut passes {
            self.inherit_condition(pass);
            add_standing_failure(self.state, key, pass);
        }
        passes
    }

    /// Returns true if a Kustomization is deleted before its dependencies have applied the new revision: it never reconciles
    /// that, because it asks for them again only after some time.
    fn is_deleted_while_it_waits(
        &self,
        key: &NamespacedName,
        live: &Resource,
        deletion: Option<&KustomizationDeletion>,
    ) -> bool {
        let Some(deletion) = deletion.filter(|deletion| deletion.is_certain && !self.state.exceeds_workers) else {
            return false;
        };
        let is_delayed = deletion.triggers.iter().any(|event| self.is_delayed(event, &mut BTreeSet::new()));
        !is_delayed && waits_for_same_source(self.state, key, &KustomizationSpec::of(live))
    }

    /// Returns true if an event, or one that leads to it, waits for a dependency.
    fn is_delayed(&self, event: &SimulationEvent, seen: &mut BTreeSet<NodeId>) -> bool {
        let node = match event {
            SimulationEvent::Force(id) | SimulationEvent::Apply(id) | SimulationEvent::Prune(id) => {
                return self.waits(id);
            }
            SimulationEvent::Finalize(node) => node,
        };
        let deletion = self.state.node(node).and_then(|node| node.deletion.as_ref());
        let triggers = deletion.filter(|_| seen.insert(node.clone())).into_iter().flat_map(|it| &it.triggers);
        triggers.into_iter().any(|trigger| self.is_delayed(trigger, seen))
    }

    /// Returns true if a pass, or one that leads to it, waits for a dependency.
    fn waits(&self, id: &PassId) -> bool {
        let (mut seen, mut next) = (BTreeSet::new(), Some(id));
        while let Some(id) = next.filter(|id| seen.insert(*id)) {
            let Some(pass) = self.state.pass(id) else { return false };
            if pass.spec.dependencies(&id.node.key.namespace).next().is_some() {
                return true;
            }
            next = pass.trigger.as_ref();
        }
        false
    }

    /// Makes a pass optional if the pass that applies its spec has a condition.
    fn inherit_condition(&self, pass: &mut Pass) {
        let Some(trigger) = &pass.trigger else { return };
        let Some(condition) = self.state.pass(trigger).and_then(|parent| parent.condition.as_ref()) else { return };
        let detail = relative_clause("its spec comes from", &owner_id(&trigger.node.key), &condition.detail);
        pass.add_condition(Reason::new(condition.code, detail));
    }

    /// Returns the lifetime of a Kustomization that is created or recreated; `None` if it is not.
    pub(crate) fn new_node(&mut self, key: &NamespacedName, changes: &[SpecChange]) -> Option<Node> {
        let id = ObjectId::new(GROUP, KIND, &key.namespace, &key.name);
        let Some(outcomes) = self.consequences.outcomes.get(&id) else {
            let is_absent = !self.state.live.contains_key(key) || self.consequences.cascaded.contains_key(&id);
            if is_absent && self.state.is_generated(&id) {
                return self.created_node(key, changes);
            }
            // The owner that may create it deletes it again.
            let is_new = !self.state.live.contains_key(key);
            let is_passing = is_new && self.state.generated_ids().any(|generated| *generated == id);
            return is_passing.then(|| self.transient_node(key, changes, SimulationEvent::Apply, Some(true)))?;
        };
        if self.consequences.namespace_is_deleted(&id) {
            return None;
        }
        let is_created = outcomes.may_end_as(FinalState::Created) || outcomes.may_end_as(FinalState::Recreated);
        let finalizes_again = self.finalizes_again(key);
        let is_gone = self.consequences.cascaded.contains_key(&id) || finalizes_again;
        let is_recreated = outcomes.is_desired && is_gone && self.may_return(&id);
        let mut created = if is_created || is_recreated { self.created_node(key, changes) } else { None };
        if let Some(node) = &mut created {
            if is_recreated || outcomes.may_end_as(FinalState::Absent) {
                node.passes.iter_mut().for_each(|pass| self.inherit_condition(pass));
            }
            if finalizes_again {
                let detail = format!("nothing is applied until {id}, which is being deleted, is gone");
                let condition = Reason::new(ReasonCode::NotReady, detail);
                node.passes.iter_mut().for_each(|pass| pass.add_condition(condition.clone()));
            }
            fail_without_containers(self, &node.id, &mut node.passes);
            wait_for_classes(self, key, &mut node.passes);
            node.earlier_parents = self.earlier_parents(node, changes);
        }
        if created.is_some() || self.state.live.contains_key(key) || outcomes.appliers.is_empty() {
            return created;
        }
        let is_deleted = outcomes.may_end_as(FinalState::Absent).then(|| !outcomes.may_end_as(FinalState::Created));
        self.transient_node(key, changes, |parent| SimulationEvent::Finalize(parent.node), is_deleted)
    }

    /// Returns the deleted Kustomizations that may apply a new one before its other parents do, and delete it then with its objects.
    fn earlier_parents(&self, node: &Node, changes: &[SpecChange]) -> BTreeSet<NamespacedName> {
        let deletes =
            |spec: &KustomizationSpec| spec.finalizer_deletes(self.state.input.features.deletion_policy).is_ok();
        if self.state.live.contains_key(&node.id.key) || !node.last_pass().is_some_and(|pass| deletes(&pass.spec)) {
            return BTreeSet::new();
        }
        let parents = changes.iter().filter_map(|change| self.state.node(&change.applied.trigger.as_ref()?.node));
        let deleted = parents.filter(|parent| {
            let deletion = parent.deletion.as_ref().filter(|_| !parent.id.is_new);
            deletion.is_some_and(|it| !matches!(it.finalization, Finalization::LeavesObjects(_)))
        });
        deleted.map(|parent| parent.id.key.clone()).collect()
    }

    /// Returns true if a Kustomization is being deleted already, and goes on with that.
    fn finalizes_again(&self, key: &NamespacedName) -> bool {
        let deletion = self.state.node(&NodeId::live(key)).and_then(|node| node.deletion.as_ref());
        deletion.is_some() && self.state.live.get(key).is_some_and(|live| is_finalizing(&live.object))
    }

    /// Returns false if the namespace of an object is deleted and nothing creates it again.
    fn may_return(&self, id: &ObjectId) -> bool {
        let namespace = id.namespace_object();
        let outcomes = self.consequences.outcomes.get(&namespace);
        outcomes.is_none_or(|outcomes| !outcomes.may_be_deleted() || outcomes.may_end_as(FinalState::Recreated))
    }

    /// Returns the lifetime of a Kustomization that is created or recreated, and stays.
    fn created_node(&mut self, key: &NamespacedName, changes: &[SpecChange]) -> Option<Node> {
        // Only a parent that stays creates it for good. It recreates a live Kustomization with the spec of its last pass.
        let mut changes: Vec<&PassSpec> = changes
            .iter()
            .map(|change| &change.applied)
            .filter(|change| change.trigger.as_ref().is_some_and(|by| by.node.key != *key && self.may_stay(&by.node)))
            .collect();
        if self.state.live.contains_key(key) {
            changes.drain(..changes.len().saturating_sub(1));
        }
        changes.dedup_by(|next, earlier| next.spec == earlier.spec);
        let (last, earlier) = changes.split_last()?;
        let mut passes = self.passes_from_parents(key, earlier.iter().copied());
        passes.extend(self.final_passes(key, (*last).clone()));
        Some(Node::new(key, passes, None))
    }

    fn may_stay(&self, id: &NodeId) -> bool {
        self.state.node(id).is_some_and(Node::may_stay)
    }

    /// Returns the lifetime of a Kustomization whose parents are all deleted, or that only a first reaction of them has. It may
    /// be created and reconcile before that. Then it is deleted too, by these events and perhaps for certain, or stays if they
    /// leave their objects behind (`None`). Objects that it may not delete stay in either case.
    fn transient_node(
        &mut self,
        key: &NamespacedName,
        changes: &[SpecChange],
        deleting: impl Fn(PassId) -> SimulationEvent,
        is_deleted: Option<bool>,
    ) -> Option<Node> {
        let mut passes = self.passes_from_parents(key, changes.iter().map(|change| &change.applied));
        passes.iter_mut().for_each(|pass| pass.is_optional = true);
        let deletes_objects = passes.last()?.spec.finalizer_deletes(self.state.input.features.deletion_policy);
        let account = self.state.input.flags.service_account(&passes.last()?.spec).map(str::to_owned);
        let parents = changes.iter().filter_map(|change| change.applied.trigger.as_ref());
        let deletion = is_deleted.map(|is_certain| KustomizationDeletion {
            triggers: parents.cloned().map(deleting).collect(),
            is_certain,
            is_awaited: true,
            account,
            finalization: deletes_objects.map_or_else(Finalization::LeavesObjects, |()| Finalization::DeletesObjects),
        });
        Some(Node::new(key, passes, deletion))
    }

    /// Returns one pass for each spec that a parent applies.
    fn passes_from_parents<'c>(
        &mut self,
        key: &NamespacedName,
        changes: impl Iterator<Item = &'c PassSpec>,
    ) -> Vec<Pass> {
        let mut passes = vec![];
        for change in changes {
            let states = source_states(self.state, key, &change.spec, change.trigger.as_ref());
            passes.extend(states.last().map(|state| self.pass(key, change.clone(), &DataOverrides::new(), state)));
        }
        passes
    }

    /// Returns the passes with a spec that another spec follows, which the pass `next` applies: the variables may change before the
    /// spec does.
    fn earlier_passes(&mut self, key: &NamespacedName, spec: PassSpec, next: Option<&PassId>) -> Vec<Pass> {
        let source = spec.spec.source(&key.namespace);
        let is_generated = self.state.generated.states(&source).is_some();
        let comes_later = next.is_some_and(|next| may_come_before_its_source(self.state, &source, next));
        let is_optional = spec.is_optional || is_generated || comes_later;
        let mut passes = self.final_passes(key, spec);
        if is_optional {
            // The artifact comes later than the revision, and perhaps only after the next spec.
            passes.iter_mut().for_each(|pass| pass.is_optional = true);
        } else if let [old, .., new] = passes.as_mut_slice() {
            (old.is_needed_without_next, new.is_optional) = (true, true);
        }
        passes
    }

    /// Returns the passes with the last spec: with earlier states of the source, with the live variables, and with the
    /// variables after the change.
    fn final_passes(&mut self, key: &NamespacedName, spec: PassSpec) -> Vec<Pass> {
        let states = source_states(self.state, key, &spec.spec, spec.trigger.as_ref());
        let Some((last, earlier)) = states.split_last() else { return vec![] };
        let mut passes: Vec<Pass> =
            earlier.iter().map(|state| self.pass(key, spec.clone(), &DataOverrides::new(), state)).collect();
        for (pass, next) in passes.iter_mut().zip(&states[1..]) {
            // What changes the source itself has found it unchanged before.
            pass.is_optional |= next.trigger.as_ref().is_none_or(|by| by.node.key != *key);
        }
        let Some(update) = variable_update(self, key, &spec.spec) else {
            passes.push(self.pass(key, spec, &DataOverrides::new(), last));
            return passes;
        };
        if update.old_first != Some(false) {
            let mut old = self.pass(key, spec.clone(), &DataOverrides::new(), last);
            old.is_optional |= update.old_first.is_none();
            passes.push(old);
        }
        let trigger = update.applied_by.or(spec.trigger);
        let spec = PassSpec { trigger, ..spec };
        let certain = std::iter::once((&update.data, false));
        let [between, perhaps] = [&update.between, &update.perhaps].map(|all| all.iter().map(|data| (data, true)));
        for (data, is_optional) in between.chain(certain).chain(perhaps) {
            let mut pass = self.pass(key, spec.clone(), data, last);
            pass.is_optional |= is_optional;
            passes.push(pass);
        }
        passes
    }

    /// Returns a pass with its outcome. Its reasons are fixed texts if the spec of the Kustomization holds, or held before the
    /// change, values of a Secret.
    fn pass(&mut self, key: &NamespacedName, spec: PassSpec, overrides: &DataOverrides, source: &SourceState) -> Pass {
        let mut pass = self.detailed_pass(key, spec, overrides, source);
        if self.state.is_private(&ObjectId::new(GROUP, KIND, &key.namespace, &key.name)) {
            hide_reasons(&mut pass);
        }
        pass
    }

    fn detailed_pass(
        &mut self,
        key: &NamespacedName,
        spec: PassSpec,
        overrides: &DataOverrides,
        source: &SourceState,
    ) -> Pass {
        let PassSpec { spec, trigger, is_optional, condition: of_generator } = spec;
        let is_optional = is_optional || source.is_optional;
        let state = self.state;
        let mut condition = None;
        if spec.holds_secrets() {
            let detail = "its spec holds values of a Secret or encrypted ones, and messages about it could show them";
            let outcome = PassOutcome::Unknown(Reason::new(ReasonCode::SecretInSpec, detail));
            return Pass { is_optional, ..Pass::new(spec, trigger, outcome) };
        }
        let mut outcome = match &source.artifact {
            Err(missing @ PassOutcome::Blocked(_)) => match blocker(state, self.consequences, key, &spec) {
                Some(Blocker { reason, is_certain: true }) => PassOutcome::Blocked(reason),
                _ => missing.clone(),
            },
            Err(unknown) => denied_source(state, key, &spec).map_or_else(|| unknown.clone(), PassOutcome::Blocked),
            Ok(artifact) => match blocker(state, self.consequences, key, &spec) {
                Some(Blocker { reason, is_certain: true }) => PassOutcome::Blocked(reason),
                blocker => {
                    condition = blocker.map(|blocker| blocker.reason);
                    self.build_outcome(key, &spec, artifact, overrides)
                }
            },
        };
        if !source.is_generated {
            outcome = missing_path_outcome(outcome, &spec.source(&key.namespace));
        }
        let by_source = source.trigger.as_ref().filter(|pass| trigger.as_ref() != Some(pass));
        if let Some(applying) = by_source.and_then(|pass| self.state.pass(pass)?.condition.clone())
            && condition.is_none()
        {
            let detail = format!("the spec of its source, or of its generator, has a condition: {}", applying.detail);
            condition = Some(Reason::new(applying.code, detail));
        }
        let caused_by = trigger.or_else(|| source.trigger.clone());
        let outcome = without_missing_content(state, key, &spec, outcome);
        let (outcome, refusal) = apply_refusals(state, key, &spec, outcome);
        let (outcome, ignore_rules) = stop_by_ignore_rules(state, key, &spec, outcome);
        let outcome = stop_if_stuck(state, key, &spec, outcome);
        let forced = forced_objects(state, key, &spec, &outcome);
        let after = delays_of_run(state, key, &spec, &outcome);
        let mut pass = Pass { is_optional, forced, after, ..Pass::new(spec, caused_by, outcome) };
        for condition in [of_generator, condition, refusal, ignore_rules].into_iter().flatten() {
            pass.add_condition(condition);
        }
        pass
    }

    /// Returns the outcome of building an artifact and applying the build.
    fn build_outcome(
        &mut self,
        key: &NamespacedName,
        spec: &KustomizationSpec,
        artifact: &Arc<Artifact>,
        overrides: &DataOverrides,
    ) -> PassOutcome {
        let state = self.state;
        let old_variables = state.live.get(key).and_then(|live| live.spec().get("postBuild"));
        let variables_change = !overrides.is_empty() || spec.value().get("postBuild") != old_variables;
        let overrides = state.with_private_data(self.answers, key, spec, Cow::Borrowed(overrides));
        let mut context = BuildContext::new(state.input.features, self.answers, &mut self.needs);
        context.overrides = &overrides;
        let built = match build::build(artifact, key, spec, &mut context) {
            Err(Interrupt::Missing) => {
                return PassOutcome::Unknown(Reason::new(ReasonCode::NotBuilt, "it is not built yet"));
            }
            Ok(built) => built,
            Err(Interrupt::Failed(BuildFailure::Proven(reason))) => return PassOutcome::Blocked(reason),
            Err(Interrupt::Failed(BuildFailure::Unknown(reason))) => return PassOutcome::Unknown(reason),
        };
        let cluster = match state.target_of_pass(key, spec) {
            Ok(cluster) => cluster,
            Err(reason) => return PassOutcome::Unknown(reason),
        };
        let built = in_cluster(&built, cluster.as_ref());
        let Ok(mut built) = self.resolve_encrypted(key, built, variables_change) else {
            let detail = "the revision that it applied last is not built yet";
            return PassOutcome::Unknown(Reason::new(ReasonCode::NotBuilt, detail));
        };
        if state.spec_may_hold_secrets(key, spec) {
            // Nothing is shown that the cluster does not show.
            for object in built.iter_mut().filter(|object| !state.is_live(&object.id)) {
                let is_served = state.input.snapshot.resource_type(&object.id.group_kind()).is_some();
                object.hide(is_served);
            }
        }
        self.place(cluster.as_ref(), built, Some(spec))
    }
}

/// Returns the outcome of a pass whose path may be an empty directory: Git has none, but other artifacts can, and then
/// everything is deleted.
fn missing_path_outcome(outcome: PassOutcome, source: &SourceId) -> PassOutcome {
    match outcome {
        PassOutcome::Blocked(reason) if reason.code == ReasonCode::PathNotFound && source.kind != "GitRepository" => {
            let detail = format!("{}, unless the artifact of {source} has it as an empty directory", reason.detail);
            PassOutcome::Unknown(Reason::new(ReasonCode::PathNotFound, detail))
        }
        outcome => outcome,
    }
}
