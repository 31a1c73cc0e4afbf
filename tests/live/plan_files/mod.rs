//! Plan files, journals, backups and questions against the real API server. The owner is a Kustomization that no controller touches,
//! so that each test decides what changes between a plan and its execution.

mod changes;
mod field_managers;
mod interruption;
mod last_moment;
mod records;
mod refusals;
mod terminals;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use test_support::cluster::up;
use test_support::folder::folder;
use test_support::gitops::{Run, gitops};
use test_support::shared_cluster;
use xtask::cluster::{Cluster, Flux, Options};

// The cluster of these tests.
shared_cluster!(|| up(Options { flux: Flux::Crds, audit: true, ..Options::default() }));

/// Returns a manifest that kustomize-controller seems to have applied for the Kustomization `apps` of a namespace.
fn applied(owner: &str, api_version: &str, kind: &str, namespace: &str, name: &str) -> Value {
    let labels = json!({"kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": owner});
    let mut metadata = json!({"name": name, "labels": labels});
    if !namespace.is_empty() {
        metadata["namespace"] = namespace.into();
    }
    json!({"apiVersion": api_version, "kind": kind, "metadata": metadata})
}

/// Applies manifests with the field manager of kustomize-controller.
fn apply(cluster: &Cluster, manifests: Vec<Value>) {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": manifests}).to_string();
    let fixed = ["apply", "--server-side", "--force-conflicts", "--field-manager=kustomize-controller", "-f", "-"];
    cluster.kubectl_stdin(&fixed, &list).unwrap();
}

/// Sets the status of the Kustomization `apps` as after a successful reconciliation, with these ConfigMaps in its inventory.
fn reconcile(cluster: &Cluster, namespace: &str, inventory: &[&str]) {
    reconcile_owner(cluster, namespace, "apps", inventory);
}

/// Sets the status of a Kustomization as after a successful reconciliation, with these ConfigMaps in its inventory.
fn reconcile_owner(cluster: &Cluster, namespace: &str, owner: &str, inventory: &[&str]) {
    let entries: Vec<Value> =
        inventory.iter().map(|name| json!({"id": format!("{namespace}_{name}__ConfigMap"), "v": "v1"})).collect();
    let now = chrono::Utc::now() + chrono::TimeDelta::seconds(2);
    let ready = json!({"type": "Ready", "status": "True", "reason": "ReconciliationSucceeded", "message": "",
        "lastTransitionTime": now.format("%Y-%m-%dT%H:%M:%SZ").to_string(), "observedGeneration": 1});
    let status = json!({"status": {"observedGeneration": 1, "conditions": [ready], "inventory": {"entries": entries},
        "lastAppliedRevision": "main@sha1:0"}});
    let fixed = ["patch", "kustomization", owner, "-n", namespace, "--subresource=status", "--type=merge", "-p"];
    cluster.kubectl(&[&fixed[..], &[&status.to_string()]].concat()).unwrap();
}

/// Returns the uids and resource versions of everything in a namespace that the tests create, by kind and name.
fn state(cluster: &Cluster, namespace: &str) -> BTreeMap<String, String> {
    let columns =
        "jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.uid} {.metadata.resourceVersion}{'\\n'}{end}";
    let kinds = "configmaps,secrets,serviceaccounts,kustomizations.kustomize.toolkit.fluxcd.io";
    let text = cluster.kubectl(&["get", kinds, "-n", namespace, "-o", columns]).unwrap();
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, pins)| (name.to_owned(), pins.to_owned()))
        .collect()
}

/// Creates a Kustomization without a status.
fn create_owner(cluster: &Cluster, namespace: &str, name: &str) {
    let spec =
        json!({"interval": "1h", "path": "./", "prune": true, "sourceRef": {"kind": "GitRepository", "name": "src"}});
    let owner = json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": name, "namespace": namespace}, "spec": spec});
    cluster.kubectl_stdin(&["create", "-f", "-"], &owner.to_string()).unwrap();
}

/// Creates a namespace with a Kustomization `apps` that is ready and lists one ConfigMap, and `count` leaked ConfigMaps
/// `cm-0`, `cm-1`, ….
fn with_leaks(namespace: &str, count: usize) -> Arc<Cluster> {
    let cluster = cluster();
    cluster.kubectl(&["create", "namespace", namespace]).unwrap();
    create_owner(&cluster, namespace, "apps");
    let names = (0..count).map(|number| format!("cm-{number}")).chain(["stays".to_owned()]);
    apply(&cluster, names.map(|name| applied(namespace, "v1", "ConfigMap", namespace, &name)).collect());
    reconcile(&cluster, namespace, &["stays"]);
    cluster
}

/// Returns the path of a new plan file.
fn plan(cluster: &Cluster, namespace: &str, more: &[&str]) -> String {
    let file = folder(&format!("plan-{namespace}")).join("plan.json").to_str().unwrap().to_owned();
    let fixed = ["prune", "--plan", "-n", namespace, "--max-percent=100", "--out", &file];
    let run = gitops(cluster, &[&fixed[..], more].concat());
    assert_eq!(run.code, 0, "{run}");
    file
}

/// Executes a plan file.
fn execute(cluster: &Cluster, file: &str, more: &[&str]) -> Run {
    gitops(cluster, &[&["prune", "--apply", file, "--yes", "--max-percent=100", "--timeout=10s"], more].concat())
}

/// Names of the ConfigMaps `cm-…` that exist.
fn remaining(cluster: &Cluster, namespace: &str) -> Vec<String> {
    let names = cluster.kubectl(&["get", "configmaps", "-n", namespace, "-o", "name", "--ignore-not-found"]).unwrap();
    names.lines().filter_map(|name| name.strip_prefix("configmap/cm-").map(|name| format!("cm-{name}"))).collect()
}
