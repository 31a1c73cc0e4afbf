//! Change of an object by an apply: the answer of the API server to a dry-run, without the fields that the controller
//! takes over and removes.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};
use similar::TextDiff;

use super::AppliedObject;
use super::ignore_rules::ignored_in_answer;
use super::managed_fields::{OwnedField, display_path, overwritten, remove_field, removed_by_takeover};
use super::manifest::manifest_to_apply;
use crate::bounds::DIFF_LINES;
use crate::flux::controller_flags::ControllerFlags;
use crate::flux::kustomize_controller;
use crate::kubernetes::object::{ObjectId, ObjectMetadata, list_at, text_at};
use crate::ownership::schemes::flux_operator::CHECKSUM;
use crate::plan::{Reason, ReasonCode};
use crate::text::{join_limited, unescape_step};

/// Annotations and labels that the controller removes from every object that it applies.
const REMOVED_ANNOTATIONS: [&str; 3] =
    [LAST_APPLIED, "kustomize.toolkit.fluxcd.io/checksum", "fluxcd.io/sync-checksum"];
const REMOVED_LABELS: [&str; 1] = ["fluxcd.io/sync-gc-mark"];
/// Annotation of kubectl with a whole manifest, Secret data included. No diff shows it.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Replacement of a value of a Secret that is the same on both sides.
const MASK: &str = "***";
/// Names of the sides of a diff in what replaces a value that differs.
const SIDES: [&str; 2] = ["before", "after"];
/// Number of fields that a reason names.
const NAMED_FIELDS: usize = 3;

/// Change of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// Reason of the update.
    pub reason: Reason,
    /// Unified diff of the YAML.
    pub diff: String,
    /// More than the metadata changes.
    pub changes_content: bool,
}

/// Compares the live object with the answer to the dry-run of its apply. Returns `None` if nothing changes in the parts
/// that the controller compares.
pub fn compare(
    applied: &AppliedObject,
    seen: Option<&ObjectMetadata>,
    flags: &ControllerFlags,
    live: &Value,
    merged: &Value,
) -> Option<Update> {
    let mut result = merged.clone();
    let mut taken_over = vec![];
    if applied.takes_over(seen) {
        for field in removed_by_takeover(merged, flags) {
            if remove_field(&mut result, &field.path) && !is_kubectl_annotation(&field.path) {
                taken_over.push(field);
            }
        }
        remove_controller_metadata(&mut result);
    }
    let drift = overwritten(kustomize_controller::NAME, live, merged);
    let [mut before, mut after] = compared_parts(live, &result);
    for pointer in ignored_in_answer(applied, merged) {
        remove_pointer(&mut before, &pointer);
        remove_pointer(&mut after, &pointer);
    }
    if before == after {
        return None;
    }
    let changes_content = content(&before) != content(&after);
    let is_secret = applied.id.is("", "Secret");
    if applied.live_is_private || is_secret {
        let masked = applied.built.masked.as_deref();
        let written = masked.map_or_else(|| manifest_to_apply(applied), |masked| masked.manifest.clone());
        // Other systems keep a whole Secret in an annotation.
        let part = if applied.live_is_private { "" } else { "/metadata/annotations" };
        hide_unwritten(written.pointer(part), before.pointer_mut(part), after.pointer_mut(part));
    }
    if is_secret {
        mask_secret(&mut before, &mut after);
    }
    let masked = applied.built.masked.as_deref();
    let mut reason = reason(&taken_over, &drift);
    if applied.live_is_private || masked.is_some() {
        // The paths of fields can hold values too.
        reason = reason.code.into();
    }
    if let Some(masked) = masked {
        mask_fields(&applied.built.manifest, &masked.manifest, Some(&mut before), Some(&mut after));
    }
    let name = masked.map_or(&applied.id, |masked| &masked.id).to_string();
    Some(Update { reason, diff: unified_diff(&name, LIVE, &before, &after), changes_content })
}

