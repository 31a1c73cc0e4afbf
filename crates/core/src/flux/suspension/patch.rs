//! The JSON merge patch that suspends or resumes one object, decided from the object as it was just read.
//!
//! Every patch carries the uid and the resourceVersion that were read, so that it changes nothing anybody changed in the
//! meantime (design 3.2, reference flux 8).

use serde_json::{Map, Value, json};

use super::{ANNOTATION, By, NO_MESSAGE, REQUESTED_AT, SUSPENDED_BY, applier, effective, is_message};
use crate::flux::kinds::{FluxKind, Suspends};
use crate::kubernetes::object::Resource;
use crate::ownership::schemes::flux::is_switched_off;

/// How to suspend.
#[derive(Clone, Debug, Default)]
pub struct Suspend {
    /// Why, if a reason was given.
    pub message: Option<String>,
    /// Whether to set `spec.suspend` too.
    pub spec: bool,
    /// Whether another message may be replaced.
    pub overwrite: bool,
    /// Who suspends, where that is to be recorded.
    pub user: Option<String>,
}

/// What is to be done with one object.
#[derive(Clone, Debug, PartialEq)]
pub enum PatchStep {
    /// Nothing: the object is as it should be.
    Unchanged,
    /// Send this patch.
    Patch(MetadataChange),
    /// The object must not be changed.
    Refused {
        /// Why; may hold text written by others.
        reason: String,
        /// What to do instead.
        hint: String,
    },
}

/// A patch and what it must lead to.
#[derive(Clone, Debug, PartialEq)]
pub struct MetadataChange {
    /// The JSON merge patch.
    pub body: Value,
    /// By how much `metadata.generation` moves: 1 when `spec.suspend` changes, otherwise 0.
    pub generation: i64,
}

/// The step that suspends an object.
pub fn suspend(full: &Resource, how: &Suspend) -> PatchStep {
    let Some(kind) = FluxKind::of(full).filter(|kind| kind.suspends != Suspends::Nothing) else {
        let reason = format!("an object of kind {} has nothing to suspend", full.object.id.kind);
        return PatchStep::Refused { reason, hint: "suspend what produces it".to_owned() };
    };
    let current = full.object.annotations.get(ANNOTATION);
    let other =
        current.filter(|current| is_message(current) && how.message.as_deref().is_some_and(|new| new != *current));
    if let Some(other) = other.filter(|_| !how.overwrite) {
        let reason = format!("already suspended with another message: {other}");
        return PatchStep::Refused { reason, hint: "replace it with --overwrite".to_owned() };
    }
    let mut annotations = Map::new();
    let value = how.message.as_deref().or(current).unwrap_or(NO_MESSAGE);
    if current != Some(value) {
        annotations.insert(ANNOTATION.to_owned(), json!(value));
    }
    if let Some(switch) = kind.switch().filter(|key| !full.object.annotations.get(key).is_some_and(is_switched_off)) {
        annotations.insert(switch.to_owned(), json!("disabled"));
    }
    // The first who suspended stays recorded, as in flux-operator, unless the message is replaced too.
    let recorded = full.object.annotations.get(SUSPENDED_BY);
    if let Some(user) = how.user.as_deref().filter(|user| recorded.is_none() || how.overwrite && recorded != Some(user))
    {
        annotations.insert(SUSPENDED_BY.to_owned(), json!(user));
    }
    let set_spec = how.spec && kind.suspends == Suspends::Spec && !full.flag("/spec/suspend");
    step(full, annotations, set_spec.then_some(Value::Bool(true)))
}

/// The step that resumes an object; `token` is the time of the request, and tells the answer to it apart.
pub fn resume(full: &Resource, spec: bool, token: &str) -> PatchStep {
    let mut annotations = Map::new();
    let switch = FluxKind::of(full).and_then(|kind| kind.switch());
    let switched_off = switch.filter(|key| full.object.annotations.get(key).is_some_and(is_switched_off));
    let held = [ANNOTATION, SUSPENDED_BY].into_iter().filter(|key| full.object.annotations.get(key).is_some());
    for key in held.chain(switched_off) {
        annotations.insert(key.to_owned(), Value::Null);
    }
    let clear_spec = spec && full.flag("/spec/suspend");
    if !annotations.is_empty() || clear_spec {
        annotations.insert(REQUESTED_AT.to_owned(), json!(token));
    }
    step(full, annotations, clear_spec.then_some(Value::Null))
}

