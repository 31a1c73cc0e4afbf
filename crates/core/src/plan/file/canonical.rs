//! Canonical JSON, so that a digest depends on the content of a document and not on its layout (docs/plan-files.md).

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::text::sha256;

/// Parses JSON and rejects objects that have a key twice, which readers understand differently.
pub(super) fn parse(text: &[u8]) -> Result<Value, String> {
    serde_json::from_slice::<UniqueKeys>(text).map(|value| value.0).map_err(|error| error.to_string())
}

/// Returns the canonical text: UTF-8, no white space, keys sorted by their bytes, numbers as they are, and no escape that
/// JSON does not require.
pub(super) fn text(value: &Value) -> String {
    let mut sorted = value.clone();
    sorted.sort_all_objects();
    sorted.to_string()
}

/// Returns the SHA-256 of the canonical text, as `sha256:` and hexadecimal digits.
pub(super) fn digest(value: &Value) -> String {
    sha256(text(value).as_bytes())
}

/// A JSON value whose objects have each key once.
struct UniqueKeys(Value);

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueKeysVisitor).map(Self)
    }
}

struct UniqueKeysVisitor;

impl<'de> Visitor<'de> for UniqueKeysVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = vec![];
        while let Some(UniqueKeys(item)) = access.next_element()? {
            items.push(item);
        }
        Ok(items.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some((key, UniqueKeys(value))) = access.next_entry::<String, _>()? {
            if members.contains_key(&key) {
                return Err(A::Error::custom(format!("the key {key:?} occurs twice")));
            }
            members.insert(key, value);
        }
        Ok(members.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_and_order_do_not_change_the_canonical_text() {
        let one = parse(r#"{"b": [1, -2, true, null], "a": {"é": "\u00e9\n\"", "Z": ""}}"#.as_bytes()).unwrap();
        let other = parse("{\"a\":{\"Z\":\"\",\"é\":\"é\\n\\\"\"},\n\"b\":[1,-2,true,null]}".as_bytes()).unwrap();
        assert_eq!(text(&one), r#"{"a":{"Z":"","é":"é\n\""},"b":[1,-2,true,null]}"#);
        assert_eq!(text(&one), text(&other));
        assert_eq!(digest(&Value::from("")), "sha256:12ae32cb1ec02d01eda3581b127c1fee3b0dc53572ed6baf239721a03d82e126");
    }

    #[test]
    fn a_key_that_occurs_twice_is_rejected() {
        for text in [r#"{"a": 1, "a": 1}"#, r#"[{"b": {"a": 1, "\u0061": 2}}]"#] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(error.starts_with("the key \"a\" occurs twice"), "{error}");
        }
        parse(b"").unwrap_err();
        parse(b"{} x").unwrap_err();
    }
}
