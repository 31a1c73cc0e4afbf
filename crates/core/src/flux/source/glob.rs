//! Shell globs of ignore files and of variable substitution: `*`, `?`, `[a-z]`, `[^a-z]`, `\x`.
//!
//! `*` matches any run of characters; callers that must not cross `/` match one path segment at a time.

/// Error for a pattern that ends inside a character class or after a backslash; callers let it match nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadPattern;

enum GlobPart {
    Literal(char),
    One,
    Run,
    Class { negated: bool, ranges: Vec<(char, char)> },
}

/// Returns true if a pattern matches a whole text.
/// Fails for an unclosed class or a trailing backslash.
pub(crate) fn matches(pattern: &str, text: &str) -> Result<bool, BadPattern> {
    let parts = parse(pattern)?;
    let text: Vec<char> = text.chars().collect();
    let (mut part, mut at) = (0, 0);
    // Position to continue from after a mismatch: the part after the last `*`, and the end of the text it matched.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        match parts.get(part) {
            Some(GlobPart::Run) => {
                part += 1;
                retry = Some((part, at));
                continue;
            }
            Some(single) if text.get(at).is_some_and(|c| single.accepts(*c)) => {
                part += 1;
                at += 1;
                continue;
            }
            None if at == text.len() => return Ok(true),
            _ => {}
        }
        match retry {
            Some((after, from)) if from < text.len() => {
                retry = Some((after, from + 1));
                part = after;
                at = from + 1;
            }
            _ => return Ok(false),
        }
    }
}

impl GlobPart {
    fn accepts(&self, c: char) -> bool {
        match self {
            Self::Literal(literal) => *literal == c,
            Self::One => true,
            Self::Run => false,
            Self::Class { negated, ranges } => ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *negated,
        }
    }
}

fn parse(pattern: &str) -> Result<Vec<GlobPart>, BadPattern> {
    let mut chars = pattern.chars().peekable();
    let mut parts = Vec::new();
    while let Some(c) = chars.next() {
        parts.push(match c {
            '*' => GlobPart::Run,
            '?' => GlobPart::One,
            '\\' => GlobPart::Literal(chars.next().ok_or(BadPattern)?),
            '[' => {
                let negated = chars.next_if_eq(&'^').is_some();
                let mut ranges = Vec::new();
                while ranges.is_empty() || chars.next_if_eq(&']').is_none() {
                    let low = class_member(&mut chars)?;
                    let high = if chars.next_if_eq(&'-').is_some() { class_member(&mut chars)? } else { low };
                    ranges.push((low, high));
                }
                GlobPart::Class { negated, ranges }
            }
            literal => GlobPart::Literal(literal),
        });
    }
    Ok(parts)
}

fn class_member(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<char, BadPattern> {
    match chars.next().ok_or(BadPattern)? {
        '-' | ']' => Err(BadPattern),
        '\\' => chars.next().ok_or(BadPattern),
        plain => Ok(plain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        ];
        for (pattern, text, expected) in rows {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
