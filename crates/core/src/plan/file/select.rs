//! Comparison of a reviewed plan with the present one: what both delete and what did not change since is deleted.

use std::collections::{HashMap, HashSet};

use super::steps::evidence;
use super::{CascadePin, PlanFile, Step};
use crate::kubernetes::deletion::cascade::Cascade;
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::ownership::index::Index;
use crate::plan::outcome::{DeletionResult, StepResult};
use crate::plan::{Action, Change, Plan, Reason, ReasonCode};

/// The part of a reviewed plan that may be executed now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Deletions that may be executed, and a row to keep each object that may not be deleted any more.
    pub plan: Plan,
    /// Reviewed deletions that are not executed: what is gone, and what is kept, with the reason.
    pub skipped: Vec<StepResult>,
}

impl PlanFile {
    /// Selects from the present plan what was reviewed. An object with a newer resourceVersion is selected only if
    /// `allow_changed` is set.
    pub fn select(&self, mut present: Plan, index: &Index<'_>, allow_changed: bool) -> Selection {
        let cascade = Cascade::new(index.snapshot());
        let rows: HashMap<&ObjectId, &Change> = present.changes().iter().map(|row| (&row.object.id, row)).collect();
        let reviewed: HashMap<&ObjectId, &Change> = self.plan.roots().map(|row| (&row.object.id, row)).collect();
        let mut selected = vec![];
        let mut skipped = vec![];
        let mut kept = vec![];
        for step in self.execution.iter().flat_map(|pins| &pins.steps) {
            let id = &step.object.id;
            let live = index.snapshot().object(id);
            let step_result =
                match (live, skip_reason(step, live, rows.get(id).copied(), index, &cascade, allow_changed)) {
                    (None, _) => DeletionResult::Gone,
                    (Some(object), None) => {
                        selected.push(object);
                        continue;
                    }
                    (Some(object), Some(reason)) => {
                        let row = reviewed[id];
                        kept.push(Change::new(Action::Keep, object, row.owner.clone(), row.by, reason.clone()));
                        DeletionResult::Skipped(reason)
                    }
                };
            skipped.push(StepResult { object: step.object.clone(), step: step_result });
        }
        let mut remaining: HashSet<ObjectId> =
            cascade.closure(selected.iter().copied()).iter().map(|cascaded| cascaded.object.id.clone()).collect();
        remaining.extend(selected.iter().map(|object| object.id.clone()));
        kept.retain(|row| !remaining.contains(&row.object.id));
        present.retain_changes(|row| row.is_deletion() && remaining.contains(&row.object.id));
        present.add_changes(kept);
        Selection { plan: present, skipped }
    }
}

/// Returns why a reviewed deletion may not be executed any more.
fn skip_reason(
    step: &Step,
    live: Option<&ObjectMetadata>,
    present: Option<&Change>,
    index: &Index<'_>,
    cascade: &Cascade<'_>,
    allow_changed: bool,
) -> Option<Reason> {
    let object = live?;
    let changed = |what: String| Some(Reason::new(ReasonCode::ChangedSincePlan, what));
    if *object.uid != *step.object.uid {
        return Some(Reason::new(ReasonCode::Replaced, "another object has taken its name"));
    }
    let row = match present {
        Some(row) if row.action == Action::Delete && row.cause.is_none() => row,
        Some(Change { action: Action::Delete, cause: Some(cause), .. }) => {
            return changed(format!("it would now be deleted with {cause}"));
        }
        Some(row) => return Some(row.reason.clone()),
        None => {
            let owner = index.recorded_by(&object.id).first().map(|owner| format!("{owner} lists it"));
            return Some(match owner {
                Some(detail) => Reason::new(ReasonCode::Recorded, detail),
                None => Reason::new(ReasonCode::Unclaimed, "no owner claims it any more"),
            });
        }
    };
    if !allow_changed && *object.resource_version != *step.object.resource_version {
        let (planned, now) = (&step.object.resource_version, &object.resource_version);
        return changed(format!("its resourceVersion was {planned} and is {now}"));
    }
    let now = evidence(index, object, row);
    if now != step.evidence {
        return changed(format!("the evidence was {}, and is {now}", step.evidence));
    }
    let now = CascadePin::new(cascade, Some(object));
    if now != step.cascade {
        return changed(format!(
            "{} objects were deleted with it, and now other {} are",
            step.cascade.objects, now.objects
        ));
    }
    None
}
