//! Variable substitution of `spec.postBuild`, as observed; it differs from bash and from its documentation.
//!
//! Grammar: `${name}`, `${#name}`, the operators `:-` `:=` `:?` `:+` `=` (each gives a default for an empty value),
//! `:offset[:length]`, `^` `^^` `,` `,,`, `#` `##` `%` `%%` with a glob, `/` `//` `/#` `/%` with plain text. `$$` is `$`;
//! `$name` is plain text. Lengths count bytes.
//! Source: docs/reference/kustomize-controller.md 3.5 (the table in the tests).

use std::iter::Peekable;
use std::str::Chars;

use crate::flux::source::glob;

/// Reason why a text cannot be substituted; it fails the whole build.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum EnvsubstError {
    /// A line with a `${` outside of the grammar.
    #[error("a substitution is malformed near {0:?}; write $${{ for a plain ${{")]
    Malformed(String),
    /// Strict mode: the variable is not set and has no default.
    #[error("variable {0} is not set and has no default (strict mode)")]
    Unset(String),
}

enum Fragment {
    Text(String),
    Call { name: String, operator: String, arguments: Vec<Fragment> },
}

/// Replaces every `${…}` of a text. `lookup` returns the value of a variable.
/// In strict mode, a variable must be set or have a default; otherwise it is empty.
/// Fails for the first malformed substitution or, in strict mode, for the first unset variable.
pub(super) fn substitute(
    text: &str,
    lookup: impl Fn(&str) -> Option<String>,
    strict: bool,
) -> Result<String, EnvsubstError> {
    let fragments = parse(text).ok_or_else(|| malformed(text))?;
    fragments.iter().map(|fragment| evaluate(fragment, &lookup, strict)).collect()
}

/// Replaces every `${…}` as [`substitute`] does, and those that read a secret variable, also inside of an argument, by a
/// placeholder. Returns `None` if no substitution reads one.
pub(super) fn substitute_masked(
    text: &str,
    lookup: impl Fn(&str) -> Option<String>,
    is_secret: impl Fn(&str) -> bool,
    placeholder: &str,
) -> Option<String> {
    let fragments = parse(text)?;
    if !fragments.iter().any(|fragment| fragment.reads(&is_secret)) {
        return None;
    }
    let masked = |fragment: &Fragment| match fragment.reads(&is_secret) {
        true => Ok(placeholder.to_owned()),
        false => evaluate(fragment, &lookup, false),
    };
    fragments.iter().map(masked).collect::<Result<_, _>>().ok()
}

impl Fragment {
    /// Returns true if its value depends on a variable that the predicate accepts.
    fn reads(&self, accepts: &impl Fn(&str) -> bool) -> bool {
        match self {
            Self::Text(_) => false,
            Self::Call { name, arguments, .. } => {
                accepts(name) || arguments.iter().any(|argument| argument.reads(accepts))
            }
        }
    }
}

fn parse(text: &str) -> Option<Vec<Fragment>> {
    EnvsubstParser { chars: text.chars().peekable() }.fragments()
}

/// Returns an error with the first line that does not parse on its own.
fn malformed(text: &str) -> EnvsubstError {
    let line = text.lines().find(|line| parse(line).is_none()).unwrap_or_default().trim();
    EnvsubstError::Malformed(line.chars().take(80).collect())
}

struct EnvsubstParser<'a> {
    chars: Peekable<Chars<'a>>,
}

