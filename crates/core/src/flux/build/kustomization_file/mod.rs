//! Kustomization files as the controller and kustomize read them.
//!
//! The controller reads the root file leniently and writes it again: it drops unknown fields, matches keys without case,
//! and converts scalars to text where text is expected. kustomize reads the other files; it refuses unknown fields.
//! Source: docs/reference/kustomize-controller.md 3.3 and 3.8.

pub(super) mod fields;
pub mod generator;

use serde_json::{Map, Value, json};

use super::go_yaml;
use super::go_yaml::{GoValue, ReadError};
use crate::flux::source::artifact::Artifact;
use crate::flux::source::path;
use fields::{FieldTable, KUSTOMIZATION, Shape};

/// Names of kustomization files, in the order of precedence.
pub(super) const FILE_NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

pub(crate) fn is_kustomization_file(file: &str) -> bool {
    FILE_NAMES.contains(&file.rsplit('/').next().unwrap_or_default())
}

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

/// A kustomization file that kustomize reads, not the controller.
#[derive(Clone, Debug)]
pub(super) struct NestedFile {
    /// Value as it is written.
    pub(super) value: Value,
    /// FieldTable by their own names, also where the file has them in another case.
    pub(super) fields: Map<String, Value>,
}

/// Reads the fields of the kustomization file of a directory; `None` if there is none or if it cannot be read.
pub(super) fn read_in(artifact: &Artifact, directory: &str) -> Option<Map<String, Value>> {
    read_nested(find(artifact, directory)?.1).ok().map(|file| file.fields)
}

/// Reads the root file as the controller does.
pub(super) fn read_root(text: &[u8]) -> Result<Map<String, Value>, ReadError> {
    let mut file = match go_yaml::read(text)? {
        GoValue::Null => Map::new(),
        GoValue::Map(entries) => convert_fields(&entries, KUSTOMIZATION)?,
        _ => return Err(ReadError::Invalid("the kustomization file is not a mapping".to_owned())),
    };
    file.entry("apiVersion").or_insert_with(|| "kustomize.config.k8s.io/v1beta1".into());
    file.entry("kind").or_insert_with(|| "Kustomization".into());
    Ok(file)
}

/// Reads a file that another kustomization file refers to. FieldTable that kustomize will refuse stay in the value.
pub(super) fn read_nested(text: &[u8]) -> Result<NestedFile, ReadError> {
    let value = go_yaml::read(text)?.to_json()?;
    match with_own_names(&value, &Shape::Struct(KUSTOMIZATION))? {
        Value::Object(fields) => Ok(NestedFile { value, fields }),
        _ => Ok(NestedFile { value, fields: Map::new() }),
    }
}

