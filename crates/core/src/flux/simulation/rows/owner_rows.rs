//! Rows, outcomes and gaps of the owners that a change affects, and of their objects.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::flux::apply::update::manifest_diff;
use crate::flux::simulation::kustomization::containers::container_is_deleted;
use crate::flux::simulation::model::affected_owner::{
    AffectedOwner, Difference, Effect, Open, OwnerDeletion, Reaction,
};
use crate::flux::simulation::model::held_deletions::held_deletion;
use crate::flux::simulation::model::owner_names::{flux_owner, owner_id};
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::changed_owners::is_applied_after;
use crate::flux::simulation::owners::helm::drift::correcting;
use crate::flux::simulation::owners::kinds::kind_of;
use crate::flux::simulation::owners::resource_set;
use crate::flux::simulation::owners::spoke::{deletion_gaps, remote_gap};
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::flux::simulation::schedule::outcomes::PossibleOutcomes;
use crate::flux::spec::NamespacedName;
use crate::kubernetes::deletion::cascade::CascadeKind;
use crate::kubernetes::gap::{EFFECTS, Gap, GapKind};
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::ownership::schemes::flux_helmrelease as releases;
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};
use crate::ownership::schemes::flux_operator;
use crate::ownership::{Members, OwnerId};
use crate::plan::grave::by_gravity;
use crate::plan::{
    Action, Actor, Change, Diff, Outcome, OwnerOutcome, PinnedObject, Plan, Reason, ReasonCode, if_deleted,
};

/// Returns the controller of an owner.
fn controller_of(owner: &ObjectId) -> Actor {
    kind_of(owner).map_or(Actor::KustomizeController, |kind| kind.actor)
}

/// Returns the reason why the effect on an owner is not known, with what it holds, and how to find out.
fn with_stakes(state: &State<'_>, id: &ObjectId, reason: &Reason) -> Reason {
    let mut full = reason.clone();
    let members = state.input.snapshot.resource(id).map(|live| state.members(live));
    if let Some(Members::Listed(ids) | Members::Remote(ids)) = &members
        && let Some(numbers) = by_gravity(ids)
    {
        full.add_stakes(&numbers);
    }
    if let Some(kind) = kind_of(id) {
        full.remarks.push(format!("to find out: {}", (kind.find_out)(state, id)));
    }
    full
}

/// Adds the affected owners to a plan: an outcome, and a row and a gap for each whose effect is not known.
pub(super) fn add_affected_owners(state: &State<'_>, plan: &mut Plan) {
    plan.add_gaps(deletion_gaps(plan));
    for affected in &state.affected {
        let id = &affected.id;
        let assumption = affected.effect.as_ref().and_then(|effect| effect.assumption.as_ref());
        plan.add_gaps(assumption.map(|message| effect_gap(&flux_owner(id), message)));
        match &affected.reaction {
            // A Kustomization has an outcome already.
            Reaction::Acts(_) if id.is(GROUP, KIND) => {}
            Reaction::Acts(reason) => add_outcome(state, plan, id, Outcome::Applies, reason),
            Reaction::Waits(reason) => add_outcome(state, plan, id, Outcome::Blocked, reason),
            Reaction::Installs(remark) => plan.update_changes(|change| {
                if change.object.id == *id && matches!(change.action, Action::Create | Action::Recreate) {
                    change.reason.add_detail(remark);
                }
            }),
            Reaction::Unknown(reason) => add_unknown(state, plan, id, reason),
            Reaction::Elsewhere { applied_by, change } => add_elsewhere(state, plan, id, applied_by, change),
        }
    }
}

