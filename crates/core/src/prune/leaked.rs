//! The plan from the cluster alone: objects that are leaked or orphaned now, under the safety rules for deletions by this
//! tool (docs/reference/ownership.md 8).
//!
//! [`evaluate`] applies the rules to one object; it also re-evaluates an object right before its deletion.

use super::candidates::{Candidate, apply_cascade_rules, keep_row};
use super::reevaluation::no_longer_claimed;
use crate::kubernetes::object::ObjectMetadata;
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::index::Index;
use crate::ownership::rules::protection::find_protection;
use crate::ownership::{Claim, OwnerId, OwnerStatus, OwnershipStatus, Strength};
use crate::plan::grave::{AllowedKinds, is_protected_namespace};
use crate::plan::{Change, Outcome, OwnerOutcome, Plan, Reason, ReasonCode};

/// Selection and permissions given by the user.
#[derive(Clone, Debug, Default)]
pub struct PruneOptions {
    /// Owners to plan for; all if empty.
    pub owners: Vec<OwnerId>,
    /// Namespace of the owners to plan for; all if `None`.
    pub namespace: Option<String>,
    /// System to plan for; all if `None`.
    pub system: Option<String>,
    /// Plans orphaned objects too.
    pub include_orphaned: bool,
    /// Asserts that no owner is in another cluster.
    pub assume_no_hub: bool,
    /// Permissions to delete grave kinds.
    pub allowed: AllowedKinds,
}

impl PruneOptions {
    /// Returns true if the user selected some owners.
    pub fn is_restricted(&self) -> bool {
        !self.owners.is_empty() || self.namespace.is_some() || self.system.is_some()
    }

    /// Returns true if an owner is selected.
    pub fn includes(&self, owner: &OwnerId) -> bool {
        (self.owners.is_empty() || self.owners.contains(owner))
            && self.namespace.as_ref().is_none_or(|namespace| *namespace == owner.namespace)
            && self.system.as_ref().is_none_or(|system| *system == owner.system)
    }
}

/// Decision about an object that looks prunable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeakDecision {
    /// The object may be deleted.
    Delete(Reason),
    /// The object stays, for this reason.
    Keep(Reason),
}

/// Applies the safety rules to one object without its cascade; `None` if it is neither leaked nor orphaned.
pub fn evaluate(
    index: &Index<'_>,
    object: &ObjectMetadata,
    status: &OwnershipStatus,
    options: &PruneOptions,
) -> Option<(Claim, LeakDecision)> {
    let (claim, code) = match status {
        OwnershipStatus::Leaked(claim) => (claim, ReasonCode::Leaked),
        OwnershipStatus::Orphaned(claim) => (claim, ReasonCode::Orphaned),
        _ => return None,
    };
    let decision = match reason_to_keep(index, object, claim, options) {
        Some(reason) => LeakDecision::Keep(reason),
        None => LeakDecision::Delete(code.into()),
    };
    Some((claim.clone(), decision))
}

fn reason_to_keep(index: &Index<'_>, object: &ObjectMetadata, claim: &Claim, options: &PruneOptions) -> Option<Reason> {
    if !matches!(claim.strength, Strength::Bound | Strength::Corroborated) {
        let detail = format!("only {}, and {} did not write it", claim.evidence, claim.owner.system);
        return Some(Reason::new(ReasonCode::BareClaim, detail));
    }
    if !object.owner_references.is_empty() {
        let detail = "it has an owner reference, so something in the cluster created it";
        return Some(Reason::new(ReasonCode::Referenced, detail));
    }
    if object.deletion_timestamp.is_some() {
        return Some(Reason::new(ReasonCode::Terminating, terminating_detail(object)));
    }
    if let Some(mark) = find_protection(object) {
        return Some(Reason::new(ReasonCode::Protected, format!("{}={}", mark.key, mark.value)));
    }
    if let Some(owner) = index.recorded_by(&object.id).first() {
        return Some(Reason::new(ReasonCode::Recorded, format!("{owner} lists it")));
    }
    if let Some(why) = index.untrusted_reason(object, claim) {
        return Some(Reason::new(ReasonCode::OwnerUntrusted, format!("{}: {why}", claim.owner)));
    }
    if let Some(why) = unproven(index, object, claim, options) {
        return Some(Reason::new(ReasonCode::OwnerUntrusted, why));
    }
    if index.owner(&claim.owner).is_none() {
        if !options.include_orphaned {
            return Some(Reason::new(ReasonCode::Orphaned, format!("{} does not exist in this cluster", claim.owner)));
        }
        if index.may_live_elsewhere(object, claim) && !options.assume_no_hub {
            let system = &claim.owner.system;
            let detail = format!("no {system} owner is in this cluster, so owners may be in another cluster");
            return Some(Reason::new(ReasonCode::OwnerElsewhere, detail));
        }
    }
    if is_protected_namespace(&object.id) {
        return Some(ReasonCode::ProtectedNamespace.into());
    }
    options.allowed.missing_for(&object.id).map(|kind| Reason::new(ReasonCode::NotAllowed, kind.name()))
}

