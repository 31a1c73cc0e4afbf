//! References of manifests, and deleted objects that are still needed.

mod fleets;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::kubernetes::object::{ObjectId, ObjectMetadata, OwnerReference, Resource};
use crate::kubernetes::references::{Departures, Staying};
use crate::kubernetes::referrer::Referrer;
use crate::kubernetes::snapshot::{ClusterIdentity, Snapshot};
use crate::testing::{self, Build};

fn id(kind: &str, name: &str) -> ObjectId {
    let group = match kind {
        "Deployment" | "StatefulSet" | "ReplicaSet" => "apps",
        "Job" | "CronJob" => "batch",
        "Ingress" | "IngressClass" => "networking.k8s.io",
        "HTTPRoute" => "gateway.networking.k8s.io",
        "Certificate" | "ClusterIssuer" => "cert-manager.io",
        "ExternalSecret" => "external-secrets.io",
        "SealedSecret" => "bitnami.com",
        "HelmRelease" => "helm.toolkit.fluxcd.io",
        "Kustomization" => "kustomize.toolkit.fluxcd.io",
        "HorizontalPodAutoscaler" => "autoscaling",
        "RoleBinding" => "rbac.authorization.k8s.io",
        "ValidatingWebhookConfiguration" => "admissionregistration.k8s.io",
        "APIService" => "apiregistration.k8s.io",
        _ => "",
    };
    let namespace =
        if matches!(kind, "ValidatingWebhookConfiguration" | "APIService" | "IngressClass") { "" } else { "shop" };
    ObjectId::new(group, kind, namespace, name)
}

/// Returns the references of a manifest as `KIND/NAME -n NAMESPACE, which …`.
fn read(kind: &str, spec: Value) -> Vec<String> {
    let referrer = Referrer::of(&id(kind, "web"), &spec).unwrap();
    referrer.references.iter().map(|reference| format!("{} {}", reference.to, reference.usage)).collect()
}

fn pod() -> Value {
    json!({
        "serviceAccountName": "web",
        "imagePullSecrets": [{"name": "registry"}],
        "volumes": [
            {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "b", "configMap": {"name": "files"}},
            {"name": "c", "configMap": {"name": "maybe", "optional": true}},
            {"name": "d", "secret": {"secretName": "tls"}},
            {"name": "e", "projected": {"sources": [
                {"configMap": {"name": "kube-root-ca.crt"}}, {"secret": {"name": "token"}}, {"serviceAccountToken": {}}]}},
        ],
        "initContainers": [{"envFrom": [{"configMapRef": {"name": "init"}}]}],
        "containers": [{
            "env": [{"valueFrom": {"secretKeyRef": {"name": "keys", "key": "k"}}}, {"name": "A", "value": "secret"}],
            "envFrom": [{"secretRef": {"name": "maybe", "optional": true}}],
        }],
    })
}

#[test]
fn pod_templates_of_all_workloads_are_read() {
    let expected = [
        "configmap/files -n shop mounts it",
        "configmap/init -n shop reads it",
        "persistentvolumeclaim/data -n shop mounts it",
        "secret/keys -n shop reads it",
        "secret/registry -n shop pulls images with it",
        "secret/tls -n shop mounts it",
        "secret/token -n shop mounts it",
        "serviceaccount/web -n shop runs as it",
    ];
    assert_eq!(read("Pod", json!({"spec": pod()})), expected);
    assert_eq!(read("Deployment", json!({"spec": {"template": {"spec": pod()}}})), expected);
    assert_eq!(read("CronJob", json!({"spec": {"jobTemplate": {"spec": {"template": {"spec": pod()}}}}})), expected);
    assert_eq!(read("Pod", json!({"spec": {"serviceAccountName": "default"}})), [""; 0]);
}

#[test]
fn a_template_with_300_volumes_is_read_whole() {
    let volume = |n: usize| json!({"persistentVolumeClaim": {"claimName": format!("data-{n}")}});
    let volumes: Vec<Value> = (0..300).map(volume).collect();
    assert_eq!(read("Deployment", json!({"spec": {"template": {"spec": {"volumes": volumes}}}})).len(), 300);
}

#[test]
fn claims_of_templates_are_named_by_ordinal() {
    let claims = json!([{"metadata": {"name": "data"}}]);
    let spec = json!({"replicas": 2, "ordinals": {"start": 3}, "serviceName": "peers", "volumeClaimTemplates": claims});
    let expected = [
        "persistentvolumeclaim/data-web-3 -n shop mounts it",
        "persistentvolumeclaim/data-web-4 -n shop mounts it",
        "service/peers -n shop uses it",
    ];
    assert_eq!(read("StatefulSet", json!({"spec": spec})), expected);
}

#[test]
fn other_kinds_are_read_by_their_fields() {
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    let ingress = json!({"ingressClassName": "nginx", "defaultBackend": backend, "tls": [{"secretName": "tls"}],
        "rules": [{"http": {"paths": [{"backend": {"service": {"name": "api"}}}]}}]});
    let expected = [
        "secret/tls -n shop reads it",
        "service/api -n shop sends traffic to it",
        "service/web -n shop sends traffic to it",
        "ingressclass.networking.k8s.io/nginx uses it",
    ];
    assert_eq!(BTreeSet::from_iter(read("Ingress", json!({"spec": ingress}))), expected.map(str::to_owned).into());
    let route = json!({"rules": [{"backendRefs": [{"name": "web", "namespace": "other"}]}]});
    assert_eq!(read("HTTPRoute", json!({"spec": route})), ["service/web -n other sends traffic to it"]);
    let binding = json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": "web", "namespace": "shop"}]});
    assert_eq!(read("RoleBinding", binding), ["clusterrole.rbac.authorization.k8s.io/view grants its rights"]);
    let scaler = json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}});
    assert_eq!(read("HorizontalPodAutoscaler", json!({"spec": scaler})), ["deployment.apps/web -n shop scales it"]);
    let service = json!({"name": "hook", "namespace": "hooks"});
    let hooks = json!({"webhooks": [{"clientConfig": {"service": service.clone()}}]});
    assert_eq!(read("ValidatingWebhookConfiguration", hooks), ["service/hook -n hooks calls it"]);
    assert_eq!(read("APIService", json!({"spec": {"service": service}})), ["service/hook -n hooks calls it"]);
    let release = json!({"chartRef": {"kind": "OCIRepository", "name": "chart"},
        "valuesFrom": [{"kind": "Secret", "name": "values"}, {"kind": "ConfigMap", "name": "maybe", "optional": true}]});
    let expected = ["secret/values -n shop reads it", "ocirepository.source.toolkit.fluxcd.io/chart -n shop uses it"];
    assert_eq!(read("HelmRelease", json!({"spec": release})), expected);
    let issuer = json!({"secretName": "tls", "issuerRef": {"kind": "ClusterIssuer", "name": "acme"}});
    assert_eq!(read("Certificate", json!({"spec": issuer})), ["clusterissuer.cert-manager.io/acme uses it"]);
    assert_eq!(Referrer::of(&ObjectId::new("shop.example.com", "Order", "shop", "a"), &json!({})), None);
}