/// Returns the field that a key stands for: Go ignores the case, also of two letters that are not of ASCII.
pub(super) fn field_of<'a, T>(key: &str, fields: &'a [(&'static str, T)]) -> Option<&'a (&'static str, T)> {
    let exact = fields.iter().find(|(name, _)| *name == key);
    exact.or_else(|| fields.iter().find(|(name, _)| name.chars().map(fold).eq(key.chars().map(fold))))
}

fn fold(c: char) -> char {
    match c {
        '\u{212a}' => 'k',
        '\u{17f}' => 's',
        c => c.to_ascii_lowercase(),
    }
}

/// Converts the known fields of a mapping. Null is no value.
fn convert_fields<'a>(
    found: impl IntoIterator<Item = (&'a String, &'a GoValue)>,
    fields: &FieldTable,
) -> Result<Map<String, Value>, ReadError> {
    let (mut known, mut seen) = (Map::new(), Vec::new());
    for (key, value) in found {
        let Some((name, shape)) = field_of(key, fields) else {
            // The value of an unknown field must still be JSON.
            value.to_json()?;
            continue;
        };
        if seen.contains(name) {
            return Err(two_names(name));
        }
        seen.push(name);
        if *value != GoValue::Null {
            known.insert((*name).to_owned(), convert(value, shape, name)?);
        }
    }
    Ok(known)
}

fn two_names(name: &str) -> ReadError {
    ReadError::Unsupported(format!("the field {name} is there twice, in other letters"))
}

/// Converts a value to the type of its field.
fn convert(value: &GoValue, shape: &Shape, name: &str) -> Result<Value, ReadError> {
    Ok(match (shape, value) {
        (Shape::Any, value) => value.to_json()?,
        (Shape::Bool, GoValue::Bool(value)) => (*value).into(),
        (Shape::Bool, GoValue::Null) => false.into(),
        (Shape::Int, GoValue::Null) => 0.into(),
        (Shape::Int, value) => value.to_json()?.as_i64().ok_or_else(|| wrong_type(name))?.into(),
        (Shape::Text | Shape::ExactText, GoValue::Text(text)) => text.as_str().into(),
        (Shape::Text | Shape::ExactText, GoValue::Null) => "".into(),
        (Shape::Text, value) => value.scalar_text().ok_or_else(|| wrong_type(name))?.into(),
        (Shape::List(shape), GoValue::List(items)) => {
            items.iter().map(|item| convert(item, shape, name)).collect::<Result<_, _>>().map(Value::Array)?
        }
        (Shape::List(_), GoValue::Null) => json!([]),
        (Shape::Map(shape), GoValue::Map(entries)) => {
            let fields = entries.iter().map(|(key, value)| Ok((key.clone(), convert(value, shape, name)?)));
            fields.collect::<Result<_, _>>().map(Value::Object)?
        }
        (Shape::Struct(fields), GoValue::Map(entries)) => Value::Object(convert_fields(entries, fields)?),
        (Shape::Map(_), GoValue::Null) => json!({}),
        // kustomize tells null from an empty entry in some lists.
        (Shape::Struct(_), GoValue::Null) => Value::Null,
        _ => return Err(wrong_type(name)),
    })
}

fn wrong_type(name: &str) -> ReadError {
    ReadError::Invalid(format!("field {name} has a value of the wrong type"))
}

/// Returns a value with its fields by their own names. Unknown fields and values of another type stay.
fn with_own_names(value: &Value, shape: &Shape) -> Result<Value, ReadError> {
    Ok(match (shape, value) {
        (Shape::List(shape), Value::Array(items)) => {
            items.iter().map(|item| with_own_names(item, shape)).collect::<Result<_, _>>().map(Value::Array)?
        }
        (Shape::Struct(fields), Value::Object(entries)) => {
            let mut named = Map::new();
            for (key, value) in entries {
                let (name, value) = match field_of(key, fields) {
                    Some((name, shape)) => (*name, with_own_names(value, shape)?),
                    None => (key.as_str(), value.clone()),
                };
                if named.insert(name.to_owned(), value).is_some() {
                    return Err(two_names(name));
                }
            }
            Value::Object(named)
        }
        (_, value) => value.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(text: &str) -> Result<Value, ReadError> {
        read_root(text.as_bytes()).map(Value::Object)
    }

    #[test]
    fn unknown_fields_are_dropped_and_scalars_become_text() {
        let text = "Resources: [a.yaml]\nwrong: 1\ncommonLabels: {a: 7, b: true}\npatches: [{path: p.yaml, odd: 1}]\n";
        let file = root(text).unwrap();
        assert_eq!(file["resources"], json!(["a.yaml"]));
        assert_eq!(file["commonLabels"], json!({"a": "7", "b": "true"}));
        assert_eq!(file["patches"], json!([{"path": "p.yaml"}]));
        assert!(file.get("wrong").is_none());
    }

    #[test]
    fn an_empty_file_has_no_fields_and_other_types_are_errors() {
        assert_eq!(root("").unwrap().as_object().unwrap().len(), 2);
        let texts = [
            "- a\n",
            "resources: {a: b}\n",
            "replicas: [{count: 1.5}]\n",
            "configMapGenerator: [{name: 5}]\n",
            "kind: 1\n",
        ];
        for text in texts {
            assert!(matches!(root(text), Err(ReadError::Invalid(_))), "{text:?}: {:?}", root(text));
        }
    }

    #[test]
    fn numbers_follow_yaml_1_1_before_they_become_text() {
        let rows = [
            ("-01", "-1"),
            ("0123", "83"),
            ("1.50", "1.5"),
            ("1234567.0", "1.234567e+06"),
            ("on", "true"),
            (".nan", "NaN"),
        ];
        for (written, expected) in rows {
            assert_eq!(root(&format!("nameSuffix: {written}")).unwrap()["nameSuffix"], expected, "{written}");
        }
    }

    #[test]
    fn a_field_in_two_ways_of_writing_has_no_certain_value() {
        for text in
            ["resources: [a]\nResources: [b]", "patches: [{path: a, PATH: b}]", "reſources: [a]\nresources: [b]"]
        {
            assert!(matches!(root(text), Err(ReadError::Unsupported(_))), "{text}");
            assert!(matches!(read_nested(text.as_bytes()), Err(ReadError::Unsupported(_))), "{text}");
        }
    }

    #[test]
    fn a_nested_file_keeps_its_value_and_is_found_by_its_own_names() {
        let file = read_nested(b"ReSources: [a]\nodd: 1\nconfigMapGenerator: [{Files: [x]}]").unwrap();
        assert_eq!(file.value["ReSources"], json!(["a"]));
        assert_eq!(file.fields["resources"], json!(["a"]));
        assert_eq!(file.fields["configMapGenerator"], json!([{"files": ["x"]}]));
    }
}
