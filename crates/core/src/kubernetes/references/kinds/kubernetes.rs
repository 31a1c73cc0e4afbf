//! Kinds of Kubernetes itself, and those of its own projects that have no network.

use crate::kubernetes::references::kinds::kind::{ADMISSION, Field, Kind, NOTHING, SNAPSHOT, STORAGE, field};
use crate::kubernetes::referrer::Usage;

const RBAC: &str = "rbac.authorization.k8s.io";
const RESOURCE: &str = "resource.k8s.io";
const FLOW_CONTROL: &str = "flowcontrol.apiserver.k8s.io";

/// Fields with the service of a webhook.
const WEBHOOK_FIELDS: &[Field] = &[field("webhooks/*/clientConfig/service", "", "Service", Usage::Calls)];

pub(super) const KINDS: &[Kind] = &[
    Kind { kind: "Pod", pods: Some(""), ..NOTHING },
    Kind { kind: "ReplicationController", pods: Some("spec/template"), ..NOTHING },
    Kind { group: "apps", kind: "Deployment", pods: Some("spec/template"), ..NOTHING },
    Kind { group: "apps", kind: "DaemonSet", pods: Some("spec/template"), ..NOTHING },
    Kind { group: "apps", kind: "ReplicaSet", pods: Some("spec/template"), ..NOTHING },
    Kind {
        group: "apps",
        kind: "StatefulSet",
        pods: Some("spec/template"),
        fields: &[
            field("spec/serviceName", "", "Service", Usage::Uses),
            field("spec/volumeClaimTemplates/*/spec/storageClassName", STORAGE, "StorageClass", Usage::Uses),
        ],
        ..NOTHING
    },
    Kind { group: "batch", kind: "Job", pods: Some("spec/template"), ..NOTHING },
    Kind { group: "batch", kind: "CronJob", pods: Some("spec/jobTemplate/spec/template"), ..NOTHING },
    Kind { kind: "ServiceAccount", fields: &[field("imagePullSecrets/*", "", "Secret", Usage::PullsWith)], ..NOTHING },
    Kind {
        kind: "PersistentVolume",
        fields: &[
            field("spec/csi/controllerExpandSecretRef", "", "Secret", Usage::Reads),
            field("spec/csi/controllerPublishSecretRef", "", "Secret", Usage::Reads),
            field("spec/csi/nodeExpandSecretRef", "", "Secret", Usage::Reads),
            field("spec/csi/nodePublishSecretRef", "", "Secret", Usage::Reads),
            field("spec/csi/nodeStageSecretRef", "", "Secret", Usage::Reads),
        ],
        ..NOTHING
    },
    Kind { kind: "Service", selector: Some("spec/selector"), ..NOTHING },
    Kind { group: "policy", kind: "PodDisruptionBudget", selector: Some("spec/selector"), ..NOTHING },
    Kind {
        kind: "PersistentVolumeClaim",
        fields: &[
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
        ],
        ..NOTHING
    },
    Kind {
        group: "autoscaling",
        kind: "HorizontalPodAutoscaler",
        fields: &[
            field("spec/scaleTargetRef", "apps", "Deployment", Usage::Scales),
            field("spec/metrics/*/object/describedObject", "", "", Usage::Reads),
        ],
        ..NOTHING
    },
    Kind {
        group: "autoscaling.k8s.io",
        kind: "VerticalPodAutoscaler",
        fields: &[field("spec/targetRef", "apps", "Deployment", Usage::Scales)],
        ..NOTHING
    },
    Kind { group: RBAC, kind: "RoleBinding", fields: &[field("roleRef", RBAC, "Role", Usage::Grants)], ..NOTHING },
    Kind {
        group: RBAC,
        kind: "ClusterRoleBinding",
        fields: &[field("roleRef", RBAC, "ClusterRole", Usage::Grants)],
        ..NOTHING
    },
    Kind { group: ADMISSION, kind: "ValidatingWebhookConfiguration", fields: WEBHOOK_FIELDS, ..NOTHING },
    Kind { group: ADMISSION, kind: "MutatingWebhookConfiguration", fields: WEBHOOK_FIELDS, ..NOTHING },
    Kind {
        group: ADMISSION,
        kind: "ValidatingAdmissionPolicyBinding",
        fields: &[field("spec/policyName", ADMISSION, "ValidatingAdmissionPolicy", Usage::Uses)],
        ..NOTHING
    },
    Kind {
        group: ADMISSION,
        kind: "MutatingAdmissionPolicyBinding",
        fields: &[field("spec/policyName", ADMISSION, "MutatingAdmissionPolicy", Usage::Uses)],
        ..NOTHING
    },
    // Their parameters, and what a grant allows, are read beside the fields of this table.
    Kind { group: ADMISSION, kind: "ValidatingAdmissionPolicy", ..NOTHING },
    Kind { group: ADMISSION, kind: "MutatingAdmissionPolicy", ..NOTHING },
    Kind {
        group: "apiextensions.k8s.io",
        kind: "CustomResourceDefinition",
        fields: &[field("spec/conversion/webhook/clientConfig/service", "", "Service", Usage::Calls)],
        ..NOTHING
    },
    Kind {
        group: "apiregistration.k8s.io",
        kind: "APIService",
        fields: &[field("spec/service", "", "Service", Usage::Calls)],
        ..NOTHING
    },
    Kind {
        group: SNAPSHOT,
        kind: "VolumeSnapshot",
        fields: &[field("spec/volumeSnapshotClassName", SNAPSHOT, "VolumeSnapshotClass", Usage::Uses)],
        ..NOTHING
    },
    // The Secrets that their parameters name are read beside the fields of this table.
    Kind { group: STORAGE, kind: "StorageClass", ..NOTHING },
    Kind { group: SNAPSHOT, kind: "VolumeSnapshotClass", ..NOTHING },
    Kind { group: "groupsnapshot.storage.k8s.io", kind: "VolumeGroupSnapshotClass", ..NOTHING },
    Kind {
        group: RESOURCE,
        kind: "ResourceClaim",
        fields: &[
            field("spec/devices/requests/*/exactly/deviceClassName", RESOURCE, "DeviceClass", Usage::Uses),
            field("spec/devices/requests/*/firstAvailable/*/deviceClassName", RESOURCE, "DeviceClass", Usage::Uses),
            // The field of version v1beta1.
            field("spec/devices/requests/*/deviceClassName", RESOURCE, "DeviceClass", Usage::Uses),
        ],
        ..NOTHING
    },
    Kind {
        group: RESOURCE,
        kind: "ResourceClaimTemplate",
        fields: &[
            field("spec/spec/devices/requests/*/exactly/deviceClassName", RESOURCE, "DeviceClass", Usage::Uses),
            field(
                "spec/spec/devices/requests/*/firstAvailable/*/deviceClassName",
                RESOURCE,
                "DeviceClass",
                Usage::Uses,
            ),
            field("spec/spec/devices/requests/*/deviceClassName", RESOURCE, "DeviceClass", Usage::Uses),
        ],
        ..NOTHING
    },
    Kind {
        group: FLOW_CONTROL,
        kind: "FlowSchema",
        fields: &[field("spec/priorityLevelConfiguration", FLOW_CONTROL, "PriorityLevelConfiguration", Usage::Uses)],
        ..NOTHING
    },
];
