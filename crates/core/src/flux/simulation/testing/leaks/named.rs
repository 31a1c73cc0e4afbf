//! Ways through names of owners that take objects over, and of what other objects refer to.

use serde_json::json;

use super::super::cluster::{NS, cm, ks};
use super::change::{Change, Way, flux_object, release, set, source};

impl Change {
    /// Removes an object that comes back under another name.
    fn remove(&mut self, kind: &str, name: &str) {
        self.after.retain(|object| object["kind"] != kind || object["metadata"]["name"] != name);
    }
}

/// Returns the ways of owners that get another name, and of references between objects.
pub(super) fn ways() -> Vec<Way> {
    vec![
        ("renamed Kustomization", |c, e| {
            c.remove("Kustomization", "child");
            c.add(ks(e, "./child", json!({})));
        }),
        ("renamed release", |c, e| {
            c.remove("HelmRelease", "app");
            c.add(release(e, json!({"releaseName": "app"})));
        }),
        ("renamed set", |c, e| {
            c.remove("ResourceSet", "set");
            c.add(set(e, json!({})));
        }),
        ("renamed source", |c, e| {
            c.remove("GitRepository", "other");
            c.add(source("GitRepository", e, json!({"url": "https://example.com/other"})));
            c.change("Kustomization", "elsewhere", json!({"spec": {"sourceRef": {"name": e}}}));
        }),
        ("owner that waits for a release", |c, e| {
            c.add(release(e, json!({"values": {"color": e}})));
            c.release(json!({"dependsOn": [{"name": e}], "values": {"off": ["extra.yaml"]}}));
        }),
        ("moved object", |c, e| {
            c.add(ks("mover", "./child", json!({"namePrefix": "", "targetNamespace": NS, "dependsOn": [{"name": e}]})));
            c.remove("Kustomization", "child");
        }),
        ("object that two owners apply", |c, e| {
            let mut object = cm("set-one");
            object["data"] = json!({"a": e});
            c.add(object);
        }),
        ("autoscaler", |c, e| {
            let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": e});
            c.add(json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
                "metadata": {"name": format!("scale-{e}"), "namespace": NS}, "spec": {"scaleTargetRef": target}}));
        }),
        ("ingress", |c, e| {
            let backend = json!({"service": {"name": e, "port": {"name": e}}});
            let path = json!({"path": format!("/{e}"), "pathType": "Prefix", "backend": backend});
            c.add(json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
                "metadata": {"name": "entry", "namespace": NS, "annotations": {"cert-manager.io/cluster-issuer": e}},
                "spec": {"ingressClassName": e, "tls": [{"hosts": [e], "secretName": e}],
                    "rules": [{"host": format!("{e}.example.com"), "http": {"paths": [path]}}]}}));
        }),
        ("pod with a deleted ConfigMap", |c, e| {
            c.child.clear();
            let container = json!({"name": e, "image": "a", "env": [{"name": e, "valueFrom":
                {"configMapKeyRef": {"name": "of-child", "key": e}}}]});
            c.add(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": e, "namespace": NS},
                "spec": {"containers": [container], "nodeName": e, "schedulerName": e}}));
        }),
        ("alert", |c, e| {
            let sources = json!([{"kind": "Kustomization", "name": e, "namespace": e}]);
            c.add(flux_object(
                "notification.toolkit.fluxcd.io/v1beta3",
                "Alert",
                e,
                json!({"eventSources": sources, "providerRef": {"name": e}, "summary": e}),
            ));
        }),
        ("image policy", |c, e| {
            c.add(flux_object(
                "image.toolkit.fluxcd.io/v1",
                "ImagePolicy",
                e,
                json!({"imageRepositoryRef": {"name": e}, "filterTags": {"pattern": format!("^({e}")}, "policy": {"semver": {"range": e}}}),
            ));
        }),
        ("copied data", |c, e| {
            let mut data = cm("original");
            data["data"] = json!({"a": e});
            c.add(data);
            let mut copy = cm("copy");
            copy["metadata"]["annotations"]["fluxcd.controlplane.io/copyFrom"] = format!("{NS}/original").into();
            copy["metadata"]["annotations"]["fluxcd.controlplane.io/checksumFrom"] =
                format!("ConfigMap/{NS}/{e}").into();
            c.set(json!({ "resources": [copy] }));
        }),
        ("provider with a filter", |c, e| {
            let values = json!({"type": e, "url": format!("https://u:{e}@example.com"), "secretRef": {"name": e},
                "filter": {"includeBranch": format!("^({e}"), "limit": e}, "defaultValues": {"n": "two"}, "schedule": [{"cron": e}]});
            c.add(flux_object("fluxcd.controlplane.io/v1", "ResourceSetInputProvider", "inputs", values));
            c.set(json!({"inputsFrom": [{"kind": "ResourceSetInputProvider", "name": "inputs"}]}));
        }),
    ]
}
