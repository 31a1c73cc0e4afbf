//! The answers of `inventory` as data: owners with counts, an owner's objects with their live state, and what is leaked,
//! orphaned, contested or unmanaged. Another layer prints.

mod document;

use std::collections::{HashMap, HashSet};

use super::index::{ABSENT, Index, Owner};
use super::readiness::{self, Readiness};
use super::{Claim, Members, OwnerId, Standing, Strength, flux_snapshot, keep, why};
use crate::object::{FullObject, GroupKind, Object, ObjectId};
use crate::snapshot::{Gap, GapKind};

pub use document::{
    Body, Document, Finding, MemberView, OwnerObjects, OwnerSummary, RecordKind, SCHEMA, Terminating, Totals,
};

/// A question about standing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Leaked, on the word of an owner that can be trusted now.
    Leaked,
    /// Orphaned.
    Orphaned,
    /// Claimed by several owners.
    Conflicts,
    /// Of no one.
    Unmanaged,
    /// With copied marks.
    Copied,
    /// Not decidable now: what looks leaked but whose owner cannot be trusted, and what claims unreadable owners.
    Unjudged,
}

/// All views of one index. Standings are computed once.
pub struct Views<'i, 'a> {
    pub(super) index: &'i Index<'a>,
    standings: Vec<Standing>,
    /// Objects that an owner has by mark and not by record.
    by_mark: HashMap<OwnerId, Vec<usize>>,
    /// Leaked and undecidable objects by owner.
    astray: HashMap<OwnerId, (usize, usize)>,
    /// Objects with content, by position.
    contents: Vec<Option<&'i FullObject>>,
    unread: HashSet<GroupKind>,
}

impl<'i, 'a> Views<'i, 'a> {
    /// Views of an index; `contents` are objects that were read in full beyond those of the snapshot.
    pub fn new(index: &'i Index<'a>, contents: &'i [FullObject]) -> Self {
        let snapshot = index.snapshot();
        let standings: Vec<Standing> = index.standings().map(|(_, standing)| standing).collect();
        let mut by_mark: HashMap<OwnerId, Vec<usize>> = HashMap::new();
        let mut astray: HashMap<OwnerId, (usize, usize)> = HashMap::new();
        for (at, (object, standing)) in snapshot.objects.iter().zip(&standings).enumerate() {
            let managers = match standing {
                Standing::Managed(owner) => std::slice::from_ref(owner),
                Standing::Conflict(owners) => owners,
                Standing::Leaked(claim) if index.distrust(object, claim).is_none() => {
                    astray.entry(claim.owner.clone()).or_default().0 += 1;
                    continue;
                }
                Standing::Leaked(claim) | Standing::Unjudged(claim, _) => {
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
        let unread = snapshot.types.iter().filter(|kind| snapshot.gaps.iter().any(|gap| covers(gap, kind)));
        let unread = unread.map(crate::object::ResourceType::group_kind).collect();
        Self { index, standings, by_mark, astray, contents: content_at, unread }
    }

    /// A document around an answer.
    pub fn document(&self, body: Body) -> Document {
        let snapshot = self.index.snapshot();
        Document {
            schema: SCHEMA,
            cluster: snapshot.cluster.clone(),
            taken: snapshot.taken,
            complete: snapshot.gaps.is_empty(),
            gaps: snapshot.gaps.clone(),
            totals: self.totals(),
            body,
            census: None,
        }
    }

    /// All objects by standing.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals { objects: self.standings.len(), ..Totals::default() };
        for (object, standing) in self.standings() {
            let count = match standing {
                Standing::Managed(_) => &mut totals.managed,
                Standing::Leaked(claim) if self.index.distrust(object, claim).is_none() => &mut totals.leaked,
                Standing::Leaked(_) | Standing::Unjudged(..) => &mut totals.unjudged,
                Standing::Orphaned(_) => &mut totals.orphaned,
                Standing::Conflict(_) => &mut totals.conflicts,
                Standing::Copied(_) => &mut totals.copied,
                Standing::Controlled => &mut totals.controlled,
                Standing::ClusterOwn(_) => &mut totals.cluster_own,
                Standing::Unmanaged => &mut totals.unmanaged,
            };
            *count += 1;
        }
        totals
    }

    fn standings(&self) -> impl Iterator<Item = (&'a Object, &Standing)> {
        self.index.snapshot().objects.iter().zip(&self.standings)
    }

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
            revision: why::revision(owner),
            objects: 0,
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
    fn each_member<'o>(&self, owner: &'o Owner<'_>, mut each: impl FnMut(&'o ObjectId, Option<usize>, bool))
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

