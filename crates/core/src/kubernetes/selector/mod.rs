//! Label selectors in the grammar of the API server, for what was read already: `a=b,c!=d,e in (f,g),!h,i>5`.
//!
//! Source: k8s.io/apimachinery `labels.Parse` and `Requirement.Matches`; tests/live_views.rs compares both with the real
//! API server.

#[cfg(test)]
mod tests;

use super::object::KeyValues;

/// Longest name of a key, and longest value.
const LONGEST: usize = 63;
/// Longest prefix of a key.
const LONGEST_PREFIX: usize = 253;

/// A parsed label selector; all its requirements must hold. Without any it selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    text: String,
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Exists,
    Absent,
    /// The value is one of these.
    In(Vec<String>),
    /// There is no value, or it is none of these.
    NotIn(Vec<String>),
    Above(i64),
    Below(i64),
}

impl Selector {
    /// Parses a selector.
    ///
    /// # Errors
    /// What is wrong with it, as a lower-case fragment.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parser = SelectorParser { tokens: tokens(text)?.into_iter().peekable() };
        let mut requirements = vec![];
        while parser.tokens.peek().is_some() {
            requirements.push(parser.requirement()?);
            match parser.tokens.next() {
                None => break,
                Some(Token::Symbol(",")) => parser.another()?,
                Some(other) => return Err(format!("found {other}, expected ',' or the end")),
            }
        }
        Ok(Self { text: text.trim().to_owned(), requirements })
    }

    /// Whether labels satisfy every requirement.
    pub fn matches(&self, labels: &KeyValues) -> bool {
        self.requirements.iter().all(|requirement| requirement.test.holds(labels.get(&requirement.key)))
    }

    /// The selector as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl Test {
    fn holds(&self, value: Option<&str>) -> bool {
        let among = |list: &Vec<String>, value: &str| list.iter().any(|one| one == value);
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::Exists => value.is_some(),
            Self::Absent => value.is_none(),
            Self::In(list) => value.is_some_and(|value| among(list, value)),
            Self::NotIn(list) => !value.is_some_and(|value| among(list, value)),
            Self::Above(limit) => number().is_some_and(|number| number > *limit),
            Self::Below(limit) => number().is_some_and(|number| number < *limit),
        }
    }
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

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];
    let mut tokens = vec![];
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
            tokens.push(Token::Symbol(symbol));
            rest = &rest[symbol.len()..];
        } else {
            let ends = |c: char| c.is_whitespace() || "=!(),><".contains(c);
            let (word, after) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
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
        valid_key(&key)?;
        let test = match self.tokens.peek() {
            _ if absent => Test::Absent,
            None | Some(Token::Symbol(",")) => Test::Exists,
            Some(_) => self.test()?,
        };
        Ok(Requirement { key, test })
    }

    fn test(&mut self) -> Result<Test, String> {
        match self.tokens.next() {
            Some(Token::Symbol("=" | "==")) => Ok(Test::In(vec![self.value()?])),
            Some(Token::Symbol("!=")) => Ok(Test::NotIn(vec![self.value()?])),
            Some(Token::Symbol(">")) => Ok(Test::Above(self.number()?)),
            Some(Token::Symbol("<")) => Ok(Test::Below(self.number()?)),
            Some(Token::Word(word)) if word == "in" => Ok(Test::In(self.values()?)),
            Some(Token::Word(word)) if word == "notin" => Ok(Test::NotIn(self.values()?)),
            Some(other) => Err(format!("found {other}, expected one of =, ==, !=, in, notin, >, <")),
            None => Err("it ends where an operator is expected".to_owned()),
        }
    }

    /// What may follow a comma.
    fn another(&mut self) -> Result<(), String> {
        match self.tokens.peek() {
            Some(Token::Word(_) | Token::Symbol("!")) => Ok(()),
            Some(other) => Err(format!("found {other}, expected a key after ','")),
            None => Err("it ends after ','".to_owned()),
        }
    }

    fn word(&mut self, what: &str) -> Result<String, String> {
        match self.tokens.next() {
            Some(Token::Word(word)) => Ok(word),
            Some(other) => Err(format!("found {other}, expected {what}")),
            None => Err(format!("it ends where {what} is expected")),
        }
    }

    /// One value, which may be empty.
    fn value(&mut self) -> Result<String, String> {
        if matches!(self.tokens.peek(), None | Some(Token::Symbol(","))) {
            return Ok(String::new());
        }
        let value = self.word("a value")?;
        valid_value(&value)?;
        Ok(value)
    }

    fn number(&mut self) -> Result<i64, String> {
        let word = self.word("a number")?;
        word.parse().map_err(|_| format!("{word:?} is not a whole number"))
    }

    /// `(a,b)`; an element may be empty.
    fn values(&mut self) -> Result<Vec<String>, String> {
        let mut values = vec![String::new()];
        let expect = |token: Option<Token>| match token {
            Some(token) => Err(format!("found {token}, expected ',' or ')'")),
            None => Err("it ends inside a list: ')' is missing".to_owned()),
        };
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
                    valid_value(&word)?;
                    values.pop();
                    values.push(word);
                }
                other => return expect(other),
            }
        }
    }
}

fn is_name(text: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let inside = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    text.len() <= LONGEST && ends(text.chars().next()) && ends(text.chars().last()) && text.chars().all(inside)
}

fn is_subdomain(text: &str) -> bool {
    let label = |part: &str| {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !part.is_empty() && part.chars().all(plain) && !part.starts_with('-') && !part.ends_with('-')
    };
    text.len() <= LONGEST_PREFIX && text.split('.').all(label)
}

fn valid_key(key: &str) -> Result<(), String> {
    let valid = match key.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_name(name),
        None => is_name(key),
    };
    let rule = "[prefix/]name, at most 63 letters, digits, '-', '_' or '.'";
    if valid { Ok(()) } else { Err(format!("{key:?} cannot be the key of a label: it must be {rule}")) }
}

fn valid_value(value: &str) -> Result<(), String> {
    let rule = "at most 63 letters, digits, '-', '_' or '.'";
    if is_name(value) { Ok(()) } else { Err(format!("{value:?} cannot be the value of a label: it must be {rule}")) }
}
