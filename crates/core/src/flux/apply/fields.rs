//! Who owns which field: `metadata.managedFields` as sets of paths.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::flux::kustomize_controller;

/// The steps to a field as managedFields writes them: `f:spec`, `k:{"name":"c"}`, `v:"x"`, `i:0`.
pub(crate) type Path = Vec<String>;

/// An entry of managedFields for the object itself, not for a subresource.
pub(crate) struct Entry<'a> {
    pub(crate) manager: &'a str,
    applies: bool,
    pub(crate) paths: BTreeSet<Path>,
}

impl Entry<'_> {
    /// Whether it is the controller's own.
    pub(crate) fn is_ours(&self) -> bool {
        self.manager == kustomize_controller::NAME && self.applies
    }

    /// Whether the controller moves its fields to itself before it applies: all of these are prefixes.
    pub(crate) fn is_taken_over(&self) -> bool {
        let updates = ["before-first-apply", kustomize_controller::NAME].iter().any(|prefix| self.manager.starts_with(prefix));
        self.manager.starts_with("kubectl") || (updates && !self.applies)
    }
}

/// The entries of an object.
pub(crate) fn entries(object: &Value) -> Vec<Entry<'_>> {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten();
    let text = |entry: &'_ Value, key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let of_object = entries.filter(|entry| text(entry, "subresource").is_empty());
    let read = |entry| {
        let mut paths = BTreeSet::new();
        collect(entry_fields(entry), &mut vec![], &mut paths);
        let manager = Value::as_str(&entry["manager"]).unwrap_or_default();
        Entry { manager, applies: text(entry, "operation") == "Apply", paths }
    };
    of_object.map(read).collect()
}

fn entry_fields(entry: &Value) -> &Value {
    &entry["fieldsV1"]
}

fn collect(fields: &Value, at: &mut Path, into: &mut BTreeSet<Path>) {
    for (step, inner) in fields.as_object().into_iter().flatten() {
        if step == "." {
            into.insert(at.clone());
            continue;
        }
        at.push(step.clone());
        if inner.as_object().is_none_or(serde_json::Map::is_empty) {
            into.insert(at.clone());
        } else {
            collect(inner, at, into);
        }
        at.pop();
    }
}

/// Fields of kubectl and its like that nobody else owns once the controller has applied, with their manager: they go.
/// `applied` is the server's answer to the application.
pub(crate) fn stale(applied: &Value) -> Vec<(String, Path)> {
    let entries = entries(applied);
    let (taken, kept): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| entry.is_taken_over());
    // What is below a path keeps it, too.
    let is_kept = |path: &Path| {
        let below =
            |entry: &&Entry<'_>| entry.paths.range(path.clone()..).next().is_some_and(|next| next.starts_with(path));
        kept.iter().any(below)
    };
    let mut stale: Vec<(String, Path)> = vec![];
    for entry in taken {
        let going = entry.paths.iter().filter(|path| !is_kept(path));
        stale.extend(going.map(|path| (entry.manager.to_owned(), path.clone())));
    }
    // Shorter first: with an item of a list all that is in it goes.
    stale.sort_by_key(|(manager, path)| (path.len(), path.clone(), manager.clone()));
    stale
}

/// Fields that somebody else wrote and that the application changes, with their manager.
pub(crate) fn overridden(live: &Value, applied: &Value) -> Vec<(String, Path)> {
    let (before, after) = (entries(live), entries(applied));
    let Some(ours) = after.iter().find(|entry| entry.is_ours()) else { return vec![] };
    let earlier = before.iter().find(|entry| entry.is_ours());
    let mut found = vec![];
    for entry in before.iter().filter(|entry| !entry.is_ours()) {
        let foreign = entry.paths.iter().filter(|path| earlier.is_none_or(|earlier| !earlier.paths.contains(*path)));
        let changed = foreign.filter(|path| ours.paths.contains(*path) && value(live, path) != value(applied, path));
        found.extend(changed.map(|path| (entry.manager.to_owned(), path.clone())));
    }
    found
}

/// The value at a path.
pub(crate) fn value<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, step| match step.split_once(':')? {
        ("f", key) => value.get(key),
        (_, _) => {
            value.as_array()?.iter().enumerate().find(|(at, item)| is_item(step, *at, item)).map(|(_, item)| item)
        }
    })
}

fn is_item(step: &str, at: usize, item: &Value) -> bool {
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

/// Removes the value at a path, and what is empty without it; whether there was one.
pub(crate) fn remove(object: &mut Value, path: &[String]) -> bool {
    let Some((step, rest)) = path.split_first() else { return false };
    match (step.split_once(':'), object) {
        (Some(("f", key)), Value::Object(fields)) => {
            let Some(inner) = fields.get_mut(key) else { return false };
            let removed = rest.is_empty() || remove(inner, rest);
            let hollow = inner.as_object().is_some_and(|inner| inner.is_empty())
                || inner.as_array().is_some_and(|inner| inner.is_empty());
            if rest.is_empty() || (removed && hollow) {
                fields.remove(key);
            }
            removed
        }
        (Some(_), Value::Array(items)) => {
            let Some(at) = items.iter().enumerate().position(|(at, item)| is_item(step, at, item)) else {
                return false;
            };
            if rest.is_empty() {
                items.remove(at);
                return true;
            }
            remove(&mut items[at], rest)
        }
        _ => false,
    }
}

/// `spec.template.spec.containers[name=c].image`: a path for people.
pub(crate) fn shown(path: &[String]) -> String {
    let mut text = String::new();
    for step in path {
        match step.split_once(':') {
            Some(("f", key)) if text.is_empty() => text.push_str(key),
            Some(("f", key)) => text += &format!(".{key}"),
            Some(("k", keys)) => {
                let keys: Value = serde_json::from_str(keys).unwrap_or_default();
                let pair = |(key, value): (&String, &Value)| format!("{key}={}", value.to_string().trim_matches('"'));
                let pairs: Vec<String> = keys.as_object().into_iter().flatten().map(pair).collect();
                text += &format!("[{}]", pairs.join(","));
            }
            _ => text += &format!("[{}]", step.split_once(':').map_or("", |(_, rest)| rest)),
        }
    }
    text
}
