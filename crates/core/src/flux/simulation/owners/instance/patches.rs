//! Patches of a FluxInstance for its Kustomization: merges of maps, and JSON patches of its spec.
//!
//! Source: kustomize v5.8.1 `api/types/selector.go` and `api/resource`, `ApplySmPatch`.

use serde_json::{Map, Value};

use crate::kubernetes::object::text_at;
use crate::text::unescape_step;

/// Reason why a patch is not evaluated.
const NOT_EVALUATED: &str = "a patch of its Kustomization cannot be evaluated here";

/// Returns the patches of a spec that do not select only the Kustomization.
pub(super) fn other_patches(spec: &Value) -> Vec<&Value> {
    patches(spec).filter(|patch| !matches!(kinds(patch).as_deref(), Some(["Kustomization"]))).collect()
}

/// Returns true if a patch of a spec selects an object, or may select it.
pub(super) fn selected_by_any(manifest: &Value, spec: &Value) -> bool {
    patches(spec).any(|patch| selects(patch, manifest) != Some(false))
}

/// Returns the manifest of the Kustomization after the patches of a spec.
///
/// Fails with the reason why a patch is not evaluated.
pub(super) fn patched(mut manifest: Value, spec: &Value) -> Result<Value, String> {
    for patch in patches(spec) {
        match selects(patch, &manifest) {
            Some(false) => {}
            Some(true) if patch.get("options").is_none_or(Value::is_null) => apply(&mut manifest, patch)?,
            _ => return Err("it is not known if a patch selects its Kustomization".to_owned()),
        }
    }
    Ok(manifest)
}

fn patches(spec: &Value) -> impl Iterator<Item = &Value> {
    spec.pointer("/kustomize/patches").and_then(Value::as_array).into_iter().flatten()
}

/// Returns the kinds that a patch selects; `None` if they are not a word, or words in an alternative.
fn kinds(patch: &Value) -> Option<Vec<&str>> {
    let kind = text_at(patch, "/target/kind");
    let words: Vec<&str> = kind.split(['(', ')', '|']).filter(|word| !word.is_empty()).collect();
    let are_words = words.iter().all(|word| word.chars().all(|character| character.is_ascii_alphanumeric()));
    (!words.is_empty() && are_words).then_some(words)
}

/// Returns true if a patch selects an object; `None` if that is not evaluated.
fn selects(patch: &Value, manifest: &Value) -> Option<bool> {
    let (group, version) = text_at(manifest, "/apiVersion").split_once('/')?;
    if !kinds(patch)?.contains(&text_at(manifest, "/kind")) {
        return Some(false);
    }
    if ["labelSelector", "annotationSelector"].iter().any(|field| patch["target"].get(field).is_some()) {
        return None;
    }
    let (name, namespace) = (text_at(manifest, "/metadata/name"), text_at(manifest, "/metadata/namespace"));
    for (field, value) in [("group", group), ("version", version), ("name", name), ("namespace", namespace)] {
        let pattern = text_at(patch, &format!("/target/{field}"));
        if pattern.is_empty() || pattern == value {
            continue;
        }
        // The pattern is a regular expression.
        let is_word = pattern.chars().all(|character| character.is_ascii_alphanumeric() || character == '-');
        return is_word.then_some(false);
    }
    Some(true)
}

fn apply(manifest: &mut Value, patch: &Value) -> Result<(), String> {
    match crate::yaml::document(text_at(patch, "/patch")) {
        Ok(Value::Array(operations)) => operations.iter().try_for_each(|operation| change(manifest, operation)),
        Ok(Value::Object(fields)) => {
            let mut marks =
                fields.get("metadata").and_then(Value::as_object).into_iter().flat_map(|fields| fields.keys());
            let has_more = fields.keys().any(|key| !["apiVersion", "kind", "metadata", "spec"].contains(&key.as_str()));
            if has_more || marks.any(|key| !["name", "namespace"].contains(&key.as_str())) {
                return Err(NOT_EVALUATED.to_owned());
            }
            fields.get("spec").map_or(Ok(()), |spec| merge(&mut manifest["spec"], spec))
        }
        _ => Err(NOT_EVALUATED.to_owned()),
    }
}

/// Merges a patch into a value. A list takes the place of a value that is none.
fn merge(target: &mut Value, patch: &Value) -> Result<(), String> {
    let (Value::Object(fields), Value::Object(patch)) = (&mut *target, patch) else {
        let is_evaluated = !target.is_array() && !target.is_object() && !has_directive(patch);
        *target = patch.clone();
        return if is_evaluated { Ok(()) } else { Err(NOT_EVALUATED.to_owned()) };
    };
    for (key, value) in patch {
        if key.starts_with('$') {
            return Err(NOT_EVALUATED.to_owned());
        }
        if value.is_null() {
            fields.remove(key);
        } else {
            merge(fields.entry(key.clone()).or_insert(Value::Null), value)?;
        }
    }
    Ok(())
}

