//! Recorded objects and clusters.

use chrono::{DateTime, TimeDelta};
use gitops_core::kubernetes::object::{
    KeyValues, ManagedFieldsEntry, ObjectId, ObjectMetadata, OwnerReference, Resource, ResourceType,
};
use gitops_core::kubernetes::snapshot::{ClusterIdentity, Snapshot};
use serde_json::Value;

/// An object with nothing but an identity; `place` is `NAMESPACE/NAME`, or `NAME` of what is cluster-scoped.
pub fn object(api_version: &str, kind: &str, place: &str) -> ObjectMetadata {
    let (group, version) = group_and_version(api_version);
    let (namespace, name) = place.split_once('/').unwrap_or(("", place));
    ObjectMetadata { version: version.into(), ..identified(ObjectId::new(group, kind, namespace, name)) }
}

/// An object of version v1 with nothing but this identity.
pub fn identified(id: ObjectId) -> ObjectMetadata {
    ObjectMetadata {
        uid: format!("uid-{id}").into(),
        id,
        version: "v1".into(),
        resource_version: "1".into(),
        generation: 1,
        created: Some(DateTime::UNIX_EPOCH),
        deletion_timestamp: None,
        finalizers: vec![],
        labels: KeyValues::default(),
        annotations: KeyValues::default(),
        owner_references: vec![],
        managed_fields: vec![],
    }
}

/// Changes an object, step by step.
pub trait Build: Sized {
    /// Sets a label.
    fn label(self, key: &str, value: &str) -> Self;
    /// Sets an annotation.
    fn annotation(self, key: &str, value: &str) -> Self;
    /// Adds an entry of managedFields, by an update, that owns these labels.
    fn written_by(self, manager: &str, labels: &[&str]) -> Self;
    /// Sets labels and adds the entry of managedFields of the manager that applied them.
    fn applied_by(self, manager: &str, labels: &[(&str, &str)]) -> Self;
    /// Adds a reference to a ReplicaSet, as its controller or not.
    fn referring_to(self, uid: &str, controller: bool) -> Self;
    /// Sets when it was created, in seconds since 1970.
    fn created(self, seconds: i64) -> Self;
    /// Makes it an object that a finalizer holds in its deletion.
    fn terminating(self) -> Self;
    /// Adds the content that is recorded of owners.
    fn with_content(self, content: Value) -> Resource;
}

impl Build for ObjectMetadata {
    fn label(mut self, key: &str, value: &str) -> Self {
        self.labels = with(&self.labels, key, value);
        self
    }

    fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations = with(&self.annotations, key, value);
        self
    }

    fn written_by(mut self, manager: &str, labels: &[&str]) -> Self {
        let labels = labels.iter().map(|label| (*label).into()).collect();
        self.managed_fields.push(ManagedFieldsEntry {
            manager: manager.into(),
            labels,
            ..ManagedFieldsEntry::default()
        });
        self
    }

    fn applied_by(mut self, manager: &str, labels: &[(&str, &str)]) -> Self {
        for (key, value) in labels {
            self = self.label(key, value);
        }
        let labels: Vec<&str> = labels.iter().map(|(key, _)| *key).collect();
        self = self.written_by(manager, &labels);
        if let Some(writer) = self.managed_fields.last_mut() {
            writer.applies = true;
        }
        self
    }

    fn referring_to(mut self, uid: &str, controller: bool) -> Self {
        self.owner_references.push(OwnerReference {
            group: "".into(),
            kind: "ReplicaSet".into(),
            name: uid.into(),
            uid: uid.into(),
            controller,
            block_owner_deletion: false,
        });
        self
    }

    fn created(mut self, seconds: i64) -> Self {
        self.created = Some(DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds));
        self
    }

    fn terminating(mut self) -> Self {
        self.deletion_timestamp = Some(DateTime::UNIX_EPOCH);
        self.finalizers = vec!["example.com/hold".into()];
        self
    }

    fn with_content(self, content: Value) -> Resource {
        Resource { object: self, content }
    }
}

/// A type that the cluster serves; its name in singular is the kind in lower case.
pub fn resource_type(api_version: &str, kind: &str, plural: &str, namespaced: bool) -> ResourceType {
    let (group, version) = group_and_version(api_version);
    ResourceType {
        group: group.into(),
        version: version.into(),
        kind: kind.into(),
        plural: plural.into(),
        singular: kind.to_lowercase().into(),
        short_names: vec![],
        namespaced,
    }
}

/// A recorded cluster that serves these types and holds these objects.
pub fn snapshot(types: &[(&str, &str, &str, bool)], objects: Vec<ObjectMetadata>) -> Snapshot {
    let mut snapshot = Snapshot::new(DateTime::UNIX_EPOCH, ClusterIdentity::default());
    for (api_version, kind, plural, namespaced) in types {
        snapshot.types.push(resource_type(api_version, kind, plural, *namespaced));
    }
    snapshot.objects = objects;
    snapshot.normalise();
    snapshot
}

fn group_and_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

fn with(map: &KeyValues, key: &str, value: &str) -> KeyValues {
    map.iter().filter(|(known, _)| *known != key).chain([(key, value)]).collect()
}
