//! Rows of objects that Kustomizations delete, create or keep, decided from their possible outcomes.

use serde_json::Value;

use crate::flux::simulation::kustomization::containers::container_is_deleted;
use crate::flux::simulation::model::facts::refused_deletions::deletion_refusal;
use crate::flux::simulation::model::facts::standing_failures::failing_prune;
use crate::flux::simulation::model::node::{Finalization, Node, Pass, PassId, PassOutcome, SimulationEvent, Unserved};
use crate::flux::simulation::model::owner_names::owner_id;
use crate::flux::simulation::model::protection::{live_owner, prune_protection};
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::flux::simulation::schedule::explore::may_delete;
use crate::flux::simulation::schedule::outcomes::{FinalState, PossibleOutcomes};
use crate::flux::simulation::schedule::race_conditions::race_condition;
use crate::flux::spec::NamespacedName;
use crate::kubernetes::deletion::namespaces::comes_back;
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};
use crate::plan::{Action, Actor, Change, PinnedObject, Reason, ReasonCode};

/// Returns the row of an action of kustomize-controller on behalf of a Kustomization.
pub(crate) fn kustomization_row(
    action: Action,
    object: impl Into<PinnedObject>,
    owner: &NamespacedName,
    reason: impl Into<Reason>,
) -> Change {
    Change::new(action, object, Some(owner_id(owner)), Actor::KustomizeController, reason)
}

/// Returns the row of an object that a Kustomization deletes, creates or keeps. `nodes` are the Kustomizations that list
/// or apply it.
pub(crate) fn row(
    state: &State<'_>,
    id: &ObjectId,
    outcomes: &PossibleOutcomes,
    consequences: &Consequences<'_>,
    nodes: &[&Node],
) -> Option<Change> {
    let live = state.live_object(id);
    let unread = live.is_none().then(|| unread_message(state, id)).flatten();
    if let Some(unread) = &unread
        && let Some(listing) = nodes.iter().find(|node| !node.id.is_new && node.inventory.contains(id))
    {
        // It exists, as far as is known, so nothing creates it.
        return nodes.iter().any(|node| may_delete(id, node)).then(|| {
            let owner = owner_id(&listing.id.key);
            let detail = format!("{unread}; {owner} lists it and no longer applies it");
            kustomization_row(
                Action::Unknown,
                PinnedObject::absent(id.clone()),
                &listing.id.key,
                Reason::new(ReasonCode::Unread, detail),
            )
        });
    }
    let loses_container = container_is_deleted(state, id, consequences);
    let may_be_recreated = outcomes.may_end_as(FinalState::Recreated);
    let is_made_by_kubernetes = id.is_in_every_namespace() || comes_back(id);
    let is_remade = !loses_container && is_made_by_kubernetes && outcomes.may_end_as(FinalState::Deleted);
    let action = if !is_remade && (outcomes.may_end_as(FinalState::Deleted) || (may_be_recreated && loses_container)) {
        Action::Delete
    } else if may_be_recreated || is_remade {
        Action::Recreate
    } else if outcomes.may_end_as(FinalState::Created) {
        if loses_container {
            return None;
        }
        Action::Create
    } else if outcomes.may_end_as(FinalState::Absent) || (live.is_some() && consequences.cascaded.contains_key(id)) {
        // An object that a cascade deletes has the row of the cascade.
        return None;
    } else {
        return kept_row(state, id, live?, outcomes, nodes);
    };
    // What is created in the end may be created and deleted before, by an owner that goes.
    let event = outcomes.deletions.first().filter(|_| action != Action::Create);
    let is_by_hand = live.is_some() && state.input.by_hand.contains(id);
    let (reason, cause) = match event {
        _ if is_by_hand => (ReasonCode::DeletedByHand.into(), None),
        Some(SimulationEvent::Finalize(node)) if state.node(node).is_some_and(|node| node.deletion.is_none()) => {
            (ReasonCode::OwnerDeleted.into(), None)
        }
        Some(SimulationEvent::Finalize(node)) => {
            let owner = ObjectId::new(GROUP, KIND, &node.key.namespace, &node.key.name);
            (ReasonCode::OwnerDeleted.into(), Some(owner))
        }
        Some(SimulationEvent::Prune(pass)) => (prune_reason(state, &pass.node.key, id, outcomes), None),
        Some(SimulationEvent::Force(pass)) => (forced_reason(state, pass, id), None),
        Some(SimulationEvent::Apply(_)) | None => (ReasonCode::InBuild.into(), None),
    };
    let staying = outcomes.appliers.iter().find(|key| state.lifetimes(key).any(Node::may_stay));
    let owner = event.map(SimulationEvent::owner).or(staying).or_else(|| outcomes.appliers.first());
    let object = live.map_or_else(|| PinnedObject::absent(id.clone()), PinnedObject::from);
    let listing = nodes.iter().find(|node| is_by_hand && node.inventory.contains(id)).map(|node| &node.id.key);
    let actor = if is_by_hand { Actor::User } else { Actor::KustomizeController };
    let row = Change::new(action, object, owner.or(listing).map(owner_id), actor, reason);
    let may_come_back = action == Action::Delete && may_be_recreated && !loses_container;
    let mut row = Change { cause, may_come_back, ..row };
    // A live object is deleted with its namespace or its definition at the latest.
    let is_kept = consequences.holders.pod_in(&id.namespace_object()).is_some();
    let is_deleted_anyway = live.is_some() && loses_container && !is_kept;
    if !outcomes.is_certain() && !is_deleted_anyway {
        row.make_race(race_condition(state, id, outcomes));
    }
    if is_remade {
        row.reason.add_detail("Kubernetes creates it again");
    }
    if let Some(detail) = misplaced_detail(id, nodes).filter(|_| action != Action::Delete) {
        row.reason.add_detail(&detail);
    }
    if let Some(condition) = consequences.open_content(id).filter(|_| row.action == Action::Recreate) {
        row.make_race(condition);
    }
    if let Some(unread) = unread.filter(|_| action == Action::Create) {
        row.make_race(format!("it is updated if it exists; {unread}"));
    }
    if action == Action::Create && is_collected_at_once(state, id) {
        row.make_race("the garbage collector deletes it, because no owner that it refers to exists");
    }
    if let Some(SimulationEvent::Prune(pass)) = event
        && let Some(condition) = failing_prune(state, &pass.node.key, id)
    {
        row.make_race(condition);
    }
    if let Some(unserved) = event.and_then(|event| state.node(event.node())?.unserved.get(id)) {
        row.make_race(format!("it stays if version {} is not served by then", unserved.version));
    }
    Some(row)
}

