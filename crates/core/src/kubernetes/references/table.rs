//! The fields in which objects of known kinds name others. A kind that is not here refers to nothing that is known.
//!
//! Sources: the API references of Kubernetes v1.36, Gateway API v1.5, and of each project at its current version. Not in the
//! table: references whose target may be missing without harm, such as the subjects of a RoleBinding.

use crate::kubernetes::referrer::Usage;

/// A field that names an object: as a name alone, or as an object with `name`, and perhaps `kind`, `apiVersion` or group,
/// `namespace` and `optional`.
pub(super) struct Field {
    /// Path of the field. `*` stands for every item of a list.
    pub(super) path: &'static str,
    /// Group and kind of the named object, where the field does not say it.
    pub(super) group: &'static str,
    pub(super) kind: &'static str,
    pub(super) usage: Usage,
    /// Paths with the values for which the field does not count; without values, any that is neither absent nor false.
    pub(super) unless: &'static [(&'static str, &'static [&'static str])],
}

const fn field(path: &'static str, group: &'static str, kind: &'static str, usage: Usage) -> Field {
    Field { path, group, kind, usage, unless: &[] }
}

/// A kind with the fields in which its objects name others.
pub(super) struct Kind {
    group: &'static str,
    kind: &'static str,
    /// Path of the object that has `spec` and `metadata` of the Pods that it makes, if it makes Pods.
    pub(super) pods: Option<&'static str>,
    /// Path of the labels of Pods that it selects.
    pub(super) selector: Option<&'static str>,
    pub(super) fields: &'static [Field],
    /// Objects that its controller makes: they come back when they are deleted.
    pub(super) makes: &'static [Field],
    /// Its controller makes an object of this kind and of its own name, unless a field of `makes` names it.
    pub(super) makes_namesake: Option<&'static str>,
    /// Namespace of the objects that a cluster-scoped object names.
    pub(super) namespace: Option<&'static str>,
    /// Annotations that name others. `path` is the key.
    pub(super) annotations: &'static [Field],
}

const NOTHING: Kind = Kind {
    group: "",
    kind: "",
    pods: None,
    selector: None,
    fields: &[],
    makes: &[],
    makes_namesake: None,
    namespace: None,
    annotations: &[],
};

const RBAC: &str = "rbac.authorization.k8s.io";
const STORAGE: &str = "storage.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
pub(super) const GATEWAY: &str = "gateway.networking.k8s.io";
pub(super) const SOURCE: &str = "source.toolkit.fluxcd.io";
const KUSTOMIZE: &str = "kustomize.toolkit.fluxcd.io";
const HELM: &str = "helm.toolkit.fluxcd.io";
const NOTIFICATION: &str = "notification.toolkit.fluxcd.io";
const IMAGE: &str = "image.toolkit.fluxcd.io";
pub(super) const ADMISSION: &str = "admissionregistration.k8s.io";
const CERT_MANAGER: &str = "cert-manager.io";
const TRAEFIK: &str = "traefik.io";
const POSTGRES: &str = "postgresql.cnpg.io";
const EXTERNAL_SECRETS: &str = "external-secrets.io";
const OPERATOR: &str = "fluxcd.controlplane.io";

