//! Configurations of generators, transformers and validators: inline, or in files.
//!
//! Source: docs/reference/kustomize-controller.md 3.8.

use serde_json::Value;

use super::ReferenceError;
use crate::flux::build::go_yaml::{ReadError, read_manifests, to_text};
use crate::flux::build::kustomization_file::field_of;
use crate::kubernetes::object::text_at;

/// FieldTable of built-in plugins with which they open files, by kind. All other plugins open none.
const PATHS: [(&str, &[(&str, Opens)]); 7] = [
    ("ConfigMapGenerator", &[("files", Opens::Sources), ("envs", Opens::Files)]),
    ("SecretGenerator", &[("files", Opens::Sources), ("envs", Opens::Files)]),
    ("PatchTransformer", &[("path", Opens::File)]),
    ("PatchJson6902Transformer", &[("path", Opens::File)]),
    ("PatchStrategicMergeTransformer", &[("paths", Opens::Patches)]),
    ("ReplacementTransformer", &[("replacements", Opens::Replacements)]),
    ("ValueAddTransformer", &[("targetFilePath", Opens::File)]),
];

/// Kind of the value of a field that names files.
#[derive(Clone, Copy)]
enum Opens {
    File,
    Files,
    /// Files with the keys of a ConfigMap, `KEY=FILE`.
    Sources,
    /// Texts of patches, or files.
    Patches,
    /// Objects, some with a `path`.
    Replacements,
}

/// Paths in the configuration of a plugin.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Paths {
    pub(super) files: Vec<String>,
    /// Texts of patches, or files.
    pub(super) patches: Vec<String>,
}

/// An entry of a list of plugins.
pub(super) enum PluginEntry {
    Objects(Vec<Value>),
    /// A file, directory or URL.
    Reference,
}

/// Returns what an entry of a list of plugins is: kustomize takes it for a reference if it holds no objects.
pub(super) fn entry(text: &str) -> Result<PluginEntry, ReferenceError> {
    match read(text.as_bytes()) {
        Ok(values) if !values.is_empty() && values.iter().all(is_object) => Ok(PluginEntry::Objects(values)),
        Ok(values) if matches!(values.as_slice(), [Value::String(_)]) => Ok(PluginEntry::Reference),
        Ok(values) if values.is_empty() => Ok(PluginEntry::Objects(values)),
        _ => Err(ReferenceError::Unreadable(format!("{text:?} is neither a path nor the configuration of a plugin"))),
    }
}

/// Returns true if a text holds objects, and false if kustomize takes it for a path; `None` if that is not known.
pub(super) fn holds_objects(text: &str) -> Option<bool> {
    let values = read(text.as_bytes()).ok()?;
    if !values.iter().all(is_named) {
        return Some(false);
    }
    (!values.is_empty() && values.iter().all(is_object)).then_some(true)
}

/// Returns true for what has a kind and a name. A list needs no name.
fn is_named(value: &Value) -> bool {
    has_text(value, "/kind") && (has_text(value, "/metadata/name") || text_at(value, "/kind").ends_with("List"))
}

/// Reads the documents of a file; without empty ones.
pub(super) fn read(text: &[u8]) -> Result<Vec<Value>, ReadError> {
    let documents = read_manifests(text).map_err(|error| ReadError::Unsupported(error.to_string()))?;
    let values = documents.iter().map(|document| document.to_json()).collect::<Result<Vec<_>, _>>()?;
    Ok(values.into_iter().filter(|value| !value.is_null()).collect())
}

/// Writes objects in one text.
pub(super) fn text_of(objects: &[Value]) -> String {
    objects.iter().map(to_text).collect::<Vec<_>>().join("\n---\n")
}

/// Returns the file of `FILE` or `KEY=FILE`; `None` for a text that kustomize refuses.
pub(super) fn file_of_source(source: &str) -> Option<&str> {
    match source.split_once('=') {
        None => Some(source),
        Some((key, file)) => (!key.is_empty() && !file.is_empty() && !file.contains('=')).then_some(file),
    }
}

/// Returns the files that a plugin opens. Fails for a plugin that is not built in: the controller runs none.
pub(super) fn paths(object: &Value) -> Result<Paths, ReferenceError> {
    let (kind, api_version) = (text_at(object, "/kind"), text_at(object, "/apiVersion"));
    if !is_object(object) || kind.ends_with("List") {
        return Err(ReferenceError::Unreadable(format!("the configuration of a plugin is no single object: {kind}")));
    }
    if api_version != "builtin" {
        return Err(ReferenceError::Refused(format!("plugin {kind} of {api_version} is not built in")));
    }
    let mut found = Paths::default();
    let Some((_, fields)) = PATHS.iter().find(|(known, _)| *known == kind) else { return Ok(found) };
    for (key, value) in object.as_object().into_iter().flatten() {
        let Some((_, opens)) = field_of(key, fields) else { continue };
        match opens {
            Opens::File => found.files.extend(value.as_str().map(str::to_owned)),
            Opens::Files => found.files.extend(strings(value).map(str::to_owned)),
            Opens::Sources => found.files.extend(strings(value).filter_map(file_of_source).map(str::to_owned)),
            Opens::Patches => found.patches.extend(strings(value).map(str::to_owned)),
            Opens::Replacements => {
                for replacement in value.as_array().into_iter().flatten() {
                    let entries = replacement.as_object().into_iter().flatten();
                    let paths = entries.filter(|(key, _)| field_of(key, &[("path", ())]).is_some());
                    found.files.extend(paths.filter_map(|(_, path)| Some(path.as_str()?.to_owned())));
                }
            }
        }
    }
    Ok(found)
}

fn strings(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Returns true for what kustomize accepts as an object: a kind, a name, and no null in a list.
fn is_object(value: &Value) -> bool {
    ["/apiVersion", "/kind", "/metadata/name"].iter().all(|field| has_text(value, field)) && !has_null_in_list(value)
}

fn has_text(value: &Value, pointer: &str) -> bool {
    !text_at(value, pointer).is_empty()
}

fn has_null_in_list(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(|item| item.is_null() || has_null_in_list(item)),
        Value::Object(fields) => fields.values().any(has_null_in_list),
        _ => false,
    }
}
