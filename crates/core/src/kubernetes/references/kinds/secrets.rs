//! Kinds whose controllers make Secrets: cert-manager, external-secrets, Sealed Secrets.

use crate::kubernetes::references::kinds::kind::{CERT_MANAGER, Field, GATEWAY, Kind, NETWORKING, field, kind};
use crate::kubernetes::referrer::Usage;

const EXTERNAL_SECRETS: &str = "external-secrets.io";

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

const ISSUER_MAKES: &[Field] = &[field("spec/acme/privateKeySecretRef", "", "Secret", Usage::Uses)];

/// Fields with the credentials of a store of external-secrets.
const STORE_FIELDS: &[Field] = &[
    field("spec/provider/aws/auth/secretRef/accessKeyIDSecretRef", "", "Secret", Usage::Reads),
    field("spec/provider/aws/auth/secretRef/secretAccessKeySecretRef", "", "Secret", Usage::Reads),
    field("spec/provider/aws/auth/secretRef/sessionTokenSecretRef", "", "Secret", Usage::Reads),
    field("spec/provider/aws/auth/jwt/serviceAccountRef", "", "ServiceAccount", Usage::RunsAs),
    field("spec/provider/azurekv/authSecretRef/clientId", "", "Secret", Usage::Reads),
    field("spec/provider/azurekv/authSecretRef/clientSecret", "", "Secret", Usage::Reads),
    field("spec/provider/azurekv/authSecretRef/clientCertificate", "", "Secret", Usage::Reads),
    field("spec/provider/azurekv/serviceAccountRef", "", "ServiceAccount", Usage::RunsAs),
    field("spec/provider/gcpsm/auth/secretRef/secretAccessKeySecretRef", "", "Secret", Usage::Reads),
    field("spec/provider/gcpsm/auth/workloadIdentity/serviceAccountRef", "", "ServiceAccount", Usage::RunsAs),
    field("spec/provider/vault/auth/tokenSecretRef", "", "Secret", Usage::Reads),
    field("spec/provider/vault/auth/appRole/roleRef", "", "Secret", Usage::Reads),
    field("spec/provider/vault/auth/appRole/secretRef", "", "Secret", Usage::Reads),
    field("spec/provider/vault/auth/cert/clientCert", "", "Secret", Usage::Reads),
    field("spec/provider/vault/auth/cert/secretRef", "", "Secret", Usage::Reads),
    field("spec/provider/vault/auth/jwt/secretRef", "", "Secret", Usage::Reads),
    field(
        "spec/provider/vault/auth/jwt/kubernetesServiceAccountToken/serviceAccountRef",
        "",
        "ServiceAccount",
        Usage::RunsAs,
    ),
    field("spec/provider/vault/auth/kubernetes/secretRef", "", "Secret", Usage::Reads),
    field("spec/provider/vault/auth/kubernetes/serviceAccountRef", "", "ServiceAccount", Usage::RunsAs),
    field("spec/provider/vault/auth/ldap/secretRef", "", "Secret", Usage::Reads),
    field("spec/provider/vault/auth/userPass/secretRef", "", "Secret", Usage::Reads),
    field("spec/provider/vault/caProvider", "", "ConfigMap", Usage::Reads),
    field("spec/provider/vault/tls/certSecretRef", "", "Secret", Usage::Reads),
    field("spec/provider/vault/tls/keySecretRef", "", "Secret", Usage::Reads),
    field("spec/provider/kubernetes/auth/token/bearerToken", "", "Secret", Usage::Reads),
    field("spec/provider/kubernetes/auth/cert/clientCert", "", "Secret", Usage::Reads),
    field("spec/provider/kubernetes/auth/cert/clientKey", "", "Secret", Usage::Reads),
    field("spec/provider/kubernetes/auth/serviceAccount", "", "ServiceAccount", Usage::RunsAs),
    field("spec/provider/kubernetes/authRef", "", "Secret", Usage::Reads),
    field("spec/provider/kubernetes/server/caProvider", "", "ConfigMap", Usage::Reads),
    field("spec/provider/onepassword/auth/secretRef/connectTokenSecretRef", "", "Secret", Usage::Reads),
    field("spec/provider/onepasswordSDK/auth/serviceAccountSecretRef", "", "Secret", Usage::Reads),
    field("spec/provider/bitwardensecretsmanager/auth/secretRef/credentials", "", "Secret", Usage::Reads),
    field("spec/provider/bitwardensecretsmanager/caProvider", "", "ConfigMap", Usage::Reads),
    field("spec/provider/doppler/auth/secretRef/dopplerToken", "", "Secret", Usage::Reads),
    field("spec/provider/gitlab/auth/SecretRef/accessToken", "", "Secret", Usage::Reads),
    field("spec/provider/infisical/auth/universalAuthCredentials/clientId", "", "Secret", Usage::Reads),
    field("spec/provider/infisical/auth/universalAuthCredentials/clientSecret", "", "Secret", Usage::Reads),
    field("spec/provider/akeyless/authSecretRef/secretRef/accessID", "", "Secret", Usage::Reads),
    field("spec/provider/akeyless/authSecretRef/secretRef/accessTypeParam", "", "Secret", Usage::Reads),
    field("spec/provider/scaleway/accessKey/secretRef", "", "Secret", Usage::Reads),
    field("spec/provider/scaleway/secretKey/secretRef", "", "Secret", Usage::Reads),
    field("spec/provider/webhook/secrets/*/secretRef", "", "Secret", Usage::Reads),
];

