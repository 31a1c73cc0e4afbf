//! From the marks of one object to the owners that can mean it: claims are resolved to live owners, and claims that one
//! system makes on behalf of another are reduced to one.
//!
//! Source: reference ownership-and-prune 2.1. The reduction is fixed: HelmRelease over the Helm release that it drives,
//! Config Sync over ApplySet and cli-utils, Flux v2 over marks that Flux v1 left, an Argo CD tracking-id over its label.
//! Any other two owners of one object are a conflict.

use super::index::Index;
use super::keys::{bits, schemes_of};
use super::schemes::{applyset, cli_utils, config_sync, flux_helmrelease, flux_v1, helm};
use super::{Claim, OwnerId, SCHEMES, Scheme, Strength};
use crate::kubernetes::object::ObjectMetadata;

/// A claim and the scheme that reads it.
#[derive(Clone, Debug)]
pub(crate) struct ResolvedClaim {
    pub(crate) claim: Claim,
    pub(crate) scheme: &'static Scheme,
}

/// Every claim that an object makes, in the order of [`SCHEMES`], as its marks say it: owners are not looked up.
pub fn claims(object: &ObjectMetadata) -> Vec<Claim> {
    read(object).into_iter().map(|(_, found)| found.claim).collect()
}

fn read(object: &ObjectMetadata) -> Vec<(usize, ResolvedClaim)> {
    let claim = |n: usize| Some((n, ResolvedClaim { claim: (SCHEMES[n].claim)(object)?, scheme: SCHEMES[n] }));
    bits(schemes_of(object).member).filter_map(claim).collect()
}

impl Index<'_> {
    /// Every claim of an object, resolved to live owners where they exist, before any reduction: for `--why`.
    pub fn all_claims(&self, object: &ObjectMetadata) -> Vec<Claim> {
        self.resolved(object, self.recorded_by(&object.id)).into_iter().map(|found| found.claim).collect()
    }

    /// The claims of an object that count, after reduction.
    pub fn claims(&self, object: &ObjectMetadata) -> Vec<Claim> {
        self.found(object, self.recorded_by(&object.id)).into_iter().map(|found| found.claim).collect()
    }

    pub(crate) fn found(&self, object: &ObjectMetadata, recorded: &[OwnerId]) -> Vec<ResolvedClaim> {
        let mut found = self.resolved(object, recorded);
        if found.len() > 1 {
            self.reduce(recorded, &mut found);
        }
        found
    }

    fn resolved(&self, object: &ObjectMetadata, recorded: &[OwnerId]) -> Vec<ResolvedClaim> {
        let mut found = read(object);
        for (n, found) in &mut found {
            match found.scheme.proof {
                Some(proof) => self.prove(*n, proof, object, &mut found.claim),
                None => self.resolve(recorded, &mut found.claim),
            }
        }
        found.into_iter().map(|(_, found)| found).collect()
    }

    /// A claim that names an owner by another identity is led to it. Where several owners go by it, the one that
    /// recorded the object is meant, else the one in Argo CD's usual namespace, else the first.
    fn resolve(&self, recorded: &[OwnerId], claim: &mut Claim) {
        if recorded.contains(&claim.owner) || self.owners.contains_key(&claim.owner) {
            return;
        }
        let Some(owners) = self.aliases.get(&claim.owner) else {
            return;
        };
        let live = || owners.iter().filter(|owner| self.owners.contains_key(owner));
        let meant = live().find(|owner| recorded.contains(owner));
        let meant = meant.or_else(|| live().find(|owner| owner.namespace == "argocd")).or_else(|| live().next());
        if let Some(owner) = meant {
            claim.owner = owner.clone();
        }
    }

    fn prove(&self, n: usize, proof: fn(&ObjectMetadata, &str) -> bool, object: &ObjectMetadata, claim: &mut Claim) {
        let mut proofs = self.proofs.iter().filter(|(scheme, ..)| *scheme == n);
        let proven = proofs.find(|(_, secret, _)| proof(object, secret));
        if let Some((.., owner)) = proven {
            claim.owner = owner.clone();
            if object.controller().is_none() {
                claim.strength = Strength::Bound;
                claim.evidence = format!("{}, synced by {owner}", mark_of(&claim.evidence));
            }
        } else if claim.strength == Strength::Bare
            && object.labels.get(flux_v1::MARK).is_some_and(|mark| self.repeated.contains(mark))
        {
            claim.strength = Strength::Contradicted;
            claim.evidence = format!("{}, copied: another object carries the same mark", mark_of(&claim.evidence));
        }
    }

    fn reduce(&self, recorded: &[OwnerId], found: &mut Vec<ResolvedClaim>) {
        let of = |scheme: &Scheme, found: &ResolvedClaim| found.scheme == scheme;
        let counts = |found: &ResolvedClaim| found.claim.strength <= Strength::Bare;
        let release = found.iter().any(|found| of(&flux_helmrelease::SCHEME, found) && counts(found));
        let sync = found.iter().find(|found| of(&config_sync::SCHEME, found) && counts(found)).cloned();
        let flux =
            found.iter().any(|found| found.scheme.system == "flux" && found.claim.strength <= Strength::Corroborated);
        let flux = flux || recorded.iter().any(|owner| owner.system == "flux");
        let live_release = found
            .iter()
            .any(|found| of(&flux_helmrelease::SCHEME, found) && self.owners.contains_key(&found.claim.owner));
        found.retain(|found| {
            let owner = &found.claim.owner;
            // The release of a live HelmRelease is resolved to it already: what is left is another release. One that
            // outlived its HelmRelease is Helm's again.
            let driven =
                of(&helm::SCHEME, found) && release && !live_release && !self.owners.contains_key(&found.claim.owner);
            let synced = sync.as_ref().is_some_and(|sync| {
                let sync = &sync.claim.owner;
                let parent = crate::kubernetes::object::ObjectId::new(
                    "configsync.gke.io",
                    &sync.kind,
                    &sync.namespace,
                    &sync.name,
                );
                *owner == applyset::alias(&applyset::id_of(&parent))
                    || *owner == cli_utils::alias(&format!("{}_{}", sync.namespace, sync.name))
            });
            let taken_over = of(&flux_v1::SCHEME, found) && flux;
            !(driven || synced || taken_over)
        });
        // Two marks of one owner are one claim, as strong as the stronger.
        found.sort_by_key(|found| found.claim.strength);
        let mut at = 0;
        while at < found.len() {
            let owner = found[at].claim.owner.clone();
            let mut seen = 0;
            found.retain(|found| {
                let same = found.claim.owner == owner;
                seen += usize::from(same);
                !same || seen == 1
            });
            at += 1;
        }
    }
}

/// The mark at the start of an evidence text.
fn mark_of(evidence: &str) -> &str {
    evidence.split_once(", ").map_or(evidence, |(mark, _)| mark)
}