/// Returns the reason why a pass deletes an object by force.
fn forced_reason(state: &State<'_>, pass: &PassId, id: &ObjectId) -> Reason {
    let forced = state.pass(pass).and_then(|pass| pass.forced.get(id));
    forced.map_or_else(|| ReasonCode::Forced.into(), |forced| forced.reason.clone())
}

/// Returns what could not be read, if that may hide an object.
fn unread_message(state: &State<'_>, id: &ObjectId) -> Option<String> {
    let cluster = state.input.snapshot.of_cluster(id.cluster.as_ref())?;
    let kind = id.group_kind();
    let mut gaps = cluster.gaps_hiding(&kind);
    let gap = gaps.find(|gap| gap.namespace.as_deref().is_none_or(|unread| *unread == *id.namespace))?;
    Some(format!("{} could not be read ({})", gap.subject, gap.kind.cause()))
}

/// Returns the reason why a Kustomization prunes an object.
fn prune_reason(state: &State<'_>, owner: &NamespacedName, id: &ObjectId, outcomes: &PossibleOutcomes) -> Reason {
    let may_return = outcomes.may_end_as(FinalState::Recreated);
    if let Some(other) = outcomes.appliers.iter().find(|key| may_return && *key != owner) {
        let detail = format!("{} applies it after it was pruned", owner_id(other));
        return Reason::new(ReasonCode::Moved, detail);
    }
    let node = state.lifetimes(owner).next();
    if may_return && node.is_some_and(|node| node.misplaced.contains_key(id)) {
        return ReasonCode::NotInBuild.into();
    }
    if outcomes.is_desired && may_return {
        let keeps_spec = node.is_some_and(|node| node.passes.windows(2).all(|pair| pair[0].spec == pair[1].spec));
        let (code, what) =
            if keeps_spec { (ReasonCode::ChangedVariables, "variables") } else { (ReasonCode::ChangedSpec, "spec") };
        return Reason::new(code, format!("the new revision is first reconciled with the old {what}"));
    }
    match node.and_then(Node::last_pass) {
        Some(pass) if pass.new_inventory().is_some_and(|objects| objects.is_empty()) => {
            let detail = format!("its path {} contains no manifests", pass.spec.path());
            Reason::new(ReasonCode::NotInBuild, detail)
        }
        _ => ReasonCode::NotInBuild.into(),
    }
}

/// Returns the row of an object that looks prunable and stays.
fn kept_row(
    state: &State<'_>,
    id: &ObjectId,
    live: &ObjectMetadata,
    outcomes: &PossibleOutcomes,
    nodes: &[&Node],
) -> Option<Change> {
    let owner = nodes.iter().find(|node| {
        let desired = node.last_pass().and_then(Pass::desired_objects);
        let is_dropped = desired.is_some_and(|objects| !objects.contains_key(id));
        !node.id.is_new && node.inventory.contains(id) && (node.deletion.is_some() || is_dropped)
    })?;
    let reason = keep_reason(state, owner, live, outcomes)?;
    Some(kustomization_row(Action::Keep, live, &owner.id.key, reason))
}

