//! The source and the Kustomization of `spec.sync` of a FluxInstance.

use serde_json::{Value, json};

use crate::flux::kinds::KUSTOMIZE_CONTROLLER;
use crate::kubernetes::object::{flag_at, text_at};

/// Fails if `spec.sync` changes in a way that creates, renames or deletes an object.
pub(super) fn check_change(old: &Value, new: &Value) -> Result<(), String> {
    match [old, new].map(|spec| spec.get("sync").is_some_and(Value::is_object)) {
        [true, true] => {}
        [false, false] => return Err("it has no spec.sync".to_owned()),
        [true, false] => return Err("flux-operator deletes its source and its Kustomization".to_owned()),
        [false, true] => return Err("flux-operator creates or takes over its source and its Kustomization".to_owned()),
    }
    for field in ["kind", "name"] {
        if old["sync"].get(field) != new["sync"].get(field) {
            return Err(format!("the effect of spec.sync.{field} is not computed"));
        }
    }
    Ok(())
}

/// Returns the manifest of the source, without its interval, which changes nothing by itself.
pub(super) fn source(spec: &Value, namespace: &str) -> Value {
    let sync = &spec["sync"];
    let (kind, url, reference) = (text_at(sync, "/kind"), text_at(sync, "/url"), text_at(sync, "/ref"));
    let mut source = match kind {
        "Bucket" => json!({"bucketName": reference, "endpoint": url}),
        "OCIRepository" => json!({"ref": {"tag": reference}, "url": url}),
        _ => json!({"ref": {"name": reference}, "url": url}),
    };
    if let Some(secret) = sync.get("pullSecret").filter(|secret| **secret != "") {
        source["secretRef"] = json!({"name": secret});
    }
    if let Some(provider) = sync.get("provider").filter(|provider| **provider != "") {
        source["provider"] = provider.clone();
    }
    manifest("source.toolkit.fluxcd.io/v1", kind, name(sync, namespace), namespace, source)
}

/// Returns the manifest of the Kustomization, without the patches of the spec. With `spec.cluster.multitenant` it has the account of
/// kustomize-controller.
///
/// Source: flux-operator v0.58.1 `internal/builder/profiles.go`, `profileClusterMultitenant`.
pub(super) fn kustomization(spec: &Value, namespace: &str) -> Value {
    let sync = &spec["sync"];
    let own_name = name(sync, namespace);
    let is_multitenant = flag_at(spec, "/cluster/multitenant");
    let mut spec = json!({
        "interval": "10m0s",
        "path": sync["path"],
        "prune": true,
        "sourceRef": {"kind": sync["kind"], "name": own_name},
    });
    if is_multitenant {
        spec["serviceAccountName"] = KUSTOMIZE_CONTROLLER.into();
    }
    manifest("kustomize.toolkit.fluxcd.io/v1", "Kustomization", own_name, namespace, spec)
}

/// Returns a spec of a source or a Kustomization in one form: without flags that are off, and with one notation for its path and
/// its reference. `flux bootstrap` writes others than flux-operator.
pub(super) fn comparable(spec: &Value) -> Value {
    let mut fields = spec.as_object().cloned().unwrap_or_default();
    fields.retain(|_, value| *value != Value::Bool(false));
    if let Some(path) = fields.get_mut("path") {
        *path = path.as_str().unwrap_or_default().trim_start_matches("./").trim_matches('/').into();
    }
    if let Some(reference) =
        fields.get_mut("ref").filter(|reference| reference.as_object().is_some_and(|it| it.len() == 1))
    {
        for (field, prefix) in [("branch", "refs/heads/"), ("tag", "refs/tags/")] {
            if let (Some(name), true) = (reference.get(field).and_then(Value::as_str), spec.get("url").is_some()) {
                *reference = json!({"name": format!("{prefix}{name}")});
                break;
            }
        }
    }
    Value::Object(fields)
}

/// Returns the name of the source and of the Kustomization.
fn name<'s>(sync: &'s Value, namespace: &'s str) -> &'s str {
    match text_at(sync, "/name") {
        "" => namespace,
        name => name,
    }
}

fn manifest(api_version: &str, kind: &str, name: &str, namespace: &str, spec: Value) -> Value {
    let metadata = json!({"name": name, "namespace": namespace});
    json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})
}