/// Compares the live object with the answer to the dry-run of its apply by another controller than kustomize-controller, which takes
/// over no fields. Returns `None` if nothing changes. With `is_private`, the object can hold values of Secrets, and the result has
/// neither fields nor a diff.
pub fn compare_applied(
    id: &ObjectId,
    controller: &str,
    is_private: bool,
    live: &Value,
    merged: &Value,
) -> Option<Update> {
    let [before, after] = compared_parts(live, merged);
    if before == after {
        return None;
    }
    let changes_content = content(&before) != content(&after);
    let reason = reason(&[], &overwritten(controller, live, merged));
    Some(if is_private {
        Update { reason: reason.code.into(), diff: String::new(), changes_content }
    } else {
        let diff = unified_diff(&id.to_string(), LIVE, &before, &after);
        Update { reason, diff, changes_content }
    })
}

/// Returns true if a live object is known to be the answer to the dry-run of an apply without a comparison: an apply that changes
/// anything changes the time of its field manager too.
pub fn is_applied_already(manager: &str, live: &ObjectMetadata, merged: &Value) -> bool {
    let mut own = live
        .managed_fields
        .iter()
        .filter(|entry| entry.applies && &*entry.manager == manager && entry.subresource.is_empty());
    let before = own.next().and_then(|entry| entry.time);
    let entries = list_at(merged, "/metadata/managedFields").iter();
    let mut applied = entries.filter(|entry| {
        entry["manager"] == manager && entry["operation"] == "Apply" && text_at(entry, "/subresource").is_empty()
    });
    let after = applied.next().and_then(|entry| text_at(entry, "/time").parse::<DateTime<Utc>>().ok());
    before.is_some() && before == after
}

/// Returns an object without its metadata.
fn content(object: &Value) -> Vec<(&String, &Value)> {
    object.as_object().into_iter().flatten().filter(|(key, _)| *key != "metadata").collect()
}

/// Returns `drift` for overwritten fields of other managers, `taken-over` for removed fields of kubectl, or `changed`.
fn reason(taken_over: &[OwnedField], overwritten: &[OwnedField]) -> Reason {
    let drift = list_fields(overwritten, "was set by");
    let removed = list_fields(taken_over, "is removed, it was set by");
    match (taken_over.is_empty(), overwritten.is_empty()) {
        (true, true) => ReasonCode::Changed.into(),
        (true, false) => Reason::new(ReasonCode::Drift, drift),
        (false, true) => Reason::new(ReasonCode::TakenOver, removed),
        (false, false) => Reason::new(ReasonCode::Drift, format!("{drift}; {removed}")),
    }
}

fn list_fields(fields: &[OwnedField], verb: &str) -> String {
    let texts = fields.iter().map(|field| format!("{} {verb} {}", display_path(&field.path), field.manager));
    join_limited(texts, NAMED_FIELDS)
}

/// Returns true for the annotations of kubectl itself. No reason names them: the controller removes them from every
/// object that kubectl applied.
fn is_kubectl_annotation(path: &[String]) -> bool {
    let [metadata, annotations, key @ ..] = path else { return false };
    let is_last_applied = key.first().is_none_or(|key| key.strip_prefix("f:") == Some(LAST_APPLIED));
    metadata == "f:metadata" && annotations == "f:annotations" && is_last_applied
}

fn remove_controller_metadata(object: &mut Value) {
    for (pointer, keys) in
        [("/metadata/annotations", &REMOVED_ANNOTATIONS[..]), ("/metadata/labels", &REMOVED_LABELS[..])]
    {
        if let Some(map) = object.pointer_mut(pointer).and_then(Value::as_object_mut) {
            keys.iter().for_each(|key| drop(map.remove(*key)));
        }
    }
}

/// Returns the parts of both sides that the controller compares, without the hashes that flux-operator writes. No manifest has them,
/// and with the hash of a Secret, a guess of its value could be tried.
fn compared_parts(live: &Value, merged: &Value) -> [Value; 2] {
    let [mut before, mut after] = [live, merged].map(comparable);
    hide_hashes(Some(&mut before), Some(&mut after));
    [before, after]
}

