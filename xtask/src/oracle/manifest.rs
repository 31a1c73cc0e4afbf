//! Short notation for repositories, one line per file.
//!
//! * `PATH: OBJECT | OBJECT …` is a file of manifests. Objects are `cm NAME`, `ns NAME`, `ks NAME PATH`, … with options
//!   `key=value`.
//!   `json:FIELD=JSON` is a field of an object, or of the spec of a Flux object; `~` is a space.
//! * `PATH:: TEXT` is a text file; `;;` ends a line.
//! * `PATH -> TARGET` is a symlink.
//! * `PATH/` is an empty directory.
//! * `-PATH` removes a file or a folder.
//!
//! `@` is the prefix and the namespace of the scenario.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// Files of a repository by path.
pub(super) type Files = BTreeMap<String, File>;

/// A file of a repository.
#[derive(Clone, Debug)]
pub(super) enum File {
    /// Regular file with this text.
    Text(String),
    /// Symlink to this target.
    Link(String),
    /// Empty directory.
    Directory,
}

/// Applies lines of the notation to a repository.
pub(super) fn edit(files: &mut Files, lines: &[String], prefix: &str) -> Result<()> {
    for line in lines {
        let line = line.replace('@', prefix);
        if let Some(path) = line.strip_prefix('-') {
            let inside = format!("{path}/");
            let before = files.len();
            files.retain(|file, _| file != path && !file.starts_with(&inside));
            if files.len() == before {
                bail!("nothing to remove at {path}");
            }
        } else if let Some((path, text)) = line.split_once(":: ") {
            files.insert(path.to_owned(), File::Text(text.replace(";;", "\n") + "\n"));
        } else if let Some((path, target)) = line.split_once(" -> ") {
            files.insert(path.to_owned(), File::Link(target.to_owned()));
        } else if let Some(path) = line.strip_suffix('/') {
            files.insert(path.to_owned(), File::Directory);
        } else {
            let (path, objects) = line.split_once(": ").with_context(|| format!("{line:?} has no path"))?;
            let objects: Result<Vec<String>> =
                objects.split(" | ").map(|text| Ok(object(text, prefix)?.to_string())).collect();
            files.insert(path.to_owned(), File::Text(objects?.join("\n---\n") + "\n"));
        }
    }
    Ok(())
}