    fn object(&self, at: usize) -> &'a Object {
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
            keep: object.map(keep::keep_marks).unwrap_or_default(),
            also_claimed_by: also,
            prunable: stale || owner.prunable.contains(id),
        }
    }

    /// An object that no owner has in its own right, as a member shows it.
    pub(super) fn bystander(&self, object: &Object) -> MemberView {
        MemberView {
            object: object.id.clone(),
            exists: Some(true),
            recorded: false,
            uid: Some(object.uid.to_string()),
            created: object.created,
            ready: self.index.position(&object.id).and_then(|at| self.readiness(at)),
            terminating: terminating(object),
            keep: keep::keep_marks(object),
            also_claimed_by: vec![],
            prunable: false,
        }
    }

    /// The objects that answer a question and that the caller wants, in order. The caller sees the first owner of each.
    pub fn findings(&self, question: Question, wanted: impl Fn(&Object, Option<&OwnerId>) -> bool) -> Vec<Finding> {
        let found = self.standings().filter_map(|(object, standing)| self.finding(question, object, standing));
        found.filter(|(object, finding)| wanted(object, finding.owners.first())).map(|(_, finding)| finding).collect()
    }

    fn finding(&self, question: Question, object: &'a Object, standing: &Standing) -> Option<(&'a Object, Finding)> {
        let distrust = |claim: &Claim| self.index.distrust(object, claim);
        let (owners, claim, why) = match (question, standing) {
            (Question::Leaked, Standing::Leaked(claim)) if distrust(claim).is_none() => (vec![], Some(claim), None),
            (Question::Unjudged, Standing::Leaked(claim)) => (vec![], Some(claim), Some(distrust(claim)?)),
            (Question::Unjudged, Standing::Unjudged(claim, why)) => (vec![], Some(claim), Some(why.clone())),
            (Question::Orphaned, Standing::Orphaned(claim)) | (Question::Copied, Standing::Copied(claim)) => {
                (vec![], Some(claim), None)
            }
            (Question::Conflicts, Standing::Conflict(owners)) => (owners.clone(), None, None),
            (Question::Unmanaged, Standing::Unmanaged) => (vec![], None, None),
            _ => return None,
        };
        let elsewhere = matches!(standing, Standing::Orphaned(claim) if self.index.may_live_elsewhere(claim));
        let finding = Finding {
            object: object.id.clone(),
            uid: object.uid.to_string(),
            created: object.created,
            standing: standing.label(),
            owners: owners.into_iter().chain(claim.map(|claim| claim.owner.clone())).collect(),
            strength: claim.map(|claim| claim.strength),
            evidence: claim.map(|claim| claim.evidence.clone()),
            why,
            owner_may_live_elsewhere: elsewhere,
            keep: keep::keep_marks(object),
            terminating: terminating(object),
        };
        Some((object, finding))
    }
}

fn terminating(object: &Object) -> Option<Terminating> {
    let finalizers = object.finalizers.iter().map(ToString::to_string).collect();
    Some(Terminating { since: object.deleting?, finalizers })
}

/// Whether a gap hides objects of a type.
fn covers(gap: &Gap, kind: &crate::object::ResourceType) -> bool {
    match gap.kind {
        GapKind::StaleGroup => gap.subject == kind.api_version(),
        _ => gap.subject == kind.resource(),
    }
}

#[cfg(test)]
mod tests;
