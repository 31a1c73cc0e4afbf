//! Objects of a build, before and after they get their owner labels, and what outputs show of them.
//!
//! The identity and the manifest of a [`BuiltObject`] are those that the controller applies, because they are compared with
//! the cluster. They can hold values of Secrets: nothing of them may be shown where [`BuiltObject::masked`] differs.
//! Source: docs/reference/kustomize-controller.md 3.5 and 4.1.

pub mod data;
pub mod query;
pub mod undecrypted;
pub(super) mod yaml;

use std::sync::Arc;

use serde_json::{Map, Value};

use self::undecrypted::{UNKNOWN, Undecrypted, holds_ciphertext};
use crate::kubernetes::object::{GroupKind, ObjectId, text_at};
use crate::text::is_same_folded;

/// An object that a build produces.
#[derive(Clone, Debug, PartialEq)]
pub struct BuiltObject {
    /// Identity. The namespace is that of the manifest until the scope of the kind is known.
    pub id: ObjectId,
    /// API version without the group.
    pub version: String,
    /// Manifest without the controller's labels; null for a live object that may be an encrypted one.
    pub manifest: Arc<Value>,
    /// Part that is unknown without keys.
    pub undecrypted: Option<Undecrypted>,
    /// Form of the object for display; set if its manifest holds values of Secrets.
    pub masked: Option<Box<MaskedObject>>,
}

impl BuiltObject {
    /// Returns true if a label or annotation of the manifest has this value, compared without case.
    pub(crate) fn has_label_or_annotation(&self, key: &str, value: &str) -> bool {
        manifest_has(&self.manifest, key, |found| is_same_folded(found, value))
    }

    /// Returns true if a key of `labels` or `annotations` of the manifest has this value, compared without case.
    pub(crate) fn has_metadata(&self, field: &str, key: &str, value: &str) -> bool {
        field_has(&self.manifest, field, key, |found| is_same_folded(found, value))
    }

    /// Returns true if the identity in the cluster is unknown.
    pub(crate) fn has_unknown_identity(&self) -> bool {
        matches!(self.undecrypted, Some(Undecrypted::Name(_) | Undecrypted::Identity))
    }

    /// Returns true if SOPS encrypts the object, or a part of it, so that the cluster has values that the tree hides.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.undecrypted.as_ref().is_some_and(|part| *part != Undecrypted::Reference)
    }

    /// Returns true if a value of the spec is encrypted, so that it is not known.
    pub(crate) fn has_encrypted_spec(&self) -> bool {
        self.undecrypted.is_some() && self.manifest.get("spec").is_some_and(holds_ciphertext)
    }

    /// Returns true if a label is encrypted, so that it is not known what selects the object.
    pub(crate) fn has_encrypted_labels(&self) -> bool {
        self.undecrypted.is_some() && self.manifest.pointer("/metadata/labels").is_some_and(holds_ciphertext)
    }

    /// Returns the identity to show, which holds no value of a Secret.
    pub(crate) fn shown_id(&self) -> &ObjectId {
        self.masked.as_deref().map_or(&self.id, |masked| &masked.id)
    }

    /// Returns the object with the same manifest in another cluster, or in the cluster itself.
    pub(crate) fn in_cluster(mut self, cluster: Option<&Arc<str>>) -> Self {
        self.id.cluster = cluster.cloned();
        if let Some(masked) = &mut self.masked {
            masked.id.cluster = cluster.cloned();
        }
        self
    }

    /// Hides the object as a whole, because what generates it derives from a Secret. Only a kind that the cluster serves is
    /// shown.
    pub(crate) fn hide(&mut self, is_served: bool) {
        self.id = self.id.clone().hidden(is_served);
        let id = self.id.shown().into_owned();
        self.masked = Some(Box::new(MaskedObject { id, manifest: Value::Null }));
    }

    /// Returns true if the identity holds a value of a Secret.
    pub(crate) fn hides_identity(&self) -> bool {
        let Some(shown) = self.masked.as_deref().map(|masked| &masked.id) else { return false };
        // The identity of a cluster-scoped object has no namespace, whatever its manifest says.
        let has_other_namespace = !self.id.namespace.is_empty() && self.id.namespace != shown.namespace;
        has_other_namespace
            || (&self.id.group, &self.id.kind, &self.id.name) != (&shown.group, &shown.kind, &shown.name)
    }

    /// Returns true if a part of the manifest is a value of a Secret.
    pub(crate) fn is_masked_at(&self, pointer: &str) -> bool {
        let masked = self.masked.as_deref();
        masked.is_some_and(|masked| masked.manifest.pointer(pointer) != self.manifest.pointer(pointer))
    }
}

/// An object with placeholders for the values of Secrets.
#[derive(Clone, Debug, PartialEq)]
pub struct MaskedObject {
    /// Identity with placeholders.
    pub id: ObjectId,
    /// Manifest with placeholders; null if everything is hidden.
    pub manifest: Value,
}

impl MaskedObject {
    /// Hides everything of an object.
    fn hidden() -> Self {
        Self { id: ObjectId::new(UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN), manifest: Value::Null }
    }
}

/// Returns true if the controller can read these labels or annotations: all values are text or null. Otherwise it reads none
/// of them.
pub(crate) fn are_readable(pairs: &Map<String, Value>) -> bool {
    pairs.values().all(|value| value.is_string() || value.is_null())
}

/// Returns true if a label or annotation of a manifest has a value that the predicate accepts.
pub(in crate::flux::build) fn manifest_has(manifest: &Value, key: &str, accepts: impl Fn(&str) -> bool) -> bool {
    ["labels", "annotations"].iter().any(|field| field_has(manifest, field, key, &accepts))
}

