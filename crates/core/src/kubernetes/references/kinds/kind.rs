//! Kinds with the fields in which their objects name others, as data.

use crate::kubernetes::referrer::Usage;

/// A field that names an object: as a name alone, or as an object with `name`, and perhaps `kind`, `apiVersion` or group,
/// `namespace` and `optional`.
pub(in crate::kubernetes::references) struct Field {
    /// Path of the field. `*` stands for every item of a list.
    pub(in crate::kubernetes::references) path: &'static str,
    /// Group and kind of the named object, where the field does not say it.
    pub(in crate::kubernetes::references) group: &'static str,
    pub(in crate::kubernetes::references) kind: &'static str,
    pub(in crate::kubernetes::references) usage: Usage,
    /// Paths with the values for which the field does not count; without values, any that is neither absent nor false.
    pub(in crate::kubernetes::references) unless: &'static [(&'static str, &'static [&'static str])],
}

pub(in crate::kubernetes::references) const fn field(
    path: &'static str,
    group: &'static str,
    kind: &'static str,
    usage: Usage,
) -> Field {
    Field { path, group, kind, usage, unless: &[] }
}

/// A kind with the fields in which its objects name others.
pub(in crate::kubernetes::references) struct Kind {
    pub(in crate::kubernetes::references) group: &'static str,
    pub(in crate::kubernetes::references) kind: &'static str,
    /// Path of the object that has `spec` and `metadata` of the Pods that it makes, if it makes Pods.
    pub(in crate::kubernetes::references) pods: Option<&'static str>,
    /// Path of the labels of Pods that it selects.
    pub(in crate::kubernetes::references) selector: Option<&'static str>,
    pub(in crate::kubernetes::references) fields: &'static [Field],
    /// Parts of its objects with the same fields as parts of other kinds: the path of each part, and the fields in it.
    pub(in crate::kubernetes::references) parts: &'static [(&'static str, &'static [Field])],
    /// Objects that its controller makes: they come back when they are deleted.
    pub(in crate::kubernetes::references) makes: &'static [Field],
    /// Its controller makes an object of this kind and of its own name, unless a field of `makes` names it.
    pub(in crate::kubernetes::references) makes_namesake: Option<&'static str>,
    /// Namespace of the objects that a cluster-scoped object names.
    pub(in crate::kubernetes::references) namespace: Option<&'static str>,
    /// Annotations that name others. `path` is the key.
    pub(in crate::kubernetes::references) annotations: &'static [Field],
}

/// Returns a kind of which nothing is said yet.
pub(in crate::kubernetes::references) const fn kind(group: &'static str, kind: &'static str) -> Kind {
    Kind {
        group,
        kind,
        pods: None,
        selector: None,
        fields: &[],
        parts: &[],
        makes: &[],
        makes_namesake: None,
        namespace: None,
        annotations: &[],
    }
}

/// What an entry says of a kind, by the fields of [`Kind`].
impl Kind {
    pub(super) const fn pods(self, pods: &'static str) -> Self {
        Self { pods: Some(pods), ..self }
    }

    pub(super) const fn selector(self, selector: &'static str) -> Self {
        Self { selector: Some(selector), ..self }
    }

    pub(super) const fn fields(self, fields: &'static [Field]) -> Self {
        Self { fields, ..self }
    }

    pub(super) const fn parts(self, parts: &'static [(&'static str, &'static [Field])]) -> Self {
        Self { parts, ..self }
    }

    pub(super) const fn makes(self, makes: &'static [Field]) -> Self {
        Self { makes, ..self }
    }

    pub(super) const fn makes_namesake(self, kind: &'static str) -> Self {
        Self { makes_namesake: Some(kind), ..self }
    }

    pub(super) const fn namespace(self, namespace: &'static str) -> Self {
        Self { namespace: Some(namespace), ..self }
    }

    pub(super) const fn annotations(self, annotations: &'static [Field]) -> Self {
        Self { annotations, ..self }
    }
}

pub(in crate::kubernetes::references) const STORAGE: &str = "storage.k8s.io";
pub(in crate::kubernetes::references) const SNAPSHOT: &str = "snapshot.storage.k8s.io";
pub(in crate::kubernetes::references) const NETWORKING: &str = "networking.k8s.io";
pub(in crate::kubernetes::references) const GATEWAY: &str = "gateway.networking.k8s.io";
pub(in crate::kubernetes::references) const EXPERIMENTAL_GATEWAY: &str = "gateway.networking.x-k8s.io";
pub(in crate::kubernetes::references) const SOURCE: &str = "source.toolkit.fluxcd.io";
pub(in crate::kubernetes::references) const ADMISSION: &str = "admissionregistration.k8s.io";
pub(in crate::kubernetes::references) const CERT_MANAGER: &str = "cert-manager.io";
pub(in crate::kubernetes::references) const TRAEFIK: &str = "traefik.io";
pub(in crate::kubernetes::references) const OPERATOR: &str = "fluxcd.controlplane.io";

/// Fields of `spec` of a Pod. An account, a class or a Secret for pulling that is missing stops new Pods only.
pub(in crate::kubernetes::references) const POD_FIELDS: &[Field] = &[
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
    field("volumes/*/ephemeral/volumeClaimTemplate/spec/dataSource", "", "PersistentVolumeClaim", Usage::Uses),
    field("volumes/*/ephemeral/volumeClaimTemplate/spec/dataSourceRef", "", "PersistentVolumeClaim", Usage::Uses),
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

/// Annotations by which cert-manager makes a Certificate for an object.
pub(in crate::kubernetes::references) const ISSUER_ANNOTATIONS: &[Field] = &[
    field("cert-manager.io/issuer", CERT_MANAGER, "Issuer", Usage::Uses),
    field("cert-manager.io/cluster-issuer", CERT_MANAGER, "ClusterIssuer", Usage::Uses),
];
