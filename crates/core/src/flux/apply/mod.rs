//! Server-side apply by kustomize-controller: the manifest that it sends, the fields that it takes over, and the change
//! that results. Source: docs/reference/kustomize-controller.md 4.

pub(crate) mod admission;
pub(crate) mod cause;
pub mod dry_run;
pub(crate) mod ignore_rules;
pub(crate) mod managed_fields;
pub mod manifest;
pub(crate) mod normalize;
pub mod question;
pub(crate) mod rights;
pub(crate) mod schema;
#[cfg(test)]
mod tests;
pub mod update;

pub use cause::without_denial;

use super::build::objects::BuiltObject;
use super::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::ownership::schemes::flux_kustomization::{FORCE, RECONCILE, SSA};
use crate::text::is_same_folded;

/// An object that a Kustomization applies.
#[derive(Clone, Debug)]
pub struct AppliedObject {
    /// Kustomization that applies the object.
    pub owner: NamespacedName,
    pub spec: KustomizationSpec,
    /// Identity in the cluster.
    pub id: ObjectId,
    /// Object as kustomize built it.
    pub built: BuiltObject,
    /// The live object holds values of Secrets, or can.
    pub live_is_private: bool,
}

impl AppliedObject {
    /// Returns true if a label or annotation makes the controller skip the object.
    pub(crate) fn is_skipped(&self, live: Option<&ObjectMetadata>) -> bool {
        self.is_marked(live, RECONCILE, "disabled")
            || self.is_marked(live, SSA, "ignore")
            || (live.is_some() && self.is_built_with(SSA, "ifnotpresent"))
    }

    /// Returns true if the controller takes over the fields of kubectl.
    pub(crate) fn takes_over(&self, live: Option<&ObjectMetadata>) -> bool {
        !self.is_marked(live, SSA, "merge")
    }

    /// Returns true if the controller deletes and recreates the object when an immutable field changes.
    pub fn forces(&self, live: Option<&ObjectMetadata>) -> bool {
        self.spec.forces() || self.is_marked(live, FORCE, "enabled")
    }

    fn is_built_with(&self, key: &str, value: &str) -> bool {
        is_marked(&self.built, &self.spec, key, value)
    }

    fn is_marked(&self, live: Option<&ObjectMetadata>, key: &str, value: &str) -> bool {
        self.is_built_with(key, value) || live.is_some_and(|live| is_marked_live(live, key, value))
    }
}

/// Returns true if an object is applied with a label or annotation of this value. `spec.commonMetadata` overwrites what the
/// manifest says, and a label does not hide an annotation.
pub(crate) fn is_marked(built: &BuiltObject, spec: &KustomizationSpec, key: &str, value: &str) -> bool {
    ["labels", "annotations"].iter().any(|field| match spec.common_metadata(field, key) {
        Some(common) => is_same_folded(common, value),
        None => built.has_metadata(field, key, value),
    })
}

/// Returns true if a live object has a label or annotation with a value.
pub(crate) fn is_marked_live(object: &ObjectMetadata, key: &str, value: &str) -> bool {
    let found = [object.labels.get(key), object.annotations.get(key)];
    found.into_iter().flatten().any(|found| is_same_folded(found, value))
}