/// Returns the manifest of one object in short notation.
pub(super) fn object(text: &str, prefix: &str) -> Result<Value> {
    let mut words = text.split_whitespace();
    let (kind, name) = words.next().zip(words.next()).with_context(|| format!("{text:?} is not an object"))?;
    let words: Vec<&str> = words.collect();
    let (options, plain): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| word.contains('='));
    let options: BTreeMap<&str, &str> = options.iter().filter_map(|word| word.split_once('=')).collect();
    let mut manifest = match kind {
        "cm" => json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"v": options.get("v").unwrap_or(&"1")}}),
        "ns" => json!({"apiVersion": "v1", "kind": "Namespace"}),
        "sa" => json!({"apiVersion": "v1", "kind": "ServiceAccount"}),
        "cr" => json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": []}),
        "svc" => {
            let mut port = json!({"port": options.get("port").unwrap_or(&"80").parse::<u32>()?});
            let mut spec = json!({"clusterIP": options.get("ip").unwrap_or(&"None")});
            if let Some(node_port) = options.get("nodeport") {
                port["nodePort"] = port_number(node_port, prefix)?.into();
                spec["type"] = "NodePort".into();
                spec.as_object_mut().filter(|_| !options.contains_key("ip")).and_then(|spec| spec.remove("clusterIP"));
            }
            spec["ports"] = json!([port]);
            json!({"apiVersion": "v1", "kind": "Service", "spec": spec})
        }
        "deploy" => json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "spec": {"replicas": options.get("replicas").unwrap_or(&"1").parse::<u32>()?,
            "selector": {"matchLabels": {"a": selects(name, &options)}},
            "template": {"metadata": {"labels": {"a": selects(name, &options)}}, "spec": pod(&options)}}}),
        "claim" => json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": options.get("class").unwrap_or(&""),
                "volumeName": options.get("volume").unwrap_or(&""),
                "resources": {"requests": {"storage": options.get("size").unwrap_or(&"1Gi")}}}}),
        "volume" => json!({"apiVersion": "v1", "kind": "PersistentVolume",
            "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"},
                "persistentVolumeReclaimPolicy": options.get("reclaim").unwrap_or(&"Retain"),
                "hostPath": {"path": "/none"}}}),
        "pod" => json!({"apiVersion": "v1", "kind": "Pod", "spec": pod(&options)}),
        "crd" => crd(name, &options),
        "widget" => {
            let version = options.get("version").unwrap_or(&"v1");
            let mut widget = json!({"apiVersion": format!("{prefix}.example.com/{version}"), "kind": "Widget"});
            for field in ["size", "typo"] {
                if let Some(value) = options.get(field) {
                    widget["spec"][field] = (*value).into();
                }
            }
            widget
        }
        // A kind that no definition serves.
        "unserved" => json!({"apiVersion": "unserved.example.com/v1", "kind": "Unserved"}),
        "class" => json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "h"}),
        "quota" => {
            let count = options.get("cm").unwrap_or(&"1").parse::<u32>()?;
            json!({"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"count/configmaps": count}}})
        }
        "grant" => json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": plain.first(), "namespace": prefix}]}),
        "secret" => {
            json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"v": options.get("v").unwrap_or(&"1")}})
        }
        "role" => {
            let verbs: Vec<&str> = options.get("verbs").unwrap_or(&"get").split(',').collect();
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
                "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": verbs}]})
        }
        "bind" => json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": options.get("as").unwrap_or(&name), "namespace": prefix}]}),
        "policy" => policy(options.get("op").unwrap_or(&"DELETE"), options.get("deny").unwrap_or(&"denied")),
        "binding" => {
            let namespace = options.get("in").unwrap_or(&prefix);
            let mut selector = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
            if let Some(label) = options.get("exempt") {
                selector["matchExpressions"] = json!([{"key": label, "operator": "DoesNotExist"}]);
            }
            json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "spec": {"policyName": name, "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": selector}}})
        }
        "ks" => kustomization(plain.first().copied().unwrap_or_default(), &options)?,
        "hr" => release(plain.first().copied(), &options)?,
        "rset" => owner("ResourceSet", json!({}), &options)?,
        "inputs" => owner("ResourceSetInputProvider", json!({"type": "Static"}), &options)?,
        other => bail!("no notation for {other:?}"),
    };
    let clustered = matches!(kind, "ns" | "cr" | "volume" | "crd" | "grant" | "policy" | "binding" | "class");
    if kind != "crd" {
        manifest["metadata"]["name"] = name.into();
    }
    if !clustered && options.get("ns") != Some(&"none") {
        manifest["metadata"]["namespace"] = (*options.get("ns").unwrap_or(&prefix)).into();
    }
    for key in ["prune", "reconcile", "ssa", "force", "substitute"] {
        // These two are fields of a Kustomization too.
        let is_field = kind == "ks" && matches!(key, "prune" | "force");
        let option = if is_field { format!("mark-{key}") } else { key.to_owned() };
        if let Some(value) = options.get(option.as_str()) {
            manifest["metadata"]["annotations"][format!("kustomize.toolkit.fluxcd.io/{key}")] = (*value).into();
        }
    }
    if let Some(finalizer) = options.get("finalizer") {
        manifest["metadata"]["finalizers"] = json!([finalizer]);
    }
    if options.contains_key("immutable") {
        manifest["immutable"] = true.into();
    }
    for (key, value) in &options {
        if let Some(label) = key.strip_prefix("label:") {
            manifest["metadata"]["labels"][label] = (*value).into();
        }
        if let Some(annotation) = key.strip_prefix("note:") {
            manifest["metadata"]["annotations"][annotation] = (*value).into();
        }
        let has_spec = matches!(kind, "ks" | "hr" | "rset" | "inputs");
        if let Some(field) = key.strip_prefix("json:").filter(|_| !has_spec) {
            manifest[field] = serde_json::from_str(value).with_context(|| (*value).to_owned())?;
        }
    }
    Ok(manifest)
}

/// Returns the selector of a Deployment, an immutable field: its name, or the option `selects`.
fn selects<'a>(name: &'a str, options: &BTreeMap<&str, &'a str>) -> &'a str {
    options.get("selects").copied().unwrap_or(name)
}

/// Returns the spec of a Pod, on the node `node` if there is one, that mounts `claim`.
fn pod(options: &BTreeMap<&str, &str>) -> Value {
    let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
    if let Some(node) = options.get("node") {
        spec["nodeName"] = (*node).into();
    }
    if let Some(claim) = options.get("claim") {
        spec["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
    }
    spec
}

/// Returns a node port: a number, or one of the four ports of a scenario, such as `@1`.
fn port_number(text: &str, prefix: &str) -> Result<u32> {
    let Some(port) = text.strip_prefix(prefix) else { return Ok(text.parse()?) };
    let scenario: u32 = prefix.trim_matches(char::is_alphabetic).parse()?;
    Ok(30_000 + (4 * scenario + port.parse::<u32>()? % 4) % 1_000)
}

/// Returns a policy that denies the deletion of the ConfigMap of this name, or else this value in a ConfigMap.
fn policy(operation: &str, denied: &str) -> Value {
    let expression = match operation {
        "DELETE" => format!("oldObject.metadata.name != '{denied}'"),
        _ => format!("!has(object.data) || !('v' in object.data) || object.data.v != '{denied}'"),
    };
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "spec": {"failurePolicy": "Fail", "validations": [{"expression": expression}],
            "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
                "operations": [operation], "resources": ["configmaps"]}]}}})
}

