//! Comparison of a reviewed plan with the present one: what both delete and what did not change since is deleted.

use std::collections::{HashMap, HashSet};

use super::steps::{OtherCascades, evidence};
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
        let comparison = PlanComparison {
            index,
            cascade: Cascade::new(index.snapshot()),
            others: OtherCascades::new(&self.plan),
            present: present.changes().iter().map(|row| (&row.object.id, row)).collect(),
            allow_changed,
        };
        let steps: Vec<&Step> = self.execution.iter().flat_map(|pins| &pins.steps).collect();
        let mut results: Vec<Option<DeletionResult>> = steps.iter().map(|step| comparison.skip(step)).collect();
        // A root whose cascade would delete a skipped object is skipped too, which can be part of another cascade.
        while let Some((at, reason)) = comparison.conflict(&steps, &results) {
            results[at] = Some(DeletionResult::Skipped(reason));
        }
        let selected: Vec<_> = steps
            .iter()
            .zip(&results)
            .filter(|(_, result)| result.is_none())
            .filter_map(|(step, _)| index.snapshot().object(&step.object.id))
            .collect();
        let closure = comparison.cascade.closure(selected.iter().copied());
        let cascaded = closure.iter().map(|cascaded| cascaded.object.id.clone());
        let remaining: HashSet<ObjectId> = selected.iter().map(|object| object.id.clone()).chain(cascaded).collect();
        let reviewed: HashMap<&ObjectId, &Change> = self.plan.roots().map(|row| (&row.object.id, row)).collect();
        let mut kept = vec![];
        let mut skipped = vec![];
        for (step, result) in steps.iter().zip(results) {
            let Some(result) = result else { continue };
            if let (DeletionResult::Skipped(reason), Some(row)) = (&result, reviewed.get(&step.object.id)) {
                kept.push(Change { action: Action::Keep, reason: reason.clone(), ..(*row).clone() });
            }
            skipped.push(StepResult { object: step.object.clone(), step: result });
        }
        present.retain_changes(|row| row.is_deletion() && remaining.contains(&row.object.id));
        present.add_changes(kept);
        Selection { plan: present, skipped }
    }
}

fn changed_since_plan(what: String) -> Option<Reason> {
    Some(Reason::new(ReasonCode::ChangedSincePlan, what))
}

/// State of the cluster that a reviewed plan is compared with.
struct PlanComparison<'a> {
    index: &'a Index<'a>,
    cascade: Cascade<'a>,
    others: OtherCascades<'a>,
    /// Rows of the present plan.
    present: HashMap<&'a ObjectId, &'a Change>,
    allow_changed: bool,
}

impl PlanComparison<'_> {
    /// Returns the result of a step that is not executed, or `None` for one that may be.
    fn skip(&self, step: &Step) -> Option<DeletionResult> {
        let Some(object) = self.index.snapshot().object(&step.object.id) else { return Some(DeletionResult::Gone) };
        self.reason_to_skip(step, object).map(DeletionResult::Skipped)
    }

    fn reason_to_skip(&self, step: &Step, object: &ObjectMetadata) -> Option<Reason> {
        if *object.uid != *step.object.uid {
            return Some(Reason::new(ReasonCode::Replaced, "another object has taken its name"));
        }
        let row = match self.present.get(&object.id) {
            None => return Some(self.no_longer_planned(&object.id)),
            Some(row) if row.action != Action::Delete => return Some(row.reason.clone()),
            Some(row) => row,
        };
        if let Some(cause) = &row.cause {
            return changed_since_plan(format!("it would now be deleted with {cause}"));
        }
        if !self.allow_changed && *object.resource_version != *step.object.resource_version {
            let (planned, now) = (&step.object.resource_version, &object.resource_version);
            return changed_since_plan(format!("its resourceVersion was {planned} and is {now}"));
        }
        let now = evidence(self.index, object, row);
        if now != step.evidence {
            return changed_since_plan(format!("the evidence was {}, and is {now}", step.evidence));
        }
        let (planned, now) = (&step.cascade, CascadePin::new(&self.cascade, Some(object), &self.others));
        if now != *planned {
            let (planned, now) = (planned.objects, now.objects);
            return changed_since_plan(format!(
                "its deletion would now delete other objects: {now}, not the {planned} of the plan"
            ));
        }
        None
    }

    fn no_longer_planned(&self, id: &ObjectId) -> Reason {
        match self.index.recorded_by(id).first() {
            Some(owner) => Reason::new(ReasonCode::Recorded, format!("{owner} lists it")),
            None => Reason::new(ReasonCode::Unclaimed, "no owner claims it any more"),
        }
    }

    /// Returns the first step that may be executed and whose cascade has a skipped object, with the reason to skip it.
    fn conflict(&self, steps: &[&Step], results: &[Option<DeletionResult>]) -> Option<(usize, Reason)> {
        let results_of_steps = steps.iter().zip(results);
        let kept = results_of_steps.filter(|(_, result)| matches!(result, Some(DeletionResult::Skipped(_))));
        let skipped: HashSet<&ObjectId> = kept.map(|(step, _)| &step.object.id).collect();
        let open = steps.iter().zip(results).enumerate().filter(|(_, (_, result))| result.is_none());
        open.filter(|_| !skipped.is_empty()).find_map(|(at, (step, _))| {
            let object = self.index.snapshot().object(&step.object.id)?;
            let cascaded = self.cascade.closure([object]);
            let blocking = cascaded.iter().find(|cascaded| skipped.contains(&cascaded.object.id))?;
            let detail = format!("it would also delete {}, which is skipped", blocking.object.id);
            Some((at, Reason::new(ReasonCode::Cascade, detail)))
        })
    }
}