/// Returns true if a patch has a directive, or removes a field of a map that does not exist.
fn has_directive(patch: &Value) -> bool {
    match patch {
        Value::Array(items) => items.iter().any(has_directive),
        Value::Object(fields) => {
            fields.iter().any(|(key, value)| key.starts_with('$') || value.is_null() || has_directive(value))
        }
        _ => false,
    }
}

/// Applies an operation of a JSON patch to the spec of a manifest.
fn change(manifest: &mut Value, operation: &Value) -> Result<(), String> {
    let path = text_at(operation, "/path");
    let (parent, escaped) = path.rsplit_once('/').filter(|_| path.starts_with("/spec/")).ok_or(NOT_EVALUATED)?;
    let last = unescape_step(escaped);
    let value = operation.get("value").cloned();
    let changed = match (manifest.pointer_mut(parent), text_at(operation, "/op")) {
        (Some(Value::Object(fields)), op) => change_field(fields, last, op, value),
        (Some(Value::Array(items)), "add") if last == "-" => value.map(|value| items.push(value)),
        _ => None,
    };
    Ok(changed.ok_or(NOT_EVALUATED)?)
}

/// Changes a field of a map; `None` if the operation does not apply.
fn change_field(fields: &mut Map<String, Value>, field: String, op: &str, value: Option<Value>) -> Option<()> {
    match (op, value) {
        ("add", Some(value)) => drop(fields.insert(field, value)),
        ("replace", Some(value)) => *fields.get_mut(&field)? = value,
        ("remove", _) => drop(fields.remove(&field)?),
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kustomization() -> Value {
        json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": {"name": "flux-system", "namespace": "flux-system"},
            "spec": {"path": "a", "prune": true, "components": ["x"], "sourceRef": {"kind": "GitRepository"}}})
    }

    fn after(target: Value, patch: &str) -> Result<Value, String> {
        let spec = json!({"kustomize": {"patches": [{"target": target, "patch": patch}]}});
        patched(kustomization(), &spec).map(|manifest| manifest["spec"].clone())
    }

    #[test]
    fn a_patch_of_the_kustomization_is_merged_or_applied() {
        let own = || json!({"kind": "Kustomization"});
        let rows = [
            ("spec: {path: b}", json!({"path": "b"})),
            ("kind: Kustomization\nmetadata: {name: all}\nspec: {prune: null, wait: true}", json!({"wait": true})),
            ("spec: {postBuild: {substitute: {a: b}}}", json!({"postBuild": {"substitute": {"a": "b"}}})),
            ("[{op: add, path: /spec/wait, value: true}, {op: remove, path: /spec/prune}]", json!({"wait": true})),
            ("[{op: replace, path: /spec/path, value: b}]", json!({"path": "b"})),
            ("[{op: add, path: /spec/components/-, value: y}]", json!({"components": ["x", "y"]})),
            ("[{op: replace, path: /spec/sourceRef/kind, value: Bucket}]", json!({"sourceRef": {"kind": "Bucket"}})),
        ];
        for (patch, expected) in rows {
            let found = after(own(), patch).unwrap();
            for (field, value) in expected.as_object().unwrap() {
                assert_eq!(found[field], *value, "{patch}");
            }
            assert_eq!(found.get("prune").is_none(), patch.contains("prune"), "{patch}");
        }
    }

    #[test]
    fn a_patch_that_is_not_evaluated_says_so() {
        for patch in [
            "$patch: delete\nkind: Kustomization\n",
            "metadata: {labels: {a: b}}",
            "spec: {components: [y]}",
            "spec: {sourceRef: {$patch: replace}}",
            "[{op: replace, path: /spec/none, value: 1}]",
            "[{op: remove, path: /spec/components/0}]",
            "[{op: move, from: /spec/path, path: /spec/x}]",
            "[{op: add, path: /metadata/labels, value: {a: b}}]",
            "a: [",
            "text",
        ] {
            assert_eq!(after(json!({"kind": "Kustomization"}), patch), Err(NOT_EVALUATED.to_owned()), "{patch}");
        }
    }

    #[test]
    fn a_target_selects_by_all_of_its_fields() {
        let rows = [
            (json!({"kind": "Kustomization", "name": "flux-system"}), Some(true)),
            (json!({"kind": "(Deployment|Kustomization)", "group": "kustomize.toolkit.fluxcd.io"}), Some(true)),
            (json!({"kind": "Deployment"}), Some(false)),
            (json!({"kind": "(Deployment|Namespace)", "name": ".*"}), Some(false)),
            (json!({"kind": "Kustomization", "name": "other"}), Some(false)),
            (json!({"kind": "Kustomization", "name": "flux-.*"}), None),
            (json!({"kind": "Kustomization", "labelSelector": "a=b"}), None),
            (json!({"kind": "Kust.*"}), None),
            (json!({"name": "flux-system"}), None),
            (Value::Null, None),
        ];
        for (target, expected) in rows {
            assert_eq!(
                selects(&json!({"target": target, "patch": "spec: {}"}), &kustomization()),
                expected,
                "{target}"
            );
        }
    }
}
