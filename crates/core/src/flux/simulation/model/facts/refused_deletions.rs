//! Deletions that the API server refuses, and the Kustomizations that they stop.

use std::collections::BTreeSet;

use crate::flux::simulation::model::node::{Node, NodeId, Pass, PassOutcome, Unserved};
use crate::flux::simulation::model::refusals::DeletionRefusal;
use crate::flux::simulation::model::state::State;
use crate::flux::spec::NamespacedName;
use crate::kubernetes::object::ObjectId;
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};

/// Runs of Kustomizations that the server does not let delete an object.
#[derive(Default)]
pub(crate) struct RefusedRuns<'s> {
    /// Kustomizations of which no run may.
    owners: BTreeSet<&'s NamespacedName>,
    /// Kustomizations with the service accounts that may not; `None` is the account of the controller.
    accounts: BTreeSet<(&'s NamespacedName, Option<&'s str>)>,
}

impl<'s> RefusedRuns<'s> {
    /// Refuses the deletion to every run of a Kustomization.
    pub(crate) fn add_every_run(&mut self, owner: &'s NamespacedName) {
        self.owners.insert(owner);
    }

    /// Returns true if a Kustomization may not delete the object with a service account.
    pub(crate) fn contains(&self, owner: &NamespacedName, account: Option<&str>) -> bool {
        self.owners.contains(owner) || self.accounts.contains(&(owner, account))
    }
}

/// Returns the runs of Kustomizations that the server does not let delete an object.
pub(crate) fn refused_runs<'s>(state: &'s State<'_>, id: &ObjectId) -> RefusedRuns<'s> {
    let refusals = state.deletion_refusals.iter().filter(|refusal| refusal.id == *id);
    let accounts = refusals.map(|refusal| (&refusal.owner, refusal.account.as_deref())).collect();
    RefusedRuns { owners: BTreeSet::new(), accounts }
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
    // An unknown API type is an error where they are read anew. So is a version of a built-in kind, which was never
    // served while the controller ran.
    let last_spec = node.last_pass().map(|pass| &pass.spec);
    let reads_types = node.last_pass().is_some_and(|last| reads_types_anew(state, last));
    let mut unserved = node
        .unserved
        .iter()
        .filter(|(id, found)| found.is_certain && is_dropped(node, id) && (reads_types || !is_custom(state, id)));
    if let Some((id, Unserved { version, .. })) = unserved.next() {
        return Some(format!("the API server does not serve version {version} of {id}"));
    }
    let account = match &node.deletion {
        Some(deletion) => deletion.account.as_deref(),
        None => last_spec.and_then(|spec| state.input.flags.service_account(spec)),
    };
    let own = state.deletion_refusals.iter().filter(|refusal| refusal.owner == node.id.key);
    let mut failing = own.filter(|refusal| {
        refusal.account.as_deref() == account
            && node.inventory.contains(&refusal.id)
            && is_dropped(node, &refusal.id)
            && !was_pruned_before(state, node, refusal)
    });
    failing.next().map(|refusal| format!("the server refuses to delete {}: {}", refusal.id, refusal.message))
}

/// Returns true if a run reads the API types anew, for a service account or for another cluster, instead of remembering
/// them.
pub(crate) fn reads_types_anew(state: &State<'_>, pass: &Pass) -> bool {
    pass.spec.is_remote() || state.input.flags.service_account(&pass.spec).is_some()
}

/// Returns the failure of a run that deletes a live Kustomization by force, if the finalizer of that one fails: the run waits
/// without a limit until it is gone.
pub(crate) fn stuck_kustomization(state: &State<'_>, id: &ObjectId) -> Option<String> {
    let key = Some(id).filter(|id| id.is_here(GROUP, KIND)).map(NamespacedName::of)?;
    let node = state.node(&NodeId::live(&key)).filter(|node| node.deletion.is_some())?;
    let failure = failing_deletion(state, node)?;
    Some(format!("{id} is deleted, and the controller waits until its finalizer succeeds: {failure}"))
}

/// Returns true if an earlier run of a Kustomization, with another service account, has pruned an object.
fn was_pruned_before(state: &State<'_>, node: &Node, refusal: &DeletionRefusal) -> bool {
    let [earlier @ .., _] = &*node.passes else { return false };
    earlier.iter().any(|pass| {
        let account = state.input.flags.service_account(&pass.spec);
        !pass.is_optional
            && pass.prunes(&refusal.id)
            && !refused_runs(state, &refusal.id).contains(&node.id.key, account)
    })
}

/// Returns true if a definition of the cluster defines the kind of an object.
fn is_custom(state: &State<'_>, id: &ObjectId) -> bool {
    let Some(kind) = state.input.snapshot.type_of(id) else { return true };
    state.live_object(&kind.definition().in_cluster(id.cluster.as_ref())).is_some()
}

/// Returns true if a Kustomization deletes an object that its inventory lists, unless something prevents it.
fn is_dropped(node: &Node, id: &ObjectId) -> bool {
    match node.last_pass().map(|pass| &pass.outcome) {
        _ if node.deletion.is_some() => true,
        Some(PassOutcome::Applied(objects)) => !objects.contains_key(id),
        _ => false,
    }
}
