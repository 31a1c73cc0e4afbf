//! Kinds of other operators: workloads, autoscalers, databases.

use crate::kubernetes::references::kinds::kind::{Field, Kind, NOTHING, SNAPSHOT, STORAGE, field};
use crate::kubernetes::referrer::Usage;

const CROSSPLANE: &str = "apiextensions.crossplane.io";
const CROSSPLANE_PACKAGES: &str = "pkg.crossplane.io";
const POSTGRES: &str = "postgresql.cnpg.io";

/// Fields of what CloudNativePG keeps in a cluster of PostgreSQL.
const OF_CLUSTER: &[Field] = &[field("spec/cluster", POSTGRES, "Cluster", Usage::Uses)];

/// Fields of what scales by a trigger of KEDA.
const TRIGGER_FIELDS: &[Field] =
    &[field("spec/triggers/*/authenticationRef", "keda.sh", "TriggerAuthentication", Usage::Uses)];

/// Fields with the credentials of a trigger of KEDA.
const CREDENTIAL_FIELDS: &[Field] = &[
    field("spec/secretTargetRef/*", "", "Secret", Usage::Reads),
    field("spec/configMapTargetRef/*", "", "ConfigMap", Usage::Reads),
    field("spec/hashiCorpVault/credential/serviceAccountName", "", "ServiceAccount", Usage::RunsAs),
];

/// Fields with the credentials of a store for backups of CloudNativePG.
const STORE_FIELDS: &[Field] = &[
    field("endpointCA", "", "Secret", Usage::Reads),
    field("azureCredentials/connectionString", "", "Secret", Usage::Reads),
    field("azureCredentials/storageKey", "", "Secret", Usage::Reads),
    field("azureCredentials/storageSasToken", "", "Secret", Usage::Reads),
    field("googleCredentials/applicationCredentials", "", "Secret", Usage::Reads),
    field("s3Credentials/accessKeyId", "", "Secret", Usage::Reads),
    field("s3Credentials/secretAccessKey", "", "Secret", Usage::Reads),
    field("s3Credentials/sessionToken", "", "Secret", Usage::Reads),
];

/// Fields of a package of Crossplane.
const PACKAGE_FIELDS: &[Field] = &[
    field("spec/runtimeConfigRef", CROSSPLANE_PACKAGES, "DeploymentRuntimeConfig", Usage::Uses),
    field("spec/packagePullSecrets/*", "", "Secret", Usage::PullsWith),
];

/// Fields with the credentials of a provider of Crossplane.
const PROVIDER_FIELDS: &[Field] = &[field("spec/credentials/secretRef", "", "Secret", Usage::Reads)];

