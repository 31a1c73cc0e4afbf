//! Plan of a collection.

use super::{Collected, PlannedAction};
use crate::ownership::OwnerId;
use crate::ownership::index::Index;
use crate::plan::{Outcome, OwnerOutcome, Plan, ReasonCode};
use crate::prune::candidates::{Candidate, apply_cascade_rules, keep_row};

/// Returns the plan of a collection on behalf of one owner, cascades included.
pub fn plan<'a>(index: &Index<'a>, collection: &Collected<'a>, owner: &OwnerId) -> Plan {
    let mut candidates = vec![];
    let mut kept = vec![];
    for decision in &collection.verdicts {
        let (object, owner) = (decision.object, Some(owner.clone()));
        match &decision.ours {
            PlannedAction::Delete(reason) => candidates.push(Candidate { object, owner, reason: reason.into() }),
            PlannedAction::Keep(reason) if reason.worth_telling() => kept.push(keep_row(object, owner, reason)),
            PlannedAction::Keep(_) => {}
        }
    }
    let snapshot = index.snapshot();
    let mut plan = Plan::new(snapshot.cluster.clone());
    plan.add_gaps(snapshot.gaps.iter().cloned());
    plan.add_owners([OwnerOutcome::new(owner.clone(), Outcome::Unchanged, ReasonCode::Ready)]);
    plan.add_changes(apply_cascade_rules(index, candidates, kept));
    plan
}
