//! The plan from the cluster alone: what is leaked or orphaned now, under the safety rules for what this tool deletes.
//!
//! Source: design 3.4. Each rule is one arm of [`verdict`]; the same function judges again right before a deletion.

use super::candidates::{Candidate, keep_row, settle};
use crate::kubernetes::object::ObjectMetadata;
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::index::Index;
use crate::ownership::protection::find_protection;
use crate::ownership::{Claim, OwnerId, OwnerStatus, OwnershipStatus, Strength};
use crate::plan::document::{Fidelity, Outcome, OwnerOutcome, Plan};

/// Namespaces that are never deleted.
pub const NEVER: [&str; 4] = ["kube-system", "kube-public", "kube-node-lease", "default"];

/// What the user allowed and asked for.
#[derive(Clone, Debug, Default)]
pub struct PruneOptions {
    /// Only these owners; all when empty.
    pub owners: Vec<OwnerId>,
    /// Only owners in this namespace.
    pub namespace: Option<String>,
    /// Only this system.
    pub system: Option<String>,
    /// Plan orphaned objects too.
    pub include_orphaned: bool,
    /// The user said that no owner lives in another cluster.
    pub no_hub: bool,
    /// Namespaces may be deleted.
    pub allow_namespaces: bool,
    /// Custom resource definitions may be deleted.
    pub allow_crds: bool,
}

impl PruneOptions {
    /// Whether anything was left out by the user.
    pub fn narrow(&self) -> bool {
        !self.owners.is_empty() || self.namespace.is_some() || self.system.is_some()
    }

    /// Whether an owner is one of those that the user asked for.
    pub fn include(&self, owner: &OwnerId) -> bool {
        (self.owners.is_empty() || self.owners.contains(owner))
            && self.namespace.as_ref().is_none_or(|namespace| *namespace == owner.namespace)
            && self.system.as_ref().is_none_or(|system| *system == owner.system)
    }
}

/// What becomes of an object that looks prunable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeakDecision {
    /// It may go, for this reason.
    Delete(&'static str),
    /// It stays, for this reason.
    Keep(String),
}

/// Judges one leaked or orphaned object by itself; the cascade is judged by [`plan`].
pub fn verdict(
    index: &Index<'_>,
    object: &ObjectMetadata,
    standing: &OwnershipStatus,
    wishes: &PruneOptions,
) -> Option<(Claim, LeakDecision)> {
    let (claim, reason) = match standing {
        OwnershipStatus::Leaked(claim) => (claim, "leaked"),
        OwnershipStatus::Orphaned(claim) => (claim, "orphaned"),
        _ => return None,
    };
    let keep = |why: String| Some((claim.clone(), LeakDecision::Keep(why)));
    if !matches!(claim.strength, Strength::Bound | Strength::Corroborated) {
        return keep(format!("bare-claim: only {}, and {} did not write it", claim.evidence, claim.owner.system));
    }
    if !object.references.is_empty() {
        return keep("referenced: it has an owner reference, so something in the cluster made it".to_owned());
    }
    if object.deleting.is_some() {
        return keep(format!("terminating: {}", held_by(object)));
    }
    if let Some(mark) = find_protection(object) {
        return keep(format!("protected: {}={}", mark.key, mark.value));
    }
    if let Some(lister) = index.recorded_by(&object.id).first() {
        return keep(format!("recorded: {lister} lists it"));
    }
    match index.untrusted_reason(object, claim) {
        Some(why) => return keep(format!("owner-not-settled: {}: {why}", claim.owner)),
        None if index.owner(&claim.owner).is_some() => {}
        None if !wishes.include_orphaned => {
            return keep(format!("orphaned: {} does not exist here; --include orphaned plans it", claim.owner));
        }
        None if index.may_live_elsewhere(claim) && !wishes.no_hub => {
            return keep(format!(
                "hub: no {} owner is in this cluster, so they may live in another one; --yes-no-hub says they do not",
                claim.owner.system
            ));
        }
        None => {}
    }
    if object.id.is("", "Namespace") {
        if NEVER.contains(&&*object.id.name) {
            return keep("protected-namespace: this namespace is never deleted".to_owned());
        }
        if !wishes.allow_namespaces {
            return keep("namespace: needs --allow-namespaces".to_owned());
        }
    }
    if object.id.is("apiextensions.k8s.io", "CustomResourceDefinition") && !wishes.allow_crds {
        return keep("crd: needs --allow-crds".to_owned());
    }
    Some((claim.clone(), LeakDecision::Delete(reason)))
}

/// Plans what may be deleted from what the cluster alone shows.
pub fn plan(snapshot: &Snapshot, wishes: &PruneOptions) -> Plan {
    let index = Index::build(snapshot);
    let mut changes = vec![];
    let mut roots = vec![];
    for (object, standing) in index.statuses() {
        let Some((claim, verdict)) = verdict(&index, object, &standing, wishes) else {
            continue;
        };
        if !wishes.include(&claim.owner) {
            continue;
        }
        match verdict {
            LeakDecision::Delete(reason) => {
                roots.push(Candidate { object, owner: Some(claim.owner), reason: reason.to_owned() });
            }
            LeakDecision::Keep(why) => changes.push(keep_row(object, Some(claim.owner), why)),
        }
    }
    let changes = settle(snapshot, &index, roots, changes);
    let owners =
        index.owners().filter(|owner| wishes.include(&owner.id)).map(|owner| outcome(&owner.id, &owner.status));
    Plan::new(snapshot.cluster.clone(), snapshot.gaps.clone(), owners.collect(), changes)
}

fn outcome(owner: &OwnerId, state: &OwnerStatus) -> OwnerOutcome {
    let reason = state.untrusted_reason().unwrap_or_default();
    OwnerOutcome { owner: owner.clone(), outcome: Outcome::Unchanged, reason, fidelity: Fidelity::Unknown }
}

fn held_by(object: &ObjectMetadata) -> String {
    if object.finalizers.is_empty() {
        return "being deleted".to_owned();
    }
    format!("being deleted, held by {}", object.finalizers.join(", "))
}
