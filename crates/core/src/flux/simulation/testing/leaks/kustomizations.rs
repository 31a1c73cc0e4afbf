//! Ways through fields of Kustomizations.

use serde_json::json;

use super::super::cluster::{NS, cm, ks};
use super::change::Way;

/// Returns the ways of fields of Kustomizations.
pub(super) fn ways() -> Vec<Way> {
    vec![
        ("path", |c, e| c.child(json!({"path": format!("./{e}")}))),
        ("dependsOn", |c, e| c.child(json!({"dependsOn": [{"name": e, "namespace": e}]}))),
        ("readyExpr", |c, e| c.child(json!({"dependsOn": [{"name": "apps", "readyExpr": format!("dep.{e} == 1")}]}))),
        ("child targetNamespace", |c, e| c.child(json!({"targetNamespace": e}))),
        ("child sourceRef", |c, e| c.child(json!({"sourceRef": {"name": e}}))),
        ("source of another kind", |c, e| c.child(json!({"sourceRef": {"kind": e}}))),
        ("patches", |c, e| c.child(json!({"patches": [{"patch": e}]}))),
        ("components", |c, e| c.child(json!({"components": [format!("../{e}")]}))),
        ("images", |c, e| c.child(json!({"images": [{"name": e, "newTag": e}]}))),
        ("healthChecks", |c, e| c.child(json!({"healthChecks": [{"apiVersion": "v1", "kind": e, "name": e}]}))),
        ("healthCheckExprs", |c, e| {
            c.child(json!({"healthCheckExprs": [{"apiVersion": "v1", "kind": "A", "current": format!("{e} ==")}]}));
        }),
        ("kubeConfig", |c, e| c.child(json!({"kubeConfig": {"secretRef": {"name": e}}}))),
        ("decryption", |c, e| c.child(json!({"decryption": {"provider": "sops", "secretRef": {"name": e}}}))),
        ("serviceAccountName", |c, e| c.child(json!({"serviceAccountName": e}))),
        ("substitute", |c, e| {
            c.child(json!({"postBuild": {"substitute": {"V": e}}}));
            c.child.push(cm("v-${V}"));
        }),
        ("key of substitute", |c, e| c.child(json!({"postBuild": {"substitute": {format!("{e}-"): "a"}}}))),
        ("substituteFrom", |c, e| {
            c.child(json!({"postBuild": {"substituteFrom": [{"kind": "ConfigMap", "name": e}]}}))
        }),
        ("laundry", |c, e| {
            let mut data = cm("laundry");
            data["data"] = json!({"V": e});
            c.add(data);
            c.child(json!({"postBuild": {"substituteFrom": [{"kind": "ConfigMap", "name": "laundry"}]}}));
            c.child.push(cm("l-${V}"));
            c.child.push(cm("l-${V^^}"));
        }),
        ("namePrefix", |c, e| c.child(json!({"namePrefix": e, "nameSuffix": e}))),
        ("child commonMetadata", |c, e| c.child(json!({"commonMetadata": {"labels": {e: e}, "annotations": {e: e}}}))),
        ("deletionPolicy", |c, e| c.child(json!({"deletionPolicy": e, "interval": e, "timeout": e}))),
        ("fields of another type", |c, e| c.child(json!({"suspend": e, "prune": e, "force": e, "wait": e}))),
        ("kubeConfig of a ConfigMap", |c, e| c.child(json!({"kubeConfig": {"configMapRef": {"name": e}}}))),
        ("laundry in a Secret", |c, e| {
            let mut data =
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "laundry", "namespace": NS}});
            data["stringData"] = json!({"V": e});
            c.add(data);
            c.child(json!({"postBuild": {"substituteFrom": [{"kind": "Secret", "name": "laundry"}]}}));
            c.child.push(cm("m-${V}"));
        }),
        ("new Kustomization", |c, e| c.add(ks(e, "./child", json!({})))),
        ("new Kustomization with a path", |c, e| c.add(ks("fresh", &format!("./{e}"), json!({})))),
        ("other Kustomization that depends", |c, e| {
            c.add(ks(e, "./none", json!({})));
            c.add(ks("dependent", "./child", json!({"dependsOn": [{"name": "child"}]})));
            c.child(json!({"dependsOn": [{"name": e}]}));
        }),
        ("Kustomization elsewhere", |c, e| {
            c.change("Kustomization", "elsewhere", json!({"spec": {"path": e, "targetNamespace": e}}));
        }),
        ("removed Kustomization", |c, e| {
            c.after.retain(|object| object["metadata"]["name"] != "child");
            c.before.retain(|object| object["metadata"]["name"] != "child");
            c.before.push(ks("child", "./child", json!({"serviceAccountName": e, "deletionPolicy": "Orphan"})));
        }),
    ]
}
