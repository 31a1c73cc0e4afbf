//! The answers of `inventory` as data: owners with counts, an owner's objects with their live state, and what is leaked,
//! orphaned, contested or unmanaged. Another layer prints; the serialised form is `kubectl-gitops/inventory/v1`.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::index::{Index, Owner};
use super::readiness::{self, Readiness};
use super::{Claim, KeepMark, Members, OwnerId, OwnerState, Standing, Strength, flux_snapshot, keep, tree, why};
use crate::object::{FullObject, GroupKind, Object, ObjectId};
use crate::snapshot::{ClusterIdentity, Gap, GapKind};

/// Schema name of the serialised form.
pub const SCHEMA: &str = "kubectl-gitops/inventory/v1";

/// One answer of `inventory`. Fields may be added; none changes its meaning.
#[derive(Clone, Debug, Serialize)]
pub struct Document {
    /// Always [`SCHEMA`].
    pub schema: &'static str,
    /// Which cluster.
    pub cluster: ClusterIdentity,
    /// When it was read.
    pub taken: DateTime<Utc>,
    /// Whether everything could be read.
    pub complete: bool,
    /// What could not be read.
    pub gaps: Vec<Gap>,
    /// All objects by standing.
    pub totals: Totals,
    /// The answer.
    #[serde(flatten)]
    pub body: Body,
}

/// The part of an answer that depends on the question; serialised under its name.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Body {
    /// Owners with counts.
    Owners(Vec<OwnerSummary>),
    /// Owners with their objects.
    Objects(Vec<OwnerObjects>),
    /// Objects of one standing.
    Findings(Vec<Finding>),
    /// Owners, their objects and what these made, nested.
    Tree(Vec<tree::Node>),
    /// One object explained.
    Why(Box<why::Why>),
}

/// How many objects there are of each standing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// All that were read.
    pub objects: usize,
    /// Managed by one owner.
    pub managed: usize,
    /// Leaked, on the word of an owner that can be trusted now.
    pub leaked: usize,
    /// With the claim of an owner that does not exist.
    pub orphaned: usize,
    /// Claimed by several owners.
    pub conflicts: usize,
    /// With copied marks.
    pub copied: usize,
    /// Not decidable now.
    pub unjudged: usize,
    /// Made by another object.
    pub controlled: usize,
    /// The cluster's own.
    pub cluster_own: usize,
    /// Of no one.
    pub unmanaged: usize,
}

/// How an owner knows its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordKind {
    /// It lists them.
    Listed,
    /// It lists them, in another cluster: not checked.
    Remote,
    /// It selects them by mark.
    Selected,
    /// It has no record.
    Unrecorded,
    /// Its record cannot be parsed.
    Unreadable,
}

/// One owner with counts.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerSummary {
    /// Identity.
    #[serde(flatten)]
    pub owner: OwnerId,
    /// Whether its record can be trusted now.
    #[serde(flatten)]
    pub state: OwnerState,
    /// How it knows its members.
    pub record: RecordKind,
    /// Why its record cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// What it applied last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Members.
    pub objects: usize,
    /// Members known to be ready.
    pub ready: usize,
    /// Members whose content was not read, so that nobody knows.
    pub unread: usize,
    /// Members that do not exist.
    pub missing: usize,
    /// Members being deleted.
    pub terminating: usize,
    /// Objects with its claim that it does not list.
    pub leaked: usize,
    /// Objects with its claim that cannot be judged now.
    pub unjudged: usize,
}

/// One owner with its objects.
#[derive(Clone, Debug, Serialize)]
pub struct OwnerObjects {
    /// The owner and its counts.
    pub owner: OwnerSummary,
    /// Its objects, in order.
    pub objects: Vec<MemberView>,
}

/// Deletion in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Terminating {
    /// Since when.
    pub since: DateTime<Utc>,
    /// Who holds it.
    pub finalizers: Vec<String>,
}

/// One object of an owner.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberView {
    /// Identity.
    #[serde(flatten)]
    pub object: ObjectId,
    /// Whether it exists; `None` where that was not or could not be checked.
    pub exists: Option<bool>,
    /// Whether the owner recorded it; otherwise its marks alone say that it is the owner's.
    pub recorded: bool,
    /// Uid of the live object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Creation time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<DateTime<Utc>>,
    /// Readiness, where its content was read.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Readiness>,
    /// Deletion in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<Terminating>,
    /// Marks that protect it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keep: Vec<KeepMark>,
    /// Other owners that recorded or claim it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also_claimed_by: Vec<OwnerId>,
    /// Whether the owner itself says it will prune it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub prunable: bool,
}

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

