//! Status of an object under the rules of all systems together.

#[cfg(test)]
mod tests;

use super::index::Index;
use super::resolve::ResolvedClaim;
use super::rules::system_objects;
use super::scheme::claim::{Claim, OwnerId, Strength, is_older, writers_of};
use super::scheme::members::Members;
use super::scheme::{GcEligibility, OwnerSource, Scheme};
use super::schemes::registry::SCHEMES;
use crate::kubernetes::gap::Gap;
use crate::kubernetes::object::{GroupKind, ObjectId, ObjectMetadata};

/// Status of an object under the rules of all systems together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnershipStatus {
    /// An owner recorded it, or an owner without a record selects it.
    Managed(OwnerId),
    /// It carries a live owner's claim, but the owner's inventory does not list it: its system will never prune it.
    /// [`Index::untrusted_reason`] says if that inventory can be trusted.
    Leaked(Claim),
    /// It carries the claim of an owner that does not exist.
    Orphaned(Claim),
    /// Its labels and annotations were copied from another object.
    Copied(Claim),
    /// Several owners can claim it.
    Conflict(Vec<OwnerId>),
    /// Its owner is in another cluster or could not be read. Contains the reason.
    Unknown(Claim, String),
    /// Kubernetes itself creates it. Contains the rule.
    SystemManaged(&'static str),
    /// No claim, but a controller reference: another object of the cluster controls it.
    Controlled,
    /// No claim, no controller reference, and not created by Kubernetes itself.
    Unmanaged,
}

impl OwnershipStatus {
    /// Returns the status as one word.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Managed(_) => "managed",
            Self::Leaked(_) => "leaked",
            Self::Orphaned(_) => "orphaned",
            Self::Copied(_) => "copied",
            Self::Conflict(_) => "conflict",
            Self::Unknown(..) => "unknown",
            Self::SystemManaged(_) => "system",
            Self::Controlled => "controlled",
            Self::Unmanaged => "unmanaged",
        }
    }
}

