//! JSON merge patch that suspends or resumes one object, computed from the object as it was read.
//!
//! Every patch has the uid and the resourceVersion that were read, so that it fails if somebody changed the object in the
//! meantime (docs/reference/flux.md 4.4).

use std::collections::BTreeMap;
use std::fmt;

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Map, Value, json};

use super::origin::ResumeOptions;
use super::{
    ANNOTATION, LINK, Mechanism, NO_MESSAGE, REQUESTED_AT, SUSPENDED_BY, Suspension, UNTIL, declaring_controller,
    effective, is_message,
};
use crate::flux::kinds::{FluxKind, Suspends};
use crate::kubernetes::object::Resource;
use crate::ownership::schemes::flux::is_switched_off;

/// Options of a suspension.
#[derive(Clone, Debug, Default)]
pub struct SuspendOptions {
    pub message: Option<String>,
    /// True to set `spec.suspend` too.
    pub spec: bool,
    /// True to replace another message.
    pub overwrite: bool,
    /// User to record in [`SUSPENDED_BY`].
    pub user: Option<String>,
    /// End of the suspension, for [`UNTIL`].
    pub until: Option<DateTime<Utc>>,
    /// Address for [`LINK`].
    pub link: Option<String>,
    /// True if the controllers of the cluster honour the annotation.
    pub annotation_honoured: bool,
}

/// Action for one object.
#[derive(Clone, Debug, PartialEq)]
pub enum PatchDecision {
    /// The object is as requested.
    Unchanged,
    Patch(SuspensionPatch),
    Refused(PatchRefusal),
}

/// Reason not to change an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchRefusal {
    /// No controller reconciles the kind.
    NothingToSuspend { kind: String },
    /// The object is suspended with this message. It was written by others: escape it for a terminal.
    OtherMessage(String),
    /// The object is suspended until this time, or without an end. It was written by others: escape it for a terminal.
    OtherEnd(Option<String>),
    /// The object is suspended with this link. It was written by others: escape it for a terminal.
    OtherLink(String),
}

impl fmt::Display for PatchRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingToSuspend { kind } => write!(f, "an object of kind {kind} has nothing to suspend"),
            Self::OtherMessage(message) => write!(f, "already suspended with another message: {message}"),
            Self::OtherEnd(Some(until)) => write!(f, "already suspended until {until}"),
            Self::OtherEnd(None) => f.write_str("already suspended without an end"),
            Self::OtherLink(link) => write!(f, "already suspended with another link: {link}"),
        }
    }
}

/// Patch of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct SuspensionPatch {
    pub body: Value,
    /// Expected increase of `metadata.generation`: 1 if `spec.suspend` changes, otherwise 0.
    pub generations: i64,
}

impl SuspensionPatch {
    /// Returns the object as the patch leaves it, without what the server would add.
    pub fn applied_to(&self, full: &Resource) -> Resource {
        let mut after = full.clone();
        let existing = full.object.annotations.iter();
        let mut annotations: BTreeMap<String, String> =
            existing.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let changes = self.body.pointer("/metadata/annotations").and_then(Value::as_object);
        for (key, value) in changes.into_iter().flatten() {
            match value.as_str() {
                Some(text) => annotations.insert(key.clone(), text.to_owned()),
                None => annotations.remove(key),
            };
        }
        after.object.annotations = annotations.into_iter().collect();
        let Some(suspend) = self.body.pointer("/spec/suspend") else { return after };
        if let Some(content) = after.content.as_object_mut()
            && let Some(spec) = content.entry("spec").or_insert_with(|| json!({})).as_object_mut()
        {
            spec.insert("suspend".to_owned(), suspend.clone());
        }
        after
    }
}