/// Returns the CRD of a namespaced kind Widget in the group `group`. `versions` are separated by commas: the last one is
/// stored, and one with a `-` in front is not served. With `values`, `spec.size` has one of these values and there are no
/// other fields.
fn crd(group: &str, options: &BTreeMap<&str, &str>) -> Value {
    let names: Vec<&str> = options.get("versions").unwrap_or(&"v1").split(',').collect();
    let values: Option<Vec<&str>> = options.get("values").map(|values| values.split(',').collect());
    let schema = match values {
        Some(values) => json!({"type": "object", "properties": {"spec": {"type": "object",
            "properties": {"size": {"type": "string", "enum": values}}}}}),
        None => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
    };
    let version = |name: &&str| {
        let is_stored = names.last() == Some(name);
        json!({"name": name.trim_start_matches('-'), "served": !name.starts_with('-'), "storage": is_stored,
            "schema": {"openAPIV3Schema": schema}})
    };
    let versions: Vec<Value> = names.iter().map(version).collect();
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {"group": group, "scope": options.get("scope").unwrap_or(&"Namespaced"),
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
            "versions": versions}})
}

fn kustomization(path: &str, options: &BTreeMap<&str, &str>) -> Result<Value> {
    let mut spec = json!({"interval": "4s", "retryInterval": "2s", "timeout": "30s", "path": path, "prune": true,
        "sourceRef": {"kind": "GitRepository", "name": "repo"}});
    for (key, value) in options {
        match *key {
            "prune" | "suspend" | "force" | "wait" | "ignoreMissingComponents" => {
                spec[*key] = value.parse::<bool>()?.into()
            }
            "deletionPolicy" | "interval" | "targetNamespace" | "namePrefix" | "nameSuffix" | "serviceAccountName" => {
                spec[*key] = (*value).into();
            }
            "dependsOn" => spec["dependsOn"] = value.split(',').map(|name| json!({"name": name})).collect(),
            "source" => spec["sourceRef"]["namespace"] = (*value).into(),
            "components" => spec["components"] = value.split(',').collect(),
            "from" => {
                let names = value.split(',');
                spec["postBuild"]["substituteFrom"] =
                    names.map(|name| json!({"kind": "ConfigMap", "name": name})).collect();
            }
            "patch" => {
                spec["patches"] =
                    json!([{"patch": value.replace(";;", "\n").replace('~', " "), "target": {"kind": "ConfigMap"}}])
            }
            "common" => spec["commonMetadata"] = json!({"labels": {"kustomize.toolkit.fluxcd.io/name": value}}),
            "mark-prune" | "mark-force" | "reconcile" | "ssa" | "substitute" | "ns" | "finalizer" => {}
            other => match other.split_once(':') {
                Some(("var", name)) => spec["postBuild"]["substitute"][name] = (*value).into(),
                Some(("json", field)) => {
                    spec[field] = serde_json::from_str(&value.replace('~', " ")).with_context(|| value.to_string())?;
                }
                Some(("label" | "note", _)) => {}
                _ => bail!("a Kustomization has no option {other:?}"),
            },
        }
    }
    Ok(json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "spec": spec}))
}

/// Returns a HelmRelease of the chart at a path of the repository. It does not wait for its objects.
fn release(path: Option<&str>, options: &BTreeMap<&str, &str>) -> Result<Value> {
    let mut spec =
        json!({"interval": "1h", "timeout": "8s", "install": {"disableWait": true}, "upgrade": {"disableWait": true}});
    if let Some(path) = path {
        let source = json!({"kind": "GitRepository", "name": "repo"});
        spec["chart"] = json!({"spec": {"chart": path, "interval": "1h", "sourceRef": source}});
    }
    owner("HelmRelease", spec, options)
}

/// Returns an object of helm-controller or flux-operator with these fields in its spec.
fn owner(kind: &str, mut spec: Value, options: &BTreeMap<&str, &str>) -> Result<Value> {
    for (key, value) in options {
        if let Some(field) = key.strip_prefix("json:") {
            spec[field] = serde_json::from_str(&value.replace('~', " ")).with_context(|| (*value).to_owned())?;
        }
    }
    let api_version = if kind == "HelmRelease" { "helm.toolkit.fluxcd.io/v2" } else { "fluxcd.controlplane.io/v1" };
    Ok(json!({"apiVersion": api_version, "kind": kind, "spec": spec}))
}
