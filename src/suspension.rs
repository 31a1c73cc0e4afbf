//! Suspension: `spec.suspend`, or the annotation of RFC-0006, or the kind's own switch.

use serde_json::Value;

use crate::object::{FullObject, Object};

/// The annotation of RFC-0006; its presence suspends, whatever its value.
pub const ANNOTATION: &str = "reconcile.fluxcd.io/suspended";

/// What suspends an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// `spec.suspend: true`.
    Spec,
    /// The annotation.
    Annotation,
    /// Both of them.
    Both,
    /// The kind's own `…/reconcile: disabled` switch.
    Switch,
}

/// Switches of kinds without `spec.suspend` (reference flux 3).
pub const SWITCHES: [(&str, &str); 2] = [
    ("source.extensions.fluxcd.io", "source.extensions.fluxcd.io/reconcile"),
    ("fluxcd.controlplane.io", "fluxcd.controlplane.io/reconcile"),
];

/// What suspends an object, if anything does.
pub fn effective(full: &FullObject) -> Option<By> {
    effective_parts(&full.object, &full.content)
}

/// As [`effective`], for metadata and content that are held apart.
pub fn effective_parts(object: &Object, content: &Value) -> Option<By> {
    let annotation = object.annotations.get(ANNOTATION).is_some();
    let spec = content.pointer("/spec/suspend").and_then(Value::as_bool).unwrap_or_default();
    match (spec, annotation) {
        (true, true) => return Some(By::Both),
        (true, false) => return Some(By::Spec),
        (false, true) => return Some(By::Annotation),
        (false, false) => {}
    }
    let (_, switch) = SWITCHES.iter().find(|(group, _)| *group == &*object.id.group)?;
    object.annotations.get(switch).filter(|value| value.eq_ignore_ascii_case("disabled")).map(|_| By::Switch)
}

/// Annotations that tell of a suspension or of a request to reconcile.
const KEYS: [&str; 5] =
    [ANNOTATION, "reconcile.fluxcd.io/requestedAt", "fluxcd.controlplane.io/suspendedBy", SWITCHES[0].1, SWITCHES[1].1];

/// Whether an annotation tells of a suspension or of a request to reconcile.
pub fn is_key(key: &str) -> bool {
    KEYS.contains(&key)
}
