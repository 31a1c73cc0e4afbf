//! Simulation of everything that Flux creates, changes and deletes once a working tree is its source. The algorithm is
//! that of docs/reference/kustomize-controller.md 10.
//!
//! The result depends on itself: builds decide which children exist, parents decide the specs of their children, and
//! both depend on what is deleted. [`Preview::step`] therefore recomputes everything from the last state until nothing
//! changes. It is pure: builds and ConfigMaps that it lacks are returned as needs.

mod affected;
mod affected_kustomizations;
mod affected_owners;
mod applied;
mod applied_specs;
mod blockers;
mod comparison;
mod cycles;
mod deletions;
pub mod dry_run;
mod effective;
mod emptied;
mod encrypted;
mod event_order;
mod explore;
mod finalizers;
mod generated_artifacts;
mod generator_sources;
mod generators;
mod helm_uninstall;
mod live_spec;
mod model;
mod orders;
pub mod owner_dry_runs;
mod owners;
mod passes;
mod protection;
mod race_conditions;
mod references;
pub mod rehearsal;
mod release_charts;
mod replaced_releases;
mod resource_sets;
mod rows;
mod schedule;
mod scope;
mod secrets;
mod sources;
mod spokes;
#[cfg(test)]
mod tests;
mod unfollowed;
mod unfollowed_rows;
mod unserved;
mod upgrades;
mod vanishing;
mod variables;
mod waits;
mod watched;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::build::{Answers, Needs};
use super::controller_flags::ControllerFlags;
use super::generator::Generation;
use super::kustomize_controller::Features;
use super::source::artifact::Artifact;
use super::spec::{KustomizationSpec, NamespacedName, SourceId};
use crate::kubernetes::deletion::cascade::{Cascade, CascadedObject};
use crate::kubernetes::object::{ObjectId, ObjectMetadata, Resource};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};
use crate::plan::{Fidelity, Plan};
use cycles::find_cycles;
use event_order::EventOrder;
use explore::{FinalState, PossibleOutcomes, Rules, explore};
use finalizers::Finalized;
use generated_artifacts::GeneratedArtifacts;
use model::{Node, NodeId, Pass, SimulationEvent};
use owner_dry_runs::OwnerDryRuns;
use passes::Derivation;
use rehearsal::DeletionRefusal;
use spokes::RemoteOwner;
use unfollowed::{Effect, Unfollowed};

/// Maximum number of recomputations. Kustomizations nested this deep do not occur.
const MAX_ROUNDS: usize = 24;

/// Everything that a preview reads.
pub struct PreviewInput<'a> {
    pub snapshot: &'a Snapshot,
    /// Artifacts of the sources that the working tree becomes.
    pub trees: BTreeMap<SourceId, Arc<Artifact>>,
    /// Sources of this repository that are deployed from another ref, with that ref.
    pub pinned: BTreeMap<SourceId, String>,
    /// Rules of the controller's version.
    pub features: Features,
    /// Flags of the controller.
    pub flags: ControllerFlags,
    /// Number of Kustomizations that the controller reconciles at once.
    pub workers: usize,
    /// Result of the self-check of each Kustomization.
    pub fidelity: BTreeMap<NamespacedName, Fidelity>,
    /// Artifacts that the Kustomizations applied last, where git has them.
    pub last_applied: BTreeMap<NamespacedName, Arc<Artifact>>,
    /// Artifacts that the sources of the trees, and the artifacts that are generated of them, have now, where git has them.
    pub deployed: BTreeMap<SourceId, Arc<Artifact>>,
    /// Generated artifacts that source-watcher stores with another content than is generated here.
    pub differing_artifacts: BTreeSet<SourceId>,
    /// The flag `--no-cross-namespace-refs` of source-watcher.
    pub generators_deny_other_namespaces: bool,
    /// Charts in the folder of `--charts`, as `NAME-VERSION`; `None` without the flag.
    pub charts: Option<BTreeSet<String>>,
    /// Charts may be fetched from their repositories.
    pub fetches_charts: bool,
}

/// Result of a step.
pub enum Progress {
    /// The preview needs these answers to continue.
    Needs(Needs),
    /// The preview is complete.
    Done(Box<Plan>),
}

/// A preview in progress.
pub struct Preview<'a> {
    input: PreviewInput<'a>,
    cascade: Cascade<'a>,
    live: BTreeMap<NamespacedName, &'a Resource>,
    /// A new revision puts more Kustomizations in the queue than there are workers that do not wait for health.
    exceeds_workers: bool,
    /// Sorted by identity.
    nodes: Vec<Node>,
    refusals: Vec<Refusal>,
    deletion_refusals: Vec<DeletionRefusal>,
    owner_dry_runs: OwnerDryRuns,
    /// Live Kustomizations that depend on themselves, by source.
    cycles: BTreeMap<SourceId, BTreeSet<NamespacedName>>,
    /// Affected owners other than Kustomizations.
    unfollowed: Vec<Unfollowed>,
    /// Objects of Flux in other clusters that change.
    remote_owners: Vec<RemoteOwner>,
    /// Artifacts of ArtifactGenerators.
    generated: GeneratedArtifacts,
    /// Results of generators so far, by everything that they depend on.
    generations: BTreeMap<String, Arc<Generation>>,
}

