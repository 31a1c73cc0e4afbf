//! What the API server refuses in one run of a Kustomization, and what the run deletes by force because of that.
//!
//! The controller asks the server about a whole stage before it applies anything of it. What it may replace, it deletes at
//! once, and waits without a limit until it is gone. Source: `ApplyAll` of fluxcd/pkg/ssa v0.76.2.

use std::collections::{BTreeMap, BTreeSet};

use super::containers::comes_back;
use super::scope::{stage, stop_at};
use crate::flux::simulation::model::node::{BuiltObjects, Forced, NodeId, PassOutcome};
use crate::flux::simulation::model::refusals::{ForcedDeletion, Refusal};
use crate::flux::simulation::model::refused_deletions::failing_deletion;
use crate::flux::simulation::model::state::State;
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::object::ObjectId;
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};

/// Stops an application with a spec at the first object that the server refuses, or that is deleted and stays.
pub(super) fn apply_refusals(
    state: &State<'_>,
    key: &NamespacedName,
    spec: &KustomizationSpec,
    outcome: PassOutcome,
) -> PassOutcome {
    let PassOutcome::Applied(objects) = &outcome else { return outcome };
    let custom = &state.input.flags.custom_stage_kinds;
    let refused = refusals_of_run(state, key, spec, objects).filter(|refusal| {
        !comes_back(state, &refusal.id, objects) && !was_replaced_before(state, key, spec, &refusal.id)
    });
    let refused = refused.map(|refusal| (&refusal.id, refusal.message.clone()));
    let stuck = forced_in_run(state, key, spec, objects).filter_map(|forced| Some((&forced.id, stuck(state, forced)?)));
    match refused.chain(stuck).min_by_key(|(id, _)| stage(id, custom)) {
        Some((id, failure)) => stop_at(objects.clone(), id, failure, custom),
        None => outcome,
    }
}

/// Returns the live objects that a pass with an outcome deletes by force.
pub(super) fn forced_objects(
    state: &State<'_>,
    key: &NamespacedName,
    spec: &KustomizationSpec,
    outcome: &PassOutcome,
) -> BTreeMap<ObjectId, Forced> {
    let (applied, desired) = match outcome {
        PassOutcome::Applied(objects) => (objects, objects),
        PassOutcome::Partial { applied, desired, .. } => (applied, desired),
        PassOutcome::Blocked(_) | PassOutcome::Unknown(_) => return BTreeMap::new(),
    };
    let custom = &state.input.flags.custom_stage_kinds;
    let missing = desired.keys().filter(|id| !applied.contains_key(*id));
    let failing = missing.map(|id| stage(id, custom)).min();
    let refused = refusals_of_run(state, key, spec, desired).map(|refusal| &refusal.id);
    let stuck = forced_in_run(state, key, spec, desired).filter(|forced| stuck(state, forced).is_some());
    let failures = refused.chain(stuck.map(|forced| &forced.id));
    let failures: BTreeSet<&ObjectId> = failures.filter(|id| Some(stage(id, custom)) == failing).collect();
    let mut deleted = BTreeMap::new();
    for forced in forced_in_run(state, key, spec, desired) {
        let own = stage(&forced.id, custom);
        if failing.is_some_and(|failing| failing < own) {
            continue;
        }
        let is_interrupted = failing == Some(own);
        let comes_back = forced.comes_back && !is_interrupted;
        // If the object alone stops its stage, nothing comes before its deletion.
        let is_certain = !is_interrupted || failures.iter().eq([&&forced.id]);
        deleted.insert(forced.id.clone(), Forced { comes_back, is_certain, reason: forced.reason.clone() });
    }
    deleted
}

/// Returns true if an earlier run of a live Kustomization, with another spec, has created an object anew: what the server
/// refuses to change is gone by then.
pub(crate) fn was_replaced_before(
    state: &State<'_>,
    key: &NamespacedName,
    spec: &KustomizationSpec,
    id: &ObjectId,
) -> bool {
    let passes = state.node(&NodeId::live(key)).map_or(&[][..], |node| &node.passes);
    let mut earlier = passes.iter().take_while(|pass| pass.spec != *spec);
    earlier.any(|pass| !pass.is_optional && pass.condition.is_none() && pass.replaces(id))
}

/// Returns what the server refuses of the objects that a Kustomization applies in a run with a spec.
fn refusals_of_run<'s>(
    state: &'s State<'_>,
    key: &NamespacedName,
    spec: &KustomizationSpec,
    objects: &BuiltObjects,
) -> impl Iterator<Item = &'s Refusal> {
    state.refusals.iter().filter(move |refusal| {
        let built = objects.get(&refusal.id);
        refusal.owner == *key
            && refusal.spec.apply_fields() == spec.apply_fields()
            && built.is_some_and(|built| built.manifest == refusal.manifest)
    })
}

/// Returns what a Kustomization deletes by force of the objects that it applies in a run with a spec.
fn forced_in_run<'s>(
    state: &'s State<'_>,
    key: &NamespacedName,
    spec: &KustomizationSpec,
    objects: &BuiltObjects,
) -> impl Iterator<Item = &'s ForcedDeletion> {
    state.forced.iter().filter(move |forced| {
        let built = objects.get(&forced.id);
        forced.owner == *key
            && forced.spec.apply_fields() == spec.apply_fields()
            && built.is_some_and(|built| built.manifest == forced.manifest)
    })
}

/// Returns the failure of a run that deletes a Kustomization by force, if the finalizer of that one fails.
fn stuck(state: &State<'_>, forced: &ForcedDeletion) -> Option<String> {
    let id = Some(&forced.id).filter(|id| id.is_here(GROUP, KIND))?;
    let node = state.node(&NodeId::live(&NamespacedName::of(id))).filter(|node| node.deletion.is_some())?;
    let failure = failing_deletion(state, node)?;
    Some(format!("{id} is deleted, and the controller waits until its finalizer succeeds: {failure}"))
}
