//! Answers of the API server to dry-runs.

use std::sync::Arc;

use crate::flux::spec::NamespacedName;
use crate::kubernetes::object::ObjectId;

/// A refusal of the server to apply an object of a Kustomization.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refusal {
    /// Kustomization that applies the object.
    pub(crate) owner: NamespacedName,
    /// Identity of the object.
    pub(crate) id: ObjectId,
    /// Manifest that is refused.
    pub(crate) manifest: Arc<serde_json::Value>,
    /// Message of the server.
    pub(crate) message: String,
}

/// A refusal of the server to delete an object for a Kustomization.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DeletionRefusal {
    /// Kustomization that deletes the object.
    pub(crate) owner: NamespacedName,
    /// Identity of the object.
    pub(crate) id: ObjectId,
    /// Message of the server.
    pub(crate) message: String,
}
