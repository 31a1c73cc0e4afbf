//! From the objects that may go in their own right to rows of a plan: what their cascades take along, and which of them
//! stay because of that. Every kind of plan that this tool executes ends here (design 3.4, rule 2).

use std::collections::HashSet;

use crate::kubernetes::deletion::cascade::{Cascade, CascadedObject};
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::index::Index;
use crate::ownership::protection::find_protection;
use crate::ownership::{OwnerId, OwnershipStatus};
use crate::plan::document::{Action, Actor, Certainty, Change, PinnedObject};

/// An object that may go in its own right.
#[derive(Clone, Debug)]
pub struct Candidate<'a> {
    /// The object.
    pub object: &'a ObjectMetadata,
    /// The owner in whose name it goes.
    pub owner: Option<OwnerId>,
    /// Why.
    pub reason: String,
}

/// Adds the rows of all roots to the rows of what stays. A root whose cascade would take along what must stay becomes
/// a row that says so; what goes in a cascade loses its row of its own.
pub fn settle<'a>(
    snapshot: &'a Snapshot,
    index: &Index<'a>,
    mut roots: Vec<Candidate<'a>>,
    mut changes: Vec<Change>,
) -> Vec<Change> {
    if roots.is_empty() {
        return changes;
    }
    let cascade = Cascade::new(snapshot);
    // A root that stays may be what another root's cascade would have taken along: repeat until nothing changes.
    loop {
        let planned: HashSet<&ObjectId> = roots.iter().map(|root| &root.object.id).collect();
        let spared = |object| cascade.closure([object]).iter().find_map(|taken| blocks(index, taken.object, &planned));
        let judged: Vec<_> = roots.into_iter().map(|root| (spared(root.object), root)).collect();
        let (kept, going): (Vec<_>, Vec<_>) = judged.into_iter().partition(|(why, _)| why.is_some());
        roots = going.into_iter().map(|(_, root)| root).collect();
        if kept.is_empty() {
            break;
        }
        let keep =
            |(why, root): (Option<String>, Candidate<'_>)| keep_row(root.object, root.owner, why.unwrap_or_default());
        changes.extend(kept.into_iter().map(keep));
    }
    let taken = cascade.closure(roots.iter().map(|root| root.object));
    let going: HashSet<&ObjectId> = taken.iter().map(|taken| &taken.object.id).collect();
    changes.retain(|change| !going.contains(&change.object.id));
    changes.extend(taken.iter().map(|taken| taken_row(index, taken)));
    changes.extend(roots.into_iter().map(|root| row(Action::Delete, root.object, root.owner, root.reason)));
    changes
}

/// The row of an object that looks prunable and stays.
pub fn keep_row(object: &ObjectMetadata, owner: Option<OwnerId>, why: String) -> Change {
    row(Action::Keep, object, owner, why)
}

/// Why an object that a cascade would take along keeps the cascade's root, if it does.
fn blocks(index: &Index<'_>, object: &ObjectMetadata, planned: &HashSet<&ObjectId>) -> Option<String> {
    if let Some(mark) = find_protection(object) {
        return Some(format!("cascade: would take {} along, protected by {}={}", object.id, mark.key, mark.value));
    }
    if let Some(owner) = index.recorded_by(&object.id).first() {
        return Some(format!("cascade: would take {} along, which {owner} lists", object.id));
    }
    if planned.contains(&object.id) {
        return None;
    }
    match index.status(object) {
        OwnershipStatus::Leaked(claim) | OwnershipStatus::Orphaned(claim) => {
            Some(format!("cascade: would take {} along, which claims {}", object.id, claim.owner))
        }
        OwnershipStatus::Managed(owner) => {
            Some(format!("cascade: would take {} along, which {owner} manages", object.id))
        }
        OwnershipStatus::Conflict(owners) => {
            Some(format!("cascade: would take {} along, which {} owners claim", object.id, owners.len()))
        }
        OwnershipStatus::Unknown(claim, why) => {
            Some(format!("cascade: would take {} along, which claims {}: {why}", object.id, claim.owner))
        }
        OwnershipStatus::Unmanaged | OwnershipStatus::Copied(_) => {
            Some(format!("cascade: would take {} along, which nothing in this plan owns", object.id))
        }
        _ => None,
    }
}

fn row(action: Action, object: &ObjectMetadata, owner: Option<OwnerId>, reason: String) -> Change {
    let by = Actor::KubectlGitops;
    Change { action, certainty: Certainty::Certain, object: PinnedObject::from(object), owner, by, reason, cause: None }
}

/// The row of what goes in a cascade.
pub fn taken_row(index: &Index<'_>, taken: &CascadedObject<'_>) -> Change {
    let owner = match index.status(taken.object) {
        OwnershipStatus::Managed(owner) => Some(owner),
        OwnershipStatus::Leaked(claim) | OwnershipStatus::Orphaned(claim) => Some(claim.owner),
        _ => None,
    };
    Change {
        certainty: if taken.is_sure { Certainty::Certain } else { Certainty::Race },
        cause: Some(taken.cause.clone()),
        by: taken.by,
        ..row(Action::Delete, taken.object, owner, taken.reason.to_owned())
    }
}
