//! Rules of a schema in CEL.
//!
//! Source: `apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go`, and `apiserver/pkg/cel` (`escaping.go`,
//! `common/valuesunstructured.go`).

use std::cell::Cell;

use cel::Value as CelValue;
use cel::common::ast::{EntryExpr, Expr, operators};
use cel::parser::Expression as Node;
use serde_json::{Map, Value, json};

use super::fit::{Fit, child, dotted};
use super::scalars::is_no_text;
use super::typed::{field_schema, keeps_unknown_fields};
use super::values::old_item;
use crate::expression::{self, MAX_STEPS};
use crate::kubernetes::object::{flag_at, list_at};

/// Words that are no names in CEL.
const RESERVED: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// Evaluation of the rules of a schema.
#[derive(Debug)]
pub(super) struct Rules {
    /// There is a live object.
    is_update: bool,
    /// The object is known as it will be, and not a part of it.
    is_whole: bool,
    /// Steps that are left for the rules of the whole manifest.
    steps: Cell<u64>,
}

impl Rules {
    pub(super) fn new(is_update: bool, is_whole: bool) -> Self {
        Self { is_update, is_whole, steps: Cell::new(MAX_STEPS) }
    }

    /// Evaluates the rules for a value in place of an old one. Errors about what is a part of something that stays are
    /// tolerated.
    pub(super) fn value(&self, value: &Value, old: Option<&Value>, schema: &Value, pointer: &str, stays: bool) -> Fit {
        let stays = stays || old == Some(value);
        let mut fit = self.own(value, old, schema, pointer, stays);
        match value {
            Value::Object(fields) => {
                let old = old.filter(|_| schema["x-kubernetes-map-type"] != "atomic");
                for (key, value) in fields {
                    let Some(schema) = field_schema(schema, key) else { continue };
                    let old = old.and_then(|old| old.get(key));
                    fit = fit.and(|| self.value(value, old, schema, &child(pointer, key), stays));
                }
            }
            Value::Array(items) => {
                let Some(inner) = schema.get("items") else { return fit };
                for (at, item) in items.iter().enumerate() {
                    let old = old_item(item, old, schema);
                    fit = fit.and(|| self.value(item, old, inner, &format!("{pointer}/{at}"), stays));
                }
            }
            _ => {}
        }
        fit
    }

    /// Evaluates the rules of a schema itself. Of an object that is merged with an unknown one, only single values are
    /// known.
    fn own(&self, value: &Value, old: Option<&Value>, schema: &Value, pointer: &str, stays: bool) -> Fit {
        let is_known = self.is_whole || !(value.is_object() || value.is_array());
        let mut fit = Fit::Valid;
        for rule in list_at(schema, "/x-kubernetes-validations") {
            let Some(text) = rule["rule"].as_str() else { continue };
            let is_optional = rule["optionalOldSelf"] == true;
            let compares = text.contains("oldSelf");
            let has_no_old_value = !self.is_update || (self.is_whole && old.is_none());
            // Such a rule is asked only about a value that replaces another one, and each other rule only about a new
            // value.
            if compares && has_no_old_value && !is_optional || !compares && stays {
                continue;
            }
            let is_decidable = is_known && !(compares && (is_optional || old.is_none()));
            fit = fit.and(|| match is_decidable.then(|| self.evaluate(text, value, old, schema)).flatten() {
                Some(true) => Fit::Valid,
                Some(false) => {
                    let message =
                        rule["message"].as_str().map_or_else(|| format!("failed rule: {text}"), str::to_owned);
                    Fit::invalid(pointer, format!("{}: Invalid value: {message}", dotted(pointer)))
                }
                None => Fit::unknown(format!("has a rule for {}: {text}", dotted(pointer)), &json!(text), value),
            });
        }
        fit
    }

    /// Returns the result of a rule; `None` if it cannot be evaluated here.
    fn evaluate(&self, text: &str, value: &Value, old: Option<&Value>, schema: &Value) -> Option<bool> {
        let mut left = self.steps.get().saturating_sub(text.len() as u64);
        if left == 0 {
            return None;
        }
        let parsed = expression::parse(text).ok()?;
        let mut context = expression::context();
        let mut is_special = false;
        for (name, value) in [("self", Some(value)), ("oldSelf", old)] {
            if let Some(value) = value {
                context.add_variable(name, seen(value, schema, &mut is_special)?).ok()?;
            }
        }
        if is_special && expression::with_stack(|| compares_values(parsed.program().expression())) {
            return None;
        }
        let result = expression::with_stack(|| parsed.evaluate(&context, &mut left));
        self.steps.set(left);
        match result {
            Ok(CelValue::Bool(result)) => Some(result),
            _ => None,
        }
    }
}

