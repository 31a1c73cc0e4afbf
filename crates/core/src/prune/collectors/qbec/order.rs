//! The order in which qbec deletes: its apply order, reversed.
//!
//! Source: reference qbec-and-flux-v1 A3.1.

use std::cmp::Ordering;

use crate::kubernetes::object::{GroupKind, ObjectMetadata};
use crate::ownership::schemes::qbec::component;
use crate::prune::collectors::type_aliases::Kinds;

/// Annotation that overrides the table; a positive integer.
pub const APPLY_ORDER: &str = "directives.qbec.io/apply-order";

/// Group, kind and place of the kinds that have one.
const TABLE: [(&str, &str, i64); 21] = [
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
/// Any other cluster-scoped kind.
const CLUSTER_SCOPED: i64 = 30;
/// Any other namespaced kind.
const NAMESPACED: i64 = 80;
/// A kind the cluster does not serve.
const UNKNOWN: i64 = 120;

/// Place of a live object in the apply order. Zero, negative and unreadable directives are ignored.
pub fn place(object: &ObjectMetadata, kinds: &Kinds<'_>) -> i64 {
    let directive = object.annotations.get(APPLY_ORDER).and_then(|value| value.parse().ok());
    directive.filter(|order| *order > 0).unwrap_or_else(|| place_of_kind(&object.id.group_kind(), kinds))
}

fn place_of_kind(what: &GroupKind, kinds: &Kinds<'_>) -> i64 {
    let found = TABLE.iter().find(|(group, kind, _)| *group == &*what.group && *kind == &*what.kind);
    match (found, kinds.namespaced(what)) {
        (Some((_, _, place)), _) => *place,
        (None, Some(true)) => NAMESPACED,
        (None, Some(false)) => CLUSTER_SCOPED,
        (None, None) => UNKNOWN,
    }
}

/// Orders live objects as qbec deletes them. qbec does not order by group; here it is the last word, so that two runs
/// agree.
pub fn deletion_order(left: &ObjectMetadata, right: &ObjectMetadata, kinds: &Kinds<'_>) -> Ordering {
    let key = |object: &ObjectMetadata| (place(object, kinds), object.id.kind.clone());
    let rest = |object: &ObjectMetadata| (object.id.namespace.clone(), object.id.name.clone(), object.id.group.clone());
    key(right)
        .cmp(&key(left))
        .then_with(|| component(right).cmp(component(left)))
        .then_with(|| rest(right).cmp(&rest(left)))
}
