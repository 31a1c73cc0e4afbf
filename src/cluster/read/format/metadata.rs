//! Conversion of metadata as the API server sends it, protobuf or JSON, to the trimmed [`ObjectMetadata`].

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use gitops_core::flux::suspension;
use gitops_core::kubernetes::deletion::tokens;
use gitops_core::kubernetes::object::{
    LastChange, ManagedFieldsEntry, ObjectId, ObjectMetadata, OwnerReference, Placeholders, ResourceType, group_of,
    parse_time,
};
use gitops_core::ownership::{derive_annotation, is_ownership_key};

/// `metadata` of one object, borrowed from the response.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RawMetadata<'a> {
    #[serde(borrow)]
    pub(crate) name: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) namespace: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) uid: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) resource_version: Cow<'a, str>,
    pub(crate) generation: i64,
    #[serde(deserialize_with = "time")]
    pub(crate) creation_timestamp: Option<DateTime<Utc>>,
    #[serde(deserialize_with = "time")]
    pub(crate) deletion_timestamp: Option<DateTime<Utc>>,
    pub(crate) finalizers: Vec<Cow<'a, str>>,
    #[serde(borrow, deserialize_with = "pairs")]
    pub(crate) labels: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    #[serde(borrow, deserialize_with = "pairs")]
    pub(crate) annotations: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    #[serde(borrow)]
    pub(crate) owner_references: Vec<RawOwnerReference<'a>>,
    #[serde(borrow)]
    pub(crate) managed_fields: Vec<RawManagedFields<'a>>,
}

/// One entry of `metadata.ownerReferences`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RawOwnerReference<'a> {
    #[serde(borrow)]
    pub(crate) api_version: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) name: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) uid: Cow<'a, str>,
    pub(crate) controller: bool,
    pub(crate) block_owner_deletion: bool,
}

/// `metadata.managedFields[]`; `fields` is the JSON of `fieldsV1`, unparsed.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RawManagedFields<'a> {
    #[serde(borrow)]
    pub(crate) manager: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) operation: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) subresource: Cow<'a, str>,
    #[serde(deserialize_with = "time")]
    pub(crate) time: Option<DateTime<Utc>>,
    #[serde(borrow, rename = "fieldsV1", deserialize_with = "raw")]
    pub(crate) fields: &'a [u8],
}

fn time<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<DateTime<Utc>>, D::Error> {
    Ok(Option::<Cow<'de, str>>::deserialize(deserializer)?.as_deref().and_then(parse_time))
}

fn raw<'de: 'a, 'a, D: serde::Deserializer<'de>>(deserializer: D) -> Result<&'a [u8], D::Error> {
    Ok(Option::<&'a RawValue>::deserialize(deserializer)?.map_or(&[], |fields| fields.get().as_bytes()))
}

/// Key or value of a map, borrowed if it has no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct RawText<'a>(#[serde(borrow)] Cow<'a, str>);

type RawPairs<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

fn pairs<'de: 'a, 'a, D: serde::Deserializer<'de>>(deserializer: D) -> Result<RawPairs<'a>, D::Error> {
    struct PairsVisitor<'a>(std::marker::PhantomData<&'a ()>);
    impl<'de: 'a, 'a> Visitor<'de> for PairsVisitor<'a> {
        type Value = RawPairs<'a>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a map of text")
        }
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(vec![])
        }
        fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
            let mut pairs = vec![];
            while let Some((RawText(key), RawText(value))) = map.next_entry()? {
                pairs.push((key, value));
            }
            Ok(pairs)
        }
    }
    deserializer.deserialize_any(PairsVisitor(std::marker::PhantomData))
}

/// Stores texts that repeat in a list (namespaces, managers, labels) once.
#[derive(Default)]
pub(crate) struct Interner(HashSet<Arc<str>>);

impl Interner {
    fn intern(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        let new: Arc<str> = text.into();
        self.0.insert(new.clone());
        new
    }
}

/// Returns true if annotations and managedFields with a key are kept: it matters to ownership or to suspension.
fn is_kept(key: &str) -> bool {
    is_ownership_key(key) || suspension::KEYS.contains(&key) || [tokens::ACCOUNT, tokens::ACCOUNT_UID].contains(&key)
}

