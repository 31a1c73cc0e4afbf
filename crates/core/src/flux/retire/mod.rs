//! Steps that remove owners with everything that they have, in an order in which nothing is stuck or left over.
//!
//! [`order`] proposes the order. [`Order::judge`] reads the plan of each step, in every order of events, and refuses what it does not
//! allow: something that an owner which stays manages, an object that stays terminating, an owner that is blocked.

mod callers;
mod finalizers;
mod order;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde::Serialize;

use crate::flux::controllers::{foreign_finalizers, is_of_flux};
use crate::flux::handover::HandoverStep;
use crate::flux::kinds::FluxKind;
use crate::flux::spec::{NamespacedName, SourceId};
use crate::kubernetes::deletion::volumes::{self, CLAIM, Volumes};
use crate::kubernetes::object::{GroupKind, ObjectId, Resource, ResourceType};
use crate::kubernetes::referrer::Usage;
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::index::{Index, Owner};
use crate::ownership::rules::protection::find_protection;
use crate::ownership::schemes::flux_kustomization::KIND;
use crate::ownership::{Members, OwnerId, OwnershipStatus};
use crate::plan::mask::SecretMask;
use crate::plan::{Action, Certainty, Change, FinishedPlan, Outcome, Reason, ReasonCode};
use order::hint_to_retire;
pub use order::{DefaultAccounts, NoOrder, Order, Unit, Way, ensure_own, order};

/// Name of the JSON schema; a contract with programs.
pub const SCHEMA: &str = "kubectl-gitops/retire/v1";

/// Hint for an owner that stays and that a step would block.
const RETIRE_TOO: &str = "retire it too, or merge a change by which it needs nothing of what is removed first";

/// The proposed list of steps.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Retirement {
    schema: &'static str,
    /// Every plan is complete.
    complete: bool,
    /// Owners that are removed.
    pub owners: Vec<OwnerId>,
    /// Claims that are deleted, with what becomes of their data.
    pub data: Vec<ClaimFate>,
    pub steps: Vec<HandoverStep>,
    /// Objects of the owners, and objects that lost their owner, that are there after the last step.
    pub left_over: Vec<ObjectId>,
    /// Sources that only the removed owners use.
    pub unused_sources: Vec<ObjectId>,
    /// Owners that stay, and that have no objects any more.
    pub emptied_owners: Vec<OwnerId>,
}

/// Fate of the data of a deleted claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ClaimFate {
    pub claim: ObjectId,
    /// Step that deletes it.
    pub step: usize,
    /// Volume that it is bound to; `null` if there is none.
    pub volume: Option<ObjectId>,
    /// Effect of the reclaim policy of the volume on the data.
    pub reason: Reason,
    /// The data may be gone afterwards.
    pub loses_data: bool,
    /// VolumeSnapshots in the namespace of the claim that stay. Whether they are of this claim was not read.
    pub snapshots: Vec<ObjectId>,
    /// VolumeSnapshots in the namespace of the claim that a step deletes too.
    pub deleted_snapshots: Vec<ObjectId>,
}

impl ClaimFate {
    /// Returns the same with placeholders in place of values of Secrets.
    #[must_use]
    pub fn masked(self, secrets: &SecretMask) -> Self {
        let reason = self.reason.with_texts(|text| secrets.mask(text));
        let [snapshots, deleted_snapshots] =
            [&self.snapshots, &self.deleted_snapshots].map(|ids| ids.iter().map(|id| secrets.written(id)).collect());
        let volume = self.volume.as_ref().map(|id| secrets.written(id));
        Self { claim: secrets.written(&self.claim), volume, reason, snapshots, deleted_snapshots, ..self }
    }
}

impl Retirement {
    /// Creates the list of these steps, between the first and the last of the states. `secrets` are the names that their
    /// plans must not show.
    pub fn new(
        order: &Order,
        mut data: Vec<ClaimFate>,
        steps: Vec<HandoverStep>,
        (first, last): (&Snapshot, &Snapshot),
        secrets: &[SecretMask],
    ) -> Self {
        let complete = steps.iter().all(|step| step.plan.is_complete());
        let deleted: BTreeSet<&ObjectId> =
            steps.iter().flat_map(|step| step.plan.deletions()).map(|change| &change.object.id).collect();
        for fate in &mut data {
            fate.deleted_snapshots.extend(fate.snapshots.extract_if(.., |id| deleted.contains(id)));
        }
        let masked = |owner: &OwnerId| secrets.iter().fold(owner.clone(), |owner, mask| mask.masked_owner(owner));
        let owners = order.owners.iter().map(masked).collect();
        let emptied_owners = emptied_owners(first, last).iter().map(masked).collect();
        let left_over = SecretMask::written_by_all(secrets, order.left_over(first, last));
        let unused_sources = SecretMask::written_by_all(secrets, unused_sources(first, last));
        Self { schema: SCHEMA, complete, owners, data, steps, left_over, unused_sources, emptied_owners }
    }

