//! The plan from the cluster alone: what is leaked or orphaned now, under the safety rules for what this tool deletes.
//!
//! Source: design 3.4. Each rule is one arm of [`verdict`]; the same function judges again right before a deletion.

use std::collections::HashSet;

use super::cascade::{Cascade, Taken};
use super::plan::{Action, Actor, Certainty, Change, Fidelity, Outcome, OwnerOutcome, Plan, Target};
use crate::object::{Object, ObjectId};
use crate::ownership::index::Index;
use crate::ownership::keep::keep_mark;
use crate::ownership::{Claim, OwnerId, OwnerState, Standing, Strength};
use crate::snapshot::Snapshot;

/// Namespaces that are never deleted.
pub const NEVER: [&str; 4] = ["kube-system", "kube-public", "kube-node-lease", "default"];

/// What the user allowed and asked for.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
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

impl Wishes {
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
pub enum Verdict {
    /// It may go, for this reason.
    Delete(&'static str),
    /// It stays, for this reason.
    Keep(String),
}

/// Judges one leaked or orphaned object by itself; the cascade is judged by [`plan`].
pub fn verdict(index: &Index<'_>, object: &Object, standing: &Standing, wishes: &Wishes) -> Option<(Claim, Verdict)> {
    let (claim, reason) = match standing {
        Standing::Leaked(claim) => (claim, "leaked"),
        Standing::Orphaned(claim) => (claim, "orphaned"),
        _ => return None,
    };
    let keep = |why: String| Some((claim.clone(), Verdict::Keep(why)));
    if !matches!(claim.strength, Strength::Bound | Strength::Corroborated) {
        return keep(format!("bare-claim: only {}, and {} did not write it", claim.evidence, claim.owner.system));
    }
    if !object.references.is_empty() {
        return keep("referenced: it has an owner reference, so something in the cluster made it".to_owned());
    }
    if object.deleting.is_some() {
        return keep(format!("terminating: {}", held_by(object)));
    }
    if let Some(mark) = keep_mark(object) {
        return keep(format!("protected: {}={}", mark.key, mark.value));
    }
    if let Some(lister) = index.recorded_by(&object.id).first() {
        return keep(format!("recorded: {lister} lists it"));
    }
    match index.distrust(object, claim) {
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
    Some((claim.clone(), Verdict::Delete(reason)))
}

/// Plans what may be deleted from what the cluster alone shows.
pub fn plan(snapshot: &Snapshot, wishes: &Wishes) -> Plan {
    let index = Index::build(snapshot);
    let mut changes = vec![];
    let mut roots: Vec<(&Object, Claim, &'static str)> = vec![];
    for (object, standing) in index.standings() {
        let Some((claim, verdict)) = verdict(&index, object, &standing, wishes) else {
            continue;
        };
        if !wishes.include(&claim.owner) {
            continue;
        }
        match verdict {
            Verdict::Delete(reason) => roots.push((object, claim, reason)),
            Verdict::Keep(why) => changes.push(row(Action::Keep, object, Some(claim.owner), why)),
        }
    }
    let cascade = Cascade::new(snapshot);
    // A root that stays may be what another root's cascade would have taken along: repeat until nothing changes.
    loop {
        let planned: HashSet<&ObjectId> = roots.iter().map(|(object, ..)| &object.id).collect();
        let spared = |object| cascade.closure([object]).iter().find_map(|taken| blocks(&index, taken.object, &planned));
        let (kept, going): (Vec<_>, Vec<_>) = roots
            .iter()
            .map(|(object, claim, reason)| (spared(*object), *object, claim.clone(), *reason))
            .partition(|(why, ..)| why.is_some());
        roots = going.into_iter().map(|(_, object, claim, reason)| (object, claim, reason)).collect();
        if kept.is_empty() {
            break;
        }
        let rows = kept
            .into_iter()
            .map(|(why, object, claim, _)| row(Action::Keep, object, Some(claim.owner), why.unwrap_or_default()));
        changes.extend(rows);
    }
    let taken = cascade.closure(roots.iter().map(|(object, ..)| *object));
    let going: HashSet<&ObjectId> = taken.iter().map(|taken| &taken.object.id).collect();
    changes.retain(|change| !going.contains(&change.object.id));
    changes.extend(taken.iter().map(|taken| taken_row(&index, taken)));
    let root_row = |(object, claim, reason): (&Object, Claim, &str)| {
        row(Action::Delete, object, Some(claim.owner), reason.to_owned())
    };
    changes.extend(roots.into_iter().map(root_row));
    let owners = index.owners().filter(|owner| wishes.include(&owner.id)).map(|owner| outcome(&owner.id, &owner.state));
    Plan::new(snapshot.cluster.clone(), snapshot.gaps.clone(), owners.collect(), changes)
}

/// Why an object that a cascade would take along keeps the cascade's root, if it does.
fn blocks(index: &Index<'_>, object: &Object, planned: &HashSet<&ObjectId>) -> Option<String> {
    if let Some(mark) = keep_mark(object) {
        return Some(format!("cascade: would take {} along, protected by {}={}", object.id, mark.key, mark.value));
    }
    if let Some(owner) = index.recorded_by(&object.id).first() {
        return Some(format!("cascade: would take {} along, which {owner} lists", object.id));
    }
    if planned.contains(&object.id) {
        return None;
    }
    match index.standing(object) {
        Standing::Leaked(claim) | Standing::Orphaned(claim) => {
            Some(format!("cascade: would take {} along, which claims {}", object.id, claim.owner))
        }
        Standing::Managed(owner) => Some(format!("cascade: would take {} along, which {owner} manages", object.id)),
        Standing::Conflict(owners) => {
            Some(format!("cascade: would take {} along, which {} owners claim", object.id, owners.len()))
        }
        Standing::Unjudged(claim, why) => {
            Some(format!("cascade: would take {} along, which claims {}: {why}", object.id, claim.owner))
        }
        Standing::Unmanaged | Standing::Copied(_) => {
            Some(format!("cascade: would take {} along, which nothing in this plan owns", object.id))
        }
        _ => None,
    }
}

fn row(action: Action, object: &Object, owner: Option<OwnerId>, reason: String) -> Change {
    let by = Actor::KubectlGitops;
    Change { action, certainty: Certainty::Certain, object: Target::from(object), owner, by, reason, cause: None }
}

fn taken_row(index: &Index<'_>, taken: &Taken<'_>) -> Change {
    let owner = match index.standing(taken.object) {
        Standing::Managed(owner) => Some(owner),
        Standing::Leaked(claim) | Standing::Orphaned(claim) => Some(claim.owner),
        _ => None,
    };
    let reason = match taken.by {
        Actor::NamespaceController => "in-namespace",
        Actor::CrdFinalizer => "custom-resource",
        _ => "dependent",
    };
    Change {
        cause: Some(taken.cause.clone()),
        by: taken.by,
        ..row(Action::Delete, taken.object, owner, reason.to_owned())
    }
}

fn outcome(owner: &OwnerId, state: &OwnerState) -> OwnerOutcome {
    let reason = state.distrust().unwrap_or_default();
    OwnerOutcome { owner: owner.clone(), outcome: Outcome::Unchanged, reason, fidelity: Fidelity::Unknown }
}

fn held_by(object: &Object) -> String {
    if object.finalizers.is_empty() {
        return "being deleted".to_owned();
    }
    format!("being deleted, held by {}", object.finalizers.join(", "))
}
