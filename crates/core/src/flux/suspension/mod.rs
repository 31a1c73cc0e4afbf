//! Suspension of an object: `spec.suspend`, the annotation of RFC-0006, or the switch annotation of its kind.
//!
//! The annotation suspends whatever its value; the value is a message for people. No released Flux controller honours it,
//! so [`evidence`] finds reconciliations after the suspension, and [`patch`] can set `spec.suspend` too.
//! Source: fluxcd/flux2 pull request 4271; docs/reference/flux.md 3 and 4.
//!
//! A controller that honours the annotation can use [`effective_of`], and `kubectl_gitops::controller` with kube.

pub mod advice;
pub mod evidence;
pub mod message;
pub mod origin;
pub mod patch;
pub mod resume_order;
pub mod view;
pub mod wait;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::kinds;
use crate::kubernetes::object::{ManagedFieldsEntry, Resource, parse_time};
use crate::ownership::schemes::flux;

/// Annotation of RFC-0006 that suspends an object, whatever its value.
pub const ANNOTATION: &str = flux::SUSPENDED;

/// Value of the annotation without a message.
pub const NO_MESSAGE: &str = "true";

/// Annotation that requests a reconciliation. The controller copies its value to `status.lastHandledReconcileAt`.
pub const REQUESTED_AT: &str = "reconcile.fluxcd.io/requestedAt";

/// Annotation with the user who suspended, as the web interface of flux-operator writes it (docs/reference/flux.md 3.4).
pub const SUSPENDED_BY: &str = "fluxcd.controlplane.io/suspendedBy";

/// Annotation with the time at which a suspension ends, in RFC 3339. No controller acts on it: `resume --expired` does.
pub const UNTIL: &str = "kubectl-gitops/suspended-until";

/// Annotation with the address of a page about the suspension, such as an incident.
pub const LINK: &str = "kubectl-gitops/suspended-link";

/// Field manager of every suspension. kustomize-controller takes over, and so reverts, fields of managers whose name
/// begins with `kubectl` (docs/reference/flux.md 4.3). Nothing else uses this name, so its entry in managedFields has
/// the time of the suspension.
pub const FIELD_MANAGER: &str = "gitops-suspend";

/// Annotations that suspend, say more about a suspension, or request a reconciliation.
pub const KEYS: [&str; 7] =
    [ANNOTATION, REQUESTED_AT, SUSPENDED_BY, UNTIL, LINK, kinds::ARTIFACT_SWITCH, kinds::OPERATOR_SWITCH];

/// Field managers of the controllers that apply manifests from Git.
const GITOPS_MANAGERS: [&str; 3] = ["kustomize-controller", "helm-controller", "flux-operator"];

/// Field or annotation that suspends an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    Spec,
    Annotation,
    /// `spec.suspend: true` and [`ANNOTATION`].
    Both,
    /// The annotation `…/reconcile: disabled` of the kind, with or without [`ANNOTATION`].
    Switch,
}

impl Mechanism {
    /// Returns the word for tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Spec => "spec",
            Self::Annotation => "annotation",
            Self::Both => "both",
            Self::Switch => "switch",
        }
    }
}

/// Returns the mechanism that suspends an object of this group and kind with this `spec.suspend` and these annotations.
pub fn effective_of<'a>(
    group: &str,
    kind: &str,
    spec_suspend: bool,
    annotation: impl Fn(&str) -> Option<&'a str>,
) -> Option<Mechanism> {
    let switch = kinds::find(group, kind).and_then(|known| known.switch());
    if switch.and_then(&annotation).is_some_and(flux::is_switched_off) {
        return Some(Mechanism::Switch);
    }
    match (spec_suspend, annotation(ANNOTATION).is_some()) {
        (true, true) => Some(Mechanism::Both),
        (true, false) => Some(Mechanism::Spec),
        (false, true) => Some(Mechanism::Annotation),
        (false, false) => None,
    }
}

/// Returns the mechanism that suspends an object.
pub fn effective(full: &Resource) -> Option<Mechanism> {
    let id = &full.object.id;
    effective_of(&id.group, &id.kind, full.flag("/spec/suspend"), |key| full.object.annotations.get(key))
}

