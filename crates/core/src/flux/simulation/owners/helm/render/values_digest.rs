//! The digest that helm-controller records of the values of a release.
//!
//! Source: `DigestValues` and `Encode` of fluxcd/pkg/chartutil v1.27.1: the SHA-256 of the values as go.yaml.in/yaml/v2
//! writes them, with sorted keys. Only values are written here that every YAML library writes the same way.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::flux::build::charts::values::Values;
use crate::kubernetes::object::Resource;
use crate::text::sha256;

/// Words that mean something else in YAML 1.1, in lower case.
const RESERVED: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "y", "n", "null"];

/// Returns true if values are known to be others than those of the last release. Those that helm-controller tried last
/// must have the digest that it recorded of them.
pub(crate) fn differ_from_last_release(live: &Resource, tried: &Values, values: &Values) -> bool {
    let [last, attempted] = ["/status/history/0/configDigest", "/status/lastAttemptedConfigDigest"]
        .map(|field| live.text(field).filter(|digest| !digest.is_empty()));
    let Some(last) = last else { return false };
    let [tried, digest] = [tried, values].map(|values| digest(&values.merged()));
    tried.is_some_and(|tried| attempted == Some(&*tried)) && digest.is_some_and(|digest| digest != last)
}

/// Returns true if values are known to be those of the last release.
pub(crate) fn are_of_last_release(live: &Resource, values: &Values) -> bool {
    let last = live.text("/status/history/0/configDigest");
    digest(&values.merged()).is_some_and(|digest| last == Some(&*digest))
}

fn digest(values: &Value) -> Option<String> {
    let mut text = String::new();
    write(values.as_object()?, 0, &mut text)?;
    Some(sha256(text.as_bytes()))
}

/// Writes the fields of a map; `None` if a field needs quotes, or is no map, number or word.
fn write(fields: &Map<String, Value>, depth: usize, text: &mut String) -> Option<()> {
    for (key, value) in fields.iter().collect::<BTreeMap<_, _>>() {
        text.push_str(&"  ".repeat(depth));
        text.push_str(plain(key)?);
        text.push(':');
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                text.push('\n');
                write(fields, depth + 1, text)?;
                continue;
            }
            Value::String(word) => *text += &format!(" {}\n", plain(word)?),
            Value::Bool(flag) => *text += &format!(" {flag}\n"),
            Value::Number(number) => *text += &format!(" {}\n", number.as_i64()?),
            _ => return None,
        }
    }
    Some(())
}

/// Returns a word that is written without quotes.
fn plain(word: &str) -> Option<&str> {
    let is_word = word.starts_with(|first: char| first.is_ascii_alphabetic())
        && word.chars().all(|other| other.is_ascii_alphanumeric() || matches!(other, '-' | '_' | '.' | '/'));
    (is_word && !RESERVED.contains(&&*word.to_ascii_lowercase())).then_some(word)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_values_are_written_that_every_library_writes_the_same() {
        let written = |values: Value| {
            let mut text = String::new();
            write(values.as_object().unwrap(), 0, &mut text).map(|()| text)
        };
        let nested = json!({"image": {"tag": "v1.2", "name": "shop/web"}, "b": true, "a": 3});
        assert_eq!(written(nested).unwrap(), "a: 3\nb: true\nimage:\n  name: shop/web\n  tag: v1.2\n");
        for open in [json!({"a": "1"}), json!({"a": "Yes"}), json!({"y": 1}), json!({"a": [1]}), json!({"a": {}})] {
            assert_eq!(written(open.clone()), None, "{open}");
        }
        let of_nothing = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(digest(&json!({})).as_deref(), Some(of_nothing));
    }
}
