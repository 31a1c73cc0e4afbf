//! Patterns of `exclude` in a copy operation: `*`, `?`, classes, alternatives in braces, and `**` for any number of
//! directories.
//!
//! Source: doublestar v4.10.0, with which source-watcher v2.2.2 matches them; compared in `tests/systems/flux_texts`.

use std::collections::BTreeSet;

use crate::bounds::{EXCLUDE_ALTERNATIVES, EXCLUDE_LENGTH, Exceeded};

/// A pattern that source-watcher refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadPattern;

/// A parsed pattern.
#[derive(Clone, Debug)]
pub struct Exclusion {
    /// The pattern has no separator, so that it also matches file names.
    matches_names: bool,
    alternatives: Vec<Alternative>,
}

/// A pattern without braces.
#[derive(Clone, Debug)]
struct Alternative {
    text: Vec<char>,
    /// Positions behind an opening brace: a `**` counts there as at the beginning of a segment.
    starts: BTreeSet<usize>,
}

impl Exclusion {
    /// Parses a pattern. The inner error is that of source-watcher.
    ///
    /// Fails with the reason why it is not known what the pattern matches: it is too long, has too many alternatives, or has
    /// a star or other braces directly beside braces.
    pub fn parse(pattern: &str) -> Result<Result<Self, BadPattern>, String> {
        EXCLUDE_LENGTH.check(pattern.len()).map_err(|error| error.to_string())?;
        let text: Vec<char> = pattern.chars().collect();
        if !is_valid(&text) {
            return Ok(Err(BadPattern));
        }
        // doublestar goes on inside of braces with what it remembers of the star before them.
        let has_neighbours = ["*{", "}*", "}{"].iter().any(|neighbours| pattern.contains(neighbours));
        if has_neighbours && pattern.contains('*') {
            return Err(format!("the exclusion {pattern:?} with a star or braces beside braces"));
        }
        let mut alternatives = vec![];
        let whole = Alternative { text, starts: BTreeSet::new() };
        expand(whole, 0, &mut alternatives).map_err(|error| error.to_string())?;
        Ok(Ok(Self { matches_names: !pattern.contains('/'), alternatives }))
    }

    /// Returns true if a path, or its last name, is excluded.
    pub(super) fn excludes(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.matches(path) || (self.matches_names && self.matches(name))
    }

    /// Returns the number of steps that a comparison with a path may take.
    pub(super) fn cost(&self, path: &str) -> usize {
        let length: usize = self.alternatives.iter().map(|alternative| alternative.text.len()).sum();
        1 + length * path.len() / 64
    }

    /// Returns true if the pattern matches a whole path.
    pub fn matches(&self, path: &str) -> bool {
        let characters: Vec<char> = path.chars().collect();
        self.alternatives.iter().any(|alternative| alternative.matches(&characters))
    }
}