/// Returns the reason why somebody else than the owner may have decided that an object looks prunable.
fn unproven(index: &Index<'_>, object: &ObjectMetadata, claim: &Claim, options: &PruneOptions) -> Option<String> {
    if let Some((owner, needed)) = index.unproven_owner(claim) {
        return Some(format!(
            "{owner} has the identity that the object names, but anybody can take it; a proof would be {needed}"
        ));
    }
    let owner = index.owner(&claim.owner)?;
    let is_open = owner.is_open_to_tenants(&object.id) && !options.owners.contains(&owner.id);
    is_open.then(|| {
        let namespace = &owner.id.namespace;
        format!(
            "{}: whoever may write in namespace {namespace} may change its record, and the object is not there; \
             plan for this owner by its name to trust it",
            owner.id
        )
    })
}

/// Re-evaluates a planned object on a newer index, without its cascade. Returns the reason to keep it, or `None` to delete
/// it. A claim that the plan saw as leaked must still be leaked, with the same owner, and so for orphaned objects.
pub fn reevaluate(index: &Index<'_>, change: &Change, options: &PruneOptions) -> Option<Reason> {
    let id = &change.object.id;
    let Some(object) = index.snapshot().object(id) else { return Some(no_longer_claimed(index, id)) };
    let Some((claim, decision)) = evaluate(index, object, &index.status(object), options) else {
        return Some(no_longer_claimed(index, id));
    };
    match decision {
        LeakDecision::Keep(reason) => Some(reason),
        LeakDecision::Delete(reason)
            if reason.code == change.reason.code && change.owner.as_ref() == Some(&claim.owner) =>
        {
            None
        }
        LeakDecision::Delete(reason) => {
            let detail =
                format!("it was {} when the plan was made; now it is {reason}, by {}", change.reason, claim.owner);
            Some(Reason::new(ReasonCode::OwnerChanged, detail))
        }
    }
}

/// Plans the deletion of leaked and, where permitted, orphaned objects.
pub fn plan(index: &Index<'_>, options: &PruneOptions) -> Plan {
    let snapshot: &Snapshot = index.snapshot();
    let mut kept = vec![];
    let mut candidates = vec![];
    for (object, status) in index.statuses() {
        let Some((claim, decision)) = evaluate(index, object, &status, options) else { continue };
        if !options.includes(&claim.owner) {
            continue;
        }
        match decision {
            LeakDecision::Delete(reason) => candidates.push(Candidate { object, owner: Some(claim.owner), reason }),
            LeakDecision::Keep(reason) => kept.push(keep_row(object, Some(claim.owner), reason)),
        }
    }
    let mut plan = Plan::new(snapshot.cluster.clone());
    plan.add_gaps(snapshot.gaps.iter().cloned());
    let owners = index.owners().filter(|owner| options.includes(&owner.id));
    plan.add_owners(owners.map(|owner| owner_outcome(&owner.id, &owner.status)));
    plan.add_changes(apply_cascade_rules(index, candidates, kept, options.allowed));
    plan
}

