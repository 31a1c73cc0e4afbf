//! Kinds of Flux and of flux-operator.

use crate::kubernetes::references::kinds::kind::{Field, Kind, OPERATOR, SOURCE, STORAGE, field, kind};
use crate::kubernetes::referrer::Usage;

const KUSTOMIZE: &str = "kustomize.toolkit.fluxcd.io";
const HELM: &str = "helm.toolkit.fluxcd.io";
const NOTIFICATION: &str = "notification.toolkit.fluxcd.io";
const IMAGE: &str = "image.toolkit.fluxcd.io";

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

pub(super) const KINDS: &[Kind] = &[
    kind(KUSTOMIZE, "Kustomization").fields(&[
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
    ]),
    kind(HELM, "HelmRelease").fields(&[
        field("spec/chart/spec/sourceRef", SOURCE, "HelmRepository", Usage::Uses),
        field("spec/chart/spec/verify/secretRef", "", "Secret", Usage::Reads),
        field("spec/chartRef", SOURCE, "OCIRepository", Usage::Uses),
        field("spec/dependsOn/*", HELM, "HelmRelease", Usage::DependsOn),
        field("spec/valuesFrom/*", "", "ConfigMap", Usage::Reads),
        field("spec/kubeConfig/secretRef", "", "Secret", Usage::Reads),
        field("spec/kubeConfig/configMapRef", "", "ConfigMap", Usage::Reads),
        field("spec/serviceAccountName", "", "ServiceAccount", Usage::RunsAs),
    ]),
    kind(SOURCE, "GitRepository").fields(SOURCE_FIELDS),
    kind(SOURCE, "OCIRepository").fields(SOURCE_FIELDS),
    kind(SOURCE, "HelmRepository").fields(SOURCE_FIELDS),
    kind(SOURCE, "Bucket").fields(SOURCE_FIELDS),
    kind(SOURCE, "HelmChart").fields(&[
        field("spec/sourceRef", SOURCE, "HelmRepository", Usage::Uses),
        field("spec/verify/secretRef", "", "Secret", Usage::Reads),
    ]),
    kind("source.extensions.fluxcd.io", "ArtifactGenerator")
        .makes(&[field("spec/artifacts/*", SOURCE, "ExternalArtifact", Usage::Uses)])
        .fields(&[field("spec/sources/*", SOURCE, "GitRepository", Usage::Uses)]),
    kind(OPERATOR, "ResourceSet").fields(&[
        field("spec/inputsFrom/*", OPERATOR, "ResourceSetInputProvider", Usage::Reads),
        field("spec/dependsOn/*", "", "", Usage::DependsOn),
        field("spec/serviceAccountName", "", "ServiceAccount", Usage::RunsAs),
    ]),
    kind(OPERATOR, "ResourceSetInputProvider").fields(CLIENT_FIELDS),
    kind(OPERATOR, "FluxInstance").fields(&[
        field("spec/sync/pullSecret", "", "Secret", Usage::Reads),
        field("spec/distribution/artifactPullSecret", "", "Secret", Usage::PullsWith),
        field("spec/distribution/imagePullSecret", "", "Secret", Usage::PullsWith),
        field("spec/storage/class", STORAGE, "StorageClass", Usage::Uses),
    ]),
    kind(NOTIFICATION, "Alert").fields(&[field("spec/providerRef", NOTIFICATION, "Provider", Usage::Uses)]),
    kind(NOTIFICATION, "Provider").fields(CLIENT_FIELDS),
    kind(NOTIFICATION, "Receiver").fields(&[
        field("spec/secretRef", "", "Secret", Usage::Reads),
        // Source: notification-controller v1.9.3: it answers a call with an error if one is missing.
        field("spec/resources/*", SOURCE, "", Usage::Uses),
    ]),
    kind(IMAGE, "ImageRepository").fields(CLIENT_FIELDS),
    kind(IMAGE, "ImagePolicy").fields(&[field("spec/imageRepositoryRef", IMAGE, "ImageRepository", Usage::Uses)]),
    kind(IMAGE, "ImageUpdateAutomation").fields(&[
        field("spec/sourceRef", SOURCE, "GitRepository", Usage::Uses),
        field("spec/git/commit/signingKey/secretRef", "", "Secret", Usage::Reads),
    ]),
];
