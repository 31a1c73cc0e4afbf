//! Deletion of live Kustomizations, and its effect on the objects in their inventories.

use std::collections::BTreeSet;
use std::mem::discriminant;

use super::derivation::Derivation;
use super::live_spec::{SpecChange, live_specs};
use super::source_states::planned_artifact;
use crate::flux::apply::admission::ADMISSION;
use crate::flux::apply::cause::is_right;
use crate::flux::apply::rights::RBAC;
use crate::flux::controllers::is_finalizing;
use crate::flux::kustomize_controller::FINALIZER;
use crate::flux::simulation::model::facts::watch_selector::is_watched_now;
use crate::flux::simulation::model::node::{Finalization, KustomizationDeletion, PassId, SimulationEvent};
use crate::flux::simulation::schedule::outcomes::FinalState;
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::object::{ObjectId, Resource};
use crate::ownership::Members;

/// Returns the deletion of a live Kustomization, to which its parents make these changes; `None` if it stays.
pub(crate) fn deletion_of(
    derivation: &mut Derivation<'_, '_>,
    live: &Resource,
    changes: &[SpecChange],
) -> Option<KustomizationDeletion> {
    let Some((triggers, is_certain)) = deletion_triggers(derivation, &live.object.id) else {
        return continued_deletion(derivation, live, changes);
    };
    let is_awaited = !derivation.consequences.is_collected(&live.object.id);
    let specs = specs_before(derivation, &triggers, live, changes);
    let finalization_of = if live.object.has_finalizer(FINALIZER) { finalization } else { deletion_without_finalizer };
    let mut finalizations: Vec<Finalization> =
        specs.iter().map(|spec| finalization_of(derivation, live, spec)).collect();
    let flags = &derivation.state.input.flags;
    let mut impersonated = finalizations.iter().zip(&specs).filter(|(_, spec)| flags.service_account(spec).is_some());
    let deletes = impersonated.any(|(finalization, _)| *finalization == Finalization::DeletesObjects);
    if let Some(right) = deletes.then(|| lost_right(derivation, live, &specs)).flatten() {
        finalizations
            .push(Finalization::Depends(format!("{right}, which may give its account its rights, is deleted too")));
    }
    let account = specs.last().and_then(|spec| flags.service_account(spec));
    Some(KustomizationDeletion {
        triggers,
        is_certain,
        is_awaited,
        account: account.map(str::to_owned),
        finalization: of_any_spec(finalizations),
    })
}

/// Returns the deletion of a live Kustomization that waits for its finalizer, if a parent gives it another spec, or a rule by
/// which the server refuses changes is created, changed or deleted. The finalizer runs again, and may succeed then (observed).
fn continued_deletion(
    derivation: &mut Derivation<'_, '_>,
    live: &Resource,
    changes: &[SpecChange],
) -> Option<KustomizationDeletion> {
    if !is_finalizing(&live.object) {
        return None;
    }
    let flags = &derivation.state.input.flags;
    let specs = live_specs(live, changes, flags);
    let (last, is_changed) = (&specs.last()?.spec, specs.len() > 1);
    let changed = if is_changed { "its spec".to_owned() } else { changed_rule(derivation, live)?.to_string() };
    let finalization = match finalization(derivation, live, last) {
        Finalization::DeletesObjects => {
            Finalization::Depends(format!("it is being deleted already, and tries again after {changed} changes"))
        }
        other => other,
    };
    Some(KustomizationDeletion {
        triggers: specs.iter().filter_map(|spec| spec.trigger.clone()).map(SimulationEvent::Apply).collect(),
        is_certain: true,
        is_awaited: true,
        account: flags.service_account(last).map(str::to_owned),
        finalization,
    })
}

/// Returns a service account, a role, a binding or an admission rule that is created, changed or deleted, and on which it depends
/// what the finalizer of an owner may delete.
pub(crate) fn changed_rule(derivation: &mut Derivation<'_, '_>, live: &Resource) -> Option<ObjectId> {
    let (state, consequences) = (derivation.state, derivation.consequences);
    let Members::Listed(members) = state.members(live) else { return None };
    let mut rules = consequences.outcomes.iter().filter(|(id, _)| is_rule(id, &live.object.id, &members));
    let found = rules
        .clone()
        .find(|(_, outcomes)| outcomes.may_be_deleted() || outcomes.may_end_as(FinalState::Created))
        .or_else(|| rules.find(|(id, _)| derivation.last_applied().is_changed(state, id)));
    found.map(|(id, _)| id.clone())
}

