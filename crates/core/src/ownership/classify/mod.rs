//! What an object is, seen from all schemes at once.

#[cfg(test)]
mod tests;

use super::index::Index;
use super::resolve::ResolvedClaim;
use super::{Claim, GcEligibility, Members, OwnerId, Strength, system_objects};
use crate::kubernetes::object::ObjectMetadata;

/// What an object is, seen from all schemes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnershipStatus {
    /// Recorded by an owner, or selected by an owner that keeps no record.
    Managed(OwnerId),
    /// Carries a live owner's claim, but the owner's inventory does not list it: its system will never prune it. Whether
    /// the owner's record can be trusted says [`Index::distrust`].
    Leaked(Claim),
    /// Carries a claim of an owner that does not exist.
    Orphaned(Claim),
    /// Carries marks that were copied from another object.
    Copied(Claim),
    /// More than one owner can claim it.
    Conflict(Vec<OwnerId>),
    /// Carries a claim that cannot be judged: the owner is remote or unreadable. Holds the reason.
    Unjudged(Claim, String),
    /// The cluster's own; holds the rule.
    SystemManaged(&'static str),
    /// No claim, but a controller reference: something else in the cluster made it.
    Controlled,
    /// No claim, no controller reference, not the cluster's own.
    Unmanaged,
}

impl OwnershipStatus {
    /// The word for it in outputs.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Managed(_) => "managed",
            Self::Leaked(_) => "leaked",
            Self::Orphaned(_) => "orphaned",
            Self::Copied(_) => "copied",
            Self::Conflict(_) => "conflict",
            Self::Unjudged(..) => "unjudged",
            Self::SystemManaged(_) => "cluster-own",
            Self::Controlled => "controlled",
            Self::Unmanaged => "unmanaged",
        }
    }
}

