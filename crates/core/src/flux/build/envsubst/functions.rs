//! Functions of the operators, on bytes.

use crate::bounds::{Budget, Exceeded};
use crate::glob;
use crate::glob::Glob;

pub(super) fn change_first(value: &str, change: impl Fn(char) -> char) -> String {
    let mut chars = value.chars();
    chars.next().map(|c| change(c).to_string() + chars.as_str()).unwrap_or_default()
}

/// Returns the upper case of a character if that is one character. In Greek, it is the title case that `\u{345}` is a
/// part of.
pub(super) fn to_upper(c: char) -> char {
    let mut upper = c.to_uppercase();
    match (c, upper.len()) {
        (_, 1) => upper.next().unwrap_or(c),
        ('\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}', _) => shifted(c, 8),
        ('\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}', _) => shifted(c, 9),
        _ => c,
    }
}

/// Returns the lower case of a character if that is one character; only `\u{130}` has two.
pub(super) fn to_lower(c: char) -> char {
    c.to_lowercase().next().unwrap_or(c)
}

fn shifted(c: char, by: u32) -> char {
    char::from_u32(u32::from(c) + by).unwrap_or(c)
}

/// Returns the characters in reverse order. A byte that is in none becomes a replacement character.
pub(super) fn reversed(value: &[u8]) -> Vec<u8> {
    let mut chars = Vec::new();
    let mut at = 0;
    while at < value.len() {
        let (c, width) = glob::decode(&value[at..]);
        chars.push(c);
        at += width;
    }
    chars.into_iter().rev().collect::<String>().into_bytes()
}

/// Returns the value without the shortest or longest non-empty prefix that a glob matches. A malformed glob matches none.
pub(super) fn trim_prefix<'a>(
    value: &'a [u8],
    pattern: &[u8],
    longest: bool,
    steps: &mut Budget,
) -> Result<&'a [u8], Exceeded> {
    let Ok(glob) = Glob::parse(pattern) else { return Ok(value) };
    let end = glob.prefix(value, longest, steps)?;
    Ok(&value[end.unwrap_or_default()..])
}

/// Replaces the first `count` occurrences of `old`. An empty one occurs before and after each character.
pub(super) fn replace(
    value: &str,
    old: &[u8],
    new: &[u8],
    count: usize,
    size: &mut Budget,
) -> Result<Vec<u8>, Exceeded> {
    let bytes = value.as_bytes();
    let starts: Vec<usize> = match old {
        [] => value.char_indices().map(|(at, _)| at).chain([value.len()]).take(count).collect(),
        _ => memchr::memmem::find_iter(bytes, old).take(count).collect(),
    };
    size.spend(starts.len().saturating_mul(new.len()))?;
    let mut replaced = Vec::new();
    let mut done = 0;
    for start in starts {
        replaced.extend_from_slice(&bytes[done..start]);
        replaced.extend_from_slice(new);
        done = start + old.len();
    }
    replaced.extend_from_slice(&bytes[done..]);
    Ok(replaced)
}

/// Returns at most `length` bytes from an offset; the whole value if an argument is not a number. `None` if the end is
/// larger than every number.
pub(super) fn slice<'a>(value: &'a [u8], offset: &[u8], length: Option<&[u8]>) -> Option<&'a [u8]> {
    let size = i64::try_from(value.len()).ok()?;
    let Some(offset) = number(offset) else {
        return Some(value);
    };
    let start = if offset < 0 { (size + offset).max(0) } else { offset };
    let end = match length.map(number) {
        None => size,
        Some(None) => return Some(value),
        Some(Some(length)) if length < 0 => size + length,
        Some(Some(length)) => size.min(start.checked_add(length)?),
    };
    let bounds = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    Some(bounds.and_then(|(start, end)| value.get(start..end)).unwrap_or_default())
}

fn number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
