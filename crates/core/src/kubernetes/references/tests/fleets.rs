//! Small fleets: objects that stay in them, objects that are deleted, and those of them that are still needed.

use std::collections::BTreeSet;

use crate::kubernetes::object::ObjectId;
use crate::kubernetes::references::{Departures, Staying};
use crate::kubernetes::referrer::Referrer;
use crate::kubernetes::snapshot::{ClusterIdentity, Snapshot};

/// Title; objects that stay, as `KIND.GROUP/NAMESPACE/NAME` and JSON; objects that go; names of those that are still needed.
type Fleet = (&'static str, &'static [(&'static str, &'static str)], &'static [&'static str], &'static [&'static str]);

const FLEETS: [Fleet; 27] = [
    (
        "claims of a template of a StatefulSet, and one beyond its replicas",
        &[(
            "StatefulSet.apps/shop/db",
            r#"{"spec": {"replicas": 2, "volumeClaimTemplates": [{"metadata": {"name": "data"}}]}}"#,
        )],
        &["PersistentVolumeClaim/shop/data-db-1", "PersistentVolumeClaim/shop/data-db-2"],
        &["data-db-1"],
    ),
    (
        "the class of an ephemeral volume",
        &[(
            "Deployment.apps/shop/web",
            r#"{"spec": {"template": {"spec": {"volumes": [{"ephemeral": {"volumeClaimTemplate": {"spec":
                {"storageClassName": "fast"}}}}]}}}}"#,
        )],
        &["StorageClass.storage.k8s.io//fast", "StorageClass.storage.k8s.io//slow"],
        &["fast"],
    ),
    (
        "projected sources, one of them optional",
        &[(
            "DaemonSet.apps/shop/agent",
            r#"{"spec": {"template": {"spec": {"volumes": [{"projected": {"sources": [{"secret": {"name": "token"}},
                {"configMap": {"name": "ca"}}, {"configMap": {"name": "maybe", "optional": true}}]}}]}}}}"#,
        )],
        &["Secret/shop/token", "ConfigMap/shop/ca", "ConfigMap/shop/maybe"],
        &["ca", "token"],
    ),
    (
        "envFrom, optional and not",
        &[(
            "CronJob.batch/shop/night",
            r#"{"spec": {"jobTemplate": {"spec": {"template": {"spec": {"containers": [{"envFrom": [
                {"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "maybe", "optional": true}}]}]}}}}}}"#,
        )],
        &["ConfigMap/shop/settings", "Secret/shop/maybe"],
        &["settings"],
    ),
    (
        "a Secret that an ExternalSecret makes in place of the one in the tree",
        &[
            (
                "Deployment.apps/shop/web",
                r#"{"spec": {"template": {"spec": {"volumes": [{"secret": {"secretName": "keys"}}]}}}}"#,
            ),
            ("ExternalSecret.external-secrets.io/shop/any", r#"{"spec": {"target": {"name": "keys"}}}"#),
        ],
        &["Secret/shop/keys"],
        &[],
    ),
    (
        "the store of an ExternalSecret, and the Secret with its credentials",
        &[
            (
                "ExternalSecret.external-secrets.io/shop/any",
                r#"{"spec": {"secretStoreRef": {"kind": "ClusterSecretStore", "name": "vault"}}}"#,
            ),
            (
                "SecretStore.external-secrets.io/shop/own",
                r#"{"spec": {"provider": {"vault": {"auth": {"tokenSecretRef": {"name": "token"}}}}}}"#,
            ),
        ],
        &["ClusterSecretStore.external-secrets.io//vault", "Secret/shop/token"],
        &["vault", "token"],
    ),
    (
        "a Service of a route in another namespace",
        &[(
            "HTTPRoute.gateway.networking.k8s.io/edge/web",
            r#"{"spec": {"rules": [{"backendRefs": [{"name": "web", "namespace": "shop"}]}]}}"#,
        )],
        &["Service/shop/web", "Service/edge/web"],
        &["web"],
    ),
    (
        "the grant of a route in another namespace",
        &[(
            "HTTPRoute.gateway.networking.k8s.io/edge/web",
            r#"{"spec": {"rules": [{"backendRefs": [{"name": "web", "namespace": "shop"}]}]}}"#,
        )],
        &["ReferenceGrant.gateway.networking.k8s.io/shop/grant"],
        &["grant"],
    ),
    (
        "the Gateway of a route, and the Secret of its listener",
        &[
            (
                "GRPCRoute.gateway.networking.k8s.io/shop/web",
                r#"{"spec": {"parentRefs": [{"name": "edge", "namespace": "net"}]}}"#,
            ),
            (
                "Gateway.gateway.networking.k8s.io/net/other",
                r#"{"spec": {"listeners": [{"tls": {"certificateRefs": [{"name": "tls"}]}}]}}"#,
            ),
        ],
        &["Gateway.gateway.networking.k8s.io/net/edge", "Secret/net/tls"],
        &["edge", "tls"],
    ),
    (
        "the Service and the Secret of an Ingress, and the same names in another namespace",
        &[(
            "Ingress.networking.k8s.io/shop/web",
            r#"{"spec": {"tls": [{"secretName": "tls"}], "rules": [
                {"http": {"paths": [{"backend": {"service": {"name": "api"}}}]}}]}}"#,
        )],
        &["Service/shop/api", "Secret/shop/tls", "Service/other/api", "Secret/other/tls"],
        &["tls", "api"],
    ),
    (
        "the class of an Ingress, by its field and by the annotation",
        &[
            ("Ingress.networking.k8s.io/shop/a", r#"{"spec": {"ingressClassName": "nginx"}}"#),
            (
                "Ingress.networking.k8s.io/shop/b",
                r#"{"metadata": {"annotations": {"kubernetes.io/ingress.class": "old"}}}"#,
            ),
        ],
        &[
            "IngressClass.networking.k8s.io//nginx",
            "IngressClass.networking.k8s.io//old",
            "IngressClass.networking.k8s.io//none",
        ],
        &["nginx", "old"],
    ),
    (
        "a Secret that cert-manager makes for an Ingress",
        &[(
            "Ingress.networking.k8s.io/shop/web",
            r#"{"metadata": {"annotations": {"cert-manager.io/cluster-issuer": "acme"}},
                "spec": {"tls": [{"secretName": "tls"}]}}"#,
        )],
        &["Secret/shop/tls", "ClusterIssuer.cert-manager.io//acme", "Certificate.cert-manager.io/shop/tls"],
        &["acme"],
    ),
    (
        "the issuer of a Certificate, of its own namespace only",
        &[("Certificate.cert-manager.io/shop/web", r#"{"spec": {"secretName": "tls", "issuerRef": {"name": "own"}}}"#)],
        &["Issuer.cert-manager.io/shop/own", "Issuer.cert-manager.io/other/own", "Secret/shop/tls"],
        &["own"],
    ),
    (
        "the target of an autoscaler, and a workload of another kind and the same name",
        &[(
            "HorizontalPodAutoscaler.autoscaling/shop/web",
            r#"{"spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"}}}"#,
        )],
        &["StatefulSet.apps/shop/web", "Deployment.apps/shop/web"],
        &["web"],
    ),
    (
        "the target of a ScaledObject without a kind, and the credentials of its trigger",
        &[(
            "ScaledObject.keda.sh/shop/web",
            r#"{"spec": {"scaleTargetRef": {"name": "web"}, "triggers": [
                {"authenticationRef": {"kind": "ClusterTriggerAuthentication", "name": "queue"}}]}}"#,
        )],
        &["Deployment.apps/shop/web", "ClusterTriggerAuthentication.keda.sh//queue"],
        &["web", "queue"],
    ),
    (
        "Secrets of a cluster of CloudNativePG and of one that it follows",
        &[(
            "Cluster.postgresql.cnpg.io/shop/pg",
            r#"{"spec": {"superuserSecret": {"name": "super"}, "externalClusters": [{"barmanObjectStore":
                {"s3Credentials": {"accessKeyId": {"name": "s3", "key": "id"}}}}],
                "backup": {"volumeSnapshot": {"className": "snap"}}}}"#,
        )],
        &[
            "Secret/shop/super",
            "Secret/shop/s3",
            "VolumeSnapshotClass.snapshot.storage.k8s.io//snap",
            "Secret/shop/pg-app",
        ],
        &["s3", "super", "snap"],
    ),
    (
        "the classes of a Pod",
        &[(
            "Deployment.apps/shop/web",
            r#"{"spec": {"template": {"spec": {"priorityClassName": "high", "runtimeClassName": "gvisor"}}}}"#,
        )],
        &[
            "PriorityClass.scheduling.k8s.io//high",
            "RuntimeClass.node.k8s.io//gvisor",
            "PriorityClass.scheduling.k8s.io//low",
        ],
        &["gvisor", "high"],
    ),
    (
        "the class of a claim that waits for its volume, and that of a bound one",
        &[
            ("PersistentVolumeClaim/shop/new", r#"{"spec": {"storageClassName": "fast"}}"#),
            ("PersistentVolumeClaim/shop/old", r#"{"spec": {"storageClassName": "slow", "volumeName": "pv"}}"#),
        ],
        &["StorageClass.storage.k8s.io//fast", "StorageClass.storage.k8s.io//slow"],
        &["fast"],
    ),
    (
        "the role of a binding, and the account that it is for",
        &[(
            "RoleBinding.rbac.authorization.k8s.io/shop/web",
            r#"{"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
                "subjects": [{"kind": "ServiceAccount", "name": "web", "namespace": "shop"}]}"#,
        )],
        &["Role.rbac.authorization.k8s.io/shop/reader", "ServiceAccount/shop/web"],
        &["reader"],
    ),
    (
        "the account of Pods, and that of every namespace",
        &[
            ("Deployment.apps/shop/web", r#"{"spec": {"template": {"spec": {"serviceAccountName": "web"}}}}"#),
            ("Deployment.apps/shop/plain", r#"{"spec": {"template": {"spec": {"serviceAccountName": "default"}}}}"#),
        ],
        &["ServiceAccount/shop/web", "ServiceAccount/shop/default"],
        &["web"],
    ),
    (
        "Secrets for pulling, of Pods and of an account",
        &[
            ("ServiceAccount/shop/web", r#"{"imagePullSecrets": [{"name": "registry"}]}"#),
            (
                "Deployment.apps/shop/web",
                r#"{"spec": {"template": {"spec": {"imagePullSecrets": [{"name": "mirror"}]}}}}"#,
            ),
        ],
        &["Secret/shop/registry", "Secret/shop/mirror"],
        &["mirror", "registry"],
    ),
    (
        "a PodMonitor and a NetworkPolicy select Pods, and need none",
        &[
            ("PodMonitor.monitoring.coreos.com/shop/web", r#"{"spec": {"selector": {"matchLabels": {"app": "web"}}}}"#),
            (
                "NetworkPolicy.networking.k8s.io/shop/web",
                r#"{"spec": {"podSelector": {"matchLabels": {"app": "web"}}}}"#,
            ),
        ],
        &["Deployment.apps/shop/web", "Service/shop/web"],
        &[],
    ),
    (
        "the Secret of a ServiceMonitor",
        &[(
            "ServiceMonitor.monitoring.coreos.com/shop/web",
            r#"{"spec": {"endpoints": [{"basicAuth": {"password": {"name": "scrape", "key": "p"}}}]}}"#,
        )],
        &["Secret/shop/scrape"],
        &["scrape"],
    ),
    (
        "variables of a Kustomization, optional and not, and its key",
        &[(
            "Kustomization.kustomize.toolkit.fluxcd.io/flux-system/apps",
            r#"{"spec": {"sourceRef": {"kind": "GitRepository", "name": "fleet"},
                "decryption": {"secretRef": {"name": "age"}},
                "postBuild": {"substituteFrom": [{"kind": "ConfigMap", "name": "vars"},
                {"kind": "Secret", "name": "maybe", "optional": true}]}}}"#,
        )],
        &["ConfigMap/flux-system/vars", "Secret/flux-system/maybe", "Secret/flux-system/age"],
        &["vars", "age"],
    ),
    (
        "values and the source of a release",
        &[(
            "HelmRelease.helm.toolkit.fluxcd.io/shop/web",
            r#"{"spec": {"chart": {"spec": {"sourceRef":
                {"kind": "HelmRepository", "name": "charts", "namespace": "flux-system"}}},
                "valuesFrom": [{"kind": "Secret", "name": "values"}]}}"#,
        )],
        &[
            "HelmRepository.source.toolkit.fluxcd.io/flux-system/charts",
            "Secret/shop/values",
            "Secret/flux-system/values",
        ],
        &["values", "charts"],
    ),
    (
        "the Service of a webhook and of an APIService",
        &[
            (
                "MutatingWebhookConfiguration.admissionregistration.k8s.io//hook",
                r#"{"webhooks": [{"clientConfig": {"service": {"name": "hook", "namespace": "hooks"}}}]}"#,
            ),
            (
                "APIService.apiregistration.k8s.io//v1beta1.metrics.k8s.io",
                r#"{"spec": {"service": {"name": "metrics", "namespace": "kube-system"}}}"#,
            ),
        ],
        &["Service/hooks/hook", "Service/kube-system/metrics", "Service/shop/hook"],
        &["hook", "metrics"],
    ),
    (
        "a generated ConfigMap that the template no longer names",
        &[(
            "Deployment.apps/shop/web",
            r#"{"spec": {"template": {"spec": {"volumes": [{"configMap": {"name": "settings-b"}}]}}}}"#,
        )],
        &["ConfigMap/shop/settings-a"],
        &[],
    ),
];

