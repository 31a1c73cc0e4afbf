//! The answers of `inventory` as data: owners with counts, an owner's objects with their live state, and what is leaked,
//! orphaned, contested or unmanaged. Another layer prints.

pub mod document;
pub mod explain;
pub mod filter;
pub mod findings;
pub mod labels;
pub mod members;
#[cfg(test)]
mod tests;
pub mod tree;

use std::collections::{HashMap, HashSet};

use super::index::Index;
use super::{OwnerId, OwnershipStatus};
use crate::kubernetes::object::{GroupKind, ObjectMetadata, Resource};

pub use document::{
    Body, Filtered, Finding, InventoryDocument, MemberView, OwnerObjects, OwnerSummary, RecordKind, SCHEMA,
    Terminating, Totals,
};
pub use filter::InventoryFilter;
pub use findings::Question;

/// All views of one index. Standings are computed once.
pub struct Views<'i, 'a> {
    pub(crate) index: &'i Index<'a>,
    standings: Vec<OwnershipStatus>,
    /// Objects that an owner has by mark and not by record.
    by_mark: HashMap<OwnerId, Vec<usize>>,
    /// Leaked and undecidable objects by owner.
    astray: HashMap<OwnerId, (usize, usize)>,
    /// Objects with content, by position.
    contents: Vec<Option<&'i Resource>>,
    unread: HashSet<GroupKind>,
}

impl<'i, 'a> Views<'i, 'a> {
    /// Views of an index; `contents` are objects that were read in full beyond those of the snapshot.
    pub fn new(index: &'i Index<'a>, contents: &'i [Resource]) -> Self {
        let snapshot = index.snapshot();
        let standings: Vec<OwnershipStatus> = index.standings().map(|(_, standing)| standing).collect();
        let mut by_mark: HashMap<OwnerId, Vec<usize>> = HashMap::new();
        let mut astray: HashMap<OwnerId, (usize, usize)> = HashMap::new();
        for (at, (object, standing)) in snapshot.objects.iter().zip(&standings).enumerate() {
            let managers = match standing {
                OwnershipStatus::Managed(owner) => std::slice::from_ref(owner),
                OwnershipStatus::Conflict(owners) => owners,
                OwnershipStatus::Leaked(claim) if index.distrust(object, claim).is_none() => {
                    astray.entry(claim.owner.clone()).or_default().0 += 1;
                    continue;
                }
                OwnershipStatus::Leaked(claim) | OwnershipStatus::Unjudged(claim, _) => {
                    astray.entry(claim.owner.clone()).or_default().1 += 1;
                    continue;
                }
                _ => continue,
            };
            let recorded = index.recorded_at(at);
            for owner in managers.iter().filter(|owner| !recorded.contains(owner)) {
                match by_mark.get_mut(owner) {
                    Some(list) => list.push(at),
                    None => _ = by_mark.insert(owner.clone(), vec![at]),
                }
            }
        }
        let mut content_at = vec![None; snapshot.objects.len()];
        for full in snapshot.full.iter().chain(contents) {
            index.position(&full.object.id).into_iter().for_each(|at| content_at[at] = Some(full));
        }
        let unread = snapshot.types.iter().filter(|kind| snapshot.gaps_hiding(&kind.group_kind()).next().is_some());
        let unread = unread.map(crate::kubernetes::object::ResourceType::group_kind).collect();
        Self { index, standings, by_mark, astray, contents: content_at, unread }
    }

    /// A document around the part of an answer that a filter lets through.
    pub fn document(&self, body: Body, filter: &InventoryFilter) -> InventoryDocument {
        let (body, filter) = self.filtered(body, filter);
        let snapshot = self.index.snapshot();
        InventoryDocument {
            schema: SCHEMA,
            cluster: snapshot.cluster.clone(),
            taken: snapshot.taken,
            complete: snapshot.gaps.is_empty(),
            gaps: snapshot.gaps.clone(),
            totals: self.totals(),
            narrowed: None,
            filter,
            body,
            census: None,
        }
    }

    /// All objects by standing.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals { objects: self.standings.len(), ..Totals::default() };
        for (object, standing) in self.standings() {
            let count = match standing {
                OwnershipStatus::Managed(_) => &mut totals.managed,
                OwnershipStatus::Leaked(claim) if self.index.distrust(object, claim).is_none() => &mut totals.leaked,
                OwnershipStatus::Leaked(_) | OwnershipStatus::Unjudged(..) => &mut totals.unjudged,
                OwnershipStatus::Orphaned(_) => &mut totals.orphaned,
                OwnershipStatus::Conflict(_) => &mut totals.conflicts,
                OwnershipStatus::Copied(_) => &mut totals.copied,
                OwnershipStatus::Controlled => &mut totals.controlled,
                OwnershipStatus::SystemManaged(_) => &mut totals.cluster_own,
                OwnershipStatus::Unmanaged => &mut totals.unmanaged,
            };
            *count += 1;
        }
        totals
    }

    fn standings(&self) -> impl Iterator<Item = (&'a ObjectMetadata, &OwnershipStatus)> {
        self.index.snapshot().objects.iter().zip(&self.standings)
    }
}