/// Returns true if every class and every brace is closed.
fn is_valid(text: &[char]) -> bool {
    let (mut at, mut depth) = (0, 0_usize);
    while at < text.len() {
        match text[at] {
            '\\' => {
                at += 1;
                if at >= text.len() {
                    return false;
                }
            }
            '[' => match class_end(text, at) {
                Some(end) => at = end,
                None => return false,
            },
            '{' => depth += 1,
            '}' if depth == 0 => return false,
            '}' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    depth == 0
}

/// Returns the position of the bracket that closes the class at `open`.
fn class_end(text: &[char], open: usize) -> Option<usize> {
    let mut at = open + 1;
    if matches!(text.get(at), Some('^' | '!')) {
        at += 1;
    }
    if text.get(at).is_none_or(|first| *first == ']') {
        return None;
    }
    while at < text.len() {
        match text[at] {
            '\\' => at += 1,
            ']' => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

/// Replaces the first alternatives in braces from a position on, and all that follow, by each of them.
fn expand(pattern: Alternative, from: usize, found: &mut Vec<Alternative>) -> Result<(), Exceeded> {
    let text = &pattern.text;
    let mut at = from;
    while at < text.len() && text[at] != '{' {
        at = match text[at] {
            '\\' => at + 2,
            '[' => class_end(text, at).map_or(text.len(), |end| end + 1),
            _ => at + 1,
        };
    }
    if at >= text.len() {
        found.push(pattern);
        return EXCLUDE_ALTERNATIVES.check(found.len());
    }
    let (parts, close) = alternatives(text, at + 1);
    for part in parts {
        let mut starts = pattern.starts.clone();
        starts.insert(at);
        let joined = text[..at].iter().chain(&text[part.0..part.1]).chain(&text[close + 1..]).copied().collect();
        expand(Alternative { text: joined, starts }, at, found)?;
    }
    Ok(())
}

/// Returns the ranges of the alternatives that begin at a position, and the position of the closing brace.
fn alternatives(text: &[char], begin: usize) -> (Vec<(usize, usize)>, usize) {
    let (mut parts, mut depth, mut at, mut first) = (vec![], 1, begin, begin);
    while at < text.len() {
        match text[at] {
            '\\' => at += 1,
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                if depth == 0 {
                    break;
                }
            }
            ',' if depth == 1 => {
                parts.push((first, at));
                first = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    let close = at.min(text.len() - 1);
    parts.push((first, close));
    (parts, close)
}

impl Alternative {
    fn matches(&self, path: &[char]) -> bool {
        // Pairs of a position in the pattern and one in the path that can be reached.
        let mut seen = vec![false; (self.text.len() + 1) * (path.len() + 1)];
        let mut queue = vec![(0, 0)];
        while let Some((at, next)) = queue.pop() {
            if std::mem::replace(&mut seen[at * (path.len() + 1) + next], true) {
                continue;
            }
            if next == path.len() {
                if self.matches_nothing(at) {
                    return true;
                }
                continue;
            }
            if self.step(at, next, path, &mut queue) {
                return true;
            }
        }
        false
    }

    /// Returns true if the rest of the pattern matches the empty text.
    fn matches_nothing(&self, at: usize) -> bool {
        let rest: String = self.text[at..].iter().collect();
        ["", "*", "**", "/**", "**/", "/**/"].contains(&&*rest)
    }

    /// Adds what can be reached from a position. Returns true if the rest of the path matches whatever it is.
    fn step(&self, at: usize, next: usize, path: &[char], queue: &mut Vec<(usize, usize)>) -> bool {
        let text = &self.text;
        let Some(first) = text.get(at) else { return false };
        match first {
            '*' => {
                let mut after = at + 1;
                if text.get(after) == Some(&'*') {
                    after += 1;
                    let is_start = at == 0 || text[at - 1] == '/' || self.starts.contains(&at);
                    match text.get(after).filter(|_| is_start) {
                        None if is_start => return true,
                        Some('/') => {
                            let below = (next..path.len()).filter(|at| path[*at] == '/').map(|at| at + 1);
                            queue.extend([next].into_iter().chain(below).map(|to| (after + 1, to)));
                            return false;
                        }
                        _ => {}
                    }
                }
                if text.get(after) == Some(&'*') {
                    queue.push((after, next));
                    return false;
                }
                let end = (next..path.len()).find(|at| path[*at] == '/').unwrap_or(path.len());
                queue.extend((next..=end).map(|to| (after, to)));
            }
            '?' => queue.extend((path[next] != '/').then_some((at + 1, next + 1))),
            '[' => {
                if let Some(end) = class_end(text, at).filter(|end| class_matches(&text[at + 1..*end], path[next])) {
                    queue.push((end + 1, next + 1));
                }
            }
            '\\' => queue.extend((text.get(at + 1) == Some(&path[next])).then_some((at + 2, next + 1))),
            literal => queue.extend((*literal == path[next]).then_some((at + 1, next + 1))),
        }
        false
    }
}

/// Returns true if a class, without its brackets, has a character.
fn class_matches(class: &[char], wanted: char) -> bool {
    let is_negated = matches!(class.first(), Some('^' | '!'));
    let class = &class[usize::from(is_negated)..];
    let (mut at, mut last, mut is_found) = (0, None, false);
    while at < class.len() && !is_found {
        let mut found = class[at];
        at += 1;
        if let (Some(low), '-', true) = (last, found, at < class.len()) {
            if class[at] == '\\' {
                at += 1;
            }
            is_found = class.get(at).is_some_and(|high| (low..=*high).contains(&wanted));
            at += 1;
            last = None;
            continue;
        }
        if found == '\\'
            && let Some(escaped) = class.get(at)
        {
            found = *escaped;
            at += 1;
        }
        is_found = found == wanted;
        last = Some(found);
    }
    is_found != is_negated
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excludes(pattern: &str, path: &str) -> Option<bool> {
        Exclusion::parse(pattern).unwrap().ok().map(|parsed| parsed.excludes(path))
    }

    #[test]
    fn a_pattern_matches_paths_and_without_a_slash_names() {
        let rows = [
            ("*.md", "docs/a/README.md", true),
            ("docs/*.md", "docs/a/README.md", false),
            ("docs/**", "docs/a/README.md", true),
            ("docs/**", "docs", true),
            ("**/test/**", "apps/test/a.yaml", true),
            ("**/test/**", "test/a.yaml", true),
            ("**/test/**", "apps/latest/a.yaml", false),
            ("a**/b", "ax/b", true),
            ("a**/b", "ax/y/b", false),
            ("{a,b/{c,d}}/*.yaml", "b/d/x.yaml", true),
            ("{a,b/{c,d}}/*.yaml", "b/e/x.yaml", false),
            ("[a-c!]?z", "b-z", true),
            ("[!a-c]", "b", false),
            ("\\*", "*", true),
            ("\\*", "x", false),
        ];
        for (pattern, path, expected) in rows {
            assert_eq!(excludes(pattern, path), Some(expected), "{pattern} {path}");
        }
    }

    #[test]
    fn a_pattern_that_is_not_closed_is_refused() {
        for pattern in ["[a", "[]", "{a", "a}", "a\\", "[^]"] {
            assert_eq!(excludes(pattern, "a"), None, "{pattern}");
        }
    }

    #[test]
    fn alternatives_are_limited() {
        let pattern = "{a,b}".repeat(20);
        assert!(Exclusion::parse(&pattern).is_err());
    }
}
