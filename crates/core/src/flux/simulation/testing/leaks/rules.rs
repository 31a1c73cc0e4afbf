//! Ways through expressions and rules that a plan evaluates, and through marks that choose between two things.

use serde_json::{Value, json};

use super::super::cluster::{NS, cm, ks};
use super::change::{Change, Way, definition, source, widget};
use crate::kubernetes::object::merge;

const ADMISSION: &str = "admissionregistration.k8s.io/v1";

/// Returns a policy of admission about ConfigMaps, with its binding.
fn policy(name: &str, spec: Value, binding: Value) -> [Value; 2] {
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE", "DELETE"], "resources": ["configmaps"]});
    let mut object = json!({"apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
        "spec": {"matchConstraints": {"resourceRules": [rule]}}});
    merge(&mut object["spec"], &spec);
    let mut bound = json!({"apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "bound"},
        "spec": {"policyName": name, "validationActions": ["Deny"]}});
    merge(&mut bound["spec"], &binding);
    [object, bound]
}

fn marked(name: &str, annotations: Value) -> Value {
    let mut object = cm(name);
    object["metadata"]["annotations"] = annotations;
    object["data"] = json!({"a": "changed"});
    object
}

impl Change {
    fn add_policy(&mut self, name: &str, spec: Value, binding: Value) {
        policy(name, spec, binding).into_iter().for_each(|object| self.add(object));
        self.child.push(cm("judged"));
    }
}