pub(super) const KINDS: &[Kind] = &[
    Kind {
        group: "argoproj.io",
        kind: "Rollout",
        pods: Some("spec/template"),
        fields: &[
            field("spec/workloadRef", "apps", "Deployment", Usage::Scales),
            field("spec/strategy/blueGreen/activeService", "", "Service", Usage::RoutesTo),
            field("spec/strategy/blueGreen/previewService", "", "Service", Usage::RoutesTo),
            field("spec/strategy/canary/canaryService", "", "Service", Usage::RoutesTo),
            field("spec/strategy/canary/stableService", "", "Service", Usage::RoutesTo),
        ],
        ..NOTHING
    },
    Kind {
        group: "keda.sh",
        kind: "ScaledObject",
        parts: &[("", TRIGGER_FIELDS)],
        fields: &[field("spec/scaleTargetRef", "apps", "Deployment", Usage::Scales)],
        ..NOTHING
    },
    Kind {
        group: POSTGRES,
        kind: "Cluster",
        parts: &[
            ("spec/backup/barmanObjectStore", STORE_FIELDS),
            ("spec/externalClusters/*/barmanObjectStore", STORE_FIELDS),
        ],
        fields: &[
            field("spec/superuserSecret", "", "Secret", Usage::Reads),
            field("spec/bootstrap/initdb/secret", "", "Secret", Usage::Reads),
            field("spec/externalClusters/*/password", "", "Secret", Usage::Reads),
            field("spec/externalClusters/*/sslCert", "", "Secret", Usage::Reads),
            field("spec/externalClusters/*/sslKey", "", "Secret", Usage::Reads),
            field("spec/externalClusters/*/sslRootCert", "", "Secret", Usage::Reads),
            // The plugin that replaces `backup/barmanObjectStore`.
            field("spec/plugins/*/parameters/barmanObjectName", "barmancloud.cnpg.io", "ObjectStore", Usage::Uses),
            field("spec/env/*/valueFrom/configMapKeyRef", "", "ConfigMap", Usage::Reads),
            field("spec/env/*/valueFrom/secretKeyRef", "", "Secret", Usage::Reads),
            field("spec/envFrom/*/configMapRef", "", "ConfigMap", Usage::Reads),
            field("spec/envFrom/*/secretRef", "", "Secret", Usage::Reads),
            field("spec/priorityClassName", "scheduling.k8s.io", "PriorityClass", Usage::Uses),
            field("spec/tablespaces/*/storage/storageClass", STORAGE, "StorageClass", Usage::Uses),
            field("spec/certificates/serverCASecret", "", "Secret", Usage::Reads),
            field("spec/certificates/serverTLSSecret", "", "Secret", Usage::Reads),
            field("spec/certificates/clientCASecret", "", "Secret", Usage::Reads),
            field("spec/certificates/replicationTLSSecret", "", "Secret", Usage::Reads),
            field("spec/managed/roles/*/passwordSecret", "", "Secret", Usage::Reads),
            field("spec/monitoring/customQueriesConfigMap/*", "", "ConfigMap", Usage::Reads),
            field("spec/monitoring/customQueriesSecret/*", "", "Secret", Usage::Reads),
            field("spec/imageCatalogRef", POSTGRES, "ImageCatalog", Usage::Uses),
            field("spec/imagePullSecrets/*", "", "Secret", Usage::PullsWith),
            field("spec/storage/storageClass", STORAGE, "StorageClass", Usage::Uses),
            field("spec/backup/volumeSnapshot/className", SNAPSHOT, "VolumeSnapshotClass", Usage::Uses),
            field("spec/backup/volumeSnapshot/walClassName", SNAPSHOT, "VolumeSnapshotClass", Usage::Uses),
            field("spec/walStorage/storageClass", STORAGE, "StorageClass", Usage::Uses),
        ],
        ..NOTHING
    },
    Kind { group: POSTGRES, kind: "Pooler", fields: OF_CLUSTER, ..NOTHING },
    Kind { group: POSTGRES, kind: "ScheduledBackup", fields: OF_CLUSTER, ..NOTHING },
    Kind { group: POSTGRES, kind: "Database", fields: OF_CLUSTER, ..NOTHING },
    Kind { group: POSTGRES, kind: "Publication", fields: OF_CLUSTER, ..NOTHING },
    Kind { group: POSTGRES, kind: "Subscription", fields: OF_CLUSTER, ..NOTHING },
    Kind {
        group: CROSSPLANE_PACKAGES,
        kind: "Provider",
        fields: PACKAGE_FIELDS,
        namespace: Some("crossplane-system"),
        ..NOTHING
    },
    Kind {
        group: CROSSPLANE_PACKAGES,
        kind: "Function",
        fields: PACKAGE_FIELDS,
        namespace: Some("crossplane-system"),
        ..NOTHING
    },
    Kind {
        group: CROSSPLANE_PACKAGES,
        kind: "Configuration",
        fields: PACKAGE_FIELDS,
        namespace: Some("crossplane-system"),
        ..NOTHING
    },
    Kind {
        group: CROSSPLANE,
        kind: "Composition",
        fields: &[
            field("spec/pipeline/*/functionRef", CROSSPLANE_PACKAGES, "Function", Usage::Calls),
            field("spec/pipeline/*/credentials/*/secretRef", "", "Secret", Usage::Reads),
        ],
        ..NOTHING
    },
    Kind {
        group: CROSSPLANE,
        kind: "CompositeResourceDefinition",
        fields: &[
            field("spec/defaultCompositionRef", CROSSPLANE, "Composition", Usage::Uses),
            field("spec/enforcedCompositionRef", CROSSPLANE, "Composition", Usage::Uses),
        ],
        ..NOTHING
    },
    // Each provider of Crossplane has kinds of its own with these names.
    Kind { group: ".crossplane.io", kind: "ProviderConfig", fields: PROVIDER_FIELDS, ..NOTHING },
    Kind { group: ".crossplane.io", kind: "ClusterProviderConfig", fields: PROVIDER_FIELDS, ..NOTHING },
    Kind { group: ".upbound.io", kind: "ProviderConfig", fields: PROVIDER_FIELDS, ..NOTHING },
    Kind { group: ".upbound.io", kind: "ClusterProviderConfig", fields: PROVIDER_FIELDS, ..NOTHING },
    Kind {
        group: "keda.sh",
        kind: "ScaledJob",
        pods: Some("spec/jobTargetRef/template"),
        fields: TRIGGER_FIELDS,
        ..NOTHING
    },
    Kind { group: "keda.sh", kind: "TriggerAuthentication", fields: CREDENTIAL_FIELDS, ..NOTHING },
    // It reads its Secrets in the namespace of KEDA, unless a setting of that says another one.
    Kind {
        group: "keda.sh",
        kind: "ClusterTriggerAuthentication",
        fields: CREDENTIAL_FIELDS,
        namespace: Some("keda"),
        ..NOTHING
    },
    Kind {
        group: "barmancloud.cnpg.io",
        kind: "ObjectStore",
        parts: &[("spec/configuration", STORE_FIELDS)],
        ..NOTHING
    },
];
