//! What the controller sends of an object and what comes of it: server-side apply, the fields that it takes over, and
//! what counts as a change. Source: reference kustomize-controller 3.6 and 4.

pub mod fields;
pub mod manifest;
pub mod masked;
#[cfg(test)]
mod tests;
pub mod update;

pub use manifest::{drop_unknown, to_send};
pub use update::{Update, update};

use super::annotations::{FORCE, RECONCILE, SSA};
use super::build::objects::BuiltObject;
use super::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::object::{ObjectId, ObjectMetadata};


/// One object that a Kustomization applies in the end.
#[derive(Clone, Debug)]
pub struct Application {
    /// Who applies it.
    pub owner: NamespacedName,
    /// With which spec.
    pub spec: KustomizationSpec,
    /// Identity in the cluster.
    pub id: ObjectId,
    /// What was built.
    pub built: BuiltObject,
}

impl Application {
    /// Whether the controller leaves the object alone: by a mark of the manifest or of the live object.
    pub fn is_skipped(&self, live: Option<&ObjectMetadata>) -> bool {
        self.is_marked(live, RECONCILE, "disabled")
            || self.is_marked(live, SSA, "ignore")
            || (live.is_some() && self.is_built(SSA, "ifnotpresent"))
    }

    /// Whether it takes over what kubectl wrote.
    pub fn takes_over(&self, live: Option<&ObjectMetadata>) -> bool {
        !self.is_marked(live, SSA, "merge")
    }

    /// Whether it deletes and creates again what the server refuses to change.
    pub fn forces(&self, live: Option<&ObjectMetadata>) -> bool {
        self.spec.forces() || self.is_marked(live, FORCE, "enabled")
    }

    fn is_built(&self, key: &str, value: &str) -> bool {
        let common = self.spec.common_label_or_annotation(key).is_some_and(|found| found.eq_ignore_ascii_case(value));
        common || self.built.has_label_or_annotation(key, value)
    }

    fn is_marked(&self, live: Option<&ObjectMetadata>, key: &str, value: &str) -> bool {
        let marked = |object: &ObjectMetadata| object.mark(key).is_some_and(|found| found.eq_ignore_ascii_case(value));
        self.is_built(key, value) || live.is_some_and(marked)
    }
}
