//! Order of deletion: the reverse of the order in which Flux applies. Webhooks come first, namespaces and definitions
//! last. See docs/reference/kustomize-controller.md.

use std::cmp::Ordering;

use crate::kubernetes::object::ObjectId;

/// Kinds applied before all others, in order.
const FIRST: [&str; 23] = [
    "CustomResourceDefinition",
    "Namespace",
    "ClusterRole",
    "ClusterClass",
    "RuntimeClass",
    "PriorityClass",
    "StorageClass",
    "VolumeSnapshotClass",
    "IngressClass",
    "GatewayClass",
    "ClusterRoleBinding",
    "ResourceQuota",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ConfigMap",
    "Secret",
    "Service",
    "LimitRange",
    "Deployment",
    "StatefulSet",
    "CronJob",
    "PodDisruptionBudget",
];
/// Kinds applied after all others, in order.
const LAST: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

/// Compares two objects by the order in which Flux applies them.
pub fn apply_order(a: &ObjectId, b: &ObjectId) -> Ordering {
    apply_key(a).cmp(&apply_key(b))
}

fn apply_key(id: &ObjectId) -> (usize, [&str; 4]) {
    (rank(&id.kind), [&id.group, &id.kind, &id.namespace, &id.name])
}

/// Compares two objects by the order of deletion, the exact reverse.
pub(crate) fn delete_order(a: &ObjectId, b: &ObjectId) -> Ordering {
    apply_order(b, a)
}

/// Returns true if two objects may be deleted at the same time: only their names order them.
pub(crate) fn same_wave(a: &ObjectId, b: &ObjectId) -> bool {
    (&a.group, &a.kind) == (&b.group, &b.kind)
}

fn rank(kind: &str) -> usize {
    if let Some(first) = FIRST.iter().position(|name| *name == kind) {
        return first;
    }
    LAST.iter().position(|name| *name == kind).map_or(FIRST.len(), |last| FIRST.len() + 1 + last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhooks_are_deleted_first_and_definitions_last() {
        let kinds = ["Namespace", "ValidatingWebhookConfiguration", "CustomResourceDefinition", "Deployment", "Widget"];
        let mut ids: Vec<_> = kinds.iter().map(|kind| ObjectId::new("", kind, "", "x")).collect();
        ids.sort_by(delete_order);
        let order: Vec<_> = ids.iter().map(|id| &*id.kind).collect();
        assert_eq!(
            order,
            ["ValidatingWebhookConfiguration", "Widget", "Deployment", "Namespace", "CustomResourceDefinition"]
        );
    }

    #[test]
    fn sources_are_deleted_before_kustomizations_and_those_before_releases() {
        let mut ids = [
            ObjectId::new("helm.toolkit.fluxcd.io", "HelmRelease", "n", "a"),
            ObjectId::new("source.toolkit.fluxcd.io", "GitRepository", "n", "a"),
            ObjectId::new("kustomize.toolkit.fluxcd.io", "Kustomization", "n", "a"),
        ];
        ids.sort_by(delete_order);
        let order: Vec<_> = ids.iter().map(|id| &*id.kind).collect();
        assert_eq!(order, ["GitRepository", "Kustomization", "HelmRelease"]);
    }
}
