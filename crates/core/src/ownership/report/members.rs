//! Owners with counts, and their objects with their live state.

use super::InventoryReport;
use super::findings::Question;
use super::rows::{MemberView, OwnerObjects, OwnerSummary, RecordKind, Terminating};
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::ownership::index::{ABSENT, Owner};
use crate::ownership::readiness::{self, Readiness};
use crate::ownership::rules::protection::find_protections;
use crate::ownership::scheme::claim::{OwnerId, Strength};
use crate::ownership::scheme::members::Members;

impl<'a> InventoryReport<'_, 'a> {
    /// Returns every owner with its counts, in order.
    pub fn owners(&self) -> Vec<OwnerSummary> {
        self.index.owners().map(|owner| self.summary(owner)).collect()
    }

    /// Returns one owner with its counts.
    pub fn summary(&self, owner: &Owner<'_>) -> OwnerSummary {
        let (record, unreadable) = match &owner.members {
            Members::Listed(_) => (RecordKind::Listed, None),
            Members::Remote(_) => (RecordKind::Remote, None),
            Members::Selected(_) => (RecordKind::Selected, None),
            Members::Unrecorded => (RecordKind::Unrecorded, None),
            Members::Unreadable(reason) => (RecordKind::Unreadable, Some(reason.clone())),
        };
        let unlisted = self.unlisted_counts.get(&owner.id).copied().unwrap_or_default();
        let mut summary = OwnerSummary {
            context: None,
            owner: owner.id.clone(),
            status: owner.status.clone(),
            record,
            unreadable,
            revision: owner.full.and_then(owner.scheme.revision),
            last_reconciled: owner.full.and_then(owner.scheme.last_reconciled),
            source: owner.full.and_then(|full| (owner.scheme.source)(self.index.snapshot(), full)),
            objects: 0,
            matching: None,
            in_hub: owner.in_hub,
            ready: 0,
            unread: 0,
            missing: 0,
            terminating: 0,
            leaked: unlisted.leaked,
            unknown: unlisted.unknown,
        };
        self.each_member(owner, |id, at, _| {
            summary.objects += 1;
            summary.missing += usize::from(at.is_none() && self.exists(owner, id) == Some(false));
            let Some(at) = at else { return };
            summary.terminating += usize::from(self.object(at).deletion_timestamp.is_some());
            match self.readiness(at) {
                Some(ready) => summary.ready += usize::from(ready.is_ready()),
                None => summary.unread += 1,
            }
        });
        summary
    }

    /// Returns an owner with its objects, and with those that it does not list.
    pub fn owner_objects(&self, owner: &Owner<'_>) -> OwnerObjects {
        let mut unlisted = self.findings(Question::Leaked, |_, owners| owners.contains(&owner.id));
        unlisted.extend(self.findings(Question::Unknown, |_, owners| owners.contains(&owner.id)));
        unlisted.sort_by(|a, b| a.object.cmp(&b.object));
        OwnerObjects { owner: self.summary(owner), objects: self.objects(owner), unlisted }
    }

    pub fn objects(&self, owner: &Owner<'_>) -> Vec<MemberView> {
        let mut members = vec![];
        self.each_member(owner, |id, at, recorded| members.push(self.member(owner, id, at, recorded)));
        members.sort_by(|a, b| a.object.cmp(&b.object));
        members
    }

    /// Calls a function for each member of an owner: identity, position if it exists here, and true if it is recorded.
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
        for at in self.unrecorded.get(&owner.id).into_iter().flatten() {
            each(&self.object(*at).id, Some(*at), false);
        }
    }

    pub(crate) fn object(&self, at: usize) -> &'a ObjectMetadata {
        &self.index.snapshot().objects[at]
    }

    fn exists(&self, owner: &Owner<'_>, id: &ObjectId) -> Option<bool> {
        if matches!(owner.members, Members::Remote(_)) {
            return None;
        }
        if self.index.position(id).is_some() {
            return Some(true);
        }
        let (snapshot, kind) = (self.index.snapshot(), id.group_kind());
        let was_listed = snapshot.types.is_empty() || snapshot.resource_type(&kind).is_some();
        (was_listed && !self.unread.contains(&kind)).then_some(false)
    }

    fn readiness(&self, at: usize) -> Option<Readiness> {
        if self.object(at).deletion_timestamp.is_some() {
            return Some(Readiness::Terminating);
        }
        self.contents[at].map(|full| readiness::ready(&full.object, &full.content))
    }

    fn member(&self, owner: &Owner<'_>, id: &ObjectId, at: Option<usize>, recorded: bool) -> MemberView {
        let object = at.map(|at| self.object(at));
        let claims = object.map(|object| self.index.claims(object)).unwrap_or_default();
        let valid = claims.into_iter().filter(|claim| claim.strength != Strength::Contradicted);
        let owners = self.index.recorded_by(id).iter().cloned().chain(valid.map(|claim| claim.owner));
        let mut also_claimed_by: Vec<OwnerId> = owners.filter(|other| *other != owner.id).collect();
        also_claimed_by.sort();
        also_claimed_by.dedup();
        let will_prune = object.zip(owner.full).is_some_and(|(object, full)| (owner.scheme.will_prune)(full, object));
        MemberView {
            object: id.clone(),
            exists: self.exists(owner, id),
            recorded,
            uid: object.map(|object| object.uid.to_string()),
            created: object.and_then(|object| object.creation_timestamp),
            ready: at.and_then(|at| self.readiness(at)),
            terminating: object.and_then(Terminating::of),
            protections: object.map(find_protections).unwrap_or_default(),
            also_claimed_by,
            prunable: will_prune || owner.prunable.contains(id),
        }
    }

    /// Returns the row of an object that no owner manages directly, such as a dependent of a member.
    pub(crate) fn unowned_row(&self, object: &ObjectMetadata) -> MemberView {
        MemberView {
            object: object.id.clone(),
            exists: Some(true),
            recorded: false,
            uid: Some(object.uid.to_string()),
            created: object.creation_timestamp,
            ready: self.index.position(&object.id).and_then(|at| self.readiness(at)),
            terminating: Terminating::of(object),
            protections: find_protections(object),
            also_claimed_by: vec![],
            prunable: false,
        }
    }
}
