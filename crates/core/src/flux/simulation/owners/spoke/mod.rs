//! Objects of Flux in other clusters that a Kustomization changes: the plan says that it does not follow them.

use crate::flux::kinds;
use crate::flux::simulation::model::affected_owner::RemoteOwner;
use crate::flux::simulation::model::node::{Node, Pass};
use crate::flux::simulation::model::owner_names::owner_id;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::comparison::{Comparison, Difference, Part};
use crate::kubernetes::gap::{Gap, GapKind};
use crate::kubernetes::object::ObjectId;
use crate::plan::{Action, Actor, Change, PinnedObject, Plan, Reason, ReasonCode};
use crate::text::join_limited;

/// Number of changed parts of a spec that one message names.
const NAMED_PARTS: usize = 5;

impl<'a> State<'a> {
    /// Adds what is not known of Flux in other clusters: a gap for each of its objects there that changes or is deleted.
    pub(crate) fn add_remote_owners(&self, plan: &mut Plan) {
        let deleted = plan.deletions().filter(|row| is_remote_owner(&row.object.id));
        let deleted: Vec<Gap> = deleted.map(|row| remote_gap(&row.object.id, "it is deleted")).collect();
        plan.add_gaps(deleted);
        for RemoteOwner { id, applied_by, change } in &self.remote_owners {
            let gap = remote_gap(id, change);
            let reason = Reason::new(ReasonCode::NotFollowed, gap.message.clone());
            plan.add_gaps([gap]);
            let Some(object) = self.live_object(id).map(PinnedObject::from) else { continue };
            if plan.changes().iter().all(|row| row.object.id != *id) {
                let owner = Some(owner_id(applied_by));
                plan.add_changes([Change::new(Action::Unknown, object, owner, Actor::KustomizeController, reason)]);
            }
        }
    }
}

/// Returns the gap of an object of Flux in another cluster.
fn remote_gap(id: &ObjectId, change: &str) -> Gap {
    let message = format!("{change}, and what Flux in that cluster does then is not in this plan");
    Gap { kind: GapKind::Failed, subject: format!("effect of the change on {id}"), namespace: None, message }
}

impl Comparison<'_, '_, '_> {
    /// Returns the objects of Flux in other clusters that a Kustomization changes there.
    pub(crate) fn remote_owners(&mut self) -> Vec<RemoteOwner> {
        let state = self.state();
        let mut owners: Vec<RemoteOwner> = vec![];
        for node in &state.nodes {
            let applied = node.passes.iter().filter_map(Pass::applied_objects).flat_map(|objects| objects.keys());
            for id in node.inventory.iter().chain(applied) {
                if !is_remote_owner(id) || owners.iter().any(|known| known.id == *id) {
                    continue;
                }
                let change = match self.difference(id, Part::Spec { is_ready: false }) {
                    Some(Difference::Changed(parts)) => format!("{} changes", join_limited(parts, NAMED_PARTS)),
                    Some(Difference::NotCompared(why)) => format!("its spec cannot be compared: {why}"),
                    // What is new deletes nothing, and what is deleted has a row.
                    Some(Difference::Created | Difference::Deleted) | None => continue,
                };
                owners.push(RemoteOwner { id: id.clone(), applied_by: node.id.key.clone(), change });
            }
        }
        owners
    }

    /// Returns true if a live Kustomization and its pass apply to the same other cluster, which was read.
    pub(crate) fn is_followed_elsewhere(&self, node: &Node, pass: &Pass) -> bool {
        matches!(self.state().target_of_pass(&node.id.key, &pass.spec), Ok(Some(_)))
    }
}

/// Returns true for objects of Flux in another cluster that decide what is deployed: owners and their sources.
fn is_remote_owner(id: &ObjectId) -> bool {
    if id.cluster.is_none() {
        return false;
    }
    let controller = kinds::find(&id.group, &id.kind).map(|kind| kind.controller);
    controller.is_some_and(|name| name != "notification-controller" && !name.starts_with("image-"))
}