/// Every method returns `None` for a malformed substitution.
impl EnvsubstParser<'_> {
    fn fragments(mut self) -> Option<Vec<Fragment>> {
        let mut fragments = Vec::new();
        while self.chars.peek().is_some() {
            if self.consume_opening() {
                fragments.push(self.call()?);
            } else {
                fragments.push(Fragment::Text(self.text(|_| true, "$")));
            }
        }
        Some(fragments)
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
    fn call(&mut self) -> Option<Fragment> {
        if self.chars.next_if_eq(&'#').is_some() {
            let name = self.name()?;
            self.consume_closing()?;
            return Some(Fragment::Call { name, operator: "#".to_owned(), arguments: vec![] });
        }
        let name = self.name()?;
        let mut operator = String::new();
        let arguments = match self.chars.peek()? {
            ':' => {
                operator.push(self.chars.next()?);
                if let Some(kind) = self.chars.next_if(|c| "=-?+".contains(*c)) {
                    operator.push(kind);
                    self.defaults()?
                } else {
                    self.range()?
                }
            }
            '=' => {
                operator.push(self.chars.next()?);
                self.defaults()?
            }
            ',' | '^' => {
                while let Some(c) = self.chars.next_if(|c| operator.len() < 2 && ",^".contains(*c)) {
                    operator.push(c);
                }
                vec![]
            }
            '/' => {
                operator.push(self.chars.next()?);
                operator.extend(self.chars.next_if(|c| "/#%".contains(*c)));
                self.replacement()?
            }
            '#' | '%' => {
                let sign = self.chars.next()?;
                operator.push(sign);
                operator.extend(self.chars.next_if_eq(&sign));
                vec![self.argument(|c| c != '}', "")?]
            }
            _ => vec![],
        };
        self.consume_closing()?;
        Some(Fragment::Call { name, operator, arguments })
    }

    fn name(&mut self) -> Option<String> {
        let mut name = String::new();
        while let Some(c) = self.chars.next_if(|c| c.is_alphabetic() || c.is_numeric() || *c == '_') {
            name.push(c);
        }
        (!name.is_empty()).then_some(name)
    }

    fn consume_closing(&mut self) -> Option<()> {
        self.chars.next_if_eq(&'}').map(|_| ())
    }

    /// Parses one argument: a nested substitution, or text that is not empty.
    fn argument(&mut self, accepts: impl Fn(char) -> bool, escapes: &str) -> Option<Fragment> {
        if self.consume_opening() {
            return self.call();
        }
        let text = self.text(accepts, escapes);
        (!text.is_empty()).then_some(Fragment::Text(text))
    }

    /// Parses any number of arguments up to the closing brace.
    fn defaults(&mut self) -> Option<Vec<Fragment>> {
        let mut arguments = Vec::new();
        while *self.chars.peek()? != '}' {
            arguments.push(self.argument(|c| c != '}', "")?);
        }
        Some(arguments)
    }

    fn range(&mut self) -> Option<Vec<Fragment>> {
        let mut arguments = vec![self.argument(|c| c != ':' && c != '}', "")?];
        if *self.chars.peek()? == ':' {
            while self.chars.next_if_eq(&':').is_some() {}
            arguments.push(self.argument(|c| c != '}', "")?);
        }
        Some(arguments)
    }

    /// Parses pattern and replacement. Like in the controller, the pattern ends at the next `/`, even after a brace.
    fn replacement(&mut self) -> Option<Vec<Fragment>> {
        let mut arguments = vec![self.argument(|c| c != '/', "$\\")?];
        self.chars.next_if_eq(&'/')?;
        while self.chars.next_if_eq(&'/').is_some() {}
        if *self.chars.peek()? != '}' {
            arguments.push(self.argument(|c| c != '}', "$\\")?);
        }
        Some(arguments)
    }
}

