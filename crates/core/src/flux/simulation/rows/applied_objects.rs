//! Objects that the Kustomizations apply in their last passes.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::flux::apply::AppliedObject;
use crate::flux::build::objects::BuiltObject;
use crate::flux::simulation::kustomization::scope::stage;
use crate::flux::simulation::model::node::{Pass, PassOutcome};
use crate::flux::simulation::model::owner_names::owner_id;
use crate::flux::simulation::model::protection::is_never_applied;
use crate::flux::simulation::model::state::State;
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::object::ObjectId;
use crate::plan::Contested;

/// Returns the identity of every object that a Kustomization applies in its last pass, unless the Kustomization is
/// deleted.
pub(crate) fn applied_ids<'s>(state: &'s State<'_>) -> HashSet<(&'s NamespacedName, &'s ObjectId)> {
    let staying = state.nodes.iter().filter(|node| node.may_stay());
    staying.flat_map(|node| node.last_applied_objects().map(|(id, _)| (&node.id.key, id))).collect()
}

/// Returns those objects of [`applied_ids`] that the predicate accepts by their Kustomization, spec and manifest.
/// An object of two Kustomizations is returned twice.
pub(crate) fn applied_objects_if(
    state: &State<'_>,
    includes: impl Fn(&NamespacedName, &KustomizationSpec, &BuiltObject) -> bool,
) -> Vec<AppliedObject> {
    let mut applied = Vec::new();
    for node in state.nodes.iter().filter(|node| node.may_stay()) {
        let (key, Some(pass)) = (&node.id.key, node.last_pass()) else { continue };
        let objects = pass.applied_objects().into_iter().flatten();
        let included = objects.filter(|(_, built)| includes(key, &pass.spec, built));
        applied.extend(included.map(|(id, built)| AppliedObject {
            owner: key.clone(),
            spec: pass.spec.clone(),
            id: id.clone(),
            built: built.clone(),
        }));
    }
    applied
}

/// Returns the live objects in stages that fail for another reason than an answer of the server. If the controller
/// replaces one by force, it deletes it in the dry-run of its stage, before the failure or after it.
pub(crate) fn interrupted_objects(state: &State<'_>) -> Vec<AppliedObject> {
    let custom = &state.input.flags.custom_stage_kinds;
    let mut interrupted = Vec::new();
    for node in state.nodes.iter().filter(|node| node.may_stay()) {
        let Some(Pass { spec, outcome: PassOutcome::Partial { applied, desired, .. }, .. }) = node.last_pass() else {
            continue;
        };
        let missing = desired.iter().filter(|(id, _)| !applied.contains_key(*id));
        let failing = missing.clone().map(|(id, _)| stage(id, custom)).min();
        for (id, built) in missing.filter(|(id, _)| Some(stage(id, custom)) == failing) {
            let Some(live) = state.live_object(id) else { continue };
            let (owner, spec, id, built) = (node.id.key.clone(), spec.clone(), id.clone(), built.clone());
            let object = AppliedObject { owner, spec, id, built };
            interrupted.extend(Some(object).filter(|object| object.forces(Some(live))));
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
