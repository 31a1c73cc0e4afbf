//! Objects of a build as the controller reads them, before and after they get their owner labels.
//!
//! Source: reference kustomize-controller 3.5 and 3.6.

use serde::Deserialize;
use serde_json::Value;

use super::encrypted::Undecrypted;
use super::sops;
use crate::kubernetes::object::{GroupKind, ObjectId};

/// One document of kustomize's output.
#[derive(Clone, Debug, PartialEq)]
pub struct YamlDocument {
    /// Its YAML text, as kustomize wrote it.
    pub text: String,
    /// The same as a value.
    pub value: Value,
}

/// An object that a build wants.
#[derive(Clone, Debug, PartialEq)]
pub struct Built {
    /// Identity; the namespace is the manifest's until the scope is known.
    pub id: ObjectId,
    /// API version without group.
    pub version: String,
    /// The manifest.
    pub manifest: Value,
    /// What of it is not known without keys.
    pub veil: Option<Undecrypted>,
}

impl Built {
    /// A label of the manifest, or else an annotation.
    pub fn mark(&self, key: &str) -> Option<&str> {
        mark(&self.manifest, key)
    }

    /// Whether a label or annotation of the manifest has this value, compared without case.
    pub fn is_marked(&self, key: &str, value: &str) -> bool {
        ["labels", "annotations"].iter().any(|part| {
            let found = self.manifest.get("metadata").and_then(|metadata| metadata.get(part));
            let found = found.and_then(|marks| marks.get(key)).and_then(Value::as_str);
            found.is_some_and(|found| found.eq_ignore_ascii_case(value))
        })
    }

    /// Whether the controller refuses to apply it: a Secret with SOPS' own data that it did not decrypt. It drops that
    /// data with all that no Secret has before it looks (observed), so only a Secret that cannot be read as one is left:
    /// with `stringData` the encrypted text is applied.
    pub fn is_refused(&self, decrypts: bool) -> bool {
        self.id.is("", "Secret")
            && self.manifest.get("sops").is_some()
            && !(decrypts && sops::is_whole(&self.manifest))
            && !sops::is_spared(&self.manifest)
            && !sops::is_readable_secret(&self.manifest)
    }
}

fn mark<'a>(manifest: &'a Value, key: &str) -> Option<&'a str> {
    let metadata = manifest.get("metadata")?;
    let of = |part: &str| metadata.get(part).and_then(|marks| marks.get(key)).and_then(Value::as_str);
    of("labels").or_else(|| of("annotations"))
}

/// Splits a stream of YAML documents.
///
/// # Errors
/// What is wrong with the first document that is no YAML.
pub fn documents(text: &str) -> Result<Vec<YamlDocument>, String> {
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

/// Reads one YAML document.
///
/// # Errors
/// What is wrong with it.
pub fn parse(text: &str) -> Result<Value, String> {
    let document = serde_yaml::Deserializer::from_str(text);
    Value::deserialize(document).map_err(|error| error.to_string())
}

/// Reads one object as the controller does after it replaced variables: as YAML 1.1, where `yes` and `0123` are no texts.
/// An object whose name is none it leaves out without a word, and prunes it where it was there (observed).
///
/// # Errors
/// What is wrong with it.
pub fn parse_again(text: &str) -> Result<Value, String> {
    let mut manifest = parse(text)?;
    for key in ["name", "namespace"] {
        let written = scalar_of_metadata(text, key);
        if let Some(value) = manifest.pointer_mut(&format!("/metadata/{key}"))
            && written.is_some_and(is_no_text)
        {
            *value = Value::Null;
        }
    }
    Ok(manifest)
}

/// What stands in the metadata of kustomize's output, quotes included.
fn scalar_of_metadata<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let metadata = text.lines().skip_while(|line| *line != "metadata:").skip(1);
    let mut lines = metadata.take_while(|line| line.starts_with(' '));
    lines.find_map(|line| line.strip_prefix("  ")?.strip_prefix(key)?.strip_prefix(": ").map(str::trim))
}

/// Whether YAML 1.1 takes a plain scalar, which is a text in YAML 1.2, for a truth value or a number.
fn is_no_text(scalar: &str) -> bool {
    const TRUTHS: [&str; 6] = ["y", "n", "yes", "no", "on", "off"];
    let number = scalar.trim_start_matches(['+', '-']).replace('_', "");
    let digits = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    TRUTHS.contains(&scalar.to_lowercase().as_str())
        || (number.ends_with(|c: char| c.is_ascii_digit()) && digits(&number.replacen('.', "", 1)))
}

/// The objects of a manifest: lists are flattened, what has no version, kind or name is dropped.
pub fn objects(manifest: Value, into: &mut Vec<Built>) {
    let text = |key: &str| manifest.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if kind.ends_with("List") && manifest.get("items").is_some_and(Value::is_array) {
        let items = manifest["items"].as_array().cloned().unwrap_or_default();
        items.into_iter().for_each(|item| objects(item, into));
        return;
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let metadata = |key: &str| manifest.pointer(&format!("/metadata/{key}")).and_then(Value::as_str);
    let Some(name) = metadata("name").filter(|name| !name.is_empty()) else { return };
    if version.is_empty() || kind.is_empty() || (group == "kustomize.config.k8s.io" && kind == "Kustomization") {
        return;
    }
    let id = ObjectId::new(group, &kind, metadata("namespace").unwrap_or_default(), name);
    into.push(Built { id, version: version.to_owned(), manifest, veil: None });
}

/// The group and kind that a CustomResourceDefinition serves, and whether in namespaces.
pub fn defined_kind(built: &Built) -> Option<(GroupKind, bool)> {
    if !built.id.is("apiextensions.k8s.io", "CustomResourceDefinition") {
        return None;
    }
    let text = |pointer: &str| built.manifest.pointer(pointer).and_then(Value::as_str);
    let kind = GroupKind::new(text("/spec/group")?, text("/spec/names/kind")?);
    Some((kind, text("/spec/scope") == Some("Namespaced")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        documents(text).unwrap().into_iter().for_each(|document| objects(document.value, &mut found));
        found.iter().map(|built| built.id.to_string()).collect()
    }

    #[test]
    fn what_is_no_object_is_dropped_and_lists_are_flattened() {
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: n}\n---\n\
            kind: NoVersion\nmetadata: {name: b}\n---\n\
            apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nmetadata: {name: c}\n---\n\
            apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: d, namespace: n}}\n";
        assert_eq!(ids(text), ["configmap/a -n n", "secret/d -n n"]);
    }

    #[test]
    fn a_name_that_yaml_takes_for_something_else_is_none() {
        let name = |name: &str| {
            let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  labels:\n    name: a\n  name: {name}\n");
            let mut found = Vec::new();
            objects(parse_again(&text).unwrap(), &mut found);
            found.first().map(|built| built.id.name.to_string())
        };
        for gone in ["yes", "Off", "n", "true", "null", "0123", "089", "123", "12.5", "1e3", "0x1f", "1_000"] {
            assert_eq!(name(gone), None, "{gone}");
        }
        for text in ["web", "'yes'", "\"0123\"", "2020-01-01", "yess", "0123a"] {
            assert_eq!(name(text).as_deref(), Some(text.trim_matches(['\'', '"'])), "{text}");
        }
    }

    #[test]
    fn a_separator_inside_a_block_is_text() {
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: |\n    ---\n    y\n";
        assert_eq!(ids(text), ["configmap/a"]);
    }
}
