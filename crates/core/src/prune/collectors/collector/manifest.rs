//! Manifests that a collector compares with the cluster: their identities, without content.

use std::collections::HashMap;
use std::fmt;

use serde_json::Value;

use crate::kubernetes::object::ObjectId;
use crate::ownership::schemes::flux_v1::MARK;
use crate::ownership::schemes::qbec::COMPONENT;

/// Origin of a manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ManifestOrigin {
    /// File, or `standard input`.
    pub file: String,
    /// Number of the document in the file, from 1.
    pub document: usize,
}

impl fmt::Display for ManifestOrigin {
    /// Writes `deploy/web.yaml, document 2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, document {}", self.file, self.document)
    }
}

/// A manifest of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalManifest {
    /// Identity as written: the namespace is empty if the manifest names none, the name if it is generated.
    pub id: ObjectId,
    /// Version of the API, without the group.
    pub version: String,
    /// Value of `metadata.generateName` if there is no name.
    pub generate_name: Option<String>,
    /// Value of qbec's component annotation.
    pub component: Option<String>,
    /// Label of Flux v1 that was exported from a cluster with the manifest. fluxd does not change it.
    pub exported_mark: Option<String>,
    pub origin: ManifestOrigin,
}

/// Returns the manifests of a document: the document, or the items of a List. A kind that ends in `List` but has no items
/// is an object, although fluxd drops it (docs/reference/qbec-and-flux-v1.md, F18). The error names the missing field but
/// does not name the origin.
pub fn read_manifests(document: &Value, origin: &ManifestOrigin) -> Result<Vec<LocalManifest>, String> {
    let kind = document.get("kind").and_then(Value::as_str).unwrap_or_default();
    match document.get("items").and_then(Value::as_array) {
        Some(items) if kind.ends_with("List") => {
            let mut manifests = vec![];
            for (index, item) in items.iter().enumerate() {
                let item = read_manifests(item, origin);
                manifests.extend(item.map_err(|problem| format!("item {} of the {kind} {problem}", index + 1))?);
            }
            Ok(manifests)
        }
        _ => Ok(vec![read_manifest(document, kind, origin)?]),
    }
}

fn read_manifest(document: &Value, kind: &str, origin: &ManifestOrigin) -> Result<LocalManifest, String> {
    if !document.is_object() {
        return Err("is not an object".to_owned());
    }
    if kind.is_empty() {
        return Err("has no kind".to_owned());
    }
    let metadata = document.get("metadata").unwrap_or(&Value::Null);
    let api_version = text(document, "apiVersion").ok_or_else(|| format!("has no apiVersion ({kind})"))?;
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let generate_name = text(metadata, "generateName");
    let name = match (text(metadata, "name"), generate_name) {
        (Some(name), _) => name,
        (None, Some(_)) => "",
        (None, None) => return Err(format!("has no metadata.name ({kind})")),
    };
    Ok(LocalManifest {
        id: ObjectId::new(group, kind, text(metadata, "namespace").unwrap_or_default(), name),
        version: version.to_owned(),
        generate_name: generate_name.filter(|_| name.is_empty()).map(str::to_owned),
        component: metadata.get("annotations").and_then(|keys| text(keys, COMPONENT)).map(str::to_owned),
        exported_mark: metadata.get("labels").and_then(|keys| text(keys, MARK)).map(str::to_owned),
        origin: origin.clone(),
    })
}

/// Returns the non-empty text of a field.
fn text<'a>(object: &'a Value, field: &str) -> Option<&'a str> {
    object.get(field)?.as_str().filter(|text| !text.is_empty())
}

/// Fails if two manifests have the same key; the message names both origins.
pub(crate) fn refuse_duplicates<'l>(locals: impl Iterator<Item = (&'l LocalManifest, String)>) -> Result<(), String> {
    let mut seen: HashMap<String, &LocalManifest> = HashMap::new();
    for (local, key) in locals {
        if let Some(first) = seen.get(&key) {
            return Err(format!("{key} is in the manifests twice: in {} and in {}", first.origin, local.origin));
        }
        seen.insert(key, local);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_name_the_missing_field() {
        let rows = [
            ("no kind", json!({"apiVersion": "v1", "metadata": {"name": "a"}}), "has no kind"),
            ("no name", json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}}), "has no metadata.name (Pod)"),
            ("no version", json!({"kind": "Pod", "metadata": {"name": "a"}}), "has no apiVersion (Pod)"),
            ("a text", json!("kind: Pod"), "is not an object"),
            (
                "in a list",
                json!({"kind": "List", "items": [{"apiVersion": "v1", "kind": "Pod"}]}),
                "item 1 of the List has no metadata.name (Pod)",
            ),
        ];
        for (name, document, message) in rows {
            assert_eq!(read_manifests(&document, &ManifestOrigin::default()).unwrap_err(), message, "{name}");
        }
    }

    fn config_map(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
    }

    fn ids_in(document: Value) -> Vec<String> {
        let locals = read_manifests(&document, &ManifestOrigin::default()).unwrap();
        locals.iter().map(|local| local.id.to_string()).collect()
    }

    #[test]
    fn only_lists_with_items_are_unpacked() {
        assert_eq!(
            ids_in(json!({"kind": "List", "items": [config_map("a"), config_map("b")]})),
            ["configmap/a", "configmap/b"]
        );
        assert_eq!(ids_in(json!({"kind": "ConfigMapList", "items": [config_map("a")]})), ["configmap/a"]);
        assert_eq!(ids_in(json!({"kind": "List", "items": []})).len(), 0);
        let lookalike = json!({"apiVersion": "x.io/v1", "kind": "AllowList", "metadata": {"name": "a"}});
        assert_eq!(ids_in(lookalike), ["allowlist.x.io/a"]);
    }

    #[test]
    fn a_generated_name_is_empty() {
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"generateName": "job-"}});
        let job = read_manifests(&job, &ManifestOrigin::default()).unwrap().remove(0);
        assert_eq!((&*job.id.name, job.generate_name.as_deref()), ("", Some("job-")));
    }

    fn manifest_from(file: &str) -> LocalManifest {
        LocalManifest {
            id: ObjectId::new("", "ConfigMap", "a", "b"),
            version: "v1".to_owned(),
            generate_name: None,
            component: None,
            exported_mark: None,
            origin: ManifestOrigin { file: file.to_owned(), document: 1 },
        }
    }

    #[test]
    fn duplicates_are_refused_with_both_origins() {
        let manifests = [manifest_from("a.yaml"), manifest_from("b.yaml")];
        let error = refuse_duplicates(manifests.iter().map(|local| (local, local.id.to_string()))).unwrap_err();
        assert_eq!(
            error,
            "configmap/b -n a is in the manifests twice: in a.yaml, document 1 and in b.yaml, document 1"
        );
    }
}