/// A refusal of the server to apply an object of a Kustomization.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// Kustomization that applies the object.
    pub owner: NamespacedName,
    /// Identity of the object.
    pub id: ObjectId,
    /// Manifest that is refused.
    pub manifest: Arc<serde_json::Value>,
    /// Message of the server.
    pub message: String,
}

/// Effects of one state of the Kustomizations on all objects.
struct Consequences<'a> {
    outcomes: BTreeMap<ObjectId, PossibleOutcomes>,
    cascaded: BTreeMap<ObjectId, CascadedObject<'a>>,
    /// Order of the events that caused them.
    order: EventOrder,
    /// Owners that stay and delete objects all the same.
    acting: BTreeMap<ObjectId, ActingOwner>,
}

/// An owner that stays and deletes objects all the same: a HelmRelease whose release is replaced or upgraded, a generator that
/// makes fewer artifacts, or a ResourceSet that generates fewer resources.
struct ActingOwner {
    /// Events that make it delete.
    triggers: BTreeSet<SimulationEvent>,
    /// Every order of events has these deletions, except those in `doubtful`.
    is_certain: bool,
    doubtful: BTreeSet<ObjectId>,
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

impl Consequences<'_> {
    /// Returns true if a live object is deleted in some order of events, in its own right or by a cascade.
    fn may_be_deleted(&self, id: &ObjectId) -> bool {
        self.outcomes.get(id).is_some_and(PossibleOutcomes::may_be_deleted) || self.cascaded.contains_key(id)
    }

    /// Returns true if a live object is deleted and created again in some order of events.
    fn may_be_recreated(&self, id: &ObjectId) -> bool {
        self.outcomes.get(id).is_some_and(|outcomes| outcomes.may_end_as(FinalState::Recreated))
    }

    /// Returns true if the namespace of an object is deleted and not created again.
    fn namespace_is_deleted(&self, id: &ObjectId) -> bool {
        let namespace = id.namespace_object();
        !id.namespace.is_empty()
            && self.outcomes.get(&namespace).is_some_and(|outcomes| outcomes.always_ends_as(FinalState::Deleted))
    }

    /// Returns the events that started the cascade of a deletion, and true if every order of events starts it.
    fn triggers_of(&self, cascaded: &CascadedObject<'_>) -> Option<(BTreeSet<SimulationEvent>, bool)> {
        let root = self.root_of(&cascaded.cause);
        match self.acting.get(root) {
            Some(owner) => Some((owner.triggers.clone(), owner.is_certain && !self.is_doubtful(cascaded))),
            None => self.outcomes.get(root).map(|outcomes| (outcomes.deletions.clone(), outcomes.is_deleted())),
        }
    }

    /// Returns true if a deletion, or one that it follows from, is not certain although its owner acts for certain.
    fn is_doubtful(&self, cascaded: &CascadedObject<'_>) -> bool {
        let Some(owner) = self.acting.get(self.root_of(&cascaded.cause)) else { return false };
        let mut id = &cascaded.object.id;
        for _ in 0..=self.cascaded.len() {
            match self.cascaded.get(id) {
                _ if owner.doubtful.contains(id) => return true,
                Some(next) => id = &next.cause,
                None => break,
            }
        }
        false
    }

    /// Returns the object whose deletion, or which acts and stays, started a cascade.
    fn root_of<'c>(&'c self, mut cause: &'c ObjectId) -> &'c ObjectId {
        for _ in 0..=self.cascaded.len() {
            match self.cascaded.get(cause) {
                Some(cascaded) => cause = &cascaded.cause,
                None => break,
            }
        }
        cause
    }
}

impl<'a> Preview<'a> {
    /// Starts with every live Kustomization and its live spec.
    pub fn new(input: PreviewInput<'a>) -> Self {
        let snapshot = input.snapshot;
        let kustomizations = snapshot.resources.iter().filter(|full| full.object.id.is(GROUP, KIND));
        let live: BTreeMap<NamespacedName, &Resource> =
            kustomizations.map(|full| (NamespacedName::of(&full.object.id), full)).collect();
        let needs_worker = |(key, live): &(&NamespacedName, &&Resource)| {
            let spec = KustomizationSpec::of(live);
            input.trees.contains_key(&spec.source(&key.namespace)) || waits_in_vain(live, &spec)
        };
        Self {
            exceeds_workers: live.iter().filter(needs_worker).count() > input.workers,
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
        }
    }

    /// Sets the refusals of the server; the next [`Preview::step`] recomputes the plan with them. Returns false if they are
    /// the same as before.
    pub fn set_refusals(&mut self, refusals: Vec<Refusal>, deletions: Vec<DeletionRefusal>) -> bool {
        let is_changed = refusals != self.refusals || deletions != self.deletion_refusals;
        (self.refusals, self.deletion_refusals) = (refusals, deletions);
        is_changed
    }

