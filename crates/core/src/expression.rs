//! Expressions in CEL, within limits: the parser and the evaluation are recursive, and deeper expressions could exhaust
//! their stack. A short expression can also loop for days: an evaluation has a number of steps.
//!
//! The interpreter counts nothing, so the expression itself is extended. What an operation, a loop or a list takes is
//! passed through [`CHARGE`], which returns it and takes its size from the steps that are left. So no value is larger than
//! what was paid for, and neither is the memory.

use std::cell::Cell;
use std::mem;
use std::sync::{Arc, LazyLock};

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, operators};
use cel::common::types::{CelBytes, CelMap, CelOptional, CelString, DYN_TYPE};
use cel::common::value::{CowVal, Val};
use cel::parser::Expression as Node;
use cel::{Context, Env, ExecutionError, Program, Value};

/// Longest expression, most brackets, prefixes and conditions in it, and most other operators.
pub(crate) const MAX_LENGTH: usize = 4096;
pub(crate) const MAX_SIGNS: usize = 64;
pub(crate) const MAX_OPERATORS: usize = 200;
/// Steps of the evaluation of an expression that others wrote.
pub(crate) const MAX_STEPS: u64 = 200_000;
/// Steps of a rule of a policy, for all rows of a plan together.
pub(crate) const MAX_RULE_STEPS: u64 = 2_000_000;
/// Bytes of a text that are one step.
const TEXT_STEP: usize = 8;
/// Steps for each byte and each repetition of a regular expression: it is compiled anew for each use.
const PATTERN_STEPS: (u64, u64) = (20, 20_000);
/// Functions that are called with what an operation takes, and with a regular expression. No expression can name them.
const CHARGE: &str = "@charge";
const CHARGE_PATTERN: &str = "@charge_pattern";
/// Function with a regular expression.
const MATCHES: &str = "matches";
/// Namespace of functions, which no variable has as its name.
const NAMESPACE: &str = "optional";
/// Operators that neither copy nor compare what they take.
const FREE: [&str; 9] = [
    operators::LOGICAL_AND,
    operators::LOGICAL_OR,
    operators::CONDITIONAL,
    operators::LOGICAL_NOT,
    operators::NEGATE,
    operators::NOT_STRICTLY_FALSE,
    operators::INDEX,
    operators::OPT_INDEX,
    operators::OPT_SELECT,
];
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

/// Reason why an expression has no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum NotEvaluated {
    #[error("it needs more steps than it has (expression-steps in docs/limits.md)")]
    TooManySteps,
    #[error("{0}")]
    Failed(ExecutionError),
}

/// A parsed expression.
pub(crate) struct Expression {
    program: Program,
    /// The same, with calls of [`CHARGE`].
    metered: Node,
}

thread_local! {
    /// Steps that are left to the evaluation on this thread.
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    let declared = [
        env.add_overload(CHARGE, "charge", vec![DYN_TYPE], charge),
        env.add_overload(CHARGE, "charge_with", vec![DYN_TYPE, DYN_TYPE], charge),
        env.add_overload(CHARGE_PATTERN, "charge_pattern", vec![DYN_TYPE], charge_pattern),
    ];
    declared.into_iter().for_each(|result| result.expect("the names are new"));
    Arc::new(env)
});

/// Returns a context without variables, in which expressions can be evaluated.
pub(crate) fn context() -> Context<'static, 'static> {
    Context::with_env(ENVIRONMENT.clone())
}

/// Parses an expression, unless it is larger than the limits.
pub(crate) fn parse(text: &str) -> Result<Expression, NotParsed> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    let operators = count(text, ".,+*/%<>=&|") + words.filter(|word| *word == "in").count();
    if text.len() > MAX_LENGTH || count(text, "([{!-?") > MAX_SIGNS || operators > MAX_OPERATORS {
        return Err(NotParsed::TooLarge);
    }
    with_stack(|| {
        let program = Program::compile(text).map_err(|error| NotParsed::Invalid(error.to_string()))?;
        let mut metered = program.expression().clone();
        meter(&mut metered);
        Ok(Expression { program, metered })
    })
}

fn count(text: &str, signs: &str) -> usize {
    text.chars().filter(|c| signs.contains(*c)).count()
}

impl Expression {
    /// Returns the expression as it is written.
    pub(crate) fn program(&self) -> &Program {
        &self.program
    }

    /// Evaluates the expression in a [`context`] with enough stack, and takes its steps from those that are left.
    pub(crate) fn evaluate(&self, context: &Context<'_, '_>, left: &mut u64) -> Result<Value, NotEvaluated> {
        STEPS.set(*left);
        let result = with_stack(|| Value::resolve(&self.metered, context));
        *left = STEPS.get();
        // An operator may have taken the error for another operand's.
        if *left == 0 { Err(NotEvaluated::TooManySteps) } else { result.map_err(NotEvaluated::Failed) }
    }
}

