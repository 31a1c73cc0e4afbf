//! What of an encrypted object tells its content: everything but the keys that are encrypted for recipients.

use serde_json::{Map, Value};

use super::{decoded, mac};

/// Words of the lines of SOPS' own data that say how to decrypt; the others say for whom the key is encrypted.
const TELLING: [&str; 5] = ["lastmodified", "mac", "regex", "suffix", "version"];

/// What the hash of a generated object follows from: its data, without the keys that are encrypted for recipients, so
/// that a new recipient alone changes nothing.
pub fn content(manifest: &Value) -> Value {
    let mut content = Map::new();
    for part in ["type", "data", "stringData", "binaryData"] {
        let value = match manifest.get(part) {
            Some(Value::Object(pairs)) => {
                let kept = pairs.iter().filter(|(key, _)| !key.starts_with("sops_") || tells(key));
                let plain = |value: &Value| {
                    let text = decoded(value).or_else(|| value.as_str().map(str::to_owned)).unwrap_or_default();
                    if mac(&text).is_some() { without_recipients(&text).into() } else { value.clone() }
                };
                Value::Object(kept.map(|(key, value)| (key.clone(), plain(value))).collect())
            }
            Some(value) => value.clone(),
            None => continue,
        };
        content.insert(part.to_owned(), value);
    }
    Value::Object(content)
}

/// A whole manifest without the keys that are encrypted for recipients.
pub fn encrypted(manifest: &Value) -> Value {
    let mut manifest = manifest.clone();
    if let Some(own) = manifest.get_mut("sops").and_then(Value::as_object_mut) {
        own.retain(|key, _| tells(key));
    }
    manifest
}

/// The text of a SOPS file up to its own data, and of that the lines that say how to decrypt.
fn without_recipients(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    // SOPS writes its own data last; in a file of variables they are variables.
    let own = lines.iter().rposition(|line| matches!(line.trim(), "sops:" | "[sops]" | "\"sops\": {"));
    let kept = lines.iter().enumerate().filter(|(at, line)| {
        let plain = own.is_none_or(|own| *at < own) && !line.starts_with("sops_");
        plain || tells(line)
    });
    kept.map(|(_, line)| *line).collect::<Vec<_>>().join("\n")
}

fn tells(line: &str) -> bool {
    TELLING.iter().any(|word| line.contains(word))
}
