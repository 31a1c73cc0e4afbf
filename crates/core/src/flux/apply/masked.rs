//! Secrets in a diff: which keys change, never what they hold.

use serde_json::{Map, Value};

/// What stands for a value that is the same on both sides.
const SAME: &str = "***";

/// Replaces the values of both versions of a Secret; a value that changes reads `*** (before)` and `*** (after)`.
pub(crate) fn mask(before: &mut Value, after: &mut Value) {
    for part in ["data", "stringData"] {
        let old = before.get(part).and_then(Value::as_object).cloned().unwrap_or_default();
        let new = after.get(part).and_then(Value::as_object).cloned().unwrap_or_default();
        let masked = |own: &Map<String, Value>, other: &Map<String, Value>, word: &str| {
            let value = |(key, value): (&String, &Value)| {
                let changes = other.get(key).is_some_and(|other| other != value);
                (key.clone(), Value::String(if changes { format!("{SAME} ({word})") } else { SAME.to_owned() }))
            };
            Value::Object(own.iter().map(value).collect())
        };
        if !old.is_empty() {
            before[part] = masked(&old, &new, "before");
        }
        if !new.is_empty() {
            after[part] = masked(&new, &old, "after");
        }
    }
}