/// Returns the ways of expressions, rules and marks.
pub(super) fn ways() -> Vec<Way> {
    vec![
        ("bound policy", |c, e| {
            let spec = json!({"validations": [{"expression": format!("object.metadata.name != '{e}' && false"), "message": e,
                "messageExpression": format!("'{e}'")}], "variables": [{"name": "a", "expression": format!("'{e}'")}],
                "matchConditions": [{"name": e, "expression": "true"}]});
            c.add_policy(e, spec, json!({}));
        }),
        ("binding with a value", |c, e| {
            let selector =
                json!({"matchLabels": {e: e}, "matchExpressions": [{"key": e, "operator": e, "values": [e]}]});
            let binding = json!({"matchResources": {"namespaceSelector": selector, "objectSelector": selector},
                "paramRef": {"name": e, "namespace": e, "parameterNotFoundAction": e}});
            c.add_policy("denies", json!({"validations": [{"expression": "false"}]}), binding);
        }),
        ("parameter of a policy", |c, e| {
            let mut parameter = cm("parameter");
            parameter["data"] = json!({"name": e});
            c.add(parameter);
            let spec = json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
                "validations": [{"expression": "object.metadata.name != params.data.name", "messageExpression": "params.data.name"}]});
            c.add_policy("compares", spec, json!({"paramRef": {"name": "parameter", "namespace": NS}}));
            c.add(cm(&format!("judged-{e}")));
        }),
        ("error of a policy", |c, e| {
            let spec = json!({"validations": [{"expression": format!("int('{e}') == 1 || {{'a': 1}}['{e}'] == 1")}]});
            c.add_policy("fails", spec, json!({}));
        }),
        ("error of readyExpr", |c, e| {
            c.child(json!({"dependsOn": [{"name": "apps", "readyExpr": format!("int('{e}') == 1 || {{'a': 1}}['{e}'] == 1")}]}));
        }),
        ("readyExpr that compares", |c, e| {
            let expression = format!("dep.metadata.name < '{e}' && dep.metadata.name.matches('({e}')");
            c.child(json!({"dependsOn": [{"name": "apps", "readyExpr": expression}]}));
            c.child.push(cm("ready"));
        }),
        ("error of healthCheckExprs", |c, e| {
            let check = |field: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", field: format!("timestamp('{e}') > timestamp('{e}')")});
            c.child(
                json!({"wait": true, "healthCheckExprs": [check("current"), check("failed"), check("inProgress")]}),
            );
            c.add(ks("waiting", "./child", json!({"dependsOn": [{"name": "child"}]})));
        }),
        ("rule of a definition", |c, e| {
            let rule = json!({"rule": format!("self.size != '{e}' && int('{e}') == 1"), "message": e, "messageExpression": format!("'{e}'")});
            c.add(definition(json!({"type": "object", "x-kubernetes-validations": [rule],
                "properties": {"size": {"type": "string", "default": e, "format": e, "maxLength": 3}}})));
            c.add(widget("small", json!({"size": e, e: e})));
        }),
        ("conversion of a definition", |c, e| {
            let mut object = definition(json!({"type": "object"}));
            object["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {"clientConfig": {"service": {"namespace": e, "name": e, "path": e}}}});
            object["spec"]["names"]["categories"] = json!([e]);
            c.add(object);
            c.add(widget("small", json!({"size": "s"})));
        }),
        ("marks of kustomize-controller", |c, e| {
            for mark in ["ssa", "force", "prune", "reconcile", "substitute"] {
                c.child.push(marked(&format!("by-{mark}"), json!({format!("kustomize.toolkit.fluxcd.io/{mark}"): e})));
                c.add(marked(&format!("of-{mark}"), json!({format!("kustomize.toolkit.fluxcd.io/{mark}"): e})));
            }
        }),
        ("marks of a live object", |c, e| {
            c.add(marked(
                "open-${OPEN}",
                json!({"kustomize.toolkit.fluxcd.io/ssa": e, "kustomize.toolkit.fluxcd.io/force": e}),
            ));
        }),
        ("hook", |c, e| {
            c.release(json!({"values": {"n": e}, "chart": {"spec": {"reconcileStrategy": "Revision"}}}));
            let mut hook = cm("hook-{{ .Values.n }}");
            hook["metadata"]["annotations"] = json!({"helm.sh/hook": "pre-upgrade", "helm.sh/hook-delete-policy": "{{ .Values.n }}",
                "helm.sh/hook-weight": "{{ .Values.n }}"});
            c.template(hook);
            let mut strange = cm("strange");
            strange["metadata"]["annotations"] = json!({"helm.sh/hook": "{{ .Values.n }}"});
            c.template(strange);
        }),
        ("types of release fields", |c, e| {
            c.release(json!({"timeout": e, "interval": e, "suspend": e, "maxHistory": e, "upgrade": {"remediation": {"retries": e}, "force": e},
                "install": {"replace": e, "crds": e}, "driftDetection": {"mode": e}, "healthCheckExprs": [{"apiVersion": e, "kind": e, "current": e}]}));
        }),
        ("chartRef elsewhere", |c, e| {
            c.release(json!({"chart": null, "chartRef": {"kind": "HelmChart", "name": "app", "namespace": e},
                "kubeConfig": {"configMapRef": {"name": e}}}));
        }),
        ("drift of a release", |c, e| {
            c.release(json!({"values": {"n": e}, "driftDetection": {"mode": "enabled"}, "chart": {"spec": {"reconcileStrategy": "Revision"}}}));
            let mut changed = cm("web");
            changed["data"] = json!({"{{ .Values.n }}": "{{ .Values.n | hex }}", "b": "{{ .Values.n | b64enc }}"});
            changed["metadata"]["labels"] = json!({"a": "{{ .Values.n }}"});
            c.templates[1][0] = changed;
        }),
        ("strategy of substitution", |c, e| {
            c.child(json!({"postBuild": {"substituteStrategy": e, "substitute": {"V": "${W}", "W": e}}}));
            c.child.push(cm("w-${W:=${V}}"));
        }),
        ("layers of an artifact", |c, e| {
            let layers = json!({"mediaType": e, "operation": e});
            c.add(source(
                "OCIRepository",
                "layers",
                json!({"url": format!("oci://{e}.example.com/{e}"),
                "ref": {"semver": e, "semverFilter": format!("({e}")}, "layerSelector": layers, "provider": e}),
            ));
            c.add(ks("of-layers", "./", json!({"sourceRef": {"kind": "OCIRepository", "name": "layers"}})));
        }),
        ("namespace with marks", |c, e| {
            c.add(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "marked", "labels": {
                "pod-security.kubernetes.io/enforce": e, e: e}}, "spec": {"finalizers": [e]}}));
        }),
    ]
}
