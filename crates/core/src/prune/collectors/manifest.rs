//! The manifests a collector compares the cluster with: identities, nothing of their content.

use std::collections::HashMap;
use std::fmt;

use serde_json::Value;

use crate::kubernetes::object::ObjectId;

/// Where a manifest was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// File, or `standard input`.
    pub file: String,
    /// Document in the file, counted from 1.
    pub document: usize,
}

impl fmt::Display for Origin {
    /// `deploy/web.yaml, document 2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, document {}", self.file, self.document)
    }
}

/// One manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalManifest {
    /// Identity with the namespace as written (empty when it has none); the name is empty when it is generated.
    pub id: ObjectId,
    /// Version, without group.
    pub version: String,
    /// `metadata.generateName`, when there is no name.
    pub generate_name: Option<String>,
    /// qbec's component, where the manifest names one.
    pub component: Option<String>,
    /// A Flux v1 mark that the manifest itself carries: exported from a cluster, and kept as it is by fluxd.
    pub exported_mark: Option<String>,
    /// Where it stands.
    pub origin: Origin,
}

/// Labels in which an exported manifest may carry a Flux v1 mark.
const EXPORTED_MARK: &str = "/metadata/labels/fluxcd.io~1sync-gc-mark";

/// The manifests of one document: itself, or the items of a List. A kind that merely ends in `List` and has no items is
/// an object of its own, though fluxd would drop it (edge case F18).
///
/// # Errors
/// A message that names what is missing; the caller adds where.
pub fn read(document: &Value, origin: &Origin) -> Result<Vec<LocalManifest>, String> {
    let kind = document.get("kind").and_then(Value::as_str).unwrap_or_default();
    match document.get("items").and_then(Value::as_array) {
        Some(items) if kind.ends_with("List") => {
            let read = |(index, item)| {
                let numbered = |problem| format!("item {} of the {kind} {problem}", index + 1);
                read(item, origin).map_err(numbered)
            };
            Ok(items.iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?.concat())
        }
        _ => Ok(vec![single(document, kind, origin)?]),
    }
}

fn single(document: &Value, kind: &str, origin: &Origin) -> Result<LocalManifest, String> {
    let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    let owned = |pointer: &str| text(pointer).map(str::to_owned);
    if !document.is_object() {
        return Err("is not an object".to_owned());
    }
    if kind.is_empty() {
        return Err("has no kind".to_owned());
    }
    let api_version = text("/apiVersion").ok_or_else(|| format!("has no apiVersion ({kind})"))?;
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let generate_name = owned("/metadata/generateName");
    let name = match (text("/metadata/name"), &generate_name) {
        (Some(name), _) => name,
        (None, Some(_)) => "",
        (None, None) => return Err(format!("has no metadata.name ({kind})")),
    };
    Ok(LocalManifest {
        id: ObjectId::new(group, kind, text("/metadata/namespace").unwrap_or_default(), name),
        version: version.to_owned(),
        generate_name: generate_name.filter(|_| name.is_empty()),
        component: owned("/metadata/annotations/qbec.io~1component"),
        exported_mark: owned(EXPORTED_MARK),
        origin: origin.clone(),
    })
}

/// Refuses two manifests of one identity; `identity` says what counts as one, `None` leaves a manifest out.
///
/// # Errors
/// A message that names both places.
pub fn refuse_duplicates<K: std::hash::Hash + Eq + fmt::Display>(
    locals: &[LocalManifest],
    identity: impl Fn(&LocalManifest) -> Option<K>,
) -> Result<(), String> {
    let mut seen: HashMap<K, &LocalManifest> = HashMap::new();
    for local in locals {
        let Some(key) = identity(local) else { continue };
        if let Some(first) = seen.get(&key) {
            return Err(format!("{key} stands twice in the manifests: in {} and in {}", first.origin, local.origin));
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
    fn what_is_missing_is_named() {
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
            assert_eq!(read(&document, &Origin::default()).unwrap_err(), message, "{name}");
        }
    }

    #[test]
    fn lists_are_unpacked_and_lookalikes_are_not() {
        let item = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let names = |document: Value| -> Vec<String> {
            let locals = read(&document, &Origin::default()).unwrap();
            locals.iter().map(|local| local.id.to_string()).collect()
        };
        assert_eq!(names(json!({"kind": "List", "items": [item("a"), item("b")]})), ["configmap/a", "configmap/b"]);
        assert_eq!(names(json!({"kind": "ConfigMapList", "items": [item("a")]})), ["configmap/a"]);
        assert_eq!(names(json!({"kind": "List", "items": []})).len(), 0);
        let lookalike = json!({"apiVersion": "x.io/v1", "kind": "AllowList", "metadata": {"name": "a"}});
        assert_eq!(names(lookalike), ["allowlist.x.io/a"]);
    }

    #[test]
    fn a_generated_name_is_no_name() {
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"generateName": "job-"}});
        let read = read(&job, &Origin::default()).unwrap().remove(0);
        assert_eq!((&*read.id.name, read.generate_name.as_deref()), ("", Some("job-")));
    }

    #[test]
    fn duplicates_are_named_with_both_places() {
        let local = |file: &str| LocalManifest {
            id: ObjectId::new("", "ConfigMap", "a", "b"),
            version: "v1".to_owned(),
            generate_name: None,
            component: None,
            exported_mark: None,
            origin: Origin { file: file.to_owned(), document: 1 },
        };
        let error = refuse_duplicates(&[local("a.yaml"), local("b.yaml")], |local| Some(local.id.clone())).unwrap_err();
        assert_eq!(
            error,
            "configmap/b -n a stands twice in the manifests: in a.yaml, document 1 and in b.yaml, document 1"
        );
    }
}
