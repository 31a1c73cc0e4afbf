//! Explanation of one object: every claim with its evidence, the owners that recorded it, and the chain of owners up to a
//! source and its revision.

use std::collections::{BTreeSet, HashSet};

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::kubernetes::gap::Gap;
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::ownership::classify::OwnershipStatus;
use crate::ownership::index::Index;
use crate::ownership::resolve::ResolvedClaim;
use crate::ownership::rules::protection::find_protections;
use crate::ownership::scheme::claim::{Claim, OwnerId, Strength, writers_of};
use crate::ownership::scheme::owner_status::OwnerStatus;
use crate::ownership::scheme::protection::Protection;
use crate::ownership::scheme::{GcEligibility, SourceReference, last_applied};
use crate::ownership::schemes::registry::SCHEMES;

/// Longest chain of owners or controllers. Longer ones would be circles.
const LONGEST: usize = 64;

/// Explanation of one object.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    pub object: ObjectId,
    /// Status, such as `leaked`.
    pub status: &'static str,
    /// Reason for the status, where the claims do not show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Every claim of its labels and annotations, superseded ones included.
    pub claims: Vec<ClaimView>,
    /// Owners that recorded it.
    pub recorded_by: Vec<OwnerId>,
    /// Controller references up to the object at the top, nearest first.
    pub controllers: Vec<ObjectId>,
    /// Owners from the nearest up to the one that nothing manages.
    pub chain: Vec<OwnerLink>,
    /// Labels and annotations that protect it.
    pub protections: Vec<Protection>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<DateTime<Utc>>,
    /// Field manager that created it, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// Further facts for people.
    pub notes: Vec<String>,
}

/// A claim and its effect.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClaimView {
    /// The claim, resolved to a live owner where there is one.
    #[serde(flatten)]
    pub claim: Claim,
    /// True if its owner exists.
    pub live: bool,
    /// False if another claim supersedes it.
    pub counts: bool,
    /// Reason why its owner may exist although it was not found: it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
}

/// One owner of a chain.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct OwnerLink {
    #[serde(flatten)]
    pub owner: OwnerId,
    /// Current status; only the record of a ready owner can be trusted.
    #[serde(flatten)]
    pub status: OwnerStatus,
    /// Revision that it applied last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Time at which it last finished a reconciliation, where it records that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_reconciled: Option<DateTime<Utc>>,
    /// Source of its manifests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceReference>,
}

impl Explanation {
    /// Explains the status of an object: its claims, and the owners that recorded it.
    pub fn of(index: &Index<'_>, object: &ObjectMetadata) -> Self {
        let status = index.status(object);
        let counting = index.claims(object);
        let resolved = index.all_resolved_claims(object, index.recorded_by(&object.id));
        let claims = resolved.into_iter().map(|found| ClaimView {
            live: index.owner(&found.claim.owner).is_some(),
            counts: counting.contains(&found.claim),
            unread: unread(index, &found),
            claim: found.claim,
        });
        let references = controllers(index, object);
        let top = references.last().and_then(|id| index.snapshot().object(id)).unwrap_or(object);
        Self {
            object: object.id.clone(),
            status: status.as_str(),
            reason: reason(index, object, &status),
            claims: claims.collect(),
            recorded_by: index.recorded_by(&object.id).to_vec(),
            chain: owner_chain(index, top),
            controllers: references,
            protections: find_protections(object),
            created: object.creation_timestamp,
            created_by: object.created_by.as_deref().map(str::to_owned),
            notes: notes(object),
        }
    }

    /// Returns true if a gap can change this explanation: the status of the object, of one that controls it or of an owner
    /// in the chain, or the source of an owner.
    pub(crate) fn can_change(&self, index: &Index<'_>, gap: &Gap) -> bool {
        let snapshot = index.snapshot();
        let owners = self.chain.iter().filter_map(|link| index.owner(&link.owner)?.object);
        let ids = std::iter::once(&self.object).chain(&self.controllers);
        let mut objects = ids.filter_map(|id| snapshot.object(id)).chain(owners);
        let mut sources = self.chain.iter().filter_map(|link| link.source.as_ref());
        objects.any(|object| index.can_change_status(object, gap))
            || sources.any(|source| {
                let mut kinds = snapshot.types.iter().filter(|known| *known.kind == *source.kind);
                source.revision.is_none() && kinds.any(|kind| gap.hides(&kind.group_kind(), &snapshot.types))
            })
    }
}

