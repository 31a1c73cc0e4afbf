//! Server-side apply as kustomize-controller does it, as a dry-run and never otherwise.

use http::{Request, header};
use serde_json::Value;

use super::delete::object_path;
use crate::cluster::{Cluster, Failure, FailureKind};
use gitops_core::flux::apply::MANAGER;
use gitops_core::kubernetes::object::{ObjectId, ResourceType};

impl Cluster {
    /// The object as the server has it, `metadata.managedFields` included, in the version of `kind`; `None` when it does
    /// not exist.
    ///
    /// # Errors
    /// Any failure but 404.
    pub async fn fetch_whole(&self, kind: &ResourceType, id: &ObjectId) -> Result<Option<Value>, Failure> {
        match self.get(&object_path(kind, id), "application/json").await {
            Ok(response) => serde_json::from_slice(&response.body).map(Some).map_err(Failure::unreadable),
            Err(failure) if failure.kind == FailureKind::Missing => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// What the object would be after the controller applied the manifest. Nothing is stored.
    ///
    /// # Errors
    /// Whatever the server, its validation and its admission say.
    pub async fn apply_dry_run(&self, kind: &ResourceType, id: &ObjectId, manifest: &Value) -> Result<Value, Failure> {
        let path = object_path(kind, id);
        let request = Request::patch(format!("{path}?dryRun=All&fieldManager={MANAGER}&force=true"))
            .header(header::CONTENT_TYPE, "application/apply-patch+yaml")
            .header(header::ACCEPT, "application/json")
            .body(manifest.to_string().into_bytes())
            .map_err(Failure::unreadable)?;
        let response = self.send(request).await?;
        serde_json::from_slice(&response.body).map_err(Failure::unreadable)
    }
}
