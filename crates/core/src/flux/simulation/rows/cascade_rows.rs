//! Rows of objects that are deleted because another object is deleted, or by the controller of another owner.

use std::collections::{BTreeMap, BTreeSet};

use crate::flux::apply::dry_run::foreign_finalizer;
use crate::flux::simulation::kustomization::containers::container_is_deleted;
use crate::flux::simulation::model::owner_names::owner_id;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::kubernetes::deletion::cascade::{CascadeKind, CascadedObject};
use crate::kubernetes::object::ObjectId;
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::OwnerId;
use crate::plan::{Action, Certainty, Change, ReasonCode};

/// Returns the row of an object that is deleted with its namespace, its definition, its owners or its release.
pub(crate) fn cascaded_row(
    state: &State<'_>,
    cascaded: &CascadedObject<'_>,
    consequences: &Consequences<'_>,
) -> Change {
    let id = &cascaded.object.id;
    let owner = state.nodes.iter().find(|node| node.inventory.contains(id)).map(|node| owner_id(&node.id.key));
    let mut row = Change::cascaded(cascaded, owner);
    let is_desired = consequences.outcomes.get(id).is_some_and(|outcomes| outcomes.is_desired);
    let namespace = id.namespace_object();
    if (is_desired && !container_is_deleted(state, id, consequences))
        || (is_namespace_default(id) && consequences.may_be_recreated(&namespace))
    {
        row.action = Action::Recreate;
    }
    if consequences.triggers_of(cascaded).is_some_and(|(_, is_certain)| !is_certain) {
        row.certainty = Certainty::Race;
        // The condition of a release is added below.
        let root = consequences.root_of(&cascaded.cause);
        if !consequences.acting.contains_key(root) {
            row.make_race(&format!("it depends on whether {root} is deleted"));
        }
    }
    match cascaded.kind {
        CascadeKind::ResourceSet | CascadeKind::ArtifactGenerator | CascadeKind::RemovedArtifact => {
            let ObjectId { kind, namespace, name, .. } = &cascaded.cause;
            row.owner = Some(OwnerId::new("flux", kind, namespace, name));
        }
        CascadeKind::NotInResourceSet => state.qualify_removed_resource(&mut row, &cascaded.cause),
        CascadeKind::HelmRelease | CascadeKind::ReplacedRelease => {
            state.qualify_uninstall(&mut row, &cascaded.cause, consequences);
        }
        CascadeKind::Upgrade => state.qualify_upgrade(&mut row, &cascaded.cause),
        // A recreated Deployment with the same template creates a ReplicaSet with the old name.
        CascadeKind::Dependent { .. }
            if consequences.may_be_recreated(&cascaded.cause) || state.is_recreated_in_upgrade(&cascaded.cause) =>
        {
            row.certainty = Certainty::Race;
            row.reason.add_detail("its owner is recreated and may create it again");
        }
        // The apply can remove the reference to the owner before the garbage collector sees the deletion.
        CascadeKind::Dependent { .. } if is_desired => {
            row.make_race("a Kustomization applies it and may remove its owner reference first");
        }
        CascadeKind::Dependent { .. } => {
            mark_held_dependent(&mut row, cascaded, &consequences.cascaded, state.input.snapshot);
        }
        _ => {}
    }
    if cascaded.kind != CascadeKind::NotInResourceSet && consequences.is_doubtful(cascaded) {
        row.make_race("it stays with what it depends on, which its ResourceSet perhaps does not delete");
    }
    if state.may_stay_in_upgrade(cascaded, &consequences.cascaded) {
        row.make_race("it stays with its owner, whose deletion by the upgrade is not certain");
    }
    row
}

/// Makes the deletions unknown whose cause is an object that is perhaps not deleted.
pub(crate) fn spread_unknown(changes: &mut [Change]) {
    let unknown = changes.iter().filter(|change| change.action == Action::Unknown);
    let ids = unknown.map(|change| change.object.id.clone()).collect();
    spread(changes, ids, |_| true, |change, _| change.action = Action::Unknown);
}

/// Makes the deletions races whose cause is an object of a release that is perhaps not uninstalled.
pub(crate) fn spread_open_uninstalls(changes: &mut [Change]) {
    let open = changes.iter().filter(|change| {
        change.is_deletion()
            && change.certainty == Certainty::Race
            && [ReasonCode::Uninstalled, ReasonCode::ReleaseReplaced].contains(&change.reason.code)
    });
    let ids = open.map(|change| change.object.id.clone()).collect();
    spread(
        changes,
        ids,
        |change| change.certainty == Certainty::Certain,
        |change, cause| change.make_race(&format!("it depends on whether {cause} is deleted")),
    );
}

/// Changes each deletion that one of the objects in `reached` causes, directly or through others, and that `includes`
/// accepts. `affect` gets the row and its cause, and must change the row so that it is not accepted again.
fn spread(
    changes: &mut [Change],
    mut reached: BTreeSet<ObjectId>,
    includes: impl Fn(&Change) -> bool,
    affect: impl Fn(&mut Change, &ObjectId),
) {
    let mut is_growing = !reached.is_empty();
    while is_growing {
        is_growing = false;
        for change in changes.iter_mut().filter(|change| change.is_deletion() && includes(change)) {
            if let Some(cause) = change.cause.clone().filter(|cause| reached.contains(cause)) {
                affect(change, &cause);
                is_growing |= reached.insert(change.object.id.clone());
            }
        }
    }
}

/// Makes the row of a dependent a race if a finalizer holds its owner, or an owner of its owner.
pub(crate) fn mark_held_dependent(
    row: &mut Change,
    dependent: &CascadedObject<'_>,
    cascaded: &BTreeMap<ObjectId, CascadedObject<'_>>,
    snapshot: &Snapshot,
) {
    let mut next = Some(dependent);
    for _ in 0..=cascaded.len() {
        let Some(CascadedObject { cause, kind: CascadeKind::Dependent { .. }, .. }) = next else { return };
        if let Some(finalizer) = snapshot.object(cause).and_then(foreign_finalizer) {
            return row.make_race(&format!("it stays until the finalizer {finalizer} of {cause} is removed"));
        }
        next = cascaded.get(cause);
    }
}

/// Returns true if the control plane creates the object in every namespace.
fn is_namespace_default(id: &ObjectId) -> bool {
    (id.is("", "ServiceAccount") && &*id.name == "default")
        || (id.is("", "ConfigMap") && &*id.name == "kube-root-ca.crt")
}