impl Index<'_> {
    pub fn status(&self, object: &ObjectMetadata) -> OwnershipStatus {
        let recorded = self.recorded_by(&object.id);
        let claims = self.resolved_claims(object, recorded);
        match (&claims[..], recorded) {
            ([], []) => return self.status_without_claim(object),
            // The usual case, decided early for speed.
            ([found], [owner]) if found.claim.owner == *owner => return OwnershipStatus::Managed(owner.clone()),
            _ => {}
        }
        let mut owners: Vec<&OwnerId> = recorded.iter().collect();
        for found in claims.iter().filter(|found| self.can_claim(found)) {
            if !owners.contains(&&found.claim.owner) {
                owners.push(&found.claim.owner);
            }
        }
        match owners[..] {
            [_, _, ..] => {
                owners.sort_unstable();
                return OwnershipStatus::Conflict(owners.into_iter().cloned().collect());
            }
            [owner] if recorded.contains(owner) => return OwnershipStatus::Managed(owner.clone()),
            _ => {}
        }
        if object.controller_reference().is_some() {
            return OwnershipStatus::Controlled;
        }
        match self.decisive_claim(&claims, owners.first().copied()) {
            Some(found) => self.status_by_claim(object, found),
            None => self.status_without_claim(object),
        }
    }

    /// Returns the owner that manages the object of an owner, other than itself.
    pub(crate) fn managing_owner(&self, id: &OwnerId) -> Option<OwnerId> {
        let object = self.owner(id)?.object?;
        let recorded = self.recorded_by(&object.id).iter().find(|other| *other != id).cloned();
        recorded.or_else(|| match self.status(object) {
            OwnershipStatus::Managed(owner) if owner != *id => Some(owner),
            _ => None,
        })
    }

    pub fn statuses(&self) -> impl Iterator<Item = (&ObjectMetadata, OwnershipStatus)> {
        self.snapshot.objects.iter().map(|object| (object, self.status(object)))
    }

    /// Returns the reason why a live owner's record cannot be trusted on this object, or `None` if it can.
    pub(crate) fn untrusted_reason(&self, object: &ObjectMetadata, claim: &Claim) -> Option<String> {
        let owner = self.owner(&claim.owner)?;
        if let Some(reason) = owner.status.untrusted_reason().or_else(|| self.unread_owner_reason.clone()) {
            return Some(reason);
        }
        if self.hub_conflicts.contains(&owner.id) {
            return Some("an owner of the same name in the hub may list it".to_owned());
        }
        let written = writers_of(object, owner.scheme.member_keys).filter_map(|writer| writer.time).max();
        let is_newer = written.zip(owner.finished).is_some_and(|(written, finished)| written > finished);
        is_newer.then(|| {
            "the object was written after its last completed run, so it is judged after the next one".to_owned()
        })
    }

    /// Returns true if the owner in the claim of an object may be in another cluster, because none of its kind is in its
    /// namespace, or in that of its system, in this one.
    pub(crate) fn may_live_elsewhere(&self, object: &ObjectMetadata, claim: &Claim) -> bool {
        let OwnerId { system, kind, .. } = &claim.owner;
        let has_own_controller = SCHEMES.iter().any(|scheme| {
            let has_kind = scheme.owner_kinds.iter().any(|(_, known)| known == kind);
            scheme.has_own_controller && scheme.system == system && has_kind
        });
        let mut owners = self
            .owners
            .values()
            .filter(|owner| owner.id.system == *system && (!has_own_controller || owner.id.kind == *kind));
        // Whoever may write in another namespace can create an owner there, which shows nothing about this one. In the
        // namespace of the missing owner he can do it later than the object of somebody else was made.
        let has_evidence = owners.any(|owner| {
            let namespace = &owner.id.namespace;
            let is_home = owner.scheme.home == Some(namespace);
            let was_there =
                *object.id.namespace == **namespace || !owner.object.is_some_and(|live| is_older(object, live));
            is_home || owner.in_hub || namespace.is_empty() || (*namespace == claim.owner.namespace && was_there)
        });
        !has_evidence
    }

    fn status_without_claim(&self, object: &ObjectMetadata) -> OwnershipStatus {
        if object.controller_reference().is_some() {
            return OwnershipStatus::Controlled;
        }
        system_objects::rule(object, |id| self.snapshot.object(id))
            .map_or(OwnershipStatus::Unmanaged, OwnershipStatus::SystemManaged)
    }

    /// Returns true if the owner in a claim would treat the object as its own.
    fn can_claim(&self, found: &ResolvedClaim) -> bool {
        let ResolvedClaim { claim, scheme } = found;
        match self.owner(&claim.owner).map(|owner| &owner.members) {
            None | Some(Members::Remote(_)) => false,
            Some(Members::Listed(_)) => claim.strength <= Strength::Corroborated,
            // Where the field manager proves nothing, the owner itself goes by the labels alone.
            Some(_) => {
                claim.strength <= Strength::Corroborated
                    || (claim.strength == Strength::Bare && scheme.managers.is_empty())
            }
        }
    }

    /// Returns the claim that decides the status of an object that nobody recorded: that of the owner that can claim it,
    /// else the strongest of live owners, else the strongest.
    fn decisive_claim<'c>(&self, claims: &'c [ResolvedClaim], owner: Option<&OwnerId>) -> Option<&'c ResolvedClaim> {
        let strongest = claims.iter().min_by_key(|found| found.claim.strength);
        let live = claims.iter().filter(|found| self.owners.contains_key(&found.claim.owner));
        let strongest_live = live.min_by_key(|found| found.claim.strength);
        let claimed = owner.and_then(|owner| claims.iter().find(|found| found.claim.owner == *owner));
        claimed.or(strongest_live).or(strongest)
    }

    /// Returns the status of an object that nobody recorded, by its decisive claim.
    fn status_by_claim(&self, object: &ObjectMetadata, found: &ResolvedClaim) -> OwnershipStatus {
        let ResolvedClaim { claim, scheme } = found;
        let unknown = |reason: &str| OwnershipStatus::Unknown(claim.clone(), reason.to_owned());
        if claim.strength == Strength::Contradicted {
            return OwnershipStatus::Copied(claim.clone());
        }
        let Some(owner) = self.owner(&claim.owner) else {
            return match self.unread_reason(found).or_else(|| self.unread_owner_reason.clone()) {
                Some(reason) => unknown(&reason),
                None => OwnershipStatus::Orphaned(claim.clone()),
            };
        };
        let eligibility = (scheme.gc_eligibility)(object);
        // The author of the labels is known, and it is not the system.
        let is_by_others =
            claim.strength == Strength::Bare && !scheme.managers.is_empty() && !object.managed_fields.is_empty();
        match (&owner.members, eligibility) {
            (Members::Remote(_), _) => unknown("remote, not checked"),
            (Members::Unreadable(reason), _) => unknown(reason),
            (Members::Listed(_), GcEligibility::Doubtful(reason)) if claim.strength == Strength::Bare => {
                unknown(reason)
            }
            (Members::Listed(_), _) if claim.strength == Strength::Bare => OwnershipStatus::Copied(claim.clone()),
            (Members::Listed(_), GcEligibility::NeverRecorded(_)) => OwnershipStatus::Managed(claim.owner.clone()),
            (Members::Listed(_), _) => OwnershipStatus::Leaked(claim.clone()),
            _ if is_by_others => OwnershipStatus::Copied(claim.clone()),
            (Members::Selected(scope), GcEligibility::WrittenByOthers(_)) if !scope.covers(&object.id) => {
                OwnershipStatus::Copied(claim.clone())
            }
            (Members::Selected(_), GcEligibility::NeverCollected(_)) => OwnershipStatus::Leaked(claim.clone()),
            (Members::Selected(scope), _) if !scope.covers(&object.id) => OwnershipStatus::Leaked(claim.clone()),
            (Members::Selected(_) | Members::Unrecorded, _) => OwnershipStatus::Managed(claim.owner.clone()),
        }
    }

    /// Returns a reason if an owner that lists its objects may be unknown: a type of such owners that could not be read in
    /// the whole cluster. Then no object is certainly leaked or orphaned, because that owner may list it.
    pub(crate) fn find_unread_owners(&self) -> Option<String> {
        let kinds: Vec<(&str, &str)> = SCHEMES.iter().flat_map(|scheme| listing_kinds(scheme)).collect();
        // A single unread namespace hides the owners there; they write their own labels on what they list.
        let mut gaps = self.snapshot.gaps.iter().filter(|gap| gap.namespace.is_none());
        let gap = gaps.find(|gap| {
            kinds.iter().any(|(group, kind)| gap.hides(&GroupKind::new(group, kind), &self.snapshot.types))
        })?;
        Some(format!("not all {} could be read, and one of them may list it", gap.subject))
    }

    /// Returns the reason why an owner that was not found may exist: a type that could have shown it was not read.
    fn unread_reason(&self, found: &ResolvedClaim) -> Option<String> {
        let ResolvedClaim { claim, scheme } = found;
        let is_unresolvable =
            SCHEMES.iter().enumerate().any(|(n, known)| known == scheme && self.unresolvable & (1 << n) != 0);
        if is_unresolvable {
            return Some(format!("an owner of {} could not be read", scheme.system));
        }
        let gap = self.gap_hiding_owner(scheme, &claim.owner.namespace)?;
        Some(format!("{} could not be read: {}", gap.subject, gap.message))
    }

    /// Returns the gap that may hide an owner of a scheme in a namespace.
    pub(crate) fn gap_hiding_owner(&self, scheme: &Scheme, namespace: &str) -> Option<&Gap> {
        let kinds: Vec<GroupKind> = scheme.all_owner_kinds().map(|(group, kind)| GroupKind::new(group, kind)).collect();
        self.snapshot.gaps.iter().find(|gap| {
            let is_elsewhere = gap.namespace.as_ref().is_some_and(|at| !namespace.is_empty() && at != namespace);
            !is_elsewhere && kinds.iter().any(|kind| gap.hides(kind, &self.snapshot.types))
        })
    }
}

