//! Types of scalars in go-yaml v2, which follows YAML 1.1 in part.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

use super::value::{GoValue, ReadError};

/// Go ignores bits that are left over at the end.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

const PREFIX: &str = "tag:yaml.org,2002:";

/// Returns the value of a scalar. `is_plain` is false for a quoted or block scalar without a tag.
pub(super) fn resolve(value: &str, tag: Option<&str>, is_plain: bool) -> Result<GoValue, ReadError> {
    let Some(tag) = tag.filter(|tag| !tag.is_empty()) else {
        return Ok(if is_plain { resolve_plain(value) } else { GoValue::Text(value.to_owned()) });
    };
    let Some(name) = tag.strip_prefix(PREFIX) else { return Ok(GoValue::Text(value.to_owned())) };
    let resolved = match name {
        "str" => return Ok(GoValue::Text(value.to_owned())),
        "binary" => return binary(value),
        "bool" | "int" | "float" | "null" => resolve_plain(value),
        "timestamp" => return Err(ReadError::unsupported("the text has a !!timestamp")),
        _ => return Ok(GoValue::Text(value.to_owned())),
    };
    match (name, resolved) {
        ("bool", resolved @ GoValue::Bool(_))
        | ("int", resolved @ (GoValue::Int(_) | GoValue::Uint(_)))
        | ("float", resolved @ GoValue::Float(_))
        | ("null", resolved @ GoValue::Null) => Ok(resolved),
        ("float", GoValue::Int(number)) => Ok(GoValue::Float(number as f64)),
        _ => Err(ReadError::invalid(format!("cannot decode {value:?} as a !!{name}"))),
    }
}

fn binary(value: &str) -> Result<GoValue, ReadError> {
    let data: String = value.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let decoded = BASE64.decode(data).map_err(|_| ReadError::invalid("!!binary value contains invalid base64 data"))?;
    let text = String::from_utf8(decoded).map_err(|_| ReadError::unsupported("a !!binary value is not UTF-8"))?;
    Ok(GoValue::Text(text))
}

/// Returns the value of a plain scalar. The first character decides which types are tried.
fn resolve_plain(value: &str) -> GoValue {
    let known = match value {
        "" | "~" | "null" | "Null" | "NULL" => Some(GoValue::Null),
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Some(GoValue::Bool(true)),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Some(GoValue::Bool(false))
        }
        ".nan" | ".NaN" | ".NAN" => Some(GoValue::Float(f64::NAN)),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Some(GoValue::Float(f64::INFINITY)),
        "-.inf" | "-.Inf" | "-.INF" => Some(GoValue::Float(f64::NEG_INFINITY)),
        _ => None,
    };
    known.or_else(|| number(value)).unwrap_or_else(|| GoValue::Text(value.to_owned()))
}

fn number(text: &str) -> Option<GoValue> {
    let digits = text.replace('_', "");
    match text.as_bytes().first()? {
        b'.' if has_digits_around_underscores(text) => float(&digits),
        b'0'..=b'9' | b'+' | b'-' => integer(&digits).or_else(|| float(&digits)),
        _ => None,
    }
}

/// Reads an integer with the prefixes of Go: `0x`, `0o`, `0b`, and `0` for octal numbers.
fn integer(text: &str) -> Option<GoValue> {
    let (is_negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (base, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    if !digits.bytes().all(|c| c.is_ascii_alphanumeric()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, base).ok()?;
    let signed = if is_negative { 0_i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() };
    match signed {
        Some(number) => Some(GoValue::Int(number)),
        // Go reads a number without a sign again.
        None if text.starts_with(['-', '+']) => None,
        None => Some(GoValue::Uint(magnitude)),
    }
}

fn has_digits_around_underscores(text: &str) -> bool {
    text.match_indices('_').all(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + 1..]);
        before.ends_with(|c: char| c.is_ascii_digit()) && after.starts_with(|c: char| c.is_ascii_digit())
    })
}

/// Reads a decimal number. One that is too large is text.
fn float(text: &str) -> Option<GoValue> {
    let is_decimal = text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
    let number: f64 = text.parse().ok().filter(|number: &f64| is_decimal && number.is_finite())?;
    Some(GoValue::Float(number))
}

/// Returns true if go-yaml v3 reads a plain scalar with the same type.
pub(super) fn is_same_in_v3(value: &str, resolved: &GoValue) -> bool {
    match resolved {
        GoValue::Bool(_) => matches!(value, "true" | "True" | "TRUE" | "false" | "False" | "FALSE"),
        GoValue::Int(number) => number.to_string() == value,
        GoValue::Uint(_) => false,
        GoValue::Float(_) => is_simple_float(value),
        // What v3 reads as a time begins with a year.
        GoValue::Text(text) => {
            text.len() < 5 || !text.bytes().take(4).all(|c| c.is_ascii_digit()) || text.as_bytes()[4] != b'-'
        }
        GoValue::Null | GoValue::List(_) | GoValue::Map(_) => true,
    }
}

fn is_simple_float(value: &str) -> bool {
    let unsigned = value.strip_prefix('-').unwrap_or(value);
    unsigned.split_once('.').is_some_and(|(whole, fraction)| {
        [whole, fraction].iter().all(|part| !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit()))
            && (whole == "0" || !whole.starts_with('0'))
    })
}
