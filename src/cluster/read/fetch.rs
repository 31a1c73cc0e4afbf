//! GET of single objects.

use futures::future::join_all;
use serde_json::Value;

use super::list::{collection_path, full_object, object_metadata};
use crate::cluster::connection::{Cluster, Response};
use crate::cluster::http::failure::{Failure, FailureKind};
use gitops_core::bounds::CHART_ARCHIVE_SIZE;
use gitops_core::flux::build::charts::stored_artifact::StoredArtifact;
use gitops_core::kubernetes::aggregation::{is_aggregated, knows_dry_runs};
use gitops_core::kubernetes::object::{ObjectId, ObjectMetadata, Resource, ResourceType};
use gitops_core::kubernetes::snapshot::Snapshot;

const JSON: &str = "application/json";

/// The metadata of one object; plain JSON from servers that have no such form.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

impl Cluster {
    /// Returns the object with its content, or `None` if it does not exist.
    pub async fn fetch(&self, kind: &ResourceType, id: &ObjectId) -> Result<Option<Resource>, Failure> {
        let Some(response) = self.get_object(kind, id, JSON).await? else { return Ok(None) };
        full_object(text(&response)?, kind, id).map(Some).map_err(Failure::unreadable)
    }

    /// Returns the metadata of the object, or `None` if it does not exist. Never requests the data of a Secret.
    pub async fn fetch_metadata(&self, kind: &ResourceType, id: &ObjectId) -> Result<Option<ObjectMetadata>, Failure> {
        let Some(response) = self.get_object(kind, id, METADATA).await? else { return Ok(None) };
        object_metadata(text(&response)?, kind, id).map(Some).map_err(Failure::unreadable)
    }

    /// Returns the object as stored in the version of `kind`, with `metadata.managedFields`, or `None` if it does not exist.
    pub async fn fetch_json(&self, kind: &ResourceType, id: &ObjectId) -> Result<Option<Value>, Failure> {
        let Some(response) = self.get_object(kind, id, JSON).await? else { return Ok(None) };
        full_object(text(&response)?, kind, id).map_err(Failure::unreadable)?;
        serde_json::from_slice(&response.body).map(Some).map_err(Failure::unreadable)
    }

    /// Returns those of these objects that exist and can be read, with their content.
    pub async fn fetch_all(&self, snapshot: &Snapshot, ids: Vec<ObjectId>) -> Vec<Resource> {
        let reads = ids.iter().filter_map(|id| Some(self.fetch(snapshot.resource_type(&id.group_kind())?, id)));
        join_all(reads).await.into_iter().filter_map(|read| read.ok().flatten()).collect()
    }

    /// Returns the archive of an artifact of source-controller, by the API server's proxy to its Service.
    pub async fn fetch_artifact(&self, artifact: &StoredArtifact) -> Result<Response, Failure> {
        self.with_answer_limit(CHART_ARCHIVE_SIZE.limit).get(&artifact.proxy_path, "*/*").await
    }

    /// Returns false if another API server than that of Kubernetes serves a type and does not say that it knows dry-runs: it could
    /// make a change that is only to be tried.
    pub(crate) async fn tries(&self, kind: &ResourceType, snapshot: &Snapshot) -> bool {
        if !is_aggregated(snapshot, kind) {
            return true;
        }
        let answer = self.get(&format!("/openapi/v3/apis/{}/{}", kind.group, kind.version), JSON).await;
        let document = answer.ok().and_then(|answer| serde_json::from_slice::<Value>(&answer.body).ok());
        document.is_some_and(|document| knows_dry_runs(&document, kind))
    }

    /// Returns the version of the API server, such as `v1.33.1`.
    pub async fn version(&self) -> Result<String, Failure> {
        let answer = self.get("/version", JSON).await?;
        let info: Value = serde_json::from_slice(&answer.body).map_err(Failure::unreadable)?;
        let version = info.get("gitVersion").and_then(Value::as_str);
        version.map(str::to_owned).ok_or_else(|| Failure::unreadable("it has no gitVersion"))
    }

    /// Returns the answer to a GET, or `None` if the server says that this very object does not exist.
    async fn get_object(&self, kind: &ResourceType, id: &ObjectId, accept: &str) -> Result<Option<Response>, Failure> {
        match self.get(&object_path(kind, id), accept).await {
            Ok(response) => Ok(Some(response)),
            // A 404 of a proxy, or of a type that is not served, does not say so.
            Err(failure) if failure.kind == FailureKind::NotFound && failure.object.as_deref() == Some(&*id.name) => {
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }
}

fn text(response: &Response) -> Result<&str, Failure> {
    std::str::from_utf8(&response.body).map_err(Failure::unreadable)
}

/// Returns the URL path of one object. Check names from inventories with [`is_path_segment`] first.
pub(crate) fn object_path(kind: &ResourceType, id: &ObjectId) -> String {
    let namespace = Some(&*id.namespace).filter(|namespace| !namespace.is_empty());
    format!("{}/{}", collection_path(kind, namespace), id.name)
}

/// Returns true if a name is exactly one segment of a URL path.
pub(crate) fn is_path_segment(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '%', '?', '#'])
}
