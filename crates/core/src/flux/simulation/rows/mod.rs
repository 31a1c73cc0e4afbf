//! Rows, outcomes and gaps of a plan.

pub(crate) mod applied_objects;
mod beside;
pub(crate) mod cascade_rows;
mod encrypted_objects;
mod image_automation;
mod kustomization_outcomes;
pub(crate) mod object_rows;
pub(crate) mod owner_rows;
pub(crate) mod references;
pub(crate) mod secret_names;
pub(crate) mod token_rows;
mod unknown_takers;

use std::collections::BTreeSet;

use crate::flux::simulation::model::held_deletions::held_deletion;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::kubernetes::gap::{Gap, GapKind, PREVIEW};
use crate::kubernetes::object::ObjectId;
use crate::plan::{Action, Actor, Change, Plan};
use crate::text::pluralize;
use applied_objects::contested;
use cascade_rows::{cascaded_row, kept_row, spread_unknown};
use encrypted_objects::annotate_encrypted;
use kustomization_outcomes::{owner_outcomes, unknown_builds};
use object_rows::{misread_names, row};
use owner_rows::{add_affected_owners, add_stuck_owners, add_updates, mark_recreated, owner_rows};
use unknown_takers::doubt_what_may_be_taken;

/// Returns the plan of the last state. A state that is not stable is a gap.
pub(crate) fn plan(state: &State<'_>, consequences: &Consequences<'_>, is_stable: bool) -> Plan {
    let mut plan = Plan::new(state.input.snapshot.cluster.clone());
    let spokes = state.input.snapshot.spokes.iter();
    plan.set_spokes(spokes.map(|(name, spoke)| (name.clone(), spoke.cluster.clone())).collect());
    plan.add_gaps(state.input.snapshot.all_gaps());
    plan.add_gaps(unknown_builds(state));
    if !is_stable {
        let message = if state.is_late() {
            "the time of the plan is over (--plan-timeout)".to_owned()
        } else {
            "Kustomizations change each other, and no stable state was found".to_owned()
        };
        plan.add_gaps([Gap { kind: GapKind::Failed, subject: PREVIEW.to_owned(), namespace: None, message }]);
    }
    let incomplete = consequences.outcomes.iter().filter(|(_, outcomes)| outcomes.is_incomplete);
    plan.add_gaps(incomplete.map(|(id, outcomes)| {
        let appliers = pluralize(outcomes.appliers.len(), "Kustomization");
        let message = format!("it is changed by {appliers}, in more possible orders than can be explored");
        Gap { kind: GapKind::Failed, subject: id.to_string(), namespace: None, message }
    }));
    let nodes_by_object = state.nodes_by_object();
    let outcomes = consequences.outcomes.iter().map(|(id, outcomes)| {
        let nodes = nodes_by_object.get(id).map_or(&[][..], Vec::as_slice);
        row(state, id, outcomes, consequences, nodes)
    });
    let mut changes: Vec<Change> = outcomes.flatten().collect();
    changes.extend(consequences.cascaded.values().map(|cascaded| cascaded_row(state, cascaded, consequences)));
    let listed: BTreeSet<ObjectId> = changes.iter().map(|change| change.object.id.clone()).collect();
    let kept = consequences.kept.values().filter(|cascaded| !listed.contains(&cascaded.object.id));
    changes.extend(kept.filter_map(|cascaded| kept_row(state, cascaded, consequences)));
    mark_recreated(state, consequences, &mut changes);
    spread_unknown(&mut changes);
    changes.extend(owner_rows(state, consequences));
    changes.extend(misread_names(state));
    doubt_what_may_be_taken(state, &mut changes);
    annotate_encrypted(state, &mut changes);
    for change in changes.iter_mut().filter(|change| change.is_deletion()) {
        if let Some(held) = state.live_object(&change.object.id).and_then(held_deletion) {
            change.make_race(held);
        }
    }
    plan.add_owners(owner_outcomes(state));
    plan.add_changes(changes);
    plan.add_contested(contested(state));
    plan.set_unrehearsed(unrehearsed(&plan));
    add_affected_owners(state, &mut plan);
    add_stuck_owners(state, consequences, &mut plan);
    add_updates(state, &mut plan);
    image_automation::add_commits(state, &mut plan);
    plan.set_policy_changes(consequences.policies.clone());
    beside::add(state, &mut plan);
    plan
}

/// Returns the objects of a plan that dry-runs would have to confirm: everything that kustomize-controller changes.
fn unrehearsed(plan: &Plan) -> Vec<ObjectId> {
    let by_controller = plan.changes().iter().filter(|change| change.by == Actor::KustomizeController);
    let rows = by_controller.filter(|change| !matches!(change.action, Action::Keep | Action::Unknown));
    rows.map(|change| change.object.id.clone()).collect()
}
