//! What Flux will create, change and delete once a working tree is its source: the algorithm of reference
//! kustomize-controller 5.5.
//!
//! The answer depends on itself: which children exist follows from builds, which specs they have from their parents, and
//! what of them goes from what is deleted. [`Preview::step`] therefore computes everything from the last state until
//! nothing changes. It is pure: builds and ConfigMaps that it lacks come back as needs.

pub mod applied;
pub mod blockers;
pub mod dry_run;
pub mod encrypted;
pub mod explore;
pub mod helm;
pub mod model;
pub mod outcomes;
pub mod passes;
pub mod rows;
pub mod scope;
#[cfg(test)]
mod tests;
pub mod variables;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::build::{Answers, Needs};
use super::kustomize_controller::Features;
use super::source::artifact::Artifact;
use super::spec::{KustomizationSpec, NamespacedName, SourceId};
use crate::kubernetes::deletion::cascade::{Cascade, CascadedObject};
use crate::kubernetes::object::{ObjectId, ObjectMetadata, Resource};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::Members;
use crate::ownership::schemes::flux::inventory_members;
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};
use crate::plan::{Fidelity, Plan};
use explore::Graph;
use model::{Finalization, Node, NodeId, Pass, Removal, SimulationEvent};
use outcomes::PossibleOutcomes;
use passes::Round;
use scope::Scopes;

/// How often everything may be computed anew before we say that it does not settle; nesting this deep does not occur.
const ROUNDS: usize = 24;

/// Everything a preview looks at.
pub struct World<'a> {
    /// The cluster.
    pub snapshot: &'a Snapshot,
    /// Sources that the working tree becomes, with what they pack of it.
    pub trees: BTreeMap<SourceId, Arc<Artifact>>,
    /// Sources that are this repository but not this ref, and which ref they are.
    pub pinned: BTreeMap<SourceId, String>,
    /// Rules of the controller's version.
    pub features: Features,
    /// How many Kustomizations the controller reconciles at once.
    pub workers: usize,
    /// What the self-check said of each Kustomization.
    pub fidelity: BTreeMap<NamespacedName, Fidelity>,
    /// What each Kustomization applied last, where git has it.
    pub applied: BTreeMap<NamespacedName, Arc<Artifact>>,
}

/// What a step came to.
pub enum Progress {
    /// These must be answered first.
    Needs(Needs),
    /// The plan.
    Done(Box<Plan>),
}

/// A preview under way.
pub struct Preview<'a> {
    world: World<'a>,
    cascade: Cascade<'a>,
    live: BTreeMap<NamespacedName, &'a Resource>,
    nodes: Vec<Node>,
    refusals: Vec<Refusal>,
}

/// That the server refuses what a Kustomization applies.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The Kustomization.
    pub owner: NamespacedName,
    /// The object.
    pub id: ObjectId,
    /// The manifest that is refused.
    pub manifest: serde_json::Value,
    /// What the server said.
    pub why: String,
}

/// Everything that follows from one state of the Kustomizations.
pub(crate) struct Consequences<'a> {
    fates: BTreeMap<ObjectId, PossibleOutcomes>,
    taken: BTreeMap<ObjectId, CascadedObject<'a>>,
}

impl Consequences<'_> {
    /// Whether an object's namespace goes for good, so that nothing in it can come back.
    fn loses_home(&self, id: &ObjectId) -> bool {
        let home = ObjectId::new("", "Namespace", "", &id.namespace);
        let fate = self.fates.get(&home).filter(|_| !id.namespace.is_empty());
        fate.is_some_and(|fate| fate.ends.iter().all(|end| *end == outcomes::FinalState::Goes))
    }
}

impl<'a> Preview<'a> {
    /// Starts with every live Kustomization and its live spec.
    pub fn new(world: World<'a>) -> Self {
        let snapshot = world.snapshot;
        let kustomizations = snapshot.full.iter().filter(|full| full.object.id.is(GROUP, KIND));
        let live = kustomizations.map(|full| (NamespacedName::of(&full.object.id), full)).collect();
        Self { cascade: Cascade::new(snapshot), world, live, nodes: Vec::new(), refusals: Vec::new() }
    }

    /// Takes what the server refuses into account; [`Preview::step`] then comes to another plan.
    pub fn refuse(&mut self, refusals: Vec<Refusal>) {
        self.refusals = refusals;
    }

    /// Goes on with what is known; asks for what is not.
    pub fn step(&mut self, answers: &Answers) -> Progress {
        for _ in 0..ROUNDS {
            let consequences = self.consequences();
            let (next, needs) = self.derive(&consequences, answers);
            let settled = next == self.nodes;
            self.nodes = next;
            if !needs.is_empty() {
                return Progress::Needs(needs);
            }
            if settled {
                return Progress::Done(Box::new(self.plan(&consequences, true)));
            }
        }
        let consequences = self.consequences();
        Progress::Done(Box::new(self.plan(&consequences, false)))
    }

