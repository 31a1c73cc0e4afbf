//! Whether an owner's record can be trusted right now.
//!
//! Controllers write labels before inventories, so a record speaks for the objects only when nothing is happening and
//! nothing happened while the cluster was being read (reference ownership-and-prune 5.2, rule 5).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kubernetes::object::{Condition, ObjectMetadata};

/// Whether an owner's record can be trusted right now; anything but `Settled` keeps its leaked objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", content = "why", rename_all = "kebab-case")]
pub enum OwnerStatus {
    /// Ready for its current generation, not suspended, not reconciling, unchanged during the scan.
    Ready,
    /// Suspended.
    Suspended,
    /// Not Ready.
    NotReady(String),
    /// A reconcile is under way, or the last change is not observed yet.
    Reconciling,
    /// It changed while objects were being read.
    Changed,
    /// Being deleted.
    Terminating,
}

impl OwnerStatus {
    /// Why the record cannot be trusted; `None` when it can.
    pub fn distrust(&self) -> Option<String> {
        Some(match self {
            Self::Ready => return None,
            Self::Suspended => "its owner is suspended".to_owned(),
            Self::NotReady(why) if why.is_empty() => "its owner is not ready".to_owned(),
            Self::NotReady(why) => format!("its owner is not ready: {why}"),
            Self::Reconciling => "its owner is reconciling".to_owned(),
            Self::Changed => "its owner changed while the cluster was being read".to_owned(),
            Self::Terminating => "its owner is being deleted".to_owned(),
        })
    }
}

/// The status condition of a type.
pub(crate) fn condition<'a>(content: &'a Value, kind: &str) -> Option<Condition<'a>> {
    let conditions = content.pointer("/status/conditions")?.as_array()?;
    conditions.iter().filter_map(Condition::read).find(|condition| condition.kind == kind)
}

/// Whether a status condition is `True`.
pub(crate) fn is_true(content: &Value, kind: &str) -> bool {
    condition(content, kind).is_some_and(|condition| condition.status == "True")
}

/// The state of a Flux owner: suspension, observed generation, Reconciling and Ready.
pub(crate) fn flux(object: &ObjectMetadata, content: &Value) -> OwnerStatus {
    if crate::flux::suspension::effective_parts(object, content).is_some() {
        return OwnerStatus::Suspended;
    }
    let ready = condition(content, "Ready");
    let observed = content.pointer("/status/observedGeneration").and_then(Value::as_i64);
    let observed = observed.or_else(|| ready.and_then(|ready| ready.observed_generation));
    if is_true(content, "Reconciling") || observed.is_some_and(|generation| generation != object.generation) {
        return OwnerStatus::Reconciling;
    }
    match ready {
        Some(ready) if ready.status == "True" => OwnerStatus::Ready,
        Some(ready) if ready.status == "Unknown" => OwnerStatus::Reconciling,
        Some(ready) => OwnerStatus::NotReady(ready.message.to_owned()),
        None => OwnerStatus::NotReady("it has no Ready condition yet".to_owned()),
    }
}

/// What happened to an owner between the two times it was read: its metadata with the objects, its content after them.
///
/// Its resource version is the witness: every run writes the status. Times would need two clocks to agree.
pub(crate) fn during(state: OwnerStatus, object: &ObjectMetadata, moved: bool) -> OwnerStatus {
    if object.deleting.is_some() {
        return OwnerStatus::Terminating;
    }
    match state {
        OwnerStatus::Ready if moved => OwnerStatus::Changed,
        state => state,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Make, object};

    #[test]
    fn a_flux_owner_is_settled_only_when_nothing_is_going_on() {
        let ready = |status: &str| json!({"type": "Ready", "status": status, "message": "m"});
        let rows = [
            ("ready", json!({"status": {"observedGeneration": 3, "conditions": [ready("True")]}}), OwnerStatus::Ready),
            ("false", json!({"status": {"conditions": [ready("False")]}}), OwnerStatus::NotReady("m".to_owned())),
            ("unknown", json!({"status": {"conditions": [ready("Unknown")]}}), OwnerStatus::Reconciling),
            (
                "old",
                json!({"status": {"observedGeneration": 2, "conditions": [ready("True")]}}),
                OwnerStatus::Reconciling,
            ),
            (
                "reconciling",
                json!({"status": {"conditions": [ready("True"), {"type": "Reconciling", "status": "True"}]}}),
                OwnerStatus::Reconciling,
            ),
            (
                "old condition",
                json!({"status": {"conditions": [{"type": "Ready", "status": "True", "observedGeneration": 2}]}}),
                OwnerStatus::Reconciling,
            ),
            (
                "suspended",
                json!({"spec": {"suspend": true}, "status": {"conditions": [ready("True")]}}),
                OwnerStatus::Suspended,
            ),
            ("new", json!({}), OwnerStatus::NotReady("it has no Ready condition yet".to_owned())),
            (
                "absurd",
                json!({"status": {"conditions": "x"}}),
                OwnerStatus::NotReady("it has no Ready condition yet".to_owned()),
            ),
        ];
        let mut owner = object("kustomize.toolkit.fluxcd.io", "Kustomization", "flux-system", "apps");
        owner.generation = 3;
        for (name, content, expected) in rows {
            assert_eq!(flux(&owner, &content), expected, "{name}");
        }
        let owner = owner.annotation(crate::flux::suspension::ANNOTATION, "");
        assert_eq!(flux(&owner, &json!({"status": {"conditions": [ready("True")]}})), OwnerStatus::Suspended);
    }

    #[test]
    fn an_owner_that_moved_during_the_reading_changed() {
        let owner = object("", "X", "a", "b");
        assert_eq!(during(OwnerStatus::Ready, &owner, false), OwnerStatus::Ready);
        assert_eq!(during(OwnerStatus::Ready, &owner, true), OwnerStatus::Changed);
        assert_eq!(during(OwnerStatus::Suspended, &owner, true), OwnerStatus::Suspended);
    }
}
