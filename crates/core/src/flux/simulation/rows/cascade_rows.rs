//! Rows of objects that are deleted because another object is deleted, or by the controller of another owner.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::owner_rows::add_owner_deletion;
use crate::flux::simulation::kustomization::containers::container_is_deleted;
use crate::flux::simulation::model::owner_names::owner_id;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::kubernetes::deletion::cascade::{CascadeKind, CascadedObject};
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::ownership::OwnerId;
use crate::ownership::rules::protection::find_protection;
use crate::plan::{Action, Change, Reason, ReasonCode, if_deleted};

/// Returns the row of an object that is deleted with its namespace, its definition, its owners or its release.
pub(crate) fn cascaded_row(
    state: &State<'_>,
    cascaded: &CascadedObject<'_>,
    consequences: &Consequences<'_>,
) -> Change {
    let id = &cascaded.object.id;
    let mut row = Change::cascaded(cascaded, owner_of(state, id));
    let is_desired = consequences.outcomes.get(id).is_some_and(|outcomes| outcomes.is_desired);
    let namespace = id.namespace_object();
    if (is_desired && !container_is_deleted(state, id, consequences))
        || (id.is_in_every_namespace() && consequences.may_be_recreated(&namespace))
    {
        row.action = Action::Recreate;
    }
    if is_of_kubernetes(cascaded.kind) {
        let mark = find_protection(cascaded.object);
        row.reason.remarks.extend(mark.map(|mark| format!("its mark {}={} does not keep it", mark.key, mark.value)));
        if row.action == Action::Delete {
            let mut applying = state.nodes.applying(id).filter(|node| node.last_applied(id).is_some());
            let owner = applying.next().map(|node| owner_id(&node.id.key));
            row.reason.remarks.extend(owner.map(|owner| format!("although {owner} applies it")));
        }
    }
    for doubt in consequences.doubts(cascaded) {
        row.add_condition(doubt);
    }
    if let Some(pod) = consequences.awaited_pod(cascaded) {
        row.make_race(format!(
            "it stays until {pod}, which finalizers keep, is gone: a Namespace loses its Pods first"
        ));
    }
    if let Some(condition) = consequences.open_refusal(cascaded) {
        row.make_race(condition);
    }
    if let Some(deletion) = consequences.owner_deletion(cascaded) {
        add_owner_deletion(&mut row, &cascaded.cause, deletion);
    } else if let CascadeKind::Dependent { .. } = cascaded.kind {
        qualify_dependent(state, &mut row, cascaded, consequences);
    } else if cascaded.kind == CascadeKind::Endpoints && consequences.may_be_recreated(&cascaded.cause) {
        row.make_race("its Service is created again, and it stays if that comes before the endpoints controller looks");
    } else if let (CascadeKind::Token { .. }, true) = (cascaded.kind, is_desired) {
        row.make_race("a Kustomization applies it again, and it goes again while its account is missing");
    }
    let is_uncertain = consequences.triggers_of(cascaded).is_some_and(|(_, is_certain)| !is_certain);
    if is_uncertain && row.reason.conditions.is_empty() {
        row.make_race(if_deleted(consequences.root_of(&cascaded.cause)));
    }
    row
}

/// Returns true for a deletion by a controller of Kubernetes, which knows no marks and no owners of GitOps tools.
fn is_of_kubernetes(kind: CascadeKind) -> bool {
    matches!(kind, CascadeKind::NamespaceContent | CascadeKind::CustomResource | CascadeKind::Dependent { .. })
}

/// Returns the row of an object that stays because the API server refuses its deletion to a controller of Kubernetes.
pub(crate) fn kept_row(
    state: &State<'_>,
    cascaded: &CascadedObject<'_>,
    consequences: &Consequences<'_>,
) -> Option<Change> {
    let message = consequences.refusal(cascaded)?;
    let row = Change::cascaded(cascaded, owner_of(state, &cascaded.object.id));
    Some(Change { action: Action::Keep, reason: Reason::new(ReasonCode::DeletionRefused, message), ..row })
}

/// Returns the Kustomization whose inventory lists an object.
fn owner_of(state: &State<'_>, id: &ObjectId) -> Option<OwnerId> {
    state.nodes.iter().find(|node| node.inventory.contains(id)).map(|node| owner_id(&node.id.key))
}

/// Adds to the row of a dependent what its deletion by the garbage collector depends on.
fn qualify_dependent(
    state: &State<'_>,
    row: &mut Change,
    cascaded: &CascadedObject<'_>,
    consequences: &Consequences<'_>,
) {
    let is_recreated =
        |owner: &ObjectId| consequences.may_be_recreated(owner) || consequences.is_recreated_by_owner(owner);
    let mut recreated = cascaded.owners.iter().filter(|owner| is_recreated(&owner.id));
    if recreated.any(|owner| may_be_made_again(state, cascaded.object, owner)) {
        // A recreated Deployment with the same template creates a ReplicaSet with the old name.
        row.make_race("its owner is recreated and may create it again");
    } else if consequences.may_lose_its_owners(cascaded) {
        row.make_race("a Kustomization applies it and may remove its owner reference first");
    }
}

/// Returns false if an owner of a dependent, once it is recreated, does not create it under the same name: the name of a
/// ReplicaSet is a hash of the template of its Deployment, and its labels are those of the template.
fn may_be_made_again(state: &State<'_>, dependent: &ObjectMetadata, owner: &ObjectMetadata) -> bool {
    let mut references = dependent.owner_references.iter();
    if !references.any(|reference| reference.controller && reference.uid == owner.uid) {
        return false;
    }
    let owner = &owner.id;
    if !(dependent.id.is("apps", "ReplicaSet") && owner.is("apps", "Deployment")) {
        return true;
    }
    let labels: BTreeMap<&str, &str> = dependent.labels.iter().filter(|(key, _)| *key != "pod-template-hash").collect();
    let mut templates = state.nodes.iter().filter_map(|node| {
        let manifest = &node.last_applied(owner)?.1.manifest;
        Some(manifest.pointer("/spec/template/metadata/labels").cloned().unwrap_or_else(|| json!({})))
    });
    templates.any(|template| template == json!(labels))
        || !state.nodes.iter().any(|node| node.last_applied(owner).is_some())
}

/// Makes the deletions unknown that an object causes, directly or through others, which is perhaps not deleted.
pub(crate) fn spread_unknown(changes: &mut [Change]) {
    let unknown = changes.iter().filter(|change| change.action == Action::Unknown);
    let reached = unknown.map(|change| change.object.id.clone()).collect();
    change_what_follows(changes, reached, |change, _| {
        change.action = Action::Unknown;
        true
    });
}

/// Changes the deletions whose causes are the deletions of these objects, and in turn those that they cause. `change` gets a row and its
/// cause, and returns false for a row that stays as it is, and does not count as a cause then.
pub(super) fn change_what_follows(
    changes: &mut [Change],
    mut reached: BTreeSet<ObjectId>,
    change: impl Fn(&mut Change, &ObjectId) -> bool,
) {
    let mut is_growing = !reached.is_empty();
    while is_growing {
        is_growing = false;
        for row in changes.iter_mut().filter(|row| row.is_deletion()) {
            let cause = row.cause.clone().filter(|cause| reached.contains(cause));
            if cause.is_some_and(|cause| change(row, &cause)) {
                is_growing |= reached.insert(row.object.id.clone());
            }
        }
    }
}