/// Keeps all labels, the known annotations, and the managedFields entries of known keys.
pub(crate) fn trim(metadata: &RawMetadata<'_>, kind: &ResourceType, interner: &mut Interner) -> ObjectMetadata {
    let has_known_key = metadata.labels.iter().chain(&metadata.annotations).any(|(key, _)| is_kept(key));
    let writers = if has_known_key { writers(metadata, interner) } else { vec![] };
    let known = metadata.annotations.iter().filter_map(|(key, value)| {
        if is_kept(key) {
            Some((&**key, Cow::Borrowed(&**value)))
        } else {
            let (key, identity) = derive_annotation(key, value).filter(|_| has_known_key)?;
            Some((key, Cow::Owned(identity)))
        }
    });
    ObjectMetadata {
        id: ObjectId {
            cluster: None,
            group: kind.group.clone(),
            kind: kind.kind.clone(),
            namespace: interner.intern(&metadata.namespace),
            name: (&*metadata.name).into(),
            placeholders: Placeholders::default(),
        },
        version: kind.version.clone(),
        uid: (&*metadata.uid).into(),
        resource_version: (&*metadata.resource_version).into(),
        generation: metadata.generation,
        creation_timestamp: metadata.creation_timestamp,
        created_by: creator(metadata).map(|manager| interner.intern(manager)),
        deletion_timestamp: metadata.deletion_timestamp,
        finalizers: metadata.finalizers.iter().map(|finalizer| (&**finalizer).into()).collect(),
        labels: metadata.labels.iter().map(|(key, value)| (interner.intern(key), interner.intern(value))).collect(),
        annotations: known.collect(),
        owner_references: metadata
            .owner_references
            .iter()
            .map(|reference| trim_reference(reference, interner))
            .collect(),
        managed_fields: writers,
        last_change: last_change(metadata, interner),
    }
}

/// Returns the last change of anything but the status. Times are in seconds: of several changes within one, that by a manager
/// that does not apply counts.
fn last_change(metadata: &RawMetadata<'_>, interner: &mut Interner) -> Option<LastChange> {
    let entries = metadata.managed_fields.iter().filter(|entry| entry.subresource != "status");
    let timed = entries.filter_map(|entry| Some((entry.time?, entry.operation == "Apply", entry)));
    let (time, applies, entry) = timed.max_by_key(|(time, applies, _)| (*time, !applies))?;
    Some(LastChange { time, manager: interner.intern(&entry.manager), applies })
}

/// Returns the field manager that created an object: that of its earliest entry, if this is as old as the object. An entry
/// has the time of its last change.
fn creator<'a>(metadata: &'a RawMetadata<'_>) -> Option<&'a str> {
    let entries = metadata.managed_fields.iter().filter(|entry| entry.subresource.is_empty());
    let first = entries.min_by_key(|entry| entry.time)?;
    let age = first.time? - metadata.creation_timestamp?;
    (age <= TimeDelta::seconds(1) && !first.manager.is_empty()).then_some(&*first.manager)
}

fn trim_reference(reference: &RawOwnerReference<'_>, interner: &mut Interner) -> OwnerReference {
    OwnerReference {
        group: interner.intern(group_of(&reference.api_version)),
        kind: interner.intern(&reference.kind),
        name: (&*reference.name).into(),
        uid: (&*reference.uid).into(),
        controller: reference.controller,
        block_owner_deletion: reference.block_owner_deletion,
    }
}

/// Returns the managedFields entries that own a known key or `spec.suspend`, and those of the status, which are evidence
/// that a controller ran.
pub(crate) fn writers(metadata: &RawMetadata<'_>, interner: &mut Interner) -> Vec<ManagedFieldsEntry> {
    let mut writers = vec![];
    for entry in &metadata.managed_fields {
        let owned: OwnedFields = serde_json::from_slice(entry.fields).unwrap_or_default();
        writers.push(writer(entry, owned, interner));
    }
    writers.retain(is_evidence);
    // Most objects have one entry, and a vector begins with room for four: this saves 15 MiB for 100,000 objects.
    writers.shrink_to_fit();
    writers
}

fn writer(entry: &RawManagedFields<'_>, owned: OwnedFields, interner: &mut Interner) -> ManagedFieldsEntry {
    ManagedFieldsEntry {
        manager: interner.intern(&entry.manager),
        applies: entry.operation == "Apply",
        subresource: interner.intern(&entry.subresource),
        time: entry.time,
        labels: owned.metadata.labels.0,
        annotations: owned.metadata.annotations.0,
        suspend: owned.spec.suspend.is_some(),
        spec: None,
    }
}

