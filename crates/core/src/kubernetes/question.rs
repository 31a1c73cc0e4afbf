//! Changes that the controller of an owner would make, and that the API server is asked about by dry-runs.

use serde_json::Value;

use super::object::{ObjectId, text_at};

/// A change of an object by the controller of an owner.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnerQuestion {
    /// Owner that causes the change: a HelmRelease or a ResourceSet.
    pub owner: ObjectId,
    /// `spec.serviceAccountName` of the owner.
    pub service_account: Option<String>,
    /// Identity of the object that is applied or deleted.
    pub id: ObjectId,
    /// Manifest that is applied; `None` if the object is deleted.
    pub manifest: Option<Value>,
    /// The manifest can hold values of Secrets.
    pub is_private: bool,
}

impl OwnerQuestion {
    /// Creates the question about a change of an object by an owner with this spec.
    pub(crate) fn new(
        owner: &ObjectId,
        spec: &Value,
        id: &ObjectId,
        manifest: Option<Value>,
        is_private: bool,
    ) -> Self {
        let account = Some(text_at(spec, "/serviceAccountName")).filter(|name| !name.is_empty());
        Self { owner: owner.clone(), service_account: account.map(str::to_owned), id: id.clone(), manifest, is_private }
    }
}
