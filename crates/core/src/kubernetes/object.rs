//! Kubernetes objects as this tool sees them: identity and trimmed metadata, never content.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Serialize};

/// API group and kind; identifies what an object is across versions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GroupKind {
    /// API group, empty for core.
    pub group: Arc<str>,
    /// Kind in CamelCase.
    pub kind: Arc<str>,
}

impl GroupKind {
    /// Group and kind from text.
    pub fn new(group: &str, kind: &str) -> Self {
        Self { group: group.into(), kind: kind.into() }
    }
}

impl fmt::Display for GroupKind {
    /// `deployment.apps`, `configmap`: as kubectl writes it in `-o name`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind.to_lowercase())?;
        if self.group.is_empty() { Ok(()) } else { write!(f, ".{}", self.group) }
    }
}

/// Identity of an object: group, kind, namespace (empty when cluster-scoped), name. Never the version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectId {
    /// API group, empty for core.
    pub group: Arc<str>,
    /// Kind in CamelCase.
    pub kind: Arc<str>,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Box<str>,
}

impl ObjectId {
    /// Identity from text.
    pub fn new(group: &str, kind: &str, namespace: &str, name: &str) -> Self {
        Self { group: group.into(), kind: kind.into(), namespace: namespace.into(), name: name.into() }
    }

    /// Group and kind of this object.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind { group: self.group.clone(), kind: self.kind.clone() }
    }

    /// Whether group and kind are these.
    pub fn is(&self, group: &str, kind: &str) -> bool {
        &*self.group == group && &*self.kind == kind
    }
}

impl fmt::Display for ObjectId {
    /// `deployment.apps/web -n shop`; the namespace part is left out for cluster-scoped objects.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.group_kind(), self.name)?;
        if self.namespace.is_empty() { Ok(()) } else { write!(f, " -n {}", self.namespace) }
    }
}

/// A small sorted map of labels or annotations; three words when empty, one allocation otherwise. Its texts are shared,
/// because the same few repeat over a whole cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyValues(Vec<(Arc<str>, Arc<str>)>);

impl KeyValues {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.binary_search_by(|(k, _)| (**k).cmp(key)).ok()?;
        Some(&self.0[found].1)
    }

    /// Keys and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(k, v)| (&**k, &**v))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<K: Into<Arc<str>>, V: Into<Arc<str>>> FromIterator<(K, V)> for KeyValues {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut pairs: Vec<_> = pairs.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
        pairs.sort_unstable();
        pairs.shrink_to_fit();
        Self(pairs)
    }
}

impl Serialize for KeyValues {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for KeyValues {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Pairs)
    }
}

/// Collects a map without a copy of its texts in between.
struct Pairs;

/// Text, borrowed where it holds no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Visitor<'de> for Pairs {
    type Value = KeyValues;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of text")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<KeyValues, M::Error> {
        let mut pairs = vec![];
        while let Some((Text(key), Text(value))) = map.next_entry()? {
            pairs.push((key, value));
        }
        Ok(pairs.into_iter().collect())
    }
}

/// An entry of `metadata.ownerReferences`. Called a *controller reference* when `controller` is true; never an owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerReference {
    /// API group of the referenced object.
    pub group: Arc<str>,
    /// Kind of the referenced object.
    pub kind: Arc<str>,
    /// Name of the referenced object, in the same namespace or cluster-scoped.
    pub name: Box<str>,
    /// Uid of the referenced object.
    pub uid: Box<str>,
    /// `controller: true`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub controller: bool,
    /// `blockOwnerDeletion: true`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub block_owner_deletion: bool,
}

/// One `metadata.managedFields` entry, reduced to the marks (labels and annotations this tool knows) that it owns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManagedFieldsEntry {
    /// Field manager.
    pub manager: Arc<str>,
    /// `true` for operation Apply, `false` for Update.
    #[serde(default, skip_serializing_if = "is_false")]
    pub applies: bool,
    /// Subresource that was written, empty for the object itself.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub subresource: Arc<str>,
    /// When the entry last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<DateTime<Utc>>,
    /// Known label keys that the entry owns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<Box<str>>,
    /// Known annotation keys that the entry owns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub annotations: Vec<Box<str>>,
    /// Whether the entry owns `spec.suspend`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub suspend: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Trimmed metadata of one live object: all labels, the annotations this tool knows, no content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectMetadata {
    /// Identity.
    #[serde(flatten)]
    pub id: ObjectId,
    /// API version without group, as it was read.
    pub version: Arc<str>,
    /// Uid.
    pub uid: Box<str>,
    /// Resource version at the time of reading.
    pub resource_version: Box<str>,
    /// Generation, 0 where the kind has none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub generation: i64,
    /// Creation time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<DateTime<Utc>>,
    /// Deletion time; present while finalizers hold the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleting: Option<DateTime<Utc>>,
    /// Finalizers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<Box<str>>,
    /// All labels.
    #[serde(default, skip_serializing_if = "KeyValues::is_empty")]
    pub labels: KeyValues,
    /// Annotations that a scheme, a keep mark or a suspension speaks of.
    #[serde(default, skip_serializing_if = "KeyValues::is_empty")]
    pub annotations: KeyValues,
    /// `metadata.ownerReferences`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<OwnerReference>,
    /// Who wrote the marks; empty when the object carries none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writers: Vec<ManagedFieldsEntry>,
}

