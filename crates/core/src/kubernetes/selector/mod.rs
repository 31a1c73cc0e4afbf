//! Label selectors in the grammar of the API server, evaluated locally: `a=b,c!=d,e in (f,g),!h,i>5`.
//!
//! Source: k8s.io/apimachinery `labels.Parse` and `Requirement.Matches`; tests/live/inventory/views.rs compares
//! both with the real API server.

pub(crate) mod label_selector;
#[cfg(test)]
mod tests;

use super::object::KeyValues;

/// Maximum length of a value, and of the name part of a key.
const MAX_LENGTH: usize = 63;
/// Maximum length of the prefix of a key.
const MAX_PREFIX_LENGTH: usize = 253;

/// A parsed label selector. All requirements must hold; an empty selector selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    text: String,
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    Exists,
    Absent,
    In(Vec<String>),
    /// Also true for an absent label.
    NotIn(Vec<String>),
    Above(i64),
    Below(i64),
}

impl Selector {
    /// Parses a selector. The error is a lower-case fragment.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parser = SelectorParser { tokens: tokenize(text)?.into_iter().peekable() };
        let mut requirements = vec![];
        while parser.tokens.peek().is_some() {
            requirements.push(parser.requirement()?);
            match parser.tokens.next() {
                None => break,
                Some(Token::Symbol(",")) => parser.expect_key()?,
                Some(other) => return Err(format!("found {other}, expected ',' or the end")),
            }
        }
        Ok(Self { text: text.trim().to_owned(), requirements })
    }

    /// Returns true if the labels satisfy every requirement.
    pub fn matches(&self, labels: &KeyValues) -> bool {
        self.requirements.iter().all(|requirement| requirement.operator.holds(labels.get(&requirement.key)))
    }

    /// Returns the selector as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl Operator {
    fn holds(&self, value: Option<&str>) -> bool {
        match self {
            Self::Exists => value.is_some(),
            Self::Absent => value.is_none(),
            Self::In(list) => value.is_some_and(|value| list.iter().any(|item| item == value)),
            Self::NotIn(list) => !value.is_some_and(|value| list.iter().any(|item| item == value)),
            Self::Above(limit) => number(value).is_some_and(|number| number > *limit),
            Self::Below(limit) => number(value).is_some_and(|number| number < *limit),
        }
    }
}

fn number(value: Option<&str>) -> Option<i64> {
    value?.parse().ok()
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Symbol(&'static str),
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Word(word) => write!(f, "{word:?}"),
            Self::Symbol(symbol) => write!(f, "'{symbol}'"),
        }
    }
}

fn tokenize(text: &str) -> Result<Vec<Token>, String> {
    const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];
    let mut tokens = vec![];
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
            tokens.push(Token::Symbol(symbol));
            rest = &rest[symbol.len()..];
        } else {
            let end = rest.find(|c: char| c.is_whitespace() || "=!(),><".contains(c));
            let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
            if word.chars().any(char::is_control) {
                return Err("it holds control characters".to_owned());
            }
            tokens.push(Token::Word(word.to_owned()));
            rest = after;
        }
        rest = rest.trim_start();
    }
    Ok(tokens)
}

struct SelectorParser {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
}

impl SelectorParser {
    fn requirement(&mut self) -> Result<Requirement, String> {
        let absent = self.tokens.next_if_eq(&Token::Symbol("!")).is_some();
        let key = self.word("a key")?;
        check_key(&key)?;
        let operator = match self.tokens.peek() {
            _ if absent => Operator::Absent,
            None | Some(Token::Symbol(",")) => Operator::Exists,
            Some(_) => self.operator()?,
        };
        Ok(Requirement { key, operator })
    }

