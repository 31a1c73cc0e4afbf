//! Metadata as the API server sends it, protobuf or JSON, turned at once into the trimmed [`ObjectMetadata`].

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use gitops_core::flux::suspension;
use gitops_core::kubernetes::object::{
    ManagedFieldsEntry, ObjectId, ObjectMetadata, OwnerReference, ResourceType, parse_time,
};
use gitops_core::ownership::{derive_annotation, is_ownership_key};

/// `metadata` of one object, borrowed from the response.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct MetadataVisitor<'a> {
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
    pub(crate) owner_references: Vec<OwnerReferenceVisitor<'a>>,
    #[serde(borrow)]
    pub(crate) managed_fields: Vec<ManagedFields<'a>>,
}

/// `metadata.ownerReferences[]`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct OwnerReferenceVisitor<'a> {
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

/// `metadata.managedFields[]`; `fields` stays JSON until a witness is needed.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ManagedFields<'a> {
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

/// Text of a map, borrowed where it holds no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

type Pairs<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

fn pairs<'de: 'a, 'a, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Pairs<'a>, D::Error> {
    struct Collect<'a>(std::marker::PhantomData<&'a ()>);
    impl<'de: 'a, 'a> Visitor<'de> for Collect<'a> {
        type Value = Pairs<'a>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a map of text")
        }
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(vec![])
        }
        fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
            let mut pairs = vec![];
            while let Some((Text(key), Text(value))) = map.next_entry()? {
                pairs.push((key, value));
            }
            Ok(pairs)
        }
    }
    deserializer.deserialize_any(Collect(std::marker::PhantomData))
}

/// Texts that repeat over a list (namespaces, managers, labels) are stored once.
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
    is_ownership_key(key) || suspension::KEYS.contains(&key)
}

/// Trims metadata: all labels, known annotations, and who wrote the known marks.
pub(crate) fn trim(metadata: &MetadataVisitor<'_>, kind: &ResourceType, interner: &mut Interner) -> ObjectMetadata {
    let marked = metadata.labels.iter().chain(&metadata.annotations).any(|(key, _)| is_kept(key));
    let writers = if marked { writers(metadata, interner) } else { vec![] };
    let known = metadata.annotations.iter().filter_map(|(key, value)| match is_kept(key) {
        true => Some((&**key, Cow::Borrowed(&**value))),
        false if marked => derive_annotation(key, value).map(|(key, identity)| (key, Cow::Owned(identity))),
        false => None,
    });
    ObjectMetadata {
        id: ObjectId {
            group: kind.group.clone(),
            kind: kind.kind.clone(),
            namespace: interner.intern(&metadata.namespace),
            name: (&*metadata.name).into(),
        },
        version: kind.version.clone(),
        uid: (&*metadata.uid).into(),
        resource_version: (&*metadata.resource_version).into(),
        generation: metadata.generation,
        created: metadata.creation_timestamp,
        deleting: metadata.deletion_timestamp,
        finalizers: metadata.finalizers.iter().map(|finalizer| (&**finalizer).into()).collect(),
        labels: metadata.labels.iter().map(|(key, value)| (interner.intern(key), interner.intern(value))).collect(),
        annotations: known.collect(),
        references: metadata.owner_references.iter().map(|reference| trim_reference(reference, interner)).collect(),
        writers,
    }
}

fn trim_reference(reference: &OwnerReferenceVisitor<'_>, interner: &mut Interner) -> OwnerReference {
    let group = reference.api_version.split_once('/').map_or("", |(group, _)| group);
    OwnerReference {
        group: interner.intern(group),
        kind: interner.intern(&reference.kind),
        name: (&*reference.name).into(),
        uid: (&*reference.uid).into(),
        controller: reference.controller,
        block_owner_deletion: reference.block_owner_deletion,
    }
}

/// The managedFields entries that own a mark or `spec.suspend`, and those that wrote the status (evidence of a run).
pub(crate) fn writers(metadata: &MetadataVisitor<'_>, interner: &mut Interner) -> Vec<ManagedFieldsEntry> {
    let mut writers = vec![];
    for entry in &metadata.managed_fields {
        let owned: OwnedFields = serde_json::from_slice(entry.fields).unwrap_or_default();
        let writer = ManagedFieldsEntry {
            manager: interner.intern(&entry.manager),
            applies: entry.operation == "Apply",
            subresource: interner.intern(&entry.subresource),
            time: entry.time,
            labels: owned.metadata.labels.0,
            annotations: owned.metadata.annotations.0,
            suspend: owned.spec.suspend.is_some(),
        };
        let marks = writer.suspend || !writer.labels.is_empty() || !writer.annotations.is_empty();
        if marks || &*writer.subresource == "status" {
            writers.push(writer);
        }
    }
    // A vector begins with room for four, and most objects have one writer: 15 MiB of 100,000 objects.
    writers.shrink_to_fit();
    writers
}

/// The part of `fieldsV1` that matters.
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
    labels: Marks,
    #[serde(rename = "f:annotations")]
    annotations: Marks,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OwnedSpec {
    #[serde(rename = "f:suspend")]
    suspend: Option<IgnoredAny>,
}

/// The known keys of an `f:labels` or `f:annotations` map.
#[derive(Default)]
struct Marks(Vec<Box<str>>);

impl<'de> Deserialize<'de> for Marks {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Marks;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a map of fields")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Marks, M::Error> {
                let mut marks = vec![];
                while let Some((Text(field), IgnoredAny)) = map.next_entry()? {
                    marks.extend(field.strip_prefix("f:").filter(|key| is_kept(key)).map(Into::into));
                }
                marks.sort_unstable();
                marks.shrink_to_fit();
                Ok(Marks(marks))
            }
        }
        deserializer.deserialize_map(Collect)
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
    fn metadata_is_trimmed_to_what_matters() {
        let metadata: MetadataVisitor<'_> = serde_json::from_str(JSON).unwrap();
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
        assert_eq!(&*object.references[0].group, "apps");
        assert_eq!(object.writers.len(), 1, "only the entry that owns a mark stays");
        assert_eq!(object.writers[0].labels, ["kustomize.toolkit.fluxcd.io/name".into()]);
    }
}
