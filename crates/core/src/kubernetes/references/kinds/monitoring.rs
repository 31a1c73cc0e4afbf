//! Kinds of the Prometheus operator.

use crate::kubernetes::references::kinds::kind::{Kind, NOTHING, STORAGE, field};
use crate::kubernetes::referrer::Usage;

const MONITORING: &str = "monitoring.coreos.com";

pub(super) const KINDS: &[Kind] = &[
    Kind {
        group: MONITORING,
        kind: "Prometheus",
        fields: &[
            field("spec/serviceAccountName", "", "ServiceAccount", Usage::RunsAs),
            field("spec/imagePullSecrets/*", "", "Secret", Usage::PullsWith),
            field("spec/priorityClassName", "scheduling.k8s.io", "PriorityClass", Usage::Uses),
            field("spec/secrets/*", "", "Secret", Usage::Mounts),
            field("spec/configMaps/*", "", "ConfigMap", Usage::Mounts),
            field("spec/storage/volumeClaimTemplate/spec/storageClassName", STORAGE, "StorageClass", Usage::Uses),
            field("spec/additionalScrapeConfigs", "", "Secret", Usage::Reads),
            field("spec/remoteWrite/*/basicAuth/username", "", "Secret", Usage::Reads),
            field("spec/remoteWrite/*/basicAuth/password", "", "Secret", Usage::Reads),
            field("spec/remoteWrite/*/bearerTokenSecret", "", "Secret", Usage::Reads),
            field("spec/remoteWrite/*/authorization/credentials", "", "Secret", Usage::Reads),
            field("spec/remoteWrite/*/oauth2/clientSecret", "", "Secret", Usage::Reads),
            field("spec/remoteWrite/*/oauth2/clientId/secret", "", "Secret", Usage::Reads),
            field("spec/remoteWrite/*/tlsConfig/ca/secret", "", "Secret", Usage::Reads),
            field("spec/remoteWrite/*/tlsConfig/ca/configMap", "", "ConfigMap", Usage::Reads),
            field("spec/remoteWrite/*/tlsConfig/cert/secret", "", "Secret", Usage::Reads),
            field("spec/remoteWrite/*/tlsConfig/cert/configMap", "", "ConfigMap", Usage::Reads),
            field("spec/remoteWrite/*/tlsConfig/keySecret", "", "Secret", Usage::Reads),
            field("spec/additionalAlertManagerConfigs", "", "Secret", Usage::Reads),
            field("spec/additionalAlertRelabelConfigs", "", "Secret", Usage::Reads),
            field("spec/thanos/objectStorageConfig", "", "Secret", Usage::Reads),
            field("spec/alerting/alertmanagers/*", "", "Service", Usage::Calls),
        ],
        ..NOTHING
    },
    Kind {
        group: MONITORING,
        kind: "PrometheusAgent",
        fields: &[
            field("spec/serviceAccountName", "", "ServiceAccount", Usage::RunsAs),
            field("spec/imagePullSecrets/*", "", "Secret", Usage::PullsWith),
            field("spec/priorityClassName", "scheduling.k8s.io", "PriorityClass", Usage::Uses),
            field("spec/secrets/*", "", "Secret", Usage::Mounts),
            field("spec/configMaps/*", "", "ConfigMap", Usage::Mounts),
            field("spec/storage/volumeClaimTemplate/spec/storageClassName", STORAGE, "StorageClass", Usage::Uses),
            field("spec/additionalScrapeConfigs", "", "Secret", Usage::Reads),
            field("spec/remoteWrite/*/basicAuth/username", "", "Secret", Usage::Reads),
            field("spec/remoteWrite/*/basicAuth/password", "", "Secret", Usage::Reads),
            field("spec/remoteWrite/*/bearerTokenSecret", "", "Secret", Usage::Reads),
            field("spec/remoteWrite/*/authorization/credentials", "", "Secret", Usage::Reads),
            field("spec/remoteWrite/*/oauth2/clientSecret", "", "Secret", Usage::Reads),
            field("spec/remoteWrite/*/oauth2/clientId/secret", "", "Secret", Usage::Reads),
            field("spec/remoteWrite/*/tlsConfig/ca/secret", "", "Secret", Usage::Reads),
            field("spec/remoteWrite/*/tlsConfig/ca/configMap", "", "ConfigMap", Usage::Reads),
            field("spec/remoteWrite/*/tlsConfig/cert/secret", "", "Secret", Usage::Reads),
            field("spec/remoteWrite/*/tlsConfig/cert/configMap", "", "ConfigMap", Usage::Reads),
            field("spec/remoteWrite/*/tlsConfig/keySecret", "", "Secret", Usage::Reads),
        ],
        ..NOTHING
    },
    Kind {
        group: MONITORING,
        kind: "Alertmanager",
        fields: &[
            field("spec/serviceAccountName", "", "ServiceAccount", Usage::RunsAs),
            field("spec/imagePullSecrets/*", "", "Secret", Usage::PullsWith),
            field("spec/priorityClassName", "scheduling.k8s.io", "PriorityClass", Usage::Uses),
            field("spec/secrets/*", "", "Secret", Usage::Mounts),
            field("spec/configMaps/*", "", "ConfigMap", Usage::Mounts),
            field("spec/storage/volumeClaimTemplate/spec/storageClassName", STORAGE, "StorageClass", Usage::Uses),
            field("spec/configSecret", "", "Secret", Usage::Reads),
            field("spec/alertmanagerConfiguration", MONITORING, "AlertmanagerConfig", Usage::Uses),
        ],
        ..NOTHING
    },
    Kind {
        group: MONITORING,
        kind: "ThanosRuler",
        fields: &[
            field("spec/serviceAccountName", "", "ServiceAccount", Usage::RunsAs),
            field("spec/imagePullSecrets/*", "", "Secret", Usage::PullsWith),
            field("spec/priorityClassName", "scheduling.k8s.io", "PriorityClass", Usage::Uses),
            field("spec/secrets/*", "", "Secret", Usage::Mounts),
            field("spec/configMaps/*", "", "ConfigMap", Usage::Mounts),
            field("spec/storage/volumeClaimTemplate/spec/storageClassName", STORAGE, "StorageClass", Usage::Uses),
            field("spec/objectStorageConfig", "", "Secret", Usage::Reads),
            field("spec/queryConfig", "", "Secret", Usage::Reads),
            field("spec/alertmanagersConfig", "", "Secret", Usage::Reads),
        ],
        ..NOTHING
    },
    Kind {
        group: MONITORING,
        kind: "ServiceMonitor",
        fields: &[
            field("spec/endpoints/*/basicAuth/username", "", "Secret", Usage::Reads),
            field("spec/endpoints/*/basicAuth/password", "", "Secret", Usage::Reads),
            field("spec/endpoints/*/bearerTokenSecret", "", "Secret", Usage::Reads),
            field("spec/endpoints/*/authorization/credentials", "", "Secret", Usage::Reads),
            field("spec/endpoints/*/oauth2/clientSecret", "", "Secret", Usage::Reads),
            field("spec/endpoints/*/oauth2/clientId/secret", "", "Secret", Usage::Reads),
            field("spec/endpoints/*/tlsConfig/ca/secret", "", "Secret", Usage::Reads),
            field("spec/endpoints/*/tlsConfig/ca/configMap", "", "ConfigMap", Usage::Reads),
            field("spec/endpoints/*/tlsConfig/cert/secret", "", "Secret", Usage::Reads),
            field("spec/endpoints/*/tlsConfig/cert/configMap", "", "ConfigMap", Usage::Reads),
            field("spec/endpoints/*/tlsConfig/keySecret", "", "Secret", Usage::Reads),
        ],
        ..NOTHING
    },
    Kind {
        group: MONITORING,
        kind: "PodMonitor",
        fields: &[
            field("spec/podMetricsEndpoints/*/basicAuth/username", "", "Secret", Usage::Reads),
            field("spec/podMetricsEndpoints/*/basicAuth/password", "", "Secret", Usage::Reads),
            field("spec/podMetricsEndpoints/*/bearerTokenSecret", "", "Secret", Usage::Reads),
            field("spec/podMetricsEndpoints/*/authorization/credentials", "", "Secret", Usage::Reads),
            field("spec/podMetricsEndpoints/*/oauth2/clientSecret", "", "Secret", Usage::Reads),
            field("spec/podMetricsEndpoints/*/oauth2/clientId/secret", "", "Secret", Usage::Reads),
            field("spec/podMetricsEndpoints/*/tlsConfig/ca/secret", "", "Secret", Usage::Reads),
            field("spec/podMetricsEndpoints/*/tlsConfig/ca/configMap", "", "ConfigMap", Usage::Reads),
            field("spec/podMetricsEndpoints/*/tlsConfig/cert/secret", "", "Secret", Usage::Reads),
            field("spec/podMetricsEndpoints/*/tlsConfig/cert/configMap", "", "ConfigMap", Usage::Reads),
            field("spec/podMetricsEndpoints/*/tlsConfig/keySecret", "", "Secret", Usage::Reads),
        ],
        ..NOTHING
    },
    Kind {
        group: MONITORING,
        kind: "Probe",
        fields: &[
            field("spec/basicAuth/username", "", "Secret", Usage::Reads),
            field("spec/basicAuth/password", "", "Secret", Usage::Reads),
            field("spec/bearerTokenSecret", "", "Secret", Usage::Reads),
            field("spec/authorization/credentials", "", "Secret", Usage::Reads),
            field("spec/oauth2/clientSecret", "", "Secret", Usage::Reads),
            field("spec/oauth2/clientId/secret", "", "Secret", Usage::Reads),
            field("spec/tlsConfig/ca/secret", "", "Secret", Usage::Reads),
            field("spec/tlsConfig/ca/configMap", "", "ConfigMap", Usage::Reads),
            field("spec/tlsConfig/cert/secret", "", "Secret", Usage::Reads),
            field("spec/tlsConfig/cert/configMap", "", "ConfigMap", Usage::Reads),
            field("spec/tlsConfig/keySecret", "", "Secret", Usage::Reads),
        ],
        ..NOTHING
    },
    Kind {
        group: MONITORING,
        kind: "ScrapeConfig",
        fields: &[
            field("spec/basicAuth/username", "", "Secret", Usage::Reads),
            field("spec/basicAuth/password", "", "Secret", Usage::Reads),
            field("spec/bearerTokenSecret", "", "Secret", Usage::Reads),
            field("spec/authorization/credentials", "", "Secret", Usage::Reads),
            field("spec/oauth2/clientSecret", "", "Secret", Usage::Reads),
            field("spec/oauth2/clientId/secret", "", "Secret", Usage::Reads),
            field("spec/tlsConfig/ca/secret", "", "Secret", Usage::Reads),
            field("spec/tlsConfig/ca/configMap", "", "ConfigMap", Usage::Reads),
            field("spec/tlsConfig/cert/secret", "", "Secret", Usage::Reads),
            field("spec/tlsConfig/cert/configMap", "", "ConfigMap", Usage::Reads),
            field("spec/tlsConfig/keySecret", "", "Secret", Usage::Reads),
        ],
        ..NOTHING
    },
    Kind { group: MONITORING, kind: "PrometheusRule", ..NOTHING },
];
