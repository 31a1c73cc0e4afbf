//! Escaping of text from the cluster and from files: names, messages and annotations may contain terminal escape
//! sequences, invisible characters, or characters that reverse the reading order.

use std::borrow::Cow;
use std::fmt::Write;

/// Maximum length of [`one_line`], in characters: an annotation may have 256 KiB, and the table crate measures columns
/// with a `u16`.
const MAX_LINE_LENGTH: usize = 2000;

/// Escapes terminal control characters; keeps line breaks and tabs. ESC becomes `^[` and CR `\r`, as in kubectl
/// (docs/reference/kubectl-plugin.md 3.2); C1 and bidirectional controls and invisible characters become `\u009b`,
/// `\u202e`, `\u200b`.
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '\r' => safe.push_str("\\r"),
            '\u{7f}' => safe.push_str("^?"),
            c if c.is_ascii_control() && is_unsafe(c) => safe.extend(['^', char::from(c as u8 + b'@')]),
            c if is_unsafe(c) => write!(safe, "\\u{:04x}", u32::from(c)).expect("a String takes any text"),
            c => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

/// Returns one escaped line, for a table cell or a message: cuts at the first line break with `…`, replaces tabs by spaces.
pub fn one_line(text: &str) -> Cow<'_, str> {
    let trimmed = text.trim_end_matches(['\r', '\n']);
    let long = trimmed.char_indices().nth(MAX_LINE_LENGTH).map(|(at, _)| at);
    let first = &trimmed[..long.unwrap_or(trimmed.len())];
    let end = first.find(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']);
    let cut = end.is_some() || long.is_some();
    let escaped = escape(&first[..end.unwrap_or(first.len())]);
    if !cut && !escaped.contains('\t') {
        return escaped;
    }
    let mut line = escaped.replace('\t', " ");
    if cut {
        line.truncate(line.trim_end().len());
        line.push('…');
    }
    Cow::Owned(line)
}

/// Escapes the characters that mean something in HTML and XML, for text and attributes. U+FFFE and U+FFFF, which XML does not
/// permit, become U+FFFD; other control characters must be escaped already.
pub fn markup(text: &str) -> String {
    let mut safe = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            other => safe.push(other),
        }
    }
    safe
}

/// Returns true if a character controls the terminal or the reading order, or is invisible, so that two different names
/// look alike. Unicode calls these characters Default_Ignorable_Code_Point; the selectors U+FE0E and U+FE0F of emoji are
/// no danger and stay.
pub(crate) fn is_unsafe(character: char) -> bool {
    match character {
        '\n' | '\t' | '\u{fe0e}' | '\u{fe0f}' => false,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' => true,
        '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' => true,
        '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0d}' | '\u{feff}' | '\u{ffa0}' => true,
        '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' => true,
        '\u{e0000}'..='\u{e0fff}' => true,
        other => other.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        for (name, text, expected) in [
            ("plain text is untouched", "Applied revision: main@sha1:1234", "Applied revision: main@sha1:1234"),
            ("colour", "\u{1b}[31mred\u{1b}[0m", "^[[31mred^[[0m"),
            ("carriage return", "all fine\rfailed", "all fine\\rfailed"),
            ("bell, backspace and delete", "a\u{7}\u{8}\u{7f}", "a^G^H^?"),
            ("C1 control sequence introducer", "\u{9b}2J", "\\u009b2J"),
            ("right-to-left override", "abc\u{202e}fed", "abc\\u202efed"),
            ("zero-width space and byte order mark", "a\u{200b}\u{feff}b", "a\\u200b\\ufeffb"),
            ("tag characters", "a\u{e0041}", "a\\ue0041"),
            ("emoji stay", "\u{26a0}\u{fe0f} stop", "\u{26a0}\u{fe0f} stop"),
            ("isolates", "\u{2066}x\u{2069}", "\\u2066x\\u2069"),
            ("line breaks and tabs stay", "a\n\tb", "a\n\tb"),
            ("other scripts stay", "größer 世界 עברית", "größer 世界 עברית"),
        ] {
            assert_eq!(escape(text), expected, "{name}");
        }
    }

    #[test]
    fn one_line_cuts_and_escapes() {
        for (name, text, expected) in [
            ("one line", "ready", "ready"),
            ("a final line break is nothing", "ready\n", "ready"),
            ("cut at the first line break", "first\nsecond", "first…"),
            ("cut at a carriage return", "first\rsecond", "first…"),
            ("cut at a Unicode line separator", "first\u{2028}second", "first…"),
            ("tabs would break columns", "a\tb", "a b"),
            ("escapes before the cut", "\u{1b}]0;title\nmore", "^[]0;title…"),
        ] {
            assert_eq!(one_line(text), expected, "{name}");
        }
        let long = one_line(&"ä".repeat(300_000)).into_owned();
        assert_eq!((long.chars().count(), long.ends_with("ä…")), (MAX_LINE_LENGTH + 1, true));
    }
}