fn id(text: &str) -> ObjectId {
    let [kind, namespace, name] = text.split('/').collect::<Vec<_>>()[..] else { panic!("{text}") };
    let (kind, group) = kind.split_once('.').unwrap_or((kind, ""));
    ObjectId::new(group, kind, namespace, name)
}

#[test]
fn what_stays_needs_what_it_names_and_nothing_else() {
    for (title, staying, gone, expected) in FLEETS {
        let referrer = |(object, manifest): &(&str, &str)| {
            Referrer::of(&id(object), &serde_json::from_str(manifest).expect("it is JSON"))
        };
        let built: Vec<Referrer> = staying.iter().filter_map(referrer).collect();
        let gone: Vec<ObjectId> = gone.iter().map(|object| id(object)).collect();
        let mut snapshot = Snapshot::new(chrono::DateTime::UNIX_EPOCH, ClusterIdentity::default());
        snapshot.objects =
            gone.iter().map(|id| crate::testing::object(&id.group, &id.kind, &id.namespace, &id.name)).collect();
        snapshot.normalise();
        let grant = r#"{"spec": {"from": [
            {"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "edge"}],
            "to": [{"group": "", "kind": "Service"}]}}"#;
        let grant = serde_json::from_str(grant).expect("it is JSON");
        let grants = gone.iter().filter(|id| &*id.kind == "ReferenceGrant");
        let live: Vec<Referrer> = grants.filter_map(|id| Referrer::of(id, &grant)).collect();
        let departures = Departures { gone: gone.iter().collect(), ..Departures::default() };
        let found = Staying::new(&snapshot, &departures, &built, live.iter()).still_referenced();
        let names: BTreeSet<&str> = found.iter().map(|found| &*found.object.name).collect();
        assert_eq!(names, expected.iter().copied().collect(), "{title}");
    }
}
