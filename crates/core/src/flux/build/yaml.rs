//! YAML of kustomize's output, and of objects after substitution.

use serde_json::Value;

/// One document of kustomize's output.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct YamlDocument {
    /// Text as kustomize wrote it.
    pub(super) text: String,
    /// Value of the text.
    pub(super) value: Value,
}

/// Splits a stream of YAML documents.
/// The error is the parser's message for the first document that is not YAML.
pub(super) fn documents(text: &str) -> Result<Vec<YamlDocument>, String> {
    let mut documents = Vec::new();
    let mut current = String::new();
    for line in text.lines().chain(std::iter::once("---")) {
        if line.trim_end() != "---" {
            current.push_str(line);
            current.push('\n');
        } else if !current.trim().is_empty() {
            let value = parse(&current)?;
            documents.push(YamlDocument { text: std::mem::take(&mut current), value });
        }
    }
    Ok(documents)
}

/// Parses one YAML document.
/// The error is the parser's message.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    crate::yaml::document(text).map_err(|error| error.to_string())
}

/// Parses an object as the controller does after substitution: as YAML 1.1, where plain `yes` and `0123` are not strings.
/// A name or namespace that is not a string becomes null. The controller drops an object without a name, and prunes it
/// if it exists (observed).
pub(super) fn parse_substituted(text: &str) -> Result<Value, String> {
    let mut manifest = parse(text)?;
    for key in ["name", "namespace"] {
        let is_string = metadata_scalar(text, key).is_none_or(is_string_in_yaml_1_1);
        if let Some(value) = manifest.pointer_mut(&format!("/metadata/{key}"))
            && !is_string
        {
            *value = Value::Null;
        }
    }
    Ok(manifest)
}

/// Returns the text of a metadata field in kustomize's output, including quotes.
fn metadata_scalar<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let metadata = text.lines().skip_while(|line| *line != "metadata:").skip(1);
    let mut lines = metadata.take_while(|line| line.starts_with(' '));
    lines.find_map(|line| line.strip_prefix("  ")?.strip_prefix(key)?.strip_prefix(": ").map(str::trim))
}

/// Returns false if YAML 1.1 reads a plain scalar, a string in YAML 1.2, as a boolean or a number.
fn is_string_in_yaml_1_1(scalar: &str) -> bool {
    const BOOLEANS: [&str; 6] = ["y", "n", "yes", "no", "on", "off"];
    let number = scalar.trim_start_matches(['+', '-']).replace('_', "");
    let is_number = number.ends_with(|c: char| c.is_ascii_digit())
        && number.replacen('.', "", 1).chars().all(|c| c.is_ascii_digit());
    !is_number && !BOOLEANS.contains(&scalar.to_lowercase().as_str())
}
