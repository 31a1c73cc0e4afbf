//! ConfigMaps and Secrets in `spec.valuesFrom` of a HelmRelease.
//!
//! Source: github.com/fluxcd/pkg/chartutil v1.27.1 `values.go`; Helm v4.2.2 `pkg/strvals/parser.go`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::flux::build::go_yaml;
use crate::flux::build::objects::data::DataRef;
use crate::kubernetes::object::{flag_at, list_at, text_at};
use crate::private::Private;

/// Key of the values in an entry without `valuesKey`.
const DEFAULT_KEY: &str = "values.yaml";

/// Number of characters of `targetPath` that the API server accepts.
const MAX_TARGET_PATH: usize = 250;

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

/// Values of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Values {
    /// Texts in YAML, each overriding those before it.
    pub(crate) texts: Vec<Private<String>>,
    /// Whole numbers at paths. helm-controller passes them as integers, and numbers in YAML are floating-point numbers.
    pub(crate) numbers: BTreeMap<Vec<String>, i64>,
    /// They hold values of Secrets.
    pub(crate) is_private: bool,
    /// Of values that hold those of Secrets: the ones without them; `None` if they are not known.
    pub(crate) open: Option<Box<Values>>,
}

impl Values {
    /// Returns true if both have the same digest for helm-controller, which sees neither comments nor the sources of
    /// values.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (&self.texts, &self.numbers) == (&other.texts, &other.numbers)
            || self.merged_by_go().is_some_and(|merged| other.merged_by_go() == Some(merged))
    }

    /// Returns values that hold none of Secrets; `None` if they are not known.
    pub(crate) fn without_secrets(&self) -> Option<&Self> {
        if self.is_private { self.open.as_deref() } else { Some(self) }
    }

    /// Returns the values as the one map of which Go writes the digest; `None` if a text is no map, or is not read
    /// here.
    fn merged_by_go(&self) -> Option<Map<String, Value>> {
        let mut merged = Map::new();
        for text in &self.texts {
            match go_yaml::read(text.reveal().as_bytes()).ok()?.to_json().ok()? {
                Value::Object(mut values) => {
                    values.values_mut().for_each(make_floats);
                    overlay(&mut merged, values);
                }
                Value::Null => {}
                _ => return None,
            }
        }
        self.overlay_numbers(&mut merged, |number| match number {
            // Go writes a larger floating-point number with an exponent.
            -999_999..=999_999 => json!(number as f64),
            _ => json!(number),
        });
        Some(merged)
    }

    /// Returns the values as one map.
    pub(crate) fn merged(&self) -> Value {
        let mut merged = Map::new();
        for text in &self.texts {
            if let Ok(Value::Object(values)) = crate::yaml::document(text.reveal()) {
                overlay(&mut merged, values);
            }
        }
        self.overlay_numbers(&mut merged, |number| json!(number));
        Value::Object(merged)
    }

    fn overlay_numbers(&self, merged: &mut Map<String, Value>, written: impl Fn(i64) -> Value) {
        for (path, number) in &self.numbers {
            overlay_at(merged, path, written(*number));
        }
    }

    /// Adds a text that overrides what is there.
    pub(crate) fn add_text(&mut self, text: String) {
        let document = crate::yaml::document(&text).unwrap_or_default();
        self.numbers.retain(|path, _| !overrides(&document, path));
        self.texts.push(Private::new(text));
    }

    /// Adds all of other values, which override what is there.
    pub(crate) fn append(&mut self, upper: &Self) {
        upper.texts.iter().for_each(|text| self.add_text(text.reveal().clone()));
        self.numbers.extend(upper.numbers.clone());
        self.is_private |= upper.is_private;
    }

    /// Adds the sources of a release with their texts, in order, and then the values in its spec.
    ///
    /// Fails if one of them is not read here.
    pub(crate) fn add_all(
        &mut self,
        texts: &[(ValuesSource<'_>, Private<String>)],
        inline: Option<&Value>,
    ) -> Result<(), String> {
        let first = texts.iter().position(|(source, _)| !source.target_path.is_empty());
        let mut overriding = None;
        for (at, (source, text)) in texts.iter().enumerate() {
            if Some(at) == first {
                // The first one with a path changes the maps of the spec in place where it has them from there, and
                // then overrides them. The later ones find copies.
                let merged = self.merged();
                overriding = inline.filter(|inline| source.shares_map(&merged, inline)).map(|_| (source, text));
            }
            self.add_source(source, text.reveal())?;
        }
        if let Some(inline) = inline.filter(|inline| inline.is_object()) {
            self.add_text(inline.to_string());
        }
        match overriding {
            Some((source, text)) => self.add_source(source, text.reveal()),
            None => Ok(()),
        }
    }

    /// Adds the values of a source that has this text.
    ///
    /// Fails if they are not read here.
    pub(crate) fn add_source(&mut self, source: &ValuesSource<'_>, text: &str) -> Result<(), String> {
        let names = source.names()?;
        if names.is_empty() {
            self.add_text(text.to_owned());
            return Ok(());
        }
        let value = source.value(text)?;
        match value.as_i64() {
            Some(number) => _ = self.numbers.insert(names.into_iter().map(str::to_owned).collect(), number),
            None => self.add_text(nested(&names, value).to_string()),
        }
        Ok(())
    }
}

/// Returns true if values have another value at a path, or above it.
fn overrides(values: &Value, path: &[String]) -> bool {
    let mut at = values;
    for name in path {
        match at.get(name) {
            Some(below) => at = below,
            None => return !at.is_object() && !std::ptr::eq(at, values),
        }
    }
    true
}

impl ValuesSource<'_> {
    /// Returns true if the map that gets the value is the one of the spec, and not a copy.
    fn shares_map(&self, before: &Value, inline: &Value) -> bool {
        let Some((parents, _)) = self.target_path.rsplit_once('.') else { return false };
        let pointer = format!("/{}", parents.replace('.', "/"));
        let [own, earlier] = [inline, before].map(|values| values.pointer(&pointer));
        own.is_some_and(Value::is_object) && !earlier.is_some_and(Value::is_object)
    }

    /// Returns the names in the path. Fails if one is more than a plain name.
    pub(crate) fn names(&self) -> Result<Vec<&str>, String> {
        if self.target_path.len() > MAX_TARGET_PATH {
            return Err(format!(
                "a targetPath in its valuesFrom has more than {MAX_TARGET_PATH} characters, which the API server refuses"
            ));
        }
        let names: Vec<&str> = self.target_path.split('.').filter(|_| !self.target_path.is_empty()).collect();
        if names.iter().any(|name| !is_plain(name)) {
            return Err(format!("the targetPath {:?} in its valuesFrom is not read here", self.target_path));
        }
        Ok(names)
    }

    /// Returns the value at the path, which Helm reads as that of `--set`.
    ///
    /// Fails if it is not read here.
    fn value(&self, text: &str) -> Result<Value, String> {
        if self.is_literal {
            return Ok(json!(text));
        }
        match set_value(text) {
            SetValue::Read(value) => Ok(value),
            SetValue::Refused => Err(REFUSED.to_owned()),
            SetValue::Unread => {
                Err("the value of a targetPath in its valuesFrom has characters that Helm reads as syntax".to_owned())
            }
        }
    }

    /// Returns the reason why helm-controller cannot read a text; `None` if it can, or if that is not known.
    pub(crate) fn refusal(&self, text: &Private<String>) -> Option<&'static str> {
        let is_set = !self.target_path.is_empty() && !self.is_literal;
        (is_set && set_value(text.reveal()) == SetValue::Refused).then_some(REFUSED)
    }
}