pub(super) const KINDS: &[Kind] = &[
    kind(CERT_MANAGER, "Certificate").makes(&[field("spec/secretName", "", "Secret", Usage::Uses)]).fields(&[
        field("spec/issuerRef", CERT_MANAGER, "Issuer", Usage::Uses),
        field("spec/keystores/jks/passwordSecretRef", "", "Secret", Usage::Reads),
        field("spec/keystores/pkcs12/passwordSecretRef", "", "Secret", Usage::Reads),
    ]),
    kind(CERT_MANAGER, "Issuer").makes(ISSUER_MAKES).fields(ISSUER_FIELDS),
    // It reads its Secrets in the namespace of cert-manager, unless a flag of that says another one.
    kind(CERT_MANAGER, "ClusterIssuer").makes(ISSUER_MAKES).namespace("cert-manager").fields(ISSUER_FIELDS),
    kind(EXTERNAL_SECRETS, "ExternalSecret")
        // It does not create a Secret that it merges into.
        .makes(&[Field {
            unless: &[("spec/target/creationPolicy", &["Merge", "None"])],
            ..field("spec/target/name", "", "Secret", Usage::Uses)
        }])
        .makes_namesake("Secret")
        .fields(&[
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
        ]),
    kind(EXTERNAL_SECRETS, "PushSecret").fields(&[
        field("spec/selector/secret", "", "Secret", Usage::Reads),
        field("spec/secretStoreRefs/*", EXTERNAL_SECRETS, "SecretStore", Usage::Uses),
    ]),
    kind("bitnami.com", "SealedSecret").makes_namesake("Secret"),
    kind(EXTERNAL_SECRETS, "SecretStore").fields(STORE_FIELDS),
    // Where it names no namespace, its Secrets are those of the namespace of each ExternalSecret.
    kind(EXTERNAL_SECRETS, "ClusterSecretStore").fields(STORE_FIELDS),
    kind(EXTERNAL_SECRETS, "ClusterExternalSecret").fields(&[
        field("spec/externalSecretSpec/secretStoreRef", EXTERNAL_SECRETS, "SecretStore", Usage::Uses),
        field("spec/externalSecretSpec/data/*/sourceRef/storeRef", EXTERNAL_SECRETS, "SecretStore", Usage::Uses),
        field("spec/externalSecretSpec/dataFrom/*/sourceRef/storeRef", EXTERNAL_SECRETS, "SecretStore", Usage::Uses),
    ]),
    // It reads in the namespace of cert-manager, unless a flag of trust-manager says another one.
    kind("trust.cert-manager.io", "Bundle").namespace("cert-manager").fields(&[
        field("spec/sources/*/configMap", "", "ConfigMap", Usage::Reads),
        field("spec/sources/*/secret", "", "Secret", Usage::Reads),
    ]),
];