fn evaluate(
    fragment: &Fragment,
    lookup: &impl Fn(&str) -> Option<String>,
    strict: bool,
) -> Result<String, EnvsubstError> {
    let (name, operator, arguments) = match fragment {
        Fragment::Text(text) => return Ok(text.clone()),
        Fragment::Call { name, operator, arguments } => (name, operator.as_str(), arguments),
    };
    // Arguments are evaluated first: an unset variable fails even inside a default that is not used.
    let mut values = Vec::new();
    for argument in arguments {
        values.push(evaluate(argument, lookup, strict)?);
    }
    let has_default = matches!(operator, ":-" | ":=" | ":?" | ":+" | "=");
    let value = match lookup(name) {
        Some(value) => value,
        None if has_default || !strict => String::new(),
        None => return Err(EnvsubstError::Unset(name.clone())),
    };
    let first = values.first().map_or("", String::as_str);
    let second = values.get(1).map(String::as_str);
    let replacement = second.unwrap_or_default();
    Ok(match operator {
        "^" => change_first(&value, |c| c.to_uppercase().collect()),
        "," => change_first(&value, |c| c.to_lowercase().collect()),
        "^^" => value.to_uppercase(),
        ",," => value.to_lowercase(),
        "#" if values.is_empty() => value.len().to_string(),
        "#" => trim_prefix(&value, first, false),
        "##" => trim_prefix(&value, first, true),
        "%" => reversed(&trim_prefix(&reversed(&value), &reversed(first), false)),
        "%%" => reversed(&trim_prefix(&reversed(&value), &reversed(first), true)),
        ":" => slice(&value, first, second),
        "/" => value.replacen(first, replacement, 1),
        "//" => value.replace(first, replacement),
        "/#" | "/%" if second.is_none() => value,
        "/#" => value.strip_prefix(first).map_or(value.clone(), |rest| format!("{replacement}{rest}")),
        "/%" => value.strip_suffix(first).map_or(value.clone(), |rest| format!("{rest}{replacement}")),
        _ if value.is_empty() => values.concat(),
        _ => value,
    })
}

fn change_first(value: &str, change: impl Fn(char) -> String) -> String {
    let mut chars = value.chars();
    chars.next().map(|c| change(c) + chars.as_str()).unwrap_or_default()
}

fn reversed(value: &str) -> String {
    value.chars().rev().collect()
}

/// Removes the shortest or longest non-empty prefix that a glob matches.
fn trim_prefix(value: &str, pattern: &str, longest: bool) -> String {
    let mut matching = (1..=value.len())
        .filter(|end| value.is_char_boundary(*end) && glob::matches(pattern, &value[..*end]).unwrap_or(false));
    let end = if longest { matching.next_back() } else { matching.next() };
    value[end.unwrap_or_default()..].to_owned()
}

