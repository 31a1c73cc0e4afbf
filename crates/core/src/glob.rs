//! Shell globs of ignore files, of variable substitution and of accepted findings: `*`, `?`, `[a-z]`, `[^a-z]`, `\x`.
//!
//! Texts are bytes, as for the controllers: `*` matches any bytes, also a part of a character; `?` and a class match one
//! character, or one byte that begins none. Callers that must not cross `/` match one segment of a path at a time.
//! All positions of the pattern are tried at once, so time is at most pattern × text.

use std::convert::Infallible;

use crate::bounds::{Budget, Exceeded};

/// Error for a pattern that ends inside a character class or after a backslash; callers let it match nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadPattern;

#[derive(Clone, Debug, PartialEq, Eq)]
enum GlobPart {
    Literal(u8),
    One,
    Run,
    Class { negated: bool, ranges: Vec<(char, char)> },
}

/// A parsed pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    parts: Vec<GlobPart>,
}

impl Glob {
    /// Parses a pattern. Fails for a class that is not closed, empty or not UTF-8, and for a trailing backslash.
    pub fn parse(pattern: &[u8]) -> Result<Self, BadPattern> {
        let mut rest = pattern;
        let mut parts = Vec::new();
        while let Some((first, after)) = rest.split_first() {
            rest = after;
            match first {
                b'*' if parts.last() == Some(&GlobPart::Run) => {}
                b'*' => parts.push(GlobPart::Run),
                b'?' => parts.push(GlobPart::One),
                b'\\' => parts.push(GlobPart::Literal(*rest.split_off_first().ok_or(BadPattern)?)),
                b'[' => parts.push(class(&mut rest)?),
                literal => parts.push(GlobPart::Literal(*literal)),
            }
        }
        Ok(Self { parts })
    }

    /// Returns true if the pattern matches the whole text.
    pub fn matches(&self, text: &[u8]) -> bool {
        let first = self.parts.first().zip(text.first());
        if let Some((GlobPart::Literal(literal), byte)) = first
            && literal != byte
        {
            return false;
        }
        let last = self.parts.last().zip(text.last());
        if let Some((GlobPart::Literal(literal), byte)) = last
            && literal != byte
        {
            return false;
        }
        let mut is_match = text.is_empty() && self.parts.iter().all(|part| *part == GlobPart::Run);
        let Ok(()) = self.match_prefixes::<Infallible>(
            text,
            |_| Ok(()),
            |end| {
                is_match |= end == text.len();
                true
            },
        );
        is_match
    }

    /// Returns the end of the shortest or longest prefix that is not empty and that the pattern matches.
    pub fn prefix(&self, text: &[u8], longest: bool, steps: &mut Budget) -> Result<Option<usize>, Exceeded> {
        let mut found = None;
        self.match_prefixes(
            text,
            |count| steps.spend(count),
            |end| {
                found = Some(end);
                longest
            },
        )?;
        Ok(found)
    }

