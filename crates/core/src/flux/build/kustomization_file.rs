//! The root kustomization file as the controller reads it: leniently, then written again.
//!
//! In this one file unknown fields vanish, keys match without case and scalars become text where text is expected;
//! kustomize itself is strict (reference kustomize-controller 3.3).

use serde_json::{Map, Value};

/// What a field may hold; anything else is a build error.
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

/// The fields of a kustomization file.
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

/// Reads a kustomization file.
///
/// # Errors
/// What is wrong, when it is no YAML or a field holds what it cannot.
pub fn read(text: &[u8]) -> Result<Map<String, Value>, String> {
    let mut file: serde_yaml::Value = serde_yaml::from_slice(text).map_err(|error| error.to_string())?;
    file.apply_merge().map_err(|error| error.to_string())?;
    let file = serde_json::to_value(&file).map_err(|error| error.to_string())?;
    let mut file = match file {
        Value::Null => Map::new(),
        Value::Object(file) => lenient(file, FIELDS)?,
        _ => return Err("the kustomization file is not a mapping".to_owned()),
    };
    file.entry("apiVersion").or_insert_with(|| "kustomize.config.k8s.io/v1beta1".into());
    file.entry("kind").or_insert_with(|| "Kustomization".into());
    Ok(file)
}

fn lenient(found: Map<String, Value>, fields: &[(&str, Shape)]) -> Result<Map<String, Value>, String> {
    let mut kept = Map::new();
    for (key, value) in found {
        let exact = fields.iter().find(|(name, _)| *name == key);
        let Some((name, shape)) = exact.or_else(|| fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(&key)))
        else {
            continue;
        };
        if value.is_null() {
            continue;
        }
        kept.insert((*name).to_owned(), shaped(value, shape).ok_or_else(|| format!("field {name} cannot hold this"))?);
    }
    Ok(kept)
}

fn shaped(value: Value, shape: &Shape) -> Option<Value> {
    match (shape, value) {
        (Any, value) => Some(value),
        (Text, value) => as_text(value),
        (Texts, Value::Array(items)) => items.into_iter().map(as_text).collect::<Option<_>>().map(Value::Array),
        (TextMap, Value::Object(pairs)) => {
            let pairs = pairs.into_iter().map(|(key, value)| Some((key, as_text(value)?)));
            pairs.collect::<Option<_>>().map(Value::Object)
        }
        (One(fields), Value::Object(value)) => lenient(value, fields).ok().map(Value::Object),
        (Many(fields), Value::Array(items)) => {
            let item = |item| shaped(item, &One(fields));
            items.into_iter().map(item).collect::<Option<_>>().map(Value::Array)
        }
        _ => None,
    }
}

fn as_text(value: Value) -> Option<Value> {
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
    fn unknown_fields_vanish_and_scalars_become_text() {
        let text = "Resources: [a.yaml]\nwrong: 1\ncommonLabels: {n: 7, b: true}\npatches: [{path: p.yaml, odd: 1}]\n";
        let file = Value::Object(read(text.as_bytes()).unwrap());
        assert_eq!(file["resources"], json!(["a.yaml"]));
        assert_eq!(file["commonLabels"], json!({"n": "7", "b": "true"}));
        assert_eq!(file["patches"], json!([{"path": "p.yaml"}]));
        assert!(file.get("wrong").is_none());
    }

    #[test]
    fn an_empty_file_is_a_kustomization_without_anything() {
        assert_eq!(read(b"").unwrap().len(), 2);
        assert!(read(b"- a\n").is_err());
        assert!(read(b"resources: {a: b}\n").is_err());
    }
}
