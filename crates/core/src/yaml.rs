//! YAML of others, read in bounded time.
//!
//! The time of the parser grows with the product of length and depth of `[` and `{`, and it has no limit before it is done.
//! So the depth is measured first, with a parser of the same grammar that reports one event at a time.

use libyaml_safer::{EventData, Parser};
use serde::Deserialize;
use serde_json::Value;

use crate::bounds::{Exceeded, YAML_DEPTH};

/// Message with which the parser refuses a depth.
const TOO_DEEP: &str = "recursion limit exceeded";

/// Reason why a text cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum YamlError {
    /// The parser's message.
    #[error("{0}")]
    Invalid(String),
    #[error(transparent)]
    Exceeded(#[from] Exceeded),
}

impl From<serde_yaml::Error> for YamlError {
    fn from(error: serde_yaml::Error) -> Self {
        let message = error.to_string();
        if message.starts_with(TOO_DEEP) { Exceeded(YAML_DEPTH).into() } else { Self::Invalid(message) }
    }
}

/// Fails if a text has so many nested lists and maps that the parser takes long. Passes a text that is not YAML.
pub fn check_depth(text: &str) -> Result<(), Exceeded> {
    let openings = text.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count();
    if YAML_DEPTH.check(openings).is_ok() {
        return Ok(());
    }
    // The parser panics at these tags, and at a block scalar without a line end.
    if has_tag_beside_comma(text) {
        return Err(Exceeded(YAML_DEPTH));
    }
    let text = format!("{text}\n");
    let mut parser = Parser::new();
    parser.set_input(text.as_bytes());
    let mut depth = 0;
    while let Ok(event) = parser.parse() {
        match event.data {
            EventData::SequenceStart { .. } | EventData::MappingStart { .. } => {
                depth += 1;
                YAML_DEPTH.check(depth)?;
            }
            EventData::SequenceEnd | EventData::MappingEnd => depth -= 1,
            EventData::StreamEnd => break,
            _ => {}
        }
    }
    Ok(())
}

/// Returns true if a word that may be a tag contains a comma or a bracket. Parsers end such a tag at different characters.
pub(crate) fn has_tag_beside_comma(text: &str) -> bool {
    text.match_indices('!').any(|(at, _)| {
        let may_begin = text[..at].chars().next_back().is_none_or(|c| c.is_whitespace() || ",[]{}:?-".contains(c));
        let word = text[at..].split(char::is_whitespace).next().unwrap_or_default();
        may_begin && word.contains([',', '[', ']', '{', '}'])
    })
}

/// Reads the documents of a text.
pub fn documents<T: for<'de> Deserialize<'de>>(text: &str) -> Result<Vec<T>, YamlError> {
    Ok(results(text)?.collect::<Result<_, _>>()?)
}

/// Reads the documents of a text, each with its own result.
pub fn results<'t, T: Deserialize<'t>>(
    text: &'t str,
) -> Result<impl Iterator<Item = Result<T, serde_yaml::Error>> + 't, Exceeded> {
    check_depth(text)?;
    Ok(serde_yaml::Deserializer::from_str(text).map(|document| T::deserialize(document)))
}

/// Returns the texts of the documents in the output of kustomize or helm, where a line `---` separates them. Empty ones are
/// left out.
pub(crate) fn split(text: &str) -> impl Iterator<Item = String> {
    let lines: Vec<&str> = text.lines().collect();
    let documents: Vec<String> = lines
        .split(|line| line.trim_end() == "---")
        .map(|lines| lines.iter().flat_map(|line| [*line, "\n"]).collect())
        .collect();
    documents.into_iter().filter(|document| !document.trim().is_empty())
}

/// Reads a file that must be one document.
///
/// Fails with the reason for people.
pub(crate) fn only_document<T: for<'de> Deserialize<'de>>(text: &str) -> Result<T, String> {
    let mut all = documents(text).map_err(|error| error.to_string())?;
    all.pop().filter(|_| all.is_empty()).ok_or_else(|| "it must be one YAML document".to_owned())
}

/// Reads a text with one document.
pub fn document(text: &str) -> Result<Value, YamlError> {
    check_depth(text)?;
    Ok(Value::deserialize(serde_yaml::Deserializer::from_str(text))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(), YamlError> {
        documents::<Value>(text).map(drop)
    }

    #[test]
    fn depth_is_limited_and_the_error_names_the_limit() {
        let too_deep = Err(YamlError::Exceeded(Exceeded(YAML_DEPTH)));
        let list = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let map = |depth| format!("{}{}", "{a: ".repeat(depth), "}".repeat(depth));
        let block = |depth| format!("{}a", "- ".repeat(depth));
        for nested in [list, map, block] {
            assert_eq!(read(&nested(YAML_DEPTH.limit)), Ok(()));
            assert_eq!(read(&nested(YAML_DEPTH.limit + 1)), too_deep);
            assert_eq!(document(&nested(YAML_DEPTH.limit + 1)).map(drop), too_deep);
        }
        let second = format!("a: 1\n---\n{}", list(1000));
        for text in ["[".repeat(1_000_000), "{".repeat(1_000_000), "[{".repeat(100_000), second] {
            assert_eq!(read(&text), too_deep, "{:.20}", text);
        }
    }

    #[test]
    fn many_brackets_are_not_deep() {
        let list = format!("[{}]", "[],{},".repeat(1000));
        let script = format!("a: |\n{}", "  if [[ -z $x ]; then {{\n".repeat(1000));
        let quoted = format!("a: \"{}\"\nb: '{}'\n# {}\n", "[".repeat(1000), "{".repeat(1000), "[".repeat(1000));
        let plain = format!("a: x{}\n", "[".repeat(1000));
        for text in [list, script, quoted, plain] {
            assert_eq!(read(&text), Ok(()), "{:.40}", text);
        }
    }

    #[test]
    fn the_message_of_the_parser_is_kept() {
        assert!(matches!(read("a: [b"), Err(YamlError::Invalid(message)) if message.contains("line 1")));
        let broken = format!("{}\na: [b", "[]\n".repeat(200));
        assert!(matches!(read(&broken), Err(YamlError::Invalid(_))));
    }
}
