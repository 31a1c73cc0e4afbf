//! Order in which fluxd deletes: the reverse of the order in which it applies.
//!
//! Rules: docs/reference/qbec-and-flux-v1.md 8.3.

use std::cmp::Ordering;

use crate::kubernetes::object::ObjectMetadata;

/// Rank of kinds in the apply order; all others come last.
const RANKS: [(&str, u8); 22] = [
    ("namespace", 0),
    ("customresourcedefinition", 1),
    ("serviceaccount", 1),
    ("clusterrole", 1),
    ("role", 1),
    ("persistentvolume", 1),
    ("service", 1),
    ("resourcequota", 2),
    ("limitrange", 2),
    ("secret", 2),
    ("configmap", 2),
    ("rolebinding", 2),
    ("clusterrolebinding", 2),
    ("persistentvolumeclaim", 2),
    ("ingress", 2),
    ("daemonset", 3),
    ("deployment", 3),
    ("replicationcontroller", 3),
    ("replicaset", 3),
    ("job", 3),
    ("cronjob", 3),
    ("statefulset", 3),
];

/// Compares objects in fluxd's order of deletion: rank, then name. The rest only makes plans reproducible.
pub(super) fn deletion_order(left: &ObjectMetadata, right: &ObjectMetadata) -> Ordering {
    let (left, right) = (&left.id, &right.id);
    rank(&right.kind)
        .cmp(&rank(&left.kind))
        .then_with(|| right.name.cmp(&left.name))
        .then_with(|| right.kind.cmp(&left.kind))
        .then_with(|| right.namespace.cmp(&left.namespace))
        .then_with(|| right.group.cmp(&left.group))
}

/// Returns the rank of a kind in the apply order.
pub(super) fn rank(kind: &str) -> u8 {
    let lowercase = kind.to_lowercase();
    RANKS.iter().find(|(name, _)| *name == lowercase).map_or(4, |(_, rank)| *rank)
}
