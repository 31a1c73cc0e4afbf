//! The possible outcomes of one object: every order of events that can happen is explored.
//!
//! If every order has the same result, the result is certain; otherwise it is a race. An object that nobody deletes ends
//! equal in every order.

use std::collections::BTreeSet;

use super::event_order::EventOrder;
use super::object_events::{Branch, ChosenBranches, ObjectApply, Schedule, ScheduleContext};
use super::orders::Orders;
use super::outcomes::{FinalState, PossibleOutcomes, Rules};
use crate::flux::simulation::model::facts::refused_deletions::RefusedRuns;
use crate::flux::simulation::model::node::Node;
use crate::flux::simulation::model::protection::{is_marked_live, is_never_changed, label_owner, live_owner};
use crate::flux::spec::NamespacedName;
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::ownership::schemes::flux_kustomization::SSA;

/// Maximum number of branches whose combinations are explored.
const MAX_BRANCHES: usize = 10;

/// Maximum number of explored states of one object, each times the number of Kustomizations.
const MAX_STEPS: usize = 2_000_000;

/// Explores every order of the events of one object. `live` is its metadata if it exists, and `refused` are the runs of
/// Kustomizations that the server does not let delete it.
pub(crate) fn explore(
    id: &ObjectId,
    live: Option<&ObjectMetadata>,
    nodes: &[&Node],
    order: &EventOrder,
    rules: Rules<'_>,
    refused: &RefusedRuns<'_>,
) -> PossibleOutcomes {
    let live_owners = live.map(|live| live_owners(live, nodes)).unwrap_or_default();
    let mut outcomes = PossibleOutcomes::default();
    let branches = Branch::collect(id, live, nodes, order, rules.features);
    let toggled = branches.len().min(MAX_BRANCHES);
    let nobody_deletes = !nodes.iter().any(|node| may_delete(id, node));
    outcomes.is_incomplete = branches.len() > MAX_BRANCHES && !nobody_deletes;
    let mut steps = MAX_STEPS;
    let all = (1_usize << toggled) - 1;
    // Without deletions, only how many of the events happen decides whether the object exists.
    let step = if nobody_deletes { all.max(1) } else { 1 };
    for combination in (0..=all).step_by(step) {
        let beyond = combination == all || !nobody_deletes;
        let chosen = ChosenBranches { branches: &branches, toggled, combination, beyond };
        let context = ScheduleContext { id, exists: live.is_some(), chosen, rules, refused };
        let schedule = Schedule::new(nodes, &context);
        outcomes.is_desired |= !schedule.final_applies.is_empty();
        outcomes.appliers.extend(schedule.appliers().cloned());
        if nobody_deletes {
            outcomes.final_states.insert(end_without_deletions(live, &schedule));
        } else {
            for owner in schedule.distinct_owners(&live_owners) {
                Orders::new(&schedule, order, live, owner).explore(rules, &mut steps, &mut outcomes);
            }
        }
    }
    PossibleOutcomes { live_owners, ..outcomes }
}

/// Returns the owners that the labels of a live object can name when the change arrives. If several Kustomizations list the
/// object in their inventories, each applies it at every interval and writes its own labels.
fn live_owners(live: &ObjectMetadata, nodes: &[&Node]) -> BTreeSet<NamespacedName> {
    let mut owners: BTreeSet<NamespacedName> = live_owner(live).into_iter().collect();
    if is_never_changed(live) || is_marked_live(live, SSA, "IfNotPresent") {
        return owners;
    }
    let listing: Vec<&&Node> = nodes.iter().filter(|node| node.inventory.contains(&live.id)).collect();
    if listing.len() > 1 {
        owners.extend(listing.iter().filter_map(|node| {
            let spec = &node.passes.first()?.spec;
            (!spec.is_suspended()).then(|| label_owner(spec, &node.id.key))
        }));
    }
    owners
}

/// Returns false if no order of events can make a Kustomization delete the object.
pub(crate) fn may_delete(id: &ObjectId, node: &Node) -> bool {
    let is_listed = node.inventory.contains(id) || node.passes.iter().any(|pass| pass.applies(id));
    let is_forced = node.passes.iter().any(|pass| pass.forced.contains_key(id));
    is_forced || (is_listed && (node.deletion.is_some() || node.passes.iter().any(|pass| node.prunes(pass, id))))
}

/// Returns the final state of an object that nobody deletes.
fn end_without_deletions(live: Option<&ObjectMetadata>, schedule: &Schedule) -> FinalState {
    let applied = schedule.events.iter().filter_map(|scheduled| scheduled.effect.application());
    match live {
        Some(_) => FinalState::Kept,
        None if applied.chain(&schedule.final_applies).any(ObjectApply::creates) => FinalState::Created,
        None => FinalState::Absent,
    }
}
