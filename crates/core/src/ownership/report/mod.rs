//! Answers of `inventory` as data: owners with counts, an owner's objects with their live state, and objects by status.

pub mod contexts;
pub mod document;
pub mod explain;
pub mod filter;
pub mod findings;
pub mod ignored;
pub mod label_reports;
pub mod members;
pub mod rows;
#[cfg(test)]
mod tests;
pub mod tree;

use std::collections::{HashMap, HashSet};

use super::classify::OwnershipStatus;
use super::index::Index;
use super::scheme::claim::OwnerId;
use crate::kubernetes::object::{GroupKind, ObjectMetadata, Resource, ResourceType};

pub use document::{Body, ContextSummary, Filtered, InventoryDocument, SCHEMA};
pub use filter::InventoryFilter;
pub use findings::Question;
pub use rows::{Finding, MemberView, OwnerObjects, OwnerSummary, RecordKind, Terminating, Totals};

/// All answers about one index. The status of each object is computed once.
pub struct InventoryReport<'i, 'a> {
    pub(crate) index: &'i Index<'a>,
    /// Status of each object of the snapshot.
    statuses: Vec<OwnershipStatus>,
    /// Objects that an owner manages but did not record.
    unrecorded: HashMap<OwnerId, Vec<usize>>,
    /// Objects with an owner's claim that it does not list.
    unlisted_counts: HashMap<OwnerId, UnlistedCounts>,
    /// Content of each object of the snapshot, where it was read.
    contents: Vec<Option<&'i Resource>>,
    /// Types of which objects may be missing in the snapshot.
    unread: HashSet<GroupKind>,
}

/// Number of objects with an owner's claim that it does not list.
#[derive(Clone, Copy, Debug, Default)]
struct UnlistedCounts {
    leaked: usize,
    unknown: usize,
}

impl<'i, 'a> InventoryReport<'i, 'a> {
    /// Returns the report on an index. `contents` are objects that were read in full beyond those of the snapshot.
    pub fn new(index: &'i Index<'a>, contents: &'i [Resource]) -> Self {
        let snapshot = index.snapshot();
        let statuses: Vec<OwnershipStatus> = index.statuses().map(|(_, status)| status).collect();
        let mut unrecorded: HashMap<OwnerId, Vec<usize>> = HashMap::new();
        let mut unlisted_counts: HashMap<OwnerId, UnlistedCounts> = HashMap::new();
        for (at, (object, status)) in snapshot.objects.iter().zip(&statuses).enumerate() {
            let owners = match status {
                OwnershipStatus::Managed(owner) => std::slice::from_ref(owner),
                OwnershipStatus::Conflict(owners) => owners,
                OwnershipStatus::Leaked(claim) | OwnershipStatus::Unknown(claim, _) => {
                    let counts = unlisted_counts.entry(claim.owner.clone()).or_default();
                    let is_leaked = is_trusted_leak(index, object, status);
                    *(if is_leaked { &mut counts.leaked } else { &mut counts.unknown }) += 1;
                    continue;
                }
                _ => continue,
            };
            let recorded = index.recorded_at(at);
            for owner in owners.iter().filter(|owner| !recorded.contains(owner)) {
                match unrecorded.get_mut(owner) {
                    Some(positions) => positions.push(at),
                    None => _ = unrecorded.insert(owner.clone(), vec![at]),
                }
            }
        }
        let mut content_at = vec![None; snapshot.objects.len()];
        for full in snapshot.resources.iter().chain(contents) {
            if let Some(at) = index.position(&full.object.id) {
                content_at[at] = Some(full);
            }
        }
        let unread = snapshot
            .types
            .iter()
            .filter(|kind| snapshot.gaps_hiding(&kind.group_kind()).next().is_some())
            .map(ResourceType::group_kind)
            .collect();
        Self { index, statuses, unrecorded, unlisted_counts, contents: content_at, unread }
    }

    /// Returns the number of all objects by status.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals { objects: self.statuses.len(), ..Totals::default() };
        for (object, status) in self.statuses() {
            let count = match status {
                OwnershipStatus::Managed(_) => &mut totals.managed,
                OwnershipStatus::Leaked(_) if is_trusted_leak(self.index, object, status) => &mut totals.leaked,
                OwnershipStatus::Leaked(_) | OwnershipStatus::Unknown(..) => &mut totals.unknown,
                OwnershipStatus::Orphaned(_) => &mut totals.orphaned,
                OwnershipStatus::Conflict(_) => &mut totals.conflicts,
                OwnershipStatus::Copied(_) => &mut totals.copied,
                OwnershipStatus::Controlled => &mut totals.controlled,
                OwnershipStatus::SystemManaged(_) => &mut totals.system,
                OwnershipStatus::Unmanaged => &mut totals.unmanaged,
            };
            *count += 1;
        }
        totals
    }

    fn statuses(&self) -> impl Iterator<Item = (&'a ObjectMetadata, &OwnershipStatus)> {
        self.index.snapshot().objects.iter().zip(&self.statuses)
    }
}

/// Returns true if an object is leaked according to an owner that can be trusted now.
fn is_trusted_leak(index: &Index<'_>, object: &ObjectMetadata, status: &OwnershipStatus) -> bool {
    matches!(status, OwnershipStatus::Leaked(claim) if index.untrusted_reason(object, claim).is_none())
}
