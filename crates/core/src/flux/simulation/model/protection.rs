//! Labels and annotations that make kustomize-controller keep or skip an object.

pub(crate) use crate::flux::apply::{is_marked, is_marked_live};
use crate::flux::build::objects::BuiltObject;
use crate::flux::controller_flags::ControllerFlags;
use crate::flux::kustomize_controller;
use crate::flux::kustomize_controller::Features;
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::object::ObjectMetadata;
use crate::ownership::schemes::flux_kustomization::{NAME, NAMESPACE, PRUNE, RECONCILE, SSA};

/// Returns the label or annotation that protects a live object from being pruned by the controller.
pub(crate) fn prune_protection(object: &ObjectMetadata, features: Features) -> Option<(&'static str, &'static str)> {
    let protections = [(PRUNE, "disabled"), (RECONCILE, "disabled"), (SSA, "ignore")];
    let protections = if features.ignore_protects { &protections[..] } else { &protections[..2] };
    protections.iter().find(|(key, value)| is_marked_live(object, key, value)).copied()
}

/// Returns true if another field manager set the protection of a live object. An apply of the controller removes fields
/// that it or a manager that it takes over set (docs/reference/kustomize-controller.md 4.4).
pub(crate) fn is_foreign_protection(object: &ObjectMetadata, flags: &ControllerFlags) -> bool {
    let merges = is_marked_live(object, SSA, "merge");
    object.managed_fields.iter().any(|entry| {
        let mut keys = entry.labels.iter().chain(&entry.annotations);
        let is_own = &*entry.manager == kustomize_controller::NAME || flags.takes_over(&entry.manager, entry.applies);
        keys.any(|key| [PRUNE, SSA].contains(&&**key)) && (merges || !is_own)
    })
}

/// Returns true if a live object tells the controller not to change it.
pub(crate) fn is_never_changed(object: &ObjectMetadata) -> bool {
    is_marked_live(object, RECONCILE, "disabled") || is_marked_live(object, SSA, "ignore")
}

/// Returns true if a manifest or `spec.commonMetadata` tells the controller not to apply an object.
pub(crate) fn is_never_applied(built: &BuiltObject, spec: &KustomizationSpec) -> bool {
    is_marked(built, spec, RECONCILE, "disabled") || is_marked(built, spec, SSA, "ignore")
}

/// Returns the owner that the labels of a live object name.
pub(crate) fn live_owner(object: &ObjectMetadata) -> Option<NamespacedName> {
    let (name, namespace) = (object.labels.get(NAME)?, object.labels.get(NAMESPACE)?);
    Some(NamespacedName { namespace: namespace.to_owned(), name: name.to_owned() })
}

/// Returns the owner that a Kustomization with this spec writes to the labels of what it applies.
pub(crate) fn label_owner(spec: &KustomizationSpec, key: &NamespacedName) -> NamespacedName {
    NamespacedName {
        namespace: spec.common_label(NAMESPACE).unwrap_or(&key.namespace).to_owned(),
        name: spec.common_label(NAME).unwrap_or(&key.name).to_owned(),
    }
}
