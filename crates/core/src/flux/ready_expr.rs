//! Expressions in CEL that decide if a dependency is ready (`dependsOn[].readyExpr`).
//!
//! What this tool does not record or cannot evaluate has no result, so that nothing is predicted from it.
//! Source: docs/reference/kustomize-controller.md 7.2.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use cel::common::ast::{Expr, LiteralValue};
use cel::{ExecutionError, Value as CelValue};
use serde_json::Value;

use crate::expression::{self, Expression, MAX_STEPS, NotEvaluated};

/// Fields that a snapshot does not record, or that nobody can predict.
const UNRECORDED: [&str; 9] = [
    "annotations",
    "finalizers",
    "history",
    "inventory",
    "managedFields",
    "ownerReferences",
    "uid",
    "Timestamp",
    "Revision",
];

/// Functions and operators with a Boolean result.
const BOOLEAN: [&str; 17] = [
    "_&&_",
    "_||_",
    "!_",
    "_==_",
    "_!=_",
    "_<_",
    "_<=_",
    "_>_",
    "_>=_",
    "@in",
    "bool",
    "contains",
    "endsWith",
    "matches",
    "startsWith",
    "hasValue",
    "has",
];

/// Number of expressions whose result is remembered.
const REMEMBERED: usize = 1000;

/// Results of [`parses`]: a preview repeats its steps, and many objects and clusters have the same expressions.
static PARSED: LazyLock<Mutex<HashMap<String, bool>>> = LazyLock::new(Mutex::default);

/// A compiled expression.
pub(crate) struct ReadyExpression {
    text: String,
    expression: Expression,
}

/// Reason why an expression has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Invalid {
    /// The controller refuses it, because its result is no Boolean.
    NotBoolean,
    /// It does not compile here.
    NotCompiled,
}

/// Returns true if an expression can be parsed here. The controller may know more functions, but parses the same grammar.
pub(crate) fn parses(text: &str) -> bool {
    if let Some(parses) = parsed().get(text) {
        return *parses;
    }
    let parses = expression::parse(text).is_ok();
    let mut known = parsed();
    if known.len() < REMEMBERED {
        known.insert(text.to_owned(), parses);
    }
    parses
}

fn parsed() -> MutexGuard<'static, HashMap<String, bool>> {
    PARSED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ReadyExpression {
    pub(crate) fn compile(text: &str) -> Result<Self, Invalid> {
        let expression = expression::parse(text).map_err(|_| Invalid::NotCompiled)?;
        match is_boolean(&expression.program().expression().expr) {
            Some(true) => Ok(Self { text: text.to_owned(), expression }),
            Some(false) => Err(Invalid::NotBoolean),
            None => Err(Invalid::NotCompiled),
        }
    }

    /// Evaluates the expression; `None` if the result is not known. An error that the controller meets too is `false`.
    pub(crate) fn evaluate(&self, own: &Value, dependency: &Value) -> Option<bool> {
        if UNRECORDED.iter().any(|field| self.text.contains(field)) {
            return None;
        }
        let mut context = expression::context();
        context.add_variable("self", own).ok()?;
        context.add_variable("dep", dependency).ok()?;
        let mut left = MAX_STEPS;
        match self.expression.evaluate(&context, &mut left) {
            Ok(CelValue::Bool(result)) => Some(result),
            Err(NotEvaluated::Failed(ExecutionError::NoSuchKey(_))) => Some(false),
            Ok(_) | Err(_) => None,
        }
    }
}

/// Evaluates an expression over the fields of an object, which is a condition of flux-operator; `None` if the result is not known.
/// Any error that flux-operator meets too is `false`, and so is a result that is no Boolean.
///
/// Source: pkg/runtime v0.111.0 `EvaluateBoolean` in `cel/expression.go`.
pub(crate) fn holds_for(text: &str, object: &Value) -> Option<bool> {
    let parsed = expression::parse(text).ok()?;
    let mut context = expression::context();
    for (field, value) in object.as_object()? {
        context.add_variable(field.as_str(), value).ok()?;
    }
    let mut left = MAX_STEPS;
    match parsed.evaluate(&context, &mut left) {
        Ok(CelValue::Bool(result)) => Some(result),
        Err(NotEvaluated::Failed(ExecutionError::NoSuchKey(_))) => Some(false),
        // A field that the object lacks, not a function that is not known here.
        Err(NotEvaluated::Failed(ExecutionError::UndeclaredReference(name))) => {
            (!text.contains(&format!("{name}("))).then_some(false)
        }
        Ok(_) => Some(false),
        Err(_) => None,
    }
}

