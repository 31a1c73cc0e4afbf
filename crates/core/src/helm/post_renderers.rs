//! Post-renderers of a HelmRelease that change no identity: the objects of a release are then those of its chart, without those
//! that a patch deletes by kind and name.
//!
//! Source: helm-controller v1.6.3 `internal/postrender`; kustomize v5.8.1 `api/resource`, `ApplySmPatch`.

use serde_json::Value;

use crate::kubernetes::object::{list_at, text_at};

/// Fields that a post-renderer may have.
const FIELDS: [&str; 2] = ["images", "patches"];
/// Paths that decide which object a manifest is, or all of its annotations.
const IDENTITY: [&str; 8] =
    ["", "/", "/apiVersion", "/kind", "/metadata", "/metadata/name", "/metadata/namespace", "/metadata/annotations"];

/// Fails if `spec.postRenderers` is not followed, with the reason why the identity of an object, or its annotations for
/// Helm, can change.
pub(crate) fn check(spec: &Value) -> Result<(), String> {
    let renderers = list_at(spec, "/postRenderers").iter();
    for renderer in renderers {
        let fields = renderer.get("kustomize").and_then(Value::as_object);
        let is_known = renderer.as_object().is_some_and(|renderer| renderer.keys().all(|key| key == "kustomize"));
        if let Some(field) = fields.into_iter().flat_map(|fields| fields.keys()).find(|key| !FIELDS.contains(&&***key))
        {
            return Err(format!("its postRenderers have {field}, which is not followed"));
        }
        if !is_known {
            return Err("its postRenderers are not only kustomize".to_owned());
        }
        for patch in list_at(renderer, "/kustomize/patches") {
            if !is_neutral(patch) && removal(patch).is_none() {
                return Err("a patch of its postRenderers can remove, rename or keep an object".to_owned());
            }
        }
    }
    Ok(())
}

/// Returns the manifests of the patches that delete an object of their kind and name.
pub(crate) fn removals(spec: &Value) -> impl Iterator<Item = Value> {
    let patches = list_at(spec, "/postRenderers").iter().flat_map(|renderer| list_at(renderer, "/kustomize/patches"));
    patches.filter_map(removal)
}

/// Returns the manifest of a patch that deletes one object and does nothing else.
fn removal(patch: &Value) -> Option<Value> {
    let Ok(manifest @ Value::Object(_)) = crate::yaml::document(text_at(patch, "/patch")) else { return None };
    let is_alone = patch.get("target").is_none() && patch.get("options").is_none();
    let fields = ["$patch", "apiVersion", "kind", "metadata"];
    let is_plain = manifest.as_object()?.keys().all(|key| fields.contains(&key.as_str()));
    let is_named = ["/apiVersion", "/kind", "/metadata/name"].iter().all(|at| !text_at(&manifest, at).is_empty());
    (is_alone && is_plain && is_named && text_at(&manifest, "/$patch") == "delete").then_some(manifest)
}

/// Returns true if post-renderers can fail, for example at a patch that matches nothing. A change of images cannot,
/// and what a patch deletes is known.
pub(crate) fn can_fail(spec: &Value) -> bool {
    let mut renderers = list_at(spec, "/postRenderers").iter();
    renderers.any(|renderer| list_at(renderer, "/kustomize/patches").iter().any(|patch| removal(patch).is_none()))
}

fn is_neutral(patch: &Value) -> bool {
    let text = text_at(patch, "/patch");
    if patch.get("options").is_some() || ["$patch", "helm.sh/", "helm.sh~1"].iter().any(|mark| text.contains(mark)) {
        return false;
    }
    match crate::yaml::document(text) {
        Ok(Value::Array(operations)) => operations.iter().all(|operation| {
            let from = operation.get("from").and_then(Value::as_str);
            [operation.get("path").and_then(Value::as_str), from.or(Some("/spec"))]
                .iter()
                .all(|path| path.is_some_and(|path| !IDENTITY.contains(&path.trim_end_matches('/'))))
        }),
        Ok(Value::Object(fields)) => !fields.contains_key("$patch"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(patch: &str) -> Result<(), String> {
        check(&json!({"postRenderers": [{"kustomize": {"patches": [{"patch": patch}]}}]}))
    }

    #[test]
    fn images_and_patches_of_content_change_no_identity() {
        assert_eq!(check(&json!({})), Ok(()));
        let images = json!({"postRenderers": [{"kustomize": {"images": [{"name": "a", "newTag": "2"}]}}]});
        assert_eq!(check(&images), Ok(()));
        assert_eq!(found("kind: Deployment\nmetadata: {name: web}\nspec: {replicas: 2}\n"), Ok(()));
        assert_eq!(found("- {op: add, path: /metadata/labels/a, value: b}\n"), Ok(()));
    }

    #[test]
    fn a_patch_that_deletes_one_object_is_followed() {
        let patch = "$patch: delete\napiVersion: v1\nkind: Service\nmetadata: {name: web}\n";
        assert_eq!(found(patch), Ok(()));
        let spec = json!({"postRenderers": [{"kustomize": {"patches": [{"patch": patch}, {"patch": "kind: A\n"}]}}]});
        let names: Vec<String> = removals(&spec).map(|found| text_at(&found, "/metadata/name").to_owned()).collect();
        assert_eq!(names, ["web"]);
    }

    #[test]
    fn a_patch_that_can_remove_or_rename_an_object_is_refused() {
        for patch in [
            "$patch: delete\nkind: Deployment\nmetadata: {name: web}\n",
            "$patch: delete\napiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {}\n",
            "- {op: replace, path: /metadata/name, value: b}\n",
            "- {op: replace, path: /metadata, value: {name: b}}\n",
            "- {op: move, path: /spec/a, from: /metadata/namespace}\n",
            "- {op: remove, path: /metadata/annotations}\n",
            "- {op: add, path: /metadata/annotations/helm.sh~1resource-policy, value: keep}\n",
            "metadata: {annotations: {helm.sh/hook: pre-upgrade}}\n",
            "- {op: add}\n",
            "a: [",
        ] {
            assert!(found(patch).is_err(), "{patch}");
        }
        let renames = json!({"patch": "kind: A\n", "options": {"allowNameChange": true}});
        assert!(check(&json!({"postRenderers": [{"kustomize": {"patches": [renames]}}]})).is_err());
        assert!(check(&json!({"postRenderers": [{"kustomize": {"patchesJson6902": []}}]})).is_err());
        assert!(check(&json!({"postRenderers": [{"other": {}}]})).is_err());
    }
}