/// Reason why helm-controller does nothing for a release with a value that Helm refuses.
const REFUSED: &str =
    "Helm cannot read the value of a targetPath in its valuesFrom: it has `,` or `{`, and is not literal";

/// Value of a text in `helm --set PATH=TEXT`.
#[derive(Debug, PartialEq)]
enum SetValue {
    Read(Value),
    /// It ends within a list, or a word without a value follows it.
    Refused,
    /// It sets more than the value at the path, or whole numbers in a list.
    Unread,
}

/// Reads a text in `helm --set`.
///
/// Source: `ReplacePathValue` of fluxcd/pkg/chartutil v1.27.1; Helm v4.2.2 `pkg/strvals/parser.go`, `key` and
/// `valList`.
fn set_value(text: &str) -> SetValue {
    let is_quoted = ['\'', '"'].iter().any(|quote| text.starts_with(*quote) && text.ends_with(*quote));
    let text = if is_quoted { text.trim_matches(['\'', '"']) } else { text };
    let (value, rest) = match text.strip_prefix('{') {
        None => {
            let (word, end) = word(text, &[',']);
            (read(&word, is_quoted), end.map_or("", |(_, rest)| rest))
        }
        Some(mut list) => {
            let mut items = vec![];
            loop {
                let (word, Some((stop, rest))) = word(list, &[',', '}']) else { return SetValue::Refused };
                items.push(read(&word, is_quoted));
                list = rest;
                if stop == '}' {
                    break;
                }
            }
            (Value::Array(items), list.strip_prefix(',').unwrap_or(list))
        }
    };
    let has_numbers = value.as_array().is_some_and(|items| items.iter().any(Value::is_number));
    match rest {
        "" if !has_numbers => SetValue::Read(value),
        // What follows is a value at another path.
        _ if rest.is_empty() || rest.contains(['=', '[', '\\']) => SetValue::Unread,
        _ => SetValue::Refused,
    }
}

