//! Kubernetes objects: identity, trimmed metadata, and, for the few kinds that need it, content.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize};

use crate::private::PLACEHOLDER;

/// Groups of the API server itself whose names have a dot. Definitions can have others below `k8s.io`. Source: Kubernetes v1.36.3
/// `pkg/controlplane` and `pkg/kubeapiserver`.
const GROUPS_WITH_DOT: [&str; 18] = [
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// Returns true for an API group of Kubernetes itself.
pub(crate) fn is_of_kubernetes(group: &str) -> bool {
    !group.contains('.') || GROUPS_WITH_DOT.contains(&group)
}

/// API group and kind of an object, whatever its version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupKind {
    /// API group, empty for core.
    pub group: Arc<str>,
    pub kind: Arc<str>,
}

impl GroupKind {
    pub fn new(group: &str, kind: &str) -> Self {
        Self { group: group.into(), kind: kind.into() }
    }
}

impl fmt::Display for GroupKind {
    /// Writes `deployment.apps` or `configmap`, as kubectl does for `-o name`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind.to_lowercase())?;
        if self.group.is_empty() { Ok(()) } else { write!(f, ".{}", self.group) }
    }
}

/// Identity of an object. The version is not part of it.
///
/// An identity that derives from a Secret is compared as it is, and is written with placeholders.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ObjectId {
    /// Name of the other cluster that has the object, as in `--spoke`; absent for the cluster itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Arc<str>>,
    /// API group, empty for core.
    pub group: Arc<str>,
    pub kind: Arc<str>,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    pub name: Box<str>,
    #[serde(skip)]
    pub placeholders: Placeholders,
}

/// What is written in place of an identity that derives from a Secret. It is no part of the identity.
#[derive(Clone, Default)]
pub struct Placeholders(Option<Arc<ObjectId>>);

impl PartialEq for Placeholders {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Placeholders {}

impl PartialOrd for Placeholders {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Placeholders {
    fn cmp(&self, _: &Self) -> Ordering {
        Ordering::Equal
    }
}

impl Hash for Placeholders {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl ObjectId {
    pub fn new(group: &str, kind: &str, namespace: &str, name: &str) -> Self {
        let placeholders = Placeholders::default();
        let (group, kind) = (group.into(), kind.into());
        Self { cluster: None, group, kind, namespace: namespace.into(), name: name.into(), placeholders }
    }

    /// Returns the identity, which derives from a Secret, and is written as another one.
    #[must_use]
    pub(crate) fn written_as(self, shown: &Self) -> Self {
        Self { placeholders: Placeholders(Some(Arc::new(shown.clone()))), ..self }
    }

    /// Returns the identity, of which every part derives from a Secret. Only a kind that the cluster serves is written.
    #[must_use]
    pub(crate) fn hidden(self, is_served: bool) -> Self {
        let namespace = if self.namespace.is_empty() { "" } else { PLACEHOLDER };
        let [group, kind] = if is_served { [&*self.group, &*self.kind] } else { [PLACEHOLDER; 2] };
        let shown = Self::new(group, kind, namespace, PLACEHOLDER);
        self.written_as(&shown)
    }

    /// Returns true if the identity derives from a Secret.
    pub fn is_private(&self) -> bool {
        self.placeholders.0.is_some()
    }

    /// Returns the identity as it is written: with placeholders if it derives from a Secret.
    pub fn shown(&self) -> Cow<'_, Self> {
        let Some(shown) = &self.placeholders.0 else { return Cow::Borrowed(self) };
        let mut shown = (**shown).clone().in_cluster(self.cluster.as_ref());
        if self.namespace.is_empty() {
            // The identity of a cluster-scoped object has no namespace, whatever its manifest says.
            shown.namespace = self.namespace.clone();
        }
        Cow::Owned(shown)
    }

    /// Returns the object with the same group, kind and name in another cluster, or in the cluster itself.
    #[must_use]
    pub fn in_cluster(self, cluster: Option<&Arc<str>>) -> Self {
        Self { cluster: cluster.cloned(), ..self }
    }