/// Removes the hash of the one side if the other one has none, and replaces it otherwise.
fn hide_hashes(mut before: Option<&mut Value>, mut after: Option<&mut Value>) {
    let [old, new] = [before.as_deref_mut(), after.as_deref_mut()].map(|side| side?.as_object_mut()?.remove(CHECKSUM));
    if new.is_some() {
        for ((side, own), name) in
            [before.as_deref_mut(), after.as_deref_mut()].into_iter().zip([&old, &new]).zip(SIDES)
        {
            if let (Some(side), Some(_)) = (side, own) {
                side[CHECKSUM] = Value::String(mask_of(old != new, name));
            }
        }
    }
    let (keys, length) = steps([before.as_deref(), after.as_deref()]);
    for key in keys {
        let [old, new] = [before.as_deref_mut(), after.as_deref_mut()].map(|side| side?.get_mut(&key));
        hide_hashes(old, new);
    }
    for at in 0..length {
        let [old, new] = [before.as_deref_mut(), after.as_deref_mut()].map(|side| side?.get_mut(at));
        hide_hashes(old, new);
    }
}

/// Returns the keys of two maps, and the number of items of the longer of two lists.
fn steps(sides: [Option<&Value>; 2]) -> (BTreeSet<String>, usize) {
    let present = sides.into_iter().flatten();
    let keys = present.clone().filter_map(Value::as_object).flat_map(Map::keys).cloned().collect();
    (keys, present.filter_map(Value::as_array).map(Vec::len).max().unwrap_or_default())
}

/// Returns the parts that the controller compares: name, labels, annotations, and everything but metadata and status.
fn comparable(object: &Value) -> Value {
    let mut parts = object.as_object().cloned().unwrap_or_default();
    parts.remove("status");
    let mut metadata = Map::new();
    for key in ["name", "namespace", "labels", "annotations"] {
        let mut value = object.pointer(&format!("/metadata/{key}")).cloned().unwrap_or_default();
        if let Some(map) = value.as_object_mut() {
            map.remove(LAST_APPLIED);
        }
        if !value.is_null() && !value.as_object().is_some_and(Map::is_empty) {
            metadata.insert(key.to_owned(), value);
        }
    }
    parts.insert("metadata".to_owned(), Value::Object(metadata));
    Value::Object(parts)
}

