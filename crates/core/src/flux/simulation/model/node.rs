//! Kustomizations as a preview sees them: the reconciliations that a new revision causes, one after the other.
//!
//! A live Kustomization reconciles the new revision with its **old** spec at once, and again after its parent has changed
//! the spec (docs/reference/kustomize-controller.md 7.1). Each of these is a [`Pass`].

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Deref;
use std::sync::Arc;

use super::refusals::Premise;
use super::wait_graph::WaitGraph;
use crate::flux::build::objects::BuiltObject;
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::object::ObjectId;
use crate::plan::{Reason, ReasonCode};

/// One lifetime of a Kustomization: from now on, or from its creation on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId {
    pub(crate) key: NamespacedName,
    /// True for a Kustomization that is created or recreated, false for the live one.
    pub(crate) is_new: bool,
}

impl NodeId {
    /// Returns the identity of a live Kustomization.
    pub(crate) fn live(key: &NamespacedName) -> Self {
        Self { key: key.clone(), is_new: false }
    }

    /// Returns the identity of a Kustomization that is created or recreated.
    pub(crate) fn new(key: &NamespacedName) -> Self {
        Self { key: key.clone(), is_new: true }
    }
}

/// One reconciliation of a Kustomization by its number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PassId {
    pub(crate) node: NodeId,
    pub(crate) number: usize,
}

/// A part of a reconciliation, or the finalization, of one Kustomization. Every change of an object is part of one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum SimulationEvent {
    /// The live objects that a pass replaces by force are deleted.
    Force(PassId),
    /// The objects of a pass are applied.
    Apply(PassId),
    /// Objects that a pass no longer builds are pruned.
    Prune(PassId),
    /// The Kustomization is deleted, and its finalizer deletes the objects in its inventory.
    Finalize(NodeId),
}

impl SimulationEvent {
    /// Returns the lifetime of the Kustomization that causes the event.
    pub(crate) fn node(&self) -> &NodeId {
        match self {
            Self::Force(pass) | Self::Apply(pass) | Self::Prune(pass) => &pass.node,
            Self::Finalize(node) => node,
        }
    }

    /// Returns the Kustomization that causes the event.
    pub(crate) fn owner(&self) -> &NamespacedName {
        &self.node().key
    }
}

/// The Kustomizations of a preview, sorted by identity.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Nodes {
    all: Vec<Node>,
    /// Positions of the Kustomizations that apply an object in one of their passes.
    applying: HashMap<ObjectId, Vec<usize>>,
    /// The waits of Kustomizations for others; computed when they are asked for.
    wait_graph: OnceCell<WaitGraph>,
}

impl Nodes {
    pub(crate) fn new(all: Vec<Node>) -> Self {
        let mut applying: HashMap<ObjectId, Vec<usize>> = HashMap::new();
        for (at, node) in all.iter().enumerate() {
            for id in node.passes.iter().filter_map(Pass::applied_objects).flat_map(BTreeMap::keys) {
                let positions = applying.entry(id.clone()).or_default();
                if positions.last() != Some(&at) {
                    positions.push(at);
                }
            }
        }
        Self { all, applying, wait_graph: OnceCell::new() }
    }

    /// Returns the waits of Kustomizations for others. `compute` runs once.
    pub(crate) fn wait_graph(&self, compute: impl FnOnce() -> WaitGraph) -> &WaitGraph {
        self.wait_graph.get_or_init(compute)
    }

    /// Returns the objects of a kind that Kustomizations apply in one of their passes, in no order.
    pub(crate) fn applied_of(&self, group: &str, kind: &str) -> impl Iterator<Item = &ObjectId> {
        self.applying.keys().filter(move |id| id.is_here(group, kind))
    }

    /// Returns the Kustomizations that apply an object in one of their passes, in order.
    pub(crate) fn applying(&self, id: &ObjectId) -> impl DoubleEndedIterator<Item = &Node> {
        self.applying.get(id).into_iter().flatten().map(|at| &self.all[*at])
    }
}

