//! Deletion of one object, pinned to its uid and resourceVersion, and the wait until it is gone.

use std::time::Duration;

use http::{Request, header};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::cluster::read::fetch::object_path;
use crate::cluster::{Cluster, Failure};
use gitops_core::kubernetes::object::{ObjectMetadata, ResourceType};

/// Progress of a deletion that the server accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeletionProgress {
    /// The object no longer exists, or another one of the same name replaced it.
    Gone,
    /// The object is terminating; these finalizers remain.
    Terminating(Vec<String>),
}

impl Cluster {
    /// Sends a DELETE with uid and resourceVersion preconditions and background propagation. Never removes finalizers.
    /// Fails with 409 if the object changed since it was read.
    pub async fn delete(&self, kind: &ResourceType, read: &ObjectMetadata, dry_run: bool) -> Result<(), Failure> {
        let mut options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": {"uid": read.uid, "resourceVersion": read.resource_version},
        });
        if dry_run {
            options["dryRun"] = json!(["All"]);
        }
        let request = Request::delete(object_path(kind, &read.id))
            .header(header::CONTENT_TYPE, "application/json")
            .body(options.to_string().into_bytes())
            .map_err(Failure::of_request)?;
        self.send(request).await.map(|_| ())
    }

    /// Polls until the object of this uid is gone or `limit` has passed: after 50 ms, then slower, up to once a second.
    pub async fn wait_until_gone(
        &self,
        kind: &ResourceType,
        deleted: &ObjectMetadata,
        limit: Duration,
    ) -> Result<DeletionProgress, Failure> {
        let end = Instant::now() + limit;
        let mut pause = Duration::from_millis(50);
        loop {
            let Some(current) = self.fetch_metadata(kind, &deleted.id).await? else {
                return Ok(DeletionProgress::Gone);
            };
            if current.uid != deleted.uid {
                return Ok(DeletionProgress::Gone);
            }
            if Instant::now() + pause > end {
                let finalizers = current.finalizers.iter().map(ToString::to_string).collect();
                return Ok(DeletionProgress::Terminating(finalizers));
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }
}