/// Returns the references of an object `web` of the kind `KIND.GROUP`, in the namespace `shop`.
fn named_by(kind: &str, manifest: &str) -> Vec<String> {
    let (kind, group) = kind.split_once('.').unwrap_or((kind, ""));
    let id = ObjectId::new(group, kind, "shop", "web");
    let referrer = Referrer::of(&id, &serde_json::from_str(manifest).unwrap()).unwrap();
    let name = |to: &ObjectId| to.to_string().replace(" -n shop", "");
    referrer.references.iter().map(|reference| name(&reference.to)).collect()
}

/// Kinds with a manifest, and the objects that it names. What is in `shop` has no namespace here.
const NAMED: [(&str, &str, &[&str]); 77] = [
    (
        "Pod",
        r#"{"spec": {"volumes": [{"projected": {"sources": [{"clusterTrustBundle": {"name": "ca", "path": "p"}},
        {"clusterTrustBundle": {"name": "maybe", "optional": true, "path": "q"}}]}}]}}"#,
        &["clustertrustbundle.certificates.k8s.io/ca"],
    ),
    (
        "Pod",
        r#"{"spec": {"volumes": [{"csi": {"driver": "secrets-store.csi.k8s.io", "volumeAttributes":
        {"secretProviderClass": "vault"}}}]}}"#,
        &["secretproviderclass.secrets-store.csi.x-k8s.io/vault"],
    ),
    (
        "Kustomization.kustomize.toolkit.fluxcd.io",
        r#"{"spec": {"decryption": {"provider": "sops", "serviceAccountName": "keys"}}}"#,
        &["serviceaccount/keys"],
    ),
    (
        "OCIRepository.source.toolkit.fluxcd.io",
        r#"{"spec": {"verify": {"provider": "cosign", "trustedRootSecretRef": {"name": "root"}}}}"#,
        &["secret/root"],
    ),
    (
        "Receiver.notification.toolkit.fluxcd.io",
        r#"{"spec": {"secretRef": {"name": "token"}, "resources": [{"kind": "GitRepository", "name": "app"},
            {"kind": "Kustomization", "name": "web", "namespace": "far"},
            {"apiVersion": "image.toolkit.fluxcd.io/v1", "kind": "ImageRepository", "name": "i"}]}}"#,
        &[
            "secret/token",
            "gitrepository.source.toolkit.fluxcd.io/app",
            "imagerepository.image.toolkit.fluxcd.io/i",
            "kustomization.kustomize.toolkit.fluxcd.io/web -n far",
        ],
    ),
    (
        "IngressRoute.traefik.io",
        r#"{"spec": {"routes": [{"services": [{"kind": "TraefikService", "name": "both"}]}],
            "tls": {"options": {"name": "strict"}}}}"#,
        &["traefikservice.traefik.io/both", "tlsoption.traefik.io/strict"],
    ),
    (
        "TraefikService.traefik.io",
        r#"{"spec": {"weighted": {"services": [{"name": "a"}]}, "mirroring": {"name": "b", "mirrors": [{"name": "c"}]}}}"#,
        &["service/a", "service/b", "service/c"],
    ),
    (
        "ExternalSecret.external-secrets.io",
        r#"{"spec": {"target": {"template": {"templateFrom": [{"configMap": {"name": "text", "items": []}}]}}}}"#,
        &["configmap/text"],
    ),
    (
        "Ingress.networking.k8s.io",
        r#"{"metadata": {"annotations": {"cert-manager.io/cluster-issuer": "acme", "other": "x"}}, "spec": {}}"#,
        &["clusterissuer.cert-manager.io/acme"],
    ),
    (
        "Issuer.cert-manager.io",
        r#"{"spec": {"vault": {"auth": {"kubernetes": {"serviceAccountRef": {"name": "vault"}}}}}}"#,
        &["serviceaccount/vault"],
    ),
    (
        "Cluster.postgresql.cnpg.io",
        r#"{"spec": {"plugins": [{"name": "barman-cloud.cloudnative-pg.io", "parameters": {"barmanObjectName": "store"}}]}}"#,
        &["objectstore.barmancloud.cnpg.io/store"],
    ),
    (
        "HTTPRoute.gateway.networking.k8s.io",
        r#"{"spec": {"parentRefs": [{"group": "", "kind": "Service", "name": "mesh"}], "rules": [{"filters": [{"extensionRef":
            {"group": "a.b", "kind": "Auth", "name": "x"}}]}]}}"#,
        &["service/mesh", "auth.a.b/x"],
    ),
    (
        "HorizontalPodAutoscaler.autoscaling",
        r#"{"spec": {"metrics": [{"object": {"describedObject": {"apiVersion": "v1", "kind": "Service", "name": "s"}}}]}}"#,
        &["service/s"],
    ),
    (
        "ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io",
        r#"{"spec": {"policyName": "p", "paramRef": {"name": "a", "parameterNotFoundAction": "Allow"}}}"#,
        &["validatingadmissionpolicy.admissionregistration.k8s.io/p"],
    ),
    ("ServiceAccount", r#"{"imagePullSecrets": [{"name": "r"}], "secrets": [{"name": "own"}]}"#, &["secret/r"]),
    ("Pod", r#"{"spec": {"serviceAccount": "old"}}"#, &["serviceaccount/old"]),
    ("Pod", r#"{"spec": {"volumes": [{"azureFile": {"secretName": "a"}}]}}"#, &["secret/a"]),
    ("Pod", r#"{"spec": {"volumes": [{"secret": {"secretName": "a", "optional": true}}]}}"#, &[]),
    (
        "PersistentVolume",
        r#"{"spec": {"csi": {"nodeStageSecretRef": {"name": "n", "namespace": "csi"}}}}"#,
        &["secret/n -n csi"],
    ),
    ("PersistentVolumeClaim", r#"{"spec": {"storageClassName": "fast"}}"#, &["storageclass.storage.k8s.io/fast"]),
    (
        "Ingress.networking.k8s.io",
        r#"{"spec": {"defaultBackend": {"resource": {"apiGroup": "k8s.example.com", "kind": "Bucket", "name": "b"}}}}"#,
        &["bucket.k8s.example.com/b"],
    ),
    (
        "HTTPRoute.gateway.networking.k8s.io",
        r#"{"spec": {"parentRefs": [{"name": "gw", "namespace": "edge"}], "rules": [{"filters":
            [{"requestMirror": {"backendRef": {"name": "mirror"}}}], "backendRefs": [{"name": "web"}]}]}}"#,
        &["service/mirror", "service/web", "gateway.gateway.networking.k8s.io/gw -n edge"],
    ),
    (
        "Gateway.gateway.networking.k8s.io",
        r#"{"spec": {"gatewayClassName": "c", "listeners": [{"tls": {"certificateRefs": [{"name": "tls"}]}}]}}"#,
        &["secret/tls", "gatewayclass.gateway.networking.k8s.io/c"],
    ),
    (
        "ClusterRoleBinding.rbac.authorization.k8s.io",
        r#"{"roleRef": {"name": "view"}}"#,
        &["clusterrole.rbac.authorization.k8s.io/view"],
    ),
    (
        "ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io",
        r#"{"spec": {"policyName": "p"}}"#,
        &["validatingadmissionpolicy.admissionregistration.k8s.io/p"],
    ),
    (
        "CustomResourceDefinition.apiextensions.k8s.io",
        r#"{"spec": {"conversion": {"webhook": {"clientConfig": {"service": {"name": "hook", "namespace": "h"}}}}}}"#,
        &["service/hook -n h"],
    ),
    (
        "Kustomization.kustomize.toolkit.fluxcd.io",
        r#"{"spec": {"sourceRef": {"kind": "OCIRepository", "name": "src"}, "dependsOn": [{"name": "base"}, {"name": "far",
            "namespace": "infra"}], "postBuild": {"substituteFrom": [{"kind": "Secret", "name": "vars"}, {"kind": "ConfigMap",
            "name": "maybe", "optional": true}]}, "decryption": {"secretRef": {"name": "age"}},
            "kubeConfig": {"secretRef": {"name": "edge"}}, "healthChecks": [{"apiVersion": "apps/v1", "kind": "Deployment",
            "name": "remote"}]}}"#,
        &[
            "secret/age",
            "secret/edge",
            "secret/vars",
            "kustomization.kustomize.toolkit.fluxcd.io/base",
            "kustomization.kustomize.toolkit.fluxcd.io/far -n infra",
            "ocirepository.source.toolkit.fluxcd.io/src",
        ],
    ),
    (
        "Kustomization.kustomize.toolkit.fluxcd.io",
        r#"{"spec": {"healthChecks": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "a"},
            {"kind": "Thing", "name": "t"}, {"apiVersion": "v1", "kind": "Service", "name": "s"}]}}"#,
        &["service/s", "thing.apps/t", "deployment.apps/web -n a"],
    ),
    (
        "Kustomization.kustomize.toolkit.fluxcd.io",
        r#"{"spec": {"wait": true, "healthChecks": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}]}}"#,
        &[],
    ),
    (
        "HelmRelease.helm.toolkit.fluxcd.io",
        r#"{"spec": {"chart": {"spec": {"sourceRef": {"kind": "HelmRepository", "name": "charts", "namespace": "flux"},
            "verify": {"secretRef": {"name": "cosign"}}}}, "dependsOn": [{"name": "db"}], "serviceAccountName": "team"}}"#,
        &[
            "secret/cosign",
            "serviceaccount/team",
            "helmrelease.helm.toolkit.fluxcd.io/db",
            "helmrepository.source.toolkit.fluxcd.io/charts -n flux",
        ],
    ),
    (
        "GitRepository.source.toolkit.fluxcd.io",
        r#"{"spec": {"secretRef": {"name": "key"}, "include": [{"repository": {"name": "shared"}}]}}"#,
        &["secret/key", "gitrepository.source.toolkit.fluxcd.io/shared"],
    ),
    ("Provider.notification.toolkit.fluxcd.io", r#"{"spec": {"secretRef": {"name": "hook"}}}"#, &["secret/hook"]),
    (
        "ArtifactGenerator.source.extensions.fluxcd.io",
        r#"{"spec": {"sources": [{"alias": "a", "kind": "Bucket", "name": "b"}]}}"#,
        &["bucket.source.toolkit.fluxcd.io/b"],
    ),
    (
        "ResourceSet.fluxcd.controlplane.io",
        r#"{"spec": {"inputsFrom": [{"kind": "ResourceSetInputProvider", "name": "in"}, {"selector": {}}],
            "dependsOn": [{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "name": "x.y"}],
            "serviceAccountName": "team"}}"#,
        &[
            "serviceaccount/team",
            "customresourcedefinition.apiextensions.k8s.io/x.y",
            "resourcesetinputprovider.fluxcd.controlplane.io/in",
        ],
    ),
    ("ResourceSetInputProvider.fluxcd.controlplane.io", r#"{"spec": {"secretRef": {"name": "t"}}}"#, &["secret/t"]),
    ("FluxInstance.fluxcd.controlplane.io", r#"{"spec": {"sync": {"pullSecret": "git"}}}"#, &["secret/git"]),
    (
        "Certificate.cert-manager.io",
        r#"{"spec": {"secretName": "tls", "issuerRef": {"name": "ca"}}}"#,
        &["issuer.cert-manager.io/ca"],
    ),
    ("Issuer.cert-manager.io", r#"{"spec": {"ca": {"secretName": "root"}}}"#, &["secret/root"]),
    ("ClusterIssuer.cert-manager.io", r#"{"spec": {"ca": {"secretName": "root"}}}"#, &["secret/root -n cert-manager"]),
    (
        "ClusterIssuer.cert-manager.io",
        r#"{"spec": {"acme": {"privateKeySecretRef": {"name": "own"}, "solvers": [{"dns01": {"cloudflare":
            {"apiTokenSecretRef": {"name": "dns", "key": "token"}}}}]}}}"#,
        &["secret/dns -n cert-manager"],
    ),
    (
        "Cluster.postgresql.cnpg.io",
        r#"{"spec": {"superuserSecret": {"name": "su"}, "storage": {"storageClass": "fast"},
            "imageCatalogRef": {"apiGroup": "postgresql.cnpg.io", "kind": "ClusterImageCatalog", "name": "pg", "major": 17},
            "backup": {"barmanObjectStore": {"s3Credentials": {"accessKeyId": {"name": "s3", "key": "id"}}}}}}"#,
        &["secret/s3", "secret/su", "clusterimagecatalog.postgresql.cnpg.io/pg", "storageclass.storage.k8s.io/fast"],
    ),
    ("Database.postgresql.cnpg.io", r#"{"spec": {"cluster": {"name": "db"}}}"#, &["cluster.postgresql.cnpg.io/db"]),
    (
        "ExternalSecret.external-secrets.io",
        r#"{"spec": {"secretStoreRef": {"kind": "ClusterSecretStore", "name": "vault"}, "data": [{"sourceRef":
            {"storeRef": {"name": "own"}}}]}}"#,
        &["clustersecretstore.external-secrets.io/vault", "secretstore.external-secrets.io/own"],
    ),
    (
        "PushSecret.external-secrets.io",
        r#"{"spec": {"selector": {"secret": {"name": "s"}}, "secretStoreRefs": [{"name": "vault"}]}}"#,
        &["secret/s", "secretstore.external-secrets.io/vault"],
    ),
    (
        "ScaledObject.keda.sh",
        r#"{"spec": {"scaleTargetRef": {"name": "web"}, "triggers": [{"authenticationRef": {"name": "queue"}}]}}"#,
        &["deployment.apps/web", "triggerauthentication.keda.sh/queue"],
    ),
    (
        "IngressRoute.traefik.io",
        r#"{"spec": {"routes": [{"services": [{"name": "web", "port": 80}], "middlewares": [{"name": "auth",
            "namespace": "edge"}]}]}}"#,
        &["service/web", "middleware.traefik.io/auth -n edge"],
    ),
    ("Rollout.argoproj.io", r#"{"spec": {"strategy": {"blueGreen": {"activeService": "live"}}}}"#, &["service/live"]),
    ("IngressClass.networking.k8s.io", r#"{"spec": {"controller": "x"}}"#, &[]),
    (
        "Ingress.networking.k8s.io",
        r#"{"metadata": {"annotations": {"kubernetes.io/ingress.class": "old"}}, "spec": {}}"#,
        &["ingressclass.networking.k8s.io/old"],
    ),
    (
        "PersistentVolumeClaim",
        r#"{"spec": {"dataSource": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"},
            "dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "c"}}}"#,
        &["persistentvolumeclaim/c", "volumesnapshot.snapshot.storage.k8s.io/s"],
    ),
    (
        "PersistentVolumeClaim",
        r#"{"spec": {"volumeName": "pv", "dataSource": {"kind": "PersistentVolumeClaim", "name": "c"}}}"#,
        &[],
    ),
    (
        "Pod",
        r#"{"spec": {"volumes": [{"ephemeral": {"volumeClaimTemplate": {"spec": {"dataSource":
            {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}}}}}]}}"#,
        &["volumesnapshot.snapshot.storage.k8s.io/s"],
    ),
    (
        "StorageClass.storage.k8s.io",
        r#"{"parameters": {"csi.storage.k8s.io/provisioner-secret-name": "p", "type": "ssd",
            "csi.storage.k8s.io/provisioner-secret-namespace": "csi",
            "csi.storage.k8s.io/node-stage-secret-name": "${pvc.name}",
            "csi.storage.k8s.io/node-stage-secret-namespace": "csi"}}"#,
        &["secret/p -n csi"],
    ),
    (
        "VolumeSnapshotClass.snapshot.storage.k8s.io",
        r#"{"parameters": {"csi.storage.k8s.io/snapshotter-secret-name": "p",
            "csi.storage.k8s.io/snapshotter-secret-namespace": "csi"}}"#,
        &["secret/p -n csi"],
    ),
    (
        "ResourceClaimTemplate.resource.k8s.io",
        r#"{"spec": {"spec": {"devices": {"requests": [{"exactly": {"deviceClassName": "gpu"}},
            {"firstAvailable": [{"deviceClassName": "big"}]}, {"deviceClassName": "beta"}]}}}}"#,
        &["deviceclass.resource.k8s.io/beta", "deviceclass.resource.k8s.io/big", "deviceclass.resource.k8s.io/gpu"],
    ),
    (
        "ResourceClaim.resource.k8s.io",
        r#"{"spec": {"devices": {"requests": [{"exactly": {"deviceClassName": "gpu"}}]}}}"#,
        &["deviceclass.resource.k8s.io/gpu"],
    ),
    (
        "FlowSchema.flowcontrol.apiserver.k8s.io",
        r#"{"spec": {"priorityLevelConfiguration": {"name": "slow"}}}"#,
        &["prioritylevelconfiguration.flowcontrol.apiserver.k8s.io/slow"],
    ),
    (
        "ListenerSet.gateway.networking.k8s.io",
        r#"{"spec": {"parentRef": {"name": "gw", "namespace": "edge"}, "listeners": [{"tls": {"certificateRefs":
            [{"name": "tls"}]}}]}}"#,
        &["secret/tls", "gateway.gateway.networking.k8s.io/gw -n edge"],
    ),
    (
        "HTTPRoute.gateway.networking.k8s.io",
        r#"{"spec": {"parentRefs": [{"kind": "ListenerSet", "name": "more"}], "rules": [{"filters": [{"externalAuth":
            {"backendRef": {"name": "auth", "port": 80}}}]}]}}"#,
        &["service/auth", "listenerset.gateway.networking.k8s.io/more"],
    ),
    (
        "InferencePool.inference.networking.k8s.io",
        r#"{"spec": {"endpointPickerRef": {"name": "picker"}}}"#,
        &["service/picker"],
    ),
    (
        "Middleware.traefik.io",
        r#"{"spec": {"basicAuth": {"secret": "users"}, "chain": {"middlewares": [{"name": "m"}]}}}"#,
        &["secret/users", "middleware.traefik.io/m"],
    ),
    (
        "IngressRouteTCP.traefik.io",
        r#"{"spec": {"routes": [{"services": [{"name": "db", "port": 5432}]}]}}"#,
        &["service/db"],
    ),
    ("TLSStore.traefik.io", r#"{"spec": {"defaultCertificate": {"secretName": "tls"}}}"#, &["secret/tls"]),
    ("L2Advertisement.metallb.io", r#"{"spec": {"ipAddressPools": ["lan"]}}"#, &["ipaddresspool.metallb.io/lan"]),
    (
        "SecretStore.external-secrets.io",
        r#"{"spec": {"provider": {"vault": {"auth": {"appRole": {"path": "a", "secretRef": {"name": "role", "key": "id"}}},
            "caProvider": {"type": "Secret", "name": "ca", "key": "crt"}}}}}"#,
        &["secret/ca", "secret/role"],
    ),
    (
        "ClusterSecretStore.external-secrets.io",
        r#"{"spec": {"provider": {"kubernetes": {"server": {"caProvider": {"type": "ConfigMap", "name": "ca",
            "namespace": "es"}}, "auth": {"serviceAccount": {"name": "reader", "namespace": "es"}}}}}}"#,
        &["configmap/ca -n es", "serviceaccount/reader -n es"],
    ),
    (
        "ClusterExternalSecret.external-secrets.io",
        r#"{"spec": {"externalSecretSpec": {"secretStoreRef": {"kind": "ClusterSecretStore", "name": "vault"}}}}"#,
        &["clustersecretstore.external-secrets.io/vault"],
    ),
    (
        "Bundle.trust.cert-manager.io",
        r#"{"spec": {"sources": [{"useDefaultCAs": true}, {"secret": {"name": "root", "key": "ca.crt"}}]}}"#,
        &["secret/root -n cert-manager"],
    ),
    (
        "ScaledJob.keda.sh",
        r#"{"spec": {"triggers": [{"authenticationRef": {"kind": "ClusterTriggerAuthentication", "name": "q"}}],
            "jobTargetRef": {"template": {"spec": {"volumes": [{"secret": {"secretName": "s"}}]}}}}}"#,
        &["secret/s", "clustertriggerauthentication.keda.sh/q"],
    ),
    (
        "TriggerAuthentication.keda.sh",
        r#"{"spec": {"secretTargetRef": [{"parameter": "p", "name": "s", "key": "k"}]}}"#,
        &["secret/s"],
    ),
    (
        "ObjectStore.barmancloud.cnpg.io",
        r#"{"spec": {"configuration": {"s3Credentials": {"accessKeyId": {"name": "s3", "key": "id"}}}}}"#,
        &["secret/s3"],
    ),
    (
        "Prometheus.monitoring.coreos.com",
        r#"{"spec": {"serviceAccountName": "p", "additionalScrapeConfigs": {"name": "jobs", "key": "k"}, "secrets": ["tls"],
            "alerting": {"alertmanagers": [{"name": "am", "namespace": "far", "port": "web", "apiVersion": "v2"}]},
            "remoteWrite": [{"basicAuth": {"password": {"name": "maybe", "key": "p", "optional": true}}}]}}"#,
        &["secret/jobs", "secret/tls", "serviceaccount/p", "service/am -n far"],
    ),
    (
        "Alertmanager.monitoring.coreos.com",
        r#"{"spec": {"configSecret": "routes", "alertmanagerConfiguration": {"name": "c"}}}"#,
        &["secret/routes", "alertmanagerconfig.monitoring.coreos.com/c"],
    ),
    (
        "ServiceMonitor.monitoring.coreos.com",
        r#"{"spec": {"endpoints": [{"bearerTokenSecret": {"key": ""}, "tlsConfig": {"ca": {"configMap": {"name": "ca"}}}}]}}"#,
        &["configmap/ca"],
    ),
    (
        "Provider.pkg.crossplane.io",
        r#"{"spec": {"runtimeConfigRef": {"apiVersion": "pkg.crossplane.io/v1beta1", "kind": "DeploymentRuntimeConfig",
            "name": "r"}, "packagePullSecrets": [{"name": "pull"}]}}"#,
        &["deploymentruntimeconfig.pkg.crossplane.io/r", "secret/pull -n crossplane-system"],
    ),
    (
        "Composition.apiextensions.crossplane.io",
        r#"{"spec": {"pipeline": [{"functionRef": {"name": "patch"}}]}}"#,
        &["function.pkg.crossplane.io/patch"],
    ),
    (
        "ProviderConfig.aws.upbound.io",
        r#"{"spec": {"credentials": {"source": "Secret", "secretRef": {"namespace": "x", "name": "aws", "key": "k"}}}}"#,
        &["secret/aws -n x"],
    ),
];

