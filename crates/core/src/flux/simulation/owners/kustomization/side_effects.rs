//! Live objects that Kubernetes deletes because a Kustomization changes an object, and that the Kustomization does not prune.

use std::collections::{BTreeMap, BTreeSet};

use crate::flux::kustomize_controller;
use crate::flux::simulation::model::affected_owner::{Effect, OwnerDeletion};
use crate::flux::simulation::model::node::{BuiltObjects, Node, SimulationEvent};
use crate::flux::simulation::owners::behaviour::comparison::{Asked, Comparison};
use crate::flux::simulation::owners::behaviour::scaling::{Scaling, released_claim, released_claims};
use crate::kubernetes::deletion::cascade::CascadeKind;
use crate::kubernetes::deletion::volumes::{ReclaimOutcome, late_outcome};
use crate::kubernetes::object::ObjectId;
use crate::plan::Reason;

/// Returns what the last pass of a Kustomization makes Kubernetes delete; `None` if that is nothing.
pub(super) fn side_effects(comparison: &mut Comparison<'_, '_, '_>, node: &Node) -> Asked<Option<Effect>> {
    let Some((pass_id, pass)) = node.numbered_passes().last() else { return Ok(None) };
    let Some(objects) = pass.applied_objects() else { return Ok(None) };
    let applied = objects.values().map(Scaling::of_built);
    let claims = released_claims(comparison, applied, kustomize_controller::NAME)?;
    let mut deletes: BTreeMap<ObjectId, OwnerDeletion> =
        claims.iter().map(|(id, condition)| (id.clone(), released_claim(condition.as_ref()))).collect();
    let mut keeps = BTreeMap::new();
    for (id, outcome) in reclaimed_volumes(comparison, objects) {
        if outcome.may_delete() {
            let mut deletion = OwnerDeletion::new(CascadeKind::Volume(outcome));
            deletion.remark("its claim is gone, and its new reclaim policy counts at once");
            deletion.is_doubtful = !outcome.is_certain();
            deletes.insert(id, deletion);
        } else {
            keeps.insert(id, Reason::from(outcome));
        }
    }
    let triggers = BTreeSet::from([SimulationEvent::Apply(pass_id)]);
    let condition = pass.condition.as_ref().map(|condition| condition.detail.clone());
    let is_empty = deletes.is_empty() && keeps.is_empty();
    Ok((!is_empty).then(|| Effect { triggers, deletes, keeps, condition, ..Effect::default() }))
}

/// Returns the volumes without a claim that get a reclaim policy with which they lose their data.
fn reclaimed_volumes(comparison: &Comparison<'_, '_, '_>, objects: &BuiltObjects) -> Vec<(ObjectId, ReclaimOutcome)> {
    let snapshot = comparison.state().input.snapshot;
    let changes = comparison.derivation.consequences.policies.iter().filter(|(id, _)| objects.contains_key(*id));
    let outcomes = changes
        .filter_map(|(id, change)| Some((id.clone(), late_outcome(snapshot.resource(id)?, &change.policy, snapshot)?)));
    outcomes.collect()
}
