//! Ways through what changes answers of the API server, and through fields that only some controllers read.

use serde_json::json;

use super::super::cluster::{NS, cm, ks};
use super::change::{Way, definition, flux_object, source, widget};
use crate::kubernetes::object::merge;

/// Returns the ways of what changes answers of the API server, and of fields that only some controllers read.
pub(super) fn ways() -> Vec<Way> {
    let ways: [Way; 35] = [
        ("ignore of a Kustomization", |c, e| {
            let target = json!({"kind": e, "name": e, "labelSelector": e});
            c.child(json!({"ignore": [{"paths": [format!("/data/{e}")], "target": target}]}));
        }),
        ("request of a child", |c, e| {
            c.change(
                "Kustomization",
                "child",
                json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": e}}}),
            );
        }),
        ("wait", |c, e| {
            c.child(json!({"wait": true, "healthChecks": [{"apiVersion": "v1", "kind": "ConfigMap", "name": e, "namespace": e}]}));
            c.add(ks("waiting", "./child", json!({"dependsOn": [{"name": "child"}]})));
        }),
        ("stateful set", |c, e| {
            let claim = json!({"metadata": {"name": e}, "spec": {"storageClassName": e}});
            let spec = json!({"serviceName": e, "replicas": 2, "volumeClaimTemplates": [claim]});
            c.add(json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": e, "namespace": NS}, "spec": spec}));
        }),
        ("claim", |c, e| {
            c.add(
                json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": e, "namespace": NS},
                "spec": {"volumeName": e, "storageClassName": e, "dataSource": {"kind": e, "name": e}}}),
            );
        }),
        ("volume", |c, e| {
            let claim = json!({"namespace": e, "name": e});
            c.add(json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": e},
                "spec": {"claimRef": claim, "persistentVolumeReclaimPolicy": e}}));
        }),
        ("quota", |c, e| {
            c.add(json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": e, "namespace": NS},
                "spec": {"hard": {"configmaps": "0", e: e}, "scopeSelector": {"matchExpressions": [{"scopeName": e}]}}}));
        }),
        ("limit range", |c, e| {
            c.add(json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": e, "namespace": NS},
                "spec": {"limits": [{"type": "Container", "max": {e: e}}]}}));
        }),
        ("priority", |c, e| {
            c.add(json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": e}, "value": 1}));
            c.add(
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("urgent-{e}"), "namespace": NS},
                "spec": {"priorityClassName": e, "runtimeClassName": e, "containers": []}}),
            );
        }),
        ("webhook", |c, e| {
            let service = json!({"namespace": NS, "name": e, "path": e});
            let rules =
                json!([{"apiGroups": [""], "apiVersions": ["*"], "resources": ["configmaps"], "operations": ["*"]}]);
            let webhook = json!({"name": format!("{e}.example.com"), "clientConfig": {"service": service}, "rules": rules,
                "failurePolicy": "Fail", "matchConditions": [{"name": e, "expression": format!("object.x == '{e}'")}]});
            c.add(json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": e}, "webhooks": [webhook]}));
        }),
        ("binding of a role", |c, e| {
            let version = "rbac.authorization.k8s.io";
            let subjects = json!([{"kind": "ServiceAccount", "name": e, "namespace": NS}]);
            let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "resourceNames": [e]}]);
            let metadata = json!({"name": e, "namespace": NS});
            c.add(json!({"apiVersion": format!("{version}/v1"), "kind": "Role", "metadata": metadata, "rules": rules}));
            c.add(json!({"apiVersion": format!("{version}/v1"), "kind": "RoleBinding", "metadata": metadata,
                "roleRef": {"apiGroup": version, "kind": "Role", "name": e}, "subjects": subjects}));
            c.child(json!({"serviceAccountName": e}));
            c.child.push(cm("by-account"));
        }),
        ("schema of a definition", |c, e| {
            c.add(definition(json!({"type": "object", "properties": {"size": {"type": "string", "enum": [e]},
                "other": {"type": "string", "pattern": format!("^{e}$")}}})));
            c.add(widget("small", json!({"size": "s", "other": "o"})));
        }),
        ("job", |c, e| {
            let metadata =
                json!({"name": e, "namespace": NS, "annotations": {"kustomize.toolkit.fluxcd.io/force": "enabled"}});
            c.add(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"ttlSecondsAfterFinished": 5}}));
        }),
        ("service", |c, e| {
            c.add(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": e, "namespace": NS},
                "spec": {"ports": [{"name": e, "nodePort": 30000}], "selector": {"app": e}, "externalName": e}}));
        }),
        ("API service", |c, e| {
            c.add(json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": format!("v1.{e}")},
                "spec": {"group": e, "version": "v1", "service": {"name": e, "namespace": NS}}}));
        }),
        ("sparseCheckout", |c, e| c.change("GitRepository", "repo", json!({"spec": {"sparseCheckout": [e]}}))),
        ("sparseCheckout of a live source", |c, e| {
            for object in c.before.iter_mut().chain(&mut c.after).filter(|object| object["metadata"]["name"] == "repo")
            {
                merge(object, &json!({"spec": {"sparseCheckout": [e]}}));
            }
        }),
        ("ignore of the planned source", |c, e| c.change("GitRepository", "repo", json!({"spec": {"ignore": e}}))),
        ("url of the planned source", |c, e| c.change("GitRepository", "repo", json!({"spec": {"url": e}}))),
        ("ref of the planned source", |c, e| {
            c.change(
                "GitRepository",
                "repo",
                json!({"spec": {"ref": {"name": e, "commit": e, "semver": e}, "suspend": true}}),
            );
        }),
        ("include of the planned source", |c, e| {
            let include = json!([{"repository": {"name": e}, "fromPath": e, "toPath": e}]);
            c.change("GitRepository", "repo", json!({"spec": {"include": include, "secretRef": {"name": e}}}));
        }),
        ("second source of the repository", |c, e| {
            c.add(source("GitRepository", e, json!({"url": "https://example.com/repo", "sparseCheckout": [e]})));
            c.add(ks("of-second", "./child", json!({"sourceRef": {"kind": "GitRepository", "name": e}})));
        }),
        ("HelmChart", |c, e| {
            c.add(source(
                "HelmChart",
                e,
                json!({"chart": e, "version": e, "sourceRef": {"kind": "HelmRepository", "name": e}}),
            ));
        }),
        ("verification of a source", |c, e| {
            c.change(
                "GitRepository",
                "other",
                json!({"spec": {"verify": {"mode": e, "secretRef": {"name": e}}, "provider": e}}),
            );
        }),
        ("image automation", |c, e| {
            let git =
                json!({"checkout": {"ref": {"branch": e}}, "push": {"branch": e}, "commit": {"messageTemplate": e}});
            c.add(flux_object(
                "image.toolkit.fluxcd.io/v1",
                "ImageUpdateAutomation",
                e,
                json!({"git": git,
                "sourceRef": {"kind": "GitRepository", "name": "repo"}, "update": {"path": e, "strategy": "Setters"}}),
            ));
        }),
        ("generator exclude", |c, e| {
            let copy = json!([{"from": "@repo/**", "to": format!("@artifact/{e}"), "exclude": [format!("[{e}")], "strategy": e}]);
            c.change(
                "ArtifactGenerator",
                "gen",
                json!({"spec": {"artifacts": [{"name": "made", "revision": e, "copy": copy}]}}),
            );
        }),
        ("instance components", |c, e| {
            let more = json!({"components": [e], "cluster": {"type": e, "size": e}, "storage": {"class": e},
                "sharding": {"shards": [e]}, "commonMetadata": {"labels": {e: e}}, "sync": {"pullSecret": e, "provider": e}});
            c.change("FluxInstance", "flux", json!({ "spec": more }));
        }),
        ("strategy of inputs", |c, e| {
            c.set(json!({"inputStrategy": {"name": e}, "commonMetadata": {"labels": {e: e}}, "inputs": [{e: "a", "n": "one"}]}));
        }),
        ("readyExpr of a set", |c, e| {
            let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "namespace": NS, "readyExpr": format!("{e} ==")});
            c.set(json!({"dependsOn": [owner], "inputs": [{"n": "two"}]}));
        }),
        ("marks of a template", |c, e| {
            c.release(json!({"values": {"n": e}, "chart": {"spec": {"reconcileStrategy": "Revision"}}}));
            let mut kept = cm("marked");
            kept["metadata"]["annotations"] =
                json!({"helm.sh/resource-policy": "{{ .Values.n }}", "{{ .Values.n }}": "a"});
            kept["metadata"]["namespace"] = "{{ .Values.n }}".into();
            c.template(kept);
        }),
        ("uninstall of a release", |c, e| {
            c.release(json!({"uninstall": {"deletionPropagation": e}, "test": {"filters": [{"name": e}]}, "install": {"crds": e},
                "rollback": {"recreate": e}, "maxHistory": e, "waitStrategy": {"name": e}}));
        }),
        ("chart metadata", |c, e| {
            c.release(json!({"chart": {"metadata": {"labels": {e: e}, "annotations": {e: e}}}}));
            c.chart(json!({"verify": {"provider": e, "secretRef": {"name": e}}, "interval": e, "ignoreMissingValuesFiles": e}));
        }),
        ("values of an expression", |c, e| {
            let entry =
                json!({"kind": "ConfigMap", "name": "open", "valuesKey": "OPEN", "targetPath": "n", "literal": e});
            c.release(json!({"valuesFrom": [entry], "values": {"n": {"a": e}}, "chart": {"spec": {"reconcileStrategy": "Revision"}}}));
            c.template(cm("t-{{ .Values.n }}"));
        }),
        ("release of another target", |c, e| {
            let spec = json!({"releaseName": e, "targetNamespace": e, "storageNamespace": e, "install": {"createNamespace": true},
                "upgrade": {"remediation": {"strategy": e}}, "persistentClient": e});
            c.release(spec);
            c.templates[1].remove(1);
        }),
        ("kind of a lookup", |c, e| {
            c.release(json!({"values": {"n": e}, "chart": {"spec": {"reconcileStrategy": "Revision"}}}));
            c.template(cm("looked-up"));
        }),
    ];
    ways.to_vec()
}