fn step(full: &Resource, annotations: Map<String, Value>, spec_suspend: Option<Value>) -> PatchStep {
    if annotations.is_empty() && spec_suspend.is_none() {
        return PatchStep::Unchanged;
    }
    let object = &full.object;
    let mut body = json!({"metadata": {"uid": object.uid, "resourceVersion": object.resource_version}});
    if !annotations.is_empty() {
        body["metadata"]["annotations"] = Value::Object(annotations);
    }
    let generation = i64::from(spec_suspend.is_some());
    if let Some(value) = spec_suspend {
        body["spec"] = json!({"suspend": value});
    }
    PatchStep::Patch(MetadataChange { body, generation })
}

/// What still suspends an object, or will again, after it was resumed; one clause for each cause, with what to do.
pub fn remaining(before: &Resource, after: &Resource) -> Vec<String> {
    let mut causes = vec![];
    match effective(after) {
        Some(By::Spec) => causes.push("spec.suspend is true; clear it with --spec".to_owned()),
        Some(By::Both) => causes.push("spec.suspend and the annotation are set".to_owned()),
        Some(By::Annotation) => causes.push("the annotation is set".to_owned()),
        Some(By::Switch) => causes.push("its own reconcile switch is off".to_owned()),
        None => {}
    }
    if let Some(applier) = effective(before).and_then(|by| applier(before, by)) {
        causes.push(format!("{applier} applies the suspension from Git and will do so again; change it there"));
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{flux_object, owner_of};

    const SWITCH: &str = "fluxcd.controlplane.io/reconcile";

    fn drill() -> Suspend {
        Suspend { message: Some("drill".to_owned()), ..Suspend::default() }
    }

    fn patched(step: PatchStep) -> (Value, i64) {
        match step {
            PatchStep::Patch(change) => (change.body, change.generation),
            other => panic!("no patch: {other:?}"),
        }
    }

    #[test]
    fn a_suspension_is_one_pinned_patch() {
        let full = flux_object("Kustomization", json!({"spec": {"suspend": false}}), &[]);
        let (body, generation) = patched(suspend(&full, &drill()));
        let expected = json!({"metadata": {"uid": "u", "resourceVersion": "7", "annotations": {ANNOTATION: "drill"}}});
        assert_eq!((body, generation), (expected, 0));
        let (body, generation) = patched(suspend(&full, &Suspend { spec: true, ..drill() }));
        assert_eq!((&body["spec"], generation), (&json!({"suspend": true}), 1));
        assert_eq!(body["metadata"]["annotations"], json!({ANNOTATION: "drill"}));
        let (body, _) = patched(suspend(&full, &Suspend::default()));
        assert_eq!(body["metadata"]["annotations"], json!({ANNOTATION: "true"}));
    }

    #[test]
    fn a_suspended_object_is_only_changed_where_it_differs() {
        let content = json!({"spec": {"suspend": true}});
        let with = |value: &str| flux_object("Kustomization", content.clone(), &[(ANNOTATION, value)]);
        let spec = Suspend { spec: true, ..drill() };
        let overwrite = Suspend { overwrite: true, ..drill() };
        for (name, full, how, expected) in [
            ("the same message", with("drill"), drill(), None),
            ("no new message keeps the old one", with("other"), Suspend::default(), None),
            ("both are set already", with("drill"), spec, None),
            ("a generic value gives way", with("true"), drill(), Some("drill")),
            ("an empty value gives way", with(""), drill(), Some("drill")),
            ("another message is replaced when told to", with("other"), overwrite, Some("drill")),
        ] {
            let step = suspend(&full, &how);
            match expected {
                None => assert_eq!(step, PatchStep::Unchanged, "{name}"),
                Some(message) => {
                    assert_eq!(patched(step).0["metadata"]["annotations"], json!({ANNOTATION: message}), "{name}");
                }
            }
        }
        let refused = suspend(&with("other"), &drill());
        assert!(matches!(refused, PatchStep::Refused { reason, .. } if reason.ends_with("message: other")));
    }

    #[test]
    fn kinds_with_a_switch_use_it_and_keep_the_message_beside_it() {
        let full = flux_object("ResourceSet", json!({}), &[]);
        let (body, generation) = patched(suspend(&full, &Suspend { spec: true, ..drill() }));
        assert_eq!(body["metadata"]["annotations"], json!({ANNOTATION: "drill", SWITCH: "disabled"}));
        assert_eq!((body.get("spec"), generation), (None, 0), "there is no spec.suspend to set");
        let full = flux_object("ResourceSet", json!({}), &[(ANNOTATION, "drill"), (SWITCH, "disabled")]);
        let (body, _) = patched(resume(&full, false, "now"));
        assert_eq!(body["metadata"]["annotations"], json!({ANNOTATION: null, SWITCH: null, REQUESTED_AT: "now"}));
    }

    #[test]
    fn an_external_artifact_has_nothing_to_suspend() {
        let full = flux_object("ExternalArtifact", json!({}), &[]);
        assert!(matches!(suspend(&full, &drill()), PatchStep::Refused { .. }));
    }

    #[test]
    fn the_first_who_suspended_stays_recorded() {
        let ada = Suspend { user: Some("ada".to_owned()), ..drill() };
        let (body, _) = patched(suspend(&flux_object("Alert", json!({}), &[]), &ada));
        assert_eq!(body["metadata"]["annotations"][SUSPENDED_BY], "ada");
        let full = flux_object("Alert", json!({}), &[(ANNOTATION, "drill"), (SUSPENDED_BY, "bob")]);
        assert_eq!(suspend(&full, &ada), PatchStep::Unchanged);
        let (body, _) = patched(suspend(&full, &Suspend { overwrite: true, ..ada }));
        assert_eq!(body["metadata"]["annotations"], json!({SUSPENDED_BY: "ada"}));
    }

    #[test]
    fn resume_removes_and_asks_in_one_patch() {
        let full = flux_object("Kustomization", json!({}), &[(ANNOTATION, "drill"), (SUSPENDED_BY, "ada")]);
        let (body, generation) = patched(resume(&full, false, "now"));
        let annotations = json!({ANNOTATION: null, SUSPENDED_BY: null, REQUESTED_AT: "now"});
        let expected = json!({"metadata": {"uid": "u", "resourceVersion": "7", "annotations": annotations}});
        assert_eq!((body, generation), (expected, 0));
        let both = flux_object("Kustomization", json!({"spec": {"suspend": true}}), &[(ANNOTATION, "drill")]);
        let (body, generation) = patched(resume(&both, true, "now"));
        assert_eq!((&body["spec"], generation), (&json!({"suspend": null}), 1));
        assert_eq!(patched(resume(&both, false, "now")).1, 0, "spec.suspend is left alone without being told");
        let free = flux_object("Kustomization", json!({}), &[]);
        assert_eq!(resume(&free, true, "now"), PatchStep::Unchanged);
    }

    #[test]
    fn what_still_suspends_is_named() {
        let both = flux_object("Kustomization", json!({"spec": {"suspend": true}}), &[(ANNOTATION, "drill")]);
        let spec = flux_object("Kustomization", json!({"spec": {"suspend": true}}), &[]);
        let free = flux_object("Kustomization", json!({}), &[]);
        assert_eq!(remaining(&both, &free), Vec::<String>::new());
        assert_eq!(remaining(&both, &spec), ["spec.suspend is true; clear it with --spec"]);
        let mut declared = both.clone();
        declared.object.writers = vec![owner_of("kustomize-controller", true, 0, &[ANNOTATION])];
        let causes = remaining(&declared, &free);
        assert!(causes.len() == 1 && causes[0].starts_with("kustomize-controller applies"), "{causes:?}");
    }
}