/// Takes steps from those that are left.
fn spend(steps: u64) -> Result<(), ExecutionError> {
    let left = STEPS.get().saturating_sub(steps);
    STEPS.set(left);
    if left == 0 { Err(ExecutionError::function_error(CHARGE, NotEvaluated::TooManySteps)) } else { Ok(()) }
}

/// Returns the first argument, and takes the size of all.
fn charge<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    arguments.iter().try_for_each(|value| spend_size(value.as_ref()))?;
    first(arguments)
}

/// Returns a regular expression, and takes what it costs at most to compile it.
fn charge_pattern<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    for pattern in arguments.iter().filter_map(|value| value.downcast_ref::<CelString<'_>>()) {
        let (of_byte, of_repetition) = PATTERN_STEPS;
        let repetitions = pattern.inner().matches('{').count();
        spend(of_byte * pattern.inner().len() as u64 + of_repetition * repetitions as u64)?;
    }
    first(arguments)
}

fn first<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    arguments.into_iter().next().ok_or_else(ExecutionError::missing_argument_or_target)
}

/// Takes a step for each value in a value, and for each part of a text.
fn spend_size(value: &dyn Val) -> Result<(), ExecutionError> {
    let text = value.downcast_ref::<CelString<'_>>().map(|text| text.inner().len());
    let bytes = value.downcast_ref::<CelBytes<'_>>().map(|bytes| bytes.inner().len());
    spend(1 + text.or(bytes).unwrap_or_default().div_euclid(TEXT_STEP) as u64)?;
    if let Some(inner) = value.downcast_ref::<CelOptional<'_>>().and_then(CelOptional::inner) {
        return spend_size(inner);
    }
    let Some(iterable) = value.as_iterable() else { return Ok(()) };
    let map = value.as_indexer().filter(|_| value.downcast_ref::<CelMap<'_>>().is_some());
    let mut items = iterable.iter();
    while let Some(item) = items.next() {
        spend_size(item)?;
        if let Some(map) = map {
            spend_size(map.get(item)?.as_ref())?;
        }
    }
    Ok(())
}

/// Passes a value through [`CHARGE`]. A literal that is no text is as small as the expression.
fn charged(node: &mut Node) {
    if !matches!(node.expr, Expr::Literal(_)) {
        call(CHARGE, node, None);
    }
}

/// Replaces an expression with a call that has it as the first argument.
fn call(function: &str, node: &mut Node, second: Option<Node>) {
    let args = [mem::take(node)].into_iter().chain(second).collect();
    node.expr = Expr::Call(CallExpr { func_name: function.to_owned(), target: None, args });
}

/// Adds the calls to an expression.
fn meter(node: &mut Node) {
    match &mut node.expr {
        Expr::Call(call) => meter_call(call),
        Expr::Comprehension(all) => meter_loop(all),
        Expr::List(list) => list.elements.iter_mut().for_each(meter_and_charge),
        Expr::Map(map) => map.entries.iter_mut().for_each(|entry| meter_entry(&mut entry.expr)),
        Expr::Struct(all) => all.entries.iter_mut().for_each(|entry| meter_entry(&mut entry.expr)),
        Expr::Select(select) => meter(&mut select.operand),
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
    }
}

fn meter_and_charge(node: &mut Node) {
    meter(node);
    charged(node);
}

fn meter_entry(entry: &mut EntryExpr) {
    match entry {
        EntryExpr::StructField(field) => meter_and_charge(&mut field.value),
        EntryExpr::MapEntry(entry) => {
            meter_and_charge(&mut entry.key);
            meter_and_charge(&mut entry.value);
        }
    }
}

fn meter_call(all: &mut CallExpr) {
    all.args.iter_mut().for_each(meter);
    if FREE.contains(&all.func_name.as_str()) {
        return;
    }
    all.args.iter_mut().for_each(charged);
    if all.func_name == MATCHES {
        all.args.iter_mut().for_each(|pattern| call(CHARGE_PATTERN, pattern, None));
    }
    // A name may be the first part of the name of a function, so it stays where it is.
    match (all.target.as_deref_mut(), all.args.first_mut()) {
        (Some(target), Some(argument)) if is_variable(target) => call(CHARGE, argument, Some(target.clone())),
        (Some(target), _) if root(target).is_none() => meter_and_charge(target),
        _ => {}
    }
}

/// Returns the first part of a name with dots.
fn root(node: &Node) -> Option<&str> {
    match &node.expr {
        Expr::Ident(name) => Some(name),
        Expr::Select(select) if !select.test => root(&select.operand),
        _ => None,
    }
}

fn is_variable(node: &Node) -> bool {
    root(node).is_some_and(|name| name != NAMESPACE)
}

fn meter_loop(all: &mut ComprehensionExpr) {
    meter_and_charge(&mut all.iter_range);
    meter(&mut all.accu_init);
    meter(&mut all.result);
    // `map`, `filter` and `exists_one` have no condition; the interpreter knows their steps by their form.
    if matches!(all.loop_cond.expr, Expr::Literal(_)) {
        meter_step(&mut all.loop_step);
    } else {
        meter_and_charge(&mut all.loop_cond);
        meter(&mut all.loop_step);
    }
}