#[test]
fn each_kind_is_read_by_its_fields() {
    for (kind, manifest, expected) in NAMED {
        assert_eq!(
            BTreeSet::from_iter(named_by(kind, manifest)),
            expected.iter().map(ToString::to_string).collect(),
            "{kind}"
        );
    }
}

/// A cluster with the Deployment `web`, its Pod `web-1` on a node, and what it mounts and reads.
struct Scene {
    snapshot: Snapshot,
    live: Vec<Referrer>,
}

fn controlled(object: ObjectMetadata, by: &ObjectMetadata) -> ObjectMetadata {
    let reference = OwnerReference {
        group: by.id.group.clone(),
        kind: by.id.kind.clone(),
        name: by.id.name.clone(),
        uid: by.uid.clone(),
        controller: true,
        block_owner_deletion: true,
    };
    ObjectMetadata { owner_references: vec![reference], ..object }
}

fn object(kind: &str, name: &str) -> ObjectMetadata {
    let own = id(kind, name);
    ObjectMetadata { uid: format!("{kind}-{name}").into(), ..testing::object(&own.group, kind, &own.namespace, name) }
}

fn deployment(volumes: Value) -> Value {
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"volumes": volumes}});
    json!({"spec": {"template": template}})
}

fn mounts() -> Value {
    json!([{"persistentVolumeClaim": {"claimName": "data"}}, {"configMap": {"name": "files"}}])
}

