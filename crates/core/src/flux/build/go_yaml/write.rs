//! YAML as Go's `sigs.k8s.io/yaml` writes it, for values that it has read from JSON.
//!
//! Source: go-yaml v2.4.4 `encode.go`, `emitterc.go` and `sorter.go`; compared in `tests/systems/flux_texts`.

use std::cmp::Ordering;

use super::scalars::resolve;
use super::value::{GoValue, ReadError, shortest_text};

/// Column behind which a text is folded at its next space.
const WIDTH: usize = 80;
/// Length of the longest key that is written on the line of its value.
const SIMPLE_KEY_LENGTH: usize = 128;

/// Writes a value.
///
/// Fails if it is not known how Go writes a text in it.
pub(crate) fn write(value: &GoValue) -> Result<String, ReadError> {
    let mut writer = Writer { text: String::new() };
    match value {
        GoValue::Map(map) if !map.is_empty() => writer.map(map, 0, false)?,
        GoValue::List(items) if !items.is_empty() => writer.list(items, 0, false)?,
        other => writer.scalar(other, 0)?,
    }
    if !writer.text.ends_with('\n') {
        writer.text.push('\n');
    }
    Ok(writer.text)
}

struct Writer {
    text: String,
}

impl Writer {
    /// Writes the entries of a map. The first is on the line that was begun, if `is_inline`.
    fn map(
        &mut self,
        map: &std::collections::BTreeMap<String, GoValue>,
        indent: usize,
        is_inline: bool,
    ) -> Result<(), ReadError> {
        let mut keys: Vec<&String> = map.keys().collect();
        keys.sort_by(|a, b| compare_keys(a, b));
        for (number, key) in keys.into_iter().enumerate() {
            if number > 0 || !is_inline {
                self.begin_line(indent);
            }
            if key.contains('\n') || key.len() > SIMPLE_KEY_LENGTH {
                return Err(ReadError::unsupported("a key has several lines or is long"));
            }
            self.scalar_text(key, indent, true)?;
            self.text.push(':');
            match &map[key] {
                GoValue::Map(inner) if !inner.is_empty() => self.map(inner, indent + 2, false)?,
                GoValue::List(items) if !items.is_empty() => self.list(items, indent, false)?,
                scalar => {
                    self.text.push(' ');
                    self.scalar(scalar, indent)?;
                }
            }
        }
        Ok(())
    }

    fn list(&mut self, items: &[GoValue], indent: usize, is_inline: bool) -> Result<(), ReadError> {
        for (number, item) in items.iter().enumerate() {
            if number > 0 || !is_inline {
                self.begin_line(indent);
            }
            self.text.push_str("- ");
            match item {
                GoValue::Map(inner) if !inner.is_empty() => self.map(inner, indent + 2, true)?,
                GoValue::List(inner) if !inner.is_empty() => self.list(inner, indent + 2, true)?,
                scalar => self.scalar(scalar, indent)?,
            }
        }
        Ok(())
    }

    fn begin_line(&mut self, indent: usize) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        self.text.extend(std::iter::repeat_n(' ', indent));
    }

    fn column(&self) -> usize {
        self.text.rsplit('\n').next().unwrap_or_default().chars().count()
    }

    fn scalar(&mut self, value: &GoValue, indent: usize) -> Result<(), ReadError> {
        match value {
            GoValue::Null => self.text.push_str("null"),
            GoValue::Bool(value) => self.text.push_str(if *value { "true" } else { "false" }),
            GoValue::Int(number) => self.text.push_str(&number.to_string()),
            GoValue::Uint(number) => self.text.push_str(&number.to_string()),
            GoValue::Float(number) => self.text.push_str(&shortest_text(number)),
            GoValue::Text(text) => self.scalar_text(text, indent, false)?,
            GoValue::List(_) => self.text.push_str("[]"),
            GoValue::Map(_) => self.text.push_str("{}"),
        }
        Ok(())
    }

    fn scalar_text(&mut self, text: &str, indent: usize, is_key: bool) -> Result<(), ReadError> {
        if !text.chars().all(|c| matches!(c, ' '..='~' | '\n') || c.is_alphanumeric()) || may_be_timestamp(text) {
            return Err(ReadError::unsupported(format!("it is not known how {text:?} is written")));
        }
        if text.contains('\n') {
            return self.block(text, indent);
        }
        let resolves_to_text = matches!(resolve(text, None, true), Ok(GoValue::Text(_)));
        if !resolves_to_text || text == "<<" || is_base_60(text) {
            return self.quoted(text, '"', indent, is_key);
        }
        if needs_quotes(text) {
            return self.quoted(text, '\'', indent, is_key);
        }
        self.folded(text, indent, is_key);
        Ok(())
    }

    fn quoted(&mut self, text: &str, quote: char, indent: usize, is_key: bool) -> Result<(), ReadError> {
        let escaped = match quote {
            '"' if !text.is_ascii() || (self.column() + text.len() > WIDTH && text.contains(' ')) => {
                return Err(ReadError::unsupported(format!("it is not known how {text:?} is written")));
            }
            '"' => text.replace('\\', "\\\\").replace('"', "\\\""),
            _ => text.replace('\'', "''"),
        };
        if quote == '\'' && self.column() + escaped.len() > WIDTH && text.contains(' ') {
            return Err(ReadError::unsupported(format!("it is not known how {text:?} is written")));
        }
        self.text.push(quote);
        self.folded(&escaped, indent, is_key || quote == '"');
        self.text.push(quote);
        Ok(())
    }

    /// Writes a text, with a line break in place of each single space behind the width.
    fn folded(&mut self, text: &str, indent: usize, is_key: bool) {
        let (mut column, mut was_space) = (self.column(), false);
        let mut rest = text.chars().peekable();
        while let Some(next) = rest.next() {
            if next == ' ' && !is_key && !was_space && column > WIDTH && rest.peek() != Some(&' ') {
                self.begin_line(indent + 2);
                column = indent + 2;
            } else {
                self.text.push(next);
                column += 1;
            }
            was_space = next == ' ';
        }
    }

    /// Writes a text of several lines as a block.
    fn block(&mut self, text: &str, indent: usize) -> Result<(), ReadError> {
        if text.starts_with([' ', '\n']) || text.ends_with(' ') || text.contains(" \n") {
            return Err(ReadError::unsupported(format!("it is not known how {text:?} is written")));
        }
        self.text.push('|');
        match text.strip_suffix('\n') {
            None => self.text.push('-'),
            Some(rest) if rest.ends_with('\n') => self.text.push('+'),
            Some(_) => {}
        }
        for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
            self.text.push('\n');
            if !line.is_empty() {
                self.text.extend(std::iter::repeat_n(' ', indent + 2));
                self.text.push_str(line);
            }
        }
        if text.ends_with("\n\n") {
            self.text.push('\n');
        }
        Ok(())
    }
}

