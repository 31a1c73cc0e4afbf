//! Snapshots and manifests for the tests of garbage-collection plans.

use chrono::{DateTime, TimeDelta};
use gitops_core::kubernetes::object::{ManagedFieldsEntry, ObjectId, ObjectMetadata, OwnerReference, ResourceType};
use gitops_core::kubernetes::snapshot::{ClusterIdentity, Snapshot};
use gitops_core::prune::collectors::manifest::{LocalManifest, Origin, read};
use gitops_core::prune::collectors::{Collected, NativeAction, PlannedAction};

use crate::objects::bare;

/// apiVersion, kind, plural, namespaced: what the cluster serves.
pub(crate) const TYPES: [(&str, &str, &str, bool); 16] = [
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

fn split(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// A live object; `place` is `namespace/name` or `name`.
pub(crate) struct Live(pub(crate) ObjectMetadata);

pub(crate) fn live(api_version: &str, kind: &str, place: &str) -> Live {
    let (group, version) = split(api_version);
    let (namespace, name) = place.split_once('/').unwrap_or(("", place));
    let id = ObjectId::new(group, kind, namespace, name);
    let created = Some(DateTime::UNIX_EPOCH);
    Live(ObjectMetadata { uid: format!("uid-{id}").into(), version: version.into(), created, ..bare(id) })
}

impl Live {
    pub(crate) fn label(mut self, key: &str, value: &str) -> Self {
        let old: Vec<_> = self.0.labels.iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        let kept = old.into_iter().filter(|(old, _)| old != key);
        self.0.labels = kept.chain([(key.to_owned(), value.to_owned())]).collect();
        self
    }

    pub(crate) fn annotation(mut self, key: &str, value: &str) -> Self {
        let old: Vec<_> = self.0.annotations.iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        self.0.annotations = old.into_iter().chain([(key.to_owned(), value.to_owned())]).collect();
        self
    }

    /// An entry of managedFields that owns these labels.
    pub(crate) fn written_by(mut self, manager: &str, labels: &[&str]) -> Self {
        let labels = labels.iter().map(|label| (*label).into()).collect();
        self.0.writers.push(ManagedFieldsEntry { manager: manager.into(), labels, ..ManagedFieldsEntry::default() });
        self
    }

    pub(crate) fn reference(mut self, controller: bool) -> Self {
        let uid = "somebody".into();
        let (group, kind, name) = ("".into(), "ReplicaSet".into(), "somebody".into());
        self.0.references.push(OwnerReference { group, kind, name, uid, controller, block_owner_deletion: false });
        self
    }

    pub(crate) fn created(mut self, seconds: i64) -> Self {
        self.0.created = Some(DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds));
        self
    }

    pub(crate) fn terminating(mut self) -> Self {
        self.0.deleting = Some(DateTime::UNIX_EPOCH);
        self.0.finalizers = vec!["example.com/hold".into()];
        self
    }
}

pub(crate) fn snapshot(objects: Vec<Live>) -> Snapshot {
    let mut snapshot = Snapshot::new(DateTime::UNIX_EPOCH, ClusterIdentity::default());
    let served = |(api_version, kind, plural, namespaced): (&str, &str, &str, bool)| {
        let (group, version) = split(api_version);
        ResourceType {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            plural: plural.into(),
            singular: kind.to_lowercase().into(),
            short_names: vec![],
            namespaced,
        }
    };
    snapshot.types = TYPES.into_iter().map(served).collect();
    snapshot.objects = objects.into_iter().map(|live| live.0).collect();
    snapshot.normalise();
    snapshot
}

/// A manifest; a name that ends in `*` is generated.
pub(crate) fn local(api_version: &str, kind: &str, place: &str) -> LocalManifest {
    let (namespace, name) = place.split_once('/').unwrap_or(("", place));
    let metadata = match name.strip_suffix('*') {
        Some(prefix) => serde_json::json!({"generateName": prefix, "namespace": namespace}),
        None => serde_json::json!({"name": name, "namespace": namespace}),
    };
    let document = serde_json::json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
    read(&document, &Origin { file: "x.yaml".to_owned(), document: 1 }).unwrap().remove(0)
}

/// `Kind/namespace/name theirs ours`, in order: `deletes`, `keeps`, `misses`, and a reason, `+` before those that go.
pub(crate) fn table(collection: &Collected<'_>) -> Vec<String> {
    let rows = collection.verdicts.iter().map(|verdict| {
        let id = &verdict.object.id;
        let place = if id.namespace.is_empty() { String::new() } else { format!("{}/", id.namespace) };
        let theirs = match verdict.theirs {
            NativeAction::Deletes => "deletes",
            NativeAction::Keeps => "keeps",
            NativeAction::Misses => "misses",
        };
        let mark = if matches!(verdict.ours, PlannedAction::Delete(_)) { "+" } else { "" };
        format!("{}/{place}{} {theirs} {mark}{}", id.kind, id.name, verdict.reason().code())
    });
    rows.collect()
}
