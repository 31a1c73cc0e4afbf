//! Quotes around texts that readers of YAML 1.1 take for another type. `serde_yaml` writes YAML 1.2, where `no` and `1:30` are
//! texts; kubectl and PyYAML read a Boolean and a number.

use std::sync::LazyLock;

use libyaml_safer::{EventData, Parser, ScalarStyle};
use regex::Regex;
use serde_json::Value;

/// Scalars that YAML 1.1 and its readers do not take for texts (yaml.org/type; go-yaml v2.4.4 `resolve.go`; PyYAML `resolver.py`).
static NO_TEXT: LazyLock<Regex> = LazyLock::new(|| {
    let rules = [
        "y|Y|yes|Yes|YES|n|N|no|No|NO|on|On|ON|off|Off|OFF",
        "true|True|TRUE|false|False|FALSE|null|Null|NULL|~",
        "[-+]?(0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*)",
        // To the base of 60.
        r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?",
        r"[-+]?([0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?",
        r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        r"\d{4}-\d\d?-\d\d?(([Tt]|[ \t]+)\d\d?:\d\d?:\d\d?(\.\d*)?([ \t]*(Z|[-+]\d\d?(:?\d\d)?))?)?",
        // The value and the merge key of a mapping.
        "=|<<",
    ];
    Regex::new(&format!("^(?:{})$", rules.join("|"))).expect("a valid expression")
});

/// Returns a text that `serde_yaml` wrote with quotes around the strings that YAML 1.1 takes for another type.
pub fn quote_for_yaml_1_1(text: &str) -> String {
    let mut parser = Parser::new();
    parser.set_input(text.as_bytes());
    let (mut quoted, mut end) = (String::with_capacity(text.len()), 0);
    while let Ok(event) = parser.parse() {
        let (from, to) = (event.start_mark.index as usize, event.end_mark.index as usize);
        match event.data {
            EventData::StreamEnd => break,
            EventData::Scalar { value, style: ScalarStyle::Plain, .. } if is_ambiguous(&value) => {
                quoted += &format!("{}'{value}'", &text[end..from]);
                end = to;
            }
            _ => {}
        }
    }
    quoted + &text[end..]
}

/// Returns true for a plain scalar that is a string in YAML 1.2 alone.
fn is_ambiguous(scalar: &str) -> bool {
    NO_TEXT.is_match(scalar) && serde_yaml::from_str::<Value>(scalar).is_ok_and(|value| value.is_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn write(value: &Value) -> String {
        quote_for_yaml_1_1(&serde_yaml::to_string(value).unwrap())
    }

    #[test]
    fn what_yaml_1_1_takes_for_another_type_has_quotes() {
        let texts = "no on off yes y N Off 2026-01-01 2026-1-2 2026-01-01T10:00:00Z 2026-01-01T10:00:00.5+02:00 1:30 190:20:30.15 \
                     1_000 0_7 0b1010_0111 0x_1f -1_0 1_0.5 1_0e3 = << +1:30";
        for text in texts.split(' ').chain(["2026-01-01 10:00:00 +2"]) {
            assert_eq!(write(&json!({ text: [text] })), format!("'{text}':\n- '{text}'\n"));
        }
    }

    #[test]
    fn everything_else_stays_as_it_is() {
        let plain = "nope one 1.2.3 10.0.0.1 a=b == 1:99 1: 2026-01 2026-01-01x 1e - v1";
        for value in [
            json!({"a": [1, -1, 1.5, 1e300, true, false, null, [], {}, ""], "b": {"c": [{"d": 1, "e": [2]}]}}),
            json!(["true", "1", "1.5", "~", "null", "0x1f", ".inf", "0123"]),
            json!(plain.split(' ').chain(["x 1:30"]).collect::<Vec<_>>()),
            json!(["a\nno\n", "- no", "# no", "'no'", "no: x", "[no]", "no\tno", "é\u{1F600}"]),
        ] {
            let text = serde_yaml::to_string(&value).unwrap();
            assert_eq!(quote_for_yaml_1_1(&text), text);
        }
    }

    #[test]
    fn the_value_is_the_same() {
        let value = json!({"é\u{1F600}": "no", "taken": "2026-11-29T09:00:00Z", "text": "line\nno\n", "items": [{"on": "off", "x": 1}]});
        let text = write(&value);
        assert_eq!(serde_yaml::from_str::<Value>(&text).unwrap(), value);
        assert_eq!(
            text,
            "items:\n- 'on': 'off'\n  x: 1\ntaken: '2026-11-29T09:00:00Z'\ntext: |\n  line\n  no\né\u{1F600}: 'no'\n"
        );
    }
}