/// Adds the outcomes of deleted owners whose finalizers fail, and to the rows of owners what makes their finalizers fail.
pub(super) fn add_stuck_owners(state: &State<'_>, consequences: &Consequences<'_>, plan: &mut Plan) {
    let deleted = consequences.effects.iter().filter(|(id, _)| consequences.may_be_deleted(id));
    for (id, effect) in deleted {
        if let Some(why) = &effect.stuck {
            let detail = format!("it is deleted and stays Terminating: {why}");
            add_outcome(state, plan, id, Outcome::Deleted, &Reason::new(ReasonCode::OwnerStuck, detail));
        }
        let failures = failures_of_finalizer(effect);
        plan.update_changes(|change| {
            if change.object.id == *id {
                failures.iter().for_each(|failure| change.reason.add_detail(failure));
            }
        });
    }
}

/// Describes what makes the finalizer of a deleted owner fail, for its row.
fn failures_of_finalizer(effect: &Effect) -> Vec<String> {
    if let Some(why) = &effect.stuck {
        return vec![format!("it stays Terminating: {why}")];
    }
    effect.sticks.iter().map(|condition| condition.replacen("it stays", "it stays Terminating", 1)).collect()
}

fn add_outcome(state: &State<'_>, plan: &mut Plan, id: &ObjectId, outcome: Outcome, reason: &Reason) {
    let outcome = OwnerOutcome::new(flux_owner(id), outcome, reason.clone());
    plan.add_owners([OwnerOutcome { parents: parents_of(state, id), ..outcome }]);
}

fn add_unknown(state: &State<'_>, plan: &mut Plan, id: &ObjectId, reason: &Reason) {
    let with_stakes = with_stakes(state, id, reason);
    // A Kustomization has an outcome already.
    if !id.is(GROUP, KIND) {
        add_outcome(state, plan, id, Outcome::Unknown, &with_stakes);
    }
    let owner = flux_owner(id);
    plan.add_gaps([effect_gap(&owner, &reason.detail)]);
    if plan.changes().iter().any(|change| change.object.id == *id) {
        plan.update_changes(|change| {
            if change.object.id == *id {
                change.reason.add_detail(&reason.detail);
            }
        });
        return;
    }
    let object = state.live_object(id).map_or_else(|| PinnedObject::absent(id.clone()), PinnedObject::from);
    plan.add_changes([Change::new(Action::Unknown, object, Some(owner), controller_of(id), with_stakes)]);
}

fn add_elsewhere(state: &State<'_>, plan: &mut Plan, id: &ObjectId, applied_by: &NamespacedName, change: &str) {
    let gap = remote_gap(id, change);
    let reason = Reason::new(ReasonCode::NotFollowed, gap.message.clone());
    plan.add_gaps([gap]);
    let Some(object) = state.live_object(id).map(PinnedObject::from) else { return };
    if plan.changes().iter().all(|row| row.object.id != *id) {
        let owner = Some(owner_id(applied_by));
        plan.add_changes([Change::new(Action::Unknown, object, owner, controller_of(id), reason)]);
    }
}

fn effect_gap(owner: &OwnerId, message: &str) -> Gap {
    let subject = format!("{EFFECTS}{owner}");
    Gap { kind: GapKind::Failed, subject, namespace: None, message: message.to_owned() }
}

/// Sets the outcomes of Kustomizations whose effect is not computed, and the parents of those that another owner manages.
pub(super) fn add_affected_outcomes(state: &State<'_>, owners: &mut BTreeMap<&NamespacedName, OwnerOutcome>) {
    for (owner, applies) in state.owner_applies() {
        add_parent(owners, applies.objects.keys(), owner);
    }
    for AffectedOwner { id, reaction, .. } in state.affected.iter().map(|owner| &**owner) {
        let Reaction::Unknown(reason) = reaction else { continue };
        let kustomization = owners.get_mut(&NamespacedName::of(id)).filter(|_| id.is(GROUP, KIND));
        if let Some(row) = kustomization.filter(|row| row.outcome != Outcome::Deleted) {
            (row.outcome, row.reason) = (Outcome::Unknown, with_stakes(state, id, reason));
        }
        let Some(live) = state.input.snapshot.resource(id) else { continue };
        let Members::Listed(members) = state.members(live) else { continue };
        add_parent(owners, members.iter(), id);
    }
}

