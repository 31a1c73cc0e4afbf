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

/// A token of an action.
#[derive(Clone, Copy)]
pub(super) enum Token<'t> {
    Word(&'t str),
    Quoted(&'t str),
    Open,
    Close,
    Pipe,
    Assign,
    Other,
}

/// Returns the tokens of each action of a text, without spaces and comments.
pub(super) fn actions(text: &str) -> Vec<Vec<Token<'_>>> {
    let (mut found, mut rest) = (vec![], text);
    while let Some(start) = rest.find("{{") {
        let length = action_length(&rest[start..]);
        found.push(tokens(&rest[start..start + length]));
        rest = &rest[start + length..];
    }
    found
}

fn tokens(action: &str) -> Vec<Token<'_>> {
    let inside = action.trim_start_matches("{{").trim_end_matches("}}");
    let begun = inside.strip_prefix('-').unwrap_or(inside);
    let (mut found, mut rest) = (vec![], begun.strip_suffix('-').unwrap_or(begun));
    while let Some(first) = rest.chars().next() {
        let length = if is_word(first) { rest.find(|c| !is_word(c)).unwrap_or(rest.len()) } else { token_length(rest) };
        let (token, after) = rest.split_at(length);
        match first {
            _ if is_word(first) => found.push(Token::Word(token)),
            '"' | '`' => found.push(Token::Quoted(token.trim_matches(['"', '`']))),
            '(' => found.push(Token::Open),
            ')' => found.push(Token::Close),
            '|' => found.push(Token::Pipe),
            '=' => found.push(Token::Assign),
            _ if first.is_whitespace() || token.starts_with("/*") => {}
            _ => found.push(Token::Other),
        }
        rest = after;
    }
    found
}

pub(super) fn words<'a, 't>(action: &'a [Token<'t>]) -> impl Iterator<Item = &'t str> + 'a {
    action.iter().filter_map(|token| match token {
        Token::Word(word) => Some(*word),
        _ => None,
    })
}

/// Returns the first word of an action; `None` if it begins with something else.
pub(super) fn first_word<'t>(action: &[Token<'t>]) -> Option<&'t str> {
    match action.first() {
        Some(Token::Word(word)) => Some(word),
        _ => None,
    }
}