/// Reads a word of a value: one without quotes can be something else than a text.
fn read(word: &str, is_quoted: bool) -> Value {
    if is_quoted { json!(word) } else { typed(word) }
}

/// Returns the text up to the first of these characters that no backslash precedes, and that character with what
/// follows it.
fn word<'t>(text: &'t str, stops: &[char]) -> (String, Option<(char, &'t str)>) {
    let (mut word, mut rest) = (String::new(), text.chars());
    while let Some(next) = rest.next() {
        match next {
            '\\' => word.extend(rest.next()),
            _ if stops.contains(&next) => return (word, Some((next, rest.as_str()))),
            _ => word.push(next),
        }
    }
    (word, None)
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

/// Returns the value of a word in `helm --set`.
fn typed(text: &str) -> Value {
    match &*text.to_lowercase() {
        "true" => json!(true),
        "false" => json!(false),
        "null" => Value::Null,
        "0" => json!(0),
        _ if text.starts_with('0') => json!(text),
        _ => text.parse::<i64>().map_or_else(|_| json!(text), |number| json!(number)),
    }
}

/// Makes numbers the floating-point numbers that Go reads.
fn make_floats(value: &mut Value) {
    match value {
        Value::Number(number) => *value = json!(number.as_f64()),
        Value::Array(items) => items.iter_mut().for_each(make_floats),
        Value::Object(fields) => fields.values_mut().for_each(make_floats),
        _ => {}
    }
}

/// Returns a value in the maps of a path, from the outermost one on.
fn nested(path: &[impl AsRef<str>], value: Value) -> Value {
    path.iter().rev().fold(value, |value, name| json!({name.as_ref(): value}))
}

pub(super) fn overlay_at(lower: &mut Map<String, Value>, path: &[impl AsRef<str>], value: Value) {
    if let Value::Object(upper) = nested(path, value) {
        overlay(lower, upper);
    }
}

/// Merges maps as Flux does: a null replaces a map.
pub(super) fn overlay(lower: &mut Map<String, Value>, upper: Map<String, Value>) {
    for (key, value) in upper {
        match (lower.get_mut(&key), value) {
            (Some(Value::Object(lower)), Value::Object(upper)) => overlay(lower, upper),
            (_, value) => {
                lower.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_at_a_path_is_read_as_in_helm_set() {
        let spec = |path: &str, literal: bool| json!({"valuesFrom": [{"targetPath": path, "literal": literal}]});
        let values = |path: &str, literal: bool, text: &str| {
            let (spec, mut values) = (spec(path, literal), Values::default());
            values.add_source(&values_sources("shop", &spec).next().unwrap(), text)?;
            let read = values.texts.iter().map(|text| text.reveal().clone()).next();
            Ok::<String, String>(read.unwrap_or_else(|| values.merged().to_string()))
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
            ("p[1]}{", r#"{"a":"p[1]}{"}"#),
            (r"a\,\b", r#"{"a":"a,b"}"#),
            ("x,", r#"{"a":"x"}"#),
            ("{x,true,}", r#"{"a":["x",true,""]}"#),
            ("'{1,2}'", r#"{"a":["1","2"]}"#),
        ];
        for (text, expected) in rows {
            assert_eq!(values("a", false, text).unwrap(), expected, "{text}");
        }
        assert_eq!(values("a.b-c", true, "1,2").unwrap(), r#"{"a":{"b-c":"1,2"}}"#);
        for (text, why) in [("1,2", "Helm cannot read"), ("{1", "Helm cannot read"), ("{a}b", "Helm cannot read")] {
            assert!(values("a", false, text).unwrap_err().contains(why), "{text}");
        }
        for text in ["1,b=2", "{1,2}", "a,b[0]"] {
            assert!(values("a", false, text).unwrap_err().contains("characters that Helm reads as syntax"), "{text}");
        }
        assert!(values("a[0]", false, "1").unwrap_err().contains("is not read here"));
        assert_eq!(values("", false, "a: 1").unwrap(), "a: 1");
        // Its values would be nested a hundred thousand times.
        let refused = values(&["a"; 100_000].join("."), false, "1").unwrap_err();
        assert!(refused.contains("more than 250 characters"), "{refused}");
    }

    #[test]
    fn a_whole_number_at_a_path_stays_an_integer_unless_later_values_override_it() {
        let spec = json!({"valuesFrom": [{"targetPath": "a.b"}]});
        let source = values_sources("shop", &spec).next().unwrap();
        let number_after = |text: &str| {
            let mut values = Values::default();
            values.add_source(&source, "3").unwrap();
            values.add_text(text.to_owned());
            values.numbers.into_values().next()
        };
        for kept in ["", "c: 1", "a: {c: 1}"] {
            assert_eq!(number_after(kept), Some(3), "{kept}");
        }
        for overridden in ["a: {b: 1}", "a: x", "a: null", "a: {b: null}"] {
            assert_eq!(number_after(overridden), None, "{overridden}");
        }
        let mut values = Values::default();
        values.add_source(&source, "x").unwrap();
        assert_eq!((values.numbers.len(), &*values.texts), (0, &[Private::new(r#"{"a":{"b":"x"}}"#.to_owned())][..]));
    }

    #[test]
    fn values_are_the_same_whatever_their_texts() {
        let values = |texts: &[&str]| {
            let mut values = Values::default();
            texts.iter().for_each(|text| values.add_text((*text).to_owned()));
            values
        };
        let inline = values(&[r#"{"a":{"b":1,"c":"x"},"d":[1.5]}"#]);
        for same in [&["# new\na: {c: x}\nd: [1.50]\n", "a: {b: 1.0}"][..], &["a: {b: 1, c: 'x'}\nd: [1.5]", ""]] {
            assert!(values(same).is_same(&inline), "{same:?}");
        }
        for other in ["a: {b: 1, c: x}\nd: [1.5]\ne: null", "a: {b: '1', c: x}\nd: [1.5]", "x", "{"] {
            assert!(!values(&[other]).is_same(&inline), "{other}");
        }
        assert!(!values(&["a: yes"]).is_same(&values(&[r#"{"a":"yes"}"#])), "Go reads a boolean");
        assert!(values(&["{}"]).is_same(&values(&[])));
        let numbers =
            |number| Values { numbers: BTreeMap::from([(vec!["a".to_owned()], number)]), ..Values::default() };
        assert!(!numbers(1).is_same(&numbers(2)));
        assert!(numbers(1).is_same(&values(&["a: 1"])), "their digests are the same");
        assert!(!numbers(1_000_000).is_same(&values(&["a: 1000000"])));
    }

    #[test]
    fn the_first_path_overrides_the_map_of_the_spec_that_it_is_in() {
        let spec = json!({"valuesFrom": [{"targetPath": "a.b"}, {"targetPath": "a.c"}, {}, {"targetPath": "d"}]});
        let merge = |texts: [&str; 4], inline: Value| {
            let texts = texts.map(|text| Private::new(text.to_owned()));
            let sources: Vec<_> = values_sources("shop", &spec).zip(texts).collect();
            let mut values = Values::default();
            values.add_all(&sources, Some(&inline)).unwrap();
            values.merged()
        };
        let inline = json!({"a": {"b": 9, "c": 9}});
        assert_eq!(merge(["1", "2", "x: 1", "x"], inline.clone()), json!({"a": {"b": 1, "c": 9}, "d": "x", "x": 1}));
        assert_eq!(merge(["x", "y", "", "z"], inline), json!({"a": {"b": "x", "c": 9}, "d": "z"}));
        assert_eq!(
            merge(["1", "2", "a: {b: 3}", "0"], json!({"e": 1})),
            json!({"a": {"b": 3, "c": 2}, "d": 0, "e": 1})
        );
    }
}
