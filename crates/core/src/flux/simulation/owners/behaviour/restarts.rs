//! New owners that a Kustomization may apply before it is deleted, and delete then.
//!
//! A commit can rename a Kustomization together with an owner in it. The old Kustomization may apply the new owner before the new one does.
//! Its finalizer then deletes the owner, whose controller deletes everything that the owner took over, until the new Kustomization
//! applies it again.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::flux::simulation::model::affected_owner::{AffectedOwner, Effect, OwnerDeletion};
use crate::flux::simulation::model::node::{Finalization, Node};
use crate::flux::simulation::model::owner_names::owner_id;
use crate::flux::simulation::model::protection::is_marked;
use crate::flux::simulation::model::state::State;
use crate::flux::spec::NamespacedName;
use crate::kubernetes::object::ObjectId;
use crate::ownership::schemes::flux_kustomization::PRUNE;

/// Returns what the controller of an owner deletes if the owner is deleted once it has this effect.
pub(crate) type Restart = fn(&State<'_>, &ObjectId, &Effect) -> BTreeMap<ObjectId, OwnerDeletion>;

/// Adds to the effect of a new owner what is deleted if a Kustomization that is deleted applies the owner first.
pub(crate) fn with_restart(state: &State<'_>, owner: AffectedOwner, restart: Restart) -> AffectedOwner {
    let Some(parent) = earlier_parent(state, &owner.id) else { return owner };
    let Some(mut effect) = owner.effect.as_deref().cloned() else { return owner };
    let (parent, id) = (owner_id(parent), &owner.id);
    for (taken, mut deletion) in restart(state, id, &effect) {
        deletion.conditions.insert(
            0,
            format!("it stays unless {parent} creates {id} first and is then deleted, which deletes it too"),
        );
        deletion.is_doubtful = true;
        effect.keeps.remove(&taken);
        effect.deletes.entry(taken).or_insert(deletion);
    }
    AffectedOwner { effect: Some(Arc::new(effect)), ..owner }
}

/// Returns a deleted Kustomization that may apply a new owner before another one does that stays, and then delete it.
fn earlier_parent<'s>(state: &'s State<'_>, id: &ObjectId) -> Option<&'s NamespacedName> {
    let mut lasting = state.nodes.applying(id).filter(|node| node.deletion.is_none());
    lasting.next()?;
    state.nodes.applying(id).find(|node| may_delete(node, id)).map(|node| &node.id.key)
}

/// Returns true if a live Kustomization that is deleted may delete an object that it applies.
fn may_delete(node: &Node, id: &ObjectId) -> bool {
    let deletion = node.deletion.as_ref().filter(|_| !node.id.is_new);
    let mut applied = node.passes.iter().filter_map(|pass| Some((pass.applied(id)?, &pass.spec)));
    let is_free = applied.any(|(built, spec)| !is_marked(built, spec, PRUNE, "disabled"));
    is_free && deletion.is_some_and(|deletion| !matches!(deletion.finalization, Finalization::LeavesObjects(_)))
}
