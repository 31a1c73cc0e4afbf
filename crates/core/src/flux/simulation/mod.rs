//! Simulation of everything that Flux creates, changes and deletes once a working tree is its source. The algorithm is
//! that of docs/reference/kustomize-controller.md 10.
//!
//! The result depends on itself: builds decide which children exist, parents decide the specs of their children, and
//! both depend on what is deleted. [`Preview::step`] therefore recomputes everything from the last state until nothing
//! changes. It is pure: builds and ConfigMaps that it lacks are returned as needs.

pub mod dry_run;
mod kustomization;
mod model;
pub mod owner_dry_runs;
mod owners;
pub mod rehearsal;
mod rows;
mod schedule;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};

use crate::flux::apply::AppliedObject;
use crate::flux::build::{Answers, Needs};
use crate::flux::simulation::kustomization::derivation::derive_nodes;
use crate::flux::simulation::model::refused_deletions::refused_owners;
use crate::flux::simulation::rows::plan;
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::deletion::cascade::{Cascade, CascadedObject};
use crate::kubernetes::object::{ObjectId, ObjectMetadata, Resource};
use crate::kubernetes::question::OwnerQuestion;
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};
use crate::plan::Plan;
use crate::plan::mask::SecretMask;
use model::affected_owner::Effect;
use model::generated_artifacts::GeneratedArtifacts;
pub use model::refusals::Refusal;
pub use model::state::PreviewInput;
use model::state::State;
use owner_dry_runs::OwnerDryRuns;
use owners::finalizers::Finalized;
use rehearsal::{AppliedBuilds, DeletionRefusal, PlannedDeletion};
use rows::secret_names::secret_mask;
use schedule::consequences::Consequences;
use schedule::cycles::find_cycles;
use schedule::event_order::EventOrder;
use schedule::explore::explore;
use schedule::outcomes::Rules;

/// Maximum number of recomputations. Kustomizations nested this deep do not occur.
const MAX_ROUNDS: usize = 24;

/// Result of a step.
pub enum Progress {
    /// The preview needs these answers to continue.
    Needs(Needs),
    /// The preview is complete.
    Done(Box<Plan>),
}