impl Index<'_> {
    /// What an object is.
    pub fn standing(&self, object: &ObjectMetadata) -> OwnershipStatus {
        self.standing_among(object, self.recorded_by(&object.id))
    }

    fn standing_among(&self, object: &ObjectMetadata, recorded: &[OwnerId]) -> OwnershipStatus {
        let found = self.found(object, recorded);
        match (&found[..], recorded) {
            ([], []) => return self.unclaimed(object),
            // The common case, and the same as what follows would say.
            ([found], [owner]) if found.claim.owner == *owner => return OwnershipStatus::Managed(owner.clone()),
            _ => {}
        }
        let mut contenders: Vec<&OwnerId> = recorded.iter().collect();
        for found in found.iter().filter(|found| self.can_claim(found)) {
            if !contenders.contains(&&found.claim.owner) {
                contenders.push(&found.claim.owner);
            }
        }
        match contenders[..] {
            [_, _, ..] => {
                contenders.sort_unstable();
                return OwnershipStatus::Conflict(contenders.into_iter().cloned().collect());
            }
            [owner] if recorded.contains(owner) => return OwnershipStatus::Managed(owner.clone()),
            _ => {}
        }
        if object.controller().is_some() {
            return OwnershipStatus::Controlled;
        }
        // Nobody recorded the object, so some claim was found: the live owner's that can claim it, else any live owner's,
        // else the strongest.
        let live = |found: &&ResolvedClaim| self.owners.contains_key(&found.claim.owner);
        let claimed = contenders.first().and_then(|owner| found.iter().find(|found| found.claim.owner == **owner));
        let best = claimed.or_else(|| found.iter().filter(live).min_by_key(|found| found.claim.strength));
        match best.or_else(|| found.iter().min_by_key(|found| found.claim.strength)) {
            Some(best) => self.judge(object, best),
            None => self.unclaimed(object),
        }
    }

    /// Every object with its standing.
    pub fn standings(&self) -> impl Iterator<Item = (&ObjectMetadata, OwnershipStatus)> {
        self.snapshot.objects.iter().map(|object| (object, self.standing(object)))
    }

    /// Why what is said of an object on the word of a live owner's record cannot be trusted; `None` when it can.
    pub fn distrust(&self, object: &ObjectMetadata, claim: &Claim) -> Option<String> {
        let owner = self.owner(&claim.owner)?;
        if let Some(why) = owner.state.distrust().or_else(|| self.blind.clone()) {
            return Some(why);
        }
        if self.rivals.contains(&owner.id) {
            return Some("an owner of the same name in the hub may list it".to_owned());
        }
        let keys = owner.scheme.member_keys;
        let wrote = |writer: &&crate::kubernetes::object::ManagedFieldsEntry| {
            writer.labels.iter().chain(&writer.annotations).any(|key| keys.iter().any(|mark| mark.name() == &**key))
        };
        let written = object.writers.iter().filter(wrote).filter_map(|writer| writer.time).max();
        let newer = written.zip(owner.finished).is_some_and(|(written, finished)| written > finished);
        newer.then(|| "it was written after its owner's last completed run".to_owned())
    }

    /// Whether a claim's owner may live in another cluster: none of its kind is in this one.
    pub fn may_live_elsewhere(&self, claim: &Claim) -> bool {
        let like = |id: &OwnerId| id.system == claim.owner.system && id.kind == claim.owner.kind;
        match claim.owner.kind.as_str() {
            "Kustomization" | "HelmRelease" | "ResourceSet" | "FluxInstance" => !self.owners.keys().any(like),
            _ => !self.has_system(&claim.owner.system),
        }
    }

    fn unclaimed(&self, object: &ObjectMetadata) -> OwnershipStatus {
        if object.controller().is_some() {
            return OwnershipStatus::Controlled;
        }
        system_objects::rule(object, |id| self.snapshot.object(id))
            .map_or(OwnershipStatus::Unmanaged, OwnershipStatus::SystemManaged)
    }

    /// Whether the owner that a claim names would treat the object as its own.
    fn can_claim(&self, found: &ResolvedClaim) -> bool {
        let strength = found.claim.strength;
        match self.owner(&found.claim.owner).map(|owner| &owner.members) {
            None | Some(Members::Remote(_)) => false,
            Some(Members::Listed(_)) => strength <= Strength::Corroborated,
            // Where the manager proves nothing, the mark is all that the owner itself goes by.
            Some(_) => {
                strength <= Strength::Corroborated || (strength == Strength::Bare && found.scheme.managers.is_empty())
            }
        }
    }

    fn judge(&self, object: &ObjectMetadata, found: &ResolvedClaim) -> OwnershipStatus {
        let ResolvedClaim { claim, scheme } = found;
        let claim = || claim.clone();
        let strength = found.claim.strength;
        if strength == Strength::Contradicted {
            return OwnershipStatus::Copied(claim());
        }
        let Some(owner) = self.owner(&found.claim.owner) else {
            return match self.unread(found).or_else(|| self.blind.clone()) {
                Some(why) => OwnershipStatus::Unjudged(claim(), why),
                None => OwnershipStatus::Orphaned(claim()),
            };
        };
        let reach = (scheme.reach)(object);
        let never_recorded = matches!(reach, GcEligibility::NeverRecorded(_));
        let never_collected = matches!(reach, GcEligibility::NeverCollected(_));
        let by_others = matches!(reach, GcEligibility::WrittenByOthers(_));
        // Who wrote the mark is known, and it was not the system.
        let foreign = strength == Strength::Bare && !scheme.managers.is_empty() && !object.writers.is_empty();
        match &owner.members {
            Members::Remote(_) => OwnershipStatus::Unjudged(claim(), "remote, not checked".to_owned()),
            Members::Unreadable(why) => OwnershipStatus::Unjudged(claim(), why.clone()),
            Members::Listed(_) if strength == Strength::Bare => match reach {
                GcEligibility::Doubtful(why) => OwnershipStatus::Unjudged(claim(), why.to_owned()),
                _ => OwnershipStatus::Copied(claim()),
            },
            Members::Listed(_) if !never_recorded => OwnershipStatus::Leaked(claim()),
            _ if foreign => OwnershipStatus::Copied(claim()),
            Members::Selected(scope) if by_others && !scope.covers(&object.id) => OwnershipStatus::Copied(claim()),
            Members::Selected(scope) if never_collected || !scope.covers(&object.id) => {
                OwnershipStatus::Leaked(claim())
            }
            Members::Listed(_) | Members::Selected(_) | Members::Unrecorded => {
                OwnershipStatus::Managed(found.claim.owner.clone())
            }
        }
    }
}
