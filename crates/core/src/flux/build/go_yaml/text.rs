//! JSON that every YAML reader takes for the same value: text has printable characters of ASCII only.

use std::io;

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::Formatter;

/// Writes a value as JSON.
pub(crate) fn to_text(value: &Value) -> String {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, Escaped);
    // A value has only text as keys, and the writer does not fail.
    let _ = value.serialize(&mut serializer);
    String::from_utf8(bytes).unwrap_or_default()
}

/// Escapes all other characters as YAML and JSON do. Both read a pair of surrogates as it is, or refuse it, so characters
/// above U+FFFF are written as they are.
struct Escaped;

impl Formatter for Escaped {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        for c in fragment.chars() {
            match c {
                ' '..='~' | '\u{10000}'..='\u{10ffff}' => write!(writer, "{c}")?,
                _ => write!(writer, "\\u{:04x}", u32::from(c))?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_is_ascii_and_reads_as_the_same_value() {
        let value = json!({"a": "x\u{7f}\u{85}\u{2028}\u{feff}é\n\"\\", "b": [1, 1.5, null, true], "c": "😀"});
        let text = to_text(&value);
        assert!(!text.contains(['\u{7f}', '\u{85}', '\u{2028}', '\u{feff}', 'é']), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert_eq!(super::super::read(text.as_bytes()).unwrap().to_json().unwrap(), value);
    }
}
