//! A collection as a plan, with cascades followed.

use super::{Collected, PlannedAction};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::OwnerId;
use crate::ownership::index::Index;
use crate::plan::document::{Fidelity, Outcome, OwnerOutcome, Plan};
use crate::prune::candidates::{Candidate, keep_row, settle};

/// The plan of a collection in the name of one owner.
pub fn plan<'a>(snapshot: &'a Snapshot, index: &Index<'a>, collection: &Collected<'a>, owner: &OwnerId) -> Plan {
    let mut roots = vec![];
    let mut kept = vec![];
    for verdict in &collection.verdicts {
        let (object, owner) = (verdict.object, Some(owner.clone()));
        match &verdict.ours {
            PlannedAction::Delete(reason) => roots.push(Candidate { object, owner, reason: reason.to_string() }),
            PlannedAction::Keep(reason) if reason.worth_telling() => {
                kept.push(keep_row(object, owner, reason.to_string()))
            }
            PlannedAction::Keep(_) => {}
        }
    }
    let changes = settle(snapshot, index, roots, kept);
    let outcome = OwnerOutcome {
        owner: owner.clone(),
        outcome: Outcome::Unchanged,
        reason: String::new(),
        fidelity: Fidelity::Unknown,
    };
    Plan::new(snapshot.cluster.clone(), snapshot.gaps.clone(), vec![outcome], changes)
}