impl Deref for Nodes {
    type Target = [Node];

    fn deref(&self) -> &[Node] {
        &self.all
    }
}

/// The objects of a build by their identity in the cluster.
pub(crate) type BuiltObjects = BTreeMap<ObjectId, BuiltObject>;

/// Outcome of a pass.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PassOutcome {
    /// Everything is applied, then the objects that left the build are pruned.
    Applied(Arc<BuiltObjects>),
    /// The stages before the failing one are applied, and nothing is pruned.
    Partial {
        /// Objects that are applied.
        applied: Arc<BuiltObjects>,
        /// Objects of the whole build.
        desired: Arc<BuiltObjects>,
        /// Reason of the failure.
        reason: Reason,
    },
    /// Nothing is applied or pruned.
    Blocked(Reason),
    /// It is not known what is applied and pruned: another source, another cluster, or a build that fails here only.
    Unknown(Reason),
}

impl PassOutcome {
    /// Returns the objects that are applied.
    pub(crate) fn applied_objects(&self) -> Option<&BuiltObjects> {
        match self {
            Self::Applied(objects) | Self::Partial { applied: objects, .. } => Some(objects),
            Self::Blocked(_) | Self::Unknown(_) => None,
        }
    }

    /// Returns the objects of the whole build.
    pub(crate) fn desired_objects(&self) -> Option<&BuiltObjects> {
        match self {
            Self::Applied(objects) | Self::Partial { desired: objects, .. } => Some(objects),
            Self::Blocked(_) | Self::Unknown(_) => None,
        }
    }
}

/// A spec, and the pass of the parent that applies it; no pass for the live spec.
#[derive(Clone, Debug)]
pub(crate) struct PassSpec {
    pub(crate) spec: KustomizationSpec,
    pub(crate) trigger: Option<PassId>,
    /// The pass of the parent may apply only the next spec.
    pub(crate) is_optional: bool,
    /// Condition under which the owner that generates the Kustomization gets as far as applying it.
    pub(crate) condition: Option<Reason>,
}

impl PassSpec {
    /// Creates a spec that is applied for certain.
    pub(crate) fn new(spec: KustomizationSpec, trigger: Option<PassId>) -> Self {
        Self { spec, trigger, is_optional: false, condition: None }
    }
}

/// One reconciliation of a Kustomization with its outcome.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pass {
    pub(crate) spec: KustomizationSpec,
    /// The pass that applies its spec or its variables; `None` if the new revision alone causes it.
    pub(crate) trigger: Option<PassId>,
    pub(crate) outcome: PassOutcome,
    /// The pass may not happen: with more Kustomizations than workers the next spec may come first, and a dependency may
    /// be deleted before its dependant checks it.
    pub(crate) is_optional: bool,
    /// This pass or the next one happens, if both are optional.
    pub(crate) is_needed_without_next: bool,
    /// Condition for the pass that is not known to hold.
    pub(crate) condition: Option<Reason>,
    /// Live objects that the pass deletes by force, because the server refuses to change them.
    pub(crate) forced: BTreeMap<ObjectId, Forced>,
    /// Changes that must come first, because the server refuses an object until then.
    pub(crate) after: Vec<Premise>,
}

/// The deletion of a live object by force.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Forced {
    /// The pass creates the object again.
    pub(crate) comes_back: bool,
    /// False if another object may stop the pass before.
    pub(crate) is_certain: bool,
    pub(crate) reason: Reason,
}

impl Pass {
    /// Creates a pass that happens for certain.
    pub(crate) fn new(spec: KustomizationSpec, trigger: Option<PassId>, outcome: PassOutcome) -> Self {
        Self {
            spec,
            trigger,
            outcome,
            is_optional: false,
            is_needed_without_next: false,
            condition: None,
            forced: BTreeMap::new(),
            after: vec![],
        }
    }

