//! Suspension: `spec.suspend`, the annotation of RFC-0006, or the kind's own switch.
//!
//! The rules of the RFC (seed: RFC-0006; reference flux 4 and 5): the annotation's presence suspends, whatever its value;
//! its value is a message for people. No released Flux controller honours it, so [`evidence`] looks for runs that
//! happened all the same, and [`patch`] can set `spec.suspend` beside it.
//!
//! Controllers that honour the annotation can be built on [`judge`], and on `kubectl_gitops::controller` with kube.

pub mod evidence;
pub mod message;
pub mod patch;
pub mod resume_order;
pub mod view;
pub mod wait;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;

use super::kinds;
use crate::kubernetes::object::{ManagedFieldsEntry, ObjectMetadata, Resource};

/// The annotation of RFC-0006; its presence suspends, whatever its value.
pub const ANNOTATION: &str = "reconcile.fluxcd.io/suspended";

/// The value that carries no message.
pub const NO_MESSAGE: &str = "true";

/// Asks a controller for a reconcile now; the value is a token that comes back as `status.lastHandledReconcileAt`.
pub const REQUESTED_AT: &str = "reconcile.fluxcd.io/requestedAt";

/// Who suspended an object, as flux-operator's web interface writes it (reference flux 2).
pub const SUSPENDED_BY: &str = "fluxcd.controlplane.io/suspendedBy";

/// The field manager of every suspension. kustomize-controller takes over, and so undoes, what a manager whose name
/// begins with `kubectl` wrote (reference flux 0.2); a name used for nothing else keeps the entry's time the time of
/// the suspension.
pub const FIELD_MANAGER: &str = "gitops-suspend";

/// Annotations that tell of a suspension or of a request to reconcile.
pub const KEYS: [&str; 5] = [ANNOTATION, REQUESTED_AT, SUSPENDED_BY, kinds::ARTIFACT_SWITCH, kinds::OPERATOR_SWITCH];

/// Field managers that apply what Git says.
const APPLIERS: [&str; 3] = ["kustomize-controller", "helm-controller", "flux-operator"];

/// What suspends an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// `spec.suspend: true`.
    Spec,
    /// The annotation.
    Annotation,
    /// Both of them.
    Both,
    /// The kind's own `…/reconcile: disabled` switch, with or without the annotation.
    Switch,
}

impl By {
    /// The word for tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Spec => "spec",
            Self::Annotation => "annotation",
            Self::Both => "both",
            Self::Switch => "switch",
        }
    }
}

/// What suspends an object of this group and kind with this `spec.suspend` and these annotations, if anything does.
pub fn judge<'a>(
    group: &str,
    kind: &str,
    spec_suspend: bool,
    annotation: impl Fn(&str) -> Option<&'a str>,
) -> Option<By> {
    let switch = kinds::find(group, kind).and_then(|known| known.switch());
    if switch.and_then(&annotation).is_some_and(is_off) {
        return Some(By::Switch);
    }
    match (spec_suspend, annotation(ANNOTATION).is_some()) {
        (true, true) => Some(By::Both),
        (true, false) => Some(By::Spec),
        (false, true) => Some(By::Annotation),
        (false, false) => None,
    }
}

/// Whether a switch with this value is off.
fn is_off(value: &str) -> bool {
    value.eq_ignore_ascii_case("disabled")
}

/// What suspends an object, if anything does.
pub fn effective(full: &Resource) -> Option<By> {
    effective_parts(&full.object, &full.content)
}

/// As [`effective`], for metadata and content that are held apart.
pub fn effective_parts(object: &ObjectMetadata, content: &Value) -> Option<By> {
    let spec = content.pointer("/spec/suspend").and_then(Value::as_bool).unwrap_or_default();
    judge(&object.id.group, &object.id.kind, spec, |key| object.annotations.get(key))
}

/// All that an object tells of its suspension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Suspension<'a> {
    /// What suspends it.
    pub by: By,
    /// The annotation's value as it is; `None` without the annotation.
    pub value: Option<&'a str>,
    /// The message in it, if the value is one.
    pub message: Option<&'a str>,
    /// When it was suspended, to the second, by the API server's clock.
    pub since: Option<DateTime<Utc>>,
    /// The field manager that suspended it.
    pub manager: Option<&'a str>,
    /// The person, where one was recorded.
    pub user: Option<&'a str>,
    /// The controller that applies this suspension from Git, if one does.
    #[serde(rename = "declaredBy", skip_serializing_if = "Option::is_none")]
    pub declared_by: Option<&'a str>,
}

/// Reads an object's suspension; `None` when nothing suspends it.
pub fn read(full: &Resource) -> Option<Suspension<'_>> {
    let by = effective(full)?;
    let object = &full.object;
    let value = object.annotations.get(ANNOTATION);
    let writer = writer(full, by);
    Some(Suspension {
        by,
        value,
        message: value.filter(|value| is_message(value)),
        since: writer.and_then(|writer| writer.time),
        manager: writer.map(|writer| &*writer.manager),
        user: object.annotations.get(SUSPENDED_BY),
        declared_by: applier(full, by),
    })
}

/// Whether an annotation's value says anything.
fn is_message(value: &str) -> bool {
    !value.trim().is_empty() && value != NO_MESSAGE
}

