//! Kinds of Kubernetes itself, and those of its own projects that have no network.

use crate::kubernetes::references::kinds::kind::{ADMISSION, Field, Kind, SNAPSHOT, STORAGE, field, kind};
use crate::kubernetes::referrer::Usage;

const RBAC: &str = "rbac.authorization.k8s.io";
const RESOURCE: &str = "resource.k8s.io";
const FLOW_CONTROL: &str = "flowcontrol.apiserver.k8s.io";

/// Fields with the service of a webhook.
const WEBHOOK_FIELDS: &[Field] = &[field("webhooks/*/clientConfig/service", "", "Service", Usage::Calls)];

pub(super) const KINDS: &[Kind] = &[
    kind("", "Pod").pods(""),
    kind("", "ReplicationController").pods("spec/template"),
    kind("apps", "Deployment").pods("spec/template"),
    kind("apps", "DaemonSet").pods("spec/template"),
    kind("apps", "ReplicaSet").pods("spec/template"),
    kind("apps", "StatefulSet").pods("spec/template").fields(&[
        field("spec/serviceName", "", "Service", Usage::Uses),
        field("spec/volumeClaimTemplates/*/spec/storageClassName", STORAGE, "StorageClass", Usage::Uses),
    ]),
    kind("batch", "Job").pods("spec/template"),
    kind("batch", "CronJob").pods("spec/jobTemplate/spec/template"),
    kind("", "ServiceAccount").fields(&[field("imagePullSecrets/*", "", "Secret", Usage::PullsWith)]),
    kind("", "PersistentVolume").fields(&[
        field("spec/csi/controllerExpandSecretRef", "", "Secret", Usage::Reads),
        field("spec/csi/controllerPublishSecretRef", "", "Secret", Usage::Reads),
        field("spec/csi/nodeExpandSecretRef", "", "Secret", Usage::Reads),
        field("spec/csi/nodePublishSecretRef", "", "Secret", Usage::Reads),
        field("spec/csi/nodeStageSecretRef", "", "Secret", Usage::Reads),
    ]),
    kind("", "Service").selector("spec/selector"),
    kind("policy", "PodDisruptionBudget").selector("spec/selector"),
    kind("", "PersistentVolumeClaim").fields(&[
        // Only a claim without a volume still needs its class, and what it is filled from.
        Field {
            unless: &[("spec/volumeName", &[])],
            ..field("spec/storageClassName", STORAGE, "StorageClass", Usage::Uses)
        },
        Field {
            unless: &[("spec/volumeName", &[])],
            ..field("spec/dataSource", "", "PersistentVolumeClaim", Usage::Uses)
        },
        Field {
            unless: &[("spec/volumeName", &[])],
            ..field("spec/dataSourceRef", "", "PersistentVolumeClaim", Usage::Uses)
        },
    ]),
    kind("autoscaling", "HorizontalPodAutoscaler").fields(&[
        field("spec/scaleTargetRef", "apps", "Deployment", Usage::Scales),
        field("spec/metrics/*/object/describedObject", "", "", Usage::Reads),
    ]),
    kind("autoscaling.k8s.io", "VerticalPodAutoscaler").fields(&[field(
        "spec/targetRef",
        "apps",
        "Deployment",
        Usage::Scales,
    )]),
    kind(RBAC, "RoleBinding").fields(&[field("roleRef", RBAC, "Role", Usage::Grants)]),
    kind(RBAC, "ClusterRoleBinding").fields(&[field("roleRef", RBAC, "ClusterRole", Usage::Grants)]),
    kind(ADMISSION, "ValidatingWebhookConfiguration").fields(WEBHOOK_FIELDS),
    kind(ADMISSION, "MutatingWebhookConfiguration").fields(WEBHOOK_FIELDS),
    kind(ADMISSION, "ValidatingAdmissionPolicyBinding").fields(&[field(
        "spec/policyName",
        ADMISSION,
        "ValidatingAdmissionPolicy",
        Usage::Uses,
    )]),
    kind(ADMISSION, "MutatingAdmissionPolicyBinding").fields(&[field(
        "spec/policyName",
        ADMISSION,
        "MutatingAdmissionPolicy",
        Usage::Uses,
    )]),
    // Their parameters, and what a grant allows, are read beside the fields of this table.
    kind(ADMISSION, "ValidatingAdmissionPolicy"),
    kind(ADMISSION, "MutatingAdmissionPolicy"),
    kind("apiextensions.k8s.io", "CustomResourceDefinition").fields(&[field(
        "spec/conversion/webhook/clientConfig/service",
        "",
        "Service",
        Usage::Calls,
    )]),
    kind("apiregistration.k8s.io", "APIService").fields(&[field("spec/service", "", "Service", Usage::Calls)]),
    kind(SNAPSHOT, "VolumeSnapshot").fields(&[field(
        "spec/volumeSnapshotClassName",
        SNAPSHOT,
        "VolumeSnapshotClass",
        Usage::Uses,
    )]),
    // The Secrets that their parameters name are read beside the fields of this table.
    kind(STORAGE, "StorageClass"),
    kind(SNAPSHOT, "VolumeSnapshotClass"),
    kind("groupsnapshot.storage.k8s.io", "VolumeGroupSnapshotClass"),
    kind(RESOURCE, "ResourceClaim").fields(&[
        field("spec/devices/requests/*/exactly/deviceClassName", RESOURCE, "DeviceClass", Usage::Uses),
        field("spec/devices/requests/*/firstAvailable/*/deviceClassName", RESOURCE, "DeviceClass", Usage::Uses),
        // The field of version v1beta1.
        field("spec/devices/requests/*/deviceClassName", RESOURCE, "DeviceClass", Usage::Uses),
    ]),
    kind(RESOURCE, "ResourceClaimTemplate").fields(&[
        field("spec/spec/devices/requests/*/exactly/deviceClassName", RESOURCE, "DeviceClass", Usage::Uses),
        field("spec/spec/devices/requests/*/firstAvailable/*/deviceClassName", RESOURCE, "DeviceClass", Usage::Uses),
        field("spec/spec/devices/requests/*/deviceClassName", RESOURCE, "DeviceClass", Usage::Uses),
    ]),
    kind(FLOW_CONTROL, "FlowSchema").fields(&[field(
        "spec/priorityLevelConfiguration",
        FLOW_CONTROL,
        "PriorityLevelConfiguration",
        Usage::Uses,
    )]),
];