fn scene(node: &str) -> Scene {
    let web = object("Deployment", "web");
    let set = controlled(object("ReplicaSet", "web-abc"), &web);
    let mut pod = controlled(object("Pod", "web-1"), &set);
    pod.labels = [("app", "web")].into_iter().collect();
    let mut claim = object("PersistentVolumeClaim", "data");
    claim.finalizers = ["kubernetes.io/pvc-protection".into()].into();
    let content = json!({"spec": {"nodeName": node, "volumes": mounts()}});
    let live = [
        Resource { object: web.clone(), content: deployment(mounts()) },
        Resource { object: pod.clone(), content },
        Resource { object: object("Service", "web"), content: json!({"spec": {"selector": {"app": "web"}}}) },
    ];
    let mut snapshot = Snapshot::new(chrono::DateTime::UNIX_EPOCH, ClusterIdentity::default());
    snapshot.objects = vec![web, set, pod, claim, object("ConfigMap", "files"), object("Service", "web")];
    snapshot.normalise();
    Scene { snapshot, live: live.iter().filter_map(Referrer::of_live).collect() }
}

impl Scene {
    /// Returns what is said of the deleted objects, of which the last `recreated` come back.
    fn said(&self, built: &[Referrer], gone: &[ObjectId], recreated: &[ObjectId]) -> Vec<String> {
        let departures = Departures { gone: gone.iter().collect(), recreated: recreated.iter().collect() };
        let staying = Staying::new(&self.snapshot, &departures, built, self.live.iter());
        staying.still_referenced().iter().map(ToString::to_string).collect()
    }
}

