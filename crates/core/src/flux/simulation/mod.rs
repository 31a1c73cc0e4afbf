//! Simulation of everything that Flux creates, changes and deletes once a working tree is its source. The algorithm is
//! that of docs/reference/kustomize-controller.md 10.
//!
//! The result depends on itself: builds decide which children exist, parents decide the specs of their children, and
//! both depend on what is deleted. [`Preview::step`] therefore recomputes everything from the last state until nothing
//! changes. It is pure: builds, ConfigMaps and answers of the API server that it lacks are returned as needs.

mod after;
mod declared;
mod dry_run;
mod kustomization;
mod model;
mod owners;
mod premises;
mod rehearsal;
mod rows;
mod schedule;
#[cfg(any(test, feature = "testing"))]
#[cfg_attr(not(test), allow(dead_code))]
pub mod testing;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use crate::flux::apply::question::Question;
use crate::flux::simulation::kustomization::derivation::derive_nodes;
use crate::flux::simulation::model::facts::live_secrets::find_live_secrets;
use crate::flux::simulation::model::facts::refused_deletions::refused_runs;
use crate::flux::simulation::model::held_deletions::Holders;
use crate::flux::simulation::rows::plan;
use crate::flux::simulation::schedule::dependency_order::longest_chain;
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::deletion::cascade::{Cascade, CascadedObject, Closure};
use crate::kubernetes::deletion::volumes::PolicyChanges;
use crate::kubernetes::object::{ObjectId, ObjectMetadata, Resource};
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};
use crate::plan::{Actor, Plan};
pub use after::StateAfter;
pub use declared::{Declared, Recorded};
use model::generated_artifacts::GeneratedArtifacts;
pub use model::input::{DryRunScope, PreviewInput};
use model::node::{Node, Nodes};
use model::protection::{is_never_applied, is_never_changed, prune_protection};
pub use model::questions;
use model::questions::{Answers, FinishedPreview, Progress};
use model::refusals::CascadeRefusal;
use model::secret_values::SecretValues;
use model::state::State;
use owners::effects::{OwnerDeletions, owner_deletions, owner_effects};
use owners::generator::generated;
use owners::generator::repositories::stuck_sources;
pub use owners::generator::repositories::{Packed, packed};
use owners::search::{Found, find_affected};
use premises::cascades::cascade_refusals;
use premises::world::event_order;
use rehearsal::{Reconsidered, Rehearsal, take_changed_health, take_refused_deletions};
use schedule::consequences::Consequences;
use schedule::cycles::find_cycles;
use schedule::explore::explore;
use schedule::object_events::ObjectApply;
use schedule::outcomes::{FinalState, PossibleOutcomes, Rules};
use schedule::reclaim_policies::policy_changes;

/// Maximum number of recomputations, beside one for each link of the longest chain of dependencies. Kustomizations nested this
/// deep do not occur.
const MAX_ROUNDS: usize = 24;

/// A preview in progress.
pub struct Preview<'a> {
    state: State<'a>,
    /// Changes by other owners than Kustomizations that the last state depends on.
    owner_questions: Vec<Question>,
    rehearsal: Rehearsal,
}

/// Returns true if a new Kustomization takes over a live object, so that its finalizer would delete it.
fn is_taken_over(node: &Node, live: &ObjectMetadata, rules: Rules<'_>) -> bool {
    let is_free = !is_never_changed(live) && prune_protection(live, rules.features).is_none();
    is_free
        && node.passes.iter().any(|pass| {
            let built = pass.applied(&live.id).filter(|built| !is_never_applied(built, &pass.spec));
            built.is_some_and(|built| !ObjectApply::new(built, &pass.spec, &node.id.key, rules.features).protects)
        })
}

/// Returns true if a Kustomization of any source keeps a worker busy, because it waits for health until its timeout, again and
/// again.
fn waits_in_vain(live: &Resource, spec: &KustomizationSpec) -> bool {
    let is_waiting = spec.checks_health() && !spec.is_suspended();
    is_waiting
        && live.condition("Ready").is_some_and(|ready| {
            ready.status == "Unknown" || (ready.status == "False" && ready.reason == "HealthCheckFailed")
        })
}