/// One object that answers a question.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Identity.
    #[serde(flatten)]
    pub object: ObjectId,
    /// Uid.
    pub uid: String,
    /// Creation time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<DateTime<Utc>>,
    /// What it is.
    pub standing: &'static str,
    /// Owners that recorded or claim it.
    pub owners: Vec<OwnerId>,
    /// How much its claim proves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strength: Option<Strength>,
    /// The mark and its witness.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
    /// Why it cannot be judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// No owner of the kind is in this cluster: it may live in a hub.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub owner_may_live_elsewhere: bool,
    /// Marks that protect it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keep: Vec<KeepMark>,
    /// Deletion in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<Terminating>,
}

/// All views of one index. Standings are computed once.
pub struct Views<'i, 'a> {
    pub(super) index: &'i Index<'a>,
    standings: Vec<Standing>,
    /// Objects that an owner has by mark and not by record.
    by_mark: HashMap<OwnerId, Vec<usize>>,
    /// Leaked and undecidable objects by owner.
    astray: HashMap<OwnerId, (usize, usize)>,
    contents: HashMap<&'i ObjectId, &'i FullObject>,
    unread: HashSet<GroupKind>,
}

impl<'i, 'a> Views<'i, 'a> {
    /// Views of an index; `contents` are objects that were read in full beyond those of the snapshot.
    pub fn new(index: &'i Index<'a>, contents: &'i [FullObject]) -> Self {
        let snapshot = index.snapshot();
        let standings: Vec<Standing> = snapshot.objects.iter().map(|object| index.standing(object)).collect();
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
            let recorded = index.recorded_by(&object.id);
            for owner in managers.iter().filter(|owner| !recorded.contains(owner)) {
                match by_mark.get_mut(owner) {
                    Some(list) => list.push(at),
                    None => _ = by_mark.insert(owner.clone(), vec![at]),
                }
            }
        }
        let contents = snapshot.full.iter().chain(contents).map(|full| (&full.object.id, full)).collect();
        let unread = snapshot.types.iter().filter(|kind| snapshot.gaps.iter().any(|gap| covers(gap, kind)));
        let unread = unread.map(crate::object::ResourceType::group_kind).collect();
        Self { index, standings, by_mark, astray, contents, unread }
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
        self.each_member(owner, |id, object, _| {
            summary.objects += 1;
            summary.missing += usize::from(object.is_none() && self.exists(owner, id) == Some(false));
            summary.terminating += usize::from(object.is_some_and(|object| object.deleting.is_some()));
            match object.map(|object| self.readiness(object)) {
                Some(Some(ready)) => summary.ready += usize::from(ready.is_ready()),
                Some(None) => summary.unread += 1,
                None => {}
            }
        });
        summary
    }

    /// The objects of an owner, in order.
    pub fn objects(&self, owner: &Owner<'_>) -> Vec<MemberView> {
        let mut members = vec![];
        self.each_member(owner, |id, object, recorded| members.push(self.member(owner, id, object, recorded)));
        members.sort_by(|a, b| a.object.cmp(&b.object));
        members
    }

    fn each_member<'o>(&self, owner: &'o Owner<'_>, mut each: impl FnMut(&'o ObjectId, Option<&'a Object>, bool))
    where
        'a: 'o,
    {
        let snapshot = self.index.snapshot();
        let local = !matches!(owner.members, Members::Remote(_));
        if let Members::Listed(ids) | Members::Remote(ids) = &owner.members {
            ids.iter().for_each(|id| each(id, snapshot.object(id).filter(|_| local), true));
        }
        for at in self.by_mark.get(&owner.id).into_iter().flatten() {
            let object = &snapshot.objects[*at];
            each(&object.id, Some(object), false);
        }
    }

    fn exists(&self, owner: &Owner<'_>, id: &ObjectId) -> Option<bool> {
        let snapshot = self.index.snapshot();
        if matches!(owner.members, Members::Remote(_)) {
            return None;
        }
        if snapshot.object(id).is_some() {
            return Some(true);
        }
        let kind = id.group_kind();
        let looked_for = snapshot.types.is_empty() || snapshot.resource_type(&kind).is_some();
        (looked_for && !self.unread.contains(&kind)).then_some(false)
    }

    fn readiness(&self, object: &Object) -> Option<Readiness> {
        if object.deleting.is_some() {
            return Some(Readiness::Terminating);
        }
        self.contents.get(&object.id).map(|full| readiness::ready(&full.object, &full.content))
    }

    fn member(&self, owner: &Owner<'_>, id: &ObjectId, object: Option<&Object>, recorded: bool) -> MemberView {
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
            ready: object.and_then(|object| self.readiness(object)),
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
            ready: self.readiness(object),
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
