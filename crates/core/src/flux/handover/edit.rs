//! One field in the text of a manifest, or items of its lists, with everything else as it was written: block or flow style, JSON,
//! comments, line ends.

use std::ops::Range;

use libyaml_safer::{Event, EventData, MappingStyle, Parser, ScalarStyle, SequenceStyle};
use serde_json::Value;

use crate::yaml;

/// Returns the text of a document in which the field at a path has a value.
///
/// Fails with a sentence about the document, if the text cannot be changed so that it says exactly this.
pub(super) fn set(text: &str, path: &[&str], value: &Value) -> Result<String, String> {
    let before = yaml::document(text).map_err(|error| error.to_string())?;
    let mut expected = before.clone();
    let Some((last, above)) = path.split_last() else { return Err("it has no such field".to_owned()) };
    let mut parent = &mut expected;
    for key in above {
        parent = &mut parent[*key];
        if !parent.is_object() && !parent.is_null() {
            return Err(format!("its `{key}` is no mapping"));
        }
    }
    parent[*last] = value.clone();
    if before == expected {
        return Ok(text.to_owned());
    }
    let root = Node::read(text).ok_or_else(|| "its YAML cannot be read piece by piece".to_owned())?;
    let after = edited(text, &root, path, value)?;
    // An anchor, a tag or a merge key can make something else of the text.
    match yaml::document(&after) {
        Ok(read) if read == expected => Ok(after),
        _ => Err(format!("`{last}` cannot be written there without changing something else (anchors, tags)")),
    }
}

/// Returns the text of a document without the items of its lists that `is_gone` accepts; `None` if the text cannot be changed so that it
/// says exactly this. A list without items becomes `[]`.
pub(super) fn without_items(text: &str, is_gone: impl Fn(&str) -> bool) -> Option<String> {
    let mut expected = yaml::document(text).ok()?;
    let lists = expected.as_object_mut()?.values_mut().filter_map(Value::as_array_mut);
    let left: usize = lists
        .map(|items| {
            let all = items.len();
            items.retain(|item| !item.as_str().is_some_and(&is_gone));
            all - items.len()
        })
        .sum();
    if left == 0 {
        return Some(text.to_owned());
    }
    let Content::Mapping { entries, .. } = Node::read(text)?.content else { return None };
    let mut after = text.to_owned();
    for (key, list) in entries.iter().rev() {
        let Content::Sequence { is_flow, items } = &list.content else { continue };
        let is_emptied = !items.is_empty() && items.iter().all(|item| item.is_text(&is_gone));
        if *is_flow && is_emptied {
            after.replace_range(list.range.clone(), "[]");
            continue;
        }
        let gone = items.iter().filter(|item| item.is_text(&is_gone));
        let cuts: Vec<Range<usize>> =
            if *is_flow { flow_cuts(items, &is_gone) } else { gone.map(|item| line_of(text, &item.range)).collect() };
        cuts.into_iter().rev().for_each(|cut| after.replace_range(cut, ""));
        if is_emptied {
            let colon = key.range.end + text.get(key.range.end..)?.find(':')? + 1;
            after.insert_str(colon, " []");
        }
    }
    // An anchor, a tag or several items in a line can make something else of the text.
    (yaml::document(&after).ok()? == expected).then_some(after)
}

