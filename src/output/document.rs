//! Documents for programs: JSON and YAML whose schema is a contract, and one name per line.

use serde::Serialize;

use super::text::sanitize;
use crate::error::{Error, Result};
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::yaml_quotes::quote_for_yaml_1_1;

/// Returns indented JSON that ends with a line break. Control and invisible characters are escaped, such as `\u009b`.
pub fn json<T: Serialize>(value: &T) -> Result<String> {
    escaped_json(value, |character| {
        let units = character.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect::<Vec<_>>();
        units.concat()
    })
}

fn escaped_json<T: Serialize>(value: &T, escape: impl Fn(char) -> String) -> Result<String> {
    let text =
        serde_json::to_string_pretty(value).map_err(|error| Error::failed(format!("cannot write JSON: {error}")))?;
    let mut safe = String::with_capacity(text.len() + 1);
    for character in text.chars() {
        if sanitize::is_unsafe(character) { safe += &escape(character) } else { safe.push(character) }
    }
    safe.push('\n');
    Ok(safe)
}

/// Returns YAML that ends with a line break, and that readers of YAML 1.1 read alike. If there is something to escape, it has the form of JSON, which is YAML: not every text
/// of YAML can have an escape.
pub fn yaml<T: Serialize>(value: &T) -> Result<String> {
    let text = serde_yaml::to_string(value).map_err(|error| Error::failed(format!("cannot write YAML: {error}")))?;
    let is_safe = !text.contains(sanitize::is_unsafe);
    if is_safe {
        Ok(quote_for_yaml_1_1(&text))
    } else {
        escaped_json(value, |character| format!("\\U{:08x}", u32::from(character)))
    }
}

/// Returns the name of an object as kubectl writes it, escaped: `kustomization.kustomize.toolkit.fluxcd.io/apps`.
pub fn name(id: &ObjectId) -> String {
    sanitize::one_line(&format!("{}/{}", id.group_kind(), id.name)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "\u{1b}[31m \u{9b}2J \u{7f} \u{202e}x \u{200b}\u{e0041}";

    #[test]
    fn documents_say_the_same_and_hold_no_terminal_escape() {
        let value = serde_json::json!({ "message": HOSTILE });
        let json = json(&value).unwrap();
        assert!(!json.chars().any(sanitize::is_unsafe), "{json}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap(), value);
        let yaml = yaml(&value).unwrap();
        assert!(!yaml.contains(sanitize::is_unsafe), "{yaml}");
        assert_eq!(serde_yaml::from_str::<serde_json::Value>(&yaml).unwrap(), value);
    }

    #[test]
    fn yaml_quotes_what_kubectl_would_take_for_another_type() {
        assert_eq!(yaml(&serde_json::json!({"a": "no"})).unwrap(), "a: 'no'\n");
    }

    #[test]
    fn a_name_is_kubectls() {
        let id = ObjectId::new("kustomize.toolkit.fluxcd.io", "Kustomization", "flux-system", "apps");
        assert_eq!(name(&id), "kustomization.kustomize.toolkit.fluxcd.io/apps");
    }
}