/// Adds an owner to the parents of those of its objects that are Kustomizations.
fn add_parent<'i>(
    owners: &mut BTreeMap<&NamespacedName, OwnerOutcome>,
    objects: impl Iterator<Item = &'i ObjectId>,
    parent: &ObjectId,
) {
    for child in objects.filter(|id| id.is_here(GROUP, KIND)) {
        if let Some(row) = owners.get_mut(&NamespacedName::of(child)) {
            row.parents.insert(flux_owner(parent));
        }
    }
}

/// Returns the affected owners whose effect is not known.
pub(super) fn unknown_owners(state: &State<'_>) -> impl Iterator<Item = OwnerId> {
    let unknown = state.affected.iter().filter(|owner| matches!(owner.reaction, Reaction::Unknown(_)));
    unknown.map(|owner| flux_owner(&owner.id))
}

/// Returns the Kustomizations that apply an object, or list it in their inventory.
fn parents_of(state: &State<'_>, id: &ObjectId) -> BTreeSet<OwnerId> {
    let nodes = state.nodes_by_object();
    nodes.get(id).into_iter().flatten().map(|node| owner_id(&node.id.key)).collect()
}

/// Adds to the row of an object that the controller of its owner deletes what becomes of it.
pub(super) fn add_owner_deletion(row: &mut Change, owner: &ObjectId, deletion: &OwnerDeletion) {
    // The rows of an uninstall name no owner: the HelmRelease is their cause.
    if deletion.kind != CascadeKind::HelmRelease {
        row.owner = Some(flux_owner(owner));
    }
    if deletion.action != Action::Delete {
        row.action = deletion.action;
    }
    if let Some(code) = deletion.code {
        row.reason.code = code;
    }
    let remarks = deletion.remarks.iter().map(String::as_str).chain(deletion.open.iter().map(Open::remark));
    remarks.for_each(|remark| row.reason.add_detail(remark));
    row.may_come_back = deletion.open == Some(Open::MayComeBack);
    deletion.conditions.iter().for_each(|condition| row.make_race(condition));
}

/// Returns the rows of objects that other owners than Kustomizations create, and of those that they leave behind.
pub(super) fn owner_rows(state: &State<'_>, consequences: &Consequences<'_>) -> Vec<Change> {
    let mut rows = vec![];
    for (owner, effect) in &consequences.effects {
        for (id, reason) in effect.keeps.iter().filter(|(id, _)| !consequences.may_be_deleted(id)) {
            // A volume that is erased is applied, and has no other row.
            let has_row = consequences.outcomes.contains_key(id) && reason.code != ReasonCode::Recycled;
            let live = state.live_object(id).filter(|_| !has_row);
            rows.extend(live.map(|object| owner_row(Action::Keep, object, owner, reason.clone())));
        }
        rows.extend(created_hooks(state, consequences, owner, effect));
    }
    for (owner, effect) in state.owner_effects() {
        let applied = effect.applies.iter().flat_map(|applies| applies.objects.keys().map(move |id| (id, applies)));
        for (id, applies) in applied {
            let is_applied = consequences.outcomes.contains_key(id);
            if state.is_live(id) || is_applied || container_is_deleted(state, id, consequences) {
                continue;
            }
            let object = PinnedObject::absent(id.clone());
            let mut row = owner_row(Action::Create, object, owner, applies.code.into());
            if let Some(condition) = doubt_of_apply(owner, effect) {
                row.make_race(condition);
            }
            rows.push(row);
        }
    }
    rows
}

/// Returns the condition under which an owner does not apply all of its objects, if there is one.
fn doubt_of_apply(owner: &ObjectId, effect: &Effect) -> Option<String> {
    if effect.condition.is_some() {
        return Some(if_reconciled(owner));
    }
    let is_doubtful = effect.applies.as_ref().is_some_and(|applies| applies.is_doubtful);
    is_doubtful.then(|| format!("it does not happen if {owner} fails before it"))
}