/// Suspension of an object, with its origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Suspension<'a> {
    pub by: Mechanism,
    /// Value of the annotation; `None` without the annotation.
    pub value: Option<&'a str>,
    /// Value of the annotation, if it is a message.
    pub message: Option<&'a str>,
    /// Time of the suspension by the clock of the API server, to the second.
    pub since: Option<DateTime<Utc>>,
    /// Field manager that suspended the object.
    pub manager: Option<&'a str>,
    /// User who suspended the object, if recorded.
    pub user: Option<&'a str>,
    /// Time at which the suspension ends; `None` without an end, or with a text that is no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<DateTime<Utc>>,
    /// Address of a page about the suspension.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<&'a str>,
    /// Controller that applies this suspension from Git.
    #[serde(rename = "declaredBy", skip_serializing_if = "Option::is_none")]
    pub declared_by: Option<&'a str>,
}

impl<'a> Suspension<'a> {
    /// Returns the suspension of an object, or `None` if it is not suspended.
    pub fn of(full: &'a Resource) -> Option<Self> {
        let by = effective(full)?;
        let annotations = &full.object.annotations;
        let value = annotations.get(ANNOTATION);
        let entry = suspending_entry(full, by);
        Some(Self {
            by,
            value,
            message: value.filter(|value| is_message(value)),
            since: entry.and_then(|entry| entry.time),
            manager: entry.map(|entry| &*entry.manager),
            user: annotations.get(SUSPENDED_BY),
            until: until(full),
            link: annotations.get(LINK),
            declared_by: declaring_controller(full, by),
        })
    }
}

/// Returns the time in the annotation [`UNTIL`].
fn until(full: &Resource) -> Option<DateTime<Utc>> {
    full.object.annotations.get(UNTIL).and_then(parse_time)
}

/// Returns true if an object is suspended, and its suspension ended at or before `now`.
pub fn is_expired(full: &Resource, now: DateTime<Utc>) -> bool {
    effective(full).is_some() && until(full).is_some_and(|until| until <= now)
}

fn is_message(value: &str) -> bool {
    !value.trim().is_empty() && value != NO_MESSAGE
}

/// Returns the latest managedFields entry that owns the suspension.
fn suspending_entry(full: &Resource, by: Mechanism) -> Option<&ManagedFieldsEntry> {
    full.object.managed_fields.iter().filter(|entry| owns_suspension(entry, full, by)).max_by_key(|entry| entry.time)
}

/// Returns true if an entry owns the field that suspends. For [`Mechanism::Both`] that is the annotation with the message.
fn owns_suspension(entry: &ManagedFieldsEntry, full: &Resource, by: Mechanism) -> bool {
    match by {
        Mechanism::Spec => entry.suspend,
        Mechanism::Annotation | Mechanism::Both => owns_annotation(entry, ANNOTATION),
        Mechanism::Switch => {
            let kind = kinds::find(&full.object.id.group, &full.object.id.kind);
            kind.and_then(|kind| kind.switch()).is_some_and(|switch| owns_annotation(entry, switch))
        }
    }
}

fn owns_annotation(entry: &ManagedFieldsEntry, key: &str) -> bool {
    entry.subresource.is_empty() && entry.annotations.iter().any(|owned| &**owned == key)
}

