//! Dry-runs: server-side apply with the field manager of a controller, and the deletions of a plan.

use std::collections::BTreeSet;

use futures::{StreamExt, future, stream};
use http::{Request, header};
use serde_json::Value;

use super::delete::delete;
use crate::cluster::connection::Cluster;
use crate::cluster::http::failure::Failure;
use crate::cluster::read::fetch::object_path;
use crate::cluster::read::list::{check_dry_run, collection_path};
use gitops_core::kubernetes::object::{ObjectId, ResourceType};
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::plan::Plan;

/// Reason why a change of a type is not tried.
pub(crate) const NO_DRY_RUNS: &str = "the API server that serves its type does not say that it knows dry-runs";

/// Way in which a controller applies a manifest.
#[derive(Clone, Copy, Debug)]
pub struct Applying {
    /// Field manager of the controller.
    pub manager: &'static str,
    /// Unknown and duplicate fields are refused.
    pub is_strict: bool,
    /// Fields of other managers are taken over.
    pub forces: bool,
}

/// Returns the object as it would be after a controller applied the manifest. Stores nothing.
pub(crate) async fn apply_dry_run(
    cluster: &Cluster,
    kind: &ResourceType,
    id: &ObjectId,
    manifest: &Value,
    Applying { manager, is_strict, forces }: Applying,
) -> Result<Value, Failure> {
    let (path, validation) = (object_path(kind, id), if is_strict { "&fieldValidation=Strict" } else { "" });
    let request = Request::patch(format!("{path}?dryRun=All&fieldManager={manager}&force={forces}{validation}"))
        .header(header::CONTENT_TYPE, "application/apply-patch+yaml")
        .header(header::ACCEPT, "application/json")
        .body(manifest.to_string().into_bytes())
        .map_err(Failure::of_request)?;
    let response = cluster.send(request).await?;
    let text = std::str::from_utf8(&response.body).map_err(Failure::unreadable)?;
    check_dry_run(text, kind, id).map_err(Failure::unreadable)?;
    serde_json::from_slice(&response.body).map_err(Failure::unreadable)
}

/// Creates an object on the server without storing it.
pub(crate) async fn create_dry_run(
    cluster: &Cluster,
    kind: &ResourceType,
    id: &ObjectId,
    manifest: &Value,
    manager: &str,
) -> Result<(), Failure> {
    let path = collection_path(kind, Some(&id.namespace));
    let request = Request::post(format!("{path}?dryRun=All&fieldManager={manager}"))
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json")
        .body(manifest.to_string().into_bytes())
        .map_err(Failure::of_request)?;
    let response = cluster.send(request).await?;
    let text = std::str::from_utf8(&response.body).map_err(Failure::unreadable)?;
    check_dry_run(text, kind, id).map_err(Failure::unreadable)
}

/// Sends every deletion as a server dry-run, `parallel` at a time. Returns the refused deletions with the reason.
pub async fn dry_run_deletions(
    cluster: &Cluster,
    plan: &Plan,
    snapshot: &Snapshot,
    parallel: usize,
) -> Vec<(ObjectId, String)> {
    let types: BTreeSet<&ResourceType> =
        plan.roots().filter_map(|change| snapshot.resource_type(&change.object.id.group_kind())).collect();
    let mut not_tried = BTreeSet::new();
    for kind in types {
        if !cluster.tries(kind, snapshot).await {
            not_tried.insert(kind);
        }
    }
    let dry_runs = plan.roots().map(|change| async {
        let id = &change.object.id;
        let answer = match (snapshot.resource_type(&id.group_kind()), snapshot.object(id)) {
            (Some(kind), Some(_)) if not_tried.contains(kind) => Err(NO_DRY_RUNS.to_owned()),
            (Some(kind), Some(object)) => {
                delete(cluster, kind, object, true).await.map_err(|failure| failure.to_string())
            }
            _ => Err("its type is not served".to_owned()),
        };
        answer.err().map(|why| (id.clone(), why))
    });
    stream::iter(dry_runs).buffered(parallel).filter_map(future::ready).collect().await
}