    /// Returns true if every plan is complete.
    pub fn is_complete(&self) -> bool {
        self.complete
    }
}

/// Returns the sources that something used in the first state and that nothing uses in the last one, where they still are.
fn unused_sources(first: &Snapshot, last: &Snapshot) -> Vec<ObjectId> {
    let [before, after] =
        [first, last].map(|state| state.resources.iter().flat_map(sources_of).collect::<BTreeSet<ObjectId>>());
    (&before - &after).into_iter().filter(|id| last.object(id).is_some()).collect()
}

/// Returns the owners of which something is there in the first state and nothing in the last one, where they still are.
fn emptied_owners(first: &Snapshot, last: &Snapshot) -> Vec<OwnerId> {
    let (before, after) = (Index::build(first), Index::build(last));
    let has_objects = |index: &Index<'_>, owner: &Owner<'_>| {
        let Members::Listed(members) = &owner.members else { return false };
        let mut others = members.iter().filter(|id| !owner.id.is_object(id));
        others.any(|id| index.snapshot().object(id).is_some())
    };
    let full = before.owners().filter(|owner| has_objects(&before, owner));
    let emptied = full.filter(|owner| after.owner(&owner.id).is_some_and(|owner| !has_objects(&after, owner)));
    emptied.map(|owner| owner.id.clone()).collect()
}

/// Returns the sources that an object of Flux names.
fn sources_of(full: &Resource) -> Vec<ObjectId> {
    let references = FluxKind::of(full).map_or(&[][..], |kind| kind.sources).iter();
    let named = references.filter_map(|(pointer, kind)| {
        Some(SourceId::read(full.at(pointer)?, kind, &full.object.id.namespace).object())
    });
    named.collect()
}

/// Returns what becomes of the data of the claims that a step deletes.
pub fn fates(plan: &FinishedPlan, snapshot: &Snapshot, step: usize) -> Vec<ClaimFate> {
    let found = Volumes::new(snapshot);
    let kind = GroupKind::new("", volumes::KIND);
    let are_read = snapshot.has_read(&kind);
    let claims = plan.deletions().filter(|change| change.object.id.is_here("", CLAIM));
    let live = claims.filter_map(|change| snapshot.object(&change.object.id));
    let fates = live.flat_map(|claim| {
        let near =
            |id: &&ObjectId| id.is("snapshot.storage.k8s.io", "VolumeSnapshot") && id.namespace == claim.id.namespace;
        let snapshots: Vec<ObjectId> = snapshot.ids().filter(near).cloned().collect();
        let all = found.of(claim, plan.policy_changes()).into_iter();
        let mut of_volumes: Vec<(Option<ObjectId>, Reason, bool)> =
            all.map(|(volume, outcome)| (Some(volume.id.clone()), outcome.into(), outcome.loses_data())).collect();
        // A claim without a volume has no data.
        if of_volumes.is_empty() && !are_read {
            of_volumes.push((None, Reason::new(ReasonCode::Unread, "volumes could not be read"), true));
        }
        of_volumes.into_iter().map(move |(volume, reason, loses_data)| ClaimFate {
            claim: claim.id.clone(),
            step,
            volume,
            reason,
            loses_data,
            snapshots: snapshots.clone(),
            deleted_snapshots: vec![],
        })
    });
    fates.collect()
}

