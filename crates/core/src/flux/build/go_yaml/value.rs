//! Values of YAML in Go: numbers keep their type, which decides on their text.

use std::collections::BTreeMap;
use std::fmt::{Display, LowerExp};

use serde_json::{Number, Value};

use crate::bounds::Exceeded;

/// Reason why a text has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReadError {
    /// Go refuses the text as well.
    #[error("{0}")]
    Invalid(String),
    /// It is not known what Go reads.
    #[error("{0}")]
    Unsupported(String),
}

impl ReadError {
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
    }

    /// Go has other limits.
    pub(super) fn exceeded(exceeded: Exceeded) -> Self {
        Self::Unsupported(exceeded.to_string())
    }

    pub(super) fn unsupported(message: impl Into<String>) -> Self {
        Self::Unsupported(message.into())
    }
}

/// A value that Go reads into an interface.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum GoValue {
    Null,
    Bool(bool),
    Int(i64),
    /// An integer above those of 64 bits with a sign.
    Uint(u64),
    Float(f64),
    Text(String),
    List(Vec<GoValue>),
    Map(BTreeMap<String, GoValue>),
}

impl GoValue {
    /// Returns the value as JSON. Fails for numbers that JSON does not have, as Go does.
    pub(crate) fn to_json(&self) -> Result<Value, ReadError> {
        Ok(match self {
            Self::Null => Value::Null,
            Self::Bool(value) => (*value).into(),
            Self::Int(value) => (*value).into(),
            Self::Uint(value) => (*value).into(),
            Self::Float(value) => json_number(*value)?,
            Self::Text(text) => text.as_str().into(),
            Self::List(items) => items.iter().map(Self::to_json).collect::<Result<_, _>>().map(Value::Array)?,
            Self::Map(entries) => {
                let fields = entries.iter().map(|(key, value)| Ok((key.clone(), value.to_json()?)));
                fields.collect::<Result<_, _>>().map(Value::Object)?
            }
        })
    }

    /// Returns the text that Go makes of a number or a boolean where a field expects text.
    pub(crate) fn scalar_text(&self) -> Option<String> {
        match self {
            Self::Bool(value) => Some(value.to_string()),
            Self::Int(value) => Some(value.to_string()),
            Self::Uint(value) => Some(value.to_string()),
            Self::Float(value) => Some(float_text(*value)),
            Self::Null | Self::Text(_) | Self::List(_) | Self::Map(_) => None,
        }
    }
}

/// Returns a number as Go writes it to JSON: without a fraction if it has none.
fn json_number(value: f64) -> Result<Value, ReadError> {
    if value.fract() == 0.0 && value.abs() < 1e18 {
        return Ok((value as i64).into());
    }
    let number = Number::from_f64(value).ok_or_else(|| ReadError::invalid("JSON has no infinite numbers"))?;
    Ok(Value::Number(number))
}

/// Returns the text of a number with the precision of 32 bits, as Go's verb `g` writes it.
pub(super) fn float_text(value: f64) -> String {
    let short = value as f32;
    if short.is_nan() {
        return "NaN".to_owned();
    }
    if short.is_infinite() {
        return if short > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    shortest_text(&short)
}

/// Returns the shortest text of a number as Go's verb `g` writes it.
pub(super) fn shortest_text(number: &(impl Display + LowerExp)) -> String {
    let scientific = format!("{number:e}");
    let (digits, shown_exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = shown_exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return number.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}