fn built(manifest: Value) -> Vec<Referrer> {
    Referrer::of(&id("Deployment", "web"), &manifest).into_iter().collect()
}

#[test]
fn what_stays_counts_as_the_build_has_it() {
    let scene = scene("node");
    let gone = [id("ConfigMap", "files"), id("PersistentVolumeClaim", "data")];
    let kept = "persistentvolumeclaim/data -n shop, which is kept terminating while Pod web-1 mounts it";
    let read = "configmap/files -n shop, which is still needed: deployment.apps/web -n shop mounts it";
    assert_eq!(scene.said(&built(deployment(mounts())), &gone, &[]), [read, kept]);
    assert_eq!(scene.said(&[], &gone, &[]), [read, kept], "no build has the Deployment");
    assert_eq!(scene.said(&built(deployment(json!([]))), &gone, &[]), [""; 0], "the template drops both");
    let all = [&gone[..], &[id("Deployment", "web"), id("ReplicaSet", "web-abc"), id("Pod", "web-1")]].concat();
    assert_eq!(scene.said(&[], &all[..4], &[]), [""; 0], "the Deployment goes, too");
}

/// Returns what an object of the group `GROUP/KIND/NAMESPACE/NAME` refers to.
fn referrer(id: &str, spec: Value) -> Referrer {
    let [group, kind, namespace, name] = id.split('/').collect::<Vec<_>>()[..] else { panic!("{id}") };
    Referrer::of(&ObjectId::new(group, kind, namespace, name), &json!({ "spec": spec })).unwrap()
}

