//! References in the `values.schema.json` of charts: helm follows them to files and addresses of the machine that renders.
//!
//! Source: Helm v4.2.2 `pkg/chart/common/util/jsonschema.go`.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::archive::ChartFiles;

/// Name of the file, in a chart and in the charts that it depends on.
const SCHEMA: &str = "values.schema.json";

/// Keys whose value names another schema.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Addresses of the schemas of schemas, which helm has built in.
const DRAFTS: [&str; 4] = [
    "http://json-schema.org/draft-",
    "https://json-schema.org/draft-",
    "http://json-schema.org/schema",
    "https://json-schema.org/draft/20",
];

/// Fails if a schema of a chart names another file or address.
pub(super) fn check(files: &ChartFiles) -> Result<(), String> {
    let schemas = files.iter().filter(|(at, _)| at.rsplit('/').next() == Some(SCHEMA));
    for (at, content) in schemas {
        let references: References =
            serde_json::from_slice(content).map_err(|_| format!("the {at} of its chart cannot be read"))?;
        if let Some(outside) = references.0.first() {
            return Err(format!("the {at} of its chart refers to {outside:?}, which is outside of it"));
        }
    }
    Ok(())
}

/// References of a schema to what is outside of it, also those in keys that occur twice.
#[derive(Default)]
struct References(Vec<String>);

/// Text of a value, and the references below it.
#[derive(Default)]
struct Node {
    text: Option<String>,
    below: References,
}

impl<'de> Deserialize<'de> for References {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Node::deserialize(deserializer)?.below)
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(Node { text: Some(text.to_owned()), ..Node::default() })
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::default())
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut found = Node::default();
        while let Some(item) = items.next_element::<Node>()? {
            found.below.0.extend(item.below.0);
        }
        Ok(found)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut found = Node::default();
        while let Some((key, value)) = map.next_entry::<String, Node>()? {
            found.below.0.extend(value.below.0);
            found.below.0.extend(value.text.filter(|text| is_outside(&key, text)));
        }
        Ok(found)
    }
}

/// Returns true if a key with this text names another schema.
fn is_outside(key: &str, text: &str) -> bool {
    let is_reference = REFERENCES.contains(&key) && !text.starts_with('#');
    is_reference || (key == "$schema" && !DRAFTS.iter().any(|draft| text.starts_with(draft)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn result(at: &str, text: &str) -> Result<(), String> {
        check(&[(at.to_owned(), Arc::from(text.as_bytes()))].into())
    }

    #[test]
    fn references_that_leave_a_schema_are_refused() {
        let outside = [
            r#"{"$ref": "http://127.0.0.1:1/a"}"#,
            r#"{"$ref": "file:///etc/passwd"}"#,
            r#"{"properties": {"a": [{"$ref": "../../b.json#/c"}]}}"#,
            r##"{"$ref": "file:///a", "$ref": "#/b"}"##,
            r#"{"\u0024ref": "a.json"}"#,
            r#"{"$dynamicRef": "http://a"}"#,
            r#"{"$schema": "http://127.0.0.1/a"}"#,
            "{",
        ];
        for text in outside {
            assert!(result("values.schema.json", text).is_err(), "{text}");
            assert!(result("charts/db/values.schema.json", text).is_err(), "{text}");
            assert_eq!(result("templates/a.json", text), Ok(()), "{text}");
        }
        let inside = [
            r##"{"$ref": "#/definitions/a", "definitions": {"a": {"type": "string"}}}"##,
            r#"{"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"$ref": {"type": "string"}}}"#,
            r#"{"$schema": "https://json-schema.org/draft/2020-12/schema"}"#,
        ];
        for text in inside {
            assert_eq!(result("values.schema.json", text), Ok(()), "{text}");
        }
    }
}
