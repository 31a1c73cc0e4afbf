//! Ways through plain objects.

use serde_json::json;

use super::super::cluster::{NS, cm};
use super::change::Way;

/// Returns the ways of plain objects.
pub(super) fn ways() -> Vec<Way> {
    vec![
        ("name", |c, e| c.add(cm(e))),
        ("name with other parts", |c, e| c.add(cm(&format!("db-{e}-1")))),
        ("namespace", |c, e| {
            let mut object = cm("a");
            object["metadata"]["namespace"] = e.into();
            c.add(object);
        }),
        ("kind", |c, e| {
            c.add(json!({"apiVersion": "v1", "kind": format!("Kind{e}"), "metadata": {"name": "a", "namespace": NS}}))
        }),
        ("apiVersion", |c, e| {
            c.add(json!({"apiVersion": format!("{e}/v1"), "kind": "A", "metadata": {"name": "a", "namespace": NS}}));
        }),
        ("version", |c, e| {
            c.add(json!({"apiVersion": e, "kind": "ConfigMap", "metadata": {"name": "a", "namespace": NS}}))
        }),
        ("name that is refused", |c, e| c.add(cm(&format!("{e}_A")))),
        ("duplicate", |c, e| {
            c.add(cm(e));
            c.add(cm(e));
        }),
        ("annotation", |c, e| {
            let mut object = cm("annotated");
            object["metadata"]["annotations"] = json!({"kustomize.toolkit.fluxcd.io/prune": e, e: e});
            object["metadata"]["labels"] = json!({e: e});
            c.add(object);
        }),
        ("value that is no text", |c, e| {
            let mut object = cm(e);
            object["data"] = json!({"a": 1});
            c.add(object);
        }),
        ("ownerReferences", |c, e| {
            let mut object = cm(e);
            object["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": e, "name": e, "uid": e}]);
            c.add(object);
        }),
        ("new namespace", |c, e| {
            c.add(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": e}}));
            let mut object = cm("inside");
            object["metadata"]["namespace"] = e.into();
            c.add(object);
        }),
        ("definition", |c, e| {
            let spec = json!({"group": e, "scope": "Namespaced", "names": {"kind": e, "plural": e},
                "versions": [{"name": "v1", "served": true}]});
            c.add(json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": format!("a.{e}")}, "spec": spec}));
            c.add(json!({"apiVersion": format!("{e}/v1"), "kind": e, "metadata": {"name": e, "namespace": NS}}));
        }),
        ("finalizers", |c, e| {
            let mut object = cm("finalized");
            object["metadata"]["finalizers"] = json!([format!("example.com/{e}")]);
            c.add(object);
        }),
        ("labels of another owner", |c, e| {
            let mut object = cm("claimed");
            object["metadata"]["labels"] = json!({"kustomize.toolkit.fluxcd.io/name": e, "kustomize.toolkit.fluxcd.io/namespace": e,
                "helm.toolkit.fluxcd.io/name": e, "helm.toolkit.fluxcd.io/namespace": NS, "app.kubernetes.io/managed-by": e});
            object["metadata"]["annotations"] = json!({"meta.helm.sh/release-name": e, "meta.helm.sh/release-namespace": e,
                "argocd.argoproj.io/tracking-id": format!("{e}:/ConfigMap:{NS}/claimed"), "helm.sh/resource-policy": e});
            c.add(object);
        }),
        ("references", |c, e| {
            let volumes =
                json!([{"name": "v", "configMap": {"name": e}}, {"name": "w", "configMap": {"name": "of-child"}}]);
            let pod = json!({"volumes": volumes, "imagePullSecrets": [{"name": e}], "serviceAccountName": e,
                "containers": [{"name": e, "image": format!("registry.example.com/{e}:{e}"), "args": [e],
                    "envFrom": [{"secretRef": {"name": e}}]}]});
            c.add(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": e, "namespace": NS},
                "spec": {"template": {"metadata": {"labels": {"a": e}}, "spec": pod}}}));
            c.child.clear();
        }),
        ("external secret", |c, e| {
            let spec = json!({"secretStoreRef": {"name": e, "kind": "ClusterSecretStore"}, "target": {"name": e},
                "data": [{"secretKey": e, "remoteRef": {"key": e}}]});
            c.add(json!({"apiVersion": "external-secrets.io/v1", "kind": "ExternalSecret",
                "metadata": {"name": format!("ext-{e}"), "namespace": NS}, "spec": spec}));
        }),
        ("registry credentials", |c, e| {
            let text = json!({"auths": {e: {"username": e, "password": e}}}).to_string();
            c.add(json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
                "metadata": {"name": format!("pull-{e}"), "namespace": NS}, "stringData": {".dockerconfigjson": text}}));
        }),
        ("policy of admission", |c, e| {
            c.add(json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
                "metadata": {"name": format!("policy-{e}")},
                "spec": {"validations": [{"expression": format!("object.x != '{e}'"), "message": e}]}}));
        }),
        ("role", |c, e| {
            let version = "rbac.authorization.k8s.io/v1";
            c.add(json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": format!("{e}:a")}}));
        }),
        ("malformed", |c, e| c.add(cm(&format!("{e}-${{PASSWORD")))),
        ("data", |c, e| {
            let mut object = cm("open-${OPEN}");
            object["data"] = json!({"a": format!("http://u:{e}@db"), e: "b"});
            c.after.retain(|object| object["metadata"]["name"] != "open-${OPEN}");
            c.add(object);
        }),
    ]
}
