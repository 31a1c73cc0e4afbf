//! Builders of objects and snapshots for tests; compiled only with the feature `testing`.

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use crate::kubernetes::gap::{Gap, GapKind};
use crate::kubernetes::object::{
    KeyValues, ManagedFieldsEntry, ObjectId, ObjectMetadata, OwnerReference, Resource, ResourceType, parse_time,
};
use crate::kubernetes::snapshot::{ClusterIdentity, Snapshot};
use crate::ownership::schemes::flux_kustomization;

/// A generator of pseudo-random numbers that are the same in every run.
pub struct Dice(pub u64);

impl Dice {
    /// Returns a number below a limit.
    pub fn roll(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }

    /// Returns true once in `limit` times on average.
    pub fn one_in(&mut self, limit: usize) -> bool {
        self.roll(limit) == 0
    }
}

/// Returns an object with nothing but an identity.
pub fn object(group: &str, kind: &str, namespace: &str, name: &str) -> ObjectMetadata {
    ObjectMetadata {
        id: ObjectId::new(group, kind, namespace, name),
        version: "v1".into(),
        uid: format!("uid:{group}/{kind}/{namespace}/{name}").into(),
        resource_version: "1".into(),
        generation: 1,
        creation_timestamp: None,
        created_by: None,
        deletion_timestamp: None,
        finalizers: vec![],
        labels: KeyValues::default(),
        annotations: KeyValues::default(),
        owner_references: vec![],
        managed_fields: vec![],
        last_change: None,
    }
}

fn with(map: &KeyValues, key: &str, value: &str) -> KeyValues {
    map.iter().filter(|(known, _)| *known != key).chain([(key, value)]).collect()
}

/// Changes an object, step by step.
pub trait Build: Sized {
    fn label(self, key: &str, value: &str) -> Self;
    fn annotation(self, key: &str, value: &str) -> Self;
    /// Adds a managedFields entry that owns this label or annotation: by an apply, of kubectl by an update.
    fn writer(self, manager: &str, key: &str) -> Self;
    /// Adds a managedFields entry, by an update, that owns these labels.
    fn written_by(self, manager: &str, labels: &[&str]) -> Self;
    /// Sets labels and adds the managedFields entry of the manager that applied them.
    fn applied_by(self, manager: &str, labels: &[(&str, &str)]) -> Self;
    /// Adds an owner reference to a ReplicaSet that is the controller.
    fn controlled_by(self, uid: &str) -> Self;
    /// Adds an owner reference to a ReplicaSet that is not the controller.
    fn referring_to(self, uid: &str) -> Self;
    /// Adds the labels of a Kustomization in flux-system, as kustomize-controller applies them.
    fn of_kustomization(self, name: &str) -> Self;
    /// Sets the time of creation, in seconds since 1970.
    fn created(self, seconds: i64) -> Self;
    /// Marks the object as being deleted and held by a finalizer.
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

    fn writer(mut self, manager: &str, key: &str) -> Self {
        let keys: Vec<Box<str>> = vec![key.into()];
        self.managed_fields.push(ManagedFieldsEntry {
            manager: manager.into(),
            applies: manager != "kubectl",
            labels: keys.clone(),
            annotations: keys,
            ..ManagedFieldsEntry::default()
        });
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
        let keys: Vec<&str> = labels.iter().map(|(key, _)| *key).collect();
        self = self.written_by(manager, &keys);
        self.managed_fields.last_mut().expect("just pushed").applies = true;
        self
    }

    fn controlled_by(mut self, uid: &str) -> Self {
        self = self.referring_to(uid);
        self.owner_references.last_mut().expect("just pushed").controller = true;
        self
    }

    fn referring_to(mut self, uid: &str) -> Self {
        self.owner_references.push(OwnerReference {
            group: "apps".into(),
            kind: "ReplicaSet".into(),
            name: "x".into(),
            uid: uid.into(),
            controller: false,
            block_owner_deletion: false,
        });
        self
    }

    fn of_kustomization(self, name: &str) -> Self {
        let labelled = self.label(flux_kustomization::NAME, name).label(flux_kustomization::NAMESPACE, "flux-system");
        labelled.writer("kustomize-controller", flux_kustomization::NAME)
    }

    fn created(mut self, seconds: i64) -> Self {
        self.creation_timestamp = DateTime::from_timestamp(seconds, 0);
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

/// Returns a ready Kustomization in flux-system whose inventory has these ids.
pub fn kustomization(name: &str, ids: &[&str]) -> Resource {
    let entries: Vec<Value> = ids.iter().map(|id| json!({"id": id, "v": "v1"})).collect();
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-06-01T00:00:00Z"});
    object(flux_kustomization::GROUP, flux_kustomization::KIND, "flux-system", name)
        .with_content(json!({"spec": {}, "status": {"inventory": {"entries": entries}, "conditions": [ready]}}))
}

/// Returns a gap in the whole cluster.
pub fn gap(kind: GapKind, subject: &str) -> Gap {
    Gap { kind, subject: subject.to_owned(), namespace: None, message: "forbidden".to_owned() }
}

/// Returns a type of version v1.
pub fn resource_type(group: &str, kind: &str, plural: &str, namespaced: bool) -> ResourceType {
    ResourceType {
        group: group.into(),
        version: "v1".into(),
        kind: kind.into(),
        plural: plural.into(),
        singular: "".into(),
        short_names: vec![],
        namespaced,
    }
}

/// Returns a snapshot that was taken on the last day of 2026.
pub fn snapshot(objects: Vec<ObjectMetadata>, full: Vec<Resource>) -> Snapshot {
    let taken = parse_time("2026-12-31T00:00:00Z").expect("a time");
    let mut snapshot = Snapshot::new(taken, ClusterIdentity::default());
    snapshot.objects = objects;
    snapshot.resources = full;
    snapshot.normalise();
    snapshot
}

/// Returns a fixed time, noon of 2 January 2026.
pub fn noon() -> DateTime<Utc> {
    parse_time("2026-01-02T12:00:00Z").unwrap()
}

/// Returns an object of a kind of Flux with this content and these annotations.
pub fn flux_object(kind: &str, content: Value, annotations: &[(&str, &str)]) -> Resource {
    let group = crate::flux::kinds::KINDS.iter().find(|known| known.kind == kind).unwrap().group;
    let object = ObjectMetadata {
        uid: "u".into(),
        resource_version: "7".into(),
        generation: 3,
        creation_timestamp: Some(noon()),
        annotations: annotations.iter().copied().collect(),
        ..object(group, kind, "shop", "apps")
    };
    Resource { object, content }
}

/// Returns a managedFields entry that owns these annotations.
pub fn owner_of(manager: &str, applies: bool, seconds: i64, annotations: &[&str]) -> ManagedFieldsEntry {
    ManagedFieldsEntry {
        manager: manager.into(),
        applies,
        time: Some(noon() + chrono::TimeDelta::seconds(seconds)),
        annotations: annotations.iter().map(|key| (*key).into()).collect(),
        ..ManagedFieldsEntry::default()
    }
}

/// Returns a packed chart of these files.
pub fn packed_chart(files: &[(&str, &str)]) -> Vec<u8> {
    let gzip = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
    let mut archive = tar::Builder::new(gzip);
    for (at, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, format!("app/{at}"), content.as_bytes()).expect("a file is packed");
    }
    archive.into_inner().and_then(flate2::write::GzEncoder::finish).expect("the archive ends")
}
