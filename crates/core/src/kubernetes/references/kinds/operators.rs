//! Kinds of other operators: workloads, autoscalers, databases.

use crate::kubernetes::references::kinds::kind::{Field, Kind, SNAPSHOT, STORAGE, field, kind};
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
    kind("argoproj.io", "Rollout").pods("spec/template").fields(&[
        field("spec/workloadRef", "apps", "Deployment", Usage::Scales),
        field("spec/strategy/blueGreen/activeService", "", "Service", Usage::RoutesTo),
        field("spec/strategy/blueGreen/previewService", "", "Service", Usage::RoutesTo),
        field("spec/strategy/canary/canaryService", "", "Service", Usage::RoutesTo),
        field("spec/strategy/canary/stableService", "", "Service", Usage::RoutesTo),
    ]),
    kind("keda.sh", "ScaledObject").parts(&[("", TRIGGER_FIELDS)]).fields(&[field(
        "spec/scaleTargetRef",
        "apps",
        "Deployment",
        Usage::Scales,
    )]),
    kind(POSTGRES, "Cluster")
        .parts(&[
            ("spec/backup/barmanObjectStore", STORE_FIELDS),
            ("spec/externalClusters/*/barmanObjectStore", STORE_FIELDS),
        ])
        .fields(&[
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
        ]),
    kind(POSTGRES, "Pooler").fields(OF_CLUSTER),
    kind(POSTGRES, "ScheduledBackup").fields(OF_CLUSTER),
    kind(POSTGRES, "Database").fields(OF_CLUSTER),
    kind(POSTGRES, "Publication").fields(OF_CLUSTER),
    kind(POSTGRES, "Subscription").fields(OF_CLUSTER),
    kind(CROSSPLANE_PACKAGES, "Provider").namespace("crossplane-system").fields(PACKAGE_FIELDS),
    kind(CROSSPLANE_PACKAGES, "Function").namespace("crossplane-system").fields(PACKAGE_FIELDS),
    kind(CROSSPLANE_PACKAGES, "Configuration").namespace("crossplane-system").fields(PACKAGE_FIELDS),
    kind(CROSSPLANE, "Composition").fields(&[
        field("spec/pipeline/*/functionRef", CROSSPLANE_PACKAGES, "Function", Usage::Calls),
        field("spec/pipeline/*/credentials/*/secretRef", "", "Secret", Usage::Reads),
    ]),
    kind(CROSSPLANE, "CompositeResourceDefinition").fields(&[
        field("spec/defaultCompositionRef", CROSSPLANE, "Composition", Usage::Uses),
        field("spec/enforcedCompositionRef", CROSSPLANE, "Composition", Usage::Uses),
    ]),
    // Each provider of Crossplane has kinds of its own with these names.
    kind(".crossplane.io", "ProviderConfig").fields(PROVIDER_FIELDS),
    kind(".crossplane.io", "ClusterProviderConfig").fields(PROVIDER_FIELDS),
    kind(".upbound.io", "ProviderConfig").fields(PROVIDER_FIELDS),
    kind(".upbound.io", "ClusterProviderConfig").fields(PROVIDER_FIELDS),
    kind("keda.sh", "ScaledJob").pods("spec/jobTargetRef/template").fields(TRIGGER_FIELDS),
    kind("keda.sh", "TriggerAuthentication").fields(CREDENTIAL_FIELDS),
    // It reads its Secrets in the namespace of KEDA, unless a setting of that says another one.
    kind("keda.sh", "ClusterTriggerAuthentication").namespace("keda").fields(CREDENTIAL_FIELDS),
    kind("barmancloud.cnpg.io", "ObjectStore").parts(&[("spec/configuration", STORE_FIELDS)]),
];
