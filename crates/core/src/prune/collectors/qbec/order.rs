//! Order in which qbec deletes: the reverse of the order in which it applies.
//!
//! Rules: docs/reference/qbec-and-flux-v1.md 3.1.

use std::cmp::Ordering;

use crate::kubernetes::object::{GroupKind, ObjectMetadata};
use crate::ownership::schemes::qbec::{APPLY_ORDER, component};
use crate::prune::collectors::collector::served_kinds::ServedKinds;

/// Group, kind and position in the apply order.
const POSITIONS: [(&str, &str, i64); 21] = [
    ("extensions", "PodSecurityPolicy", 10),
    ("apiextensions.k8s.io", "CustomResourceDefinition", 20),
    ("extensions", "ThirdPartyResource", 20),
    ("", "Namespace", 50),
    ("", "LimitRange", 60),
    ("", "ServiceAccount", 60),
    ("", "ConfigMap", 70),
    ("", "Secret", 70),
    ("apps", "DaemonSet", 100),
    ("apps", "Deployment", 100),
    ("apps", "ReplicaSet", 100),
    ("apps", "StatefulSet", 100),
    ("extensions", "DaemonSet", 100),
    ("extensions", "Deployment", 100),
    ("extensions", "ReplicaSet", 100),
    ("extensions", "StatefulSet", 100),
    ("batch", "Job", 100),
    ("batch", "CronJob", 100),
    ("", "Service", 110),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", 120),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration", 120),
];
/// Position of other cluster-scoped kinds.
const CLUSTER_SCOPED: i64 = 30;
/// Position of other namespaced kinds.
const NAMESPACED: i64 = 80;
/// Position of kinds that the cluster does not serve.
const UNSERVED: i64 = 120;

/// Returns the position of a live object in the apply order. An annotation that is no positive integer is ignored.
pub(super) fn position(object: &ObjectMetadata, kinds: &ServedKinds<'_>) -> i64 {
    let annotated = object.annotations.get(APPLY_ORDER).and_then(|value| value.parse().ok());
    annotated.filter(|position| *position > 0).unwrap_or_else(|| position_of_kind(&object.id.group_kind(), kinds))
}

fn position_of_kind(what: &GroupKind, kinds: &ServedKinds<'_>) -> i64 {
    let known = POSITIONS.iter().find(|(group, kind, _)| *group == &*what.group && *kind == &*what.kind);
    match (known, kinds.is_namespaced(what)) {
        (Some((_, _, position)), _) => *position,
        (None, Some(true)) => NAMESPACED,
        (None, Some(false)) => CLUSTER_SCOPED,
        (None, None) => UNSERVED,
    }
}

/// Compares live objects in qbec's order of deletion. qbec does not compare groups; here they make plans reproducible.
pub(super) fn deletion_order(left: &ObjectMetadata, right: &ObjectMetadata, kinds: &ServedKinds<'_>) -> Ordering {
    position(right, kinds)
        .cmp(&position(left, kinds))
        .then_with(|| right.id.kind.cmp(&left.id.kind))
        .then_with(|| component(right).cmp(component(left)))
        .then_with(|| right.id.namespace.cmp(&left.id.namespace))
        .then_with(|| right.id.name.cmp(&left.id.name))
        .then_with(|| right.id.group.cmp(&left.id.group))
}
