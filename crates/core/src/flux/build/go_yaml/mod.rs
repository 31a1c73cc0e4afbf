//! YAML as Go's `sigs.k8s.io/yaml` reads it: kustomization files are read with this library only.
//!
//! It differs from YAML 1.2: the last of duplicate keys counts, only the first document is read, and `on`, `0123` or
//! `1_000` are no text. Source: docs/reference/kustomize-controller.md 3.8.

mod decode;
mod nodes;
mod scalars;
mod text;
mod value;
mod write;

use decode::Dialect;
use nodes::Documents;
pub(crate) use text::to_text;
pub(crate) use value::{GoValue, ReadError};
pub(crate) use write::write;

/// Reads the first document of a text.
pub(crate) fn read(text: &[u8]) -> Result<GoValue, ReadError> {
    match Documents::of(nodes::decode_text(text)?).next()? {
        Some(document) => decode::decode(&document, Dialect::V2),
        None => Ok(GoValue::Null),
    }
}

/// Reads all documents of a text that kustomize reads as manifests, with go-yaml v3. A text that v2 and v3 read differently
/// is not supported.
pub(crate) fn read_manifests(bytes: &[u8]) -> Result<Vec<GoValue>, ReadError> {
    let text = nodes::decode_text(bytes)?;
    if text.lines().any(may_separate_otherwise) || text.replace("\r\n", "\n").contains('\r') {
        return Err(ReadError::unsupported("kustomize may separate the documents at other lines"));
    }
    let (mut documents, mut found) = (Documents::of(text), Vec::new());
    while let Some(document) = documents.next()? {
        found.push(decode::decode(&document, Dialect::Both)?);
    }
    Ok(found)
}

/// Returns true for a line at which kustomize may separate documents in another way.
fn may_separate_otherwise(line: &str) -> bool {
    let separator = line.strip_prefix("---").map(str::trim_start);
    separator.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('#'))
        || line.starts_with('%')
        || line.starts_with("...")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn texts_are_read_as_go_reads_them() {
        let rows = [
            ("", json!(null)),
            ("a: 1\na: 2\n", json!({"a": 2})),
            ("a: 1\n---\na: 2\n", json!({"a": 1})),
            ("---\n---\na: 2\n", json!(null)),
            ("\u{feff}a: b", json!({"a": "b"})),
            ("a: [yes, On, n, ~, null, .5, 1e3]", json!({"a": [true, true, false, null, null, 0.5, 1000]})),
            ("a: [0123, -01, 08, 0x1F, 0b11, 1_000, 0o17]", json!({"a": [83, -1, 8, 31, 3, 1000, 15]})),
            ("a: ['yes', \"1\", 2001-01-01, 1:30]", json!({"a": ["yes", "1", "2001-01-01", "1:30"]})),
            ("1: a\nyes: b\n1.5: c\n", json!({"1": "a", "true": "b", "1.5": "c"})),
            ("a: &x {k: 1}\nb: *x\n", json!({"a": {"k": 1}, "b": {"k": 1}})),
            ("k: 2\n<<: {k: 1, l: 3}\n", json!({"k": 1, "l": 3})),
            ("<<: [{k: 1}, {k: 2, l: 3}]\nm: 4\n", json!({"k": 1, "l": 3, "m": 4})),
            ("a: !!str 5\nb: !!binary aGk=\nc: !x 1\n", json!({"a": "5", "b": "hi", "c": "1"})),
            ("a: |\n  x\n  y\nb: >-\n  x\n  y\n", json!({"a": "x\ny\n", "b": "x y"})),
            ("a: |\n  x", json!({"a": "x"})),
            ("a: |+\n  x\n\n  y", json!({"a": "x\n\ny"})),
            ("a: >\n  x\n  y", json!({"a": "x y"})),
            ("a: |", json!({"a": ""})),
            ("a: [.5_1, .5_, ._5]", json!({"a": [0.51, ".5_", "._5"]})),
        ];
        for (text, expected) in rows {
            assert_eq!(read(text.as_bytes()).unwrap().to_json().unwrap(), expected, "{text:?}");
        }
    }

    #[test]
    fn what_go_refuses_is_told_from_what_is_not_known() {
        let invalid = [
            "a: [",
            "a: b: c",
            "\ta: b",
            "*x",
            "a: &x [*x]",
            "? [a]\n: b\n",
            "~: a",
            "a: !!int x",
            "a: [b?c]",
            "%YAML 1.2\n---\na: b",
            "<<: 1",
            r#"a: "b\/c""#,
        ];
        for text in invalid {
            assert!(
                matches!(read(text.as_bytes()), Err(ReadError::Invalid(_))),
                "{text:?}: {:?}",
                read(text.as_bytes())
            );
        }
        let deep = format!("{}1", "a: {".repeat(1500));
        let unsupported: [&[u8]; 7] = [
            b"{}\"a\": [b], c",
            b"a: \0",
            b"\xff\xfea\0",
            b"1: a\n\"1\": b\n",
            b"a: !!timestamp x",
            b"a: [!x,y]",
            deep.as_bytes(),
        ];
        for text in unsupported {
            assert!(matches!(read(text), Err(ReadError::Unsupported(_))), "{text:?}: {:?}", read(text));
        }
    }

    #[test]
    fn manifests_are_read_only_where_both_versions_agree() {
        let read = |text: &str| {
            let values = read_manifests(text.as_bytes())?;
            Ok(values.iter().map(|value| value.to_json().unwrap()).collect::<Vec<_>>())
        };
        assert_eq!(read("a: 1\n--- # x\nb: -2.5\n---\n"), Ok(vec![json!({"a": 1}), json!({"b": -2.5}), json!(null)]));
        assert_eq!(read("{\"a\": [true, null, \"yes\"]}"), Ok(vec![json!({"a": [true, null, "yes"]})]));
        let odd = [
            "a: yes",
            "a: 0123",
            "a: 2001-01-01",
            "a: 1\na: 2",
            "a: &x 1\nb: *x",
            "<<: {a: 1}",
            "a: !!str 1",
            "a: 1\n--- b",
        ];
        for text in odd {
            assert!(matches!(read(text), Err(ReadError::Unsupported(_))), "{text:?}: {:?}", read(text));
        }
    }

    #[test]
    fn aliases_that_multiply_are_refused() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..8 {
            let one_below = format!("*a{}", level - 1);
            text += &format!("a{level}: &a{level} [{}]\n", vec![one_below; 10].join(", "));
        }
        assert!(matches!(read(text.as_bytes()), Err(ReadError::Invalid(_))));
    }
}