    /// Returns the objects that are applied.
    pub(crate) fn applied_objects(&self) -> Option<&BuiltObjects> {
        self.outcome.applied_objects()
    }

    /// Returns an object as the pass applies it.
    pub(crate) fn applied(&self, id: &ObjectId) -> Option<&BuiltObject> {
        self.applied_objects()?.get(id)
    }

    /// Adds a condition that is not known to hold, if the pass applies anything.
    pub(crate) fn add_condition(&mut self, condition: Reason) {
        if self.applied_objects().is_none() {
            return;
        }
        match &mut self.condition {
            Some(known) if known.detail == condition.detail => {}
            Some(known) => known.detail = format!("{}; {}", known.detail, condition.detail),
            None => self.condition = Some(condition),
        }
    }

    /// Returns the objects of the inventory after the pass; `None` if the pass does not succeed.
    pub(crate) fn new_inventory(&self) -> Option<&BuiltObjects> {
        match &self.outcome {
            PassOutcome::Applied(objects) => Some(objects),
            _ => None,
        }
    }

    /// Returns the objects of the whole build.
    pub(crate) fn desired_objects(&self) -> Option<&BuiltObjects> {
        self.outcome.desired_objects()
    }

    /// Returns true if the pass prunes an object that an inventory lists.
    pub(crate) fn prunes(&self, id: &ObjectId) -> bool {
        self.spec.prunes() && self.new_inventory().is_some_and(|objects| !objects.contains_key(id))
    }

    /// Returns true if the pass applies an object.
    pub(crate) fn applies(&self, id: &ObjectId) -> bool {
        self.applied(id).is_some()
    }

    /// Returns true if the pass deletes a live object and certainly creates it again.
    pub(crate) fn replaces(&self, id: &ObjectId) -> bool {
        self.forced.get(id).is_some_and(|forced| forced.comes_back && forced.is_certain)
    }
}

/// Effect of the deletion of a Kustomization on the objects in its inventory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Finalization {
    /// Its finalizer deletes them.
    DeletesObjects,
    /// Its finalizer leaves them behind, for this reason.
    LeavesObjects(String),
    /// Either is possible, depending on this.
    Depends(String),
}

/// The deletion of a Kustomization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KustomizationDeletion {
    /// Events that delete it.
    pub(crate) triggers: BTreeSet<SimulationEvent>,
    /// Every order of events deletes it.
    pub(crate) is_certain: bool,
    /// True if the owner that deletes it waits until it is gone.
    pub(crate) is_awaited: bool,
    /// Service account of its finalizer; `None` for the account of the controller.
    pub(crate) account: Option<String>,
    pub(crate) finalization: Finalization,
}

/// One lifetime of a Kustomization with its reconciliations.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) id: NodeId,
    /// Its reconciliations in the order in which they happen.
    pub(crate) passes: Vec<Pass>,
    /// Set if it is or may be deleted.
    pub(crate) deletion: Option<KustomizationDeletion>,
    /// Deleted Kustomizations that may apply a new one first. Their finalizers then delete it with its objects, before it is applied
    /// again (observed).
    pub(crate) earlier_parents: BTreeSet<NamespacedName>,
    /// Objects of this cluster that its live inventory lists.
    pub(crate) inventory: BTreeSet<ObjectId>,
    /// Cluster-scoped objects that its live inventory lists with a namespace, with that. The inventory of a run lists
    /// them without, so that the run prunes what it has applied (`Diff` in internal/inventory of kustomize-controller
    /// v1.9.5; observed).
    pub(crate) misplaced: BTreeMap<ObjectId, Arc<str>>,
    /// Reason why its live inventory cannot be read. The controller then applies, writes a new inventory, fails once, and
    /// never deletes objects that only the old inventory listed (observed).
    pub(crate) unreadable_inventory: Option<String>,
    /// Objects that its live inventory lists in a version that is not served, with that version.
    pub(crate) unserved: BTreeMap<ObjectId, Unserved>,
}