/// Fields of `spec` of a Pod. An account, a class or a Secret for pulling that is missing stops new Pods only.
pub(super) const POD_FIELDS: &[Field] = &[
    field("volumes/*/persistentVolumeClaim/claimName", "", "PersistentVolumeClaim", Usage::Mounts),
    field("volumes/*/configMap", "", "ConfigMap", Usage::Mounts),
    field("volumes/*/secret", "", "Secret", Usage::Mounts),
    field("volumes/*/projected/sources/*/configMap", "", "ConfigMap", Usage::Mounts),
    field("volumes/*/projected/sources/*/secret", "", "Secret", Usage::Mounts),
    field(
        "volumes/*/projected/sources/*/clusterTrustBundle",
        "certificates.k8s.io",
        "ClusterTrustBundle",
        Usage::Mounts,
    ),
    field("volumes/*/csi/nodePublishSecretRef", "", "Secret", Usage::Reads),
    // The driver secrets-store.csi.k8s.io mounts what a class says.
    field(
        "volumes/*/csi/volumeAttributes/secretProviderClass",
        "secrets-store.csi.x-k8s.io",
        "SecretProviderClass",
        Usage::Mounts,
    ),
    field("volumes/*/azureFile", "", "Secret", Usage::Mounts),
    // Drivers of other volumes read theirs in the namespace of the Pod.
    field("volumes/*/cephfs/secretRef", "", "Secret", Usage::Reads),
    field("volumes/*/flexVolume/secretRef", "", "Secret", Usage::Reads),
    field("volumes/*/iscsi/secretRef", "", "Secret", Usage::Reads),
    field("volumes/*/rbd/secretRef", "", "Secret", Usage::Reads),
    field("volumes/*/scaleIO/secretRef", "", "Secret", Usage::Reads),
    field("volumes/*/ephemeral/volumeClaimTemplate/spec/storageClassName", STORAGE, "StorageClass", Usage::Uses),
    field("containers/*/envFrom/*/configMapRef", "", "ConfigMap", Usage::Reads),
    field("containers/*/envFrom/*/secretRef", "", "Secret", Usage::Reads),
    field("containers/*/env/*/valueFrom/configMapKeyRef", "", "ConfigMap", Usage::Reads),
    field("containers/*/env/*/valueFrom/secretKeyRef", "", "Secret", Usage::Reads),
    field("initContainers/*/envFrom/*/configMapRef", "", "ConfigMap", Usage::Reads),
    field("initContainers/*/envFrom/*/secretRef", "", "Secret", Usage::Reads),
    field("initContainers/*/env/*/valueFrom/configMapKeyRef", "", "ConfigMap", Usage::Reads),
    field("initContainers/*/env/*/valueFrom/secretKeyRef", "", "Secret", Usage::Reads),
    field("imagePullSecrets/*", "", "Secret", Usage::PullsWith),
    field("serviceAccountName", "", "ServiceAccount", Usage::RunsAs),
    // The older name of the same field.
    field("serviceAccount", "", "ServiceAccount", Usage::RunsAs),
    field("resourceClaims/*/resourceClaimName", "resource.k8s.io", "ResourceClaim", Usage::Uses),
    field("resourceClaims/*/resourceClaimTemplateName", "resource.k8s.io", "ResourceClaimTemplate", Usage::Uses),
    field("priorityClassName", "scheduling.k8s.io", "PriorityClass", Usage::Uses),
    field("runtimeClassName", "node.k8s.io", "RuntimeClass", Usage::Uses),
];

/// Fields of a route of Gateway API.
const ROUTE_FIELDS: &[Field] = &[
    field("spec/rules/*/backendRefs/*", "", "Service", Usage::RoutesTo),
    field("spec/rules/*/filters/*/requestMirror/backendRef", "", "Service", Usage::RoutesTo),
    field("spec/rules/*/filters/*/extensionRef", "", "", Usage::Uses),
    field("spec/rules/*/backendRefs/*/filters/*/requestMirror/backendRef", "", "Service", Usage::RoutesTo),
    field("spec/rules/*/backendRefs/*/filters/*/extensionRef", "", "", Usage::Uses),
    field("spec/parentRefs/*", GATEWAY, "Gateway", Usage::Uses),
];

/// Fields with the service of a webhook.
const WEBHOOK_FIELDS: &[Field] = &[field("webhooks/*/clientConfig/service", "", "Service", Usage::Calls)];

/// Fields with the credentials of a source.
const SOURCE_FIELDS: &[Field] = &[
    field("spec/secretRef", "", "Secret", Usage::Reads),
    field("spec/certSecretRef", "", "Secret", Usage::Reads),
    field("spec/proxySecretRef", "", "Secret", Usage::Reads),
    field("spec/verify/secretRef", "", "Secret", Usage::Reads),
    field("spec/verify/trustedRootSecretRef", "", "Secret", Usage::Reads),
    field("spec/sts/secretRef", "", "Secret", Usage::Reads),
    field("spec/sts/certSecretRef", "", "Secret", Usage::Reads),
    field("spec/serviceAccountName", "", "ServiceAccount", Usage::RunsAs),
    field("spec/include/*/repository", SOURCE, "GitRepository", Usage::Uses),
];