#[test]
fn parameters_of_a_policy_have_the_kind_that_the_policy_says() {
    let admission = "admissionregistration.k8s.io";
    let scene = scene("node");
    let policy = |kind: &str| {
        let spec = json!({"paramKind": {"apiVersion": "v1", "kind": kind}});
        referrer(&format!("{admission}/ValidatingAdmissionPolicy//p"), spec)
    };
    let binding = |action: &str| {
        let params = json!({"name": "files", "namespace": "shop", "parameterNotFoundAction": action});
        let spec = json!({"policyName": "p", "paramRef": params});
        referrer(&format!("{admission}/ValidatingAdmissionPolicyBinding//b"), spec)
    };
    let gone = [id("ConfigMap", "files")];
    let said = |built: &[Referrer]| {
        let built: Vec<Referrer> = built.iter().cloned().chain(self::built(deployment(json!([])))).collect();
        scene.said(&built, &gone, &[])
    };
    let needed = "configmap/files -n shop, which is still needed: \
                  validatingadmissionpolicybinding.admissionregistration.k8s.io/b uses it";
    assert_eq!(said(&[policy("ConfigMap"), binding("Deny")]), [needed]);
    assert_eq!(said(&[policy("Secret"), binding("Deny")]), [""; 0]);
    assert_eq!(said(&[policy("ConfigMap"), binding("Allow")]), [""; 0]);
    assert_eq!(said(&[binding("Deny")]), [""; 0], "nothing is known of the policy");
}

#[test]
fn a_grant_is_needed_by_what_refers_to_another_namespace() {
    let gateway = "gateway.networking.k8s.io";
    let mut scene = scene("node");
    let grant = |name: &str, to: &str| {
        let spec = json!({"from": [{"group": gateway, "kind": "HTTPRoute", "namespace": "edge"}],
            "to": [{"group": "", "kind": to}]});
        referrer(&format!("{gateway}/ReferenceGrant/shop/{name}"), spec)
    };
    let route = |namespace: &str| {
        let spec = json!({"rules": [{"backendRefs": [{"name": "web", "namespace": "shop"}]}]});
        referrer(&format!("{gateway}/HTTPRoute/{namespace}/r"), spec)
    };
    let gone = [ObjectId::new(gateway, "ReferenceGrant", "shop", "g")];
    let mut said = |live: Referrer, built: &[Referrer]| {
        scene.live = vec![live];
        scene.said(built, &gone, &[])
    };
    let needed = "referencegrant.gateway.networking.k8s.io/g -n shop, which is still needed: \
                  httproute.gateway.networking.k8s.io/r -n edge uses it";
    assert_eq!(said(grant("g", "Service"), &[route("edge")]), [needed]);
    assert_eq!(said(grant("g", "Secret"), &[route("edge")]), [""; 0], "it allows something else");
    assert_eq!(said(grant("g", "Service"), &[route("shop")]), [""; 0], "no other namespace");
    assert_eq!(said(grant("g", "Service"), &[route("edge"), grant("h", "Service")]), [""; 0], "another grant stays");
    assert_eq!(said(grant("g", "Service"), &[route("far")]), [""; 0], "it has no grant");
}

#[test]
fn only_a_pod_on_a_node_keeps_a_claim() {
    let gone = [id("PersistentVolumeClaim", "data")];
    let needed = "persistentvolumeclaim/data -n shop, which is still needed: deployment.apps/web -n shop mounts it";
    assert_eq!(scene("").said(&[], &gone, &[]), [needed]);
    let kept = "persistentvolumeclaim/data -n shop, which is kept terminating while Pod web-1 mounts it";
    assert_eq!(scene("node").said(&[], &[], &gone), [kept], "a claim that is created again");
    assert_eq!(scene("").said(&[], &[], &gone), [""; 0]);
    let mut unprotected = scene("node");
    unprotected.snapshot.objects.iter_mut().for_each(|object| object.finalizers.clear());
    assert_eq!(unprotected.said(&[], &gone, &[]), [needed]);
}