fn if_reconciled(owner: &ObjectId) -> String {
    format!("it depends on whether {owner} is reconciled")
}

/// Adds rows of the live objects that other owners than Kustomizations change, unless a plan has a row of them.
pub(super) fn add_updates(state: &State<'_>, plan: &mut Plan) {
    let known: HashSet<ObjectId> = plan.changes().iter().map(|change| change.object.id.clone()).collect();
    let mut rows = BTreeMap::new();
    for (owner, effect) in state.owner_effects() {
        let Some(applies) = &effect.applies else { continue };
        for (id, reason, _) in applies.updates().filter(|(id, ..)| !known.contains(*id)) {
            let Some(object) = state.live_object(id) else { continue };
            let mut row = owner_row(Action::Update, object, owner, reason.clone());
            if let Some(condition) = doubt_of_apply(owner, effect) {
                row.make_race(condition);
            }
            if let Some(held) = held_deletion(object) {
                row.make_race(held);
            }
            rows.insert(id, row);
        }
    }
    plan.add_changes(rows.into_values());
}

/// Returns the differences of the objects that other owners than Kustomizations update, for the rows of a plan.
pub(crate) fn manifest_diffs(state: &State<'_>, plan: &Plan) -> Vec<Diff> {
    let rows = plan.changes().iter().filter(|change| change.action == Action::Update);
    let updated: HashSet<&ObjectId> = rows.map(|change| &change.object.id).collect();
    let mut diffs = vec![];
    for applies in state.owner_effects().filter_map(|(_, effect)| effect.applies.as_ref()) {
        for (id, _, difference) in applies.updates().filter(|(id, ..)| updated.contains(id)) {
            let text = match (difference, applies.objects.get(id)) {
                (Difference::OfServer(diff), _) => diff.clone(),
                (Difference::OfManifests(old), Some(new)) => manifest_diff(id, old, &new.manifest),
                _ => continue,
            };
            diffs.push(Diff { object: id.clone(), text });
        }
    }
    diffs
}

/// Returns the rows of the hooks that the controller of an owner that is deleted or replaced creates and leaves.
fn created_hooks(
    state: &State<'_>,
    consequences: &Consequences<'_>,
    owner: &ObjectId,
    effect: &Effect,
) -> impl Iterator<Item = Change> {
    let lasting = effect
        .creates
        .iter()
        .filter(|(id, _)| !consequences.outcomes.contains_key(id) && !container_is_deleted(state, id, consequences));
    let is_deleted = match consequences.cascaded.get(owner) {
        Some(cascaded) => consequences.triggers_of(cascaded).is_some_and(|(_, is_certain)| is_certain),
        None => consequences.outcomes.get(owner).is_some_and(PossibleOutcomes::is_deleted),
    };
    lasting.map(move |(id, conditions)| {
        let mut row = owner_row(Action::Create, PinnedObject::absent(id.clone()), owner, ReasonCode::Hook.into());
        if !is_deleted && consequences.may_be_deleted(owner) {
            row.make_race(if_deleted(owner));
        }
        conditions.iter().for_each(|condition| row.make_race(condition));
        row
    })
}

fn owner_row(action: Action, object: impl Into<PinnedObject>, owner: &ObjectId, reason: Reason) -> Change {
    Change::new(action, object, Some(flux_owner(owner)), controller_of(owner), reason)
}

