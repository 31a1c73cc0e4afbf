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

/// Values of a release, as helm-controller merges them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Values {
    /// Texts in YAML; each overrides those before it.
    pub(crate) texts: Vec<String>,
    /// Whole numbers at paths, as `PATH=NUMBER`. They have another type than the numbers of a text.
    pub(crate) numbers: Vec<String>,
    /// Values of Secrets are among them.
    pub(crate) is_private: bool,
}

impl Values {
    /// Returns true if a release has the same values with both.
    pub(crate) fn has_same_texts(&self, other: &Self) -> bool {
        (&self.texts, &self.numbers) == (&other.texts, &other.numbers)
    }
}

/// The value of an entry with a `targetPath`, and the texts before it.
struct Placed<'a> {
    source: ValuesSource<'a>,
    text: String,
    /// Number of texts before it.
    position: usize,
}

/// Merges the texts of entries of `spec.valuesFrom`, in order, with `spec.values`.
///
/// Fails with the reason why an entry cannot be read here as in the cluster.
pub(crate) fn merged(entries: Vec<(ValuesSource<'_>, String)>, inline: Option<&Value>) -> Result<Values, String> {
    let (mut texts, mut placed) = (vec![], vec![]);
    for (source, text) in entries {
        let values = source.values(&text)?;
        if !source.target_path.is_empty() {
            placed.push(Placed { source, text, position: texts.len() });
        }
        texts.push(values);
    }
    let inline = inline.filter(|values| values.is_object());
    // The first entry with a path changes the maps of `spec.values` in place where it has them from there, and then
    // overrides them. The later ones find copies.
    let overriding = placed.first().filter(|first| {
        let before = texts[..first.position].iter().map(|text| crate::yaml::document(text).unwrap_or_default());
        inline.is_some_and(|inline| first.is_shared(&before.collect::<Vec<_>>(), inline))
    });
    let last = overriding.map(|first| texts[first.position].clone());
    texts.extend(inline.map(Value::to_string));
    texts.extend(last);
    let mut numbers = vec![];
    for (at, entry) in placed.iter().enumerate() {
        let is_last = at == 0 && overriding.is_some();
        let after = if is_last { &[][..] } else { &texts[entry.position + 1..] };
        numbers.extend(entry.number(after)?);
    }
    Ok(Values { texts, numbers, is_private: false })
}

impl Placed<'_> {
    /// Returns true if the map that gets the value is the one of `spec.values`, and not a copy.
    fn is_shared(&self, before: &[Value], inline: &Value) -> bool {
        let path = self.source.target_path;
        let Some((parents, _)) = path.rsplit_once('.') else { return false };
        let pointer = format!("/{}", parents.replace('.', "/"));
        let is_map = |value: &Value| value.pointer(&pointer).is_some_and(Value::is_object);
        is_map(inline) && !before.iter().any(is_map)
    }

    /// Returns `PATH=NUMBER` if the value is a whole number that none of the texts after it overrides.
    fn number(&self, after: &[String]) -> Result<Option<String>, String> {
        let value = if self.source.is_literal { Value::Null } else { typed(&self.text) };
        let names = self.source.names()?;
        let is_overridden = after.iter().any(|text| {
            let document = crate::yaml::document(text).unwrap_or_default();
            overrides(&document, &names)
        });
        Ok((value.is_i64() && !is_overridden).then(|| format!("{}={value}", self.source.target_path)))
    }
}

/// Returns true if a map has another value for a path, or no map above it.
fn overrides(document: &Value, names: &[&str]) -> bool {
    let Some((first, rest)) = names.split_first() else { return true };
    match document.get(*first) {
        None => false,
        Some(below) if below.is_object() => overrides(below, rest),
        Some(_) => true,
    }
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

    #[test]
    fn the_first_path_overrides_the_map_of_the_spec_that_it_is_in() {
        let spec = json!({"valuesFrom": [{"targetPath": "a.b"}, {"targetPath": "a.c"}, {}, {"targetPath": "d"}]});
        let merge = |texts: [&str; 4], inline: Value| {
            let sources = values_sources("shop", &spec).zip(texts.map(str::to_owned));
            merged(sources.collect(), Some(&inline)).unwrap()
        };
        let values = merge(["1", "2", "x: 1", "x"], json!({"a": {"b": 9, "c": 9}}));
        let expected = [r#"{"a":{"b":1}}"#, r#"{"a":{"c":2}}"#, "x: 1", r#"{"d":"x"}"#, r#"{"a":{"b":9,"c":9}}"#];
        assert_eq!(values.texts[..5], expected);
        assert_eq!(values.texts[5..], [r#"{"a":{"b":1}}"#]);
        assert_eq!(values.numbers, ["a.b=1"], "spec.values overrides the second one");
        let values = merge(["1", "02", "a: {b: 3}", "0"], json!({"e": 1}));
        assert_eq!((values.texts.len(), values.numbers), (5, vec!["d=0".to_owned()]));
    }
}