/// Returns what is said of the claim `data` when the build no longer mounts it, and a Pod on a node does.
fn said_of_dropped_claim(kind: &str, group: &str, manifest: Value) -> Vec<String> {
    let controller = ObjectMetadata { uid: "c".into(), ..testing::object(group, kind, "shop", "web") };
    let mut scene = scene("node");
    let pod = Resource {
        object: controlled(object("Pod", "by-it"), &controller),
        content: json!({"spec": {"nodeName": "node", "volumes": mounts()}}),
    };
    scene.live = Referrer::of_live(&pod).into_iter().collect();
    scene.snapshot.objects.extend([controller.clone(), pod.object]);
    scene.snapshot.normalise();
    let built = Referrer::of(&controller.id, &manifest).unwrap();
    scene.said(&[built], &[id("PersistentVolumeClaim", "data")], &[])
}

#[test]
fn a_pod_that_its_controller_does_not_replace_keeps_a_claim_that_the_build_drops() {
    let kept = "persistentvolumeclaim/data -n shop, which is kept terminating while Pod by-it mounts it";
    let empty = json!({"spec": {"template": {"spec": {}}}});
    let on_delete = json!({"spec": {"template": {"spec": {}}, "updateStrategy": {"type": "OnDelete"}}});
    let paused = json!({"spec": {"template": {"spec": {}}, "paused": true}});
    let partition = |from: u64| json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": from}}}});
    for (kind, group, manifest, expected) in [
        ("DaemonSet", "apps", empty.clone(), vec![]),
        ("DaemonSet", "apps", on_delete.clone(), vec![kept]),
        ("StatefulSet", "apps", on_delete, vec![kept]),
        ("StatefulSet", "apps", partition(1), vec![kept]),
        ("StatefulSet", "apps", partition(0), vec![]),
        ("Deployment", "apps", paused, vec![kept]),
        ("ReplicaSet", "apps", empty.clone(), vec![kept]),
        ("Job", "batch", empty, vec![kept]),
        ("CronJob", "batch", json!({"spec": {"jobTemplate": {"spec": {"template": {"spec": {}}}}}}), vec![kept]),
    ] {
        assert_eq!(said_of_dropped_claim(kind, group, manifest.clone()), expected, "{kind} {manifest}");
    }
}

#[test]
fn a_set_without_a_number_of_replicas_keeps_the_claims_of_all_its_pods() {
    let mut scene = scene("node");
    let set = object("StatefulSet", "db");
    let claim = |name: &str| ObjectMetadata {
        finalizers: ["kubernetes.io/pvc-protection".into()].into(),
        ..object("PersistentVolumeClaim", name)
    };
    let pod = Resource {
        object: controlled(object("Pod", "db-2"), &set),
        content: json!({"spec": {"nodeName": "node", "volumes": [{"persistentVolumeClaim": {"claimName": "data-db-2"}}]}}),
    };
    scene.live = Referrer::of_live(&pod).into_iter().collect();
    scene.snapshot.objects.extend([set.clone(), claim("data-db-2"), pod.object]);
    scene.snapshot.normalise();
    let said = |more: Value| {
        let mut spec = json!({"volumeClaimTemplates": [{"metadata": {"name": "data"}}], "template": {"spec": {}}});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let built = Referrer::of(&set.id, &json!({"spec": spec})).unwrap();
        scene.said(&[built], &[id("PersistentVolumeClaim", "data-db-2")], &[])
    };
    let kept = "persistentvolumeclaim/data-db-2 -n shop, which is kept terminating while Pod db-2 mounts it";
    assert_eq!(said(json!({})), [kept]);
    assert_eq!(said(json!({"replicas": 3})), [kept]);
    assert_eq!(said(json!({"replicas": 1})), [""; 0], "the commit removes the Pod");
}