impl Order {
    /// Checks the plan of a step, which begins with the state `before` and ends with `after`.
    ///
    /// Fails with the first object that shows that nothing may be removed in this order.
    pub fn judge(
        &self,
        units: &[Unit],
        plan: &FinishedPlan,
        before: &Snapshot,
        after: &Snapshot,
    ) -> Result<(), NoOrder> {
        let index = Index::build(before);
        plan.deletions().try_for_each(|change| self.judge_deletion(change, plan, &index))?;
        if let Some(blocked) =
            plan.blocked_by_finalizers().iter().find(|blocked| !is_served(&blocked.object, &index, after))
        {
            let why = match (&blocked.controller, &blocked.detail) {
                (Some(controller), _) => format!(": {controller} is deleted in the same step"),
                (None, Some(detail)) => format!(": {detail}"),
                (None, None) => String::new(),
            };
            let rule = format!("it stays Terminating with the finalizer {}{why}", blocked.finalizers.join(", "));
            let no_order = NoOrder::new(&blocked.object, rule);
            let is_of_flux = blocked.finalizers.iter().all(|finalizer| is_of_flux(finalizer));
            let hint = "it removes the controller itself: leave what Flux needs, or end with `flux uninstall`";
            return Err(if is_of_flux { no_order.hint(hint) } else { no_order });
        }
        for found in plan.still_referenced() {
            let calling = found.users.iter().find(|user| user.usage == Usage::Calls);
            if found.kept_by.is_some() || calling.is_some() {
                return Err(NoOrder::new(&found.object, format!("it is {}", found.remark())));
            }
            if let Some(user) = found.users.iter().find(|user| self.stays_ready(&user.object, &index)) {
                let rule = format!("it stays, and needs {}, which the step deletes", found.object);
                return Err(NoOrder::new(&user.object, rule).hint(RETIRE_TOO));
            }
        }
        for caller in &self.callers {
            if let Some(workload) = caller.loses(before, after) {
                let (calling, service) = (&caller.object, &caller.service);
                let rule = format!("{calling}, which stays, calls {service}, and no other workload answers");
                return Err(NoOrder::new(workload, rule).hint(format!("remove {calling} first")));
            }
        }
        for row in plan.owners().iter().filter(|row| !self.owners.contains(&row.owner)) {
            let live = index.owner(&row.owner).and_then(|owner| owner.full);
            let is_well = live.is_some_and(|live| live.is_true("Ready"));
            let is_blocked = row.outcome == Outcome::Blocked && is_well && row.reason.code != ReasonCode::Suspended;
            // It is blocked from then on, even if it applies the commit before what it needs is deleted.
            if let Some(live) = live.filter(|_| is_blocked || row.loses_what_it_needs()) {
                let rule = format!("it stays, and the step blocks it: {}", row.reason);
                return Err(NoOrder::new(&live.object.id, rule).hint(RETIRE_TOO));
            }
        }
        if let Some(row) = plan.owners().iter().find(|row| row.reason.code == ReasonCode::OwnerStuck) {
            let id = index.owner(&row.owner).and_then(|owner| Some(owner.object?.id.clone()));
            return Err(NoOrder::new(
                &id.unwrap_or_else(|| ObjectId::new("", &row.owner.kind, &row.owner.namespace, &row.owner.name)),
                &*row.reason.detail,
            ));
        }
        let removed = units.iter().flat_map(|unit| &unit.removes);
        match removed.into_iter().find(|id| after.object(id).is_some()) {
            None => Ok(()),
            Some(id) => {
                let row = plan.changes().iter().find(|change| change.object.id == *id);
                let why = row
                    .map_or_else(|| "nothing deletes it".to_owned(), |row| format!("{}: {}", row.action, row.reason));
                Err(NoOrder::new(id, format!("it is still there after the step that removes it ({why})")))
            }
        }
    }

    /// Returns true for an owner that is ready and that no step removes.
    fn stays_ready(&self, id: &ObjectId, index: &Index<'_>) -> bool {
        let owner = index.owner_of_object(id).filter(|owner| !self.owners.contains(&owner.id));
        owner.and_then(|owner| owner.full).is_some_and(|live| live.is_true("Ready"))
    }

    fn judge_deletion(&self, change: &Change, plan: &FinishedPlan, index: &Index<'_>) -> Result<(), NoOrder> {
        let id = &change.object.id;
        let managers = index.recorded_by(id);
        if !managers.is_empty() && !managers.iter().any(|owner| self.owners.contains(owner)) && !self.takes(id) {
            let rule = format!("{}, which stays, manages it, and it would be deleted: {}", managers[0], change.reason);
            return Err(NoOrder::new(id, rule));
        }
        let is_open = change.certainty == Certainty::Race && self.depends_on_order(change, plan);
        let other = self.staying_applier(id, index).filter(|_| self.takes(id));
        if let Some(other) = other.filter(|_| is_open || change.action == Action::Recreate) {
            let hint = index.owner(other).and_then(|owner| owner.object).map(|object| hint_to_retire(&object.id));
            let no_order = NoOrder::new(id, format!("{other}, which stays, applies it too"));
            return Err(NoOrder { hint, ..no_order });
        }
        if change.action == Action::Recreate && self.takes(id) {
            return Err(NoOrder::new(id, format!("it is made again: {}", change.reason)));
        }
        if is_open && self.takes(id) {
            return Err(NoOrder::new(id, format!("it may stay: {}", change.reason)));
        }
        Ok(())
    }

    /// Returns an owner of an object that stays, and whose manifest of the object no step removes.
    fn staying_applier<'i>(&self, id: &ObjectId, index: &'i Index<'_>) -> Option<&'i OwnerId> {
        let units = self.steps.iter().flatten().filter(|unit| unit.removes.contains(id));
        let removed_from: Vec<&NamespacedName> = units
            .filter_map(|unit| match &unit.way {
                Way::Git(parent) => Some(parent),
                Way::ByHand => None,
            })
            .collect();
        let mut owners =
            index.recorded_by(id).iter().filter(|owner| !self.owners.contains(owner) && !owner.is_object(id));
        owners.find(|owner| {
            let is_parent =
                |parent: &&NamespacedName| (&*parent.namespace, &*parent.name) == (&*owner.namespace, &*owner.name);
            !(owner.kind == KIND && removed_from.iter().any(is_parent))
        })
    }

