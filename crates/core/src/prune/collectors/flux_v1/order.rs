//! The order in which fluxd deletes: its apply order, reversed.
//!
//! Source: reference qbec-and-flux-v1 B3.3.

use std::cmp::{Ordering, Reverse};

use crate::kubernetes::object::ObjectMetadata;

/// Place of kinds in the order of application; all others come last.
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

/// Orders objects as fluxd deletes them; kind, namespace and group only make two runs agree.
pub fn deletion_order(left: &ObjectMetadata, right: &ObjectMetadata) -> Ordering {
    let key = |object: &ObjectMetadata| {
        let id = &object.id;
        Reverse((rank(&id.kind), id.name.clone(), id.kind.clone(), id.namespace.clone(), id.group.clone()))
    };
    key(left).cmp(&key(right))
}

/// Place of a kind in the order of application; in one place fluxd goes by names alone.
pub fn rank(kind: &str) -> u8 {
    let kind = kind.to_lowercase();
    RANKS.iter().find(|(name, _)| *name == kind).map_or(4, |(_, rank)| *rank)
}
