//! Kinds of the Prometheus operator.

use crate::kubernetes::references::kinds::kind::{Field, Kind, STORAGE, field, kind};
use crate::kubernetes::referrer::Usage;

const MONITORING: &str = "monitoring.coreos.com";

/// Fields of `spec` of what the operator runs.
const WORKLOAD_FIELDS: &[Field] = &[
    field("serviceAccountName", "", "ServiceAccount", Usage::RunsAs),
    field("imagePullSecrets/*", "", "Secret", Usage::PullsWith),
    field("priorityClassName", "scheduling.k8s.io", "PriorityClass", Usage::Uses),
    field("secrets/*", "", "Secret", Usage::Mounts),
    field("configMaps/*", "", "ConfigMap", Usage::Mounts),
    field("storage/volumeClaimTemplate/spec/storageClassName", STORAGE, "StorageClass", Usage::Uses),
];

/// Fields with the credentials for requests to an endpoint.
const CLIENT_FIELDS: &[Field] = &[
    field("basicAuth/username", "", "Secret", Usage::Reads),
    field("basicAuth/password", "", "Secret", Usage::Reads),
    field("bearerTokenSecret", "", "Secret", Usage::Reads),
    field("authorization/credentials", "", "Secret", Usage::Reads),
    field("oauth2/clientSecret", "", "Secret", Usage::Reads),
    field("oauth2/clientId/secret", "", "Secret", Usage::Reads),
    field("tlsConfig/ca/secret", "", "Secret", Usage::Reads),
    field("tlsConfig/ca/configMap", "", "ConfigMap", Usage::Reads),
    field("tlsConfig/cert/secret", "", "Secret", Usage::Reads),
    field("tlsConfig/cert/configMap", "", "ConfigMap", Usage::Reads),
    field("tlsConfig/keySecret", "", "Secret", Usage::Reads),
];

pub(super) const KINDS: &[Kind] = &[
    kind(MONITORING, "Prometheus").parts(&[("spec", WORKLOAD_FIELDS), ("spec/remoteWrite/*", CLIENT_FIELDS)]).fields(
        &[
            field("spec/additionalScrapeConfigs", "", "Secret", Usage::Reads),
            field("spec/additionalAlertManagerConfigs", "", "Secret", Usage::Reads),
            field("spec/additionalAlertRelabelConfigs", "", "Secret", Usage::Reads),
            field("spec/thanos/objectStorageConfig", "", "Secret", Usage::Reads),
            field("spec/alerting/alertmanagers/*", "", "Service", Usage::Calls),
        ],
    ),
    kind(MONITORING, "PrometheusAgent")
        .parts(&[("spec", WORKLOAD_FIELDS), ("spec/remoteWrite/*", CLIENT_FIELDS)])
        .fields(&[field("spec/additionalScrapeConfigs", "", "Secret", Usage::Reads)]),
    kind(MONITORING, "Alertmanager").parts(&[("spec", WORKLOAD_FIELDS)]).fields(&[
        field("spec/configSecret", "", "Secret", Usage::Reads),
        field("spec/alertmanagerConfiguration", MONITORING, "AlertmanagerConfig", Usage::Uses),
    ]),
    kind(MONITORING, "ThanosRuler").parts(&[("spec", WORKLOAD_FIELDS)]).fields(&[
        field("spec/objectStorageConfig", "", "Secret", Usage::Reads),
        field("spec/queryConfig", "", "Secret", Usage::Reads),
        field("spec/alertmanagersConfig", "", "Secret", Usage::Reads),
    ]),
    kind(MONITORING, "ServiceMonitor").parts(&[("spec/endpoints/*", CLIENT_FIELDS)]),
    kind(MONITORING, "PodMonitor").parts(&[("spec/podMetricsEndpoints/*", CLIENT_FIELDS)]),
    kind(MONITORING, "Probe").parts(&[("spec", CLIENT_FIELDS)]),
    kind(MONITORING, "ScrapeConfig").parts(&[("spec", CLIENT_FIELDS)]),
    kind(MONITORING, "PrometheusRule"),
];
