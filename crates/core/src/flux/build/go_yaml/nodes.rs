//! Nodes of a YAML document: the events of a parser that has the same origin as Go's, without what the two read
//! differently.

use std::collections::HashMap;
use std::io::{Chain, Read};

use libyaml_safer::{ErrorKind, Event, EventData, MappingStyle, Parser, ScalarStyle, SequenceStyle};

use super::value::ReadError;
use crate::bounds::KUSTOMIZATION_DEPTH;
use crate::yaml::has_tag_beside_comma;

/// Errors of the parser that are none in Go: `a:` before a bracket in a flow collection, and the escape `\'`.
const ACCEPTED_BY_GO: [&str; 2] = ["found unexpected ':'", "found unknown escape character"];

/// Index of a node in its document.
pub(super) type NodeIndex = usize;

#[derive(Debug)]
pub(super) enum YamlNode {
    Scalar {
        value: String,
        tag: Option<String>,
        /// The scalar is plain, or has the tag `!`: its text decides on its type.
        is_plain: bool,
    },
    Sequence(Vec<NodeIndex>),
    /// Keys and values.
    Mapping(Vec<(NodeIndex, NodeIndex)>),
    Alias(NodeIndex),
}

/// A document; its root is the first node.
#[derive(Debug, Default)]
pub(super) struct NodeTree {
    pub(super) nodes: Vec<YamlNode>,
}

/// Returns a text as UTF-8 without its byte order mark. It must contain no character that Go and this parser treat
/// differently.
pub(super) fn decode_text(bytes: &[u8]) -> Result<&str, ReadError> {
    let decoded = std::str::from_utf8(bytes).map_err(|_| ReadError::unsupported("the text is not UTF-8"))?;
    let text = decoded.strip_prefix('\u{feff}').unwrap_or(decoded);
    if let Some(odd) = text.chars().find(|c| is_odd(*c)) {
        return Err(ReadError::unsupported(format!("the text has the character {}", odd.escape_unicode())));
    }
    if has_tag_beside_comma(text) {
        return Err(ReadError::unsupported("a tag touches a comma or a bracket"));
    }
    Ok(text)
}

/// Returns true for a character that Go and this parser may treat differently.
fn is_odd(c: char) -> bool {
    c.is_control() && !matches!(c, '\t' | '\n' | '\r')
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Returns true if text stands behind a bracket: Go may end the document there, and does not read on.
fn has_text_after_flow(text: &str) -> bool {
    text.match_indices([']', '}']).any(|(at, _)| {
        let rest = text[at + 1..].trim_start_matches([' ', '\t']);
        rest.starts_with(|c: char| !",]}#\r\n".contains(c))
    })
}

/// The documents of a text, one after the other.
pub(super) struct Documents<'a> {
    parser: Parser<Chain<&'a [u8], &'static [u8]>>,
    text: &'a str,
}

impl<'a> Documents<'a> {
    /// Starts to read a text that [`decode_text`] accepted.
    pub(super) fn of(text: &'a str) -> Self {
        // The parser panics at a block scalar without a line end.
        let end: &[u8] = if text.ends_with(['\n', '\r']) { b"" } else { b"\n" };
        let mut parser = Parser::new();
        parser.set_input(text.as_bytes().chain(end));
        Self { parser, text }
    }

    /// Reads the next document; `None` at the end of the text. What follows the document is not read.
    pub(super) fn next(&mut self) -> Result<Option<NodeTree>, ReadError> {
        let mut builder = TreeBuilder::default();
        loop {
            let event = self.event()?;
            let (begins_at, ends_at) = (event.start_mark.index, event.end_mark.index);
            match event.data {
                EventData::StreamStart { .. } => {}
                EventData::StreamEnd => return Ok(None),
                EventData::DocumentStart { version_directive, tag_directives, .. } => {
                    if version_directive.is_some_and(|version| (version.major, version.minor) != (1, 1)) {
                        return Err(ReadError::invalid("found incompatible YAML document"));
                    }
                    if !tag_directives.is_empty() {
                        return Err(ReadError::unsupported("the text has a %TAG directive"));
                    }
                }
                EventData::DocumentEnd { .. } => return Ok(Some(builder.document)),
                EventData::Scalar { anchor, tag, value, plain_implicit, quoted_implicit, style } => {
                    if style == ScalarStyle::DoubleQuoted {
                        self.check_escapes(begins_at, ends_at)?;
                    }
                    let value = self.without_added_break(value, style, ends_at)?;
                    builder.add(EventData::Scalar { anchor, tag, value, plain_implicit, quoted_implicit, style })?;
                }
                event => builder.add(event)?,
            }
        }
    }