/// Returns true if a key of `labels` or `annotations` of a manifest has a value that the predicate accepts.
fn field_has(manifest: &Value, field: &str, key: &str, accepts: impl Fn(&str) -> bool) -> bool {
    let pairs = manifest.get("metadata").and_then(|metadata| metadata.get(field)?.as_object());
    let found = pairs.filter(|pairs| pairs.get(key).and_then(Value::as_str).is_some_and(accepts));
    found.is_some_and(are_readable)
}

/// Returns the objects of a manifest. Lists are flattened.
/// Kustomization files and entries without version, kind or name are dropped.
pub(crate) fn objects(manifest: Arc<Value>, undecrypted: Option<&Undecrypted>) -> Vec<BuiltObject> {
    let kind = manifest.get("kind").and_then(Value::as_str).unwrap_or_default();
    // The controller takes whatever has items for a list.
    if let Some(Value::Array(items)) = manifest.get("items") {
        return items.iter().flat_map(|item| objects(item.clone().into(), undecrypted)).collect();
    }
    let api_version = manifest.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let name = manifest.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let namespace = manifest.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
    let is_kustomization_file = group == "kustomize.config.k8s.io" && kind == "Kustomization";
    if name.is_empty() || version.is_empty() || kind.is_empty() || is_kustomization_file {
        return Vec::new();
    }
    let (id, version) = (ObjectId::new(group, kind, namespace, name), version.to_owned());
    vec![BuiltObject { id, version, manifest, undecrypted: undecrypted.cloned(), masked: None }]
}

/// Returns the group and kind that a CustomResourceDefinition defines, and true if the kind is namespaced.
pub(crate) fn defined_kind(built: &BuiltObject) -> Option<(GroupKind, bool)> {
    if !built.id.is_definition() {
        return None;
    }
    let is_namespaced = text_at(&built.manifest, "/spec/scope") == "Namespaced";
    Some((kind_of_definition(&built.manifest)?, is_namespaced))
}

/// Returns the group and kind that the manifest of a CustomResourceDefinition defines.
pub(crate) fn kind_of_definition(manifest: &Value) -> Option<GroupKind> {
    let spec = manifest.get("spec")?;
    Some(GroupKind::new(spec.get("group")?.as_str()?, spec.pointer("/names/kind")?.as_str()?))
}

/// Returns the group and kind that a CustomResourceDefinition defines, and the versions in which it is served.
pub(crate) fn served_versions(built: &BuiltObject) -> Option<(GroupKind, Vec<&str>)> {
    let (kind, _) = defined_kind(built)?;
    let versions = built.manifest.pointer("/spec/versions")?.as_array()?.iter();
    let served = versions.filter(|version| version["served"] == Value::Bool(true));
    Some((kind, served.filter_map(|version| version["name"].as_str()).collect()))
}

/// Adds to the objects of one document what is shown of them. `text` is the document with placeholders. Where it does not
/// have the same objects, because a value holds YAML, everything is hidden.
pub(in crate::flux::build) fn mask_objects(built: &mut [BuiltObject], text: &str) {
    let masked = yaml::parse_substituted(text).map(|manifest| objects(manifest.into(), None)).unwrap_or_default();
    let is_alike = masked.len() == built.len();
    let mut shown = masked
        .into_iter()
        .map(|BuiltObject { id, manifest, .. }| MaskedObject { id, manifest: Arc::unwrap_or_clone(manifest) });
    for object in built {
        let matching = shown.next().filter(|_| is_alike);
        object.masked = Some(Box::new(matching.unwrap_or_else(MaskedObject::hidden)));
        if object.hides_identity() {
            object.id = object.id.clone().written_as(object.shown_id());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(text: &str) -> Vec<String> {
        let documents = yaml::documents(text).unwrap().into_iter();
        documents.flat_map(|document| objects(document.value, None)).map(|object| object.id.to_string()).collect()
    }

    #[test]
    fn lists_are_flattened_and_incomplete_objects_are_dropped() {
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: n}\n---\n\
            kind: NoVersion\nmetadata: {name: b}\n---\n\
            apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nmetadata: {name: c}\n---\n\
            apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: d, namespace: n}}\n";
        assert_eq!(ids(text), ["configmap/a -n n", "secret/d -n n"]);
        let custom = "apiVersion: e.com/v1\nkind: Menu\nmetadata: {name: m}\nitems:\n\
            - {apiVersion: v1, kind: ConfigMap, metadata: {name: e}}\n";
        assert_eq!(ids(custom), ["configmap/e"], "a custom resource with items");
    }

    fn name_as_read(name: &str) -> Option<String> {
        let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  labels:\n    name: a\n  name: {name}\n");
        let found = objects(yaml::parse_substituted(&text).unwrap().into(), None);
        found.first().map(|object| object.id.name.to_string())
    }

    #[test]
    fn a_substituted_name_that_yaml_1_1_does_not_read_as_a_string_is_dropped() {
        for dropped in ["yes", "Off", "n", "true", "null", "0123", "089", "123", "12.5", "1e3", "0x1f", "1_000"] {
            assert_eq!(name_as_read(dropped), None, "{dropped}");
        }
        for text in ["web", "'yes'", "\"0123\"", "2020-01-01", "yess", "0123a"] {
            assert_eq!(name_as_read(text).as_deref(), Some(text.trim_matches(['\'', '"'])), "{text}");
        }
    }

    #[test]
    fn a_separator_inside_a_block_scalar_does_not_split_documents() {
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: |\n    ---\n    y\n";
        assert_eq!(ids(text), ["configmap/a"]);
    }
}