/// Computes the patch that suspends an object.
pub fn suspend(full: &Resource, options: &SuspendOptions) -> PatchDecision {
    let Some(kind) = FluxKind::of(full).filter(|kind| kind.suspends != Suspends::Nothing) else {
        return PatchDecision::Refused(PatchRefusal::NothingToSuspend { kind: full.object.id.kind.to_string() });
    };
    let existing = &full.object.annotations;
    let current = existing.get(ANNOTATION);
    if let Some(current) = current
        && is_message(current)
        && options.message.as_deref().is_some_and(|new| new != current)
        && !options.overwrite
    {
        return PatchDecision::Refused(PatchRefusal::OtherMessage(current.to_owned()));
    }
    let mut annotations = match details(full, options) {
        Ok(annotations) => annotations,
        Err(refusal) => return PatchDecision::Refused(refusal),
    };
    let value = options.message.as_deref().or(current).unwrap_or(NO_MESSAGE);
    if current != Some(value) {
        annotations.insert(ANNOTATION.to_owned(), json!(value));
    }
    if let Some(switch) = kind.switch().filter(|key| !existing.get(key).is_some_and(is_switched_off)) {
        annotations.insert(switch.to_owned(), json!("disabled"));
    }
    let set_spec = options.spec && kind.suspends == Suspends::Spec && !full.flag("/spec/suspend");
    let is_changed = set_spec || !annotations.is_empty();
    annotations.extend(user_change(full, options, is_changed).map(|user| (SUSPENDED_BY.to_owned(), user)));
    merge_patch(full, annotations, set_spec.then_some(Value::Bool(true)))
}

/// Returns the new value of [`SUSPENDED_BY`] if it changes. As in flux-operator, the first user stays recorded, unless the
/// message is replaced too. The user of an earlier suspension, which something else has ended, does not stay.
fn user_change(full: &Resource, options: &SuspendOptions, is_changed: bool) -> Option<Value> {
    let recorded = full.object.annotations.get(SUSPENDED_BY);
    let is_left_behind = recorded.is_some() && effective(full).is_none();
    let is_replaced = is_left_behind || (options.overwrite && options.user.is_some());
    let is_first = recorded.is_none() && is_changed;
    let user = options.user.as_deref();
    (user != recorded && (is_first || is_replaced)).then(|| json!(user))
}

/// Returns the changes of end and link. Those of an earlier suspension, which something else has ended, are removed.
fn details(full: &Resource, options: &SuspendOptions) -> Result<Map<String, Value>, PatchRefusal> {
    let is_suspended = effective(full).is_some();
    let until = options.until.map(|until| until.to_rfc3339_opts(SecondsFormat::Secs, true));
    let mut annotations = Map::new();
    for (key, wanted) in [(UNTIL, until.as_deref()), (LINK, options.link.as_deref())] {
        let existing = full.object.annotations.get(key);
        match wanted {
            Some(wanted) if existing == Some(wanted) => continue,
            Some(wanted) => {
                let is_other = is_suspended && !options.overwrite;
                match (key, existing) {
                    (UNTIL, existing) if is_other => return Err(PatchRefusal::OtherEnd(existing.map(str::to_owned))),
                    (LINK, Some(link)) if is_other => return Err(PatchRefusal::OtherLink(link.to_owned())),
                    _ => annotations.insert(key.to_owned(), json!(wanted)),
                }
            }
            None if existing.is_some() && !is_suspended => annotations.insert(key.to_owned(), Value::Null),
            None => continue,
        };
    }
    Ok(annotations)
}

/// Computes the patch that resumes an object and requests a reconciliation with this token.
///
/// It undoes what `suspend` set. What somebody else set is left as it is where the options do not include it.
pub fn resume(full: &Resource, options: &ResumeOptions, token: &str) -> PatchDecision {
    if !options.includes(full) {
        return PatchDecision::Unchanged;
    }
    let mut annotations = Map::new();
    let existing = &full.object.annotations;
    for key in [ANNOTATION, SUSPENDED_BY, UNTIL, LINK] {
        if existing.get(key).is_some() {
            annotations.insert(key.to_owned(), Value::Null);
        }
    }
    let switch = FluxKind::of(full).and_then(|kind| kind.switch());
    if let Some(switch) = switch.filter(|key| existing.get(key).is_some_and(is_switched_off))
        && options.removes_switch(full)
    {
        annotations.insert(switch.to_owned(), Value::Null);
    }
    let clear_spec = options.clears_spec(full);
    if !annotations.is_empty() || clear_spec {
        annotations.insert(REQUESTED_AT.to_owned(), json!(token));
    }
    merge_patch(full, annotations, clear_spec.then_some(Value::Null))
}