/// A version in which the inventory lists an object and in which the API server does not, or may not, serve its kind when
/// the object is pruned. The controller takes the object for deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unserved {
    pub(crate) version: String,
    /// False if another Kustomization changes the served versions, which makes it a race.
    pub(crate) is_certain: bool,
}

impl Node {
    /// Creates the lifetime of a Kustomization that does not exist yet.
    pub(crate) fn new(key: &NamespacedName, passes: Vec<Pass>, deletion: Option<KustomizationDeletion>) -> Self {
        let inventory = BTreeSet::new();
        Self {
            id: NodeId::new(key),
            passes,
            deletion,
            earlier_parents: BTreeSet::new(),
            inventory,
            misplaced: BTreeMap::new(),
            unreadable_inventory: None,
            unserved: BTreeMap::new(),
        }
    }

    /// Returns true unless every order of events deletes the Kustomization.
    pub(crate) fn may_stay(&self) -> bool {
        self.deletion.as_ref().is_none_or(|deletion| !deletion.is_certain)
    }

    /// Returns true if a pass deletes an object, as far as the live inventory lists it.
    pub(crate) fn prunes(&self, pass: &Pass, id: &ObjectId) -> bool {
        pass.prunes(id) || (self.misplaced.contains_key(id) && pass.spec.prunes() && pass.new_inventory().is_some())
    }

    pub(crate) fn last_pass(&self) -> Option<&Pass> {
        self.passes.last()
    }

    /// Returns the last manifest of an object that is applied for certain or by the last pass, with the number of the pass. A pass that
    /// succeeds ends what earlier ones applied; one that fails leaves it.
    pub(crate) fn last_applied(&self, id: &ObjectId) -> Option<(usize, &BuiltObject)> {
        let mut lasting = self.lasting_passes();
        lasting.find_map(|(number, pass)| Some((number, pass.applied(id)?)))
    }

    /// Returns the objects of [`Self::last_applied`], with the numbers of their passes.
    pub(crate) fn last_applied_objects(&self) -> BTreeMap<&ObjectId, (usize, &BuiltObject)> {
        let mut objects = BTreeMap::new();
        for (number, pass) in self.lasting_passes() {
            for (id, built) in pass.applied_objects().into_iter().flatten() {
                objects.entry(id).or_insert((number, built));
            }
        }
        objects
    }

    /// Returns the last pass and, if it fails, those before it that come for certain, down to one that succeeds.
    fn lasting_passes(&self) -> impl Iterator<Item = (usize, &Pass)> {
        let last = self.passes.len().saturating_sub(1);
        let lasting = self
            .passes
            .iter()
            .enumerate()
            .filter(move |(number, pass)| *number == last || !pass.is_optional && pass.condition.is_none());
        let succeeding = lasting.clone().rfind(|(_, pass)| pass.new_inventory().is_some());
        let first = succeeding.map_or(0, |(number, _)| number);
        lasting.rev().take_while(move |(number, _)| *number >= first)
    }

    /// Returns the numbers and identities of its passes.
    pub(crate) fn numbered_passes(&self) -> impl Iterator<Item = (PassId, &Pass)> {
        self.passes.iter().enumerate().map(|(number, pass)| (PassId { node: self.id.clone(), number }, pass))
    }
}

/// A condition that keeps a Kustomization from building.
pub(crate) struct Blocker {
    pub(crate) reason: Reason,
    /// False if the Kustomization may apply all the same, which makes the outcome a race.
    pub(crate) is_certain: bool,
}

impl Blocker {
    pub(crate) fn certain(code: ReasonCode, detail: impl Into<String>) -> Self {
        Self { reason: Reason::new(code, detail), is_certain: true }
    }

    pub(crate) fn possible(code: ReasonCode, detail: impl Into<String>) -> Self {
        Self { reason: Reason::new(code, detail), is_certain: false }
    }
}
