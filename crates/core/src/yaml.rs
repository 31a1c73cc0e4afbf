//! YAML of others, read in bounded time.
//!
//! The time of the parser grows with the product of length and depth of `[` and `{`, and it has no limit before it is
//! done. So the depth is measured first, with a parser of the same grammar that reports one event at a time.

use std::collections::{HashMap, HashSet};

use libyaml_safer::{EventData, Parser};
use serde::Deserialize;
use serde_json::Value;

use crate::bounds::{Exceeded, YAML_DEPTH, YAML_VALUES};

/// Number of aliases that cannot repeat much.
const FEW_ALIASES: usize = 16;

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
    if has_tag_beside_comma(text) {
        return Err(Exceeded(YAML_DEPTH));
    }
    let mut depth = 0;
    visit_events(text, |event| {
        match event {
            EventData::SequenceStart { .. } | EventData::MappingStart { .. } => {
                depth += 1;
                YAML_DEPTH.check(depth)?;
            }
            EventData::SequenceEnd | EventData::MappingEnd => depth -= 1,
            _ => {}
        }
        Ok(())
    })
}

/// Calls `visit` with the events of a text, up to the first error of either. The parser panics at the tags of
/// [`has_tag_beside_comma`].
fn visit_events<E>(text: &str, mut visit: impl FnMut(EventData) -> Result<(), E>) -> Result<(), E> {
    // It panics at a block scalar without a line end, too.
    let text = format!("{text}\n");
    let mut parser = Parser::new();
    parser.set_input(text.as_bytes());
    while let Ok(event) = parser.parse() {
        if matches!(event.data, EventData::StreamEnd) {
            break;
        }
        visit(event.data)?;
    }
    Ok(())
}

/// Fails if the aliases of a text stand for more values than are read. Passes a text that is not YAML.
fn check_aliases(text: &str) -> Result<(), Exceeded> {
    let aliases = number_of_aliases(text);
    if aliases == 0 {
        return Ok(());
    }
    // A few aliases cannot repeat much.
    if has_tag_beside_comma(text) {
        return if aliases > FEW_ALIASES { Err(Exceeded(YAML_VALUES)) } else { Ok(()) };
    }
    let mut count = AliasCount::default();
    visit_events(text, |event| {
        match event {
            EventData::DocumentStart { .. } => count = AliasCount::default(),
            EventData::Alias { anchor } => count.repeat(&anchor)?,
            EventData::Scalar { anchor, .. } => count.add(anchor, 1)?,
            EventData::SequenceStart { anchor, .. } | EventData::MappingStart { anchor, .. } => count.open(anchor),
            EventData::SequenceEnd | EventData::MappingEnd => count.close()?,
            _ => {}
        }
        Ok(())
    })
}

/// Returns the number of words that can be aliases, or 0 if nothing can be an anchor.
fn number_of_aliases(text: &str) -> usize {
    if words_after(text, b'&').next().is_none() { 0 } else { words_after(text, b'*').count() }
}

/// Returns the places at which a word can begin with this mark. The parser also takes line ends beyond ASCII, such as
/// U+0085.
fn words_after(text: &str, mark: u8) -> impl Iterator<Item = usize> {
    let bytes = text.as_bytes();
    (0..bytes.len()).filter(move |at| bytes[*at] == mark).filter(|at| {
        let before = at.checked_sub(1).map(|before| bytes[before]);
        let may_begin = before.is_none_or(|byte| !byte.is_ascii() || b" \t\n\r,[]{}:?-".contains(&byte));
        may_begin && bytes.get(at + 1).is_some_and(|next| !next.is_ascii_whitespace())
    })
}

/// Number of the values of a document, with those that aliases repeat.
#[derive(Default)]
struct AliasCount {
    /// Values below each anchor.
    anchors: HashMap<String, usize>,
    /// Lists and maps that are open: the anchor, and the number of values so far.
    open: Vec<(Option<String>, usize)>,
    total: usize,
}