/// Returns the kinds of owners that list their objects, claimed or not.
pub(crate) fn listing_kinds(scheme: &Scheme) -> impl Iterator<Item = (&'static str, &'static str)> {
    listing_sources(scheme).map(|source| (source.group, source.kind))
}

/// Returns the owners of a scheme that list their objects, as kinds with label selectors.
fn listing_sources(scheme: &Scheme) -> impl Iterator<Item = OwnerSource> {
    let kinds = scheme.owner_kinds.iter().map(|(group, kind)| OwnerSource {
        group,
        kind,
        selector: "",
        full: true,
        only_if_claimed: false,
    });
    kinds.chain(scheme.owner_sources.iter().filter(|source| source.full && !source.only_if_claimed).copied())
}

/// Returns everything that can list an object as its own, whatever the labels of the object, each once.
pub fn owners_to_list() -> Vec<OwnerSource> {
    let mut sources: Vec<OwnerSource> = vec![];
    for source in SCHEMES.iter().flat_map(|scheme| listing_sources(scheme)) {
        if !sources.contains(&source) {
            sources.push(source);
        }
    }
    sources
}

/// Returns the objects that an owner can be: its own object, or the objects of its kind and name, which may not exist.
pub fn objects_of_owner(index: &Index<'_>, owner: &OwnerId) -> Vec<ObjectId> {
    let live = index.owner(owner).and_then(|owner| owner.object).map(|object| object.id.clone());
    let schemes = SCHEMES.iter().filter(|scheme| scheme.system == owner.system);
    let kinds = schemes.flat_map(|scheme| scheme.owner_kinds).filter(|(_, kind)| *kind == owner.kind);
    let named = kinds.map(|(group, kind)| ObjectId::new(group, kind, &owner.namespace, &owner.name));
    let mut objects: Vec<ObjectId> = live.into_iter().chain(named).collect();
    objects.sort();
    objects.dedup();
    objects
}