/// Returns the reason why the owner of a claim, which was not found, may exist.
fn unread(index: &Index<'_>, found: &ResolvedClaim) -> Option<String> {
    let owner = &found.claim.owner;
    if index.owner(owner).is_some() {
        return None;
    }
    index.gap_hiding_owner(found.scheme, &owner.namespace).map(|gap| gap.refusal())
}

/// Returns the controllers of an object up to the top. A reference is followed only to the object with its uid.
fn controllers(index: &Index<'_>, object: &ObjectMetadata) -> Vec<ObjectId> {
    let mut chain: Vec<ObjectId> = vec![];
    let mut at = object;
    while let Some(next) = at.controller_reference().and_then(|reference| index.snapshot().referenced(at, reference)) {
        if chain.contains(&next.id) || chain.len() >= LONGEST {
            break;
        }
        chain.push(next.id.clone());
        at = next;
    }
    chain
}

fn owner_chain(index: &Index<'_>, object: &ObjectMetadata) -> Vec<OwnerLink> {
    let mut next = match index.status(object) {
        OwnershipStatus::Managed(owner) => Some(owner),
        OwnershipStatus::Leaked(claim) | OwnershipStatus::Unknown(claim, _) => Some(claim.owner),
        OwnershipStatus::Conflict(owners) => owners.into_iter().next(),
        _ => index.owner_of_object(&object.id).map(|owner| owner.id.clone()),
    };
    let mut links = vec![];
    let mut seen = HashSet::new();
    while let Some(id) = next.filter(|id| links.len() < LONGEST && seen.insert(id.clone())) {
        let Some(owner) = index.owner(&id) else { break };
        links.push(OwnerLink {
            owner: owner.id.clone(),
            status: owner.status.clone(),
            revision: owner.full.and_then(owner.scheme.revision),
            last_reconciled: owner.full.and_then(owner.scheme.last_reconciled),
            source: owner.full.and_then(|full| (owner.scheme.source)(index.snapshot(), full)),
        });
        next = index.managing_owner(&id);
    }
    links
}

fn reason(index: &Index<'_>, object: &ObjectMetadata, status: &OwnershipStatus) -> Option<String> {
    match status {
        OwnershipStatus::Leaked(claim) => {
            index.untrusted_reason(object, claim).map(|reason| format!("not trusted: {reason}"))
        }
        OwnershipStatus::Unknown(_, reason) => Some(reason.clone()),
        OwnershipStatus::SystemManaged(rule) => Some((*rule).to_owned()),
        OwnershipStatus::Copied(claim) => Some(copied_reason(object, claim)),
        OwnershipStatus::Orphaned(claim) if index.may_live_elsewhere(object, claim) => {
            Some(format!("no {} owner of this kind is in this cluster; it may be in another one", claim.owner.system))
        }
        _ => None,
    }
}

/// Returns the reason why labels and annotations count as copied: the object that they name, or their author.
fn copied_reason(object: &ObjectMetadata, claim: &Claim) -> String {
    let system = &claim.owner.system;
    if claim.strength == Strength::Contradicted {
        return "its labels or annotations belong to another object".to_owned();
    }
    let schemes = SCHEMES.iter().filter(|scheme| scheme.system == *system);
    let writers = schemes.flat_map(|scheme| writers_of(object, scheme.member_keys));
    let distinct: BTreeSet<&str> = writers.map(|writer| &*writer.manager).collect();
    if distinct.is_empty() {
        return format!("its owner does not list it, and nothing shows that {system} wrote its labels");
    }
    let managers: Vec<&str> = distinct.into_iter().collect();
    format!("its labels were written by {}, not by {system}", managers.join(", "))
}

fn notes(object: &ObjectMetadata) -> Vec<String> {
    let mut notes = vec![];
    for scheme in SCHEMES.iter().filter(|scheme| (scheme.claim)(object).is_some()) {
        match (scheme.gc_eligibility)(object) {
            GcEligibility::Normal => {}
            GcEligibility::NeverRecorded(reason)
            | GcEligibility::NeverCollected(reason)
            | GcEligibility::WrittenByOthers(reason)
            | GcEligibility::Doubtful(reason) => notes.push(format!("{}: {reason}", scheme.system)),
        }
    }
    let applied = object.annotations.get(last_applied::KUBECTL);
    notes.extend(applied.map(|identity| format!("kubectl applied it as {identity}")));
    notes
}