/// Returns true for an object on which it depends what an owner with these members may delete.
fn is_rule(id: &ObjectId, owner: &ObjectId, members: &[ObjectId]) -> bool {
    if id.is("", "ServiceAccount") {
        id.namespace == owner.namespace
    } else {
        &*id.group == ADMISSION || members.iter().any(|member| is_right(id, member))
    }
}

/// Returns the specs that a Kustomization can have when these events delete it: its live spec too, unless a parent
/// certainly changes it before.
fn specs_before(
    derivation: &Derivation<'_, '_>,
    triggers: &BTreeSet<SimulationEvent>,
    live: &Resource,
    changes: &[SpecChange],
) -> Vec<KustomizationSpec> {
    let mut specs = live_specs(live, &changes_before(derivation, triggers, changes), &derivation.state.input.flags);
    let first = specs
        .iter()
        .rposition(|spec| spec.trigger.as_ref().is_some_and(|by| certainly_precedes(derivation, by, triggers)));
    specs.drain(..first.unwrap_or(0));
    specs.into_iter().map(|spec| spec.spec).collect()
}

/// Returns true if a pass happens in every order of events, and before these deletions.
fn certainly_precedes(derivation: &Derivation<'_, '_>, id: &PassId, deletions: &BTreeSet<SimulationEvent>) -> bool {
    let apply = SimulationEvent::Apply(id.clone());
    !deletions.is_empty()
        && deletions.iter().all(|deletion| derivation.consequences.order.precedes(&apply, deletion))
        && is_certain(derivation, id)
}

/// Returns the changes of a spec without those that come after all of these deletions.
fn changes_before(
    derivation: &Derivation<'_, '_>,
    deletions: &BTreeSet<SimulationEvent>,
    changes: &[SpecChange],
) -> Vec<SpecChange> {
    let mut earlier = changes.to_vec();
    earlier.retain(|change| match &change.applied.trigger {
        Some(by) if !deletions.is_empty() => {
            let apply = SimulationEvent::Apply(by.clone());
            !deletions.iter().all(|deletion| derivation.consequences.order.precedes(deletion, &apply))
        }
        _ => true,
    });
    earlier
}

/// Returns the changes that reach a live Kustomization: one that is deleted for certain only finalizes from then on.
pub(crate) fn changes_of_live(
    derivation: &Derivation<'_, '_>,
    live: &Resource,
    changes: &[SpecChange],
) -> Vec<SpecChange> {
    match deletion_triggers(derivation, &live.object.id) {
        Some((deletions, true)) => changes_before(derivation, &deletions, changes),
        _ => changes.to_vec(),
    }
}

/// Returns true if a pass happens in every order of events.
fn is_certain(derivation: &Derivation<'_, '_>, id: &PassId) -> bool {
    let node = derivation.state.node(&id.node).filter(|node| node.deletion.is_none());
    let pass = node.and_then(|node| node.passes.get(id.number));
    pass.is_some_and(|pass| !pass.is_optional && pass.condition.is_none())
}

/// Returns the events that delete a live Kustomization, directly or by a cascade, and true if every order of events
/// deletes it.
fn deletion_triggers(derivation: &Derivation<'_, '_>, id: &ObjectId) -> Option<(BTreeSet<SimulationEvent>, bool)> {
    let consequences = derivation.consequences;
    if derivation.state.input.by_hand.contains(id) {
        return Some((BTreeSet::new(), true));
    }
    let own = consequences.outcomes.get(id).filter(|outcomes| outcomes.may_be_deleted());
    match own {
        Some(own) => Some((own.deletions.clone(), own.is_deleted())),
        None => consequences.triggers_of(consequences.cascaded.get(id)?),
    }
}

