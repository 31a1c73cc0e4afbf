//! Looks kinds up in the table. A kind that is not there refers to nothing that is known.

use super::kinds;
use super::kinds::kind::{EXPERIMENTAL_GATEWAY, GATEWAY, Kind, OPERATOR, TRAEFIK};
use crate::kubernetes::object::is_of_kubernetes;

/// Kinds of the table whose objects have no namespace.
const CLUSTER_SCOPED: [&str; 18] = [
    "ClusterRole",
    "StorageClass",
    "IngressClass",
    "GatewayClass",
    "PriorityClass",
    "RuntimeClass",
    "ClusterIssuer",
    "ClusterSecretStore",
    "VolumeSnapshotClass",
    "ValidatingAdmissionPolicy",
    "MutatingAdmissionPolicy",
    "ClusterImageCatalog",
    "ClusterTriggerAuthentication",
    "DeviceClass",
    "PriorityLevelConfiguration",
    "DeploymentRuntimeConfig",
    "CustomResourceDefinition",
    "Namespace",
];

/// Returns the fields of a kind in which its objects name others; `None` if nothing is known of the kind.
pub(super) fn find(group: &str, kind: &str) -> Option<&'static Kind> {
    kinds::all().find(|known| known.kind == kind && is_of_group(known, group))
}

/// Returns true if a kind of the table has a group, or one of all those that end as its own.
fn is_of_group(known: &Kind, group: &str) -> bool {
    known.group == group || (known.group.starts_with('.') && group.ends_with(known.group))
}

/// Returns true if objects of this kind can name others in known fields.
pub fn is_referrer(group: &str, kind: &str) -> bool {
    find(group, kind).is_some()
}

/// Returns the group of a kind that a field names without one, if the kind is in the table.
pub(super) fn group_of_kind(kind: &str) -> Option<&'static str> {
    kinds::all().find(|known| known.kind == kind).map(|known| known.group).filter(|group| !group.starts_with('.'))
}

/// Returns true if objects of a group can name objects of another namespace than their own.
pub fn names_other_namespaces(group: &str) -> bool {
    let is_of_flux = group.ends_with(".fluxcd.io") || group == OPERATOR;
    is_of_flux || [GATEWAY, EXPERIMENTAL_GATEWAY, TRAEFIK].contains(&group)
}

/// Returns true if objects of a kind make Pods of a template, or are Pods.
pub(super) fn makes_pods(group: &str, kind: &str) -> bool {
    find(group, kind).is_some_and(|known| known.pods.is_some())
}

/// Returns true if objects of a kind have no namespace.
pub(super) fn is_cluster_scoped(kind: &str) -> bool {
    CLUSTER_SCOPED.contains(&kind)
}

/// Returns true if nothing is known of the references of a kind, because it is neither one of Kubernetes nor in the table.
pub(crate) fn is_unknown(group: &str, kind: &str) -> bool {
    !is_of_kubernetes(group) && !group.ends_with(".toolkit.fluxcd.io") && find(group, kind).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_in_the_table_once() {
        let mut names: Vec<_> = kinds::all().map(|kind| (kind.group, kind.kind)).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), kinds::all().count());
    }

    #[test]
    fn only_custom_kinds_that_are_missing_are_unknown() {
        for (group, kind, expected) in [
            ("", "ConfigMap", false),
            ("batch", "Job", false),
            ("networking.k8s.io", "NetworkPolicy", false),
            ("cert-manager.io", "Certificate", false),
            ("fluxcd.controlplane.io", "ResourceSet", false),
            ("external-secrets.io", "SecretStore", false),
            ("external-secrets.io", "ClusterPushSecret", true),
            ("policy.networking.k8s.io", "AdminNetworkPolicy", true),
            ("gateway.networking.x-k8s.io", "XListenerSet", false),
            ("kubernetes.crossplane.io", "ProviderConfig", false),
            ("aws.m.upbound.io", "ClusterProviderConfig", false),
            ("s3.aws.upbound.io", "Bucket", true),
            ("shop.example.com", "Order", true),
            ("infra.contrib.fluxcd.io", "Terraform", true),
            ("source.toolkit.fluxcd.io", "ExternalArtifact", false),
        ] {
            assert_eq!(is_unknown(group, kind), expected, "{group} {kind}");
        }
    }
}