/// The managedFields entry that owns what suspends an object: of several, the one written last.
fn writer(full: &Resource, by: By) -> Option<&ManagedFieldsEntry> {
    full.object.writers.iter().filter(|writer| owns(writer, full, by)).max_by_key(|writer| writer.time)
}

/// Whether an entry owns the field that suspends an object. For [`By::Both`] that is the annotation, which has the
/// message, or else `spec.suspend`.
fn owns(writer: &ManagedFieldsEntry, full: &Resource, by: By) -> bool {
    let annotation =
        |key: &str| writer.subresource.is_empty() && writer.annotations.iter().any(|owned| &**owned == key);
    match by {
        By::Spec => writer.suspend,
        By::Annotation | By::Both => annotation(ANNOTATION),
        By::Switch => {
            let kind = kinds::find(&full.object.id.group, &full.object.id.kind);
            kind.and_then(|kind| kind.switch()).is_some_and(annotation)
        }
    }
}

/// The controller that applies what suspends an object, and will apply it again: the change belongs into Git.
pub fn applier(full: &Resource, by: By) -> Option<&str> {
    let parts: &[By] = if by == By::Both { &[By::Annotation, By::Spec] } else { &[by] };
    let applied = |writer: &&ManagedFieldsEntry| writer.applies && APPLIERS.contains(&&*writer.manager);
    let mut entries = full.object.writers.iter().filter(applied);
    let found = entries.find(|writer| parts.iter().any(|part| owns(writer, full, *part)))?;
    Some(&found.manager)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{flux_object, noon, owner_of};

    #[test]
    fn presence_suspends_whatever_the_value() {
        let on = json!({"spec": {"suspend": true}});
        let off = json!({"spec": {"suspend": false}});
        let switch = "source.extensions.fluxcd.io/reconcile";
        for (name, kind, content, annotations, expected) in [
            ("nothing", "Kustomization", &off, &[][..], None),
            ("spec", "Kustomization", &on, &[], Some(By::Spec)),
            ("annotation", "Kustomization", &off, &[(ANNOTATION, "drill")], Some(By::Annotation)),
            ("annotation without a value", "Kustomization", &off, &[(ANNOTATION, "")], Some(By::Annotation)),
            ("annotation that says false", "Kustomization", &off, &[(ANNOTATION, "false")], Some(By::Annotation)),
            ("both", "HelmRelease", &on, &[(ANNOTATION, "x")], Some(By::Both)),
            ("switch", "ArtifactGenerator", &off, &[(switch, "Disabled")], Some(By::Switch)),
            ("switch that is on", "ArtifactGenerator", &off, &[(switch, "enabled")], None),
            (
                "switch and message",
                "ArtifactGenerator",
                &off,
                &[(switch, "disabled"), (ANNOTATION, "x")],
                Some(By::Switch),
            ),
            ("message without the switch", "ArtifactGenerator", &off, &[(ANNOTATION, "x")], Some(By::Annotation)),
            ("a switch of another kind", "Kustomization", &off, &[(switch, "disabled")], None),
        ] {
            assert_eq!(effective(&flux_object(kind, content.clone(), annotations)), expected, "{name}");
        }
    }

    #[test]
    fn the_switch_of_every_kind_is_kept_when_metadata_is_trimmed() {
        for switch in kinds::KINDS.iter().filter_map(|kind| kind.switch()) {
            assert!(KEYS.contains(&switch), "{switch}");
        }
    }

    #[test]
    fn a_suspension_tells_who_when_and_why() {
        let mut full = flux_object("Kustomization", json!({}), &[(ANNOTATION, "drill"), (SUSPENDED_BY, "ada")]);
        full.object.writers = vec![
            owner_of("kustomize-controller", true, -500, &["other"]),
            owner_of(FIELD_MANAGER, false, 0, &[ANNOTATION]),
        ];
        let read = crate::flux::suspension::read(&full).unwrap();
        assert_eq!((read.by, read.message, read.user), (By::Annotation, Some("drill"), Some("ada")));
        assert_eq!((read.since, read.manager, read.declared_by), (Some(noon()), Some(FIELD_MANAGER), None));
        for value in ["true", "", "  "] {
            let full = flux_object("Kustomization", json!({}), &[(ANNOTATION, value)]);
            let read = crate::flux::suspension::read(&full).unwrap();
            assert_eq!((read.value, read.message), (Some(value), None));
        }
    }

    #[test]
    fn what_git_declares_is_known_by_its_field_manager() {
        let mut full = flux_object("Kustomization", json!({"spec": {"suspend": true}}), &[(ANNOTATION, "drill")]);
        full.object.writers = vec![owner_of(FIELD_MANAGER, false, 0, &[ANNOTATION])];
        assert_eq!(applier(&full, By::Both), None);
        let declared = ManagedFieldsEntry { suspend: true, ..owner_of("kustomize-controller", true, -60, &[]) };
        full.object.writers.push(declared);
        assert_eq!(applier(&full, By::Both), Some("kustomize-controller"));
        assert_eq!(applier(&full, By::Annotation), None, "only the field is declared");
        full.object.writers[1].applies = false;
        assert_eq!(applier(&full, By::Spec), None, "a controller that updates does not apply Git");
    }
}
