//! Whether a reconcile that was asked for is done.

use super::REQUESTED_AT;
use crate::kubernetes::object::Resource;

/// Reasons of Ready=False that pass by themselves once something else is done (reference kustomize-controller, flux 4).
const PASSING: [&str; 4] = ["DependencyNotReady", "ArtifactFailed", "SourceNotReady", "Progressing"];

/// Where a reconcile stands. The texts were written by others: escape before they reach a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitProgress {
    /// Not done; what the object says of it.
    Pending(String),
    /// Done.
    Ready(String),
    /// Done, and it failed; or it will not be tried again.
    Failed(String),
    /// Somebody suspended the object again, or asked again: nobody will ever see the answer to this request.
    Superseded(&'static str),
}

/// Judges an object that was asked to reconcile with this token.
///
/// The controller copies the token at the end of the run that saw it, so a run that began earlier does not count. The
/// token alone proves nothing (reference flux 0.4): Ready must speak of this generation.
pub fn progress(full: &Resource, token: &str) -> WaitProgress {
    if super::effective(full).is_some() {
        return WaitProgress::Superseded("it was suspended again");
    }
    if full.object.annotations.get(REQUESTED_AT) != Some(token) {
        return WaitProgress::Superseded("somebody else asked for a reconcile");
    }
    let current = |observed: Option<i64>| observed.is_none_or(|observed| observed == full.object.generation);
    let condition = |kind: &str| full.condition(kind).filter(|found| current(found.observed_generation));
    if let Some(stalled) = condition("Stalled").filter(|stalled| stalled.status == "True") {
        return WaitProgress::Failed(stalled.message.to_owned());
    }
    let handled = full.text("/status/lastHandledReconcileAt") == Some(token);
    let message = || full.condition("Ready").map(|ready| ready.message.to_owned()).unwrap_or_default();
    match condition("Ready").filter(|_| handled) {
        Some(ready) if ready.status == "True" => WaitProgress::Ready(message()),
        Some(ready) if ready.status == "False" && !PASSING.contains(&ready.reason) => WaitProgress::Failed(message()),
        _ => WaitProgress::Pending(message()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::flux::suspension::ANNOTATION;
    use crate::testing::flux_object;

    fn ready(status: &str, reason: &str, generation: i64, handled: &str) -> Value {
        let ready = json!({"type": "Ready", "status": status, "reason": reason, "observedGeneration": generation, "message": "m"});
        json!({"status": {"lastHandledReconcileAt": handled, "conditions": [ready]}})
    }

    #[test]
    fn done_is_the_answer_to_this_request_at_this_generation() {
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
    fn stalled_fails_at_once() {
        let stalled = json!([{"type": "Stalled", "status": "True", "observedGeneration": 3, "message": "bad spec"}]);
        let full = flux_object("HelmRelease", json!({"status": {"conditions": stalled}}), &[(REQUESTED_AT, "now")]);
        assert_eq!(progress(&full, "now"), WaitProgress::Failed("bad spec".to_owned()));
    }

    #[test]
    fn nobody_waits_for_an_answer_that_cannot_come() {
        let again = flux_object("Kustomization", json!({}), &[(REQUESTED_AT, "now"), (ANNOTATION, "x")]);
        let other = flux_object("Kustomization", json!({}), &[(REQUESTED_AT, "later")]);
        for full in [again, other] {
            assert!(matches!(progress(&full, "now"), WaitProgress::Superseded(_)));
        }
    }
}