impl<'a> Preview<'a> {
    /// Starts with every live Kustomization and its live spec.
    pub fn new(mut input: PreviewInput<'a>) -> Self {
        let snapshot = input.snapshot;
        let stuck_sources = stuck_sources(&input);
        input.trees.retain(|source, _| !stuck_sources.contains_key(source));
        let kustomizations = snapshot.resources.iter().filter(|full| full.object.id.is(GROUP, KIND));
        let live: BTreeMap<NamespacedName, &Resource> =
            kustomizations.map(|full| (NamespacedName::of(&full.object.id), full)).collect();
        let busy = live.iter().filter(|(key, live)| {
            let spec = KustomizationSpec::of(live);
            input.trees.contains_key(&spec.source(&key.namespace)) || waits_in_vain(live, &spec)
        });
        let state = State {
            exceeds_workers: busy.count() > input.workers,
            cycles: find_cycles(&live),
            stuck_sources,
            cascade: Cascade::new(snapshot),
            holders: Arc::new(Holders::new(snapshot)),
            input,
            live,
            nodes: Nodes::default(),
            refusals: vec![],
            delays: vec![],
            forced: vec![],
            changed_health: BTreeSet::new(),
            deletion_refusals: vec![],
            owner_refusals: BTreeMap::new(),
            owner_doubts: Arc::default(),
            cascade_refusals: Arc::default(),
            stored_releases: BTreeMap::new(),
            affected: vec![],
            secrets: SecretValues::default(),
            generated: GeneratedArtifacts::default(),
            generations: BTreeMap::new(),
        };
        Self { state, owner_questions: vec![], rehearsal: Rehearsal::default() }
    }

    /// Continues with the answers so far.
    pub fn step(&mut self, answers: &Answers) -> Progress<Box<FinishedPreview>> {
        let needs = find_live_secrets(&mut self.state, &answers.builds);
        if !needs.is_empty() {
            return Progress::of_builds(needs);
        }
        if let Some(plan) = self.rehearsal.confirmed_plan(&mut self.state, &self.owner_questions, answers) {
            return Progress::Done(self.rehearsal.finish(&self.state, plan, answers));
        }
        loop {
            match self.settle(answers) {
                Progress::Done(plan) => {
                    if take_changed_health(&mut self.state, answers) || take_refused_deletions(&mut self.state, &plan) {
                        continue;
                    }
                    match self.rehearsal.reconsider(&mut self.state, &plan, &self.owner_questions, answers) {
                        Reconsidered::Confirmed => {}
                        // The plan changes what its answers depend on.
                        Reconsidered::Changed => continue,
                        Reconsidered::Needs(needs) => {
                            self.rehearsal.ask(&needs.dry_runs);
                            return Progress::Needs(needs);
                        }
                    }
                    let of_owners = self.owner_questions.clone();
                    return self.rehearsal.rehearse(&self.state, plan, of_owners, answers);
                }
                Progress::Needs(needs) => return Progress::Needs(needs),
            }
        }
    }

    /// Recomputes the state until it is stable, and returns its plan.
    fn settle(&mut self, answers: &Answers) -> Progress<Plan> {
        let mut round = 0;
        while round < MAX_ROUNDS + longest_chain(&self.state) && !self.state.is_late() {
            round += 1;
            let consequences = self.consequences();
            let generated = generated(&mut self.state, &consequences);
            let is_generated = generated == self.state.generated;
            self.state.generated = generated;
            let (nodes, needs) = derive_nodes(&self.state, &consequences, answers);
            let is_stable = is_generated && *nodes == *self.state.nodes;
            self.state.nodes = Nodes::new(nodes);
            if !needs.is_empty() {
                return Progress::of_builds(needs);
            }
            if is_stable {
                let Found { affected, refusals, stored, needs } = find_affected(&self.state, &consequences, answers);
                if !needs.builds.is_empty() {
                    return Progress::of_builds(needs.builds);
                }
                let (cascade_refusals, of_cascades) = cascade_refusals(&self.state, &consequences, answers);
                if !of_cascades.builds.is_empty() {
                    return Progress::of_builds(of_cascades.builds);
                }
                self.owner_questions = needs.dry_runs.into_iter().chain(of_cascades.dry_runs).collect();
                let is_known = refusals == self.state.owner_refusals
                    && stored == self.state.stored_releases
                    && cascade_refusals == *self.state.cascade_refusals;
                self.state.cascade_refusals = Arc::new(cascade_refusals);
                (self.state.owner_refusals, self.state.stored_releases) = (refusals, stored);
                // Objects that other owners change have consequences of their own.
                let mut before_and_after = affected.iter().chain(&self.state.affected);
                let is_followed =
                    affected == self.state.affected || before_and_after.all(|owner| owner.effect.is_none());
                self.state.affected = affected;
                if is_followed && is_known {
                    return Progress::Done(plan(&self.state, &consequences, true));
                }
            }
        }
        let consequences = self.consequences();
        Progress::Done(plan(&self.state, &consequences, false))
    }

