//! Outcomes of Kustomizations in a plan.

use std::collections::{BTreeMap, BTreeSet};

use super::encrypted_objects::encrypted_reason;
use super::owner_rows::{add_affected_outcomes, unknown_owners};
use crate::flux::simulation::model::facts::refused_deletions::failing_deletion;
use crate::flux::simulation::model::facts::unknown_builds::{follows_another_tree, unknown_reason};
use crate::flux::simulation::model::node::{Finalization, KustomizationDeletion, Node, PassOutcome};
use crate::flux::simulation::model::owner_names::{dependency_detail, owner_id};
use crate::flux::simulation::model::state::State;
use crate::flux::spec::NamespacedName;
use crate::kubernetes::gap::{BUILDS, Gap, GapKind};
use crate::kubernetes::object::ObjectId;
use crate::ownership::OwnerId;
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};
use crate::plan::grave::{GraveKind, by_gravity};
use crate::plan::{Fidelity, Outcome, OwnerOutcome, Reason, ReasonCode};
use crate::text::pluralize;

/// Returns the outcome of every Kustomization. One that is created and deleted by the same change is left out; one
/// that is deleted and recreated has the outcome of its new lifetime.
pub(crate) fn owner_outcomes(state: &State<'_>) -> Vec<OwnerOutcome> {
    let mut owners: BTreeMap<&NamespacedName, OwnerOutcome> = BTreeMap::new();
    let nodes_by_object = state.nodes_by_object();
    for node in state.nodes.iter().filter(|node| !node.id.is_new || node.deletion.is_none()) {
        let key = &node.id.key;
        let (outcome, reason) = outcome(state, node);
        let fidelity = state.input.fidelity.get(key).copied().unwrap_or(Fidelity::Unknown);
        let managing_nodes = nodes_by_object.get(&ObjectId::new(GROUP, KIND, &key.namespace, &key.name));
        let managers = managing_nodes.into_iter().flatten().map(|manager| &manager.id.key);
        let parents = managers.filter(|manager| *manager != key).map(owner_id).collect();
        let depends_on = node.last_pass().map(|pass| pass.spec.depends_on(&key.namespace)).unwrap_or_default();
        let dependencies = depends_on.iter().map(owner_id).collect();
        let row = OwnerOutcome::new(owner_id(key), outcome, reason);
        owners.insert(key, OwnerOutcome { parents, dependencies, fidelity, ..row });
    }
    add_affected_outcomes(state, &mut owners);
    add_unknown_descendants(state, &mut owners);
    owners.into_values().collect()
}

/// Returns a gap for each Kustomization with a build that is not known, or whose changed spec has another source.
pub(crate) fn unknown_builds(state: &State<'_>) -> Vec<Gap> {
    let mut gaps = vec![];
    let unknown: BTreeSet<OwnerId> = unknown_owners(state).collect();
    for node in state.nodes.iter().filter(|node| !unknown.contains(&owner_id(&node.id.key))) {
        let Some(reason) = unknown_reason(state, node) else { continue };
        let changed = if follows_another_tree(&reason) { " with its changed spec" } else { "" };
        let subject = format!("{BUILDS}{}{changed}", owner_id(&node.id.key));
        gaps.push(Gap { kind: GapKind::Failed, subject, namespace: None, message: reason.detail });
    }
    gaps
}

/// Returns the outcome of a Kustomization, and its reason.
fn outcome(state: &State<'_>, node: &Node) -> (Outcome, Reason) {
    let (outcome, reason) = node_outcome(state, node);
    let Some(failure) = failing_deletion(state, node) else { return (outcome, reason) };
    match reason.code {
        ReasonCode::OwnerDeletedWithObjects | ReasonCode::OwnerDeletedUncertain => {
            let detail = format!("it is deleted and stays Terminating: {failure}");
            (outcome, Reason::new(ReasonCode::OwnerStuck, detail))
        }
        ReasonCode::NewRevision | ReasonCode::Encrypted => {
            let detail = format!("it does not become ready: {failure}");
            (outcome, Reason::new(ReasonCode::PruneRefused, detail))
        }
        _ => (outcome, reason),
    }
}

