//! Owners with their counts, and their objects with their live state.

use super::Views;
use super::document::{MemberView, OwnerSummary, RecordKind, Terminating};
use super::explain;
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::ownership::index::{ABSENT, Owner};
use crate::ownership::readiness;
use crate::ownership::readiness::Readiness;
use crate::ownership::schemes::flux_snapshot;
use crate::ownership::{Members, OwnerId, Strength, protection};

impl<'a> Views<'_, 'a> {
    /// Every owner with its counts, in order.
    pub fn owners(&self) -> Vec<OwnerSummary> {
        self.index.owners().map(|owner| self.summary(owner)).collect()
    }

    /// One owner with its counts.
    pub fn summary(&self, owner: &Owner<'_>) -> OwnerSummary {
        let (record, unreadable) = match &owner.members {
            Members::Listed(_) => (RecordKind::Listed, None),
            Members::Remote(_) => (RecordKind::Remote, None),
            Members::Selected(_) => (RecordKind::Selected, None),
            Members::Unrecorded => (RecordKind::Unrecorded, None),
            Members::Unreadable(why) => (RecordKind::Unreadable, Some(why.clone())),
        };
        let (leaked, unjudged) = self.astray.get(&owner.id).copied().unwrap_or_default();
        let mut summary = OwnerSummary {
            owner: owner.id.clone(),
            state: owner.state.clone(),
            record,
            unreadable,
            revision: explain::revision(owner),
            objects: 0,
            matching: None,
            in_hub: owner.in_hub,
            ready: 0,
            unread: 0,
            missing: 0,
            terminating: 0,
            leaked,
            unjudged,
        };
        self.each_member(owner, |id, at, _| {
            summary.objects += 1;
            summary.missing += usize::from(at.is_none() && self.exists(owner, id) == Some(false));
            let Some(at) = at else { return };
            summary.terminating += usize::from(self.object(at).deleting.is_some());
            match self.readiness(at) {
                Some(ready) => summary.ready += usize::from(ready.is_ready()),
                None => summary.unread += 1,
            }
        });
        summary
    }

    /// The objects of an owner, in order.
    pub fn objects(&self, owner: &Owner<'_>) -> Vec<MemberView> {
        let mut members = vec![];
        self.each_member(owner, |id, at, recorded| members.push(self.member(owner, id, at, recorded)));
        members.sort_by(|a, b| a.object.cmp(&b.object));
        members
    }

    /// Identity, position when the object is here, and whether the owner recorded it.
    pub(crate) fn each_member<'o>(&self, owner: &'o Owner<'_>, mut each: impl FnMut(&'o ObjectId, Option<usize>, bool))
    where
        'a: 'o,
    {
        if let Members::Listed(ids) | Members::Remote(ids) = &owner.members {
            for (n, id) in ids.iter().enumerate() {
                let at = owner.positions.get(n).filter(|at| **at != ABSENT);
                each(id, at.map(|at| *at as usize), true);
            }
        }
        for at in self.by_mark.get(&owner.id).into_iter().flatten() {
            each(&self.object(*at).id, Some(*at), false);
        }
    }

    pub(crate) fn object(&self, at: usize) -> &'a ObjectMetadata {
        &self.index.snapshot().objects[at]
    }

    fn exists(&self, owner: &Owner<'_>, id: &ObjectId) -> Option<bool> {
        let snapshot = self.index.snapshot();
        if matches!(owner.members, Members::Remote(_)) {
            return None;
        }
        if self.index.position(id).is_some() {
            return Some(true);
        }
        let kind = id.group_kind();
        let looked_for = snapshot.types.is_empty() || snapshot.resource_type(&kind).is_some();
        (looked_for && !self.unread.contains(&kind)).then_some(false)
    }

    fn readiness(&self, at: usize) -> Option<Readiness> {
        if self.object(at).deleting.is_some() {
            return Some(Readiness::Terminating);
        }
        self.contents[at].map(|full| readiness::ready(&full.object, &full.content))
    }

    fn member(&self, owner: &Owner<'_>, id: &ObjectId, at: Option<usize>, recorded: bool) -> MemberView {
        let object = at.map(|at| self.object(at));
        let claimants = object.map(|object| self.index.claims(object)).unwrap_or_default();
        let claimants = claimants.into_iter().filter(|claim| claim.strength != Strength::Contradicted);
        let all = self.index.recorded_by(id).iter().cloned().chain(claimants.map(|claim| claim.owner));
        let mut also: Vec<OwnerId> = all.filter(|other| *other != owner.id).collect();
        also.sort();
        also.dedup();
        let checksum = owner.full.and_then(|full| full.text("/status/snapshot/checksum"));
        let stale = object.zip(checksum).is_some_and(|(object, current)| flux_snapshot::is_stale(object, current));
        MemberView {
            object: id.clone(),
            exists: self.exists(owner, id),
            recorded,
            uid: object.map(|object| object.uid.to_string()),
            created: object.and_then(|object| object.created),
            ready: at.and_then(|at| self.readiness(at)),
            terminating: object.and_then(terminating),
            keep: object.map(protection::keep_marks).unwrap_or_default(),
            also_claimed_by: also,
            prunable: stale || owner.prunable.contains(id),
        }
    }

    /// An object that no owner has in its own right, as a member shows it.
    pub(crate) fn bystander(&self, object: &ObjectMetadata) -> MemberView {
        MemberView {
            object: object.id.clone(),
            exists: Some(true),
            recorded: false,
            uid: Some(object.uid.to_string()),
            created: object.created,
            ready: self.index.position(&object.id).and_then(|at| self.readiness(at)),
            terminating: terminating(object),
            keep: protection::keep_marks(object),
            also_claimed_by: vec![],
            prunable: false,
        }
    }
}

/// Deletion in progress.
pub(crate) fn terminating(object: &ObjectMetadata) -> Option<Terminating> {
    let finalizers = object.finalizers.iter().map(ToString::to_string).collect();
    Some(Terminating { since: object.deleting?, finalizers })
}