/// Fields with the credentials of an object that calls another server.
const CLIENT_FIELDS: &[Field] = &[
    field("spec/secretRef", "", "Secret", Usage::Reads),
    field("spec/certSecretRef", "", "Secret", Usage::Reads),
    field("spec/proxySecretRef", "", "Secret", Usage::Reads),
    field("spec/serviceAccountName", "", "ServiceAccount", Usage::RunsAs),
];

/// Fields of what CloudNativePG keeps in a cluster of PostgreSQL.
const OF_CLUSTER: &[Field] = &[field("spec/cluster", POSTGRES, "Cluster", Usage::Uses)];

/// Fields of an issuer of cert-manager.
const ISSUER_FIELDS: &[Field] = &[
    field("spec/ca/secretName", "", "Secret", Usage::Reads),
    field("spec/acme/externalAccountBinding/keySecretRef", "", "Secret", Usage::Reads),
    field("spec/acme/solvers/*/dns01/acmeDNS/accountSecretRef", "", "Secret", Usage::Reads),
    field("spec/acme/solvers/*/dns01/akamai/accessTokenSecretRef", "", "Secret", Usage::Reads),
    field("spec/acme/solvers/*/dns01/akamai/clientSecretSecretRef", "", "Secret", Usage::Reads),
    field("spec/acme/solvers/*/dns01/akamai/clientTokenSecretRef", "", "Secret", Usage::Reads),
    field("spec/acme/solvers/*/dns01/azureDNS/clientSecretSecretRef", "", "Secret", Usage::Reads),
    field("spec/acme/solvers/*/dns01/cloudDNS/serviceAccountSecretRef", "", "Secret", Usage::Reads),
    field("spec/acme/solvers/*/dns01/cloudflare/apiKeySecretRef", "", "Secret", Usage::Reads),
    field("spec/acme/solvers/*/dns01/cloudflare/apiTokenSecretRef", "", "Secret", Usage::Reads),
    field("spec/acme/solvers/*/dns01/digitalocean/tokenSecretRef", "", "Secret", Usage::Reads),
    field("spec/acme/solvers/*/dns01/rfc2136/tsigSecretSecretRef", "", "Secret", Usage::Reads),
    field("spec/acme/solvers/*/dns01/route53/accessKeyIDSecretRef", "", "Secret", Usage::Reads),
    field("spec/acme/solvers/*/dns01/route53/secretAccessKeySecretRef", "", "Secret", Usage::Reads),
    field("spec/acme/solvers/*/http01/gatewayHTTPRoute/parentRefs/*", GATEWAY, "Gateway", Usage::Uses),
    field("spec/acme/solvers/*/http01/ingress/ingressClassName", NETWORKING, "IngressClass", Usage::Uses),
    field("spec/vault/auth/tokenSecretRef", "", "Secret", Usage::Reads),
    field("spec/vault/auth/appRole/secretRef", "", "Secret", Usage::Reads),
    field("spec/vault/auth/clientCertificate/secretName", "", "Secret", Usage::Reads),
    field("spec/vault/auth/kubernetes/secretRef", "", "Secret", Usage::Reads),
    field("spec/vault/auth/kubernetes/serviceAccountRef", "", "ServiceAccount", Usage::RunsAs),
    field("spec/vault/caBundleSecretRef", "", "Secret", Usage::Reads),
    field("spec/vault/clientCertSecretRef", "", "Secret", Usage::Reads),
    field("spec/vault/clientKeySecretRef", "", "Secret", Usage::Reads),
    field("spec/venafi/cloud/apiTokenSecretRef", "", "Secret", Usage::Reads),
    field("spec/venafi/tpp/caBundleSecretRef", "", "Secret", Usage::Reads),
    field("spec/venafi/tpp/credentialsRef", "", "Secret", Usage::Reads),
];

/// Annotations by which cert-manager makes a Certificate for an object.
const ISSUER_ANNOTATIONS: &[Field] = &[
    field("cert-manager.io/issuer", CERT_MANAGER, "Issuer", Usage::Uses),
    field("cert-manager.io/cluster-issuer", CERT_MANAGER, "ClusterIssuer", Usage::Uses),
];
const ISSUER_MAKES: &[Field] = &[field("spec/acme/privateKeySecretRef", "", "Secret", Usage::Uses)];

