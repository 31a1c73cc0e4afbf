//! Ways through fields of ResourceSets and of the providers of their inputs.

use serde_json::json;

use super::super::cluster::{NS, cm, ks};
use super::change::{Way, flux_object, release, set};

/// Returns the ways of fields of ResourceSets and of the providers of their inputs.
pub(super) fn ways() -> Vec<Way> {
    vec![
        ("input", |c, e| c.set(json!({"inputs": [{"n": e}]}))),
        ("base64 of an input", |c, e| {
            c.set(json!({"inputs": [{"n": e}], "resources": [cm("x-<< inputs.n | b64enc >>")]}));
        }),
        ("upper case of an input", |c, e| {
            let object = json!({"apiVersion": "a/v1", "kind": "<< inputs.n | upper >>", "metadata": {"name": "a", "namespace": NS}});
            c.set(json!({"inputs": [{"n": e}], "resources": [object]}));
        }),
        ("input in a namespace", |c, e| {
            let mut object = cm("a");
            object["metadata"]["namespace"] = "<< inputs.n | reverse >>".into();
            c.set(json!({"inputs": [{"n": e}], "resources": [object]}));
        }),
        ("input in hexadecimal", |c, e| {
            c.set(json!({"inputs": [{"n": e}], "resources": [cm("<< inputs.n | hex >>")]}))
        }),
        ("input in a new set", |c, e| {
            c.add(set("fresh", json!({"inputs": [{"n": e}], "resources": [cm("f-<< inputs.n >>")]})))
        }),
        ("input in a release", |c, e| {
            let values = json!([{"kind": "ConfigMap", "name": "<< inputs.n >>"}]);
            let app = release("from-set", json!({ "valuesFrom": values }));
            c.set(json!({"inputs": [{"n": e}], "resources": [app]}));
        }),
        ("input in a Kustomization", |c, e| {
            c.set(json!({"inputs": [{"n": e}], "resources": [ks("<< inputs.n >>", "./<< inputs.n >>", json!({}))]}));
        }),
        ("input in a path", |c, e| {
            c.set(json!({"inputs": [{"n": e}], "resources": [ks("from-set", "./<< inputs.n >>", json!({}))]}));
        }),
        ("input in variables", |c, e| {
            let variables = json!({"postBuild": {"substitute": {"V": "<< inputs.n >>"}}});
            c.set(json!({"inputs": [{"n": e}], "resources": [ks("from-set", "./child", variables)]}));
            c.child.push(cm("v-${V}"));
        }),
        ("input in data", |c, e| {
            let mut data = cm("laundry-set");
            data["data"] = json!({"V": "<< inputs.n >>"});
            c.set(json!({"inputs": [{"n": e}], "resources": [data]}));
            let from = json!([{"kind": "ConfigMap", "name": "laundry-set", "optional": true}]);
            c.child(json!({"postBuild": {"substituteFrom": from}}));
            c.child.push(cm("v-${V}"));
        }),
        ("input that no template knows", |c, e| c.set(json!({"resources": [cm(&format!("<< inputs.{e} >>"))]}))),
        ("name of a template", |c, e| c.set(json!({"resources": [cm(&format!("{e}-<< inputs.n >>"))]}))),
        ("template that is no YAML", |c, e| c.set(json!({"inputs": [{"n": format!("{e}\": [}}")}]}))),
        ("inputsFrom", |c, e| c.set(json!({"inputsFrom": [{"kind": "ResourceSetInputProvider", "name": e}]}))),
        ("inputsFrom selector", |c, e| c.set(json!({"inputsFrom": [{"selector": {"matchLabels": {e: e}}}]}))),
        ("set dependsOn", |c, e| {
            c.set(json!({"dependsOn": [{"kind": e, "name": e}], "inputs": [{"n": "two"}]}));
        }),
        ("set serviceAccountName", |c, e| c.set(json!({"serviceAccountName": e, "inputs": [{"n": "two"}]}))),
        ("message of a set", |c, e| {
            c.set(json!({"inputs": [{"n": e}], "resources": [cm("<< inputs.n >>-<< inputs.unset >>")]}));
        }),
        ("copyFrom", |c, e| {
            let mut object = cm("copy");
            object["metadata"]["annotations"]["fluxcd.controlplane.io/copyFrom"] = format!("{NS}/{e}").into();
            c.set(json!({"resources": [object]}));
        }),
        ("forced set", |c, e| {
            let force = json!({"metadata": {"annotations": {"fluxcd.controlplane.io/force": "enabled"}}});
            c.change("ResourceSet", "set", force);
            let mut object = cm("set-one");
            object["data"] = json!({"a": e});
            c.set(json!({"resources": [object]}));
        }),
        ("provider", |c, e| {
            let values = json!({"type": "Static", "defaultValues": {"n": e}});
            c.add(flux_object("fluxcd.controlplane.io/v1", "ResourceSetInputProvider", "inputs", values));
            c.set(json!({"inputsFrom": [{"kind": "ResourceSetInputProvider", "name": "inputs"}]}));
        }),
        ("key of a provider", |c, e| {
            let values = json!({"type": "Static", "defaultValues": {e: "a"}});
            c.add(flux_object("fluxcd.controlplane.io/v1", "ResourceSetInputProvider", "inputs", values));
            c.set(json!({"inputsFrom": [{"kind": "ResourceSetInputProvider", "name": "inputs"}]}));
        }),
        ("provider of a live set", |c, e| {
            let provider = |value: &str| {
                let values = json!({"type": "Static", "defaultValues": {"n": value}});
                flux_object("fluxcd.controlplane.io/v1", "ResourceSetInputProvider", "inputs", values)
            };
            let from = json!([{"kind": "ResourceSetInputProvider", "name": "inputs"}]);
            c.set(json!({ "inputsFrom": from }));
            for object in c.before.iter_mut().filter(|object| object["kind"] == "ResourceSet") {
                object["spec"]["inputsFrom"] = from.clone();
            }
            c.before.push(provider("two"));
            c.add(provider(e));
        }),
        ("provider with labels", |c, e| {
            let values = json!({"type": "Static", "defaultValues": {"n": e}});
            let mut provider = flux_object("fluxcd.controlplane.io/v1", "ResourceSetInputProvider", e, values);
            provider["metadata"]["labels"] = json!({"a": e});
            c.add(provider);
            c.set(json!({"inputsFrom": [{"selector": {"matchLabels": {"a": e}}}]}));
        }),
        ("set in steps", |c, e| c.set(json!({"resources": null, "steps": [{"name": e, "resources": [cm(e)]}]}))),
        ("removed set", |c, e| {
            c.after.retain(|object| object["kind"] != "ResourceSet");
            c.before.retain(|object| object["kind"] != "ResourceSet");
            c.before.push(set("set", json!({"serviceAccountName": e, "inputs": [{"n": e}]})));
        }),
    ]
}
