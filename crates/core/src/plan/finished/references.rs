//! Adds to a plan which deleted objects are still needed by what stays.

use std::collections::BTreeMap;

use crate::kubernetes::object::ObjectId;
use crate::kubernetes::references::{Departures, Staying, StillReferenced};
use crate::kubernetes::referrer::Referrer;
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::index::Index;
use crate::ownership::schemes::flux_kustomization::KIND;
use crate::ownership::{OwnerId, OwnershipStatus};
use crate::plan::{Action, Certainty, Change, Plan, ReasonCode};

/// Reasons of owners that name what they lack, so that it is not said twice.
const SAID_BY_OWNER: [ReasonCode; 6] = [
    ReasonCode::SourceMissing,
    ReasonCode::DependencyMissing,
    ReasonCode::DependencyDeleted,
    ReasonCode::ValuesMissing,
    ReasonCode::KeysMissing,
    ReasonCode::KubeConfigMissing,
];

/// Finds the deleted objects that something which stays still refers to, and says so on their rows. What a release or a
/// ResourceSet applied that this change may turn to other objects is no alarm.
pub(super) fn add_references(plan: &mut Plan, index: &Index<'_>) {
    let snapshot = index.snapshot();
    let mut found = still_referenced(plan, snapshot);
    let mut perhaps: BTreeMap<ObjectId, String> = BTreeMap::new();
    for StillReferenced { object, users, .. } in &mut found {
        users.retain(|user| !is_said_by_owner(plan, &user.object));
        users.retain(|user| {
            let Some(owner) = changing_owner(plan, index, &user.object) else { return true };
            perhaps
                .entry(object.clone())
                .or_insert_with(|| format!("still needed unless {owner} changes that: {} {}", user.object, user.usage));
            false
        });
    }
    found.retain(|found| !found.users.is_empty() || found.kept_by.is_some());
    plan.update_changes(|change| {
        if !change.is_deletion() {
            return;
        }
        let kept = change.cause.as_ref().and_then(|cause| found.iter().find(|found| found.object == *cause));
        if kept.is_some_and(|found| found.kept_by.is_some()) {
            change.reason.add_detail("once the claim is gone");
        }
        let certain = found.iter().find(|found| found.object == change.object.id).map(StillReferenced::remark);
        change.reason.remarks.extend(certain.or_else(|| perhaps.remove(&change.object.id)));
    });
    plan.set_still_referenced(found);
}

fn still_referenced(plan: &Plan, snapshot: &Snapshot) -> Vec<StillReferenced> {
    // Of claims of which any may go, what needs some tells which replicas stay.
    let is_open = |change: &Change| change.reason.code == ReasonCode::ScaledDown && change.certainty == Certainty::Race;
    let [gone, recreated] = [Action::Delete, Action::Recreate].map(|action| {
        let changes = plan.changes().iter().filter(|change| change.action == action && !is_open(change));
        changes.map(|change| &change.object.id).collect()
    });
    let departures = Departures { gone, recreated };
    if departures.gone.is_empty() && departures.recreated.is_empty() {
        return vec![];
    }
    let contents = snapshot.clusters().flat_map(|(_, cluster)| &cluster.resources);
    let with_content: Vec<Referrer> = contents.filter_map(Referrer::of_live).collect();
    let live = live_referrers(plan, snapshot).chain(&with_content);
    Staying::new(snapshot, &departures, &plan.referrers().built, live).still_referenced()
}

/// Returns the live objects of which it was read to what they refer.
pub(super) fn live_referrers<'p>(plan: &'p Plan, snapshot: &'p Snapshot) -> impl Iterator<Item = &'p Referrer> {
    let recorded = snapshot.clusters().filter_map(|(_, cluster)| cluster.referrers.as_ref());
    plan.referrers().live.iter().chain(recorded).flatten()
}

/// Returns the release or ResourceSet that manages a live object, if this change affects it and it is not known what it will
/// apply.
fn changing_owner<'p>(plan: &'p Plan, index: &Index<'_>, object: &ObjectId) -> Option<&'p OwnerId> {
    let mut changing = plan.unknown_owners().map(|row| &row.owner).filter(|owner| owner.kind != KIND).peekable();
    changing.peek()?;
    let managing = match index.snapshot().object(object).map(|live| index.status(live)) {
        Some(OwnershipStatus::Managed(owner)) => vec![owner],
        _ => index.recorded_by(object).to_vec(),
    };
    changing.find(|owner| managing.contains(owner))
}

/// Returns true if the reason of an owner names what it lacks.
fn is_said_by_owner(plan: &Plan, owner: &ObjectId) -> bool {
    plan.owners().iter().any(|row| row.owner.is_object(owner) && SAID_BY_OWNER.contains(&row.reason.code))
}
