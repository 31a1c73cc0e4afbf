//! Answers of the API server to dry-runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::flux::apply::dry_run::DryRunResult;
use crate::flux::apply::question::QuestionKey;
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::object::ObjectId;
use crate::plan::{Actor, Reason};

/// A refusal of the server to apply an object of a Kustomization.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refusal {
    /// Kustomization that applies the object.
    pub(crate) owner: NamespacedName,
    /// Identity of the object.
    pub(crate) id: ObjectId,
    /// Manifest that is refused.
    pub(crate) manifest: Arc<serde_json::Value>,
    /// Spec of the Kustomization in the run that is refused.
    pub(crate) spec: KustomizationSpec,
    /// Message of the server.
    pub(crate) message: String,
    /// The dry-run is accepted, and the apply is refused: the objects before it are applied.
    pub(crate) is_late: bool,
    /// Condition on which the server accepts the object later, or refuses it only then; `None` if nothing of the change
    /// decides about it.
    pub(crate) condition: Option<String>,
}

/// A live object that a Kustomization deletes by force, because the server refuses to change it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ForcedDeletion {
    /// Kustomization that applies the object.
    pub(crate) owner: NamespacedName,
    /// Identity of the object.
    pub(crate) id: ObjectId,
    /// Manifest that is refused.
    pub(crate) manifest: Arc<serde_json::Value>,
    /// Spec of the Kustomization in the run that deletes it.
    pub(crate) spec: KustomizationSpec,
    /// The server accepts the creation of the object, once the live one is gone.
    pub(crate) comes_back: bool,
    /// Reason of the row.
    pub(crate) reason: Reason,
}

/// A refusal of the server to delete an object for a Kustomization.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DeletionRefusal {
    /// Kustomization that deletes the object.
    pub(crate) owner: NamespacedName,
    /// Its service account in the run that is refused; `None` for the account of the controller.
    pub(crate) account: Option<String>,
    /// Identity of the object.
    pub(crate) id: ObjectId,
    /// Message of the server.
    pub(crate) message: String,
}

/// A change of an object by a Kustomization, after which the API server gives another answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Premise {
    pub(crate) owner: NamespacedName,
    pub(crate) id: ObjectId,
    /// Manifest that is applied; `None` for a deletion.
    pub(crate) manifest: Option<Arc<serde_json::Value>>,
}

/// An apply that succeeds only after other changes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Delay {
    /// Kustomization that applies the object.
    pub(crate) owner: NamespacedName,
    /// Identity of the object.
    pub(crate) id: ObjectId,
    /// Manifest that is refused until then.
    pub(crate) manifest: Arc<serde_json::Value>,
    /// Spec of the Kustomization in the run that waits.
    pub(crate) spec: KustomizationSpec,
    pub(crate) after: Vec<Premise>,
}
/// Messages of the server about deletions that it refuses to the controller of a deleted owner, by owner and object.
pub(crate) type OwnerRefusals = BTreeMap<(ObjectId, ObjectId), String>;

/// Conditions under which the API server refuses requests of other owners than Kustomizations that it accepts now, as
/// clauses for people.
pub(crate) type OwnerDoubts = BTreeMap<QuestionKey, Arc<str>>;

/// Deletions by the controllers of Kubernetes that the API server refuses them, by the component that deletes and by object.
pub(crate) type CascadeRefusals = BTreeMap<(Actor, ObjectId), CascadeRefusal>;

/// A refusal of the API server to let a controller of Kubernetes delete an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CascadeRefusal {
    /// It refuses it for certain, with this message.
    Refused(String),
    /// The deletion depends on this condition.
    Open(String),
}

/// Validity of an answer of the API server. An answer is true of today's cluster, and the change can end it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Standing {
    /// Nothing of the change touches what the answer depends on.
    #[default]
    Holds,
    /// These changes certainly happen, and this is the answer after them. Until then the controller tries again.
    Replaced(Box<DryRunResult>, Vec<Premise>),
    /// The change can come first, or the answer after it is not known: the condition.
    Open(String),
}

impl Standing {
    /// Returns true if the other standing says less about the answer.
    pub(crate) fn is_below(&self, other: &Self) -> bool {
        self.rank() < other.rank()
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Holds => 0,
            Self::Replaced(..) => 1,
            Self::Open(_) => 2,
        }
    }
}
