//! Deletes one object, pinned to what was seen of it, and waits until it is gone.

use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::cluster::read::list::{collection_path, full_object};
use crate::cluster::read::metadata::Interner;
use crate::cluster::{Cluster, Failure, FailureKind};
use gitops_core::kubernetes::object::{ObjectId, ObjectMetadata, Resource, ResourceType};
use gitops_core::kubernetes::snapshot::Snapshot;

const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// Where an object stands after its deletion was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gone {
    /// The object is gone, or another one of the same name took its place.
    Yes,
    /// Finalizers still hold it.
    Terminating(Vec<String>),
}

impl Cluster {
    /// The object as it is now, with its content; `None` when it does not exist.
    ///
    /// # Errors
    /// Any failure but 404.
    pub async fn fetch(&self, kind: &ResourceType, id: &ObjectId) -> Result<Option<Resource>, Failure> {
        self.fetch_as(kind, id, "application/json").await
    }

    /// The metadata of an object as it is now: what a deletion needs of a Secret is never its data.
    ///
    /// # Errors
    /// Any failure but 404.
    pub async fn fetch_metadata(&self, kind: &ResourceType, id: &ObjectId) -> Result<Option<ObjectMetadata>, Failure> {
        Ok(self.fetch_as(kind, id, METADATA).await?.map(|full| full.object))
    }

    /// These objects with their content, as far as they can be read.
    pub async fn fetch_all(&self, snapshot: &Snapshot, ids: Vec<ObjectId>) -> Vec<Resource> {
        let mut reads = JoinSet::new();
        for id in ids {
            let Some(kind) = snapshot.resource_type(&id.group_kind()).cloned() else { continue };
            let cluster = self.clone();
            reads.spawn(async move { cluster.fetch(&kind, &id).await.ok().flatten() });
        }
        reads.join_all().await.into_iter().flatten().collect()
    }

    async fn fetch_as(&self, kind: &ResourceType, id: &ObjectId, accept: &str) -> Result<Option<Resource>, Failure> {
        let response = match self.get(&object_path(kind, id), accept).await {
            Ok(response) => response,
            Err(failure) if failure.kind == FailureKind::Missing => return Ok(None),
            Err(failure) => return Err(failure),
        };
        let text = std::str::from_utf8(&response.body).map_err(Failure::unreadable)?;
        full_object(text, kind, &mut Interner::default()).map(Some).map_err(Failure::unreadable)
    }

    /// Sends a DELETE with uid and resourceVersion preconditions and background propagation. Finalizers are left to
    /// their controllers.
    ///
    /// # Errors
    /// 409 when the object changed since it was seen; whatever else the server answers.
    pub async fn delete(&self, kind: &ResourceType, seen: &ObjectMetadata, dry_run: bool) -> Result<(), Failure> {
        let mut options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": {"uid": seen.uid, "resourceVersion": seen.resource_version},
        });
        if dry_run {
            options["dryRun"] = json!(["All"]);
        }
        let request = http::Request::delete(object_path(kind, &seen.id))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(options.to_string().into_bytes())
            .map_err(Failure::unreadable)?;
        self.send(request).await.map(|_| ())
    }

    /// Waits until the object of this uid is gone. Asks again every 200 ms, slower after the first seconds.
    ///
    /// # Errors
    /// When the object cannot be read any more.
    pub async fn wait_until_gone(
        &self,
        kind: &ResourceType,
        seen: &ObjectMetadata,
        limit: Duration,
    ) -> Result<Gone, Failure> {
        let end = Instant::now() + limit;
        let mut pause = Duration::from_millis(50);
        loop {
            let Some(now) = self.fetch_metadata(kind, &seen.id).await? else { return Ok(Gone::Yes) };
            if now.uid != seen.uid {
                return Ok(Gone::Yes);
            }
            if Instant::now() + pause > end {
                return Ok(Gone::Terminating(now.finalizers.iter().map(ToString::to_string).collect()));
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }
}

/// URL path of one object. Names from inventories are checked before they get here (see [`is_path_segment`]).
pub(crate) fn object_path(kind: &ResourceType, id: &ObjectId) -> String {
    format!(
        "{}/{}",
        collection_path(kind, Some(&id.namespace).filter(|name| !name.is_empty()).map(|name| &**name)),
        id.name
    )
}

/// Whether a name can stand in a URL path as one segment and nothing else.
pub(crate) fn is_path_segment(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '%', '?', '#'])
}