fn meter_step(step: &mut Node) {
    match &mut step.expr {
        Expr::Call(all) if all.func_name == operators::CONDITIONAL => match all.args.as_mut_slice() {
            [condition, then, _] => {
                meter_and_charge(condition);
                meter_step(then);
            }
            _ => meter_call(all),
        },
        Expr::Call(all) if all.func_name == operators::ADD => match all.args.as_mut_slice() {
            [Node { expr: Expr::Ident(_), .. }, added] => meter(added),
            _ => meter_call(all),
        },
        _ => meter(step),
    }
}

/// Calls a function with room for any expression. Calls inside of another one use its stack.
pub(crate) fn with_stack<T>(call: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(STACK, 2 * STACK, call)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const TWELVE: &str = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]";
    /// Seconds that an expression may take in a build without optimisation, beside other tests.
    const SECONDS: f32 = 5.0;

    /// Returns a loop over twelve elements in a loop, nested this deep.
    fn nested(depth: usize) -> String {
        let loops: String = (0..depth).map(|level| format!("{TWELVE}.all(x{level}, ")).collect();
        format!("{loops}true{}", ")".repeat(depth))
    }

    /// Returns a list whose elements are changed this often.
    fn grown(list: &str, times: usize, change: &str) -> String {
        format!("{list}{}.size() > 0", format!(".map(a, {change})").repeat(times))
    }

    fn outcome(text: &str) -> &'static str {
        let start = Instant::now();
        let mut left = MAX_STEPS;
        let outcome = match parse(text).map(|parsed| with_stack(|| parsed.evaluate(&context(), &mut left))) {
            Err(NotParsed::TooLarge) => "too large",
            Err(NotParsed::Invalid(_)) => "invalid",
            Ok(Err(NotEvaluated::TooManySteps)) => "too many steps",
            Ok(Err(NotEvaluated::Failed(_))) => "fails",
            Ok(Ok(Value::Bool(true))) => "true",
            Ok(Ok(_)) => "another value",
        };
        let seconds = start.elapsed().as_secs_f32();
        assert!(seconds < SECONDS, "{seconds} s: {text}");
        outcome
    }

    /// Each large expression has a smaller one beside it that has a result, so that the limits end it and not a mistake in it.
    #[test]
    fn every_bomb_ends_in_time() {
        let many = "1, ".repeat(150) + "1";
        let pattern = "((a{99}){99}){9}";
        let long = "a".repeat(3900);
        for (text, expected) in [
            (nested(2), "true"),
            (nested(6), "too many steps"),
            (nested(7), "too many steps"),
            (nested(40), "too large"),
            (grown("['ab']", 3, "a + a"), "true"),
            (grown("['ab']", 20, "a + a"), "too many steps"),
            (grown("['ab']", 12, "a + a + a + a"), "too many steps"),
            (grown("[[1]]", 20, "a + a"), "too many steps"),
            (grown("[[1]]", 30, "[a, a]"), "too many steps"),
            (grown("[{'a': 1}]", 25, "{'a': a, 'b': a}"), "too many steps"),
            (grown(TWELVE, 2, TWELVE), "true"),
            (format!("[{many}].all(a, [{many}].all(b, true))"), "too large"),
            (format!("[{many}].all(a, a == 1)"), "true"),
            (format!("'{long}'.size() > 3000"), "true"),
            (
                format!("{TWELVE}.all(a, {TWELVE}.all(b, {TWELVE}.all(c, '{}' + 'a' != 'b')))", &long[..3500]),
                "too many steps",
            ),
            ("'v1.2.3'.matches('^v[0-9]+')".to_owned(), "true"),
            (format!("'{}'.matches('(a+)+$')", "a".repeat(2000)), "true"),
            (format!("!'{}b'.matches('^(a|aa|a*)*c$')", "a".repeat(2000)), "true"),
            (format!("{TWELVE}.all(a, !'a'.matches('{pattern}'))"), "too many steps"),
            (format!("{TWELVE}.all(a, !'a'.matches('(a{{9}}' + '{{9}}){{9}}'))"), "too many steps"),
            (format!("{}true{}", "(".repeat(60), ")".repeat(60)), "true"),
            (format!("{}true{}", "(".repeat(2000), ")".repeat(2000)), "too large"),
            (format!("{}true", "!".repeat(60)), "true"),
            (format!("{}true", "!".repeat(4000)), "too large"),
            (format!("{}true", "true ? true : ".repeat(200)), "too large"),
            (format!("{}1 > 0", "1 + ".repeat(190)), "true"),
            (format!("{}1 > 0", "1 + ".repeat(900)), "too large"),
            ("9223372036854775807 + 1 > 0".to_owned(), "fails"),
            ("1 / 0 == 1".to_owned(), "fails"),
            ("@charge(1) == 1".to_owned(), "invalid"),
        ] {
            assert_eq!(outcome(&text), expected, "{text}");
        }
    }
}
