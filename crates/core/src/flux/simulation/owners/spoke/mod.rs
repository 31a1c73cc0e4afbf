//! Owners in other clusters that a Kustomization changes there. What Flux in those clusters does then is not followed.

use crate::flux::kinds;
use crate::flux::simulation::model::affected_owner::{AffectedOwner, Reaction};
use crate::flux::simulation::model::node::Pass;
use crate::flux::simulation::owners::behaviour::comparison::{Comparison, Difference, Part};
use crate::kubernetes::gap::{EFFECTS, Gap, GapKind};
use crate::kubernetes::object::ObjectId;
use crate::plan::Plan;
use crate::text::join_limited;

/// Number of changed parts of a spec that one message names.
const NAMED_PARTS: usize = 5;

/// Returns the objects of Flux in other clusters that a Kustomization changes there.
pub(super) fn affected(comparison: &mut Comparison<'_, '_, '_>) -> Vec<AffectedOwner> {
    let state = comparison.state();
    let mut owners: Vec<AffectedOwner> = vec![];
    for node in state.nodes.iter() {
        let applied = node.passes.iter().filter_map(Pass::applied_objects).flat_map(|objects| objects.keys());
        for id in node.inventory.iter().chain(applied) {
            if !is_remote_owner(id) || owners.iter().any(|known| known.id == *id) {
                continue;
            }
            let change = match comparison.difference(id, Part::Spec { is_ready: false }) {
                Ok(Some(Difference::Changed(parts))) => format!("{} changes", join_limited(parts, NAMED_PARTS)),
                Ok(Some(Difference::NotCompared(why))) => format!("its spec cannot be compared: {why}"),
                // What is new deletes nothing, and what is deleted has a row.
                Ok(Some(Difference::Created | Difference::Deleted) | None) => continue,
                Err(_) => continue,
            };
            let applied_by = node.id.key.clone();
            owners.push(AffectedOwner::new(id, Reaction::Elsewhere { applied_by, change }));
        }
    }
    owners
}

/// Returns a gap for each owner in another cluster that a plan deletes.
pub(crate) fn deletion_gaps(plan: &Plan) -> Vec<Gap> {
    let deleted = plan.deletions().filter(|row| is_remote_owner(&row.object.id));
    deleted.map(|row| remote_gap(&row.object.id, "it is deleted")).collect()
}

/// Returns the gap of an object of Flux in another cluster.
pub(crate) fn remote_gap(id: &ObjectId, change: &str) -> Gap {
    let message = format!("{change}, and what Flux in that cluster does then is not in this plan");
    Gap { kind: GapKind::Failed, subject: format!("{EFFECTS}{id}"), namespace: None, message }
}

/// Returns true for objects of Flux in another cluster that decide what is deployed: owners and their sources.
fn is_remote_owner(id: &ObjectId) -> bool {
    if id.cluster.is_none() {
        return false;
    }
    let controller = kinds::find(&id.group, &id.kind).map(|kind| kind.controller);
    controller.is_some_and(|name| name != "notification-controller" && !name.starts_with("image-"))
}