fn merge_patch(full: &Resource, annotations: Map<String, Value>, spec_suspend: Option<Value>) -> PatchDecision {
    if annotations.is_empty() && spec_suspend.is_none() {
        return PatchDecision::Unchanged;
    }
    let object = &full.object;
    let mut body = json!({"metadata": {"uid": object.uid, "resourceVersion": object.resource_version}});
    if !annotations.is_empty() {
        body["metadata"]["annotations"] = Value::Object(annotations);
    }
    let generations = i64::from(spec_suspend.is_some());
    if let Some(value) = spec_suspend {
        body["spec"] = json!({"suspend": value});
    }
    PatchDecision::Patch(SuspensionPatch { body, generations })
}

/// Reason why an object is still suspended, or will be again, after it was resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemainingCause {
    Suspended {
        by: Mechanism,
        /// Field manager that set it.
        manager: Option<String>,
    },
    /// This controller applies the suspension from Git.
    DeclaredInGit(String),
}

impl fmt::Display for RemainingCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Suspended { by, manager } => {
                f.write_str(match by {
                    Mechanism::Spec => "spec.suspend is true",
                    Mechanism::Both => "spec.suspend and the annotation are set",
                    Mechanism::Annotation => "the annotation is set",
                    Mechanism::Switch => "its own reconcile switch is off",
                })?;
                manager.iter().try_for_each(|manager| write!(f, ", set by {manager}"))
            }
            Self::DeclaredInGit(controller) => {
                write!(f, "{controller} applies the suspension from Git and will do so again; change it there")
            }
        }
    }
}