/// Returns the text of a document with another name in the items of the list at a path that `is_meant` accepts; `None`
/// if the text cannot be changed so that it says exactly this.
pub(super) fn rename_items(text: &str, path: &[&str], is_meant: impl Fn(&Value) -> bool, name: &str) -> Option<String> {
    const KEY: &str = "name";
    let mut expected = yaml::document(text).ok()?;
    let list = path.iter().try_fold(&mut expected, |value, key| value.get_mut(key))?.as_array_mut()?;
    let meant: Vec<usize> = (0..list.len()).filter(|at| is_meant(&list[*at])).collect();
    meant.iter().for_each(|at| list[*at][KEY] = name.into());
    let root = Node::read(text)?;
    let node = path.iter().try_fold(&root, |node, key| Some(&node.entry(key)?.1))?;
    let Content::Sequence { items, .. } = &node.content else { return None };
    let mut after = text.to_owned();
    for at in meant.into_iter().rev() {
        let written = &items.get(at)?.entry(KEY)?.1;
        let is_quoted = matches!(written.content, Content::Scalar { is_quoted: true, .. });
        let name = Value::from(name);
        after.replace_range(written.range.clone(), &if is_quoted { name.to_string() } else { plain(&name) });
    }
    (yaml::document(&after).ok()? == expected).then_some(after)
}

/// Returns the parts of a list in brackets without which the items that go are not in it, in their order. Some items stay.
fn flow_cuts(items: &[Node], is_gone: impl Fn(&str) -> bool) -> Vec<Range<usize>> {
    let Some(last) = items.iter().rposition(|item| !item.is_text(&is_gone)) else { return vec![] };
    let inner = items
        .windows(2)
        .take(last)
        .filter(|pair| pair[0].is_text(&is_gone))
        .map(|pair| pair[0].range.start..pair[1].range.start);
    inner.chain(items.last().map(|end| items[last].range.end..end.range.end)).collect()
}

/// Returns the whole line in which a part of a text begins.
fn line_of(text: &str, part: &Range<usize>) -> Range<usize> {
    let start = text[..part.start].rfind('\n').map_or(0, |at| at + 1);
    let end = text[part.start..].find('\n').map_or(text.len(), |at| part.start + at + 1);
    start..end
}

/// A value in the text of a document.
struct Node {
    /// Bytes of the text. The end of a mapping is that of its last event.
    range: Range<usize>,
    content: Content,
}

enum Content {
    Scalar {
        value: String,
        /// Written as in JSON.
        is_quoted: bool,
    },
    Mapping {
        is_flow: bool,
        entries: Vec<(Node, Node)>,
    },
    Alias,
    Sequence {
        is_flow: bool,
        items: Vec<Node>,
    },
}

impl Node {
    /// Reads the only document of a text.
    fn read(text: &str) -> Option<Self> {
        // The parser panics at these tags, and at a block scalar without a line end.
        if yaml::has_tag_beside_comma(text) {
            return None;
        }
        let text = format!("{text}\n");
        let mut parser = Parser::new();
        parser.set_input(text.as_bytes());
        loop {
            let event = parser.parse().ok()?;
            match event.data {
                EventData::StreamStart { .. } | EventData::DocumentStart { .. } => {}
                _ => return Self::of(event, &mut parser),
            }
        }
    }

    /// Reads the value that begins with an event.
    fn of(event: Event, parser: &mut Parser<&[u8]>) -> Option<Self> {
        let start = usize::try_from(event.start_mark.index).ok()?;
        let mut end = usize::try_from(event.end_mark.index).ok()?;
        let content = match event.data {
            EventData::Scalar { value, style, .. } => {
                Content::Scalar { value, is_quoted: style == ScalarStyle::DoubleQuoted }
            }
            EventData::Alias { .. } => Content::Alias,
            EventData::MappingStart { style, .. } => {
                let mut entries = vec![];
                loop {
                    let event = parser.parse().ok()?;
                    if event.data == EventData::MappingEnd {
                        end = usize::try_from(event.end_mark.index).ok()?;
                        break;
                    }
                    let key = Self::of(event, parser)?;
                    entries.push((key, Self::of(parser.parse().ok()?, parser)?));
                }
                Content::Mapping { is_flow: style == MappingStyle::Flow, entries }
            }
            EventData::SequenceStart { style, .. } => {
                let mut items = vec![];
                loop {
                    let event = parser.parse().ok()?;
                    if event.data == EventData::SequenceEnd {
                        end = usize::try_from(event.end_mark.index).ok()?;
                        break;
                    }
                    items.push(Self::of(event, parser)?);
                }
                Content::Sequence { is_flow: style == SequenceStyle::Flow, items }
            }
            _ => return None,
        };
        Some(Self { range: start..end, content })
    }

