//! Finalizers that Kubernetes removes by itself.

use crate::kubernetes::object::ObjectMetadata;

/// Finalizer that protects a volume as long as it is bound to a claim.
pub(crate) const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";

/// Finalizer that protects a claim as long as a Pod on a node mounts it.
pub(crate) const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";

/// Returns the finalizer by which Kubernetes keeps a claim for its Pods or a volume for its claim, if the object has it.
pub fn protection(object: &ObjectMetadata) -> Option<&'static str> {
    [CLAIM_PROTECTION, VOLUME_PROTECTION].into_iter().find(|finalizer| object.has_finalizer(finalizer))
}

/// Finalizer that protects a VolumeAttributesClass as long as a volume or a claim names it.
pub(crate) const CLASS_PROTECTION: &str = "kubernetes.io/vac-protection";

/// Finalizer that keeps a Service until the cloud has removed its load balancer. The service controller removes it, which since
/// Kubernetes 1.31 is part of the cloud-controller-manager alone.
pub(crate) const LOAD_BALANCER: &str = "service.kubernetes.io/load-balancer-cleanup";

/// Finalizer with which an object asks that its dependents stay when it is deleted.
pub(crate) const ORPHAN: &str = "orphan";

/// Finalizers that the control plane removes, and that of the provisioner of a volume, which it removes when it deletes
/// the volume. Source: constants of k8s.io/api v0.36, of Kubernetes v1.36.3 and of sig-storage-lib-external-provisioner v11.
const REMOVED_BY_KUBERNETES: [&str; 14] = [
    "foregroundDeletion",
    ORPHAN,
    "kubernetes",
    CLAIM_PROTECTION,
    VOLUME_PROTECTION,
    CLASS_PROTECTION,
    "kubernetes.io/pv-controller",
    "external-provisioner.volume.kubernetes.io/finalizer",
    "batch.kubernetes.io/job-tracking",
    LOAD_BALANCER,
    "customresourcecleanup.apiextensions.k8s.io",
    "resource.kubernetes.io/delete-protection",
    "networking.k8s.io/service-cidr-finalizer",
    "scheduling.k8s.io/podgroup-protection",
];

/// Returns true if the control plane removes this finalizer by itself.
pub(crate) fn is_removed_by_kubernetes(finalizer: &str) -> bool {
    REMOVED_BY_KUBERNETES.contains(&finalizer)
}

/// Returns the finalizers of an object that the control plane does not remove by itself.
pub(crate) fn awaited_finalizers(object: &ObjectMetadata) -> impl Iterator<Item = &str> {
    object.finalizers.iter().map(|finalizer| &**finalizer).filter(|finalizer| !is_removed_by_kubernetes(finalizer))
}
