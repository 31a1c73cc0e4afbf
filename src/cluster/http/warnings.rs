//! Warnings that the API server sends beside its answers (`Warning: 299 - "text"`): kubectl shows each once, kube drops
//! them (reference kubectl-and-krew 3.5).

use std::collections::HashSet;
use std::sync::Mutex;

use http::HeaderMap;
use http::header::WARNING;

/// Warnings received so far, each once.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Mutex<Received>);

#[derive(Debug, Default)]
struct Received {
    seen: HashSet<String>,
    waiting: Vec<String>,
}

impl Warnings {
    /// Notes the warnings of one answer.
    pub(crate) fn note(&self, headers: &HeaderMap) {
        let values = headers.get_all(WARNING).into_iter().filter_map(|value| value.to_str().ok());
        let texts: Vec<String> = values.flat_map(texts).collect();
        if texts.is_empty() {
            return;
        }
        let mut received = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for text in texts {
            if received.seen.insert(text.clone()) {
                received.waiting.push(text);
            }
        }
    }

    /// The warnings that nobody has taken yet, in the order they came.
    pub(crate) fn take(&self) -> Vec<String> {
        let mut received = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        std::mem::take(&mut received.waiting)
    }
}

/// The texts of a header value such as `299 - "a", 299 - "b"`; warnings with another code are not for people
/// (RFC 9111 5.5, client-go follows the same rule).
fn texts(value: &str) -> Vec<String> {
    let mut found = vec![];
    let mut rest = value;
    while let Some((head, tail)) = rest.split_once('"') {
        let mut text = String::new();
        let mut characters = tail.char_indices();
        let end = loop {
            match characters.next() {
                Some((_, '\\')) => text.extend(characters.next().map(|(_, escaped)| escaped)),
                Some((at, '"')) => break at + 1,
                Some((_, other)) => text.push(other),
                None => return found,
            }
        };
        if head.trim_start_matches([',', ' ']).starts_with("299 ") {
            found.push(text);
        }
        rest = &tail[end..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::texts;

    #[test]
    fn warning_header_values() {
        for (name, value, expected) in [
            ("one", r#"299 - "v1beta1 is deprecated""#, vec!["v1beta1 is deprecated"]),
            ("two", r#"299 - "a, b", 299 - "c""#, vec!["a, b", "c"]),
            ("escaped quote", r#"299 - "say \"hi\" \\""#, vec![r#"say "hi" \"#]),
            ("with a date", r#"299 - "a" "Thu, 01 Jan 1970 00:00:00 GMT", 299 - "b""#, vec!["a", "b"]),
            ("another code", r#"199 - "a""#, vec![]),
            ("no end", r#"299 - "a"#, vec![]),
            ("not a warning", "hello", vec![]),
        ] {
            assert_eq!(texts(value), expected, "{name}");
        }
    }
}
