//! Expressions in CEL, within limits: the parser and the evaluation are recursive, and deeper expressions could exhaust
//! their stack.

use cel::{Context, Program, ResolveResult};

/// Longest expression, most brackets, prefixes and conditions in it, and most other operators.
pub(crate) const MAX_LENGTH: usize = 4096;
pub(crate) const MAX_SIGNS: usize = 64;
pub(crate) const MAX_OPERATORS: usize = 200;
/// Bytes of the stack for the largest expressions. Each level of a parenthesis needs up to 100 KiB.
const STACK: usize = 64 * 1024 * 1024;

/// Reason why an expression cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotParsed {
    #[error("it has more than {MAX_LENGTH} bytes, {MAX_SIGNS} brackets and signs, or {MAX_OPERATORS} other operators")]
    TooLarge,
    /// Message of the parser.
    #[error("{0}")]
    Invalid(String),
}

/// Parses an expression, unless it is larger than the limits.
pub(crate) fn parse(text: &str) -> Result<Program, NotParsed> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    let operators = count(text, ".,+*/%<>=&|") + words.filter(|word| *word == "in").count();
    if text.len() > MAX_LENGTH || count(text, "([{!-?") > MAX_SIGNS || operators > MAX_OPERATORS {
        return Err(NotParsed::TooLarge);
    }
    with_stack(|| Program::compile(text)).map_err(|error| NotParsed::Invalid(error.to_string()))
}

fn count(text: &str, signs: &str) -> usize {
    text.chars().filter(|c| signs.contains(*c)).count()
}

/// Evaluates an expression with enough stack.
pub(crate) fn evaluate(program: &Program, context: &Context<'_, '_>) -> ResolveResult {
    with_stack(|| program.execute(context))
}

/// Calls a function with room for any expression. Calls inside of another one use its stack.
pub(crate) fn with_stack<T>(call: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(STACK, 2 * STACK, call)
}
