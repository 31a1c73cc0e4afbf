//! Plans of several steps, and what all of them together lose.

use std::collections::BTreeMap;
use std::ops::Not;

use serde::Serialize;

use crate::kubernetes::object::ObjectId;
use crate::plan::{Action, Certainty, FinishedPlan};

/// Name of the JSON schema; a contract with programs.
pub const SCHEMA: &str = "kubectl-gitops/steps/v1";

/// Plans of several steps. Each begins with the predicted state after the one before it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sequence {
    schema: &'static str,
    /// Every plan is complete.
    complete: bool,
    /// Plans in the order of the steps.
    pub steps: Vec<Step>,
    /// Objects that exist now and that a step deletes, sorted by identity.
    pub lost: Vec<LostObject>,
}

/// One step and its plan.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Step {
    /// Number of the step, from 1 on.
    pub number: usize,
    /// Description of the step in one line.
    pub title: String,
    #[cfg_attr(feature = "schema", schemars(with = "crate::plan::Plan"))]
    pub plan: FinishedPlan,
}

/// An object that exists now and that one of the steps deletes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LostObject {
    pub object: ObjectId,
    /// Uid that it has now. No step brings it back.
    pub uid: String,
    /// Step that deletes it first.
    pub deleted_in: usize,
    /// Certainty of the deletion, in that step or in a later one.
    pub certainty: Certainty,
    /// Step that creates an object of the same identity, which no later step deletes for certain; `null` if none does.
    pub created_again_in: Option<usize>,
    /// True if the step that deletes it may create it again: on a condition, or as far as is known.
    #[serde(skip_serializing_if = "Not::not")]
    pub may_come_back: bool,
    /// Properties that a new object of the same identity does not have: `uid`, `data`, …
    pub not_restored: Vec<&'static str>,
}

impl Sequence {
    /// Sums up finished plans in their order, with their titles.
    pub fn new(plans: Vec<(String, FinishedPlan)>) -> Self {
        let complete = plans.iter().all(|(_, plan)| plan.is_complete());
        let numbered = plans.into_iter().enumerate();
        let steps: Vec<Step> = numbered.map(|(at, (title, plan))| Step { number: at + 1, title, plan }).collect();
        let lost = lost_objects(&steps);
        Self { schema: SCHEMA, complete, steps, lost }
    }

    /// Returns true if every plan is complete.
    pub fn is_complete(&self) -> bool {
        self.complete
    }
}

fn lost_objects(steps: &[Step]) -> Vec<LostObject> {
    let mut lost: BTreeMap<&ObjectId, LostObject> = BTreeMap::new();
    let mut created = BTreeMap::new();
    for step in steps {
        for change in step.plan.changes() {
            let id = &change.object.id;
            let is_certain = change.is_deletion() && change.certainty == Certainty::Certain;
            if let Some(lost) = lost.get_mut(id).filter(|_| is_certain) {
                lost.certainty = Certainty::Certain;
                if change.action == Action::Delete {
                    (lost.created_again_in, lost.may_come_back) = (None, change.may_come_back);
                }
            }
            // What a step creates is nothing that exists now.
            if change.is_deletion() && !created.contains_key(id) {
                lost.entry(id).or_insert_with(|| LostObject {
                    object: id.clone(),
                    uid: change.object.uid.clone(),
                    deleted_in: step.number,
                    certainty: change.certainty,
                    created_again_in: None,
                    may_come_back: change.may_come_back,
                    not_restored: not_restored(id),
                });
            }
            if matches!(change.action, Action::Create | Action::Recreate) {
                created.entry(id).or_insert(step.number);
                if let Some(lost) = lost.get_mut(id) {
                    lost.created_again_in.get_or_insert(step.number);
                }
            }
        }
    }
    lost.into_values().collect()
}