    /// Continues with the answers so far.
    pub fn step(&mut self, answers: &Answers) -> Progress {
        for _ in 0..MAX_ROUNDS {
            let consequences = self.consequences();
            let generated = self.generated(&consequences);
            let is_generated = generated == self.generated;
            self.generated = generated;
            let (nodes, needs) = self.derive_nodes(&consequences, answers);
            let is_stable = is_generated && nodes == self.nodes;
            self.nodes = nodes;
            if !needs.is_empty() {
                return Progress::Needs(needs);
            }
            if is_stable {
                let (unfollowed, remote_owners, needs) = self.find_unfollowed(&consequences, answers);
                if !needs.is_empty() {
                    return Progress::Needs(needs);
                }
                self.remote_owners = remote_owners;
                // Objects that upgrades and ResourceSets change have consequences of their own.
                let is_followed = unfollowed == self.unfollowed
                    || !unfollowed
                        .iter()
                        .chain(&self.unfollowed)
                        .any(|found| matches!(found.effect, Effect::Upgrades(..) | Effect::Expands(..)));
                self.unfollowed = unfollowed;
                if is_followed {
                    return Progress::Done(Box::new(self.plan(&consequences, true)));
                }
            }
        }
        let consequences = self.consequences();
        Progress::Done(Box::new(self.plan(&consequences, false)))
    }

    fn live_object(&self, id: &ObjectId) -> Option<&'a ObjectMetadata> {
        self.input.snapshot.object(id)
    }

    /// Returns the possible outcomes of every object that a Kustomization lists or applies, and the cascade.
    fn consequences(&self) -> Consequences<'a> {
        let order = EventOrder::new(&self.nodes, self.input.features);
        let rules = Rules { features: self.input.features, flags: &self.input.flags };
        let mut outcomes = BTreeMap::new();
        for (id, nodes) in self.nodes_by_object() {
            let mut refused = self.refused_owners(id);
            let unserved = nodes.iter().filter(|node| node.unserved.get(id).is_some_and(|found| found.is_certain));
            refused.extend(unserved.map(|node| &node.id.key));
            let explored = explore(id, self.live_object(id), &nodes, &order, rules, &refused);
            outcomes.insert(id.clone(), explored);
        }
        let deleted = outcomes.iter().filter(|(_, outcomes)| outcomes.may_be_deleted());
        let mut roots: Vec<&'a ObjectMetadata> = deleted.filter_map(|(id, _)| self.live_object(id)).collect();
        let mut finalized = Finalized::default();
        let cascaded = self.cascade_of(&roots, &finalized.orphaning);
        let mut consequences = Consequences { outcomes, cascaded, order, acting: BTreeMap::new() };
        loop {
            let more = self.finalized_objects(&consequences);
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

    /// Returns the Kustomizations that list or apply each object.
    fn nodes_by_object(&self) -> BTreeMap<&ObjectId, Vec<&Node>> {
        let mut nodes_by_object: BTreeMap<&ObjectId, Vec<&Node>> = BTreeMap::new();
        for node in &self.nodes {
            let applied = node.passes.iter().filter_map(Pass::applied_objects).flat_map(BTreeMap::keys);
            let ids: BTreeSet<&ObjectId> = node.inventory.iter().chain(applied).collect();
            for id in ids {
                nodes_by_object.entry(id).or_default().push(node);
            }
        }
        nodes_by_object
    }

    fn cascade_of(
        &self,
        roots: &[&'a ObjectMetadata],
        orphaning: &HashSet<&str>,
    ) -> BTreeMap<ObjectId, CascadedObject<'a>> {
        let cascaded = self.cascade.closure_without_orphans(roots.iter().copied(), orphaning).into_iter();
        cascaded.map(|cascaded| (cascaded.object.id.clone(), cascaded)).collect()
    }

    /// Returns the Kustomizations as they follow from the last state, and the answers that are missing.
    fn derive_nodes(&self, consequences: &Consequences<'_>, answers: &Answers) -> (Vec<Node>, Needs) {
        let mut derivation = Derivation::new(self, consequences, answers);
        let mut keys: BTreeSet<NamespacedName> = self.live.keys().cloned().collect();
        let passes = self.nodes.iter().flat_map(|node| &node.passes);
        let applied = passes.filter_map(Pass::applied_objects).flat_map(BTreeMap::keys);
        let generated = self.expansions().flat_map(|(_, expansion)| expansion.objects.keys());
        keys.extend(applied.chain(generated).filter(|id| id.is_here(GROUP, KIND)).map(NamespacedName::of));
        let spec_changes = self.spec_changes();
        let mut nodes = Vec::new();
        for key in keys {
            let changes = spec_changes.get(&key).map_or(&[][..], Vec::as_slice);
            if let Some(live) = self.live.get(&key) {
                nodes.push(derivation.live_node(&key, live, changes));
            }
            nodes.extend(derivation.new_node(&key, changes));
        }
        (nodes, derivation.needs)
    }

    fn node(&self, id: &NodeId) -> Option<&Node> {
        let found = self.nodes.binary_search_by(|node| node.id.cmp(id)).ok()?;
        self.nodes.get(found)
    }
}