/// Returns true if a text looks like a date, which Go quotes.
fn may_be_timestamp(text: &str) -> bool {
    let digits = text.chars().take_while(char::is_ascii_digit).count();
    digits == 4 && text[digits..].starts_with('-')
}

/// Returns true for a number with digits to the base of 60, such as `1:30`.
fn is_base_60(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.contains(':')
        && digits.chars().all(|c| matches!(c, '0'..='9' | '_' | ':' | '.'))
}

/// Returns true if a text in one line is no plain scalar.
fn needs_quotes(text: &str) -> bool {
    let Some(first) = text.chars().next() else { return true };
    let second_is_blank = text.chars().nth(1).is_none_or(|second| second == ' ');
    "#,[]{}&*!|>'\"%@`".contains(first)
        || (matches!(first, '?' | ':' | '-') && second_is_blank)
        || ["---", "..."].iter().any(|marker| text.starts_with(marker))
        || text.starts_with(' ')
        || text.ends_with([' ', ':'])
        || text.contains(": ")
        || text.contains(" #")
}

/// Compares keys as Go does: numbers in them by their value.
fn compare_keys(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let Some(at) = a.iter().zip(&b).position(|(a, b)| a != b) else { return a.len().cmp(&b.len()) };
    let (first, second) = (a[at], b[at]);
    match (first.is_alphabetic(), second.is_alphabetic()) {
        (true, true) => return first.cmp(&second),
        (false, true) => return Ordering::Less,
        (true, false) => return Ordering::Greater,
        (false, false) => {}
    }
    let digits_before = a[..at].iter().rev().take_while(|c| c.is_ascii_digit());
    let has_value = (first == '0' || second == '0') && digits_before.into_iter().any(|c| *c != '0');
    let start = i64::from(has_value);
    leading_number(&a[at..], start).cmp(&leading_number(&b[at..], start)).then(first.cmp(&second))
}

/// Returns the value of the digits at the start of a text, behind the value of earlier ones, and their number.
fn leading_number(text: &[char], start: i64) -> (i64, usize) {
    let digits = text.iter().map_while(|c| c.to_digit(10));
    digits.fold((start, 0), |(value, length), digit| (value.wrapping_mul(10).wrapping_add(digit.into()), length + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_where_go_quotes_them() {
        let rows = [
            ("a b", "a b"),
            ("", "\"\""),
            ("true", "\"true\""),
            ("0123", "\"0123\""),
            ("1:30", "\"1:30\""),
            ("a: b", "'a: b'"),
            ("- a", "'- a'"),
            ("-a", "-a"),
            ("it's", "it's"),
            ("'", "''''"),
            ("a\nb\n", "|\n  a\n  b"),
            ("a\n\n", "|+\n  a\n"),
            ("a\n\nb", "|-\n  a\n\n  b"),
        ];
        for (text, expected) in rows {
            assert_eq!(write(&GoValue::Text(text.to_owned())).unwrap(), format!("{expected}\n"), "{text:?}");
        }
        for text in ["2020-01-01", "\u{1}", " a\nb", &"\" x".repeat(40)] {
            assert!(write(&GoValue::Text(text.to_owned())).is_err(), "{text:?}");
        }
    }

    #[test]
    fn keys_are_in_the_order_of_go() {
        let mut keys = vec!["b", "a10", "a9", "B", "a-b", "a", "a09", "1"];
        keys.sort_by(|a, b| compare_keys(a, b));
        assert_eq!(keys, ["1", "B", "a", "a-b", "a9", "a09", "a10", "b"]);
    }

    #[test]
    fn numbers_have_the_shortest_text() {
        let rows = [(0.5, "0.5"), (1234567.5, "1.2345675e+06"), (0.00001, "1e-05"), (123456.5, "123456.5")];
        for (number, expected) in rows {
            assert_eq!(shortest_text(&number), expected);
        }
    }
}