    /// Calls `found` with the end of every matching prefix that is not empty, in order, until it returns false. Calls
    /// `spend` with the number of comparisons, and stops at its error.
    ///
    /// In a prefix that ends inside of a character, the bytes of that character are single ones.
    fn match_prefixes<E>(
        &self,
        text: &[u8],
        mut spend: impl FnMut(usize) -> Result<(), E>,
        mut found: impl FnMut(usize) -> bool,
    ) -> Result<(), E> {
        let mut positions = Positions::start(&self.parts);
        let mut at = 0;
        while at < text.len() && !positions.active.is_empty() {
            let (c, width) = decode(&text[at..]);
            if width == 1 {
                spend(positions.active.len())?;
                positions = positions.after(text[at], Some(c));
                at += 1;
                if positions.is_end() && !found(at) {
                    return Ok(());
                }
                continue;
            }
            let mut whole = positions.after(text[at], None);
            let mut cut = positions.after(text[at], Some(char::REPLACEMENT_CHARACTER));
            let behind = positions.after_character(c);
            for byte in &text[at + 1..at + width] {
                spend(whole.active.len() + cut.active.len())?;
                at += 1;
                if cut.is_end() && !found(at) {
                    return Ok(());
                }
                whole = whole.after(*byte, Some(char::REPLACEMENT_CHARACTER));
                cut = cut.after(*byte, Some(char::REPLACEMENT_CHARACTER));
            }
            behind.iter().for_each(|position| whole.add(*position));
            positions = whole;
            at += 1;
            if positions.is_end() && !found(at) {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// The positions in a pattern that the text so far can lead to.
struct Positions<'a> {
    parts: &'a [GlobPart],
    active: Vec<usize>,
}

impl<'a> Positions<'a> {
    fn start(parts: &'a [GlobPart]) -> Self {
        let mut start = Self { parts, active: vec![] };
        start.add(0);
        start
    }

    /// Adds a position and, before a `*`, the one behind it. Positions are mostly added in order.
    fn add(&mut self, first: usize) {
        for position in first.. {
            if let Err(at) = self.active.binary_search(&position) {
                self.active.insert(at, position);
            }
            if self.parts.get(position) != Some(&GlobPart::Run) {
                return;
            }
        }
    }

    /// Returns the positions after one more byte. `c` is its character, if the byte is a whole one.
    fn after(&self, byte: u8, c: Option<char>) -> Self {
        let mut next = Self { parts: self.parts, active: Vec::with_capacity(self.active.len() + 1) };
        for position in &self.active {
            match self.parts.get(*position) {
                Some(GlobPart::Run) => next.add(*position),
                Some(GlobPart::Literal(literal)) if *literal == byte => next.add(position + 1),
                Some(part) if c.is_some_and(|c| part.accepts(c)) => next.add(position + 1),
                _ => {}
            }
        }
        next
    }

    /// Returns the positions after one more character of several bytes, without those that `*` and literals lead to.
    fn after_character(&self, c: char) -> Vec<usize> {
        let accepting = self.active.iter().filter(|at| self.parts.get(**at).is_some_and(|part| part.accepts(c)));
        accepting.map(|position| position + 1).collect()
    }

    fn is_end(&self) -> bool {
        self.active.last() == Some(&self.parts.len())
    }
}

impl GlobPart {
    /// Returns true for `?` and for a class that has the character.
    fn accepts(&self, c: char) -> bool {
        match self {
            Self::Literal(_) | Self::Run => false,
            Self::One => true,
            Self::Class { negated, ranges } => ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *negated,
        }
    }
}

/// Returns the first character of a text that is not empty, and its length. A byte that begins no character is the
/// replacement character.
pub(crate) fn decode(text: &[u8]) -> (char, usize) {
    if text[0].is_ascii() {
        return (char::from(text[0]), 1);
    }
    let chunk = text[..text.len().min(4)].utf8_chunks().next();
    let first = chunk.and_then(|chunk| chunk.valid().chars().next());
    first.map_or((char::REPLACEMENT_CHARACTER, 1), |c| (c, c.len_utf8()))
}

/// Parses a class after its `[`.
fn class(rest: &mut &[u8]) -> Result<GlobPart, BadPattern> {
    let negated = consume(rest, b'^');
    let mut ranges = Vec::new();
    while ranges.is_empty() || !consume(rest, b']') {
        let low = class_member(rest)?;
        let high = if consume(rest, b'-') { class_member(rest)? } else { low };
        ranges.push((low, high));
    }
    Ok(GlobPart::Class { negated, ranges })
}

fn class_member(rest: &mut &[u8]) -> Result<char, BadPattern> {
    match rest.first().ok_or(BadPattern)? {
        b'-' | b']' => return Err(BadPattern),
        b'\\' => *rest = &rest[1..],
        _ => {}
    }
    if rest.is_empty() {
        return Err(BadPattern);
    }
    let (c, width) = decode(rest);
    if c == char::REPLACEMENT_CHARACTER && width == 1 {
        return Err(BadPattern);
    }
    *rest = &rest[width..];
    Ok(c)
}

/// Removes the first byte if it is this one. Returns true if it was.
fn consume(rest: &mut &[u8], byte: u8) -> bool {
    let found = rest.first() == Some(&byte);
    if found {
        *rest = &rest[1..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::{Bound, SUBSTITUTION_STEPS};

    #[test]
    fn patterns_match_as_the_controllers_match_them() {
        let rows = [
            ("*.yaml", "a.yaml", Ok(true)),
            ("*.yaml", "a.yml", Ok(false)),
            ("a?c", "abc", Ok(true)),
            ("v[uo]l?ano", "vulkano", Ok(true)),
            ("[^a-c]x", "dx", Ok(true)),
            ("[^a-c]x", "bx", Ok(false)),
            ("*a*b", "xaybab", Ok(true)),
            ("*", "", Ok(true)),
            ("", "", Ok(true)),
            (r"\*", "*", Ok(true)),
            ("[a", "a", Err(BadPattern)),
            ("a\\", "a", Err(BadPattern)),
            ("*/", "a/b/", Ok(true)),
            ("?", "\u{20ac}", Ok(true)),
            ("\u{20ac}*", "\u{20ac}uro", Ok(true)),
            ("[\u{e0}-\u{ff}]", "\u{e9}", Ok(true)),
            // `*` matches the first of three bytes, and each `?` one of the others.
            ("*??", "\u{20ac}", Ok(true)),
        ];
        for (pattern, text, expected) in rows {
            let found = Glob::parse(pattern.as_bytes()).map(|glob| glob.matches(text.as_bytes()));
            assert_eq!(found, expected, "{pattern} {text}");
        }
    }

    fn prefix(pattern: &str, text: &str, longest: bool) -> Option<usize> {
        let glob = Glob::parse(pattern.as_bytes()).unwrap();
        glob.prefix(text.as_bytes(), longest, &mut Budget::new(SUBSTITUTION_STEPS)).unwrap()
    }

    #[test]
    fn the_shortest_and_longest_prefix_are_found() {
        assert_eq!([false, true].map(|longest| prefix("*/", "a/b/c", longest)), [Some(2), Some(4)]);
        assert_eq!([false, true].map(|longest| prefix("*", "abc", longest)), [Some(1), Some(3)]);
        assert_eq!([false, true].map(|longest| prefix("b*", "abc", longest)), [None, None]);
        assert_eq!(prefix("?", "\u{e9}", false), Some(1), "half of a character is a prefix");
        assert_eq!(prefix("?", "\u{e9}", true), Some(2));
    }

    #[test]
    fn a_long_text_takes_as_many_steps_as_it_has_bytes() {
        let glob = Glob::parse(b"*b").unwrap();
        let text = vec![b'a'; 1 << 20];
        let bound = Bound { limit: 2 << 20, ..SUBSTITUTION_STEPS };
        assert_eq!(glob.prefix(&text, true, &mut Budget::new(bound)), Ok(None));
        let less = Bound { limit: 1 << 20, ..SUBSTITUTION_STEPS };
        assert_eq!(glob.prefix(&text, true, &mut Budget::new(less)), Err(Exceeded(less)));
    }
}
