//! ConfigMaps and Secrets in `spec.valuesFrom` of a HelmRelease.
//!
//! Source: github.com/fluxcd/pkg/chartutil v1.27.1 `values.go`; Helm v4.2.2 `pkg/strvals/parser.go`.

use serde_json::{Value, json};

use crate::flux::build::objects::data::DataRef;
use crate::kubernetes::object::{flag_at, list_at, text_at};

/// Key of the values in an entry without `valuesKey`.
const DEFAULT_KEY: &str = "values.yaml";

/// An entry of `spec.valuesFrom`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ValuesSource<'a> {
    /// ConfigMap or Secret, in the namespace of the HelmRelease.
    pub(crate) reference: DataRef,
    /// Key of the values.
    pub(crate) key: &'a str,
    /// Path of the value to set; empty if the values are merged.
    pub(crate) target_path: &'a str,
    /// The value at the path is the text as it is.
    pub(crate) is_literal: bool,
    /// The ConfigMap, Secret or key may be missing.
    pub(crate) optional: bool,
}

/// Returns the entries of `spec.valuesFrom` of a HelmRelease in a namespace, in order.
pub(crate) fn values_sources<'a>(namespace: &str, spec: &'a Value) -> impl Iterator<Item = ValuesSource<'a>> {
    let entries = list_at(spec, "/valuesFrom").iter();
    entries.map(move |entry| ValuesSource {
        reference: DataRef {
            kind: text_at(entry, "/kind").to_owned(),
            namespace: namespace.to_owned(),
            name: text_at(entry, "/name").to_owned(),
        },
        key: Some(text_at(entry, "/valuesKey")).filter(|key| !key.is_empty()).unwrap_or(DEFAULT_KEY),
        target_path: text_at(entry, "/targetPath"),
        is_literal: flag_at(entry, "/literal"),
        optional: flag_at(entry, "/optional"),
    })
}

impl ValuesSource<'_> {
    /// Returns the names in the path. Fails if one is more than a plain name.
    pub(crate) fn names(&self) -> Result<Vec<&str>, String> {
        let names: Vec<&str> = self.target_path.split('.').filter(|_| !self.target_path.is_empty()).collect();
        if names.iter().any(|name| !is_plain(name)) {
            return Err(format!("the targetPath {:?} in its valuesFrom is not read here", self.target_path));
        }
        Ok(names)
    }

    /// Returns the values that a text stands for, as YAML. At a path, it is read as `helm --set` reads it.
    ///
    /// Fails if the path has other than plain names, or if the text has a character with a meaning in `--set`.
    pub(crate) fn values(&self, text: &str) -> Result<String, String> {
        let names = self.names()?;
        if names.is_empty() {
            return Ok(text.to_owned());
        }
        if !self.is_literal && text.contains([',', '{', '}', '[', ']', '\\']) {
            let why = "the value of a targetPath in its valuesFrom has characters with a meaning in helm --set";
            return Err(why.to_owned());
        }
        let value = if self.is_literal { json!(text) } else { typed(text) };
        Ok(names.into_iter().rev().fold(value, |value, name| json!({name: value})).to_string())
    }
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

/// Returns the value of a text in `helm --set`.
fn typed(text: &str) -> Value {
    if ['\'', '"'].iter().any(|quote| text.starts_with(*quote) && text.ends_with(*quote)) {
        return json!(text.trim_matches(['\'', '"']));
    }
    match &*text.to_lowercase() {
        "true" => json!(true),
        "false" => json!(false),
        "null" => Value::Null,
        "0" => json!(0),
        _ if text.starts_with('0') => json!(text),
        _ => text.parse::<i64>().map_or_else(|_| json!(text), |number| json!(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_at_a_path_is_read_as_in_helm_set() {
        let spec = |path: &str, literal: bool| json!({"valuesFrom": [{"targetPath": path, "literal": literal}]});
        let values = |path: &str, literal: bool, text: &str| {
            let spec = spec(path, literal);
            values_sources("shop", &spec).next().unwrap().values(text)
        };
        let rows = [
            ("b", r#"{"a":"b"}"#),
            ("TRUE", r#"{"a":true}"#),
            ("0", r#"{"a":0}"#),
            ("007", r#"{"a":"007"}"#),
            ("-12", r#"{"a":-12}"#),
            ("1.5", r#"{"a":"1.5"}"#),
            ("'12'", r#"{"a":"12"}"#),
            ("null", r#"{"a":null}"#),
            ("x=y", r#"{"a":"x=y"}"#),
        ];
        for (text, expected) in rows {
            assert_eq!(values("a", false, text).as_deref(), Ok(expected), "{text}");
        }
        assert_eq!(values("a.b-c", true, "1,2").as_deref(), Ok(r#"{"a":{"b-c":"1,2"}}"#));
        assert!(values("a", false, "1,2").unwrap_err().contains("helm --set"));
        assert!(values("a[0]", false, "1").unwrap_err().contains("is not read here"));
        assert_eq!(values("", false, "a: 1").as_deref(), Ok("a: 1"));
    }
}
