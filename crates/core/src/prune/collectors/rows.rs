//! A collection as a plan, with cascades followed.

use super::{Collection, Ours};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::OwnerId;
use crate::ownership::index::Index;
use crate::plan::document::{Fidelity, Outcome, OwnerOutcome, Plan};
use crate::prune::candidates::{Root, keep_row, settle};

/// The plan of a collection in the name of one owner.
pub fn plan<'a>(snapshot: &'a Snapshot, index: &Index<'a>, collection: &Collection<'a>, owner: &OwnerId) -> Plan {
    let mut roots = vec![];
    let mut kept = vec![];
    for verdict in &collection.verdicts {
        let (object, owner) = (verdict.object, Some(owner.clone()));
        match &verdict.ours {
            Ours::Delete(reason) => roots.push(Root { object, owner, reason: reason.to_string() }),
            Ours::Keep(reason) if reason.worth_telling() => kept.push(keep_row(object, owner, reason.to_string())),
            Ours::Keep(_) => {}
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