/// Changes the rows of deleted objects that another owner, or one that is created again, applies.
///
/// A HelmRelease applies its objects once, so that those that are deleted after that stay away unless it corrects their
/// drift. A ResourceSet applies its objects again only after its interval.
pub(super) fn mark_recreated(state: &State<'_>, consequences: &Consequences<'_>, changes: &mut [Change]) {
    for change in changes.iter_mut().filter(|change| change.action == Action::Delete) {
        let id = change.object.id.clone();
        let owner = change.owner.clone();
        let cause = change.cause.as_ref().filter(|cause| makes_again(state, cause, &id));
        if cause.is_some_and(|cause| consequences.may_be_recreated(cause)) {
            change.action = Action::Recreate;
            continue;
        }
        if let Some(cause) =
            cause.filter(|cause| state.is_generated(cause) || is_applied_after(state, consequences, cause))
        {
            change.action = Action::Recreate;
            change.make_race(format!("nothing creates it again if {cause} is applied before it is deleted"));
            continue;
        }
        if let Some(by) = cause.and_then(|cause| taker_of_record(state, &id, cause)) {
            change.action = Action::Recreate;
            change.reason.add_detail(&format!("{by} installs a release of this name"));
            change.make_race(format!("nothing creates it again if {by} is reconciled before it is deleted"));
            continue;
        }
        let applying = state.owner_applies().filter(|(_, applies)| applies.objects.contains_key(&id));
        let other = applying
            .map(|(by, _)| by)
            .find(|by| owner.as_ref() != Some(&flux_owner(by)) || consequences.may_be_deleted(by));
        if container_is_deleted(state, &id, consequences) {
            continue;
        }
        let Some(by) = other else {
            let mut others = correcting(state, consequences, &id).filter(|by| owner.as_ref() != Some(&flux_owner(by)));
            if let Some(by) = others.next() {
                change.action = Action::Recreate;
                change.reason.add_detail(&format!("{by} creates it again, because it corrects its drift"));
            }
            continue;
        };
        change.action = Action::Recreate;
        change.reason.add_detail(&format!("{by} creates it again"));
        let effect = state.affected_owner(by).and_then(|owner| owner.effect.as_ref());
        let doubt = match effect.filter(|effect| effect.assumption.is_none()) {
            Some(effect) => doubt_of_apply(by, effect),
            None => Some(if_reconciled(by)),
        };
        if let Some(condition) = doubt {
            change.make_race(condition);
        } else if consequences.may_be_deleted(by) {
            continue;
        } else if change.cause.as_ref().is_some_and(|cause| cause.is(flux_operator::GROUP, resource_set::KIND)) {
            change
                .make_race("it stays if that happens first: flux-operator deletes what carries the labels of its set");
        } else if by.is(releases::GROUP, releases::KIND) || by.is(flux_operator::GROUP, resource_set::KIND) {
            change.make_race("nothing creates it again if that happens before it is deleted");
        }
    }
}

/// Returns true if a HelmRelease that is deleted and created again makes an object of the same identity for its release: it records
/// revision 1, and has a HelmChart of the same name.
fn makes_again(state: &State<'_>, release: &ObjectId, id: &ObjectId) -> bool {
    if !release.is(releases::GROUP, releases::KIND) {
        return false;
    }
    if id.is("source.toolkit.fluxcd.io", "HelmChart") {
        return state.specs_after(release).iter().any(|spec| spec.pointer("/chart/spec").is_some());
    }
    let is_first = id.is("", "Secret") && id.name.ends_with(".v1");
    is_first && state.live_object(id).is_some_and(|record| installs(state, release, record))
}

/// Returns true if a HelmRelease has the release of this record after the change.
fn installs(state: &State<'_>, release: &ObjectId, record: &ObjectMetadata) -> bool {
    let mut records = state.specs_after(release).into_iter().map(|spec| releases::release_record(release, &spec));
    records.any(|(name, namespace)| releases::is_record_of(record, &namespace, &name))
}

/// Returns a new HelmRelease that installs the release of a record which goes with a deleted HelmRelease.
fn taker_of_record<'s>(state: &'s State<'_>, record: &ObjectId, deleted: &ObjectId) -> Option<&'s ObjectId> {
    let record = state.live_object(record)?;
    let mut new = state.owner_applies().map(|(by, _)| by).filter(|by| {
        by.is(releases::GROUP, releases::KIND) && *by != deleted && state.input.snapshot.resource(by).is_none()
    });
    new.find(|by| installs(state, by, record))
}