/// Returns what a new object of a kind does not have of the one that was deleted.
fn not_restored(id: &ObjectId) -> Vec<&'static str> {
    let more: &[&str] = match (&*id.group, &*id.kind) {
        ("", "PersistentVolumeClaim" | "PersistentVolume")
        | ("snapshot.storage.k8s.io", "VolumeSnapshot" | "VolumeSnapshotContent") => &["data"],
        ("", "Service") => &["cluster IP", "node ports", "external address"],
        ("networking.k8s.io", "Ingress") | ("gateway.networking.k8s.io", "Gateway") => &["external address"],
        ("", "Namespace") => &["objects that Git does not have"],
        ("apiextensions.k8s.io", "CustomResourceDefinition") => &["custom resources that Git does not have"],
        ("", "Secret") => &["values that something in the cluster generated"],
        ("batch", "Job") => &["its run"],
        _ => &[],
    };
    ["uid"].into_iter().chain(more.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Actor, Change, PinnedObject, Plan, ReasonCode};

    fn plan(rows: &[(Action, &str, &str)]) -> (String, FinishedPlan) {
        let mut plan = Plan::default();
        plan.add_changes(rows.iter().map(|(action, kind, uid)| {
            let pinned =
                PinnedObject { uid: (*uid).to_owned(), ..PinnedObject::absent(ObjectId::new("", kind, "shop", "a")) };
            Change::new(*action, pinned, None, Actor::KustomizeController, ReasonCode::NotInBuild)
        }));
        (String::new(), plan.into())
    }

    #[test]
    fn a_revert_brings_back_names_and_not_what_was_in_them() {
        let claim = "PersistentVolumeClaim";
        let sequence = Sequence::new(vec![
            plan(&[
                (Action::Delete, claim, "u1"),
                (Action::Delete, "Service", "u2"),
                (Action::Create, "ConfigMap", ""),
            ]),
            plan(&[(Action::Create, claim, ""), (Action::Delete, "ConfigMap", "created-by-step-1-1")]),
        ]);
        let lost: Vec<_> =
            sequence.lost.iter().map(|lost| (&*lost.uid, lost.created_again_in, lost.not_restored.len())).collect();
        assert_eq!(lost, [("u1", Some(2), 2), ("u2", None, 4)], "what a step creates is not lost");
    }

    #[test]
    fn what_a_later_step_deletes_again_is_not_there_in_the_end() {
        let (delete, create) = (&[(Action::Delete, "Service", "u")][..], &[(Action::Create, "Service", "")][..]);
        let created_again = |steps: &[&[(Action, &str, &str)]]| {
            Sequence::new(steps.iter().map(|rows| plan(rows)).collect()).lost[0].created_again_in
        };
        assert_eq!(created_again(&[delete, create]), Some(2));
        assert_eq!(created_again(&[delete, create, delete]), None);
        assert_eq!(created_again(&[delete, create, delete, create]), Some(4));
        let replace = &[(Action::Recreate, "Service", "u")][..];
        assert_eq!(created_again(&[replace, delete]), None, "a rename, and its revert without the object");
    }

    #[test]
    fn what_depends_on_a_condition_in_one_step_can_be_certain_in_the_next() {
        let race = |may_come_back| {
            let (title, plan) = plan(&[(Action::Delete, "Service", "u")]);
            let row = Change { certainty: Certainty::Race, may_come_back, ..plan.changes()[0].clone() };
            let mut plan = Plan::default();
            plan.add_changes([row]);
            (title, FinishedPlan::from(plan))
        };
        let lost = |plans| {
            let lost = Sequence::new(plans).lost.remove(0);
            (lost.certainty, lost.may_come_back)
        };
        assert_eq!(lost(vec![race(true)]), (Certainty::Race, true));
        assert_eq!(lost(vec![race(true), plan(&[(Action::Delete, "Service", "u")])]), (Certainty::Certain, false));
        assert_eq!(lost(vec![race(false), race(false)]), (Certainty::Race, false));
    }

    #[test]
    fn an_object_that_one_step_replaces_is_created_again_in_it() {
        let sequence = Sequence::new(vec![plan(&[(Action::Recreate, "ConfigMap", "u")])]);
        assert_eq!((sequence.lost[0].deleted_in, sequence.lost[0].created_again_in), (1, Some(1)));
    }
}