fn owner_outcome(owner: &OwnerId, status: &OwnerStatus) -> OwnerOutcome {
    let reason = match status {
        OwnerStatus::Ready => Reason::from(ReasonCode::Ready),
        OwnerStatus::Suspended => ReasonCode::Suspended.into(),
        OwnerStatus::NotReady(why) => Reason::new(ReasonCode::NotReady, why),
        OwnerStatus::Reconciling => ReasonCode::Reconciling.into(),
        OwnerStatus::Changed => ReasonCode::ChangedDuringRead.into(),
        OwnerStatus::Terminating => ReasonCode::Terminating.into(),
    };
    OwnerOutcome::new(owner.clone(), Outcome::Unchanged, reason)
}

fn terminating_detail(object: &ObjectMetadata) -> String {
    if object.finalizers.is_empty() {
        return String::new();
    }
    format!("waiting for {}", object.finalizers.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ownership::schemes::flux_kustomization::KIND;
    use crate::plan::Action;
    use crate::testing::{Build, kustomization, object, snapshot};

    #[test]
    fn a_selection_restricts_the_plan() {
        let options = PruneOptions::default();
        assert!(!options.is_restricted());
        let namespace = PruneOptions { namespace: Some("n".to_owned()), ..options.clone() };
        let system = PruneOptions { system: Some("flux".to_owned()), ..options.clone() };
        let owners = PruneOptions { owners: vec![OwnerId::new("flux", KIND, "n", "a")], ..options };
        assert!(namespace.is_restricted() && system.is_restricted() && owners.is_restricted());
    }

    /// A ConfigMap that a missing Kustomization applied, with or without another Kustomization in the cluster.
    fn orphan(has_other_owner: bool) -> Snapshot {
        let owners = if has_other_owner { vec![kustomization("apps", &[])] } else { vec![] };
        snapshot(vec![object("", "ConfigMap", "n", "a").of_kustomization("gone")], owners)
    }

    #[test]
    fn an_orphaned_object_is_deleted_on_request_if_its_owner_cannot_be_in_another_cluster() {
        let decide = |has_other_owner: bool, include_orphaned: bool, assume_no_hub: bool| {
            let snapshot = orphan(has_other_owner);
            let (index, object) = (Index::build(&snapshot), &snapshot.objects[0]);
            let options = PruneOptions { include_orphaned, assume_no_hub, ..PruneOptions::default() };
            match evaluate(&index, object, &index.status(object), &options).unwrap().1 {
                LeakDecision::Delete(reason) => format!("delete {}", reason.code),
                LeakDecision::Keep(reason) => format!("keep {}", reason.code),
            }
        };
        assert_eq!(decide(true, false, false), "keep orphaned");
        assert_eq!(decide(true, true, false), "delete orphaned");
        assert_eq!(decide(false, true, false), "keep owner-elsewhere");
        assert_eq!(decide(false, true, true), "delete orphaned");
    }

    #[test]
    fn a_planned_object_must_have_the_owner_and_the_reason_of_the_plan() {
        let snapshot = orphan(true);
        let index = Index::build(&snapshot);
        let options = PruneOptions { include_orphaned: true, ..PruneOptions::default() };
        let reason = |owner: &str, code: ReasonCode| {
            let owner = OwnerId::new("flux", KIND, "flux-system", owner);
            let row =
                Change::new(Action::Delete, &snapshot.objects[0], Some(owner), crate::plan::Actor::KubectlGitops, code);
            reevaluate(&index, &row, &options).map(|reason| reason.code)
        };
        assert_eq!(reason("gone", ReasonCode::Orphaned), None);
        assert_eq!(reason("other", ReasonCode::Orphaned), Some(ReasonCode::OwnerChanged));
        assert_eq!(reason("gone", ReasonCode::Leaked), Some(ReasonCode::OwnerChanged));
    }

    #[test]
    fn the_finalizers_of_a_terminating_object_are_named() {
        let mut object = object("", "ConfigMap", "n", "a");
        assert_eq!(terminating_detail(&object), "");
        object.finalizers = vec!["example.com/a".into(), "example.com/b".into()];
        assert_eq!(terminating_detail(&object), "waiting for example.com/a, example.com/b");
    }
}