    /// Returns true for a text that a rule accepts.
    fn is_text(&self, accepts: impl Fn(&str) -> bool) -> bool {
        matches!(&self.content, Content::Scalar { value, .. } if accepts(value))
    }

    /// Returns the key and the value of an entry.
    fn entry(&self, name: &str) -> Option<&(Self, Self)> {
        let Content::Mapping { entries, .. } = &self.content else { return None };
        entries.iter().find(|(key, _)| key.is_text(|text| text == name))
    }
}

/// Returns the text with a value at a path: in place of the one that is there, or in the innermost mapping that is there.
fn edited(text: &str, root: &Node, path: &[&str], value: &Value) -> Result<String, String> {
    let (mut parent, mut node, mut left) = (None, root, path);
    while let Some((name, rest)) = left.split_first() {
        let Some((key, child)) = node.entry(name) else { break };
        (parent, node, left) = (Some((key, *name)), child, rest);
    }
    let (key, name) = parent.ok_or_else(|| format!("it has no `{}`", path[0]))?;
    match (&node.content, left) {
        (Content::Scalar { is_quoted, .. }, []) => {
            let written = if *is_quoted { value.to_string() } else { plain(value) };
            let space = if node.range.is_empty() { " " } else { "" };
            Ok(spliced(text, node.range.clone(), &format!("{space}{written}")))
        }
        (Content::Mapping { is_flow: true, entries }, [_, ..]) => {
            let first = entries.first().map(|(key, _)| key);
            in_flow(text, node, first, left, value).ok_or_else(|| format!("its `{name}` cannot be read"))
        }
        (Content::Mapping { entries, .. }, [_, ..]) => {
            let first = entries.first().map(|(key, _)| key);
            in_block(text, key, first, left, value).ok_or_else(|| format!("its `{name}` cannot be read"))
        }
        (Content::Alias, _) => Err(format!("its `{name}` is an alias of something else")),
        _ => Err(format!("its `{name}` is no mapping")),
    }
}

fn spliced(text: &str, range: Range<usize>, with: &str) -> String {
    text[..range.start].to_owned() + with + &text[range.end..]
}

/// Returns a value as it is written in block style: no text that is set needs quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns a value below some keys as an entry in flow style.
fn flow_entry(path: &[&str], value: &Value, is_json: bool) -> String {
    let mut entry = if is_json { value.to_string() } else { plain(value) };
    for (above, key) in path.iter().enumerate().rev() {
        entry = if is_json { format!("{}: {entry}", Value::from(*key)) } else { format!("{key}: {entry}") };
        if above > 0 {
            entry = format!("{{{entry}}}");
        }
    }
    entry
}

/// Returns the text with a new first entry of a mapping in braces, whose first key is `next`.
fn in_flow(text: &str, mapping: &Node, next: Option<&Node>, path: &[&str], value: &Value) -> Option<String> {
    let open = mapping.range.start + text.get(mapping.range.clone())?.find('{')? + 1;
    let is_json = next.is_none_or(|next| matches!(next.content, Content::Scalar { is_quoted: true, .. }));
    let entry = flow_entry(path, value, is_json);
    let Some(next) = next else { return Some(spliced(text, open..open, &entry)) };
    let between = text.get(open..next.range.start)?;
    let separator = between.rfind('\n').map_or(" ", |at| &between[at..]);
    let line_end = if separator.starts_with('\n') && between.contains('\r') { "\r" } else { "" };
    Some(spliced(text, next.range.start..next.range.start, &format!("{entry},{line_end}{separator}")))
}