fn is_evidence(writer: &ManagedFieldsEntry) -> bool {
    writer.suspend || !writer.labels.is_empty() || !writer.annotations.is_empty() || &*writer.subresource == "status"
}

/// Returns the managedFields entries of a Kustomization or HelmRelease, with the fields of its spec: a parent that applies
/// it leaves the fields of other managers unchanged.
pub(crate) fn writers_of_spec(metadata: &RawMetadata<'_>, interner: &mut Interner) -> Vec<ManagedFieldsEntry> {
    let mut writers = vec![];
    for entry in &metadata.managed_fields {
        let owned: OwnedFields = serde_json::from_slice(entry.fields).unwrap_or_default();
        let fields: OwnedSpecFields = serde_json::from_slice(entry.fields).unwrap_or_default();
        writers.push(ManagedFieldsEntry { spec: fields.spec, ..writer(entry, owned, interner) });
    }
    writers.retain(|writer| writer.spec.is_some() || is_evidence(writer));
    writers
}

/// The fields of the spec in `fieldsV1`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct OwnedSpecFields {
    #[serde(rename = "f:spec")]
    spec: Option<Box<serde_json::Value>>,
}

/// The parts of `fieldsV1` that are read.
#[derive(Default, Deserialize)]
#[serde(default)]
struct OwnedFields {
    #[serde(rename = "f:metadata")]
    metadata: OwnedMetadata,
    #[serde(rename = "f:spec")]
    spec: OwnedSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OwnedMetadata {
    #[serde(rename = "f:labels")]
    labels: KnownFields,
    #[serde(rename = "f:annotations")]
    annotations: KnownFields,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OwnedSpec {
    #[serde(rename = "f:suspend")]
    suspend: Option<IgnoredAny>,
}

/// The known keys of an `f:labels` or `f:annotations` map.
#[derive(Default)]
struct KnownFields(Vec<Box<str>>);

impl<'de> Deserialize<'de> for KnownFields {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KnownFieldsVisitor;
        impl<'de> Visitor<'de> for KnownFieldsVisitor {
            type Value = KnownFields;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a map of fields")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<KnownFields, M::Error> {
                let mut keys = vec![];
                while let Some((RawText(field), IgnoredAny)) = map.next_entry()? {
                    keys.extend(field.strip_prefix("f:").filter(|key| is_kept(key)).map(Into::into));
                }
                keys.sort_unstable();
                keys.shrink_to_fit();
                Ok(KnownFields(keys))
            }
        }
        deserializer.deserialize_map(KnownFieldsVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{"name":"a\"b","namespace":"shop","uid":"u","resourceVersion":"7","generation":2,
        "creationTimestamp":"2026-01-02T03:04:05Z","labels":{"app":"x","kustomize.toolkit.fluxcd.io/name":"apps"},
        "annotations":{"huge":"dropped","reconcile.fluxcd.io/suspended":"drill"},
        "ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"v","controller":true}],
        "managedFields":[
          {"manager":"kustomize-controller","operation":"Apply","apiVersion":"v1","time":"2026-01-02T03:04:05Z",
           "fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{"f:app":{},"f:kustomize.toolkit.fluxcd.io/name":{}}}}},
          {"manager":"other","operation":"Update","fieldsV1":{"f:data":{".":{},"f:a":{}}}}]}"#;

    #[test]
    fn trim_keeps_known_annotations_and_their_managers() {
        let metadata: RawMetadata<'_> = serde_json::from_str(JSON).unwrap();
        let kind = ResourceType {
            group: "".into(),
            version: "v1".into(),
            kind: "ConfigMap".into(),
            plural: "configmaps".into(),
            singular: "configmap".into(),
            short_names: vec![],
            namespaced: true,
        };
        let object = trim(&metadata, &kind, &mut Interner::default());
        assert_eq!(object.id, ObjectId::new("", "ConfigMap", "shop", "a\"b"));
        assert_eq!(object.annotations.get("huge"), None);
        assert_eq!(object.annotations.get("reconcile.fluxcd.io/suspended"), Some("drill"));
        assert_eq!(object.labels.get("app"), Some("x"));
        assert_eq!(&*object.owner_references[0].group, "apps");
        assert_eq!(object.managed_fields.len(), 1, "only the entry that owns a known key is kept");
        assert_eq!(object.managed_fields[0].labels, ["kustomize.toolkit.fluxcd.io/name".into()]);
    }
}