    /// Returns true if the order of events decides whether an object goes. Whether the hooks of a release succeed, and what was not
    /// read of its records, is open in every order: the plan says so.
    fn depends_on_order(&self, change: &Change, plan: &FinishedPlan) -> bool {
        let is_uninstalled = matches!(change.reason.code, ReasonCode::Uninstalled | ReasonCode::Hook);
        let Some(release) = change.cause.as_ref().filter(|_| is_uninstalled) else { return true };
        let needs = self.needs.get(release);
        needs.is_none_or(|needs| plan.deletions().any(|other| needs.contains(&other.object.id)))
    }

    /// Returns the objects that the steps delete although no owner that is removed has them, or although a mark is to keep them: what
    /// is in the namespaces and definitions of these owners. Each comes with what takes it along.
    pub fn strangers(&self, plan: &FinishedPlan, before: &Snapshot) -> Vec<(ObjectId, ObjectId)> {
        let index = Index::build(before);
        let foreign = plan.deletions().filter_map(|change| {
            let id = &change.object.id;
            let live = before.object(id)?;
            let is_unmanaged = index.status(live) == OwnershipStatus::Unmanaged;
            let is_foreign = is_unmanaged && !self.takes(id);
            let cause = match change.reason.code {
                ReasonCode::InNamespace | ReasonCode::CustomResource
                    if is_foreign || find_protection(live).is_some() =>
                {
                    change.cause.clone()
                }
                // It would wait in vain for its finalizer once its namespace or its definition goes.
                ReasonCode::DeletedByHand if is_unmanaged && index.owner_of_object(id).is_none() => {
                    self.container_of(id, before)
                }
                _ => None,
            };
            Some((id.clone(), cause?))
        });
        foreign.collect()
    }

    /// Returns the definition or the namespace of an object, if that is deleted.
    fn container_of(&self, id: &ObjectId, snapshot: &Snapshot) -> Option<ObjectId> {
        let definition = snapshot.type_of(id).map(ResourceType::definition);
        let containers = definition.into_iter().chain([id.namespace_object()]);
        containers.into_iter().find(|container| self.takes(container))
    }

    /// Returns what is there after the last step although it should not be: objects of the owners, what waits to be deleted, and what
    /// lost its owner on the way.
    fn left_over(&self, first: &Snapshot, last: &Snapshot) -> Vec<ObjectId> {
        let (before, after) = (Index::build(first), Index::build(last));
        let ids: BTreeSet<&ObjectId> = last.ids().filter(|id| self.is_left(id, &before, &after)).collect();
        ids.into_iter().cloned().collect()
    }

    /// Returns true if an object that is there after the last step should not be there.
    fn is_left(&self, id: &ObjectId, before: &Index<'_>, after: &Index<'_>) -> bool {
        let [first, last] = [before, after].map(|index| index.snapshot().object(id));
        let [was_terminating, is_terminating] =
            [first, last].map(|object| object.is_some_and(|object| object.deletion_timestamp.is_some()));
        let [earlier, later] =
            [(before, first), (after, last)].map(|(index, object)| object.map(|object| index.status(object)));
        let [was_lost, is_lost] = [&earlier, &later]
            .map(|status| matches!(status, Some(OwnershipStatus::Leaked(_) | OwnershipStatus::Orphaned(_))));
        // It may have been leaked before: its owner never recorded it, as Helm does with definitions in `crds/`.
        let is_of_removed =
            matches!(&later, Some(OwnershipStatus::Orphaned(claim)) if self.owners.contains(&claim.owner));
        ((self.takes(id) || self.claims.contains(id)) && after.recorded_by(id).is_empty())
            || (is_terminating && !was_terminating)
            || (is_lost && (!was_lost || is_of_removed))
    }
}

/// Returns true if something that is still there after a step removes the finalizers of an object, or something that is not in the
/// cluster: [`order`] has refused what nobody serves.
fn is_served(id: &ObjectId, before: &Index<'_>, after: &Snapshot) -> bool {
    let Some(object) = before.snapshot().object(id) else { return true };
    if foreign_finalizers(object).next().is_none() {
        return false;
    }
    let servers = finalizers::servers(object, before);
    servers.is_empty() || servers.into_iter().any(|server| after.object(server).is_some())
}

/// Removes from the state after a step what waits for its finalizers: the next step waits for that.
pub fn once_gone(plan: &FinishedPlan, after: &mut Snapshot) {
    plan.blocked_by_finalizers().iter().for_each(|blocked| after.replace_resource(&blocked.object, None));
}