/// A preview in progress.
pub struct Preview<'a> {
    state: State<'a>,
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
    pub fn new(input: PreviewInput<'a>) -> Self {
        let snapshot = input.snapshot;
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
            cascade: Cascade::new(snapshot),
            input,
            live,
            nodes: Vec::new(),
            refusals: vec![],
            deletion_refusals: vec![],
            owner_dry_runs: OwnerDryRuns::default(),
            unfollowed: vec![],
            remote_owners: vec![],
            generated: GeneratedArtifacts::default(),
            generations: BTreeMap::new(),
        };
        Self { state }
    }

    /// Sets the refusals of the server; the next [`Preview::step`] recomputes the plan with them. Returns false if they are
    /// the same as before.
    pub fn set_refusals(&mut self, refusals: Vec<Refusal>, deletions: Vec<DeletionRefusal>) -> bool {
        let is_changed = refusals != self.state.refusals || deletions != self.state.deletion_refusals;
        (self.state.refusals, self.state.deletion_refusals) = (refusals, deletions);
        is_changed
    }

    /// Sets the answers about changes of owners; the next [`Preview::step`] recomputes the plan with them. Returns false if
    /// they are the same as before.
    pub fn set_owner_dry_runs(&mut self, answers: OwnerDryRuns) -> bool {
        let is_changed = answers != self.state.owner_dry_runs;
        self.state.owner_dry_runs = answers;
        is_changed
    }

    /// Continues with the answers so far.
    pub fn step(&mut self, answers: &Answers) -> Progress {
        for _ in 0..MAX_ROUNDS {
            let consequences = self.consequences();
            let generated = self.state.generated(&consequences);
            let is_generated = generated == self.state.generated;
            self.state.generated = generated;
            let (nodes, needs) = derive_nodes(&self.state, &consequences, answers);
            let is_stable = is_generated && nodes == self.state.nodes;
            self.state.nodes = nodes;
            if !needs.is_empty() {
                return Progress::Needs(needs);
            }
            if is_stable {
                let (unfollowed, remote_owners, needs) = self.state.find_unfollowed(&consequences, answers);
                if !needs.is_empty() {
                    return Progress::Needs(needs);
                }
                self.state.remote_owners = remote_owners;
                // Objects that upgrades and ResourceSets change have consequences of their own.
                let is_followed = unfollowed == self.state.unfollowed
                    || !unfollowed
                        .iter()
                        .chain(&self.state.unfollowed)
                        .any(|found| matches!(found.effect, Effect::Upgrades(..) | Effect::Expands(..)));
                self.state.unfollowed = unfollowed;
                if is_followed {
                    return Progress::Done(Box::new(plan(&self.state, &consequences, true)));
                }
            }
        }
        let consequences = self.consequences();
        Progress::Done(Box::new(plan(&self.state, &consequences, false)))
    }

    /// Returns every object that a Kustomization applies in its last pass, unless the Kustomization is deleted. Call it
    /// when the preview is complete. An object of two Kustomizations is returned twice.
    pub fn applied_objects(&self) -> Vec<AppliedObject> {
        self.state.applied_objects()
    }

    /// Builds the last applied revisions that were verified. Call it when the preview is complete: the builds are known.
    pub fn applied_builds(&self, answers: &Answers) -> AppliedBuilds {
        self.state.applied_builds(answers)
    }

    /// Returns the objects that a Kustomization applies in its last pass and that are new or have another manifest than in
    /// the last applied revision, and those that it may only delete by force.
    pub fn changed_objects(&self, applied: &AppliedBuilds) -> Vec<AppliedObject> {
        self.state.changed_objects(applied)
    }

    /// Returns the deletions of a plan of this preview that kustomize-controller sends.
    pub fn planned_deletions(&self, plan: &Plan) -> Vec<PlannedDeletion<'a>> {
        self.state.planned_deletions(plan)
    }

    /// Returns the changes of upgrades and of ResourceSets that the API server is asked about. Call it when the preview is
    /// complete.
    pub fn owner_questions(&self) -> Vec<OwnerQuestion> {
        self.state.owner_questions()
    }

    /// Returns the names that hold values of Secrets. Call it when the preview is complete.
    pub fn secret_mask(&self, answers: &Answers) -> SecretMask {
        secret_mask(&self.state, answers)
    }

    /// Returns the possible outcomes of every object that a Kustomization lists or applies, and the cascade.
    fn consequences(&self) -> Consequences<'a> {
        let order = EventOrder::new(&self.state.nodes, self.state.input.features);
        let rules = Rules { features: self.state.input.features, flags: &self.state.input.flags };
        let mut outcomes = BTreeMap::new();
        for (id, nodes) in self.state.nodes_by_object() {
            let mut refused = refused_owners(&self.state, id);
            let unserved = nodes.iter().filter(|node| node.unserved.get(id).is_some_and(|found| found.is_certain));
            refused.extend(unserved.map(|node| &node.id.key));
            let explored = explore(id, self.state.live_object(id), &nodes, &order, rules, &refused);
            outcomes.insert(id.clone(), explored);
        }
        let deleted = outcomes.iter().filter(|(_, outcomes)| outcomes.may_be_deleted());
        let mut roots: Vec<&'a ObjectMetadata> = deleted.filter_map(|(id, _)| self.state.live_object(id)).collect();
        let mut finalized = Finalized::default();
        let cascaded = self.cascade_of(&roots, &finalized.orphaning);
        let mut consequences = Consequences { outcomes, cascaded, order, acting: BTreeMap::new() };
        loop {
            let more = self.state.finalized_objects(&consequences);
            consequences.acting = more.acting;
            if more.objects.is_empty() {
                return consequences;
            }
            roots.extend(more.objects.values().map(|cascaded| cascaded.object));
            finalized.objects.extend(more.objects);
            finalized.orphaning.extend(more.orphaning);
            consequences.cascaded = self.cascade_of(&roots, &finalized.orphaning);
            consequences.cascaded.extend(finalized.objects.iter().map(|(id, cascaded)| (id.clone(), cascaded.clone())));
        }
    }

    fn cascade_of(
        &self,
        roots: &[&'a ObjectMetadata],
        orphaning: &HashSet<&str>,
    ) -> BTreeMap<ObjectId, CascadedObject<'a>> {
        let cascaded = self.state.cascade.closure_without_orphans(roots.iter().copied(), orphaning).into_iter();
        cascaded.map(|cascaded| (cascaded.object.id.clone(), cascaded)).collect()
    }
}