    /// Returns true for a CustomResourceDefinition.
    pub fn is_definition(&self) -> bool {
        self.is("apiextensions.k8s.io", "CustomResourceDefinition")
    }

    /// Returns true for a Namespace and a CustomResourceDefinition, which other objects need.
    pub fn is_container(&self) -> bool {
        self.is("", "Namespace") || self.is_definition()
    }

    /// Returns the namespace that an object is in, as an object of the same cluster.
    pub(crate) fn namespace_object(&self) -> Self {
        let namespace = Self::new("", "Namespace", "", &self.namespace).in_cluster(self.cluster.as_ref());
        match &self.placeholders.0 {
            Some(shown) if shown.namespace != self.namespace => namespace.written_as(&shown.namespace_object()),
            _ => namespace,
        }
    }

    /// Returns true if the object is in the same namespace of the same cluster as another one.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        self.namespace == other.namespace && self.cluster == other.cluster
    }

    /// Returns true if Kubernetes creates the object in every namespace, and again when it is deleted.
    pub(crate) fn is_in_every_namespace(&self) -> bool {
        (self.is("", "ServiceAccount") && &*self.name == "default")
            || (self.is("", "ConfigMap") && &*self.name == "kube-root-ca.crt")
    }

    pub fn group_kind(&self) -> GroupKind {
        GroupKind { group: self.group.clone(), kind: self.kind.clone() }
    }

    pub fn is(&self, group: &str, kind: &str) -> bool {
        &*self.group == group && &*self.kind == kind
    }

    /// Returns true if the object is of this group and kind, and not in another cluster.
    pub(crate) fn is_here(&self, group: &str, kind: &str) -> bool {
        self.cluster.is_none() && self.is(group, kind)
    }
}

impl fmt::Display for ObjectId {
    /// Writes `deployment.apps/web -n shop`, or `namespace/shop` for a cluster-scoped object; ` in cluster edge` follows
    /// for an object of another cluster.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.shown();
        write!(f, "{}/{}", shown.group_kind(), shown.name)?;
        if !shown.namespace.is_empty() {
            write!(f, " -n {}", shown.namespace)?;
        }
        self.cluster.as_ref().map_or(Ok(()), |cluster| write!(f, " in cluster {cluster}"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.shown();
        f.debug_struct("ObjectId")
            .field("cluster", &shown.cluster)
            .field("group", &shown.group)
            .field("kind", &shown.kind)
            .field("namespace", &shown.namespace)
            .field("name", &shown.name)
            .finish()
    }
}

impl Serialize for ObjectId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let shown = self.shown();
        let mut fields = serializer.serialize_struct("ObjectId", 4 + usize::from(shown.cluster.is_some()))?;
        if let Some(cluster) = &shown.cluster {
            fields.serialize_field("cluster", cluster)?;
        }
        fields.serialize_field("group", &shown.group)?;
        fields.serialize_field("kind", &shown.kind)?;
        fields.serialize_field("namespace", &shown.namespace)?;
        fields.serialize_field("name", &shown.name)?;
        fields.end()
    }
}

/// Sorted labels or annotations. Empty maps allocate nothing. The texts are shared, because the same few are on most
/// objects of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyValues(Vec<(Arc<str>, Arc<str>)>);

impl KeyValues {
    pub fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.binary_search_by(|(k, _)| (**k).cmp(key)).ok()?;
        Some(&self.0[found].1)
    }

    /// Iterates over keys and values, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(k, v)| (&**k, &**v))
    }

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
        deserializer.deserialize_map(KeyValuesVisitor)
    }
}

/// Reads a map without intermediate copies of its texts.
struct KeyValuesVisitor;

/// Text that is borrowed from the input unless it holds escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct BorrowedText<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Visitor<'de> for KeyValuesVisitor {
    type Value = KeyValues;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of text")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<KeyValues, M::Error> {
        let mut pairs = vec![];
        while let Some((BorrowedText(key), BorrowedText(value))) = map.next_entry()? {
            pairs.push((key, value));
        }
        Ok(pairs.into_iter().collect())
    }
}

