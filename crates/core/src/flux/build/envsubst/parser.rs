//! Grammar of a text with substitutions.

use std::iter::Peekable;
use std::str::Chars;

use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

use super::{EnvsubstError, Fragment};
use crate::bounds::{Exceeded, SUBSTITUTION_DEPTH};

/// Maximum length of a line in an error.
const SHOWN: usize = 80;

pub(super) fn parse(text: &str) -> Result<Vec<Fragment>, EnvsubstError> {
    fragments(text).map_err(|failure| match failure {
        ParseFailure::Malformed => EnvsubstError::Malformed(malformed_line(text)),
        ParseFailure::Exceeded(exceeded) => EnvsubstError::Exceeded(exceeded),
    })
}

/// Returns the first line that does not parse on its own.
fn malformed_line(text: &str) -> String {
    let line = text.lines().find(|line| fragments(line).is_err()).unwrap_or_default().trim();
    line.chars().take(SHOWN).collect()
}

enum ParseFailure {
    Malformed,
    Exceeded(Exceeded),
}

/// Parses a text up to its end or, like the controller, to a NUL.
fn fragments(text: &str) -> Result<Vec<Fragment>, ParseFailure> {
    let readable = text.split('\0').next().unwrap_or_default();
    let mut parser = EnvsubstParser { chars: readable.chars().peekable(), depth: 0 };
    let mut fragments = Vec::new();
    while parser.chars.peek().is_some() {
        if parser.consume_opening() {
            fragments.push(parser.call()?);
        } else {
            fragments.push(Fragment::Text(parser.text(|_| true, "$")));
        }
    }
    Ok(fragments)
}

struct EnvsubstParser<'a> {
    chars: Peekable<Chars<'a>>,
    /// Number of calls around the position.
    depth: usize,
}

impl EnvsubstParser<'_> {
    /// Returns the next character, or fails at the end.
    fn peek(&mut self) -> Result<char, ParseFailure> {
        self.chars.peek().copied().ok_or(ParseFailure::Malformed)
    }

    fn next_if(&mut self, accepts: impl Fn(char) -> bool) -> Option<char> {
        self.chars.next_if(|c| accepts(*c))
    }

    fn expect(&mut self, expected: char) -> Result<(), ParseFailure> {
        self.next_if(|c| c == expected).map(|_| ()).ok_or(ParseFailure::Malformed)
    }

    /// Consumes `${` if it is next.
    fn consume_opening(&mut self) -> bool {
        let mut ahead = self.chars.clone();
        let found = ahead.next() == Some('$') && ahead.next() == Some('{');
        if found {
            self.chars = ahead;
        }
        found
    }

    /// Parses text up to `${` or a rejected character.
    /// `escapes` contains `$` if `$$` is an escape, and `\` if `\/` and `\\` are escapes.
    fn text(&mut self, accepts: impl Fn(char) -> bool, escapes: &str) -> String {
        let mut text = String::new();
        while let Some(&c) = self.chars.peek() {
            let mut ahead = self.chars.clone();
            ahead.next();
            match (c, ahead.peek()) {
                ('$', Some('{')) => break,
                ('$', Some('$')) if escapes.contains('$') => {
                    text.push('$');
                    ahead.next();
                    self.chars = ahead;
                }
                ('\\', Some(&escaped)) if escapes.contains('\\') && matches!(escaped, '/' | '\\') => {
                    text.push(escaped);
                    ahead.next();
                    self.chars = ahead;
                }
                _ if accepts(c) => {
                    text.push(c);
                    self.chars = ahead;
                }
                _ => break,
            }
        }
        text
    }

    /// Parses a substitution after its `${`.
    fn call(&mut self) -> Result<Fragment, ParseFailure> {
        self.depth += 1;
        SUBSTITUTION_DEPTH.check(self.depth).map_err(ParseFailure::Exceeded)?;
        let is_length = self.next_if(|c| c == '#').is_some();
        let name = self.name()?;
        let (operator, arguments) = if is_length { ("#".to_owned(), vec![]) } else { self.operation()? };
        self.expect('}')?;
        self.depth -= 1;
        Ok(Fragment::Call { name, operator, arguments })
    }

    /// Parses the operator behind a name, and its arguments.
    fn operation(&mut self) -> Result<(String, Vec<Fragment>), ParseFailure> {
        let mut operator = String::new();
        let first = self.peek()?;
        if ":=,^/#%".contains(first) {
            operator.extend(self.chars.next());
        }
        let arguments = match first {
            ':' => match self.next_if(|c| "=-?+".contains(c)) {
                Some(kind) => {
                    operator.push(kind);
                    self.defaults()?
                }
                None => self.range()?,
            },
            '=' => self.defaults()?,
            ',' | '^' => {
                operator.extend(self.next_if(|c| ",^".contains(c)));
                vec![]
            }
            '/' => {
                operator.extend(self.next_if(|c| "/#%".contains(c)));
                self.replacement()?
            }
            '#' | '%' => {
                operator.extend(self.next_if(|c| c == first));
                vec![self.argument(|c| c != '}', "")?]
            }
            _ => vec![],
        };
        Ok((operator, arguments))
    }

    fn name(&mut self) -> Result<String, ParseFailure> {
        let mut name = String::new();
        while let Some(c) = self.next_if(is_in_name) {
            name.push(c);
        }
        if name.is_empty() { Err(ParseFailure::Malformed) } else { Ok(name) }
    }

    /// Parses one argument: a nested substitution, or text that is not empty.
    fn argument(&mut self, accepts: impl Fn(char) -> bool, escapes: &str) -> Result<Fragment, ParseFailure> {
        if self.consume_opening() {
            return self.call();
        }
        let text = self.text(accepts, escapes);
        if text.is_empty() { Err(ParseFailure::Malformed) } else { Ok(Fragment::Text(text)) }
    }

    /// Parses any number of arguments up to the closing brace.
    fn defaults(&mut self) -> Result<Vec<Fragment>, ParseFailure> {
        let mut arguments = Vec::new();
        while self.peek()? != '}' {
            arguments.push(self.argument(|c| c != '}', "")?);
        }
        Ok(arguments)
    }

    /// Parses offset and length. The controller reads the colon again if a character of several bytes follows, and fails.
    fn range(&mut self) -> Result<Vec<Fragment>, ParseFailure> {
        if !self.peek()?.is_ascii() {
            return Err(ParseFailure::Malformed);
        }
        let mut arguments = vec![self.argument(|c| c != ':' && c != '}', "")?];
        if self.peek()? == ':' {
            while self.next_if(|c| c == ':').is_some() {}
            arguments.push(self.argument(|c| c != '}', "")?);
        }
        Ok(arguments)
    }

    /// Parses pattern and replacement. Like in the controller, the pattern ends at the next `/`, even after a brace.
    fn replacement(&mut self) -> Result<Vec<Fragment>, ParseFailure> {
        let mut arguments = vec![self.argument(|c| c != '/', "$\\")?];
        self.expect('/')?;
        while self.next_if(|c| c == '/').is_some() {}
        if self.peek()? != '}' {
            arguments.push(self.argument(|c| c != '}', "$\\")?);
        }
        Ok(arguments)
    }
}

/// Returns true for a letter, a decimal digit of any script, and `_`.
fn is_in_name(c: char) -> bool {
    c == '_'
        || c.general_category_group() == GeneralCategoryGroup::Letter
        || c.general_category() == GeneralCategory::DecimalNumber
}
