//! Objects whose manifests hold values of Secrets, and what outputs show in place of these values.
//!
//! The identity and the manifest of a [`BuiltObject`] are those that the controller applies, because they are compared with
//! the cluster. Nothing of them may be shown where [`BuiltObject::masked`] differs.

use std::sync::Arc;

use serde_json::Value;

use super::objects::{BuiltObject, objects};
use super::sops::undecrypted::UNKNOWN;
use super::yaml;
use crate::kubernetes::object::ObjectId;

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

impl BuiltObject {
    /// Returns the identity to show, which holds no value of a Secret.
    pub fn shown_id(&self) -> &ObjectId {
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

/// Adds to the objects of one document what is shown of them. `text` is the document with placeholders. Where it does not
/// have the same objects, because a value holds YAML, everything is hidden.
pub(super) fn mask_objects(built: &mut [BuiltObject], text: &str) {
    let masked = yaml::parse_substituted(text).map(|manifest| objects(manifest.into(), None)).unwrap_or_default();
    let is_alike = masked.len() == built.len();
    let mut shown = masked
        .into_iter()
        .map(|BuiltObject { id, manifest, .. }| MaskedObject { id, manifest: Arc::unwrap_or_clone(manifest) });
    for object in built {
        let matching = shown.next().filter(|_| is_alike);
        object.masked = Some(Box::new(matching.unwrap_or_else(MaskedObject::hidden)));
    }
}
