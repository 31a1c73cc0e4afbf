//! The stages in which kustomize-controller applies a build.

use std::collections::BTreeSet;

use crate::kubernetes::object::{GroupKind, ObjectId};

/// Stages of an apply, in order. A failure stops its stage and all later ones
/// (docs/reference/kustomize-controller.md 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Definitions,
    Classes,
    Custom,
    Rest,
}

/// Returns the stage of an object; `custom` are the kinds of `--custom-apply-stage-kinds`.
pub(crate) fn stage(id: &ObjectId, custom: &BTreeSet<GroupKind>) -> Stage {
    let is_definition =
        id.is_definition() || id.is("", "Namespace") || id.is("rbac.authorization.k8s.io", "ClusterRole");
    match &*id.kind {
        _ if is_definition => Stage::Definitions,
        kind if kind.ends_with("Class") => Stage::Classes,
        _ if custom.contains(&id.group_kind()) => Stage::Custom,
        _ => Stage::Rest,
    }
}