/// Returns at most `length` bytes from an offset; the whole value if an argument is not a number.
fn slice(value: &str, offset: &str, length: Option<&str>) -> String {
    let size = i64::try_from(value.len()).unwrap_or(i64::MAX);
    let Ok(offset) = offset.parse::<i64>() else {
        return value.to_owned();
    };
    let start = if offset < 0 { (size + offset).max(0) } else { offset };
    let end = match length.map(str::parse::<i64>) {
        None => size,
        Some(Err(_)) => return value.to_owned(),
        Some(Ok(length)) if length < 0 => size + length,
        Some(Ok(length)) => size.min(start.saturating_add(length)),
    };
    let bounds = usize::try_from(start).ok().zip(usize::try_from(end).ok()).filter(|(start, end)| start <= end);
    let bytes = bounds.and_then(|(start, end)| value.as_bytes().get(start..end));
    bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> Option<String> {
        match name {
            "A" => Some("hello".to_owned()),
            "E" => Some(String::new()),
            "P" => Some("a/b/c.tar.gz".to_owned()),
            "N" => Some("123".to_owned()),
            _ => None,
        }
    }

    #[test]
    fn every_substitution_that_reads_a_secret_variable_is_masked() {
        let masked = |text: &str| substitute_masked(text, lookup, |name| name == "A", "?");
        for (text, expected) in [
            ("a-${A}-${N}", Some("a-?-123")),
            ("${A:0:1}${A^^}${#A}", Some("???")),
            ("${X:-${A}}", Some("?")),
            ("${X:-${Y:-${A}}}", Some("?")),
            ("${N/1/${A}}", Some("?")),
            ("${A:-unused}", Some("?")),
            ("$${A} ${N}", None),
            ("no variable", None),
        ] {
            assert_eq!(masked(text).as_deref(), expected, "{text}");
        }
    }

    fn run(text: &str, strict: bool) -> Option<String> {
        substitute(text, lookup, strict).ok()
    }

    /// Results that do not depend on the strict mode; `None` is an error.
    const INDEPENDENT: [(&str, Option<&str>); 59] = [
        ("${A}", Some("hello")),
        ("$A", Some("$A")),
        ("$${A}", Some("${A}")),
        ("$$${A}", Some("$hello")),
        ("$$A", Some("$A")),
        ("a $$ b", Some("a $ b")),
        ("$(A)", Some("$(A)")),
        ("{{ .A }}", Some("{{ .A }}")),
        ("${E}", Some("")),
        ("${U:-d}", Some("d")),
        ("${U:=d}", Some("d")),
        ("${U=d}", Some("d")),
        ("${E:-d}", Some("d")),
        ("${E:=d}", Some("d")),
        ("${E=d}", Some("d")),
        ("${U-d}", None),
        ("${A-}", None),
        ("${U:?err}", Some("err")),
        ("${U:+x}", Some("x")),
        ("${A:+x}", Some("hello")),
        ("${A:1}", Some("ello")),
        ("${A:1:2}", Some("el")),
        ("${A:0:-1}", Some("hell")),
        ("${A:-1}", Some("hello")),
        ("${A:9}", Some("")),
        ("${A:x}", Some("hello")),
        ("${#A}", Some("5")),
        ("${A^}", Some("Hello")),
        ("${A^^}", Some("HELLO")),
        ("${A,,}", Some("hello")),
        ("${P##*/}", Some("c.tar.gz")),
        ("${P#*/}", Some("b/c.tar.gz")),
        ("${P%.*}", Some("a/b/c.tar")),
        ("${P%%.*}", Some("a/b/c")),
        ("${A/l/L}", Some("heLlo")),
        ("${A//l/L}", Some("heLLo")),
        ("${A/#he/XX}", Some("XXllo")),
        ("${A/%lo/YY}", Some("helYY")),
        ("${A/l/}", Some("helo")),
        ("${U:-${A}}", Some("hello")),
        ("${U:-${V:-z}}", Some("z")),
        ("${U:-x${A}y}", Some("xhelloy")),
        ("${U:-$A}", Some("$A")),
        ("${U:-a:b}", Some("a:b")),
        ("${U:-\"q\"}", Some("\"q\"")),
        ("\\${A}", Some("\\hello")),
        ("${U:-}", Some("")),
        ("${N}", Some("123")),
        ("${}", None),
        ("${", None),
        ("${A", None),
        ("${a.b}", None),
        ("${A[@]}", None),
        ("${A }", None),
        ("${ A}", None),
        ("${!A}", None),
        ("${A!}", None),
        ("${A#}", None),
        ("${U:-d", None),
    ];

    #[test]
    fn substitutions_give_the_observed_results() {
        for (text, expected) in INDEPENDENT {
            for strict in [false, true] {
                assert_eq!(run(text, strict).as_deref(), expected, "{text} strict={strict}");
            }
        }
    }

    #[test]
    fn unset_variables_fail_in_strict_mode_and_are_empty_otherwise() {
        for text in ["${U}", "${1}", "${U^^}", "${A:+${U}}"] {
            assert!(run(text, true).is_none(), "{text}");
            assert!(run(text, false).is_some(), "{text}");
        }
        assert_eq!(run("a${U}b", false).as_deref(), Some("ab"));
    }

    #[test]
    fn the_error_contains_the_malformed_line() {
        let failure = substitute("a: 1\nb: ${x.y}\n", |_| None, false).unwrap_err();
        assert!(failure.to_string().contains("b: ${x.y}"), "{failure}");
    }
}