impl AliasCount {
    fn repeat(&mut self, anchor: &str) -> Result<(), Exceeded> {
        let values = self.anchors.get(anchor).copied().unwrap_or(1);
        self.count(values)
    }

    fn add(&mut self, anchor: Option<String>, values: usize) -> Result<(), Exceeded> {
        self.count(values)?;
        self.anchors.extend(anchor.map(|anchor| (anchor, values)));
        Ok(())
    }

    fn open(&mut self, anchor: Option<String>) {
        self.open.push((anchor, 1));
    }

    fn close(&mut self) -> Result<(), Exceeded> {
        let Some((anchor, values)) = self.open.pop() else { return Ok(()) };
        self.anchors.extend(anchor.map(|anchor| (anchor, values)));
        if let Some((_, parent)) = self.open.last_mut() {
            *parent = parent.saturating_add(values);
        }
        self.total = self.total.saturating_add(1);
        YAML_VALUES.check(self.total)
    }

    fn count(&mut self, values: usize) -> Result<(), Exceeded> {
        if let Some((_, parent)) = self.open.last_mut() {
            *parent = parent.saturating_add(values);
        }
        self.total = self.total.saturating_add(values);
        YAML_VALUES.check(self.total)
    }
}

/// Returns true if a word that may be a tag contains a comma or a bracket. Parsers end such a tag at different
/// characters.
pub(crate) fn has_tag_beside_comma(text: &str) -> bool {
    text.match_indices('!').any(|(at, _)| {
        let may_begin = text[..at].chars().next_back().is_none_or(|c| c.is_whitespace() || ",[]{}:?-".contains(c));
        let word = text[at..].split(char::is_whitespace).next().unwrap_or_default();
        may_begin && word.contains([',', '[', ']', '{', '}'])
    })
}

/// Key whose value is merged into its mapping.
const MERGE: &str = "<<";

pub fn documents<T: for<'de> Deserialize<'de>>(text: &str) -> Result<Vec<T>, YamlError> {
    Ok(results(text)?.collect::<Result<_, _>>()?)
}

/// Reads the documents of a text, each with its own result.
pub fn results<'t, T: Deserialize<'t>>(
    text: &'t str,
) -> Result<impl Iterator<Item = Result<T, serde_yaml::Error>> + 't, Exceeded> {
    check_depth(text)?;
    check_aliases(text)?;
    Ok(serde_yaml::Deserializer::from_str(text).map(|document| T::deserialize(document)))
}

/// Returns the texts of the documents in the output of kustomize or helm, where a line `---` separates them. Empty ones
/// are left out.
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

/// Returns a key that a mapping of a document has twice. Parsers in Go refuse that, and the one used here takes the
/// last value. Returns none of a text that is not YAML.
///
/// Source: github.com/go-yaml/yaml v3.0.1 `decode.go`, `uniqueKeys`: scalars are compared as written.
pub(crate) fn repeated_key(document: &str) -> Option<String> {
    if has_tag_beside_comma(document) {
        return None;
    }
    // Keys of the mappings that are open, and true where a key comes next; `None` for a list.
    let mut open: Vec<Option<(HashSet<String>, bool)>> = vec![];
    let found = visit_events(document, |event| {
        match event {
            EventData::MappingStart { .. } => {
                open.push(Some((HashSet::new(), true)));
                return Ok(());
            }
            EventData::SequenceStart { .. } => {
                open.push(None);
                return Ok(());
            }
            EventData::SequenceEnd | EventData::MappingEnd => drop(open.pop()),
            EventData::Scalar { value, .. } => {
                if let Some(Some((keys, true))) = open.last_mut()
                    && let Some(key) = keys.replace(value)
                {
                    return Err(key);
                }
            }
            EventData::Alias { .. } => {}
            _ => return Ok(()),
        }
        // A key or a value is over.
        if let Some(Some((_, is_key))) = open.last_mut() {
            *is_key = !*is_key;
        }
        Ok(())
    });
    found.err()
}