/// Returns true if the compiler of the controller finds the type Boolean, false if it finds another one, and `None` if
/// that is not known. Fields of objects have a dynamic type.
fn is_boolean(expr: &Expr) -> Option<bool> {
    match expr {
        Expr::Literal(literal) => Some(matches!(literal, LiteralValue::Boolean(_))),
        Expr::Select(select) => Some(select.test),
        Expr::Call(call) if call.func_name == "_?_:_" => {
            let [_, yes, no] = call.args.as_slice() else { return None };
            Some(is_boolean(&yes.expr)? && is_boolean(&no.expr)?)
        }
        Expr::Call(call) if BOOLEAN.contains(&call.func_name.as_str()) => Some(true),
        Expr::Call(call) => (call.func_name == "_[_]").then_some(false),
        Expr::Comprehension(all) => match &all.result.expr {
            Expr::Ident(name) if *name == all.accu_var => is_boolean(&all.accu_init.expr),
            result => is_boolean(result),
        },
        Expr::Ident(_) | Expr::List(_) | Expr::Map(_) => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::{MAX_OPERATORS, MAX_SIGNS};
    use serde_json::json;

    fn result(text: &str) -> Option<bool> {
        let own = json!({"metadata": {"name": "k", "labels": {"v": "1"}}, "spec": {"path": "./p"}});
        let dependency = json!({"metadata": {"name": "d", "labels": {"v": "1"}, "generation": 2},
            "spec": {"prune": true}, "status": {"observedGeneration": 2, "conditions": [{"type": "Ready", "status": "True"}]}});
        ReadyExpression::compile(text).unwrap().evaluate(&own, &dependency)
    }

    #[test]
    fn expressions_are_evaluated_with_both_objects() {
        for (text, expected) in [
            ("dep.metadata.labels['v'] == self.metadata.labels['v']", Some(true)),
            ("dep.status.conditions.filter(c, c.type == 'Ready').all(c, c.status == 'True')", Some(true)),
            ("dep.metadata.generation == dep.status.observedGeneration && dep.spec.prune == true", Some(true)),
            ("has(dep.spec.suspend)", Some(false)),
            ("dep.spec.path == 'x'", Some(false)),
            ("dep.metadata.annotations['v'] == '1'", None),
            ("dep.status.lastAppliedRevision == 'main'", None),
            ("dep.spec.prune.nothing() == true", None),
        ] {
            assert_eq!(result(text), expected, "{text}");
        }
    }

    #[test]
    fn an_expression_without_a_boolean_type_is_refused() {
        let invalid = |text: &str| ReadyExpression::compile(text).err();
        for text in ["dep.spec.prune", "dep.spec['prune']", "'true'", "true ? dep.spec.prune : false", "[true]"] {
            assert_eq!(invalid(text), Some(Invalid::NotBoolean), "{text}");
        }
        for text in ["dep.spec.prune ==", "unknown(dep)", &"!".repeat(100), &"(".repeat(10_000)] {
            assert_eq!(invalid(text), Some(Invalid::NotCompiled), "{text}");
        }
        assert!(parses("data.ready == 'yes'") && !parses("x +"));
    }

    #[test]
    fn the_largest_expressions_neither_exhaust_the_stack_nor_panic() {
        let state = json!({"a": {"b": [1, 2]}});
        let nested = |(open, close): (&str, &str)| {
            let depth = MAX_SIGNS / open.chars().filter(|c| "([{!-?".contains(*c)).count().max(1);
            format!("{}dep.a{}", open.repeat(depth), close.repeat(depth))
        };
        let chains = [".a", "+1", "*1", "/1", "%1", "<1", "==1", "&&true", "||true", " in [1]", "+'a'", ".map(x, x)"]
            .map(|part| format!("dep{}", part.repeat(MAX_OPERATORS / part.len().min(3))));
        let nests = [("(", ")"), ("[", "]"), ("!", ""), ("-", ""), ("true ? ", " : 1"), ("{'a': ", "}"), ("has(", ")")];
        let odd = include_str!("odd_expressions.txt").lines().map(str::to_owned);
        for text in chains.into_iter().chain(nests.map(nested)).chain(odd) {
            let around =
                [format!("({text}) == 1"), format!("[{text}].exists(x, x == 1)"), format!("dep.a[{text}] == 1")];
            for expression in around.into_iter().chain([text]) {
                parses(&expression);
                if let Ok(compiled) = ReadyExpression::compile(&expression) {
                    compiled.evaluate(&state, &state);
                }
            }
        }
    }

    /// Every loop over 12 elements: seven of them are 36 million turns.
    fn nested_loops(depth: usize, innermost: &str) -> String {
        let opening: String = (0..depth).map(|n| format!("dep.list.all(v{n}, ")).collect();
        format!("{opening}{innermost}{}", ")".repeat(depth))
    }

    #[test]
    fn an_expression_that_loops_too_long_has_no_result() {
        let state = json!({"list": (0..12).collect::<Vec<_>>(), "text": "x".repeat(100)});
        let evaluate = |text: &str| ReadyExpression::compile(text).unwrap().evaluate(&state, &state);
        assert_eq!(evaluate(&nested_loops(3, "v0 >= 0")), Some(true));
        let maps = (0..7).fold("x".to_owned(), |inner, _| format!("dep.list.map(x, {inner})"));
        let doubled = (0..15).fold("x".to_owned(), |inner, _| format!("[x+x+x+x+x].map(x, {inner})"));
        let shared = (0..15).fold("x == x".to_owned(), |inner, _| format!("[[x, x, x, x]].map(x, {inner})"));
        let copied = (0..20).fold("true".to_owned(), |inner, n| format!("[dep, dep].all(v{n}, {inner})"));
        for text in [
            nested_loops(7, "v0 >= 0"),
            nested_loops(7, "v0 + v6 < 0 || true"),
            format!("{} || true", nested_loops(7, "v0 >= 0")),
            nested_loops(7, "dep.nothing"),
            nested_loops(7, "dep.text.matches('(x{9}){9}')"),
            format!("{maps} == []"),
            format!("['ab'].map(x, {doubled}) == []"),
            format!("[1].map(x, {shared}) == []"),
            copied,
        ] {
            assert_eq!(evaluate(&text), None, "{text}");
        }
    }
}
