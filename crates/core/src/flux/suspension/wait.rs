//! Progress of a requested reconciliation.

use std::collections::BTreeSet;

use super::REQUESTED_AT;
use crate::flux::spec::KustomizationSpec;
use crate::kubernetes::object::{Condition, ObjectId, Resource};
use crate::kubernetes::snapshot::Snapshot;

/// Reason of Ready=False of an owner that waits for others.
const WAITS: &str = "DependencyNotReady";
/// Reasons of Ready=False that end without a new request (docs/reference/flux.md 2).
const TRANSIENT_REASONS: [&str; 4] = [WAITS, "ArtifactFailed", "SourceNotReady", "Progressing"];

/// Progress of a reconciliation. The messages were written by others: escape them for a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitProgress {
    /// Not done; the message of Ready.
    Pending(String),
    /// Done; the message of Ready.
    Ready(String),
    /// Failed, or stalled; the message of the condition.
    Failed(String),
    /// No answer to this request will come, for example because the object was suspended again.
    Superseded(&'static str),
}

/// Returns the progress of an object whose reconciliation was requested with this token.
///
/// The controller copies the token at the end of the run that saw it, so an earlier run does not count. The token alone is
/// not enough: Ready must be about the current generation (docs/reference/flux.md 4.5).
pub fn progress(full: &Resource, token: &str) -> WaitProgress {
    if super::effective(full).is_some() {
        return WaitProgress::Superseded("it was suspended again");
    }
    if full.object.annotations.get(REQUESTED_AT) != Some(token) {
        return WaitProgress::Superseded("somebody else requested a reconciliation");
    }
    if let Some(stalled) = current_condition(full, "Stalled").filter(|stalled| stalled.status == "True") {
        return WaitProgress::Failed(stalled.message.to_owned());
    }
    let message = full.condition("Ready").map(|ready| ready.message.to_owned()).unwrap_or_default();
    let is_handled = full.text("/status/lastHandledReconcileAt") == Some(token);
    match current_condition(full, "Ready").filter(|_| is_handled) {
        Some(ready) if ready.status == "True" => WaitProgress::Ready(message),
        Some(ready) if ready.status == "False" && !TRANSIENT_REASONS.contains(&ready.reason) => {
            WaitProgress::Failed(message)
        }
        _ => WaitProgress::Pending(message),
    }
}

/// Returns true for an owner that is ready, or that waits for nothing but owners that are, as after a new revision.
pub fn becomes_ready(snapshot: &Snapshot, owner: &Resource) -> bool {
    let (mut asked, mut open) = (BTreeSet::new(), vec![owner]);
    while let Some(owner) = open.pop() {
        if owner.is_true("Ready") || !asked.insert(&owner.object.id) {
            continue;
        }
        if owner.condition("Ready").is_none_or(|ready| ready.reason != WAITS) {
            return false;
        }
        let id = &owner.object.id;
        for key in KustomizationSpec::of(owner).depends_on(&id.namespace) {
            let needed = ObjectId { namespace: key.namespace.into(), name: key.name.into(), ..id.clone() };
            let Some(needed) = snapshot.resource(&needed) else { return false };
            open.push(needed);
        }
    }
    true
}

/// Returns a condition that is about the current generation.
fn current_condition<'a>(full: &'a Resource, kind: &str) -> Option<Condition<'a>> {
    let condition = full.condition(kind)?;
    let is_current = condition.observed_generation.is_none_or(|observed| observed == full.object.generation);
    is_current.then_some(condition)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::flux::suspension::ANNOTATION;
    use crate::testing::{self, flux_object};

    fn ready(status: &str, reason: &str, generation: i64, handled: &str) -> Value {
        let ready = json!({"type": "Ready", "status": status, "reason": reason, "observedGeneration": generation, "message": "m"});
        json!({"status": {"lastHandledReconcileAt": handled, "conditions": [ready]}})
    }

    #[test]
    fn a_reconciliation_is_done_when_ready_answers_this_request_at_this_generation() {
        let (done, failed) = (WaitProgress::Ready("m".to_owned()), WaitProgress::Failed("m".to_owned()));
        let pending = WaitProgress::Pending("m".to_owned());
        for (name, content, expected) in [
            ("handled and ready", ready("True", "ReconciliationSucceeded", 3, "now"), done),
            ("ready, but of the run before", ready("True", "ReconciliationSucceeded", 3, "before"), pending.clone()),
            (
                "handled, but ready at the generation before",
                ready("True", "ReconciliationSucceeded", 2, "now"),
                pending.clone(),
            ),
            ("still running", ready("Unknown", "Progressing", 3, "now"), pending.clone()),
            ("failed", ready("False", "BuildFailed", 3, "now"), failed),
            ("failed, but of the run before", ready("False", "BuildFailed", 3, "before"), pending.clone()),
            ("waits for a dependency", ready("False", "DependencyNotReady", 3, "now"), pending),
        ] {
            assert_eq!(
                progress(&flux_object("Kustomization", content, &[(REQUESTED_AT, "now")]), "now"),
                expected,
                "{name}"
            );
        }
    }

    #[test]
    fn an_owner_becomes_ready_if_it_only_waits_for_those_that_are() {
        let owner = |name: &str, reason: &str, needs: &[&str]| {
            let mut content = ready(if reason == "Applied" { "True" } else { "False" }, reason, 3, "");
            content["spec"]["dependsOn"] = needs.iter().map(|name| json!({"name": name})).collect();
            let mut full = flux_object("Kustomization", content, &[]);
            full.object.id.name = name.into();
            full
        };
        let owners = vec![
            owner("ready", "Applied", &[]),
            owner("waits", "DependencyNotReady", &["ready"]),
            owner("waits-again", "DependencyNotReady", &["waits", "ready"]),
            owner("broken", "BuildFailed", &[]),
            owner("waits-for-ever", "DependencyNotReady", &["ready", "broken"]),
            owner("waits-for-none", "DependencyNotReady", &["none"]),
        ];
        let snapshot = testing::snapshot(vec![], owners);
        let settling = snapshot.resources.iter().filter(|full| becomes_ready(&snapshot, full));
        let names: Vec<&str> = settling.map(|full| &*full.object.id.name).collect();
        assert_eq!(names, ["ready", "waits", "waits-again"]);
    }

    #[test]
    fn stalled_fails_at_once() {
        let stalled = json!([{"type": "Stalled", "status": "True", "observedGeneration": 3, "message": "bad spec"}]);
        let full = flux_object("HelmRelease", json!({"status": {"conditions": stalled}}), &[(REQUESTED_AT, "now")]);
        assert_eq!(progress(&full, "now"), WaitProgress::Failed("bad spec".to_owned()));
    }

    #[test]
    fn a_superseded_request_is_not_waited_for() {
        let again = flux_object("Kustomization", json!({}), &[(REQUESTED_AT, "now"), (ANNOTATION, "x")]);
        let other = flux_object("Kustomization", json!({}), &[(REQUESTED_AT, "later")]);
        for full in [again, other] {
            assert!(matches!(progress(&full, "now"), WaitProgress::Superseded(_)));
        }
    }
}