/// Reads a text with one document. Merge keys (`<<: *defaults`) are followed, as Helm, kustomize and the controllers
/// do.
pub fn document(text: &str) -> Result<Value, YamlError> {
    check_depth(text)?;
    check_aliases(text)?;
    let mut value = Value::deserialize(serde_yaml::Deserializer::from_str(text))?;
    if text.contains(MERGE) {
        merge(&mut value);
    }
    Ok(value)
}

/// Replaces the merge keys of all mappings by what they add. A key of the mapping itself wins, then one of an earlier
/// entry.
fn merge(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(merge),
        Value::Object(fields) => {
            fields.values_mut().for_each(merge);
            let added = match fields.get(MERGE) {
                Some(Value::Object(_)) => fields.remove(MERGE).into_iter().collect(),
                Some(Value::Array(items)) if items.iter().all(Value::is_object) => items.clone(),
                _ => return,
            };
            fields.remove(MERGE);
            for (key, value) in added.iter().filter_map(Value::as_object).flatten() {
                fields.entry(key).or_insert_with(|| value.clone());
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
    fn aliases_that_repeat_too_much_are_stopped_before_they_are_read() {
        let bomb = |levels: usize, wide: usize| {
            let level = |at: usize| format!("l{at}: &l{at} [{}]\n", vec![format!("*l{}", at - 1); wide].join(", "));
            let more: String = (1..levels).map(level).collect();
            format!("l0: &l0 [{}]\n{more}", vec!["x"; wide].join(", "))
        };
        let exceeded = Err(YamlError::Exceeded(Exceeded(YAML_VALUES)));
        assert_eq!(read(&bomb(9, 10)), exceeded);
        // One large list, repeated: the parser would allow a hundred times the number of nodes.
        let large = format!("a: &a [{}]\nb: [{}]\n", "x, ".repeat(20_000), "*a, ".repeat(100));
        assert_eq!(read(&large), exceeded);
        assert_eq!(read(&format!("{}t: !a,b 1\n", bomb(9, 10))), exceeded, "a tag that no parser of events reads");
        for end in ["\u{85}", "\u{2028}", "\u{2029}"] {
            assert_eq!(read(&bomb(9, 10).replace('*', &format!("{end}*"))), exceeded, "{end:?} before each alias");
        }
        for text in [bomb(3, 10), "a: &a b\nc: *a\n".to_owned(), "a: 'x &y *z'\n".to_owned()] {
            assert_eq!(read(&text), Ok(()), "{text}");
        }
        let script = format!("a: |\n{}", "  echo *a &b\n".repeat(1_000));
        assert_eq!(read(&script), Ok(()));
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

    #[test]
    fn a_key_that_is_there_twice_is_found_as_go_finds_it() {
        let rows = [
            ("a: 1\nb: {a: 2}\n", None),
            ("a: 1\nb: 2\na: 3\n", Some("a")),
            ("a: [{b: 1}, {b: 1}]\nc: a\nd: a\n", None),
            ("a: [{b: 1, c: 2, b: 1}]\n", Some("b")),
            ("1: a\n'1': b\n", Some("1")),
            ("a: &x {b: 1}\nc:\n  <<: *x\n  b: 2\n", None),
            ("? [a]\n: 1\n? [a]\n: 2\nc: 3\n", None),
            ("a: &x 1\nb: *x\nc: *x\n", None),
            ("a: [\n", None),
            ("", None),
        ];
        for (text, expected) in rows {
            assert_eq!(repeated_key(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn merge_keys_add_what_a_mapping_does_not_have() {
        for (text, expected) in [
            ("a: &x {b: 1, c: 2}\nd: {<<: *x, b: 3}\n", json!({"a": {"b": 1, "c": 2}, "d": {"b": 3, "c": 2}})),
            ("<<: [{a: 1}, {a: 2, b: 2}]\nc: 3\n", json!({"a": 1, "b": 2, "c": 3})),
            ("<<: {<<: {a: 1}, b: 2}\n", json!({"a": 1, "b": 2})),
            ("<<: text\n", json!({"<<": "text"})),
        ] {
            assert_eq!(document(text).unwrap(), expected, "{text}");
        }
    }
}
