//! Server-side apply with kustomize-controller's field manager, only ever as a dry-run.

use http::{Request, header};
use serde_json::Value;

use crate::cluster::read::fetch::object_path;
use crate::cluster::read::list::check_dry_run;
use crate::cluster::{Cluster, Failure};
use gitops_core::flux::kustomize_controller::NAME;
use gitops_core::kubernetes::object::{ObjectId, ResourceType};

impl Cluster {
    /// Returns the object as it would be after kustomize-controller applied the manifest. Stores nothing.
    pub async fn apply_dry_run(&self, kind: &ResourceType, id: &ObjectId, manifest: &Value) -> Result<Value, Failure> {
        let path = object_path(kind, id);
        let request = Request::patch(format!("{path}?dryRun=All&fieldManager={NAME}&force=true"))
            .header(header::CONTENT_TYPE, "application/apply-patch+yaml")
            .header(header::ACCEPT, "application/json")
            .body(manifest.to_string().into_bytes())
            .map_err(Failure::of_request)?;
        let response = self.send(request).await?;
        let text = std::str::from_utf8(&response.body).map_err(Failure::unreadable)?;
        check_dry_run(text, kind, id).map_err(Failure::unreadable)?;
        serde_json::from_slice(&response.body).map_err(Failure::unreadable)
    }
}
