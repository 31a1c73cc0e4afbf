//! Snapshots and manifests for the tests of garbage-collection plans.

use gitops_core::kubernetes::object::ObjectMetadata;
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::prune::collectors::collector::manifest::{LocalManifest, ManifestOrigin, read_manifests};
use gitops_core::prune::collectors::collector::{Collected, NativeAction, PlannedAction};
use test_support::objects;

/// apiVersion, kind, plural, namespaced: what the cluster serves.
const TYPES: [(&str, &str, &str, bool); 16] = [
    ("v1", "Namespace", "namespaces", false),
    ("v1", "ConfigMap", "configmaps", true),
    ("v1", "Secret", "secrets", true),
    ("v1", "Service", "services", true),
    ("v1", "Endpoints", "endpoints", true),
    ("v1", "Event", "events", true),
    ("v1", "ServiceAccount", "serviceaccounts", true),
    ("apps/v1", "Deployment", "deployments", true),
    ("batch/v1", "Job", "jobs", true),
    ("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", true),
    ("networking.k8s.io/v1", "Ingress", "ingresses", true),
    ("discovery.k8s.io/v1", "EndpointSlice", "endpointslices", true),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", false),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", false),
    ("mixed.example.com/v1beta1", "B", "bs", true),
    ("serving.knative.dev/v1", "Service", "services", true),
];

/// A row of a table: a case, and what is decided in it.
pub(crate) struct Row<S> {
    pub(crate) name: &'static str,
    pub(crate) setting: S,
    pub(crate) git: Vec<LocalManifest>,
    /// Objects of the cluster.
    pub(crate) live: Vec<ObjectMetadata>,
    pub(crate) expected: Vec<&'static str>,
}

/// A case without manifests and objects, in which nothing is decided.
pub(crate) fn row<S: Default>(name: &'static str) -> Row<S> {
    Row { name, setting: S::default(), git: vec![], live: vec![], expected: vec![] }
}

impl<S> Row<S> {
    pub(crate) fn with(self, setting: S) -> Self {
        Self { setting, ..self }
    }

    pub(crate) fn git(self, git: Vec<LocalManifest>) -> Self {
        Self { git, ..self }
    }

    pub(crate) fn and(mut self, manifest: LocalManifest) -> Self {
        self.git.push(manifest);
        self
    }

    pub(crate) fn live(self, live: impl Into<Vec<ObjectMetadata>>) -> Self {
        Self { live: live.into(), ..self }
    }

    pub(crate) fn gives(self, expected: impl Into<Vec<&'static str>>) -> Self {
        Self { expected: expected.into(), ..self }
    }
}

/// A cluster that serves these types and holds these objects.
pub(crate) fn snapshot(objects: Vec<ObjectMetadata>) -> Snapshot {
    objects::snapshot(&TYPES, objects)
}

/// A manifest; a name that ends in `*` is generated.
pub(crate) fn local(api_version: &str, kind: &str, place: &str) -> LocalManifest {
    let (namespace, name) = place.split_once('/').unwrap_or(("", place));
    let metadata = match name.strip_suffix('*') {
        Some(prefix) => serde_json::json!({"generateName": prefix, "namespace": namespace}),
        None => serde_json::json!({"name": name, "namespace": namespace}),
    };
    let document = serde_json::json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
    read_manifests(&document, &ManifestOrigin { file: "x.yaml".to_owned(), document: 1 }).unwrap().remove(0)
}

/// `Kind/namespace/name theirs ours`, in order: `deletes`, `keeps`, `misses`, and a reason, `+` before those that go.
pub(crate) fn table(collection: &Collected<'_>) -> Vec<String> {
    let rows = collection.decisions.iter().map(|verdict| {
        let id = &verdict.object.id;
        let place = if id.namespace.is_empty() { String::new() } else { format!("{}/", id.namespace) };
        let theirs = match verdict.native {
            NativeAction::Deletes => "deletes",
            NativeAction::Keeps => "keeps",
            NativeAction::Misses => "misses",
        };
        let mark = if matches!(verdict.planned, PlannedAction::Delete(_)) { "+" } else { "" };
        format!("{}/{place}{} {theirs} {mark}{}", id.kind, id.name, verdict.reason().code())
    });
    rows.collect()
}
