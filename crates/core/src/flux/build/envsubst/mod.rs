//! Variable substitution of `spec.postBuild`, as observed; it differs from bash and from its documentation.
//!
//! Grammar: `${name}`, `${#name}`, the operators `:-` `:=` `:?` `:+` `=` (each gives a default for an empty value),
//! `:offset[:length]`, `^` `^^` `,` `,,`, `#` `##` `%` `%%` with a glob, `/` `//` `/#` `/%` with plain text. `$$` is `$`;
//! `$name` is plain text. Lengths count bytes, and can cut a character.
//! Source: docs/reference/kustomize-controller.md 3.5 (the table in the tests).

mod functions;
mod parser;

use std::borrow::Cow;

use crate::bounds::{Budget, Exceeded, SUBSTITUTION_SIZE, SUBSTITUTION_STEPS};

/// Reason why a text cannot be substituted; it fails the whole build.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvsubstError {
    /// A line with a `${` outside of the grammar.
    #[error("a substitution is malformed near {0:?}; write $${{ for a plain ${{")]
    Malformed(String),
    /// Strict mode: the variable is not set and has no default.
    #[error("variable {0} is not set and has no default (strict mode)")]
    Unset(String),
    /// The end of a range is no 64-bit number: the controller panics.
    #[error("the range of variable {0} ends behind the largest number")]
    Overflow(String),
    /// The result is no YAML.
    #[error("the result is not UTF-8, because a range or a pattern cuts a character")]
    NotUtf8,
    /// A limit of this tool; the controller may have a result.
    #[error("the substitutions of one object take {0}")]
    Exceeded(#[from] Exceeded),
}

enum Fragment {
    Text(String),
    Call { name: String, operator: String, arguments: Vec<Fragment> },
}

/// Replaces every `${…}` of a text. `lookup` returns the value of a variable.
/// In strict mode, a variable must be set or have a default; otherwise it is empty.
/// Fails for the first malformed substitution or, in strict mode, for the first unset variable.
pub fn substitute<'v>(
    text: &str,
    lookup: impl Fn(&str) -> Option<&'v str>,
    strict: bool,
) -> Result<String, EnvsubstError> {
    let fragments = parser::parse(text)?;
    let (size, steps) = (Budget::new(SUBSTITUTION_SIZE), Budget::new(SUBSTITUTION_STEPS));
    let mut evaluation = Evaluation { lookup, strict, size, steps };
    let mut result = Vec::new();
    for fragment in &fragments {
        result.extend_from_slice(&evaluation.value(fragment)?);
    }
    String::from_utf8(result).map_err(|_| EnvsubstError::NotUtf8)
}

/// Replaces every `${…}` as [`substitute`] does without strict mode, and those that read a secret variable, also inside of
/// an argument, by a placeholder. Returns `None` if no substitution reads one. A text without a result is all placeholder.
pub(super) fn substitute_masked<'v>(
    text: &str,
    lookup: impl Fn(&str) -> Option<&'v str>,
    is_secret: impl Fn(&str) -> bool,
    placeholder: &str,
) -> Option<String> {
    let fragments = parser::parse(text).ok()?;
    if !fragments.iter().any(|fragment| fragment.reads(&is_secret)) {
        return None;
    }
    let (size, steps) = (Budget::new(SUBSTITUTION_SIZE), Budget::new(SUBSTITUTION_STEPS));
    let mut evaluation = Evaluation { lookup, strict: false, size, steps };
    let mut result = Vec::new();
    for fragment in &fragments {
        if fragment.reads(&is_secret) {
            result.extend_from_slice(placeholder.as_bytes());
        } else if let Ok(value) = evaluation.value(fragment) {
            result.extend_from_slice(&value);
        } else {
            return Some(placeholder.to_owned());
        }
    }
    Some(String::from_utf8_lossy(&result).into_owned())
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

struct Evaluation<L> {
    lookup: L,
    strict: bool,
    size: Budget,
    steps: Budget,
}

impl<'v, L: Fn(&str) -> Option<&'v str>> Evaluation<L> {
    fn value<'f: 'r, 'r>(&mut self, fragment: &'f Fragment) -> Result<Cow<'r, [u8]>, EnvsubstError>
    where
        'v: 'r,
    {
        let (name, operator, arguments) = match fragment {
            Fragment::Text(text) => {
                self.size.spend(text.len())?;
                return Ok(text.as_bytes().into());
            }
            Fragment::Call { name, operator, arguments } => (name, operator.as_str(), arguments),
        };
        // Arguments are evaluated first: an unset variable fails even inside a default that is not used.
        let mut values = Vec::new();
        for argument in arguments {
            values.push(self.value(argument)?);
        }
        let has_default = matches!(operator, ":-" | ":=" | ":?" | ":+" | "=");
        let value = match (self.lookup)(name) {
            Some(value) => value,
            None if has_default || !self.strict => "",
            None => return Err(EnvsubstError::Unset(name.clone())),
        };
        let result = self.apply(name, operator, value, &values)?;
        self.size.spend(result.len())?;
        Ok(result)
    }

    /// Applies an operator to the value of a variable.
    fn apply<'r>(
        &mut self,
        name: &str,
        operator: &str,
        value: &'r str,
        arguments: &[Cow<'_, [u8]>],
    ) -> Result<Cow<'r, [u8]>, EnvsubstError> {
        let plain = value.as_bytes();
        let first = arguments.first().map_or(&[][..], |argument| argument);
        let second = arguments.get(1).map(|argument| &**argument);
        let replacement = second.unwrap_or_default();
        // These read the whole value, whatever they write.
        if matches!(operator, "^^" | ",," | "##" | "%" | "%%" | "/" | "//") {
            self.size.spend(plain.len())?;
        }
        Ok(match operator {
            "^" => functions::change_first(value, functions::to_upper).into_bytes().into(),
            "," => functions::change_first(value, functions::to_lower).into_bytes().into(),
            "^^" => value.chars().map(functions::to_upper).collect::<String>().into_bytes().into(),
            ",," => value.chars().map(functions::to_lower).collect::<String>().into_bytes().into(),
            "#" if arguments.is_empty() => plain.len().to_string().into_bytes().into(),
            "#" | "##" => functions::trim_prefix(plain, first, operator == "##", &mut self.steps)?.into(),
            "%" | "%%" => {
                let (value, pattern) = (functions::reversed(plain), functions::reversed(first));
                let kept = functions::trim_prefix(&value, &pattern, operator == "%%", &mut self.steps)?;
                functions::reversed(kept).into()
            }
            ":" => {
                let slice = functions::slice(plain, first, second);
                slice.ok_or_else(|| EnvsubstError::Overflow(name.to_owned()))?.into()
            }
            "/" => functions::replace(value, first, replacement, 1, &mut self.size)?.into(),
            "//" => functions::replace(value, first, replacement, usize::MAX, &mut self.size)?.into(),
            "/#" | "/%" if second.is_none() => plain.into(),
            "/#" => match plain.strip_prefix(first) {
                Some(rest) => [replacement, rest].concat().into(),
                None => plain.into(),
            },
            "/%" => match plain.strip_suffix(first) {
                Some(rest) => [rest, replacement].concat().into(),
                None => plain.into(),
            },
            _ if value.is_empty() => arguments.concat().into(),
            _ => plain.into(),
        })
    }
}

#[cfg(test)]
mod tests;
