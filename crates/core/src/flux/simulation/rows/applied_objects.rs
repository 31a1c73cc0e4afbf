//! Objects that the Kustomizations apply.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::flux::apply::AppliedObject;
use crate::flux::build::objects::BuiltObject;
use crate::flux::simulation::kustomization::passes::was_replaced_before;
use crate::flux::simulation::model::node::{Pass, PassOutcome};
use crate::flux::simulation::model::owner_names::owner_id;
use crate::flux::simulation::model::protection::is_never_applied;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::schedule::race_conditions::before_suspension;
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::flux::stages::stage;
use crate::kubernetes::object::ObjectId;
use crate::plan::Contested;

/// Returns the identity of every object that a Kustomization applies last, unless the Kustomization is deleted.
pub(crate) fn applied_ids<'s>(state: &'s State<'_>) -> HashSet<(&'s NamespacedName, &'s ObjectId)> {
    let staying = state.nodes.iter().filter(|node| node.may_stay());
    staying.flat_map(|node| node.last_applied_objects().into_keys().map(|id| (&node.id.key, id))).collect()
}

/// The spec of each Kustomization in the pass that applies an object last, and the manifest of the object.
pub(crate) type LastRuns<'s> = HashMap<(&'s NamespacedName, &'s ObjectId), (&'s KustomizationSpec, &'s BuiltObject)>;

/// Returns the last pass of each Kustomization, unless it is deleted, and of one that builds nothing then, the last that lasts. Objects
/// that it finds anew, because an earlier pass has replaced them, are left out: the server was asked about the live ones.
pub(crate) fn last_runs<'s>(state: &'s State<'_>) -> LastRuns<'s> {
    let mut runs = LastRuns::new();
    for node in state.nodes.iter().filter(|node| node.may_stay()) {
        let Some(pass) = node.last_pass() else { continue };
        let objects: Vec<(&KustomizationSpec, &ObjectId, &BuiltObject)> = match pass.desired_objects() {
            Some(desired) => desired.iter().map(|(id, built)| (&pass.spec, id, built)).collect(),
            None => {
                let lasting = node.last_applied_objects().into_iter();
                lasting.map(|(id, (number, built))| (&node.passes[number].spec, id, built)).collect()
            }
        };
        let key = &node.id.key;
        let found = objects.into_iter().filter(|(spec, id, _)| !was_replaced_before(state, key, spec, id));
        runs.extend(found.map(|(spec, id, built)| ((key, id), (spec, built))));
    }
    runs
}

/// The spec, the manifest and the condition of an apply that a Kustomization may make before it is suspended.
pub(crate) type RunsBeforeSuspension<'s> =
    HashMap<(&'s NamespacedName, &'s ObjectId), (&'s KustomizationSpec, &'s BuiltObject, String)>;

/// Returns what the Kustomizations that the change suspends may apply before: nothing undoes it then.
pub(crate) fn runs_before_suspension<'s>(state: &'s State<'_>) -> RunsBeforeSuspension<'s> {
    let mut runs = RunsBeforeSuspension::new();
    for node in state.nodes.iter().filter(|node| node.may_stay()) {
        let Some((last, earlier)) = node.passes.split_last().filter(|(last, _)| last.spec.is_suspended()) else {
            continue;
        };
        let key = &node.id.key;
        for pass in earlier.iter().rev().filter(|pass| pass.is_optional || pass.condition.is_some()) {
            for (id, built) in pass.applied_objects().into_iter().flatten().filter(|(id, _)| !last.applies(id)) {
                runs.entry((key, id)).or_insert_with(|| (&pass.spec, built, before_suspension(key)));
            }
        }
    }
    runs
}

/// Returns the objects that a Kustomization applies in one of its passes, unless it is deleted, and that the predicate accepts
/// by their Kustomization, spec and manifest. An object of two Kustomizations is returned twice.
pub(crate) fn applied_objects_if(
    state: &State<'_>,
    includes: impl Fn(&NamespacedName, &KustomizationSpec, &BuiltObject) -> bool,
) -> Vec<AppliedObject> {
    let mut applied = Vec::new();
    for node in state.nodes.iter().filter(|node| node.may_stay()) {
        let key = &node.id.key;
        for pass in &node.passes {
            let objects = pass.applied_objects().into_iter().flatten();
            let included = objects.filter(|(_, built)| includes(key, &pass.spec, built));
            applied.extend(included.map(|(id, built)| AppliedObject {
                owner: key.clone(),
                spec: pass.spec.clone(),
                id: id.clone(),
                built: built.clone(),
                live_is_private: false,
            }));
        }
    }
    applied
}

/// Returns the objects in stages that fail for another reason than an answer of the server, as far as an answer matters: a
/// stage that fails at one of its objects has passed the dry-runs of all, and what the controller replaces by force is
/// deleted in the dry-runs, before a failure of one or after it.
pub(crate) fn interrupted_objects(state: &State<'_>) -> Vec<AppliedObject> {
    let custom = &state.input.flags.custom_stage_kinds;
    let mut interrupted = Vec::new();
    let staying = state.nodes.iter().filter(|node| node.may_stay());
    for (node, pass) in staying.flat_map(|node| node.passes.iter().map(move |pass| (node, pass))) {
        let Pass { spec, outcome: PassOutcome::Partial { applied, desired, .. }, .. } = pass else { continue };
        let missing = desired.iter().filter(|(id, _)| !applied.contains_key(*id));
        let failing = missing.clone().map(|(id, _)| stage(id, custom)).min();
        let is_begun = applied.keys().any(|id| Some(stage(id, custom)) == failing);
        for (id, built) in missing.filter(|(id, _)| Some(stage(id, custom)) == failing) {
            let live = state.live_object(id);
            let (owner, spec, id, built) = (node.id.key.clone(), spec.clone(), id.clone(), built.clone());
            let object = AppliedObject { owner, spec, id, built, live_is_private: false };
            let is_forced = live.is_some() && object.forces(live);
            interrupted.extend(Some(object).filter(|_| is_begun || is_forced));
        }
    }
    interrupted
}

/// Returns the objects that more than one Kustomization applies in the end.
pub(crate) fn contested(state: &State<'_>) -> Vec<Contested> {
    let mut owners: BTreeMap<&ObjectId, BTreeSet<_>> = BTreeMap::new();
    for node in state.nodes.iter().filter(|node| node.may_stay()) {
        let Some(pass) = node.last_pass() else { continue };
        let objects = pass.new_inventory().into_iter().flatten();
        for (id, _) in objects.filter(|(_, built)| !is_never_applied(built, &pass.spec)) {
            owners.entry(id).or_default().insert(owner_id(&node.id.key));
        }
    }
    owners.retain(|_, owners| owners.len() > 1);
    let contested = owners.into_iter();
    contested.map(|(id, owners)| Contested { object: id.clone(), owners: owners.into_iter().collect() }).collect()
}
