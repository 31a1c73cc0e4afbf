//! Refusals of the API server, and the Kustomizations that they stop.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::node::{Node, PassOutcome, Unserved};
use super::state::State;
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::object::ObjectId;

/// A refusal of the server to apply an object of a Kustomization.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refusal {
    /// Kustomization that applies the object.
    pub(crate) owner: NamespacedName,
    /// Identity of the object.
    pub(crate) id: ObjectId,
    /// Manifest that is refused.
    pub(crate) manifest: Arc<serde_json::Value>,
    /// Message of the server.
    pub(crate) message: String,
}

/// A refusal of the server to delete an object for a Kustomization.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DeletionRefusal {
    /// Kustomization that deletes the object.
    pub(crate) owner: NamespacedName,
    /// Identity of the object.
    pub(crate) id: ObjectId,
    /// Message of the server.
    pub(crate) message: String,
}

impl<'a> State<'a> {
    /// Returns the Kustomizations that the server does not let delete an object.
    pub(crate) fn refused_owners(&self, id: &ObjectId) -> BTreeSet<&NamespacedName> {
        let refusals = self.deletion_refusals.iter().filter(|refusal| refusal.id == *id);
        refusals.map(|refusal| &refusal.owner).collect()
    }

    /// Returns the message of the server about the deletion of an object by a Kustomization, if it refuses it.
    pub(crate) fn deletion_refusal(&self, owner: &NamespacedName, id: &ObjectId) -> Option<&str> {
        let mut refusals = self.deletion_refusals.iter();
        let found = refusals.find(|refusal| refusal.owner == *owner && refusal.id == *id);
        found.map(|refusal| refusal.message.as_str())
    }

    /// Returns the first refusal that lets the pruning of a Kustomization, or its finalizer, fail.
    pub(crate) fn failing_deletion(&self, node: &Node) -> Option<String> {
        // Older versions forget the object, and succeed in their next run.
        if node.deletion.is_none() && !self.input.features.retries_deletions {
            return None;
        }
        let is_gone = |id: &ObjectId| match node.last_pass().map(|pass| &pass.outcome) {
            _ if node.deletion.is_some() => true,
            Some(PassOutcome::Applied(objects)) => !objects.contains_key(id),
            _ => false,
        };
        // The API types are read anew for a service account and for another cluster, and an unknown one is an error.
        let reads_types =
            |spec: &KustomizationSpec| spec.is_remote() || self.input.flags.service_account(spec).is_some();
        let is_account = node.last_pass().is_some_and(|pass| reads_types(&pass.spec));
        let unserved = node.unserved.iter().filter(|(id, found)| is_account && found.is_certain && is_gone(id));
        if let Some((id, Unserved { version, .. })) = unserved.into_iter().next() {
            return Some(format!("the API server does not serve version {version} of {id}"));
        }
        let own = self.deletion_refusals.iter().filter(|refusal| refusal.owner == node.id.key);
        let mut failing = own.filter(|refusal| node.inventory.contains(&refusal.id) && is_gone(&refusal.id));
        failing.next().map(|refusal| format!("the server refuses to delete {}: {}", refusal.id, refusal.message))
    }
}
