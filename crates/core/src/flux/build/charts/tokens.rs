//! Tokens of a template: words, quoted texts and comments, and where an action ends.

/// Returns true for characters of identifiers, variables and chains of fields.
pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '.')
}

/// Returns the length of the action at the start of a text, with its delimiters.
pub(super) fn action_length(text: &str) -> usize {
    let mut at = 2;
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("}}") {
            return at + 2;
        }
        at += token_length(rest);
    }
    text.len()
}

/// Returns the length of the quoted text, the comment or else the character at the start of a text.
pub(super) fn token_length(text: &str) -> usize {
    match text.chars().next() {
        Some('"' | '`' | '\'') => quoted_length(text),
        _ if text.starts_with("/*") => text.find("*/").map_or(text.len(), |end| end + 2),
        first => first.map_or(0, char::len_utf8),
    }
}

/// Returns the length of the quoted text at the start of a text, with its quotes.
pub(super) fn quoted_length(text: &str) -> usize {
    let mut characters = text.char_indices();
    let Some((_, quote)) = characters.next() else { return 0 };
    let mut is_escaped = false;
    for (at, c) in characters {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if quote != '`' => is_escaped = true,
            _ if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}
