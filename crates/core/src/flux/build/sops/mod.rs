//! The file format of SOPS, and what remains of it in a built object.
//!
//! Every encrypted file has a MAC, which SOPS writes anew each time it encrypts. It identifies the file in an object that
//! is generated from it.

pub(super) mod decryption;
pub(crate) mod live_values;
pub(crate) mod resolve_names;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::flux::build::objects::undecrypted::{CIPHERTEXT_PREFIX, UNKNOWN};

/// Length of the hash that kustomize appends to a generated name, and its characters.
const HASH_LENGTH: usize = 10;
const HASH_ALPHABET: &str = "bcdfghkmt2456789";
/// Words in the metadata of SOPS that depend on the content. The other lines are for recipients of the key.
const CONTENT_WORDS: [&str; 5] = ["lastmodified", "mac", "regex", "suffix", "version"];

/// Returns the encrypted MAC of a SOPS file of any format.
pub(super) fn mac(text: &str) -> Option<&str> {
    let (start, _) = text.match_indices(CIPHERTEXT_PREFIX).find(|(at, _)| {
        let before = text[..*at].trim_end_matches([' ', '\t', '"', ':', '=']);
        before.ends_with("mac")
    })?;
    let length = text[start..].find(']')?;
    Some(&text[start..=start + length])
}

/// Returns a part of an identity, or a placeholder if it is encrypted.
pub(super) fn plain_or_unknown(part: &str) -> &str {
    if part.starts_with(CIPHERTEXT_PREFIX) { UNKNOWN } else { part }
}

/// Returns true if a manifest has the metadata to decrypt it.
pub(super) fn has_mac(manifest: &Value) -> bool {
    manifest.pointer("/sops/mac").and_then(Value::as_str).is_some_and(|mac| !mac.is_empty())
}

/// Returns a generated name without its hash; `None` if the name does not end like a hash of kustomize.
pub(super) fn name_without_hash(name: &str) -> Option<&str> {
    let (base, hash) = name.rsplit_once('-')?;
    (hash.len() == HASH_LENGTH && hash.chars().all(|c| HASH_ALPHABET.contains(c))).then_some(base)
}

/// Decodes a value of a Secret's `data`; kustomize wraps long values.
pub(super) fn decoded(value: &Value) -> Option<String> {
    let text: String = value.as_str()?.split_whitespace().collect();
    Some(String::from_utf8_lossy(&STANDARD.decode(text).ok()?).into_owned())
}

/// Returns every string in a value; keys are left out.
pub(super) fn strings(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(strings).collect(),
        Value::Object(fields) => fields.values().flat_map(strings).collect(),
        _ => Vec::new(),
    }
}

/// Returns the fields that the hash of a generated object is computed from, without the key for each recipient: a new
/// recipient does not change the decrypted content.
pub(crate) fn content_without_recipients(manifest: &Value) -> Value {
    let mut content = Map::new();
    for field in ["type", "data", "stringData", "binaryData"] {
        match manifest.get(field) {
            Some(Value::Object(pairs)) => {
                let kept = pairs.iter().filter(|(key, _)| !key.starts_with("sops_") || depends_on_content(key));
                let values = kept.map(|(key, value)| (key.clone(), value_without_recipients(value)));
                content.insert(field.to_owned(), Value::Object(values.collect()));
            }
            Some(value) => drop(content.insert(field.to_owned(), value.clone())),
            None => {}
        }
    }
    Value::Object(content)
}

/// Returns the text of an encrypted manifest without the key for each recipient.
pub(super) fn manifest_without_recipients(manifest: &Value) -> String {
    let mut content = manifest.clone();
    if let Some(metadata) = content.get_mut("sops").and_then(Value::as_object_mut) {
        metadata.retain(|key, _| depends_on_content(key));
    }
    content.to_string()
}

fn value_without_recipients(value: &Value) -> Value {
    let text = decoded(value).or_else(|| value.as_str().map(str::to_owned)).unwrap_or_default();
    if mac(&text).is_some() { file_without_recipients(&text).into() } else { value.clone() }
}

fn file_without_recipients(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    // SOPS writes its metadata last. In a file of variables they are variables.
    let metadata = lines.iter().rposition(|line| matches!(line.trim(), "sops:" | "[sops]" | "\"sops\": {"));
    let (content, metadata) = lines.split_at(metadata.unwrap_or(lines.len()));
    let mut kept: Vec<&str> =
        content.iter().copied().filter(|line| !line.starts_with("sops_") || depends_on_content(line)).collect();
    kept.extend(metadata.iter().copied().filter(|line| depends_on_content(line)));
    kept.join("\n")
}

fn depends_on_content(line: &str) -> bool {
    CONTENT_WORDS.iter().any(|word| line.contains(word))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MAC: &str = "ENC[AES256_GCM,data:m,iv:i,tag:t,type:str]";

    #[test]
    fn the_mac_of_every_format_is_found() {
        let rows = [
            format!("sops:\n    lastmodified: x\n    mac: {MAC}\n"),
            format!("\t\"sops\": {{\n\t\t\"mac\": \"{MAC}\",\n"),
            format!("A=ENC[AES256_GCM,data:a]\nsops_mac={MAC}\n"),
            format!("a = ENC[AES256_GCM,data:a]\n[sops]\nmac             = {MAC}\n"),
        ];
        for text in rows {
            assert_eq!(mac(&text), Some(MAC), "{text}");
        }
        assert_eq!(mac("password: ENC[AES256_GCM,data:a]"), None);
    }

    fn secret_content(data: &[(&str, &str)]) -> Value {
        let data: Map<_, _> =
            data.iter().map(|(key, value)| ((*key).to_owned(), STANDARD.encode(value).into())).collect();
        content_without_recipients(&json!({"kind": "Secret", "type": "Opaque", "data": data}))
    }

    fn file_content(value: &str, recipient: &str) -> Value {
        let text = format!("a: {value}\nsops:\n    age:\n        - enc: {recipient}\n    mac: {MAC}\n");
        secret_content(&[("f.yaml", &text)])
    }

    fn variables_content(key: &str) -> Value {
        secret_content(&[("A", "1"), ("sops_mac", MAC), (key, "x")])
    }

    #[test]
    fn a_recipient_is_not_content_and_a_value_is() {
        assert_eq!(file_content("1", "x"), file_content("1", "y"));
        assert_ne!(file_content("1", "x"), file_content("2", "x"));
        assert_eq!(variables_content("sops_age__list_0__map_enc"), variables_content("sops_age__list_1__map_enc"));
        assert_ne!(variables_content("sops_age__list_0__map_enc"), variables_content("B"));
    }
}
