//! Ways through fields of HelmReleases.

use serde_json::json;

use super::super::cluster::cm;
use super::change::{Way, release};
use crate::kubernetes::object::merge;

/// Returns the ways of fields of HelmReleases.
pub(super) fn ways() -> Vec<Way> {
    vec![
        ("valuesFrom.name", |c, e| c.release(json!({"valuesFrom": [{"kind": "ConfigMap", "name": e}]}))),
        ("valuesFrom.name of a Secret", |c, e| c.release(json!({"valuesFrom": [{"kind": "Secret", "name": e}]}))),
        ("valuesFrom.kind", |c, e| c.release(json!({"valuesFrom": [{"kind": e, "name": "open"}]}))),
        ("valuesKey", |c, e| {
            c.release(json!({"valuesFrom": [{"kind": "ConfigMap", "name": "open", "valuesKey": e}]}));
        }),
        ("targetPath", |c, e| {
            let entry =
                json!({"kind": "ConfigMap", "name": "open", "valuesKey": "OPEN", "targetPath": format!("{e}[0]")});
            c.release(json!({ "valuesFrom": [entry] }));
        }),
        ("key of spec", |c, e| c.release(json!({ e: {"a": 1} }))),
        ("chart", |c, e| c.chart(json!({"chart": format!("./charts/{e}")}))),
        ("chart that leaves the source", |c, e| c.chart(json!({"chart": format!("../../{e}")}))),
        ("valuesFiles", |c, e| c.chart(json!({"valuesFiles": [format!("{e}.yaml")]}))),
        ("chart version", |c, e| c.chart(json!({"version": e}))),
        ("chart of a repository", |c, e| {
            c.chart(json!({"chart": e, "version": "1", "sourceRef": {"kind": "HelmRepository", "name": "charts"}}));
        }),
        ("version of a repository", |c, e| {
            c.chart(json!({"chart": "app", "version": e, "sourceRef": {"kind": "HelmRepository", "name": "charts"}}));
        }),
        ("sourceRef.name", |c, e| c.chart(json!({"sourceRef": {"name": e}}))),
        ("sourceRef.namespace", |c, e| c.chart(json!({"sourceRef": {"namespace": e}}))),
        ("sourceRef.kind", |c, e| c.chart(json!({"sourceRef": {"kind": e}}))),
        ("chartRef", |c, e| c.release(json!({"chart": null, "chartRef": {"kind": "OCIRepository", "name": e}}))),
        ("chartRef.kind", |c, e| c.release(json!({"chart": null, "chartRef": {"kind": e, "name": "a"}}))),
        ("releaseName", |c, e| c.release(json!({"releaseName": e}))),
        ("targetNamespace", |c, e| c.release(json!({"targetNamespace": e}))),
        ("storageNamespace", |c, e| c.release(json!({"storageNamespace": e}))),
        ("release dependsOn", |c, e| c.release(json!({"dependsOn": [{"name": e}], "values": {"color": "red"}}))),
        ("release dependsOn and template", |c, e| {
            c.release(json!({"dependsOn": [{"name": "other", "namespace": e}], "chart": {"spec": {"reconcileStrategy": "Revision"}}}));
            c.templates[1].remove(1);
        }),
        ("release readyExpr", |c, e| {
            c.release(json!({"dependsOn": [{"name": "app2", "readyExpr": format!("dep.x == '{e}'")}]}));
        }),
        ("release kubeConfig", |c, e| c.release(json!({"kubeConfig": {"secretRef": {"name": e}}}))),
        ("release serviceAccountName", |c, e| {
            c.release(json!({"serviceAccountName": e, "values": {"off": ["extra.yaml"]}}))
        }),
        ("release annotation", |c, e| {
            c.change("HelmRelease", "app", json!({"metadata": {"annotations": {"reconcile.fluxcd.io/forceAt": e}}}));
        }),
        ("suspended release", |c, e| c.release(json!({"suspend": true, "values": {e: 1}}))),
        ("postRenderers", |c, e| {
            let patch = format!("[{{\"op\": \"remove\", \"path\": \"/metadata/{e}\"}}]");
            let patches = json!([{"patch": patch, "target": {"kind": "ConfigMap", "name": e}}]);
            c.release(json!({ "postRenderers": [{"kustomize": {"patches": patches}}] }));
        }),
        ("key of values", |c, e| c.release(json!({"values": {e: {"a": 1}}}))),
        ("values in a name", |c, e| {
            c.release(json!({"values": {"n": e}, "chart": {"spec": {"reconcileStrategy": "Revision"}}}));
            c.template(cm("d-{{ .Values.n }}"));
        }),
        ("values in a name twice", |c, e| {
            c.release(json!({"values": {"n": e}, "chart": {"spec": {"reconcileStrategy": "Revision"}}}));
            c.template(cm("d-{{ .Values.n }}"));
            c.template(cm("d-{{ .Values.n }}"));
            c.templates[1].remove(1);
        }),
        ("base64 of values twice", |c, e| {
            c.release(json!({"values": {"n": e}, "chart": {"spec": {"reconcileStrategy": "Revision"}}}));
            c.template(cm("{{ .Values.n | b64enc }}"));
            c.template(cm("{{ .Values.n | b64enc }}"));
            c.templates[1].remove(1);
        }),
        ("values in a kind", |c, e| {
            c.release(json!({"values": {"n": e}, "chart": {"spec": {"reconcileStrategy": "Revision"}}}));
            c.template(json!({"apiVersion": "{{ .Values.n }}/v1", "kind": "{{ .Values.n | upper }}", "metadata": {"name": "a"}}));
            c.templates[1].remove(1);
        }),
        ("values of a Secret in a name", |c, e| {
            let (kind, name) = if e.contains("OPEN") { ("ConfigMap", "open-values") } else { ("Secret", "values") };
            // The live release reads it, so that it is read here too.
            let spec = json!({"valuesFrom": [{"kind": kind, "name": name}], "chart": {"spec": {"reconcileStrategy": "Revision"}}});
            for object in c.before.iter_mut().filter(|object| object["kind"] == "HelmRelease") {
                merge(object, &json!({ "spec": spec }));
            }
            c.release(spec);
            c.template(cm("s-{{ .Values.n }}"));
            c.template(cm("{{ .Values.n | hex }}"));
        }),
        ("message of a chart", |c, e| {
            c.release(json!({"values": {"n": e}, "chart": {"spec": {"reconcileStrategy": "Revision"}}}));
            c.template(cm("fail {{ .Values.n }}"));
        }),
        ("laundry in values", |c, e| {
            let mut data = cm("laundry-values");
            data["data"] = json!({"values.yaml": format!("n: {e}")});
            c.add(data);
            let entry = json!({"kind": "ConfigMap", "name": "laundry-values"});
            c.release(json!({"valuesFrom": [entry], "chart": {"spec": {"reconcileStrategy": "Revision"}}}));
            c.template(cm("q-{{ .Values.n }}"));
            c.templates[1].remove(1);
        }),
        ("order of names", |c, e| {
            c.add(cm(&format!("{e}-1")));
            c.add(cm("h-1"));
            c.add(cm(&format!("h-{e}")));
            c.add(cm("t-1"));
        }),
        ("new release", |c, e| c.add(release(e, json!({"targetNamespace": e, "values": {"a": e}})))),
        ("removed release", |c, e| {
            c.after.retain(|object| object["kind"] != "HelmRelease");
            c.before.retain(|object| object["kind"] != "HelmRelease");
            c.before.push(release("app", json!({"kubeConfig": {"secretRef": {"name": e}}, "serviceAccountName": e})));
        }),
        ("commonMetadata", |c, e| c.release(json!({"commonMetadata": {"labels": {"a": e}, "annotations": {e: "b"}}}))),
        ("upgrade strategy", |c, e| c.release(json!({"upgrade": {"strategy": {"name": e}, "crds": e}}))),
        ("driftDetection", |c, e| c.release(json!({"driftDetection": {"ignore": [{"paths": [e]}]}}))),
    ]
}
