//! Deletions that the API server refuses, and the Kustomizations that they stop.

use std::collections::BTreeSet;

use super::node::{Node, PassOutcome, Unserved};
use super::state::State;
use crate::flux::spec::NamespacedName;
use crate::kubernetes::object::ObjectId;

/// Returns the Kustomizations that the server does not let delete an object.
pub(crate) fn refused_owners<'s>(state: &'s State<'_>, id: &ObjectId) -> BTreeSet<&'s NamespacedName> {
    let refusals = state.deletion_refusals.iter().filter(|refusal| refusal.id == *id);
    refusals.map(|refusal| &refusal.owner).collect()
}

/// Returns the message of the server about the deletion of an object by a Kustomization, if it refuses it.
pub(crate) fn deletion_refusal<'s>(state: &'s State<'_>, owner: &NamespacedName, id: &ObjectId) -> Option<&'s str> {
    let mut refusals = state.deletion_refusals.iter();
    let found = refusals.find(|refusal| refusal.owner == *owner && refusal.id == *id);
    found.map(|refusal| refusal.message.as_str())
}

/// Returns the first refusal that lets the pruning of a Kustomization, or its finalizer, fail.
pub(crate) fn failing_deletion(state: &State<'_>, node: &Node) -> Option<String> {
    // Older versions forget the object, and succeed in their next run.
    if node.deletion.is_none() && !state.input.features.retries_deletions {
        return None;
    }
    // The API types are read anew for a service account and for another cluster, and an unknown one is an error.
    let last_spec = node.last_pass().map(|pass| &pass.spec);
    let reads_types =
        last_spec.is_some_and(|spec| spec.is_remote() || state.input.flags.service_account(spec).is_some());
    let mut unserved = node.unserved.iter().filter(|(id, found)| found.is_certain && is_dropped(node, id));
    if let Some((id, Unserved { version, .. })) = unserved.next().filter(|_| reads_types) {
        return Some(format!("the API server does not serve version {version} of {id}"));
    }
    let own = state.deletion_refusals.iter().filter(|refusal| refusal.owner == node.id.key);
    let mut failing = own.filter(|refusal| node.inventory.contains(&refusal.id) && is_dropped(node, &refusal.id));
    failing.next().map(|refusal| format!("the server refuses to delete {}: {}", refusal.id, refusal.message))
}

/// Returns true if a Kustomization deletes an object that its inventory lists, unless something prevents it.
fn is_dropped(node: &Node, id: &ObjectId) -> bool {
    match node.last_pass().map(|pass| &pass.outcome) {
        _ if node.deletion.is_some() => true,
        Some(PassOutcome::Applied(objects)) => !objects.contains_key(id),
        _ => false,
    }
}
