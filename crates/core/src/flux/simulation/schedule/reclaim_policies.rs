//! Reclaim policies of volumes that Kustomizations change.

use std::collections::BTreeMap;

use super::event_order::EventOrder;
use super::outcomes::PossibleOutcomes;
use crate::flux::simulation::model::node::{PassId, SimulationEvent};
use crate::flux::simulation::model::protection::{is_never_applied, is_never_changed};
use crate::flux::simulation::model::state::State;
use crate::kubernetes::deletion::volumes::{KIND, PolicyChange, PolicyChanges, claim_of, policy_of};
use crate::kubernetes::object::{ObjectId, Resource, text_at};

/// Policy of a volume whose manifest has none.
const DEFAULT: &str = "Retain";

/// Returns the reclaim policies of live volumes that Kustomizations change.
pub(crate) fn policy_changes(
    state: &State<'_>,
    outcomes: &BTreeMap<ObjectId, PossibleOutcomes>,
    order: &EventOrder,
) -> PolicyChanges {
    let clusters = state.input.snapshot.clusters();
    let volumes = clusters.flat_map(|(_, cluster)| &cluster.resources).filter(|full| full.object.id.is("", KIND));
    let changes =
        volumes.filter_map(|volume| Some((volume.object.id.clone(), policy_change(state, volume, outcomes, order)?)));
    changes.collect()
}

fn policy_change(
    state: &State<'_>,
    volume: &Resource,
    outcomes: &BTreeMap<ObjectId, PossibleOutcomes>,
    order: &EventOrder,
) -> Option<PolicyChange> {
    let id = &volume.object.id;
    let applying: Vec<_> = state.nodes.applying(id).collect();
    let node = *applying.last()?;
    let (number, built) = node.last_applied(id)?;
    let pass = node.passes.get(number)?;
    let live = policy_of(volume)?;
    let policy = text_at(&built.manifest, "/spec/persistentVolumeReclaimPolicy");
    let is_named = !policy.is_empty();
    let policy = if is_named { policy } else { DEFAULT };
    if policy == live || is_never_applied(built, &pass.spec) || is_never_changed(&volume.object) {
        return None;
    }
    let apply = SimulationEvent::Apply(PassId { node: node.id.clone(), number });
    let claim = claim_of(&volume.object, state.input.snapshot);
    let deletions = claim.and_then(|claim| outcomes.get(&claim.id)).map(|outcomes| &outcomes.deletions);
    Some(PolicyChange {
        policy: policy.to_owned(),
        // Without a policy in the manifest, the volume keeps one that somebody else has set.
        is_certain: is_named && applying.len() == 1 && pass.condition.is_none() && !pass.is_optional,
        is_first: deletions
            .is_some_and(|events| !events.is_empty() && events.iter().all(|deletion| order.precedes(&apply, deletion))),
    })
}
