//! Conditions of races in words.

use std::collections::BTreeSet;

use super::outcomes::PossibleOutcomes;
use crate::flux::simulation::model::node::{Finalization, Node, SimulationEvent};
use crate::flux::simulation::model::owner_names::owner_id;
use crate::flux::simulation::model::state::State;
use crate::flux::spec::NamespacedName;
use crate::kubernetes::object::ObjectId;
use crate::text::join_limited;

/// Condition of the deletion of an object by force in a stage that fails at another object.
const INTERRUPTED: &str = "it may be deleted before another object stops its Kustomization, and is then not recreated";

/// Names the conditions of a race, or the owners whose order of events decides it.
pub(crate) fn race_condition(state: &State<'_>, id: &ObjectId, outcomes: &PossibleOutcomes) -> String {
    let events = outcomes.deletions.iter().chain(&outcomes.prevented_deletions);
    let owners: BTreeSet<&NamespacedName> = events.map(SimulationEvent::owner).chain(&outcomes.appliers).collect();
    let nodes: Vec<&Node> = state.nodes.iter().filter(|node| owners.contains(&node.id.key)).collect();
    let passes = nodes.iter().flat_map(|node| &node.passes);
    if passes.clone().any(|pass| pass.forced.get(id).is_some_and(|forced| !forced.is_certain)) {
        return INTERRUPTED.to_owned();
    }
    let conditions: BTreeSet<&str> =
        passes.filter_map(|pass| pass.condition.as_ref()).map(|condition| &*condition.detail).collect();
    if !conditions.is_empty() {
        return conditions.into_iter().collect::<Vec<_>>().join("; ");
    }
    let restarted = nodes.iter().find(|node| outcomes.deletions.contains(&SimulationEvent::Finalize(node.id.clone())));
    if let Some((node, parent)) = restarted.and_then(|node| Some((node, node.earlier_parents.first()?))) {
        let (name, parent) = (owner_id(&node.id.key), owner_id(parent));
        return format!("it stays unless {parent} creates {name} first and is then deleted, which deletes it too");
    }
    if outcomes.live_owners.len() > 1 {
        let names = join_limited(outcomes.live_owners.iter().map(owner_id), 3);
        return format!("these apply it at each interval, and the last one before the change owns it: {names}");
    }
    let deleted = nodes.iter().find(|node| node.deletion.is_some());
    if owners.len() == 1
        && let Some(node) = deleted.or(nodes.first())
    {
        return condition_of_one(id, node);
    }
    let names: Vec<String> = owners.iter().map(|key| owner_id(key).to_string()).collect();
    format!("it depends on which of these comes first: {}", names.join(", "))
}

/// Returns true if a Kustomization has a spec, or variables, only for some time, and may not reconcile in it.
fn has_passing_spec(node: &Node) -> bool {
    let earlier = node.passes.split_last().map_or(&[][..], |(_, earlier)| earlier);
    earlier.iter().any(|pass| pass.is_optional && pass.trigger.is_some())
}

/// Returns the condition of a race that one Kustomization decides.
fn condition_of_one(id: &ObjectId, node: &Node) -> String {
    let name = owner_id(&node.id.key);
    match &node.deletion {
        Some(deletion) if !deletion.is_certain => format!("it depends on whether {name} is deleted"),
        Some(deletion) if node.inventory.contains(id) => match &deletion.finalization {
            Finalization::Depends(why) => format!("{name} deletes it only if its finalizer can: {why}"),
            _ => format!("it depends on whether {name} reconciles the new revision before it is deleted"),
        },
        Some(_) => format!("it stays if {name} is deleted before its inventory lists it"),
        None if node.last_pass().is_some_and(|last| last.spec.is_suspended()) => before_suspension(&node.id.key),
        None if has_passing_spec(node) => {
            format!("it depends on whether {name} is reconciled between two changes of its spec or its variables")
        }
        None if node.inventory.contains(id) => {
            format!("it depends on whether {name} applies the new revision before it starts to prune")
        }
        None if node.last_pass().is_some_and(|last| last.spec.prunes()) => {
            format!("it stays if {name} reconciles its new spec before its inventory lists it")
        }
        None => format!("it depends on whether {name} applies the new revision before its spec changes"),
    }
}

/// Returns the condition of what a Kustomization does that is suspended.
pub(crate) fn before_suspension(key: &NamespacedName) -> String {
    format!("it depends on whether {} reconciles the new revision before it is suspended", owner_id(key))
}
