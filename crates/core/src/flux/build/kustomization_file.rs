//! Kustomization files as the controller reads them.
//!
//! The controller reads the root file leniently and writes it again: it drops unknown fields, matches keys without case,
//! and converts scalars to text where text is expected. kustomize itself is strict.
//! Source: docs/reference/kustomize-controller.md 3.3.

use serde_json::{Map, Value};

use crate::flux::source::artifact::Artifact;
use crate::flux::source::path;

/// Names of kustomization files, in the order of precedence.
pub(super) const FILE_NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// Value that a field accepts; any other value is a build error.
enum Shape {
    Any,
    Text,
    Texts,
    TextMap,
    One(&'static [(&'static str, Shape)]),
    Many(&'static [(&'static str, Shape)]),
}

use Shape::{Any, Many, One, Text, TextMap, Texts};

const SELECTOR: &[(&str, Shape)] = &[
    ("group", Text),
    ("version", Text),
    ("kind", Text),
    ("name", Text),
    ("namespace", Text),
    ("annotationSelector", Text),
    ("labelSelector", Text),
];
const PATCH: &[(&str, Shape)] = &[("path", Text), ("patch", Text), ("target", One(SELECTOR)), ("options", Any)];
const IMAGE: &[(&str, Shape)] =
    &[("name", Text), ("newName", Text), ("tagSuffix", Text), ("newTag", Text), ("digest", Text)];
const GENERATOR_OPTIONS: &[(&str, Shape)] =
    &[("labels", TextMap), ("annotations", TextMap), ("disableNameSuffixHash", Any), ("immutable", Any)];
const GENERATED: &[(&str, Shape)] = &[
    ("namespace", Text),
    ("name", Text),
    ("behavior", Text),
    ("literals", Texts),
    ("files", Texts),
    ("envs", Texts),
    ("env", Text),
    ("type", Text),
    ("options", One(GENERATOR_OPTIONS)),
];
const LABEL: &[(&str, Shape)] =
    &[("pairs", TextMap), ("includeSelectors", Any), ("includeTemplates", Any), ("fields", Any)];

/// Fields of a kustomization file.
const FIELDS: &[(&str, Shape)] = &[
    ("apiVersion", Text),
    ("kind", Text),
    ("metadata", Any),
    ("openapi", TextMap),
    ("namePrefix", Text),
    ("nameSuffix", Text),
    ("namespace", Text),
    ("commonLabels", TextMap),
    ("labels", Many(LABEL)),
    ("commonAnnotations", TextMap),
    ("patchesStrategicMerge", Texts),
    ("patchesJson6902", Many(PATCH)),
    ("patches", Many(PATCH)),
    ("images", Many(IMAGE)),
    ("imageTags", Many(IMAGE)),
    ("replacements", Any),
    ("replicas", Any),
    ("vars", Any),
    ("sortOptions", Any),
    ("resources", Texts),
    ("components", Texts),
    ("crds", Texts),
    ("bases", Texts),
    ("configMapGenerator", Many(GENERATED)),
    ("secretGenerator", Many(GENERATED)),
    ("helmGlobals", Any),
    ("helmCharts", Any),
    ("helmChartInflationGenerator", Any),
    ("generatorOptions", One(GENERATOR_OPTIONS)),
    ("configurations", Texts),
    ("generators", Texts),
    ("transformers", Texts),
    ("validators", Texts),
    ("buildMetadata", Texts),
];

/// Finds the kustomization file of a directory; returns its path and text.
pub(super) fn find<'a>(artifact: &'a Artifact, directory: &str) -> Option<(String, &'a [u8])> {
    FILE_NAMES.iter().find_map(|name| {
        let at = path::join(directory, name);
        let text = artifact.file(&at)?;
        Some((at, text))
    })
}

/// Returns the entries of a list in a file or a spec.
pub(super) fn items<'a>(content: &'a Value, field: &str) -> &'a [Value] {
    content.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the texts in a list of a file or a spec.
pub(super) fn texts<'a>(content: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    items(content, field).iter().filter_map(Value::as_str)
}

/// Reads the kustomization file of a directory; `None` if there is none or if it cannot be read.
pub(super) fn read_in(artifact: &Artifact, directory: &str) -> Option<Map<String, Value>> {
    read(find(artifact, directory)?.1).ok()
}

/// Reads a kustomization file.
/// The error is the parser's message, or names a field with a value of the wrong type.
pub(super) fn read(text: &[u8]) -> Result<Map<String, Value>, String> {
    let mut document: serde_yaml::Value = serde_yaml::from_slice(text).map_err(|error| error.to_string())?;
    document.apply_merge().map_err(|error| error.to_string())?;
    let mut file = match serde_json::to_value(&document).map_err(|error| error.to_string())? {
        Value::Null => Map::new(),
        Value::Object(fields) => known_fields(fields, FIELDS)?,
        _ => return Err("the kustomization file is not a mapping".to_owned()),
    };
    file.entry("apiVersion").or_insert_with(|| "kustomize.config.k8s.io/v1beta1".into());
    file.entry("kind").or_insert_with(|| "Kustomization".into());
    Ok(file)
}

/// Drops unknown and null fields and converts the others.
fn known_fields(found: Map<String, Value>, fields: &[(&str, Shape)]) -> Result<Map<String, Value>, String> {
    let mut known = Map::new();
    for (key, value) in found.into_iter().filter(|(_, value)| !value.is_null()) {
        let exact = fields.iter().find(|(name, _)| *name == key);
        if let Some((name, shape)) = exact.or_else(|| fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(&key))) {
            let value = convert(value, shape).ok_or_else(|| format!("field {name} has a value of the wrong type"))?;
            known.insert((*name).to_owned(), value);
        }
    }
    Ok(known)
}

/// Converts a value to the type of its field; `None` if it has another type.
fn convert(value: Value, shape: &Shape) -> Option<Value> {
    match (shape, value) {
        (Any, value) => Some(value),
        (Text, value) => to_text(value),
        (Texts, Value::Array(items)) => items.into_iter().map(to_text).collect::<Option<_>>().map(Value::Array),
        (TextMap, Value::Object(pairs)) => {
            let pairs = pairs.into_iter().map(|(key, value)| Some((key, to_text(value)?)));
            pairs.collect::<Option<_>>().map(Value::Object)
        }
        (One(fields), Value::Object(value)) => known_fields(value, fields).ok().map(Value::Object),
        (Many(fields), Value::Array(items)) => {
            items.into_iter().map(|item| convert(item, &One(fields))).collect::<Option<_>>().map(Value::Array)
        }
        _ => None,
    }
}

fn to_text(value: Value) -> Option<Value> {
    match value {
        Value::String(_) => Some(value),
        Value::Null => Some(String::new().into()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string().into()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_fields_are_dropped_and_scalars_become_text() {
        let text = "Resources: [a.yaml]\nwrong: 1\ncommonLabels: {n: 7, b: true}\npatches: [{path: p.yaml, odd: 1}]\n";
        let file = Value::Object(read(text.as_bytes()).unwrap());
        assert_eq!(file["resources"], json!(["a.yaml"]));
        assert_eq!(file["commonLabels"], json!({"n": "7", "b": "true"}));
        assert_eq!(file["patches"], json!([{"path": "p.yaml"}]));
        assert!(file.get("wrong").is_none());
    }

    #[test]
    fn an_empty_file_has_no_fields_and_other_types_are_errors() {
        assert_eq!(read(b"").unwrap().len(), 2);
        assert!(read(b"- a\n").is_err());
        assert!(read(b"resources: {a: b}\n").is_err());
    }
}