const KINDS: &[Kind] = &[
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
        fields: &[field("spec/storageClassName", STORAGE, "StorageClass", Usage::Uses)],
        ..NOTHING
    },
    Kind {
        group: NETWORKING,
        kind: "Ingress",
        fields: &[
            field("spec/defaultBackend/service", "", "Service", Usage::RoutesTo),
            field("spec/rules/*/http/paths/*/backend/service", "", "Service", Usage::RoutesTo),
            field("spec/defaultBackend/resource", "", "", Usage::RoutesTo),
            field("spec/rules/*/http/paths/*/backend/resource", "", "", Usage::RoutesTo),
            field("spec/tls/*/secretName", "", "Secret", Usage::Reads),
            field("spec/ingressClassName", NETWORKING, "IngressClass", Usage::Uses),
        ],
        annotations: ISSUER_ANNOTATIONS,
        ..NOTHING
    },
    Kind {
        group: NETWORKING,
        kind: "IngressClass",
        fields: &[field("spec/parameters", "", "", Usage::Uses)],
        ..NOTHING
    },
    Kind {
        group: TRAEFIK,
        kind: "IngressRoute",
        fields: &[
            field("spec/routes/*/services/*", "", "Service", Usage::RoutesTo),
            field("spec/routes/*/middlewares/*", TRAEFIK, "Middleware", Usage::Uses),
            field("spec/tls/secretName", "", "Secret", Usage::Reads),
            field("spec/tls/options", TRAEFIK, "TLSOption", Usage::Uses),
            field("spec/tls/store", TRAEFIK, "TLSStore", Usage::Uses),
        ],
        ..NOTHING
    },
    Kind {
        group: TRAEFIK,
        kind: "TraefikService",
        fields: &[
            field("spec/weighted/services/*", "", "Service", Usage::RoutesTo),
            field("spec/mirroring", "", "Service", Usage::RoutesTo),
            field("spec/mirroring/mirrors/*", "", "Service", Usage::RoutesTo),
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
        group: "keda.sh",
        kind: "ScaledObject",
        fields: &[
            field("spec/scaleTargetRef", "apps", "Deployment", Usage::Scales),
            field("spec/triggers/*/authenticationRef", "keda.sh", "TriggerAuthentication", Usage::Uses),
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
    Kind { group: GATEWAY, kind: "ReferenceGrant", ..NOTHING },
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
    Kind { group: GATEWAY, kind: "HTTPRoute", fields: ROUTE_FIELDS, ..NOTHING },
    Kind { group: GATEWAY, kind: "GRPCRoute", fields: ROUTE_FIELDS, ..NOTHING },
    Kind { group: GATEWAY, kind: "TLSRoute", fields: ROUTE_FIELDS, ..NOTHING },
    Kind { group: GATEWAY, kind: "TCPRoute", fields: ROUTE_FIELDS, ..NOTHING },
    Kind { group: GATEWAY, kind: "UDPRoute", fields: ROUTE_FIELDS, ..NOTHING },
    Kind {
        group: GATEWAY,
        kind: "BackendTLSPolicy",
        fields: &[
            field("spec/targetRefs/*", "", "Service", Usage::Uses),
            field("spec/validation/caCertificateRefs/*", "", "ConfigMap", Usage::Reads),
        ],
        ..NOTHING
    },
    Kind {
        group: GATEWAY,
        kind: "GatewayClass",
        fields: &[field("spec/parametersRef", "", "", Usage::Uses)],
        ..NOTHING
    },
    Kind {
        group: GATEWAY,
        kind: "Gateway",
        fields: &[
            field("spec/gatewayClassName", GATEWAY, "GatewayClass", Usage::Uses),
            field("spec/listeners/*/tls/certificateRefs/*", "", "Secret", Usage::Reads),
            field("spec/listeners/*/tls/frontendValidation/caCertificateRefs/*", "", "ConfigMap", Usage::Reads),
            field("spec/tls/frontend/default/validation/caCertificateRefs/*", "", "ConfigMap", Usage::Reads),
            field("spec/tls/frontend/perPort/*/tls/validation/caCertificateRefs/*", "", "ConfigMap", Usage::Reads),
            field("spec/tls/backend/clientCertificateRef", "", "Secret", Usage::Reads),
            field("spec/infrastructure/parametersRef", "", "", Usage::Uses),
        ],
        annotations: ISSUER_ANNOTATIONS,
        ..NOTHING
    },
    Kind {
        group: KUSTOMIZE,
        kind: "Kustomization",
        fields: &[
            field("spec/sourceRef", SOURCE, "GitRepository", Usage::Uses),
            field("spec/dependsOn/*", KUSTOMIZE, "Kustomization", Usage::DependsOn),
            // Source: kustomize-controller v1.9.5: `spec.wait` replaces them, and they are looked for in the target cluster.
            Field {
                unless: &[("spec/wait", &[]), ("spec/kubeConfig", &[])],
                ..field("spec/healthChecks/*", "apps", "", Usage::DependsOn)
            },
            field("spec/postBuild/substituteFrom/*", "", "ConfigMap", Usage::Reads),
            field("spec/decryption/secretRef", "", "Secret", Usage::Reads),
            field("spec/decryption/serviceAccountName", "", "ServiceAccount", Usage::RunsAs),
            field("spec/kubeConfig/secretRef", "", "Secret", Usage::Reads),
            field("spec/kubeConfig/configMapRef", "", "ConfigMap", Usage::Reads),
            field("spec/serviceAccountName", "", "ServiceAccount", Usage::RunsAs),
        ],
        ..NOTHING
    },
    Kind {
        group: HELM,
        kind: "HelmRelease",
        fields: &[
            field("spec/chart/spec/sourceRef", SOURCE, "HelmRepository", Usage::Uses),
            field("spec/chart/spec/verify/secretRef", "", "Secret", Usage::Reads),
            field("spec/chartRef", SOURCE, "OCIRepository", Usage::Uses),
            field("spec/dependsOn/*", HELM, "HelmRelease", Usage::DependsOn),
            field("spec/valuesFrom/*", "", "ConfigMap", Usage::Reads),
            field("spec/kubeConfig/secretRef", "", "Secret", Usage::Reads),
            field("spec/kubeConfig/configMapRef", "", "ConfigMap", Usage::Reads),
            field("spec/serviceAccountName", "", "ServiceAccount", Usage::RunsAs),
        ],
        ..NOTHING
    },
    Kind { group: SOURCE, kind: "GitRepository", fields: SOURCE_FIELDS, ..NOTHING },
    Kind { group: SOURCE, kind: "OCIRepository", fields: SOURCE_FIELDS, ..NOTHING },
    Kind { group: SOURCE, kind: "HelmRepository", fields: SOURCE_FIELDS, ..NOTHING },
    Kind { group: SOURCE, kind: "Bucket", fields: SOURCE_FIELDS, ..NOTHING },
    Kind {
        group: SOURCE,
        kind: "HelmChart",
        fields: &[
            field("spec/sourceRef", SOURCE, "HelmRepository", Usage::Uses),
            field("spec/verify/secretRef", "", "Secret", Usage::Reads),
        ],
        ..NOTHING
    },
    Kind {
        group: "source.extensions.fluxcd.io",
        kind: "ArtifactGenerator",
        fields: &[field("spec/sources/*", SOURCE, "GitRepository", Usage::Uses)],
        makes: &[field("spec/artifacts/*", SOURCE, "ExternalArtifact", Usage::Uses)],
        ..NOTHING
    },
    Kind {
        group: OPERATOR,
        kind: "ResourceSet",
        fields: &[
            field("spec/inputsFrom/*", OPERATOR, "ResourceSetInputProvider", Usage::Reads),
            field("spec/dependsOn/*", "", "", Usage::DependsOn),
            field("spec/serviceAccountName", "", "ServiceAccount", Usage::RunsAs),
        ],
        ..NOTHING
    },
    Kind { group: OPERATOR, kind: "ResourceSetInputProvider", fields: CLIENT_FIELDS, ..NOTHING },
    Kind {
        group: OPERATOR,
        kind: "FluxInstance",
        fields: &[
            field("spec/sync/pullSecret", "", "Secret", Usage::Reads),
            field("spec/distribution/artifactPullSecret", "", "Secret", Usage::PullsWith),
            field("spec/distribution/imagePullSecret", "", "Secret", Usage::PullsWith),
            field("spec/storage/class", STORAGE, "StorageClass", Usage::Uses),
        ],
        ..NOTHING
    },
    Kind {
        group: NOTIFICATION,
        kind: "Alert",
        fields: &[field("spec/providerRef", NOTIFICATION, "Provider", Usage::Uses)],
        ..NOTHING
    },
    Kind { group: NOTIFICATION, kind: "Provider", fields: CLIENT_FIELDS, ..NOTHING },
    Kind {
        group: NOTIFICATION,
        kind: "Receiver",
        fields: &[
            field("spec/secretRef", "", "Secret", Usage::Reads),
            // Source: notification-controller v1.9.3: it answers a call with an error if one is missing.
            field("spec/resources/*", SOURCE, "", Usage::Uses),
        ],
        ..NOTHING
    },
    Kind { group: IMAGE, kind: "ImageRepository", fields: CLIENT_FIELDS, ..NOTHING },
    Kind {
        group: IMAGE,
        kind: "ImagePolicy",
        fields: &[field("spec/imageRepositoryRef", IMAGE, "ImageRepository", Usage::Uses)],
        ..NOTHING
    },
    Kind {
        group: IMAGE,
        kind: "ImageUpdateAutomation",
        fields: &[
            field("spec/sourceRef", SOURCE, "GitRepository", Usage::Uses),
            field("spec/git/commit/signingKey/secretRef", "", "Secret", Usage::Reads),
        ],
        ..NOTHING
    },
    Kind {
        group: CERT_MANAGER,
        kind: "Certificate",
        fields: &[
            field("spec/issuerRef", CERT_MANAGER, "Issuer", Usage::Uses),
            field("spec/keystores/jks/passwordSecretRef", "", "Secret", Usage::Reads),
            field("spec/keystores/pkcs12/passwordSecretRef", "", "Secret", Usage::Reads),
        ],
        makes: &[field("spec/secretName", "", "Secret", Usage::Uses)],
        ..NOTHING
    },
    Kind { group: CERT_MANAGER, kind: "Issuer", fields: ISSUER_FIELDS, makes: ISSUER_MAKES, ..NOTHING },
    // It reads its Secrets in the namespace of cert-manager, unless a flag of that says another one.
    Kind {
        group: CERT_MANAGER,
        kind: "ClusterIssuer",
        fields: ISSUER_FIELDS,
        makes: ISSUER_MAKES,
        namespace: Some("cert-manager"),
        ..NOTHING
    },
    Kind {
        group: POSTGRES,
        kind: "Cluster",
        fields: &[
            field("spec/superuserSecret", "", "Secret", Usage::Reads),
            field("spec/bootstrap/initdb/secret", "", "Secret", Usage::Reads),
            field("spec/externalClusters/*/password", "", "Secret", Usage::Reads),
            field("spec/externalClusters/*/sslCert", "", "Secret", Usage::Reads),
            field("spec/externalClusters/*/sslKey", "", "Secret", Usage::Reads),
            field("spec/externalClusters/*/sslRootCert", "", "Secret", Usage::Reads),
            field("spec/backup/barmanObjectStore/endpointCA", "", "Secret", Usage::Reads),
            field("spec/backup/barmanObjectStore/azureCredentials/connectionString", "", "Secret", Usage::Reads),
            field("spec/backup/barmanObjectStore/azureCredentials/storageKey", "", "Secret", Usage::Reads),
            field("spec/backup/barmanObjectStore/azureCredentials/storageSasToken", "", "Secret", Usage::Reads),
            field("spec/backup/barmanObjectStore/googleCredentials/applicationCredentials", "", "Secret", Usage::Reads),
            field("spec/backup/barmanObjectStore/s3Credentials/accessKeyId", "", "Secret", Usage::Reads),
            field("spec/backup/barmanObjectStore/s3Credentials/secretAccessKey", "", "Secret", Usage::Reads),
            field("spec/backup/barmanObjectStore/s3Credentials/sessionToken", "", "Secret", Usage::Reads),
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
        group: EXTERNAL_SECRETS,
        kind: "ExternalSecret",
        fields: &[
            field("spec/secretStoreRef", EXTERNAL_SECRETS, "SecretStore", Usage::Uses),
            field("spec/data/*/sourceRef/storeRef", EXTERNAL_SECRETS, "SecretStore", Usage::Uses),
            field("spec/dataFrom/*/sourceRef/storeRef", EXTERNAL_SECRETS, "SecretStore", Usage::Uses),
            field("spec/dataFrom/*/sourceRef/generatorRef", "generators.external-secrets.io", "", Usage::Uses),
            field("spec/target/template/templateFrom/*/configMap", "", "ConfigMap", Usage::Reads),
            field("spec/target/template/templateFrom/*/secret", "", "Secret", Usage::Reads),
            // It merges into a Secret that it does not make.
            Field {
                unless: &[("spec/target/creationPolicy", &["None"])],
                ..field("spec/target/name", "", "Secret", Usage::Uses)
            },
        ],
        // It does not create a Secret that it merges into.
        makes: &[Field {
            unless: &[("spec/target/creationPolicy", &["Merge", "None"])],
            ..field("spec/target/name", "", "Secret", Usage::Uses)
        }],
        makes_namesake: Some("Secret"),
        ..NOTHING
    },
    Kind {
        group: EXTERNAL_SECRETS,
        kind: "PushSecret",
        fields: &[
            field("spec/selector/secret", "", "Secret", Usage::Reads),
            field("spec/secretStoreRefs/*", EXTERNAL_SECRETS, "SecretStore", Usage::Uses),
        ],
        ..NOTHING
    },
    Kind { group: "bitnami.com", kind: "SealedSecret", makes_namesake: Some("Secret"), ..NOTHING },
    Kind {
        group: "snapshot.storage.k8s.io",
        kind: "VolumeSnapshot",
        fields: &[field("spec/volumeSnapshotClassName", "snapshot.storage.k8s.io", "VolumeSnapshotClass", Usage::Uses)],
        ..NOTHING
    },
];

/// Kinds of the table whose objects have no namespace.
const CLUSTER_SCOPED: [&str; 15] = [
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
    "CustomResourceDefinition",
    "Namespace",
];

/// Returns the fields of a kind in which its objects name others; `None` if nothing is known of the kind.
pub(super) fn find(group: &str, kind: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|known| known.group == group && known.kind == kind)
}

/// Returns true if objects of this kind can name others in known fields.
pub fn is_referrer(group: &str, kind: &str) -> bool {
    find(group, kind).is_some()
}

/// Returns the group of a kind that a field names without one, if the kind is in the table.
pub(super) fn group_of_kind(kind: &str) -> Option<&'static str> {
    KINDS.iter().find(|known| known.kind == kind).map(|known| known.group)
}

/// Returns true if objects of a group can name objects of another namespace than their own.
pub fn names_other_namespaces(group: &str) -> bool {
    let is_of_flux = group.ends_with(".fluxcd.io") || group == OPERATOR;
    is_of_flux || [GATEWAY, TRAEFIK].contains(&group)
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
    let is_builtin = !group.contains('.') || group.ends_with(".k8s.io");
    !is_builtin && !group.ends_with(".toolkit.fluxcd.io") && find(group, kind).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_in_the_table_once() {
        let mut names: Vec<_> = KINDS.iter().map(|kind| (kind.group, kind.kind)).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), KINDS.len());
    }

    #[test]
    fn only_custom_kinds_that_are_missing_are_unknown() {
        for (group, kind, expected) in [
            ("", "ConfigMap", false),
            ("batch", "Job", false),
            ("networking.k8s.io", "NetworkPolicy", false),
            ("cert-manager.io", "Certificate", false),
            ("fluxcd.controlplane.io", "ResourceSet", false),
            ("external-secrets.io", "SecretStore", true),
            ("shop.example.com", "Order", true),
            ("infra.contrib.fluxcd.io", "Terraform", true),
            ("source.toolkit.fluxcd.io", "ExternalArtifact", false),
        ] {
            assert_eq!(is_unknown(group, kind), expected, "{group} {kind}");
        }
    }
}