/// Returns the text with new lines below the line of a key, indented as the first key of its mapping.
fn in_block(text: &str, key: &Node, first: Option<&Node>, path: &[&str], value: &Value) -> Option<String> {
    let first = first?.range.start;
    let line = text[..first].rfind('\n').map_or(0, |at| at + 1);
    let indent = text.get(line..first).filter(|indent| indent.chars().all(|c| c == ' '))?;
    let below = key.range.end + text.get(key.range.end..)?.find('\n')? + 1;
    let line_end = if text[..below].ends_with("\r\n") { "\r\n" } else { "\n" };
    let (last, above) = path.split_last()?;
    let mut added = String::new();
    for (depth, name) in above.iter().enumerate() {
        added += &format!("{indent}{}{name}:{line_end}", "  ".repeat(depth));
    }
    added += &format!("{indent}{}{last}: {}{line_end}", "  ".repeat(above.len()), plain(value));
    Some(spliced(text, below..below, &added))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PATH: [&str; 2] = ["spec", "deletionPolicy"];
    const SWITCH: [&str; 3] = ["metadata", "annotations", "a.b/c"];

    fn orphan(text: &str) -> String {
        set(text, &PATH, &json!("Orphan")).unwrap_or_else(|why| panic!("{why}: {text}"))
    }

    #[test]
    fn a_field_is_set_in_every_style() {
        for (before, after) in [
            ("spec: {prune: true}\n", "spec: {deletionPolicy: Orphan, prune: true}\n"),
            ("spec: { prune: true } # Ours\n", "spec: { deletionPolicy: Orphan, prune: true } # Ours\n"),
            ("spec: {}\n", "spec: {\"deletionPolicy\": \"Orphan\"}\n"),
            ("spec: {deletionPolicy: Delete, a: 1}", "spec: {deletionPolicy: Orphan, a: 1}"),
            ("{\"spec\": {\"prune\": true}}", "{\"spec\": {\"deletionPolicy\": \"Orphan\", \"prune\": true}}"),
            (
                "{\n  \"spec\": {\n    \"prune\": true\n  }\n}\n",
                "{\n  \"spec\": {\n    \"deletionPolicy\": \"Orphan\",\n    \"prune\": true\n  }\n}\n",
            ),
            ("spec:\n  deletionPolicy: Delete # Why\n  a: 1\n", "spec:\n  deletionPolicy: Orphan # Why\n  a: 1\n"),
            ("spec:\n  \"deletionPolicy\": \"Delete\"\n", "spec:\n  \"deletionPolicy\": \"Orphan\"\n"),
            ("spec:\n  deletionPolicy:\n  a: 1\n", "spec:\n  deletionPolicy: Orphan\n  a: 1\n"),
            ("spec: &s # Ours\n  a: 1\n", "spec: &s # Ours\n  deletionPolicy: Orphan\n  a: 1\n"),
            ("# é\r\nspec:\r\n  a: 1\r\n", "# é\r\nspec:\r\n  deletionPolicy: Orphan\r\n  a: 1\r\n"),
            ("spec: {\r\n  a: 1}\r\n", "spec: {\r\n  deletionPolicy: Orphan,\r\n  a: 1}\r\n"),
            ("spec:\n  a: |\n    spec:\n      x: y", "spec:\n  deletionPolicy: Orphan\n  a: |\n    spec:\n      x: y"),
            ("spec:\n  a: 1\n", "spec:\n  deletionPolicy: Orphan\n  a: 1\n"),
            ("spec:\n  <<: {b: 1}\n  a: 1\n", "spec:\n  deletionPolicy: Orphan\n  <<: {b: 1}\n  a: 1\n"),
        ] {
            assert_eq!(orphan(before), after);
        }
        assert_eq!(orphan("spec: {deletionPolicy: Orphan}"), "spec: {deletionPolicy: Orphan}", "it is set already");
    }

    #[test]
    fn an_annotation_is_set_in_every_style() {
        for (before, after) in [
            ("metadata: {name: x}\n", "metadata: {annotations: {a.b/c: disabled}, name: x}\n"),
            ("metadata:\n  name: x\n", "metadata:\n  annotations:\n    a.b/c: disabled\n  name: x\n"),
            (
                "metadata:\n  annotations: {d: e}\n  name: x\n",
                "metadata:\n  annotations: {a.b/c: disabled, d: e}\n  name: x\n",
            ),
            (
                "metadata:\n  name: x\n  annotations:\n    d: e\n",
                "metadata:\n  name: x\n  annotations:\n    a.b/c: disabled\n    d: e\n",
            ),
        ] {
            let set = set(before, &SWITCH, &json!("disabled")).unwrap_or_else(|why| panic!("{why}: {before}"));
            assert_eq!(set, after);
        }
    }

    #[test]
    fn items_get_another_name_in_every_style() {
        let renamed = |text: &str| rename_items(text, &["spec", "on"], |item| item["name"] == "new", "old");
        for (before, after) in [
            (
                "spec:\n  on:\n  - name: new # Why\n  - name: other\n",
                "spec:\n  on:\n  - name: old # Why\n  - name: other\n",
            ),
            (
                "spec: {on: [{name: 'new'}, {namespace: a, name: \"new\"}]}\n",
                "spec: {on: [{name: old}, {namespace: a, name: \"old\"}]}\n",
            ),
            ("spec: {on: [{name: other}]}\n", "spec: {on: [{name: other}]}\n"),
        ] {
            assert_eq!(renamed(before).as_deref(), Some(after));
        }
        assert_eq!(renamed("spec: {on: [&a {name: new}, *a]}\n"), None, "an alias is not changed alone");
        assert_eq!(renamed("spec: {}\n"), None);
    }

    #[test]
    fn items_leave_lists_of_every_style() {
        for (before, after) in [
            ("l:\n# Ours\n- a\n- b\n", "l:\n# Ours\n- b\n"),
            ("m:\n  n: x\nl: # All\n  - a # Why\n  - b\n", "m:\n  n: x\nl: # All\n  - b\n"),
            ("m:\n  n: x\nl: # All\n  - a\n", "m:\n  n: x\nl: [] # All\n"),
            ("l:\r\n- b\r\n- 'a'\r\n", "l:\r\n- b\r\n"),
            ("l:\n- a\n# Theirs\nk:\n- a\n- b\n", "l: []\n# Theirs\nk:\n- b\n"),
            ("l: [\n  b,\n  a,\n  c\n]\n", "l: [\n  b,\n  c\n]\n"),
            ("l: [a, b, \"a\", a]\n", "l: [b]\n"),
            ("l: [a, a]\n", "l: []\n"),
            ("{\"l\": [\"b\", \"a\"]}", "{\"l\": [\"b\"]}"),
            ("l: [b, c]\n", "l: [b, c]\n"),
            ("l:\n- b: a\n- a", "l:\n- b: a\n"),
        ] {
            assert_eq!(without_items(before, |item| item == "a").as_deref(), Some(after));
        }
        assert_eq!(
            without_items("l: &l [a, b]\nk: {m: *l}\n", |item| item == "a"),
            None,
            "something else has the items too"
        );
    }

    #[test]
    fn what_would_change_something_else_is_refused() {
        for (text, why) in [
            ("a: &s {b: 1}\nspec: *s\n", "its `spec` is an alias of something else"),
            ("a: 1\n", "it has no `spec`"),
            ("spec: 1\n", "its `spec` is no mapping"),
            ("spec: [1]\n", "its `spec` is no mapping"),
            ("spec: &s {a: 1}\nb: *s\n", "`deletionPolicy` cannot be written there"),
            ("spec: {deletionPolicy: &p Delete}\nb: *p\n", "`deletionPolicy` cannot be written there"),
            ("spec: {a: !x,y 1}\n", ""),
            ("spec: {a: 1", ""),
        ] {
            let refused = set(text, &PATH, &json!("Orphan")).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }
}
