//! Claims of one object, resolved to live owners, without those that one system makes on behalf of another.
//!
//! Source: docs/reference/ownership.md 3. Each scheme says which claims it supersedes ([`Scheme::supersedes`]). Any other two
//! owners of one object are a conflict.

use super::index::{Index, Owner};
use super::rules::keys::{bits, schemes_of};
use super::scheme::claim::{Claim, OwnerId, Strength, is_not_before, is_older, writers_of};
use super::scheme::members::Members;
use super::scheme::{Claimant, Scheme};
use super::schemes::registry::SCHEMES;
use crate::kubernetes::object::ObjectMetadata;

/// A claim and the scheme that reads it.
#[derive(Clone, Debug)]
pub(crate) struct ResolvedClaim {
    pub(crate) claim: Claim,
    pub(crate) scheme: &'static Scheme,
}

impl Index<'_> {
    /// Returns the claims of an object that no other claim supersedes.
    pub fn claims(&self, object: &ObjectMetadata) -> Vec<Claim> {
        self.resolved_claims(object, self.recorded_by(&object.id)).into_iter().map(|found| found.claim).collect()
    }

    pub(crate) fn resolved_claims(&self, object: &ObjectMetadata, recorded: &[OwnerId]) -> Vec<ResolvedClaim> {
        let mut claims = self.all_resolved_claims(object, recorded);
        if claims.len() > 1 {
            self.remove_superseded(recorded, &mut claims);
            merge_claims_of_one_owner(&mut claims);
        }
        claims
    }

    /// Returns every claim of an object in the order of the registry.
    pub(crate) fn all_resolved_claims(&self, object: &ObjectMetadata, recorded: &[OwnerId]) -> Vec<ResolvedClaim> {
        let mut claims: Vec<ResolvedClaim> = vec![];
        for n in bits(schemes_of(object).member) {
            let scheme = SCHEMES[n];
            let Some(mut claim) = (scheme.claim)(object) else { continue };
            match scheme.verify {
                Some(verify) => self.verify_claim(n, verify, object, &mut claim),
                None => self.resolve_alias(recorded, &claims, &mut claim),
            }
            self.compare_with_owner(scheme, object, &mut claim);
            claims.push(ResolvedClaim { claim, scheme });
        }
        claims
    }

    /// Resolves a claim made under an alias to a live owner: the one that recorded the object, that another claim of the
    /// object names, or whose alias is proven. Anybody can take another alias, so an owner without proof is meant only
    /// where the object stays: if it has no list, or if nothing but labels and annotations claims the object.
    fn resolve_alias(&self, recorded: &[OwnerId], others: &[ResolvedClaim], claim: &mut Claim) {
        let live = self.owners_with_alias(&claim.owner);
        let named = live
            .iter()
            .find(|owner| recorded.contains(&owner.id) || others.iter().any(|other| other.claim.owner == owner.id));
        let proven = live.iter().find(|owner| is_proven(owner, &claim.owner));
        let is_bare = claim.strength >= Strength::Bare;
        let harmless = live.iter().find(|owner| is_bare || !matches!(owner.members, Members::Listed(_)));
        if let Some(owner) = named.or(proven).or(harmless) {
            claim.owner = owner.id.clone();
        }
    }

    /// Returns the live owners with an alias, none if it is the identity of a live owner.
    fn owners_with_alias(&self, alias: &OwnerId) -> Vec<&Owner<'_>> {
        if self.owners.contains_key(alias) {
            return vec![];
        }
        self.aliases.get(alias).into_iter().flatten().filter_map(|id| self.owner(id)).collect()
    }

    /// Returns a live owner with the alias that a claim names, and what would prove that it is meant.
    pub(crate) fn unproven_owner(&self, claim: &Claim) -> Option<(&OwnerId, &'static str)> {
        let owners = self.owners_with_alias(&claim.owner);
        owners.into_iter().find_map(|owner| Some((&owner.id, owner.scheme.alias_proof?.needed)))
    }

    /// Weakens a claim if all its entries are older than the owner: something else wrote them under the name of the
    /// controller, or the controller did for an earlier owner of this name. If the claim names its object, every manager
    /// counts, and without an entry the object itself.
    fn compare_with_owner(&self, scheme: &Scheme, object: &ObjectMetadata, claim: &mut Claim) {
        if claim.strength > Strength::Corroborated {
            return;
        }
        let Some(owner) = self.owner(&claim.owner).and_then(|owner| owner.object) else { return };
        let is_bound = claim.strength == Strength::Bound;
        let mut entries = writers_of(object, scheme.member_keys)
            .filter(|writer| is_bound || scheme.managers.contains(&&*writer.manager))
            .peekable();
        let is_older = match entries.peek() {
            Some(_) => !entries.any(|writer| is_not_before(writer, owner)),
            None => is_bound && is_older(object, owner),
        };
        if is_older {
            claim.strength = Strength::Bare;
            claim.evidence.witness = Some("written before its owner was created".into());
        }
    }

    /// Verifies a claim that does not name its owner against every known owner of scheme `n`.
    fn verify_claim(
        &self,
        n: usize,
        verify: fn(&ObjectMetadata, &str) -> bool,
        object: &ObjectMetadata,
        claim: &mut Claim,
    ) {
        let keys = self.verification_keys.iter().filter(|(scheme, ..)| *scheme == n);
        let matching: Vec<&OwnerId> = keys.filter(|(_, key, _)| verify(object, key)).map(|(.., id)| id).collect();
        // Anybody can run a second one with another scope.
        let covering = matching.iter().find(|id| self.owner(id).is_some_and(|owner| owner.covers(&object.id)));
        if let Some(owner) = covering.or(matching.first()).copied() {
            claim.owner = owner.clone();
            if object.controller_reference().is_none() {
                claim.strength = Strength::Bound;
                claim.evidence.witness = Some(format!("synced by {owner}").into());
            }
            return;
        }
        let value = SCHEMES[n].unique_label.and_then(|key| object.labels.get(key));
        if claim.strength == Strength::Bare && value.is_some_and(|value| self.repeated_labels.contains(&(n, value))) {
            claim.strength = Strength::Contradicted;
            claim.evidence.witness = Some("copied: another object has the same label".into());
        }
    }

    /// Removes the claims that other claims, or the owners that recorded the object, supersede.
    fn remove_superseded(&self, recorded: &[OwnerId], claims: &mut Vec<ResolvedClaim>) {
        let is_superseded: Vec<bool> = claims
            .iter()
            .map(|claim| {
                let own = self.claimant(&claim.claim);
                let by_claim = claims.iter().any(|other| (other.scheme.supersedes)(&self.claimant(&other.claim), &own));
                by_claim || self.recorders(recorded).any(|(scheme, other)| (scheme.supersedes)(&other, &own))
            })
            .collect();
        let mut superseded = is_superseded.into_iter();
        claims.retain(|_| !superseded.next().unwrap_or_default());
    }

    fn claimant<'c>(&self, claim: &'c Claim) -> Claimant<'c> {
        let is_live = self.owners.contains_key(&claim.owner);
        Claimant { owner: &claim.owner, strength: claim.strength, is_live }
    }

    fn recorders<'r>(&'r self, recorded: &'r [OwnerId]) -> impl Iterator<Item = (&'static Scheme, Claimant<'r>)> {
        let owners = recorded.iter().filter_map(|id| self.owner(id));
        owners.map(|owner| (owner.scheme, Claimant { owner: &owner.id, strength: Strength::Bound, is_live: true }))
    }
}

fn is_proven(owner: &Owner<'_>, alias: &OwnerId) -> bool {
    owner.scheme.alias_proof.is_none_or(|proof| (proof.is_proven)(alias, &owner.id))
}

/// Keeps the strongest of several claims that name the same owner.
fn merge_claims_of_one_owner(claims: &mut Vec<ResolvedClaim>) {
    claims.sort_by_key(|found| found.claim.strength);
    let mut at = 1;
    while at < claims.len() {
        if claims[..at].iter().any(|stronger| stronger.claim.owner == claims[at].claim.owner) {
            claims.remove(at);
        } else {
            at += 1;
        }
    }
}