/// Returns the reasons why an object is still suspended, or will be again, after it was resumed.
pub fn remaining_causes(before: &Resource, after: &Resource) -> Vec<RemainingCause> {
    let controller = effective(before).and_then(|by| declaring_controller(before, by));
    let declared = controller.map(|controller| RemainingCause::DeclaredInGit(controller.to_owned()));
    let suspended = Suspension::of(after)
        .map(|now| RemainingCause::Suspended { by: now.by, manager: now.manager.map(str::to_owned) });
    suspended.into_iter().chain(declared).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flux::suspension::FIELD_MANAGER;
    use crate::kubernetes::object::ManagedFieldsEntry;
    use crate::testing::{flux_object, owner_of};

    const SWITCH: &str = "fluxcd.controlplane.io/reconcile";

    fn drill() -> SuspendOptions {
        SuspendOptions { message: Some("drill".to_owned()), ..SuspendOptions::default() }
    }

    fn named() -> ResumeOptions {
        ResumeOptions { named: true, ..ResumeOptions::default() }
    }

    fn patched(step: PatchDecision) -> (Value, i64) {
        match step {
            PatchDecision::Patch(change) => (change.body, change.generations),
            other => panic!("no patch: {other:?}"),
        }
    }

    #[test]
    fn a_suspension_is_one_patch_with_uid_and_resource_version() {
        let full = flux_object("Kustomization", json!({"spec": {"suspend": false}}), &[]);
        let (body, generation) = patched(suspend(&full, &drill()));
        let expected = json!({"metadata": {"uid": "u", "resourceVersion": "7", "annotations": {ANNOTATION: "drill"}}});
        assert_eq!((body, generation), (expected, 0));
        let (body, generation) = patched(suspend(&full, &SuspendOptions { spec: true, ..drill() }));
        assert_eq!((&body["spec"], generation), (&json!({"suspend": true}), 1));
        assert_eq!(body["metadata"]["annotations"], json!({ANNOTATION: "drill"}));
        let (body, _) = patched(suspend(&full, &SuspendOptions::default()));
        assert_eq!(body["metadata"]["annotations"], json!({ANNOTATION: "true"}));
    }

    #[test]
    fn a_suspended_object_changes_only_where_it_differs() {
        let content = json!({"spec": {"suspend": true}});
        let with = |value: &str| flux_object("Kustomization", content.clone(), &[(ANNOTATION, value)]);
        let spec = SuspendOptions { spec: true, ..drill() };
        let overwrite = SuspendOptions { overwrite: true, ..drill() };
        for (name, full, how, expected) in [
            ("the same message", with("drill"), drill(), None),
            ("no new message keeps the old one", with("other"), SuspendOptions::default(), None),
            ("both are set already", with("drill"), spec, None),
            ("a generic value gives way", with("true"), drill(), Some("drill")),
            ("an empty value gives way", with(""), drill(), Some("drill")),
            ("another message is replaced with overwrite", with("other"), overwrite, Some("drill")),
        ] {
            let step = suspend(&full, &how);
            match expected {
                None => assert_eq!(step, PatchDecision::Unchanged, "{name}"),
                Some(message) => {
                    assert_eq!(patched(step).0["metadata"]["annotations"], json!({ANNOTATION: message}), "{name}");
                }
            }
        }
        let refused = suspend(&with("other"), &drill());
        assert!(matches!(refused, PatchDecision::Refused(refusal) if refusal.to_string().ends_with("message: other")));
    }

    #[test]
    fn end_and_link_are_stored_and_changed_only_with_overwrite() {
        let noon: DateTime<Utc> = "2026-01-02T12:00:00Z".parse().unwrap();
        let wanted = SuspendOptions { until: Some(noon), link: Some("https://inc/1".to_owned()), ..drill() };
        let stored = json!({ANNOTATION: "drill", UNTIL: "2026-01-02T12:00:00Z", LINK: "https://inc/1"});
        let free = flux_object("Kustomization", json!({}), &[]);
        assert_eq!(patched(suspend(&free, &wanted)).0["metadata"]["annotations"], stored);
        let same = [(ANNOTATION, "drill"), (UNTIL, "2026-01-02T12:00:00Z"), (LINK, "https://inc/1")];
        let full = flux_object("Kustomization", json!({}), &same);
        assert_eq!(suspend(&full, &wanted), PatchDecision::Unchanged);
        assert_eq!(suspend(&full, &drill()), PatchDecision::Unchanged, "what is not given stays");
        assert_eq!(patched(resume(&full, &named(), "now")).0["metadata"]["annotations"][UNTIL], Value::Null);
        for (annotations, expected) in [
            (vec![(ANNOTATION, "drill")], "already suspended without an end"),
            (vec![(ANNOTATION, "drill"), (UNTIL, "later")], "already suspended until later"),
            (vec![(ANNOTATION, "drill"), same[1], (LINK, "x")], "already suspended with another link: x"),
        ] {
            let full = flux_object("Kustomization", json!({}), &annotations);
            let PatchDecision::Refused(refusal) = suspend(&full, &wanted) else { panic!("{annotations:?}") };
            assert_eq!(refusal.to_string(), expected);
            let overwrite = SuspendOptions { overwrite: true, ..wanted.clone() };
            assert!(matches!(suspend(&full, &overwrite), PatchDecision::Patch(_)), "{annotations:?}");
        }
    }

    /// Another program resumed the object, which leaves our annotations behind: the new suspension has no end.
    #[test]
    fn the_end_of_an_earlier_suspension_is_removed() {
        let full = flux_object("Kustomization", json!({}), &[(UNTIL, "2020-01-01T00:00:00Z"), (LINK, "https://old")]);
        let annotations = json!({ANNOTATION: "drill", UNTIL: null, LINK: null});
        assert_eq!(patched(suspend(&full, &drill())).0["metadata"]["annotations"], annotations);
    }

    #[test]
    fn kinds_with_a_switch_use_it_and_keep_the_message_beside_it() {
        let full = flux_object("ResourceSet", json!({}), &[]);
        let (body, generation) = patched(suspend(&full, &SuspendOptions { spec: true, ..drill() }));
        assert_eq!(body["metadata"]["annotations"], json!({ANNOTATION: "drill", SWITCH: "disabled"}));
        assert_eq!((body.get("spec"), generation), (None, 0), "there is no spec.suspend to set");
        let full = flux_object("ResourceSet", json!({}), &[(ANNOTATION, "drill"), (SWITCH, "disabled")]);
        let (body, _) = patched(resume(&full, &named(), "now"));
        assert_eq!(body["metadata"]["annotations"], json!({ANNOTATION: null, SWITCH: null, REQUESTED_AT: "now"}));
    }

    #[test]
    fn an_external_artifact_cannot_be_suspended() {
        let full = flux_object("ExternalArtifact", json!({}), &[]);
        assert!(matches!(suspend(&full, &drill()), PatchDecision::Refused(_)));
    }

    #[test]
    fn the_first_user_stays_recorded() {
        let ada = SuspendOptions { user: Some("ada".to_owned()), ..drill() };
        let (body, _) = patched(suspend(&flux_object("Alert", json!({}), &[]), &ada));
        assert_eq!(body["metadata"]["annotations"][SUSPENDED_BY], "ada");
        let full = flux_object("Alert", json!({}), &[(ANNOTATION, "drill"), (SUSPENDED_BY, "bob")]);
        assert_eq!(suspend(&full, &ada), PatchDecision::Unchanged);
        let (body, _) = patched(suspend(&full, &SuspendOptions { overwrite: true, ..ada }));
        assert_eq!(body["metadata"]["annotations"], json!({SUSPENDED_BY: "ada"}));
        let unnamed = flux_object("Alert", json!({}), &[(ANNOTATION, "drill")]);
        assert_eq!(
            suspend(&unnamed, &SuspendOptions { user: Some("ada".to_owned()), ..drill() }),
            PatchDecision::Unchanged
        );
    }

    /// Another program resumed the object, which leaves the user behind: somebody else suspends it now.
    #[test]
    fn the_user_of_an_earlier_suspension_is_replaced() {
        let left = flux_object("Alert", json!({}), &[(SUSPENDED_BY, "bob")]);
        for user in [Some("ada"), None] {
            let options = SuspendOptions { user: user.map(str::to_owned), ..drill() };
            let (body, _) = patched(suspend(&left, &options));
            assert_eq!(body["metadata"]["annotations"], json!({ANNOTATION: "drill", SUSPENDED_BY: user}));
        }
    }

    #[test]
    fn a_patch_is_applied_to_a_copy() {
        let free = flux_object("Kustomization", json!({}), &[("kept", "x")]);
        let PatchDecision::Patch(patch) = suspend(&free, &SuspendOptions { spec: true, ..drill() }) else { panic!() };
        let after = patch.applied_to(&free);
        assert_eq!((effective(&after), after.object.annotations.get("kept")), (Some(Mechanism::Both), Some("x")));
        assert_eq!(effective(&free), None);
    }

    #[test]
    fn resume_removes_the_suspension_and_requests_a_reconciliation_in_one_patch() {
        let full = flux_object("Kustomization", json!({}), &[(ANNOTATION, "drill"), (SUSPENDED_BY, "ada")]);
        let (body, generation) = patched(resume(&full, &named(), "now"));
        let annotations = json!({ANNOTATION: null, SUSPENDED_BY: null, REQUESTED_AT: "now"});
        let expected = json!({"metadata": {"uid": "u", "resourceVersion": "7", "annotations": annotations}});
        assert_eq!((body, generation), (expected, 0));
        let both = flux_object("Kustomization", json!({"spec": {"suspend": true}}), &[(ANNOTATION, "drill")]);
        let spec = ResumeOptions { spec: true, ..named() };
        let (body, generation) = patched(resume(&both, &spec, "now"));
        assert_eq!((&body["spec"], generation), (&json!({"suspend": null}), 1));
        assert_eq!(patched(resume(&both, &named(), "now")).1, 0, "somebody else set spec.suspend");
        let free = flux_object("Kustomization", json!({}), &[]);
        assert_eq!(resume(&free, &spec, "now"), PatchDecision::Unchanged);
    }

    #[test]
    fn resume_undoes_what_suspend_set_and_leaves_the_rest() {
        let mut ours = flux_object("Kustomization", json!({"spec": {"suspend": true}}), &[(ANNOTATION, "drill")]);
        let annotation = owner_of(FIELD_MANAGER, false, 0, &[ANNOTATION]);
        ours.object.managed_fields = vec![ManagedFieldsEntry { suspend: true, ..annotation.clone() }];
        let mut mixed = ours.clone();
        let flux = ManagedFieldsEntry { suspend: true, ..owner_of("flux", false, 0, &[]) };
        mixed.object.managed_fields = vec![annotation, flux];
        let selected = ResumeOptions::default();
        let any = ResumeOptions { any: true, spec: true, ..ResumeOptions::default() };
        for (name, full, options, cleared) in [
            ("our field", &ours, &selected, true),
            ("the field of others", &mixed, &selected, false),
            ("with --spec, but selected", &mixed, &ResumeOptions { spec: true, ..selected.clone() }, false),
            ("named", &mixed, &named(), false),
            ("named, with --spec", &mixed, &ResumeOptions { spec: true, ..named() }, true),
            ("any, with --spec", &mixed, &any, true),
        ] {
            let PatchDecision::Patch(patch) = resume(full, options, "now") else { panic!("{name}: no patch") };
            assert_eq!(patch.body["metadata"]["annotations"][ANNOTATION], Value::Null, "{name}");
            assert_eq!(patch.generations, i64::from(cleared), "{name}");
            assert_eq!(effective(&patch.applied_to(full)).is_none(), cleared, "{name}");
        }
        let mut switch = flux_object("ResourceSet", json!({}), &[(ANNOTATION, "drill"), (SWITCH, "disabled")]);
        switch.object.managed_fields = vec![owner_of(FIELD_MANAGER, false, 0, &[ANNOTATION])];
        let (body, _) = patched(resume(&switch, &selected, "now"));
        assert_eq!(body["metadata"]["annotations"], json!({ANNOTATION: null, REQUESTED_AT: "now"}));
    }

    #[test]
    fn remaining_causes_are_named() {
        let both = flux_object("Kustomization", json!({"spec": {"suspend": true}}), &[(ANNOTATION, "drill")]);
        let spec = flux_object("Kustomization", json!({"spec": {"suspend": true}}), &[]);
        let free = flux_object("Kustomization", json!({}), &[]);
        assert_eq!(remaining_causes(&both, &free), []);
        let cause = RemainingCause::Suspended { by: Mechanism::Spec, manager: None };
        assert_eq!(remaining_causes(&both, &spec), [cause]);
        let mut set = spec.clone();
        set.object.managed_fields = vec![ManagedFieldsEntry { suspend: true, ..owner_of("flux", false, 0, &[]) }];
        assert_eq!(remaining_causes(&both, &set)[0].to_string(), "spec.suspend is true, set by flux");
        let mut declared = both.clone();
        declared.object.managed_fields = vec![owner_of("kustomize-controller", true, 0, &[ANNOTATION])];
        let causes = remaining_causes(&declared, &free);
        assert_eq!(causes, [RemainingCause::DeclaredInGit("kustomize-controller".to_owned())]);
        assert!(causes[0].to_string().starts_with("kustomize-controller applies"), "{causes:?}");
    }
}