#[test]
fn what_a_controller_turns_to_another_object_does_not_need_the_first_one() {
    let mut scene = scene("node");
    let scaled = ObjectMetadata { uid: "s".into(), ..testing::object("keda.sh", "ScaledObject", "shop", "web") };
    let scaler = Resource {
        object: controlled(object("HorizontalPodAutoscaler", "keda-hpa-web"), &scaled),
        content: json!({"spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "old"}}}),
    };
    scene.live = Referrer::of_live(&scaler).into_iter().collect();
    scene.snapshot.objects.extend([scaled.clone(), scaler.object]);
    scene.snapshot.normalise();
    let said = |target: &str| {
        let built = Referrer::of(&scaled.id, &json!({"spec": {"scaleTargetRef": {"name": target}}})).unwrap();
        scene.said(&[built], &[id("Deployment", "old")], &[]).len()
    };
    assert_eq!((said("new"), said("old")), (0, 1));
    let elsewhere = object("HorizontalPodAutoscaler", "other");
    assert_eq!(scene.said(&[], &[id("Deployment", "old"), elsewhere.id], &[]).len(), 1, "no build has its controller");
}

#[test]
fn a_chart_of_a_release_says_no_more_than_its_release() {
    let sources = "source.toolkit.fluxcd.io";
    let chart = testing::object(sources, "HelmChart", "flux", "shop-web");
    let content = json!({"spec": {"sourceRef": {"kind": "HelmRepository", "name": "old"}}});
    let by_hand = Resource { object: chart.clone(), content: content.clone() };
    assert_eq!(Referrer::of_live(&by_hand).map(|referrer| referrer.references.len()), Some(1));
    let of_release = chart.label("helm.toolkit.fluxcd.io/name", "web");
    assert_eq!(Referrer::of_live(&Resource { object: of_release, content }), None);
}

#[test]
fn a_kind_that_is_not_in_the_table_may_have_no_namespace() {
    let thing = ObjectId::new("example.com", "Thing", "", "t");
    let checks = json!([{"apiVersion": "example.com/v1", "kind": "Thing", "name": "t"}]);
    let checking = Referrer::of(&id("Kustomization", "k"), &json!({"spec": {"healthChecks": checks}})).unwrap();
    let needed = "thing.example.com/t, which is still needed: \
                  kustomization.kustomize.toolkit.fluxcd.io/k -n shop depends on it";
    assert_eq!(scene("node").said(&[checking], &[thing], &[]), [needed]);
}

#[test]
fn a_secret_that_cert_manager_makes_for_an_ingress_is_not_missed() {
    let spec = json!({"tls": [{"secretName": "tls"}]});
    let said = |annotations: Value| {
        let manifest = json!({"metadata": {"annotations": annotations}, "spec": spec});
        let ingress = Referrer::of(&id("Ingress", "web"), &manifest).unwrap();
        scene("node").said(&[ingress], &[id("Secret", "tls")], &[]).len()
    };
    assert_eq!((said(json!({})), said(json!({"cert-manager.io/issuer": "acme"}))), (1, 0));
    assert_eq!(said(json!({"kubernetes.io/ingress.class": "nginx"})), 1, "an annotation of something else");
}

#[test]
fn a_service_needs_one_pod_that_it_selects() {
    let scene = scene("node");
    let gone = [id("Deployment", "web"), id("Pod", "web-1"), id("ReplicaSet", "web-abc")];
    let needed = "deployment.apps/web -n shop, which is still needed: service/web -n shop selects its Pods";
    assert_eq!(scene.said(&[], &gone, &[]), [needed]);
    let other = Referrer::of(&id("StatefulSet", "web"), &deployment(json!([]))).unwrap();
    assert_eq!(scene.said(&[other], &gone, &[]), [""; 0], "another workload has such Pods");
    assert_eq!(scene.said(&[], &gone[1..], &[]), [""; 0], "the Deployment makes others");
}

#[test]
fn a_job_that_is_over_needs_nothing_unless_it_is_created_again() {
    let manifest = json!({"spec": {"template": {"spec": {"volumes": mounts()}}}});
    let job = built_job(&manifest);
    let gone = [id("ConfigMap", "files")];
    let needed = "configmap/files -n shop, which is still needed: job.batch/once -n shop mounts it";
    let mut scene = scene("");
    for (condition, expected) in [("Complete", vec![]), ("Failed", vec![]), ("Suspended", vec![needed])] {
        let mut content = manifest.clone();
        content["status"] = json!({"conditions": [{"type": condition, "status": "True"}]});
        let live = Resource { object: object("Job", "once"), content };
        scene.live = Referrer::of_live(&live).into_iter().collect();
        assert_eq!(scene.said(&job, &gone, &[]), expected, "{condition}");
        assert_eq!(scene.said(&job, &gone, &[id("Job", "once")]), [needed], "{condition}");
    }
    scene.live.clear();
    assert_eq!(scene.said(&job, &gone, &[]), [needed], "it does not exist yet");
}

#[test]
fn a_claim_that_has_its_volume_no_longer_needs_what_it_was_filled_from() {
    let scene = scene("");
    let source = json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"});
    let manifest = json!({"spec": {"dataSource": source}});
    let built: Vec<Referrer> = Referrer::of(&id("PersistentVolumeClaim", "data"), &manifest)
        .into_iter()
        .chain(built(deployment(mounts())))
        .collect();
    let snapshot = ObjectId::new("snapshot.storage.k8s.io", "VolumeSnapshot", "shop", "s");
    let said = |spec: Value, recreated: &[ObjectId]| {
        let live = Resource { object: object("PersistentVolumeClaim", "data"), content: json!({ "spec": spec }) };
        let scene = Scene { live: Referrer::of_live(&live).into_iter().collect(), snapshot: scene.snapshot.clone() };
        scene.said(&built, std::slice::from_ref(&snapshot), recreated)
    };
    let needed = "volumesnapshot.snapshot.storage.k8s.io/s -n shop, which is still needed: \
                  persistentvolumeclaim/data -n shop uses it";
    assert_eq!(said(json!({"dataSource": source}), &[]), [needed], "it has no volume yet");
    assert_eq!(said(json!({"dataSource": source, "volumeName": "pv"}), &[]), [""; 0]);
    let again = [id("PersistentVolumeClaim", "data")];
    assert_eq!(said(json!({"dataSource": source, "volumeName": "pv"}), &again), [needed], "it is filled again");
}

fn built_job(manifest: &Value) -> Vec<Referrer> {
    Referrer::of(&id("Job", "once"), manifest).into_iter().collect()
}

#[test]
fn a_workload_of_another_cluster_makes_no_pods_here() {
    let scene = scene("node");
    let gone = [id("Deployment", "web"), id("Pod", "web-1"), id("ReplicaSet", "web-abc")];
    let elsewhere = id("StatefulSet", "web").in_cluster(Some(&"spoke".into()));
    let other = Referrer::of(&elsewhere, &deployment(json!([]))).unwrap();
    let needed = "deployment.apps/web -n shop, which is still needed: service/web -n shop selects its Pods";
    assert_eq!(scene.said(&[other], &gone, &[]), [needed]);
}

#[test]
fn what_a_controller_makes_again_is_not_missed() {
    let scene = scene("node");
    let reader = deployment(json!([{"secret": {"secretName": "keys"}}]));
    let gone = [id("Secret", "keys")];
    let needed = "secret/keys -n shop, which is still needed: deployment.apps/web -n shop mounts it";
    assert_eq!(scene.said(&built(reader.clone()), &gone, &[]), [needed]);
    for (kind, spec) in
        [("ExternalSecret", json!({"target": {"name": "keys"}})), ("Certificate", json!({"secretName": "keys"}))]
    {
        let maker = Referrer::of(&id(kind, "any"), &json!({"spec": spec})).unwrap();
        assert_eq!(scene.said(&[built(reader.clone()), vec![maker]].concat(), &gone, &[]), [""; 0], "{kind}");
    }
    for (policy, expected) in [("Merge", vec![needed]), ("None", vec![needed]), ("Orphan", vec![])] {
        for target in [json!({"creationPolicy": policy, "name": "keys"}), json!({"creationPolicy": policy})] {
            let merging = Referrer::of(&id("ExternalSecret", "keys"), &json!({"spec": {"target": target}})).unwrap();
            let said = scene.said(&[built(reader.clone()), vec![merging]].concat(), &gone, &[]);
            let merges = policy == "Merge" && target["name"].is_string();
            let own = if merges { ", externalsecret.external-secrets.io/keys -n shop uses it" } else { "" };
            assert_eq!(said, expected.iter().map(|needed| format!("{needed}{own}")).collect::<Vec<_>>(), "{target}");
        }
    }
    let namesake = Referrer::of(&id("SealedSecret", "keys"), &json!({"spec": {}})).unwrap();
    assert_eq!(scene.said(&[built(reader), vec![namesake]].concat(), &gone, &[]), [""; 0]);
}
