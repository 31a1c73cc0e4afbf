//! Kustomizations as a plan sees them: the reconciliations that a new revision brings, one after the other.
//!
//! A Kustomization that exists reconciles the new revision with its **old** spec at once, and again after its parent has
//! changed the spec (reference kustomize-controller 1.7). Each of these is a [`Pass`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::flux::build::objects::BuiltObject;
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::object::ObjectId;
use crate::plan::Reason;

/// One life of a Kustomization: the live one, or the one that is created (again).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId {
    /// Namespace and name.
    pub key: NamespacedName,
    /// Whether it does not exist yet.
    pub fresh: bool,
}

/// A reconciliation, or the finalization, of one Kustomization; what happens to objects happens in one of these.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SimulationEvent {
    /// The objects of a pass are applied.
    Apply(NodeId, usize),
    /// What a pass does not build any more is pruned.
    Prune(NodeId, usize),
    /// The Kustomization is deleted and deletes what its inventory lists.
    Finalize(NodeId),
}

impl SimulationEvent {
    /// Whose event this is.
    pub fn node(&self) -> &NodeId {
        match self {
            Self::Apply(node, _) | Self::Prune(node, _) | Self::Finalize(node) => node,
        }
    }
}

/// The objects of a build by their identity in the cluster.
pub(crate) type Desired = BTreeMap<ObjectId, BuiltObject>;

/// What a pass comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum PassOutcome {
    /// Everything is applied, then what is stale is pruned.
    Applied(Arc<Desired>),
    /// Only the stages before the one that fails are applied, and nothing is pruned.
    Partial {
        /// What is applied.
        applied: Arc<Desired>,
        /// What would be if nothing failed.
        wanted: Arc<Desired>,
        /// What fails.
        why: Reason,
    },
    /// Nothing is applied or pruned.
    Blocked(Reason),
    /// Not to be known from this tree: another source, another cluster.
    Elsewhere(Reason),
}

/// The application that brings a pass its spec or its variables; `None` for what the new revision itself brings.
pub(crate) type Trigger = Option<(NodeId, usize)>;

/// One reconciliation.
#[derive(Clone, Debug, PartialEq)]
pub struct Pass {
    /// The spec that it works with.
    pub spec: KustomizationSpec,
    /// What brings it.
    pub trigger: Trigger,
    /// What comes of it.
    pub outcome: PassOutcome,
    /// Whether it may not happen: with more Kustomizations than workers the next spec may come first, and a dependency
    /// that goes may be gone before its dependant looks.
    pub optional: bool,
}

impl Pass {
    /// The objects that are applied.
    pub fn desired(&self) -> Option<&Desired> {
        match &self.outcome {
            PassOutcome::Applied(desired) | PassOutcome::Partial { applied: desired, .. } => Some(desired),
            PassOutcome::Blocked(_) | PassOutcome::Elsewhere(_) => None,
        }
    }

    /// The objects that become the inventory, when the pass gets that far.
    pub fn applied(&self) -> Option<&Desired> {
        match &self.outcome {
            PassOutcome::Applied(desired) => Some(desired),
            _ => None,
        }
    }

    /// The objects that become the inventory, once nothing fails any more.
    pub fn wanted(&self) -> Option<&Desired> {
        match &self.outcome {
            PassOutcome::Applied(desired) | PassOutcome::Partial { wanted: desired, .. } => Some(desired),
            PassOutcome::Blocked(_) | PassOutcome::Elsewhere(_) => None,
        }
    }
}

/// What a Kustomization that is deleted does to the objects of its inventory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finalization {
    /// It deletes them.
    Deletes,
    /// It leaves them, and why.
    Leaves(String),
    /// Either is possible, and on what it depends.
    Depends(String),
}

/// That a Kustomization is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// What deletes it.
    pub triggers: BTreeSet<SimulationEvent>,
    /// Whether that is sure.
    pub sure: bool,
    /// What becomes of its objects.
    pub finalization: Finalization,
}

/// One life of a Kustomization.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Which one.
    pub id: NodeId,
    /// Its reconciliations in order.
    pub passes: Vec<Pass>,
    /// Set when it goes.
    pub removal: Option<Removal>,
    /// Identities that its live inventory lists in this cluster.
    pub inventory: BTreeSet<ObjectId>,
    /// Why its live inventory cannot be read: the controller then applies, writes a new inventory, fails once, and never
    /// deletes what only the old one listed (observed).
    pub unreadable: Option<String>,
}

impl Node {
    /// One that does not exist yet.
    pub fn fresh(key: &NamespacedName, passes: Vec<Pass>, removal: Option<Removal>) -> Self {
        let id = NodeId { key: key.clone(), fresh: true };
        Self { id, passes, removal, inventory: BTreeSet::new(), unreadable: None }
    }

    /// Whether it is there, for all that is known, when everything has settled.
    pub fn stays(&self) -> bool {
        self.removal.as_ref().is_none_or(|removal| !removal.sure)
    }

    /// Its last pass.
    pub fn last(&self) -> Option<&Pass> {
        self.passes.last()
    }
}