/// Returns what a Kustomization does with an object that it applies and that its inventory lists with a namespace.
fn misplaced_detail(id: &ObjectId, nodes: &[&Node]) -> Option<String> {
    let (node, namespace) = nodes.iter().find_map(|node| Some((node, node.misplaced.get(id)?)))?;
    let prunes = node.passes.iter().any(|pass| pass.applies(id) && node.prunes(pass, id));
    prunes.then(|| {
        let owner = owner_id(&node.id.key);
        format!("the inventory of {owner} lists it with the namespace {namespace}, so it is pruned once and applied again at the next interval")
    })
}

/// Returns the reason why an object stays that its owner deletes or no longer builds. `None` if a pass of the owner
/// applies it all the same.
fn keep_reason(state: &State<'_>, owner: &Node, live: &ObjectMetadata, outcomes: &PossibleOutcomes) -> Option<Reason> {
    let key = &owner.id.key;
    let last = owner.last_pass();
    if let Some(refusal) = deletion_refusal(state, key, &live.id) {
        return Some(Reason::new(ReasonCode::DeletionRefused, refusal));
    }
    if let Some(Unserved { version, is_certain: true }) = owner.unserved.get(&live.id) {
        let detail = format!("its inventory entry has version {version}, which the API server does not serve");
        return Some(Reason::new(ReasonCode::LeftBehind, detail));
    }
    if outcomes.is_desired {
        if let Some(other) = outcomes.appliers.iter().find(|other| *other != key) {
            let detail = format!("{} applies it first", owner_id(other));
            return Some(Reason::new(ReasonCode::HandedOver, detail));
        }
        if owner.deletion.is_none() && owner.passes.iter().any(|pass| pass.applies(&live.id)) {
            return None;
        }
        if owner.deletion.is_some() && outcomes.appliers.contains(key) {
            let detail = format!("{} is created again, and applies it", owner_id(key));
            return Some(Reason::new(ReasonCode::HandedOver, detail));
        }
    }
    let finalization = owner.deletion.as_ref().map(|deletion| &deletion.finalization);
    let detail = if let Some((key, value)) = prune_protection(live, state.input.features) {
        format!("protected by {key}: {value}")
    } else if let Some(Finalization::LeavesObjects(why)) = finalization {
        format!("{} is deleted and leaves its objects behind, because it {why}", owner_id(key))
    } else if live_owner(live).as_ref() != Some(key) {
        "its labels name another owner".to_owned()
    } else if last.is_some_and(|pass| !pass.spec.prunes()) {
        "its owner does not prune".to_owned()
    } else if let Some(PassOutcome::Partial { reason, .. }) = last.map(|pass| &pass.outcome) {
        let detail = format!("it is deleted once this is resolved: {}", reason.text());
        return Some(Reason::new(ReasonCode::HeldBack, detail));
    } else {
        "nothing deletes it".to_owned()
    };
    Some(Reason::new(ReasonCode::LeftBehind, detail))
}

/// Returns true if an object that is created refers only to owners that do not exist.
fn is_collected_at_once(state: &State<'_>, id: &ObjectId) -> bool {
    let mut applied = state.nodes.applying(id).filter_map(|node| Some(node.last_applied(id)?.1));
    applied.any(|built| {
        let references = built.manifest.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let uids: Vec<&str> =
            references.into_iter().flatten().map(|reference| reference["uid"].as_str().unwrap_or_default()).collect();
        let cluster = state.input.snapshot.of_cluster(id.cluster.as_ref());
        let mut live = cluster.into_iter().flat_map(|cluster| &cluster.objects);
        references.is_some_and(|references| !references.is_empty()) && !live.any(|object| uids.contains(&&*object.uid))
    })
}

/// Returns rows for RBAC objects whose names contain `__`. The inventory lists another name, so they are never
/// pruned (docs/reference/kustomize-controller.md 2.1).
pub(crate) fn misread_names(state: &State<'_>) -> Vec<Change> {
    let mut rows = Vec::new();
    for node in state.nodes.iter().filter(|node| !node.id.is_new) {
        for id in node.inventory.iter().filter(|id| id.name.contains(':') && !state.is_live(id)) {
            let real = ObjectId { name: id.name.replace(':', "__").into(), ..id.clone() };
            if node.last_applied(&real).is_some() {
                continue;
            }
            let Some(live) = state.live_object(&real) else { continue };
            let detail = "its name contains __, which the controller reads as another name";
            let reason = Reason::new(ReasonCode::LeftBehind, detail);
            rows.push(kustomization_row(Action::Keep, live, &node.id.key, reason));
        }
    }
    rows
}
