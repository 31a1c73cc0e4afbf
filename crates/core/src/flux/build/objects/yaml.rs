//! YAML of kustomize's output, and of objects after substitution.

use std::sync::Arc;

use serde_json::Value;

use crate::flux::build::go_yaml;

/// One document of kustomize's output.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::flux::build) struct YamlDocument {
    /// Text as kustomize wrote it.
    pub(in crate::flux::build) text: String,
    /// Value of the text.
    pub(in crate::flux::build) value: Arc<Value>,
}

/// Splits a stream of YAML documents.
/// The error is the parser's message for the first document that is not YAML.
pub(in crate::flux::build) fn documents(text: &str) -> Result<Vec<YamlDocument>, String> {
    let documents = crate::yaml::split(text);
    documents.map(|text| Ok(YamlDocument { value: parse(&text)?.into(), text })).collect()
}

/// Parses one YAML document.
/// The error is the parser's message.
pub(in crate::flux::build) fn parse(text: &str) -> Result<Value, String> {
    crate::yaml::document(text).map_err(|error| error.to_string())
}

/// Parses an object as the controller does after substitution: as YAML 1.1, where plain `yes` and `0123` are not strings.
/// A name or namespace that is not a string becomes null. The controller drops an object without a name, and prunes it
/// if it exists (observed).
pub(in crate::flux::build) fn parse_substituted(text: &str) -> Result<Value, String> {
    let read = go_yaml::read(text.as_bytes()).and_then(|value| value.to_json());
    let mut manifest = read.map_err(|error| error.to_string())?;
    for key in ["name", "namespace"] {
        if let Some(value) = manifest.pointer_mut(&format!("/metadata/{key}"))
            && !value.is_string()
        {
            *value = Value::Null;
        }
    }
    Ok(manifest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn substituted_values_have_the_types_of_yaml_1_1() {
        let text = "data: {a: yes, b: 0123, c: 'yes', d: 1e3, e: 2001-01-01}\nmetadata:\n  labels: {x: on, z: web}\n";
        let data = json!({"a": true, "b": 83, "c": "yes", "d": 1000, "e": "2001-01-01"});
        let expected = json!({"data": data, "metadata": {"labels": {"x": true, "z": "web"}}});
        assert_eq!(parse_substituted(text), Ok(expected));
        assert!(parse_substituted("a: [").is_err());
    }
}