    fn object(&self, id: &ObjectId) -> Option<&'a ObjectMetadata> {
        self.world.snapshot.object(id)
    }

    /// The fate of every object that any Kustomization lists or wants, and what goes along.
    fn consequences(&self) -> Consequences<'a> {
        let graph = Graph::new(&self.nodes);
        let mut involved: BTreeMap<&ObjectId, BTreeSet<usize>> = BTreeMap::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let wanted = node.passes.iter().filter_map(Pass::desired).flat_map(|desired| desired.keys());
            for id in node.inventory.iter().chain(wanted) {
                involved.entry(id).or_default().insert(at);
            }
        }
        let play = |(id, nodes): (&ObjectId, BTreeSet<usize>)| {
            let nodes: Vec<&Node> = nodes.into_iter().map(|at| &self.nodes[at]).collect();
            (id.clone(), outcomes::play(id, self.object(id), &nodes, &graph, self.world.features))
        };
        let fates: BTreeMap<ObjectId, PossibleOutcomes> = involved.into_iter().map(play).collect();
        let going = || fates.iter().filter(|(_, fate)| fate.may_go()).filter_map(|(id, _)| self.object(id));
        let mut taken: BTreeMap<ObjectId, CascadedObject<'a>> =
            self.cascade.closure(going()).into_iter().map(|taken| (taken.object.id.clone(), taken)).collect();
        let uninstalled = self.uninstalled(&fates, &taken);
        if !uninstalled.is_empty() {
            let all = going().chain(uninstalled.values().map(|taken| taken.object));
            taken = self.cascade.closure(all).into_iter().map(|taken| (taken.object.id.clone(), taken)).collect();
            taken.extend(uninstalled);
        }
        Consequences { fates, taken }
    }

    /// The Kustomizations as they follow from the last state.
    fn derive(&self, consequences: &Consequences<'_>, answers: &Answers) -> (Vec<Node>, Needs) {
        let scopes = Scopes::new(self.world.snapshot, &self.nodes);
        let mut round = Round { consequences, scopes, answers, needs: Needs::default() };
        let mut keys: BTreeSet<NamespacedName> = self.live.keys().cloned().collect();
        let wanted = self.nodes.iter().flat_map(|node| &node.passes).filter_map(Pass::desired);
        keys.extend(wanted.flat_map(|desired| desired.keys()).filter(|id| id.is(GROUP, KIND)).map(NamespacedName::of));
        let changes = self.spec_changes();
        let mut nodes = Vec::new();
        for key in keys {
            let id = ObjectId::new(GROUP, KIND, &key.namespace, &key.name);
            let fate = consequences.fates.get(&id);
            let changes = changes.get(&key).map_or(&[][..], Vec::as_slice);
            if let Some(live) = self.live.get(&key) {
                nodes.push(self.live_node(&key, live, changes, &mut round));
            }
            let created = fate.is_some_and(|fate| {
                fate.ends
                    .iter()
                    .any(|end| matches!(end, outcomes::FinalState::Appears | outcomes::FinalState::ComesBack))
            });
            let replaced = fate.is_some_and(|fate| fate.wanted) && consequences.taken.contains_key(&id);
            if consequences.loses_home(&id) {
                continue;
            }
            let fresh = if created || replaced { self.fresh_node(&key, changes, &mut round) } else { None };
            let passing = |fate: &outcomes::PossibleOutcomes| {
                let brought = !self.live.contains_key(&key) && !fate.appliers.is_empty();
                if brought { self.passing_node(&key, changes, fate, &mut round) } else { None }
            };
            nodes.extend(fresh.or_else(|| fate.and_then(passing)));
        }
        (nodes, round.needs)
    }

    /// Whether and by what a live Kustomization is deleted.
    fn removal(&self, key: &NamespacedName, live: &Resource, consequences: &Consequences<'_>) -> Option<Removal> {
        let id = &live.object.id;
        let fate = consequences.fates.get(id).filter(|fate| fate.may_go());
        let (triggers, sure) = match (fate, consequences.taken.get(id)) {
            (Some(fate), _) => (fate.deleters.clone(), fate.surely_goes()),
            (None, Some(taken)) => self.root_of(&taken.cause, consequences)?,
            (None, None) => return None,
        };
        let spec = KustomizationSpec::of(live);
        let leaves = spec.finalizer_deletes(self.world.features.deletion_policy);
        let unreadable = match inventory_members(&live.content) {
            Members::Unreadable(why) => Some(why),
            _ => None,
        };
        let finalization = match (leaves, spec.service_account()) {
            (Err(why), _) => Finalization::Leaves(why),
            // Without a list the finalizer deletes nothing; one more reconciliation before it makes a new list.
            (Ok(()), _) if unreadable.is_some() => {
                let why = unreadable.unwrap_or_default();
                Finalization::Depends(format!("its inventory is unreadable until it reconciles once more: {why}"))
            }
            (Ok(()), None) => Finalization::Deletes,
            (Ok(()), Some(account)) => {
                let account = ObjectId::new("", "ServiceAccount", &key.namespace, account);
                let goes = consequences.fates.get(&account).is_some_and(PossibleOutcomes::may_go)
                    || consequences.taken.contains_key(&account);
                match self.object(&account) {
                    None => Finalization::Leaves(format!("its {account} does not exist")),
                    Some(_) if goes => Finalization::Depends(format!("its {account} goes too")),
                    Some(_) => Finalization::Deletes,
                }
            }
        };
        Some(Removal { triggers, sure, finalization })
    }

    /// The deletion that a cascade began with.
    fn root_of(&self, cause: &ObjectId, consequences: &Consequences<'_>) -> Option<(BTreeSet<SimulationEvent>, bool)> {
        let mut cause = cause;
        for _ in 0..consequences.taken.len() + 1 {
            match consequences.taken.get(cause) {
                Some(taken) => cause = &taken.cause,
                None => break,
            }
        }
        let fate = consequences.fates.get(cause)?;
        Some((fate.deleters.clone(), fate.surely_goes()))
    }
}

/// Kustomizations by identity.
fn by_id(nodes: &[Node]) -> HashMap<&NodeId, &Node> {
    nodes.iter().map(|node| (&node.id, node)).collect()
}