fn is_zero(value: &i64) -> bool {
    *value == 0
}

impl ObjectMetadata {
    /// A label or else an annotation of this key: some tools accept their marks as either.
    pub fn mark(&self, key: &str) -> Option<&str> {
        self.labels.get(key).or_else(|| self.annotations.get(key))
    }

    /// The controller reference, if there is one.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.references.iter().find(|reference| reference.controller)
    }
}

/// An object whose content matters: an owner, a source, anything that can be suspended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resource {
    /// Metadata.
    pub object: ObjectMetadata,
    /// Everything but `apiVersion`, `kind` and `metadata`: `spec`, `status`, `data`, …
    pub content: serde_json::Value,
}

impl Resource {
    /// The value at a JSON pointer below the content, such as `/spec/suspend`.
    pub fn at(&self, pointer: &str) -> Option<&serde_json::Value> {
        self.content.pointer(pointer)
    }

    /// The text at a JSON pointer.
    pub fn text(&self, pointer: &str) -> Option<&str> {
        self.at(pointer)?.as_str()
    }

    /// Whether the value at a JSON pointer is `true`.
    pub fn flag(&self, pointer: &str) -> bool {
        self.at(pointer).and_then(serde_json::Value::as_bool).unwrap_or_default()
    }

    /// The entries of `status.conditions`.
    pub fn conditions(&self) -> impl Iterator<Item = Condition<'_>> {
        let conditions = self.at("/status/conditions").and_then(serde_json::Value::as_array);
        conditions.into_iter().flatten().filter_map(Condition::read)
    }

    /// The status condition of a type.
    pub fn condition(&self, kind: &str) -> Option<Condition<'_>> {
        self.conditions().find(|condition| condition.kind == kind)
    }
}

/// One entry of `status.conditions`.
#[derive(Clone, Copy, Debug)]
pub struct Condition<'a> {
    /// `Ready`, `Reconciling`, …
    pub kind: &'a str,
    /// `True`, `False`, `Unknown`.
    pub status: &'a str,
    /// Machine-readable reason.
    pub reason: &'a str,
    /// Message for people, written by others: sanitise before printing.
    pub message: &'a str,
    /// Generation that the condition speaks of.
    pub observed_generation: Option<i64>,
    /// Last change of the status.
    pub changed: Option<DateTime<Utc>>,
}

impl<'a> Condition<'a> {
    /// Reads one entry; `None` when it has no type or status.
    pub fn read(value: &'a serde_json::Value) -> Option<Self> {
        let text = |key: &str| value.get(key).and_then(serde_json::Value::as_str);
        Some(Self {
            kind: text("type")?,
            status: text("status")?,
            reason: text("reason").unwrap_or_default(),
            message: text("message").unwrap_or_default(),
            observed_generation: value.get("observedGeneration").and_then(serde_json::Value::as_i64),
            changed: text("lastTransitionTime").and_then(parse_time),
        })
    }
}

/// An RFC 3339 time as Kubernetes writes it.
pub fn parse_time(text: &str) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc3339(text).ok().map(|time| time.to_utc())
}

/// A type of the API that can be listed and deleted, in the one version this tool reads it in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ResourceType {
    /// API group, empty for core.
    pub group: Arc<str>,
    /// Version, without group.
    pub version: Arc<str>,
    /// Kind in CamelCase.
    pub kind: Arc<str>,
    /// Plural name, as in the URL.
    pub plural: Box<str>,
    /// Singular name, may be empty.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub singular: Box<str>,
    /// Short names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub short_names: Vec<Box<str>>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

impl ResourceType {
    /// `deployments.apps`, `configmaps`: as kubectl writes a type.
    pub fn resource(&self) -> String {
        if self.group.is_empty() { self.plural.to_string() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// `apps/v1`, `v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_string() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Group and kind.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind { group: self.group.clone(), kind: self.kind.clone() }
    }

    /// Whether group and kind are these.
    pub fn is(&self, group: &str, kind: &str) -> bool {
        &*self.group == group && &*self.kind == kind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_values_are_found_whatever_order_they_came_in() {
        let map: KeyValues = [("b", "2"), ("a", "1"), ("c", "3")].into_iter().collect();
        assert_eq!((map.get("a"), map.get("c"), map.get("d")), (Some("1"), Some("3"), None));
    }

    #[test]
    fn an_id_reads_like_kubectl() {
        assert_eq!(ObjectId::new("apps", "Deployment", "shop", "web").to_string(), "deployment.apps/web -n shop");
        assert_eq!(ObjectId::new("", "Namespace", "", "shop").to_string(), "namespace/shop");
    }
}
