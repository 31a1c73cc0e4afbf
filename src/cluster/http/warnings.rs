//! Warning headers of the API server (`Warning: 299 - "text"`). kubectl prints each once; kube ignores them
//! (docs/reference/kubectl-plugin.md 3.5).

use std::collections::HashSet;
use std::sync::Mutex;

use http::HeaderMap;
use http::header::WARNING;

/// Warnings received so far, without duplicates.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Mutex<Received>);

#[derive(Debug, Default)]
struct Received {
    seen: HashSet<String>,
    unread: Vec<String>,
}

/// Warnings that are kept of the answers to some requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WarningFilter {
    All,
    /// For types that the user did not choose: all but those that a type is deprecated (`v1 Endpoints is deprecated in v1.33+; …`).
    NoDeprecations,
    /// For objects with values of Secrets, which the words of a policy or a webhook can quote.
    Nothing,
}

impl WarningFilter {
    fn lets_through(self, text: &str) -> bool {
        match self {
            Self::All => true,
            Self::NoDeprecations => !text.contains(" is deprecated in v"),
            Self::Nothing => false,
        }
    }
}

impl Warnings {
    /// Adds the warnings of one answer that a filter lets through.
    pub(crate) fn add(&self, headers: &HeaderMap, filter: WarningFilter) {
        let values = headers.get_all(WARNING).into_iter().filter_map(|value| value.to_str().ok());
        let mut texts: Vec<String> = values.flat_map(texts).collect();
        texts.retain(|text| filter.lets_through(text));
        if texts.is_empty() {
            return;
        }
        let mut received = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for text in texts {
            if received.seen.insert(text.clone()) {
                received.unread.push(text);
            }
        }
    }

    /// Returns the warnings since the last call, in order of arrival.
    pub(crate) fn take(&self) -> Vec<String> {
        let mut received = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        std::mem::take(&mut received.unread)
    }
}

/// Returns the texts of a header value such as `299 - "a", 299 - "b"`. As in client-go, ignores other codes (RFC 9111 5.5).
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
    use super::*;

    #[test]
    fn deprecations_of_types_that_nobody_chose_are_left_out() {
        let mut headers = HeaderMap::new();
        for text in
            ["v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice", "maintenance at noon"]
        {
            headers.append(WARNING, format!("299 - \"{text}\"").parse().unwrap());
        }
        for (filter, expected) in
            [(WarningFilter::All, 2), (WarningFilter::NoDeprecations, 1), (WarningFilter::Nothing, 0)]
        {
            let warnings = Warnings::default();
            warnings.add(&headers, filter);
            assert_eq!(warnings.take().len(), expected);
        }
    }

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