/// Returns a role or a binding that is deleted too, and that may give the account of a Kustomization its rights to its objects: without
/// them the server refuses each deletion of the finalizer (kustomize-controller v1.9.5 `finalize` in kustomization_controller.go). What
/// its manifest binds to others is none, and neither is a role that only such bindings name.
fn lost_right(derivation: &mut Derivation<'_, '_>, live: &Resource, specs: &[KustomizationSpec]) -> Option<ObjectId> {
    let (state, consequences) = (derivation.state, derivation.consequences);
    let Members::Listed(members) = state.members(live) else { return None };
    let others = state.input.snapshot.ids().filter(|id| &*id.group == RBAC && !members.contains(id));
    let rights: Vec<&ObjectId> = others
        .filter(|id| members.iter().any(|member| is_right(id, member)) && consequences.may_be_deleted(id))
        .collect();
    if rights.is_empty() {
        return None;
    }
    let last_applied = derivation.last_applied();
    let flags = &derivation.state.input.flags;
    let accounts: Vec<NamespacedName> = specs
        .iter()
        .filter_map(|spec| flags.service_account(spec))
        .map(|name| NamespacedName { namespace: live.object.id.namespace.to_string(), name: name.to_owned() })
        .collect();
    rights.into_iter().find(|id| last_applied.may_give_rights(id, &accounts)).cloned()
}

/// Returns the effect of deleting a Kustomization that has lost its finalizer: the next reconciliation sets it again.
fn deletion_without_finalizer(
    derivation: &Derivation<'_, '_>,
    live: &Resource,
    spec: &KustomizationSpec,
) -> Finalization {
    let source = spec.source(&live.object.id.namespace);
    let reconciles = planned_artifact(derivation.state, &source).is_some();
    match finalization(derivation, live, spec) {
        Finalization::LeavesObjects(why) => Finalization::LeavesObjects(why),
        _ if reconciles => Finalization::Depends("it has no finalizer until it reconciles once more".to_owned()),
        _ => Finalization::LeavesObjects("has no finalizer".to_owned()),
    }
}

fn finalization(derivation: &Derivation<'_, '_>, live: &Resource, spec: &KustomizationSpec) -> Finalization {
    if !is_watched_now(derivation.state, live) {
        return Finalization::LeavesObjects("is not watched by the controller".to_owned());
    }
    if let Err(reason) = spec.finalizer_deletes(derivation.state.input.features.deletion_policy) {
        return Finalization::LeavesObjects(reason);
    }
    if let Members::Unreadable(error) = derivation.state.members(live) {
        // Without an inventory the finalizer deletes nothing; a reconciliation before it writes a new inventory.
        let detail = format!("its inventory is unreadable until it reconciles once more: {error}");
        return Finalization::Depends(detail);
    }
    // The controller asks for the account first, in its own cluster (`CanImpersonate` in client/impersonator.go of
    // pkg/runtime v0.110.3), and leaves everything if it does not exist.
    let account = derivation
        .state
        .input
        .flags
        .service_account(spec)
        .map(|name| ObjectId::new("", "ServiceAccount", &live.object.id.namespace, name));
    if let Some(missing) = account.as_ref().filter(|account| !derivation.state.is_live(account)) {
        return Finalization::LeavesObjects(format!("needs {missing}, which does not exist"));
    }
    if let Some(config) = derivation.state.kube_config(&live.object.id.namespace, spec.value()) {
        if derivation.state.stays_absent(&config) {
            return Finalization::Depends(format!("it stays Terminating until its {config} exists"));
        }
        if derivation.consequences.may_be_deleted(&config) {
            return Finalization::Depends(format!("its {config} is deleted too"));
        }
    }
    match account.filter(|account| derivation.consequences.may_be_deleted(account)) {
        Some(account) => Finalization::Depends(format!("its {account} is deleted too")),
        None => Finalization::DeletesObjects,
    }
}

/// Returns the finalization of a Kustomization that has one of several specs when it is deleted, the live one first.
fn of_any_spec(finalizations: Vec<Finalization>) -> Finalization {
    let mut rest = finalizations.into_iter();
    let first = rest.next().unwrap_or(Finalization::DeletesObjects);
    let Some(other) = rest.find(|other| discriminant(other) != discriminant(&first)) else { return first };
    let leaves =
        [(&first, "until"), (&other, "after")].into_iter().find_map(|(finalization, when)| match finalization {
            Finalization::LeavesObjects(why) => Some(format!("it {why} {when} its spec changes")),
            _ => None,
        });
    match [first, other].into_iter().find(|finalization| matches!(finalization, Finalization::Depends(_))) {
        Some(depends) => depends,
        None => Finalization::Depends(leaves.unwrap_or_default()),
    }
}