/// Sets the outcome of owners whose parent or dependency has an unknown outcome to unknown.
fn add_unknown_descendants(state: &State<'_>, owners: &mut BTreeMap<&NamespacedName, OwnerOutcome>) {
    loop {
        let rows = owners.values().filter(|row| row.outcome == Outcome::Unknown);
        let unknown: BTreeSet<OwnerId> = rows.map(|row| row.owner.clone()).chain(unknown_owners(state)).collect();
        let mut is_changed = false;
        for (key, row) in owners.iter_mut() {
            if matches!(row.outcome, Outcome::Unknown | Outcome::Deleted) {
                continue;
            }
            let parent = row.parents.iter().find(|parent| unknown.contains(parent));
            let reason = parent.map(|parent| Reason::new(ReasonCode::ParentUnknown, parent_detail(parent)));
            if let Some(reason) = reason.or_else(|| unknown_dependency(state, key, row, &unknown)) {
                (row.outcome, row.reason, is_changed) = (Outcome::Unknown, reason, true);
            }
        }
        if !is_changed {
            return;
        }
    }
}

/// Returns the reason why it is not known if an owner that waits for its dependencies applies.
fn unknown_dependency(
    state: &State<'_>,
    key: &NamespacedName,
    row: &OwnerOutcome,
    unknown: &BTreeSet<OwnerId>,
) -> Option<Reason> {
    let last = state.last_pass(key).filter(|_| row.outcome == Outcome::Applies)?;
    let dependencies = last.spec.depends_on(&key.namespace);
    let dependency = dependencies.iter().map(owner_id).find(|dependency| unknown.contains(dependency))?;
    Some(Reason::new(ReasonCode::DependencyUnknown, dependency_detail(&dependency)))
}

fn is_grave(id: &ObjectId) -> bool {
    GraveKind::of(id).is_some()
}

fn node_outcome(state: &State<'_>, node: &Node) -> (Outcome, Reason) {
    if let Some(deletion) = &node.deletion {
        return (Outcome::Deleted, deletion_reason(deletion));
    }
    let Some(pass) = node.last_pass() else { return (Outcome::Unchanged, ReasonCode::Terminating.into()) };
    if let Some(mut reason) = unknown_reason(state, node) {
        if !node.inventory.is_empty() {
            reason.remarks.push(format!("any of its {} may be deleted", pluralize(node.inventory.len(), "object")));
            let numbers = by_gravity(&node.inventory).filter(|_| node.inventory.iter().any(is_grave));
            numbers.into_iter().for_each(|numbers| reason.add_stakes(&numbers));
        }
        return (Outcome::Unknown, reason);
    }
    match &pass.outcome {
        PassOutcome::Applied(_) => match &node.unreadable_inventory {
            Some(error) => {
                let detail = format!("its inventory is unreadable: {error}; it is replaced, and nothing is deleted");
                (Outcome::Blocked, Reason::new(ReasonCode::InventoryUnreadable, detail))
            }
            None if pass.condition.is_some() => {
                let reason = pass.condition.clone().unwrap_or_else(|| ReasonCode::NewRevision.into());
                (Outcome::Applies, Reason::from(reason.code).on_condition(reason.detail))
            }
            None => (Outcome::Applies, encrypted_reason(node).unwrap_or_else(|| ReasonCode::NewRevision.into())),
        },
        PassOutcome::Partial { reason, .. } | PassOutcome::Blocked(reason) => (Outcome::Blocked, reason.clone()),
        PassOutcome::Unknown(reason) => (Outcome::Unchanged, reason.clone()),
    }
}

fn parent_detail(parent: &OwnerId) -> String {
    format!("{parent} may change or delete it, and its build is not known")
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
        reason.conditions.push("it may stay".to_owned());
    }
    reason
}