/// Returns the controller that applies the suspension from Git, and applies it again unless it is changed in Git.
pub(crate) fn declaring_controller(full: &Resource, by: Mechanism) -> Option<&str> {
    let parts: &[Mechanism] = if by == Mechanism::Both { &[Mechanism::Annotation, Mechanism::Spec] } else { &[by] };
    let mut entries = full.object.managed_fields.iter();
    let entry = entries.find(|entry| {
        entry.applies
            && GITOPS_MANAGERS.contains(&&*entry.manager)
            && parts.iter().any(|part| owns_suspension(entry, full, *part))
    })?;
    Some(&entry.manager)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{flux_object, noon, owner_of};

    #[test]
    fn the_annotation_suspends_whatever_its_value() {
        let on = json!({"spec": {"suspend": true}});
        let off = json!({"spec": {"suspend": false}});
        let switch = "source.extensions.fluxcd.io/reconcile";
        for (name, kind, content, annotations, expected) in [
            ("nothing", "Kustomization", &off, &[][..], None),
            ("spec", "Kustomization", &on, &[], Some(Mechanism::Spec)),
            ("annotation", "Kustomization", &off, &[(ANNOTATION, "drill")], Some(Mechanism::Annotation)),
            ("annotation without a value", "Kustomization", &off, &[(ANNOTATION, "")], Some(Mechanism::Annotation)),
            (
                "annotation that says false",
                "Kustomization",
                &off,
                &[(ANNOTATION, "false")],
                Some(Mechanism::Annotation),
            ),
            ("both", "HelmRelease", &on, &[(ANNOTATION, "x")], Some(Mechanism::Both)),
            ("switch", "ArtifactGenerator", &off, &[(switch, "Disabled")], Some(Mechanism::Switch)),
            ("switch that is on", "ArtifactGenerator", &off, &[(switch, "enabled")], None),
            (
                "switch and message",
                "ArtifactGenerator",
                &off,
                &[(switch, "disabled"), (ANNOTATION, "x")],
                Some(Mechanism::Switch),
            ),
            (
                "message without the switch",
                "ArtifactGenerator",
                &off,
                &[(ANNOTATION, "x")],
                Some(Mechanism::Annotation),
            ),
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
    fn a_suspension_has_user_time_and_message() {
        let mut full = flux_object("Kustomization", json!({}), &[(ANNOTATION, "drill"), (SUSPENDED_BY, "ada")]);
        full.object.managed_fields = vec![
            owner_of("kustomize-controller", true, -500, &["other"]),
            owner_of(FIELD_MANAGER, false, 0, &[ANNOTATION]),
        ];
        let suspension = Suspension::of(&full).unwrap();
        assert_eq!(
            (suspension.by, suspension.message, suspension.user),
            (Mechanism::Annotation, Some("drill"), Some("ada"))
        );
        assert_eq!(
            (suspension.since, suspension.manager, suspension.declared_by),
            (Some(noon()), Some(FIELD_MANAGER), None)
        );
        for value in ["true", "", "  "] {
            let full = flux_object("Kustomization", json!({}), &[(ANNOTATION, value)]);
            let suspension = Suspension::of(&full).unwrap();
            assert_eq!((suspension.value, suspension.message), (Some(value), None));
        }
    }

    #[test]
    fn a_suspension_expires_at_the_time_of_its_annotation() {
        let spec = json!({"spec": {"suspend": true}});
        for (name, content, annotations, expired) in [
            ("no end", &spec, &[][..], false),
            ("ends now", &spec, &[(UNTIL, "2026-01-02T12:00:00Z")], true),
            ("ends later", &spec, &[(UNTIL, "2026-01-02T12:00:01Z")], false),
            ("another zone", &spec, &[(UNTIL, "2026-01-02T12:30:00+01:00")], true),
            ("no time", &spec, &[(UNTIL, "tomorrow")], false),
            ("not suspended any more", &json!({}), &[(UNTIL, "2026-01-02T12:00:00Z")], false),
        ] {
            let full = flux_object("Kustomization", content.clone(), annotations);
            assert_eq!(is_expired(&full, "2026-01-02T12:00:00Z".parse().unwrap()), expired, "{name}");
        }
    }

    #[test]
    fn a_suspension_from_git_is_known_by_its_field_manager() {
        let mut full = flux_object("Kustomization", json!({"spec": {"suspend": true}}), &[(ANNOTATION, "drill")]);
        full.object.managed_fields = vec![owner_of(FIELD_MANAGER, false, 0, &[ANNOTATION])];
        assert_eq!(declaring_controller(&full, Mechanism::Both), None);
        let declared = ManagedFieldsEntry { suspend: true, ..owner_of("kustomize-controller", true, -60, &[]) };
        full.object.managed_fields.push(declared);
        assert_eq!(declaring_controller(&full, Mechanism::Both), Some("kustomize-controller"));
        assert_eq!(declaring_controller(&full, Mechanism::Annotation), None, "only the field is declared");
        full.object.managed_fields[1].applies = false;
        assert_eq!(declaring_controller(&full, Mechanism::Spec), None, "a controller that updates does not apply Git");
    }
}
