//! Field ownership: `metadata.managedFields` as sets of field paths.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::flux::controller_flags::ControllerFlags;
use crate::kubernetes::object::{ManagedFieldsEntry, list_at};

/// Path of a field in the steps of managedFields: `f:spec`, `k:{"name":"c"}`, `v:"x"`, `i:0`.
pub(crate) type FieldPath = Vec<String>;

/// A field and the manager that owns it.
pub(crate) struct OwnedField {
    pub(crate) manager: String,
    pub(crate) path: FieldPath,
}

/// Fields of one manager. Entries for subresources are left out.
struct ManagerFields<'a> {
    manager: &'a str,
    applies: bool,
    paths: BTreeSet<FieldPath>,
}

impl<'a> ManagerFields<'a> {
    fn new(entry: &'a Value) -> Self {
        let mut paths = BTreeSet::new();
        collect_paths(&entry["fieldsV1"], &mut vec![], &mut paths);
        let manager = entry["manager"].as_str().unwrap_or_default();
        Self { manager, applies: entry["operation"] == "Apply", paths }
    }

    /// Returns true if a controller with this field manager applied the fields.
    fn is_of(&self, manager: &str) -> bool {
        self.manager == manager && self.applies
    }

    /// Returns true if the controller takes over the fields of this manager before it applies.
    fn is_taken_over(&self, flags: &ControllerFlags) -> bool {
        flags.takes_over(self.manager, self.applies)
    }

    fn owns_below(&self, path: &FieldPath) -> bool {
        self.paths.range(path.clone()..).next().is_some_and(|next| next.starts_with(path))
    }

    fn owned(&self, path: &FieldPath) -> OwnedField {
        OwnedField { manager: self.manager.to_owned(), path: path.clone() }
    }
}

fn managers(object: &Value) -> Vec<ManagerFields<'_>> {
    let entries = list_at(object, "/metadata/managedFields").iter();
    entries
        .filter(|entry| entry["subresource"].as_str().unwrap_or_default().is_empty())
        .map(ManagerFields::new)
        .collect()
}

fn collect_paths(fields: &Value, at: &mut FieldPath, paths: &mut BTreeSet<FieldPath>) {
    for (step, inner) in fields.as_object().into_iter().flatten() {
        if step == "." {
            paths.insert(at.clone());
            continue;
        }
        at.push(step.clone());
        if inner.as_object().is_none_or(Map::is_empty) {
            paths.insert(at.clone());
        } else {
            collect_paths(inner, at, paths);
        }
        at.pop();
    }
}

/// Returns the fields of kubectl and similar managers that nobody else owns in the answer to the apply. The controller
/// removes them. A list item precedes its fields.
pub(crate) fn removed_by_takeover(merged: &Value, flags: &ControllerFlags) -> Vec<OwnedField> {
    let all = managers(merged);
    let (taken_over, kept): (Vec<_>, Vec<_>) = all.iter().partition(|entry| entry.is_taken_over(flags));
    let mut removed = vec![];
    for entry in taken_over {
        let paths = entry.paths.iter().filter(|path| !kept.iter().any(|other| other.owns_below(path)));
        removed.extend(paths.map(|path| entry.owned(path)));
    }
    removed.sort_by(|a, b| (a.path.len(), &a.path, &a.manager).cmp(&(b.path.len(), &b.path, &b.manager)));
    removed
}

/// Returns the fields of other managers whose value the apply of a controller with this field manager changes.
pub(crate) fn overwritten(manager: &str, live: &Value, merged: &Value) -> Vec<OwnedField> {
    let (before, after) = (managers(live), managers(merged));
    let Some(applied) = after.iter().find(|entry| entry.is_of(manager)) else { return vec![] };
    let already_applied = before.iter().find(|entry| entry.is_of(manager)).map(|entry| &entry.paths);
    let mut found = vec![];
    for other in before.iter().filter(|entry| !entry.is_of(manager)) {
        for path in other.paths.intersection(&applied.paths) {
            let is_foreign = already_applied.is_none_or(|paths| !paths.contains(path));
            if is_foreign && value_at(live, path) != value_at(merged, path) {
                found.push(other.owned(path));
            }
        }
    }
    found
}