/// An entry of `metadata.ownerReferences`; a *controller reference* if `controller` is true. It names no owner in the
/// sense of [`crate::ownership`], which is a unit that a GitOps system manages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OwnerReference {
    /// API group of the referenced object; its version is dropped.
    pub group: Arc<str>,
    pub kind: Arc<str>,
    /// Name of the referenced object, which is in the same namespace or cluster-scoped.
    pub name: Box<str>,
    pub uid: Box<str>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub controller: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub block_owner_deletion: bool,
}

/// An entry of `metadata.managedFields`, reduced to the fields that this tool evaluates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ManagedFieldsEntry {
    pub manager: Arc<str>,
    /// True for the operation Apply, false for Update.
    #[serde(default, skip_serializing_if = "is_false")]
    pub applies: bool,
    /// Subresource such as `status`, empty for the object itself.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub subresource: Arc<str>,
    /// Time of the last change of these fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<DateTime<Utc>>,
    /// Owned labels, of those that this tool evaluates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<Box<str>>,
    /// Owned annotations, of those that this tool evaluates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub annotations: Vec<Box<str>>,
    /// True if the manager owns `spec.suspend`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub suspend: bool,
    /// Fields below `spec` that the manager owns, as in `fieldsV1`; recorded for Kustomizations and
    /// HelmReleases only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<Box<serde_json::Value>>,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Metadata of a live object: all labels, the annotations that this tool evaluates, and no content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ObjectMetadata {
    #[serde(flatten)]
    pub id: ObjectId,
    /// Version in which the object was read, without the group.
    pub version: Arc<str>,
    pub uid: Box<str>,
    pub resource_version: Box<str>,
    /// Generation, 0 for kinds that have none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub generation: i64,
    #[serde(rename = "created", default, skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<DateTime<Utc>>,
    /// Field manager that created it, if its managedFields still show that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<Arc<str>>,
    /// Deletion timestamp of an object that is terminating.
    #[serde(rename = "deleting", default, skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<DateTime<Utc>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<Box<str>>,
    #[serde(default, skip_serializing_if = "KeyValues::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "std::collections::BTreeMap<String, String>"))]
    pub labels: KeyValues,
    /// Annotations that record ownership, protection or suspension.
    #[serde(default, skip_serializing_if = "KeyValues::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "std::collections::BTreeMap<String, String>"))]
    pub annotations: KeyValues,
    #[serde(rename = "references", default, skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<OwnerReference>,
    /// Managed fields; empty for objects without labels or annotations that this tool evaluates.
    #[serde(rename = "writers", default, skip_serializing_if = "Vec::is_empty")]
    pub managed_fields: Vec<ManagedFieldsEntry>,
    /// Last change of anything but the status. Snapshots do not have it: it only tells what to ask a live API server.
    #[serde(skip)]
    pub last_change: Option<LastChange>,
}

/// The last change of an object, and who made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastChange {
    pub time: DateTime<Utc>,
    pub manager: Arc<str>,
    /// True for the operation Apply, false for Update.
    pub applies: bool,
}

fn is_zero(value: &i64) -> bool {
    *value == 0
}

impl ObjectMetadata {
    /// Returns true if nothing but the resource version and the last change differ, and what this hides of the creator.
    pub fn is_same_as(&self, other: &Self) -> bool {
        let Self { resource_version, created_by, last_change, .. } = other;
        let (resource_version, created_by) = (resource_version.clone(), created_by.clone());
        Self { resource_version, created_by, last_change: last_change.clone(), ..self.clone() } == *other
    }

    pub(crate) fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|own| **own == *finalizer)
    }

    pub fn controller_reference(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|reference| reference.controller)
    }
}

/// An object with content: an owner, a source, a volume, or anything that can be suspended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Resource {
    pub object: ObjectMetadata,
    /// The object without `apiVersion`, `kind` and `metadata`: `spec`, `status`, `data`, …
    pub content: serde_json::Value,
}

