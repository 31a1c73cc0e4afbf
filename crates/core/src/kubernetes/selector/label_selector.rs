//! Label selectors as objects have them: `matchLabels` and `matchExpressions`.

use serde_json::Value;

use crate::kubernetes::object::list_at;

/// Returns true if a label selector selects an object with these labels. An empty selector selects all.
pub(crate) fn selects<'l>(selector: &Value, label: impl Fn(&str) -> Option<&'l str>) -> bool {
    let equal = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
    let mut expressions = list_at(selector, "/matchExpressions").iter();
    equal.into_iter().all(|(key, value)| label(key) == value.as_str())
        && expressions.all(|expression| {
            let found = expression["key"].as_str().and_then(&label);
            let is_listed =
                list_at(expression, "/values").iter().any(|value| value.as_str() == found && found.is_some());
            match expression["operator"].as_str() {
                Some("In") => is_listed,
                Some("NotIn") => !is_listed,
                Some("Exists") => found.is_some(),
                Some("DoesNotExist") => found.is_none(),
                _ => true,
            }
        })
}
