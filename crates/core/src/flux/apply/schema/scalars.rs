//! Validation of texts and numbers by the keywords of a schema.
//!
//! Source: `kube-openapi/pkg/validation/validate` (`type.go`, `validator.go`, `values.go`).

use serde_json::{Number, Value};

use super::fit::{Fit, dotted};
use super::formats::{Verdict, has_format, is_checked};
use crate::bounds::compile_pattern;
use crate::kubernetes::object::flag_at;

/// Largest integer that a number with a fraction can be, and how far it may be from one.
const LARGEST_FLOAT: f64 = 9_007_199_254_740_991.0;
const EPSILON: f64 = 1e-9;

pub(super) fn type_fit(value: &Value, schema: &Value, pointer: &str) -> Fit {
    let is_either = flag_at(schema, "/x-kubernetes-int-or-string");
    let Some(expected) = schema.get("type").and_then(Value::as_str).or(is_either.then_some("integer or string")) else {
        return Fit::Valid;
    };
    let fits = match expected {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => is_integer(value),
        "number" => value.is_number(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        _ => is_either && (value.is_string() || is_integer(value)),
    };
    let message = || format!("{}: Invalid value: {value}: must be of type {expected}", dotted(pointer));
    if fits { Fit::Valid } else { Fit::invalid(pointer, message()) }
}

fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.as_f64().is_some_and(is_whole)
}

/// Returns true if a number with a fraction counts as an integer.
fn is_whole(number: f64) -> bool {
    let nearest = number.trunc();
    let sum = number.abs() + nearest.abs();
    number.abs() <= LARGEST_FLOAT && (number == nearest || (nearest != 0.0 && (number - nearest).abs() / sum < EPSILON))
}

/// Checks a text.
pub(super) fn text_fit(text: &str, value: &Value, schema: &Value, pointer: &str) -> Fit {
    let length = text.chars().count() as u64;
    let [least, most] = ["minLength", "maxLength"].map(|key| schema.get(key).and_then(Value::as_u64));
    if most.is_some_and(|most| length > most) || least.is_some_and(|least| length < least) {
        return Fit::invalid(pointer, format!("{}: Invalid length", dotted(pointer)));
    }
    let format = schema["format"].as_str().unwrap_or_default();
    let fit = match has_format(text, format) {
        Verdict::Yes => Fit::Valid,
        Verdict::No => {
            Fit::invalid(pointer, format!("{}: Invalid value: {text:?}: must be of type {format}", dotted(pointer)))
        }
        Verdict::Unknown => {
            Fit::unknown(format!("checks the format {format} of {}", dotted(pointer)), &schema["format"], value)
        }
    };
    fit.and(|| pattern_fit(text, value, schema, pointer))
}

fn pattern_fit(text: &str, value: &Value, schema: &Value, pointer: &str) -> Fit {
    let Some(pattern) = schema["pattern"].as_str().filter(|pattern| !pattern.is_empty()) else { return Fit::Valid };
    match compile_pattern(pattern) {
        Ok(pattern) if is_alike(pattern.as_str(), text) => {
            if pattern.is_match(text) {
                Fit::Valid
            } else {
                Fit::invalid(pointer, format!("{}: should match '{pattern}'", dotted(pointer)))
            }
        }
        _ => Fit::unknown(format!("checks the pattern of {}", dotted(pointer)), &schema["pattern"], value),
    }
}

/// Returns true if Go matches a text with a pattern as it is matched here: its classes have only ASCII letters and
/// digits, and know neither operators nor other classes inside.
fn is_alike(pattern: &str, text: &str) -> bool {
    let has_classes = ["\\d", "\\w", "\\s", "\\b", "\\D", "\\W", "\\S", "\\B", "(?"];
    if !text.is_ascii() && has_classes.iter().any(|class| pattern.contains(class)) {
        return false;
    }
    let (mut is_inside, mut is_escaped, mut last) = (false, false, ' ');
    for (at, c) in pattern.char_indices() {
        let rest = &pattern[at + c.len_utf8()..];
        match c {
            '<' | '>' if is_escaped => return false,
            'b' if is_escaped && rest.starts_with('{') => return false,
            _ if is_escaped => {}
            '[' if is_inside && !rest.starts_with(':') => return false,
            '&' | '~' | '-' if is_inside && last == c => return false,
            '[' => is_inside = true,
            // The first bracket of a class is one of its characters.
            ']' if !matches!(last, '[' | '^') || !is_inside => is_inside = false,
            _ => {}
        }
        last = if is_escaped { ' ' } else { c };
        is_escaped = c == '\\' && !is_escaped;
    }
    true
}

/// Checks a number.
pub(super) fn number_fit(number: &Number, schema: &Value, pointer: &str) -> Fit {
    let bounds = ["multipleOf", "minimum", "maximum"].map(|key| schema.get(key).and_then(Value::as_f64));
    let exclusive = ["/exclusiveMinimum", "/exclusiveMaximum"].map(|key| flag_at(schema, key));
    let is_integer = schema["type"] == "integer";
    let refused = if !is_in_format(number, &schema["type"], &schema["format"]) {
        Some(format!("must be of format {}", schema["format"]))
    } else if is_integer && bounds.iter().flatten().any(|bound| bound.fract() != 0.0) {
        Some("has a bound that is no integer".to_owned())
    } else if !is_within(number, bounds[1], bounds[2], exclusive) {
        Some("is out of range".to_owned())
    } else if bounds[0].is_some_and(|factor| !is_multiple(number, factor)) {
        Some(format!("should be a multiple of {}", schema["multipleOf"]))
    } else {
        None
    };
    refused
        .map_or(Fit::Valid, |why| Fit::invalid(pointer, format!("{}: Invalid value: {number}: {why}", dotted(pointer))))
}

fn is_in_format(number: &Number, kind: &Value, format: &Value) -> bool {
    let (kind, format) = (kind.as_str().unwrap_or_default(), format.as_str().unwrap_or_default());
    let float = number.as_f64().unwrap_or_default();
    match (kind, format) {
        ("integer", "int32") => (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&float),
        ("number", "float") => (float as f32).is_finite(),
        _ => true,
    }
}

/// Returns true if a number is within bounds. Go cuts the fraction off the bounds of an integer.
fn is_within(number: &Number, least: Option<f64>, most: Option<f64>, [above, below]: [bool; 2]) -> bool {
    match number.as_i64() {
        Some(number) => {
            let [least, most] = [least, most].map(|bound| bound.map(|bound| bound as i64));
            least.is_none_or(|least| number > least || (number == least && !above))
                && most.is_none_or(|most| number < most || (number == most && !below))
        }
        None => {
            let value = number.as_f64().unwrap_or_default();
            least.is_none_or(|least| value > least || (value == least && !above))
                && most.is_none_or(|most| value < most || (value == most && !below))
        }
    }
}

fn is_multiple(number: &Number, factor: f64) -> bool {
    match (number.as_i64(), number.as_f64().unwrap_or_default()) {
        (Some(number), _) => factor >= 1.0 && number % factor as i64 == 0,
        (None, number) if factor <= 0.0 => number.is_nan(),
        (None, number) if factor < 1.0 => is_whole(1.0 / factor * number),
        (None, number) => is_whole(number / factor),
    }
}

/// Returns true if a format makes another type of a text than the rules see here.
pub(super) fn is_no_text(schema: &Value) -> bool {
    let format = schema["format"].as_str().unwrap_or_default();
    is_checked(format) && matches!(format, "date" | "date-time" | "datetime" | "duration" | "byte")
}
