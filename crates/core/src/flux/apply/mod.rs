//! Server-side apply by kustomize-controller: the manifest that it sends, the fields that it takes over, and the change
//! that results. Source: docs/reference/kustomize-controller.md 4.

pub mod dry_run;
pub(crate) mod ignore_rules;
pub(crate) mod managed_fields;
pub mod manifest;
pub mod question;
#[cfg(test)]
mod tests;
pub mod update;

use super::build::objects::BuiltObject;
use super::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::ownership::schemes::flux_kustomization::{RECONCILE, SSA};

/// Label or annotation that lets the controller delete and recreate an object with a changed immutable field.
const FORCE: &str = "kustomize.toolkit.fluxcd.io/force";

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
        let common = self.spec.common_label_or_annotation(key);
        common.is_some_and(|found| found.eq_ignore_ascii_case(value)) || self.built.has_label_or_annotation(key, value)
    }

    fn is_marked(&self, live: Option<&ObjectMetadata>, key: &str, value: &str) -> bool {
        let found = live.and_then(|object| object.label_or_annotation(key));
        self.is_built_with(key, value) || found.is_some_and(|found| found.eq_ignore_ascii_case(value))
    }
}
