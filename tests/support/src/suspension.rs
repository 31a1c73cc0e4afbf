//! Suspended objects of a test cluster.

use serde_json::{Value, json};
use xtask::cluster::Cluster;

use crate::gitops::{Run, gitops};

/// An object as JSON.
pub fn read(cluster: &Cluster, kind: &str, namespace: &str, name: &str) -> Value {
    let text = cluster.kubectl(&["get", kind, name, "-n", namespace, "-o", "json", "--show-managed-fields"]).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The message of a suspension by annotation.
pub fn annotation(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"]["reconcile.fluxcd.io/suspended"].as_str()
}

/// `metadata.generation`.
pub fn generation(object: &Value) -> i64 {
    object["metadata"]["generation"].as_i64().unwrap()
}

/// The item of one object in `get -o json`.
pub fn item(cluster: &Cluster, namespace: &str, object: &str) -> Value {
    let run = gitops(cluster, &["get", object, "-n", namespace, "-o", "json"]);
    let document: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"));
    assert_eq!(document["schema"], "kubectl-gitops/get/v1");
    document["items"][0].clone()
}

/// The standard output of a run that succeeded.
#[track_caller]
pub fn ok(run: &Run) -> &str {
    assert_eq!(run.code, 0, "{run:?}");
    &run.stdout
}

/// A Receiver, a kind that has a status and whose controller runs in none of the test clusters.
pub fn receiver(namespace: &str) -> Value {
    json!({
        "apiVersion": "notification.toolkit.fluxcd.io/v1", "kind": "Receiver",
        "metadata": {"name": "receiver", "namespace": namespace},
        "spec": {"type": "generic", "secretRef": {"name": "x"}, "resources": [{"kind": "Bucket", "name": "b"}]},
    })
}