fn value_at<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, step| match step.split_once(':')? {
        ("f", key) => value.get(key),
        _ => value.as_array()?.iter().enumerate().find(|(at, item)| selects(step, *at, item)).map(|(_, item)| item),
    })
}

/// Returns true if a step of a path selects this list item.
fn selects(step: &str, at: usize, item: &Value) -> bool {
    match step.split_once(':') {
        Some(("k", keys)) => {
            let keys: Value = serde_json::from_str(keys).unwrap_or_default();
            keys.as_object().is_some_and(|keys| keys.iter().all(|(key, value)| item.get(key) == Some(value)))
        }
        Some(("v", value)) => serde_json::from_str::<Value>(value).is_ok_and(|value| value == *item),
        Some(("i", number)) => number.parse() == Ok(at),
        _ => false,
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

/// Removes a field, and the maps and lists that are empty without it. Returns true if the object had the field.
pub(crate) fn remove_field(object: &mut Value, path: &[String]) -> bool {
    let Some((step, rest)) = path.split_first() else { return false };
    match (step.split_once(':'), object) {
        (Some(("f", key)), Value::Object(fields)) => {
            let Some(inner) = fields.get_mut(key) else { return false };
            let removed = rest.is_empty() || remove_field(inner, rest);
            if rest.is_empty() || (removed && is_empty(inner)) {
                fields.remove(key);
            }
            removed
        }
        (Some(_), Value::Array(items)) => {
            let Some(at) = items.iter().enumerate().position(|(at, item)| selects(step, at, item)) else {
                return false;
            };
            if rest.is_empty() {
                items.remove(at);
                return true;
            }
            remove_field(&mut items[at], rest)
        }
        _ => false,
    }
}

/// Returns a path for people: `spec.template.spec.containers[name=c].image`.
pub(crate) fn display_path(path: &[String]) -> String {
    let mut text = String::new();
    for step in path {
        match step.split_once(':') {
            Some(("f", key)) if text.is_empty() => text.push_str(key),
            Some(("f", key)) => text += &format!(".{key}"),
            Some(("k", keys)) => {
                let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
                let pairs = keys.iter().map(|(key, value)| format!("{key}={}", value.to_string().trim_matches('"')));
                text += &format!("[{}]", pairs.collect::<Vec<_>>().join(","));
            }
            _ => text += &format!("[{}]", step.split_once(':').map_or("", |(_, rest)| rest)),
        }
    }
    text
}

/// Returns the fields of a spec that a manager owns. Of a recording without them only a suspension is known.
pub(crate) fn owned_part(entry: &ManagedFieldsEntry, spec: &Value) -> Value {
    match (&entry.spec, spec.get("suspend").filter(|_| entry.suspend)) {
        (Some(fields), _) => part_of(spec, fields),
        (None, Some(suspend)) => Value::Object([("suspend".to_owned(), suspend.clone())].into_iter().collect()),
        (None, None) => Value::Null,
    }
}

/// Returns the part of a value that `fields`, as in `fieldsV1`, names. Lists of this kind are owned as a whole.
fn part_of(value: &Value, fields: &Value) -> Value {
    let names: Vec<(&str, &Value)> = fields
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(step, inner)| Some((step.strip_prefix("f:")?, inner)))
        .collect();
    match value.as_object() {
        Some(object) if !names.is_empty() => {
            let known = names.into_iter().filter_map(|(name, inner)| Some((name, object.get(name)?, inner)));
            Value::Object(known.map(|(name, value, inner)| (name.to_owned(), part_of(value, inner))).collect())
        }
        _ => value.clone(),
    }
}

/// Sets the fields of `upper` in `lower`.
pub(crate) fn overlay(lower: &mut Value, upper: &Value) {
    match (lower, upper) {
        (_, Value::Null) => {}
        (Value::Object(lower), Value::Object(upper)) => {
            for (key, value) in upper {
                overlay(lower.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (lower, upper) => *lower = upper.clone(),
    }
}
