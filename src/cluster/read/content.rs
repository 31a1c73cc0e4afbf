//! Content of single objects that controllers depend on, read by the paths of built-in types.

use serde_json::Value;

use crate::cluster::{Cluster, Failure, FailureKind};
use gitops_core::flux::build::objects::data::{Data, DataRef, Lookup};
use gitops_core::kubernetes::object::ObjectId;

/// Returns a Deployment with its content.
pub(crate) async fn read_deployment(cluster: &Cluster, id: &ObjectId) -> Result<Value, Failure> {
    let path = format!("/apis/apps/v1/namespaces/{}/deployments/{}", id.namespace, id.name);
    let answer = cluster.get(&path, "application/json").await?;
    Ok(serde_json::from_slice(&answer.body).unwrap_or_default())
}

/// Returns the data of a ConfigMap or Secret, as a controller would read it.
pub(crate) async fn look_up(cluster: &Cluster, reference: &DataRef) -> Lookup {
    let plural = match reference.kind.as_str() {
        "ConfigMap" => "configmaps",
        "Secret" => "secrets",
        other => return Lookup::Unreadable(format!("{other} is not a kind that variables are read from")),
    };
    let path = format!("/api/v1/namespaces/{}/{plural}/{}", reference.namespace, reference.name);
    match cluster.get(&path, "application/json").await {
        Ok(answer) => Lookup::Found(Data::read(&serde_json::from_slice(&answer.body).unwrap_or_default())),
        Err(failure) if failure.kind == FailureKind::NotFound => Lookup::Missing,
        Err(failure) => Lookup::Unreadable(failure.to_string()),
    }
}