impl Resource {
    /// Returns `spec`, or null.
    pub fn spec(&self) -> &serde_json::Value {
        self.content.get("spec").unwrap_or(&serde_json::Value::Null)
    }

    /// Returns the value at a JSON pointer such as `/spec/suspend`.
    pub fn at(&self, pointer: &str) -> Option<&serde_json::Value> {
        value_at(&self.content, pointer)
    }

    /// Returns the text at a JSON pointer.
    pub fn text(&self, pointer: &str) -> Option<&str> {
        self.at(pointer)?.as_str()
    }

    /// Returns true if the value at a JSON pointer is `true`.
    pub fn flag(&self, pointer: &str) -> bool {
        flag_at(&self.content, pointer)
    }

    pub fn conditions(&self) -> impl Iterator<Item = Condition<'_>> {
        let conditions = self.at("/status/conditions").and_then(serde_json::Value::as_array);
        conditions.into_iter().flatten().filter_map(Condition::read)
    }

    /// Returns the status condition of a type such as `Ready`.
    pub fn condition(&self, kind: &str) -> Option<Condition<'_>> {
        self.conditions().find(|condition| condition.kind == kind)
    }

    /// Returns true if the status condition of a type is true, of whatever generation.
    pub fn is_true(&self, kind: &str) -> bool {
        self.condition(kind).is_some_and(|condition| condition.status == "True")
    }
}

/// One entry of `status.conditions`.
#[derive(Clone, Copy, Debug)]
pub struct Condition<'a> {
    /// Type: `Ready`, `Reconciling`, …
    pub kind: &'a str,
    pub status: &'a str,
    pub reason: &'a str,
    /// Message written by others; sanitize it before printing.
    pub message: &'a str,
    /// Generation that the condition was computed for.
    pub observed_generation: Option<i64>,
    /// Time of the last transition.
    pub changed: Option<DateTime<Utc>>,
}

impl<'a> Condition<'a> {
    /// Reads an entry; returns `None` if it has no type or no status.
    pub fn read(value: &'a serde_json::Value) -> Option<Self> {
        Some(Self {
            kind: value.get("type")?.as_str()?,
            status: value.get("status")?.as_str()?,
            reason: text_at(value, "/reason"),
            message: text_at(value, "/message"),
            observed_generation: value.get("observedGeneration").and_then(serde_json::Value::as_i64),
            changed: parse_time(text_at(value, "/lastTransitionTime")),
        })
    }
}

/// Returns the group of an `apiVersion` such as `apps/v1`; empty for the core group.
pub fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// Returns the value at a JSON pointer, as [`serde_json::Value::pointer`] does. It copies no part of a pointer without escapes.
pub(crate) fn value_at<'a>(content: &'a serde_json::Value, pointer: &str) -> Option<&'a serde_json::Value> {
    if pointer.is_empty() || pointer.contains('~') {
        return content.pointer(pointer);
    }
    pointer.strip_prefix('/')?.split('/').try_fold(content, |value, part| match value {
        serde_json::Value::Object(fields) => fields.get(part),
        list => list.pointer(&format!("/{part}")),
    })
}

/// Returns the text at a JSON pointer, or empty text.
pub fn text_at<'a>(content: &'a serde_json::Value, pointer: &str) -> &'a str {
    value_at(content, pointer).and_then(serde_json::Value::as_str).unwrap_or_default()
}

/// Returns the fields of the map at a JSON pointer whose values are text, such as labels.
pub(crate) fn texts_at<'a>(content: &'a serde_json::Value, pointer: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let fields = value_at(content, pointer).and_then(serde_json::Value::as_object).into_iter().flatten();
    fields.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
}

/// Returns the map in a field, such as the labels of metadata. Replaces another value by an empty map.
pub(crate) fn map_in<'m>(
    fields: &'m mut serde_json::Map<String, serde_json::Value>,
    key: &str,
) -> &'m mut serde_json::Map<String, serde_json::Value> {
    let value = fields.entry(key).or_insert(serde_json::Value::Null);
    if !value.is_object() {
        *value = serde_json::json!({});
    }
    value.as_object_mut().expect("it is a map")
}