fn remove_pointer(object: &mut Value, pointer: &str) {
    let Some((parent, escaped)) = pointer.rsplit_once('/') else { return };
    let key = unescape_step(escaped);
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

/// Replaces the values of both versions of a Secret. A value that changes reads `*** (before)` and `*** (after)`.
fn mask_secret(before: &mut Value, after: &mut Value) {
    for part in ["data", "stringData"] {
        let old = before.get(part).and_then(Value::as_object).cloned().unwrap_or_default();
        let new = after.get(part).and_then(Value::as_object).cloned().unwrap_or_default();
        if !old.is_empty() {
            before[part] = masked(&old, &new, "before");
        }
        if !new.is_empty() {
            after[part] = masked(&new, &old, "after");
        }
    }
}

/// Replaces the fields in which a manifest and the manifest with placeholders differ, on both sides of a diff. A list
/// or a map that cannot be matched is replaced as a whole.
fn mask_fields(manifest: &Value, masked: &Value, before: Option<&mut Value>, after: Option<&mut Value>) {
    if manifest == masked {
        return;
    }
    if let (Value::Object(fields), Value::Object(shown)) = (manifest, masked)
        && fields.keys().eq(shown.keys())
    {
        let (mut before, mut after) = (before, after);
        for (key, value) in fields {
            let old = before.as_deref_mut().and_then(|side| side.get_mut(key));
            let new = after.as_deref_mut().and_then(|side| side.get_mut(key));
            mask_fields(value, &shown[key], old, new);
        }
        return;
    }
    let changes = before.as_deref() != after.as_deref();
    for (side, name) in [before, after].into_iter().zip(SIDES) {
        if let Some(side) = side {
            *side = Value::String(mask_of(changes, name));
        }
    }
}

/// Replaces on both sides of a diff everything that a manifest does not write: values of Secrets can be in it.
fn hide_unwritten(written: Option<&Value>, before: Option<&mut Value>, after: Option<&mut Value>) {
    let is_nested = has_parts_of(before.as_deref(), written) && has_parts_of(after.as_deref(), written);
    match (written, before, after) {
        (Some(Value::Object(fields)), mut before, mut after) if is_nested => {
            let rest = [&mut before, &mut after].map(|side| {
                let side = side.as_deref_mut().and_then(Value::as_object_mut)?;
                let (known, rest) = std::mem::take(side).into_iter().partition(|(key, _)| fields.contains_key(key));
                *side = known;
                Some(rest).filter(|rest: &Map<String, Value>| !rest.is_empty())
            });
            let changes = rest[0] != rest[1];
            for (key, written) in fields {
                let old = before.as_deref_mut().and_then(|side| side.get_mut(key));
                let new = after.as_deref_mut().and_then(|side| side.get_mut(key));
                hide_unwritten(Some(written), old, new);
            }
            for ((side, rest), name) in [before, after].into_iter().zip(rest).zip(SIDES) {
                if let Some(side) = side.filter(|_| rest.is_some()) {
                    side[MASK] = Value::String(mask_of(changes, name));
                }
            }
        }
        (Some(Value::Array(items)), mut before, mut after) if is_nested => {
            for (at, written) in items.iter().enumerate() {
                let old = before.as_deref_mut().and_then(|side| side.get_mut(at));
                let new = after.as_deref_mut().and_then(|side| side.get_mut(at));
                hide_unwritten(Some(written), old, new);
            }
        }
        (written, before, after) => {
            let changes = before.as_deref() != after.as_deref();
            for (side, name) in [before, after].into_iter().zip(SIDES) {
                if let Some(side) = side.filter(|side| written != Some(&**side)) {
                    *side = Value::String(mask_of(changes, name));
                }
            }
        }
    }
}

/// Returns true for no value, and for a map or a list with as many items as what a manifest writes in its place.
fn has_parts_of(side: Option<&Value>, written: Option<&Value>) -> bool {
    match (written, side) {
        (Some(Value::Object(_)), Some(side)) => side.is_object(),
        (Some(Value::Array(items)), Some(side)) => side.as_array().is_some_and(|side| side.len() == items.len()),
        (_, None) => true,
        _ => false,
    }
}

/// Returns the replacement of a value on one side of a diff.
fn mask_of(changes: bool, side: &str) -> String {
    if changes { format!("{MASK} ({side})") } else { MASK.to_owned() }
}

fn masked(own: &Map<String, Value>, other: &Map<String, Value>, side: &str) -> Value {
    let mut masked = Map::new();
    for (key, value) in own {
        let changes = other.get(key).is_some_and(|other| other != value);
        masked.insert(key.clone(), Value::String(mask_of(changes, side)));
    }
    Value::Object(masked)
}

/// Returns the unified diff of two manifests of an object, without the values of a Secret.
pub(crate) fn manifest_diff(id: &ObjectId, before: &Value, after: &Value) -> String {
    let (mut before, mut after) = (before.clone(), after.clone());
    if id.is("", "Secret") {
        mask_secret(&mut before, &mut after);
    }
    unified_diff(&id.to_string(), ["deployed", "new"], &before, &after)
}

/// Words for the two sides of a dry-run.
const LIVE: [&str; 2] = ["live", "merged"];

fn unified_diff(name: &str, [old, new]: [&str; 2], before: &Value, after: &Value) -> String {
    let before = serde_yaml::to_string(before).unwrap_or_default();
    let after = serde_yaml::to_string(after).unwrap_or_default();
    if let Err(exceeded) = DIFF_LINES.check(before.lines().count() + after.lines().count()) {
        return format!("{name} has {exceeded}: no diff\n");
    }
    let diff = TextDiff::from_lines(&before, &after);
    diff.unified_diff().context_radius(3).header(&format!("{name} ({old})"), &format!("{name} ({new})")).to_string()
}