/// Returns a value as rules see it; `None` if they see another type than there is here. `is_special` becomes true if
/// equality has a meaning of its own for it.
fn seen(value: &Value, schema: &Value, is_special: &mut bool) -> Option<Value> {
    match value {
        Value::Object(fields) => {
            let has_names = schema.get("properties").is_some();
            let mut all = Map::new();
            for (key, value) in fields {
                match field_schema(schema, key) {
                    Some(schema) => {
                        let value = seen(value, schema, is_special)?;
                        if let Some(name) = if has_names { escaped(key) } else { Some(key.clone()) } {
                            all.insert(name, value);
                        }
                    }
                    None => {
                        *is_special |= keeps_unknown_fields(schema);
                        all.insert(key.clone(), value.clone());
                    }
                }
            }
            Some(Value::Object(all))
        }
        Value::Array(items) => {
            let has_keys = matches!(schema["x-kubernetes-list-type"].as_str(), Some("set" | "map"));
            *is_special |= has_keys && items.len() > 1;
            let inner = schema.get("items")?;
            items.iter().map(|item| seen(item, inner, is_special)).collect::<Option<_>>().map(Value::Array)
        }
        Value::String(_) if is_no_text(schema) => None,
        Value::Number(number) if schema["type"] == "number" => Some(json!(number.as_f64()?)),
        Value::Number(number) if !number.is_i64() => None,
        _ => {
            *is_special |= keeps_unknown_fields(schema) && !flag_at(schema, "/x-kubernetes-int-or-string");
            Some(value.clone())
        }
    }
}

/// Returns the name of a field in rules; `None` if they cannot name it.
fn escaped(key: &str) -> Option<String> {
    if RESERVED.contains(&key) {
        return Some(format!("__{key}__"));
    }
    let is_name = !key.is_empty()
        && !key.starts_with(|c: char| c.is_ascii_digit())
        && key.chars().all(|c| c.is_ascii_alphanumeric() || "_.-/".contains(c));
    let escapes = [("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")];
    is_name.then(|| {
        let mut rest = key;
        let mut name = String::new();
        while let Some(c) = rest.chars().next() {
            let found = escapes.iter().find(|(sign, _)| rest.starts_with(sign));
            let (taken, written) =
                found.map_or((c.len_utf8(), &rest[..c.len_utf8()]), |(sign, word)| (sign.len(), *word));
            name.push_str(written);
            rest = &rest[taken..];
        }
        name
    })
}

/// Returns true if an expression compares or adds values that may be lists or objects.
fn compares_values(node: &Node) -> bool {
    match &node.expr {
        Expr::Call(call) => {
            let compares = [operators::EQUALS, operators::NOT_EQUALS, operators::ADD, operators::IN];
            let is_own = compares.contains(&call.func_name.as_str()) && !call.args.iter().any(is_single);
            is_own || call.target.iter().any(|target| compares_values(target)) || call.args.iter().any(compares_values)
        }
        Expr::Comprehension(all) => {
            let parts = [&all.iter_range, &all.accu_init, &all.loop_cond, &all.loop_step, &all.result];
            parts.into_iter().any(compares_values)
        }
        Expr::List(list) => list.elements.iter().any(compares_values),
        Expr::Map(map) => map.entries.iter().any(|entry| compares_in(&entry.expr)),
        Expr::Struct(all) => all.entries.iter().any(|entry| compares_in(&entry.expr)),
        Expr::Select(select) => compares_values(&select.operand),
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => false,
    }
}

fn compares_in(entry: &EntryExpr) -> bool {
    match entry {
        EntryExpr::StructField(field) => compares_values(&field.value),
        EntryExpr::MapEntry(entry) => compares_values(&entry.key) || compares_values(&entry.value),
    }
}

/// Returns true if a value is neither a list nor an object, and so is what it is compared with, or if a loop collects
/// its result in it.
fn is_single(node: &Node) -> bool {
    match &node.expr {
        Expr::Literal(_) => true,
        Expr::Ident(name) => name.starts_with('@'),
        Expr::Call(call) => call.func_name == "size",
        _ => false,
    }
}