pub(crate) fn flag_at(content: &serde_json::Value, pointer: &str) -> bool {
    value_at(content, pointer).and_then(serde_json::Value::as_bool).unwrap_or_default()
}

/// Returns the items of the list at a JSON pointer; none if there is no list.
pub(crate) fn list_at<'a>(content: &'a serde_json::Value, pointer: &str) -> &'a [serde_json::Value] {
    value_at(content, pointer).and_then(serde_json::Value::as_array).map_or(&[], Vec::as_slice)
}

/// Sets fields of an object to those of another one, at any depth. Lists are replaced.
pub(crate) fn merge(object: &mut serde_json::Value, over: &serde_json::Value) {
    match (object, over) {
        (serde_json::Value::Object(fields), serde_json::Value::Object(over)) => over
            .iter()
            .for_each(|(key, value)| merge(fields.entry(key.clone()).or_insert(serde_json::Value::Null), value)),
        (object, over) => *object = over.clone(),
    }
}

/// Parses an RFC 3339 time, the format of Kubernetes.
pub fn parse_time(text: &str) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc3339(text).ok().map(|time| time.to_utc())
}

/// Returns the plural that a kind has by convention, in lower case, for kinds that discovery did not list.
pub fn plural(kind: &str) -> String {
    let name = kind.to_lowercase();
    match name.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if name.ends_with(['s', 'x']) => format!("{name}es"),
        None => format!("{name}s"),
    }
}

/// A type of the API that can be listed and deleted, in the version in which this tool reads it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResourceType {
    /// API group, empty for core.
    pub group: Arc<str>,
    /// Version of the API, without the group.
    pub version: Arc<str>,
    pub kind: Arc<str>,
    /// Plural name, as in the URL.
    pub plural: Box<str>,
    /// Singular name, or empty.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub singular: Box<str>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub short_names: Vec<Box<str>>,
    pub namespaced: bool,
}

impl ResourceType {
    /// Returns `deployments.apps` or `configmaps`, as kubectl writes a type.
    pub fn resource(&self) -> String {
        if self.group.is_empty() { self.plural.to_string() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// Returns the identity of the CustomResourceDefinition of the type, which only custom resources have.
    pub(crate) fn definition(&self) -> ObjectId {
        ObjectId::new("apiextensions.k8s.io", "CustomResourceDefinition", "", &self.resource())
    }

    /// Returns `apps/v1` or `v1`, as manifests write it.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_string() } else { format!("{}/{}", self.group, self.version) }
    }

    pub fn group_kind(&self) -> GroupKind {
        GroupKind { group: self.group.clone(), kind: self.kind.clone() }
    }

    pub fn is(&self, group: &str, kind: &str) -> bool {
        &*self.group == group && &*self.kind == kind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_values_are_sorted() {
        let map: KeyValues = [("b", "2"), ("a", "1"), ("c", "3")].into_iter().collect();
        assert_eq!((map.get("a"), map.get("c"), map.get("d")), (Some("1"), Some("3"), None));
    }

    #[test]
    fn a_pointer_leads_to_the_same_value_as_in_the_library() {
        let content = serde_json::json!({"a": {"b": [{"c": 1}, 2], "": 3, "x/y": 4, "0": 5}, "": 6});
        for pointer in
            ["", "/", "/a", "/a/b/0/c", "/a/b/1", "/a/b/01", "/a/b/2", "/a/", "/a/x~1y", "/a/0", "/a/b/c", "a"]
        {
            assert_eq!(value_at(&content, pointer), content.pointer(pointer), "{pointer:?}");
        }
    }

    #[test]
    fn ids_are_written_as_kubectl_does() {
        assert_eq!(ObjectId::new("apps", "Deployment", "shop", "web").to_string(), "deployment.apps/web -n shop");
        assert_eq!(ObjectId::new("", "Namespace", "", "shop").to_string(), "namespace/shop");
    }
}