    /// Fails for the escape `\/`, which Go does not know, in a quoted scalar.
    fn check_escapes(&self, begins_at: u64, ends_at: u64) -> Result<(), ReadError> {
        let range = usize::try_from(begins_at).ok().zip(usize::try_from(ends_at).ok());
        let text = range.and_then(|(from, to)| self.text.get(from..to));
        let Some(text) = text else { return Err(ReadError::unsupported("the escapes of a text are not known")) };
        let mut escapes = text.chars();
        while let Some(c) = escapes.next() {
            if c == '\\' && escapes.next() == Some('/') {
                return Err(ReadError::invalid("found unknown escape character"));
            }
        }
        Ok(())
    }

    /// Removes the line end that was added to the text from a block scalar at its end.
    fn without_added_break(&self, mut value: String, style: ScalarStyle, ends_at: u64) -> Result<String, ReadError> {
        let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
        if !is_block || ends_at <= self.text.len() as u64 {
            return Ok(value);
        }
        if self.text.lines().next_back().is_none_or(|line| line.trim().is_empty()) {
            return Err(ReadError::unsupported("the text ends with an empty line of a block scalar"));
        }
        if value.ends_with('\n') {
            value.pop();
        }
        Ok(value)
    }

    fn event(&mut self) -> Result<Event, ReadError> {
        self.parser.parse().map_err(|error| {
            let line = error.problem_mark().map_or(0, |mark| mark.line + 1);
            let message = format!("line {line}: {}", error.problem());
            let is_certain = matches!(error.kind(), ErrorKind::Scanner | ErrorKind::Parser);
            let is_accepted = ACCEPTED_BY_GO.contains(&error.problem()) || has_text_after_flow(self.text);
            if is_certain && !is_accepted { ReadError::Invalid(message) } else { ReadError::Unsupported(message) }
        })
    }
}

/// A collection that is not complete.
struct Open {
    id: NodeIndex,
    is_flow: bool,
    /// Key of a mapping whose value is not read.
    key: Option<NodeIndex>,
}

/// Builds a document from events without recursion.
#[derive(Default)]
struct TreeBuilder {
    document: NodeTree,
    anchors: HashMap<String, NodeIndex>,
    open: Vec<Open>,
}

impl TreeBuilder {
    fn add(&mut self, event: EventData) -> Result<(), ReadError> {
        match event {
            EventData::SequenceStart { anchor, style, .. } => {
                let id = self.push(YamlNode::Sequence(Vec::new()), anchor);
                self.open(id, style == SequenceStyle::Flow)
            }
            EventData::MappingStart { anchor, style, .. } => {
                let id = self.push(YamlNode::Mapping(Vec::new()), anchor);
                self.open(id, style == MappingStyle::Flow)
            }
            EventData::SequenceEnd | EventData::MappingEnd => {
                if let Some(closed) = self.open.pop() {
                    self.attach(closed.id);
                }
                Ok(())
            }
            EventData::Alias { anchor } => {
                let Some(&target) = self.anchors.get(&anchor) else {
                    return Err(ReadError::invalid(format!("unknown anchor '{anchor}' referenced")));
                };
                let id = self.push(YamlNode::Alias(target), None);
                self.attach(id);
                Ok(())
            }
            EventData::Scalar { anchor, tag, value, plain_implicit, style, .. } => {
                // Go ends the scalar there, and then misses a comma.
                let in_flow = self.open.last().is_some_and(|open| open.is_flow);
                if in_flow && style == ScalarStyle::Plain && value.contains('?') {
                    return Err(ReadError::invalid("found ? in a plain scalar of a flow collection"));
                }
                let id = self.push(YamlNode::Scalar { value, tag, is_plain: plain_implicit }, anchor);
                self.attach(id);
                Ok(())
            }
            EventData::StreamStart { .. }
            | EventData::StreamEnd
            | EventData::DocumentStart { .. }
            | EventData::DocumentEnd { .. } => Ok(()),
        }
    }

    fn push(&mut self, node: YamlNode, anchor: Option<String>) -> NodeIndex {
        let id = self.document.nodes.len();
        self.document.nodes.push(node);
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor, id);
        }
        id
    }

    fn open(&mut self, id: NodeIndex, is_flow: bool) -> Result<(), ReadError> {
        KUSTOMIZATION_DEPTH.check(self.open.len() + 1).map_err(ReadError::exceeded)?;
        self.open.push(Open { id, is_flow, key: None });
        Ok(())
    }

    /// Adds a complete node to the collection that contains it.
    fn attach(&mut self, child: NodeIndex) {
        let Some(parent) = self.open.last_mut() else { return };
        match &mut self.document.nodes[parent.id] {
            YamlNode::Sequence(items) => items.push(child),
            YamlNode::Mapping(entries) => match parent.key.take() {
                Some(key) => entries.push((key, child)),
                None => parent.key = Some(child),
            },
            YamlNode::Scalar { .. } | YamlNode::Alias(_) => {}
        }
    }
}