    fn operator(&mut self) -> Result<Operator, String> {
        match self.tokens.next() {
            Some(Token::Symbol("=" | "==")) => Ok(Operator::In(vec![self.value()?])),
            Some(Token::Symbol("!=")) => Ok(Operator::NotIn(vec![self.value()?])),
            Some(Token::Symbol(">")) => Ok(Operator::Above(self.number()?)),
            Some(Token::Symbol("<")) => Ok(Operator::Below(self.number()?)),
            Some(Token::Word(word)) if word == "in" => Ok(Operator::In(self.values()?)),
            Some(Token::Word(word)) if word == "notin" => Ok(Operator::NotIn(self.values()?)),
            Some(other) => Err(format!("found {other}, expected one of =, ==, !=, in, notin, >, <")),
            None => Err("it ends where an operator is expected".to_owned()),
        }
    }

    /// Checks that a key follows a comma, without consuming it.
    fn expect_key(&mut self) -> Result<(), String> {
        match self.tokens.peek() {
            Some(Token::Word(_) | Token::Symbol("!")) => Ok(()),
            Some(other) => Err(format!("found {other}, expected a key after ','")),
            None => Err("it ends after ','".to_owned()),
        }
    }

    fn word(&mut self, expected: &str) -> Result<String, String> {
        match self.tokens.next() {
            Some(Token::Word(word)) => Ok(word),
            Some(other) => Err(format!("found {other}, expected {expected}")),
            None => Err(format!("it ends where {expected} is expected")),
        }
    }

    /// Parses a value, which may be empty.
    fn value(&mut self) -> Result<String, String> {
        if matches!(self.tokens.peek(), None | Some(Token::Symbol(","))) {
            return Ok(String::new());
        }
        let value = self.word("a value")?;
        check_value(&value)?;
        Ok(value)
    }

    fn number(&mut self) -> Result<i64, String> {
        let word = self.word("a number")?;
        word.parse().map_err(|_| format!("{word:?} is not a whole number"))
    }

    /// Parses `(a,b)`; an element may be empty.
    fn values(&mut self) -> Result<Vec<String>, String> {
        let mut values = vec![String::new()];
        match self.tokens.next() {
            Some(Token::Symbol("(")) => {}
            Some(other) => return Err(format!("found {other}, expected '('")),
            None => return Err("it ends where '(' is expected".to_owned()),
        }
        loop {
            match self.tokens.next() {
                Some(Token::Symbol(")")) => return Ok(values),
                Some(Token::Symbol(",")) => values.push(String::new()),
                Some(Token::Word(word)) if values.last().is_some_and(String::is_empty) => {
                    check_value(&word)?;
                    values.pop();
                    values.push(word);
                }
                Some(other) => return Err(format!("found {other}, expected ',' or ')'")),
                None => return Err("it ends inside a list: ')' is missing".to_owned()),
            }
        }
    }
}

/// Returns true if a text is a value of a label, or the name of one without a prefix.
pub(crate) fn is_name(text: &str) -> bool {
    text.len() <= MAX_LENGTH
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// Returns true if a text is a DNS subdomain, as the names of most objects are.
pub(crate) fn is_subdomain(text: &str) -> bool {
    text.len() <= MAX_PREFIX_LENGTH && text.split('.').all(is_dns_label)
}

fn is_dns_label(text: &str) -> bool {
    let is_plain = !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    is_plain && !text.starts_with('-') && !text.ends_with('-')
}

/// Returns true if a text is a name that may have a prefix, as keys of labels and annotations are.
pub(crate) fn is_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_name(name),
        None => is_name(text),
    }
}

fn check_key(key: &str) -> Result<(), String> {
    let rule = "[prefix/]name, at most 63 letters, digits, '-', '_' or '.'";
    if is_key(key) { Ok(()) } else { Err(format!("{key:?} cannot be the key of a label: it must be {rule}")) }
}

fn check_value(value: &str) -> Result<(), String> {
    let rule = "at most 63 letters, digits, '-', '_' or '.'";
    if is_name(value) { Ok(()) } else { Err(format!("{value:?} cannot be the value of a label: it must be {rule}")) }
}