    /// Returns the possible outcomes of every object that a Kustomization lists or applies, and the cascade.
    fn consequences(&self) -> Consequences<'a> {
        let order = event_order(&self.state);
        let rules = Rules { features: self.state.input.features, flags: &self.state.input.flags };
        let mut outcomes = BTreeMap::new();
        for (id, nodes) in self.state.nodes_by_object() {
            let mut refused = refused_runs(&self.state, id);
            let unserved = nodes.iter().filter(|node| node.unserved.get(id).is_some_and(|found| found.is_certain));
            unserved.for_each(|node| refused.add_every_run(&node.id.key));
            let is_by_hand = self.state.input.by_hand.contains(id);
            let live = self.state.live_object(id).filter(|_| !is_by_hand);
            let mut explored = explore(id, live, &nodes, &order, rules, &refused);
            for node in nodes.iter().filter(|node| !node.earlier_parents.is_empty()) {
                if live.is_some_and(|live| is_taken_over(node, live, rules)) {
                    explored.add_restart(&node.id);
                }
            }
            outcomes.insert(id.clone(), if is_by_hand { explored.after_deletion() } else { explored });
        }
        for id in &self.state.input.by_hand {
            outcomes.entry(id.clone()).or_insert_with(|| PossibleOutcomes::of_state(FinalState::Deleted));
        }
        let deleted = outcomes.iter().filter(|(_, outcomes)| outcomes.may_be_deleted());
        let mut roots: Vec<&'a ObjectMetadata> = deleted.filter_map(|(id, _)| self.state.live_object(id)).collect();
        let mut by_owners = OwnerDeletions::default();
        let policies = policy_changes(&self.state, &outcomes, &order);
        let closure = self.cascade_of(&roots, &by_owners.orphaning, &policies);
        let mut consequences = Consequences {
            outcomes,
            cascaded: by_id(closure.deleted),
            kept: by_id(closure.kept),
            refusals: Arc::clone(&self.state.cascade_refusals),
            order,
            policies,
            effects: BTreeMap::new(),
            holders: Arc::clone(&self.state.holders),
        };
        loop {
            consequences.effects = owner_effects(&self.state, &consequences);
            let more = owner_deletions(&self.state, &consequences);
            if more.objects.is_empty() {
                return consequences;
            }
            roots.extend(more.objects.values().map(|cascaded| cascaded.object));
            by_owners.objects.extend(more.objects);
            by_owners.orphaning.extend(more.orphaning);
            let closure = self.cascade_of(&roots, &by_owners.orphaning, &consequences.policies);
            (consequences.cascaded, consequences.kept) = (by_id(closure.deleted), by_id(closure.kept));
            consequences.cascaded.extend(by_owners.objects.iter().map(|(id, cascaded)| (id.clone(), cascaded.clone())));
        }
    }

    fn cascade_of(
        &self,
        roots: &[&'a ObjectMetadata],
        orphaning: &HashSet<&str>,
        policies: &PolicyChanges,
    ) -> Closure<'a> {
        self.state.cascade.closure_with(roots.iter().copied(), orphaning, policies, |cascaded| {
            let key = (Actor::from(cascaded.kind), cascaded.object.id.clone());
            matches!(self.state.cascade_refusals.get(&key), Some(CascadeRefusal::Refused(_)))
        })
    }
}

fn by_id(objects: Vec<CascadedObject<'_>>) -> BTreeMap<ObjectId, CascadedObject<'_>> {
    objects.into_iter().map(|cascaded| (cascaded.object.id.clone(), cascaded)).collect()
}
