//! Whether and how an object changes: the server's answer to a dry-run, less what the controller takes over and drops.

use serde_json::{Map, Value};
use similar::TextDiff;

use super::{Application, fields, masked};
use crate::kubernetes::object::ObjectMetadata;
use crate::plan::{Reason, ReasonCode};

/// Annotations and labels that the controller removes from whatever it applies.
const DROPPED_ANNOTATIONS: [&str; 3] =
    [LAST_APPLIED, "kustomize.toolkit.fluxcd.io/checksum", "fluxcd.io/sync-checksum"];
const DROPPED_LABELS: [&str; 1] = ["fluxcd.io/sync-gc-mark"];
/// Holds a whole manifest, Secret data included: it is in no diff.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// How many fields a reason names.
const NAMED: usize = 3;

/// How an object changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// Reason of the update.
    pub reason: Reason,
    /// A unified diff.
    pub diff: String,
}

/// Compares the live object with the answer to the dry-run of its application; `None` when nothing counts as a change.
pub fn update(
    application: &Application,
    seen: Option<&ObjectMetadata>,
    live: &Value,
    applied: &Value,
) -> Option<Update> {
    let mut result = applied.clone();
    let mut taken = vec![];
    if application.takes_over(seen) {
        for (manager, path) in fields::stale(applied) {
            if fields::remove(&mut result, &path) && !is_bookkeeping(&path) {
                taken.push((manager, path));
            }
        }
        drop_marks(&mut result);
    }
    let overridden = fields::overridden(live, applied);
    let (mut before, mut after) = (view(live), view(&result));
    for pointer in application.spec.ignored_paths(&application.id, &application.built.version) {
        remove_pointer(&mut before, &pointer);
        remove_pointer(&mut after, &pointer);
    }
    if before == after {
        return None;
    }
    let reason = reason(&taken, &overridden);
    if application.id.is("", "Secret") {
        masked::mask(&mut before, &mut after);
    }
    Some(Update { reason, diff: unified(&application.id.to_string(), &before, &after) })
}

/// Returns `changed`, `drift` where the controller overwrites a value that someone else set, or `taken-over` where it
/// removes a field that kubectl set.
fn reason(taken_over: &[(String, fields::Path)], overridden: &[(String, fields::Path)]) -> Reason {
    let drift = list(overridden, "was set by");
    let removed = list(taken_over, "is removed, it was set by");
    match (taken_over.is_empty(), overridden.is_empty()) {
        (true, true) => ReasonCode::Changed.into(),
        (true, false) => Reason::new(ReasonCode::Drift, drift),
        (false, true) => Reason::new(ReasonCode::TakenOver, removed),
        (false, false) => Reason::new(ReasonCode::Drift, format!("{drift}; {removed}")),
    }
}

fn list(fields: &[(String, fields::Path)], verb: &str) -> String {
    let named: Vec<String> =
        fields.iter().take(NAMED).map(|(by, path)| format!("{} {verb} {by}", fields::shown(path))).collect();
    let more = fields.len() - named.len();
    if more > 0 { format!("{} and {more} more", named.join(", ")) } else { named.join(", ") }
}

/// What kubectl keeps for itself goes from every object that it applied; nobody needs to be told.
fn is_bookkeeping(path: &[String]) -> bool {
    let annotations =
        matches!(path, [metadata, annotations, ..] if metadata == "f:metadata" && annotations == "f:annotations");
    annotations && path.get(2).is_none_or(|key| key.strip_prefix("f:") == Some(LAST_APPLIED))
}

fn drop_marks(object: &mut Value) {
    for (pointer, keys) in
        [("/metadata/annotations", &DROPPED_ANNOTATIONS[..]), ("/metadata/labels", &DROPPED_LABELS[..])]
    {
        if let Some(marks) = object.pointer_mut(pointer).and_then(Value::as_object_mut) {
            keys.iter().for_each(|key| drop(marks.remove(*key)));
        }
    }
}

/// What the controller compares: labels, annotations, and everything but metadata and status.
fn view(object: &Value) -> Value {
    let mut view = object.as_object().cloned().unwrap_or_default();
    view.remove("status");
    let mut metadata = Map::new();
    for key in ["name", "namespace", "labels", "annotations"] {
        let mut value = object.pointer(&format!("/metadata/{key}")).cloned().unwrap_or_default();
        if let Some(marks) = value.as_object_mut() {
            marks.remove(LAST_APPLIED);
        }
        let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        if !empty {
            metadata.insert(key.to_owned(), value);
        }
    }
    view.insert("metadata".to_owned(), Value::Object(metadata));
    Value::Object(view)
}

fn remove_pointer(object: &mut Value, pointer: &str) {
    let Some((parent, key)) = pointer.rsplit_once('/') else { return };
    let key = key.replace("~1", "/").replace("~0", "~");
    match object.pointer_mut(parent) {
        Some(Value::Object(fields)) => drop(fields.remove(&key)),
        Some(Value::Array(items)) => {
            if let Some(at) = key.parse::<usize>().ok().filter(|at| *at < items.len()) {
                items.remove(at);
            }
        }
        _ => {}
    }
}

fn unified(name: &str, before: &Value, after: &Value) -> String {
    let yaml = |value: &Value| serde_yaml::to_string(value).unwrap_or_default();
    let (before, after) = (yaml(before), yaml(after));
    let diff = TextDiff::from_lines(&before, &after);
    diff.unified_diff().context_radius(3).header(&format!("{name} (live)"), &format!("{name} (merged)")).to_string()
}
