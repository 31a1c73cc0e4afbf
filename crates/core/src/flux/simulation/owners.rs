//! Outcomes of Kustomizations in a plan.

use std::collections::BTreeMap;

use super::Preview;
use super::encrypted::encrypted_reason;
use super::model::{Finalization, KustomizationDeletion, Node, PassOutcome};
use crate::flux::spec::NamespacedName;
use crate::kubernetes::gap::{Gap, GapKind};
use crate::kubernetes::object::ObjectId;
use crate::ownership::OwnerId;
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};
use crate::plan::{Fidelity, Outcome, OwnerOutcome, Reason, ReasonCode};

impl Preview<'_> {
    /// Returns the outcome of every Kustomization. One that is created and deleted by the same change is left out; one
    /// that is deleted and recreated has the outcome of its new lifetime.
    pub(super) fn owner_outcomes(&self) -> Vec<OwnerOutcome> {
        let mut owners: BTreeMap<&NamespacedName, OwnerOutcome> = BTreeMap::new();
        let nodes_by_object = self.nodes_by_object();
        for node in self.nodes.iter().filter(|node| !node.id.is_new || node.deletion.is_none()) {
            let key = &node.id.key;
            let (outcome, reason) = node_outcome(node);
            let fidelity = self.input.fidelity.get(key).copied().unwrap_or(Fidelity::Unknown);
            let managers = nodes_by_object.get(&ObjectId::new(GROUP, KIND, &key.namespace, &key.name));
            let parents = managers.into_iter().flatten().map(|parent| &parent.id.key).filter(|parent| *parent != key);
            let parents = parents.map(owner_id).collect();
            owners.insert(key, OwnerOutcome { parents, fidelity, ..OwnerOutcome::new(owner_id(key), outcome, reason) });
        }
        owners.into_values().collect()
    }

    /// Returns a gap for each Kustomization whose objects at the new revision or with its changed spec are not known.
    pub(super) fn unknown_builds(&self) -> Vec<Gap> {
        let mut gaps = vec![];
        for node in &self.nodes {
            let Some(pass) = node.last_pass() else { continue };
            let source = pass.spec.source(&node.id.key.namespace);
            let follows_tree = !pass.spec.is_remote() && self.input.trees.contains_key(&source);
            let is_changed = !node.id.is_new && node.passes.len() > 1;
            let PassOutcome::Unknown(reason) = &pass.outcome else { continue };
            if follows_tree || is_changed {
                let changed = if follows_tree { "" } else { " with its changed spec" };
                let subject = format!("build of {}{changed}", owner_id(&node.id.key));
                gaps.push(Gap { kind: GapKind::Failed, subject, namespace: None, message: reason.detail.clone() });
            }
        }
        gaps
    }
}

fn node_outcome(node: &Node) -> (Outcome, Reason) {
    if let Some(deletion) = &node.deletion {
        return (Outcome::Deleted, deletion_reason(deletion));
    }
    let Some(pass) = node.last_pass() else { return (Outcome::Unchanged, ReasonCode::Terminating.into()) };
    match &pass.outcome {
        PassOutcome::Applied(_) => match &node.unreadable_inventory {
            Some(error) => {
                let detail = format!("its inventory is unreadable: {error}; it is replaced, and nothing is deleted");
                (Outcome::Blocked, Reason::new(ReasonCode::InventoryUnreadable, detail))
            }
            None if pass.is_optional => {
                let detail = "race: it depends on an owner that this change deletes";
                (Outcome::Applies, Reason::new(ReasonCode::DependencyDeleted, detail))
            }
            None => (Outcome::Applies, encrypted_reason(node).unwrap_or_else(|| ReasonCode::NewRevision.into())),
        },
        PassOutcome::Partial { reason, .. } | PassOutcome::Blocked(reason) => (Outcome::Blocked, reason.clone()),
        PassOutcome::Unknown(reason) => (Outcome::Unchanged, reason.clone()),
    }
}

fn deletion_reason(deletion: &KustomizationDeletion) -> Reason {
    let (code, detail) = match &deletion.finalization {
        Finalization::DeletesObjects => {
            (ReasonCode::OwnerDeletedWithObjects, "it is deleted with everything in its inventory".to_owned())
        }
        Finalization::LeavesObjects(why) => {
            (ReasonCode::OwnerDeletedAlone, format!("it is deleted and leaves its objects behind, because it {why}"))
        }
        Finalization::Depends(why) => (
            ReasonCode::OwnerDeletedUncertain,
            format!("it is deleted; it is a race if its objects are deleted too: {why}"),
        ),
    };
    let mut reason = Reason::new(code, detail);
    if !deletion.is_certain {
        reason.add_detail("race: it may stay");
    }
    reason
}

/// Returns the identity of a Kustomization as an owner.
pub(super) fn owner_id(key: &NamespacedName) -> OwnerId {
    OwnerId::new("flux", KIND, &key.namespace, &key.name)
}
