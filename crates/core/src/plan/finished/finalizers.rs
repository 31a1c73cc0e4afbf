//! Deleted objects that finalizers keep terminating.
//!
//! Only the controller behind a finalizer removes it, and no record says which controller that is. Finalizers of
//! Kubernetes are removed by the control plane, that of a volume only once its claim is gone, that of a claim only once no
//! Pod on a node mounts it, and that of a VolumeAttributesClass only once no volume and no claim names it. That of a Service with a load balancer is removed by a cloud-controller-manager, which elects its
//! leader with a Lease. A Namespace ends once every API group answers: the namespace controller asks each of them for objects
//! (`namespacedResourcesDeleter.deleteAllContent`). For those of Flux the caller knows if their controller is present. For any other finalizer a plan can only say that an operator may be
//! deleted too: if the owner of the object's definition also loses a Deployment, because operators are usually installed
//! together with their definitions.

use std::collections::{BTreeMap, HashSet};

use crate::kubernetes::deletion::finalizers::{
    CLAIM_PROTECTION, CLASS_PROTECTION, LOAD_BALANCER, VOLUME_PROTECTION, is_removed_by_kubernetes,
};
use crate::kubernetes::deletion::volumes::claim_of;
use crate::kubernetes::gap::GapKind;
use crate::kubernetes::object::{GroupKind, ObjectId, ObjectMetadata};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::OwnerId;
use crate::plan::{Action, Actor, BlockedByFinalizers, Plan};
use crate::text::join_limited;

/// Part of the names of the Leases and the workloads of the controllers of clouds.
const CLOUD_CONTROLLER: &str = "cloud-controller-manager";

/// Group and kind of what makes an API group answer.
const API_SERVICE: (&str, &str) = ("apiregistration.k8s.io", "APIService");

/// Number of objects that a condition names.
const NAMED_HOLDS: usize = 3;

/// Presence of the controller that removes the finalizers of an object, once the plan is carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControllerPresence {
    /// It is present, or nothing is known.
    Presumed,
    /// The plan deletes this Deployment of it.
    Deleted(ObjectId),
    /// It is absent; the text says how that is known.
    Absent(String),
}

/// Knows the finalizers of one system and the presence of its controllers.
pub trait FinalizerOwner {
    /// Returns true if this finalizer belongs to the system.
    fn is_own(&self, finalizer: &str) -> bool;

    /// Returns true if who applies an object waits for it before the rest.
    fn is_awaited(&self, object: &ObjectId) -> bool;

    /// Returns the presence of the controller that reconciles an object.
    fn presence(&self, object: &ObjectId) -> ControllerPresence;
}

/// Sets the deleted objects of a plan that finalizers keep terminating, those with a known cause first.
pub(crate) fn add_blocked_by_finalizers(plan: &mut Plan, snapshot: &Snapshot, system: &dyn FinalizerOwner) {
    let mut kept_by: BTreeMap<&ObjectId, &ObjectId> = BTreeMap::new();
    for found in plan.still_referenced() {
        kept_by.extend(found.kept_by.as_ref().map(|pod| (&found.object, pod)));
    }
    // A claim that a Pod keeps terminating keeps its volume, too.
    let gone: HashSet<&ObjectId> =
        plan.deletions().map(|change| &change.object.id).filter(|id| !kept_by.contains_key(id)).collect();
    let cloud = cloud_presence(plan, snapshot);
    let mut all = vec![];
    for object in plan.deletions().filter_map(|change| snapshot.object(&change.object.id)) {
        let is_balanced = object.has_finalizer(LOAD_BALANCER);
        let is_of_cloud = is_balanced && object.id.cluster.is_none();
        let presence = if is_of_cloud { cloud.clone() } else { system.presence(&object.id) };
        let remaining_claim = claim_of(object, snapshot).map(|claim| &claim.id).filter(|claim| !gone.contains(claim));
        if object.id.is("", "Namespace") {
            all.extend(unanswered_group(object, plan, snapshot));
            all.extend(refused_content(&object.id, plan));
            all.extend(unserved_group(&object.id, plan));
        }
        let pod = kept_by.get(&object.id).copied();
        let user = class_user(object, plan, snapshot, &gone);
        let is_used = |finalizer: &str| match finalizer {
            VOLUME_PROTECTION => remaining_claim.is_some(),
            CLAIM_PROTECTION => pod.is_some(),
            CLASS_PROTECTION => user.is_some(),
            _ => false,
        };
        let finalizers = remaining_finalizers(object, is_used, &presence, system);
        if finalizers.is_empty() {
            continue;
        }
        let (controller, detail) = match presence {
            ControllerPresence::Deleted(controller) => (Some(controller), None),
            ControllerPresence::Absent(detail) => (None, Some(detail)),
            ControllerPresence::Presumed => {
                let bound = remaining_claim.map(|claim| format!("it is bound to {claim}, which stays"));
                let mounted = pod.map(|pod| format!("{pod} mounts it"));
                let named = user.map(|user| format!("{user}, which stays, names it"));
                (None, mounted.or(bound).or(named).or_else(|| operator_deleted_with(&object.id, plan, snapshot)))
            }
        };
        all.push(BlockedByFinalizers { object: object.id.clone(), finalizers, controller, detail });
    }
    all.sort_by(|a, b| {
        (a.controller.is_none(), a.detail.is_none(), a).cmp(&(b.controller.is_none(), b.detail.is_none(), b))
    });
    plan.set_blocked_by_finalizers(all);
}

/// Corrects the rows of objects that are created again: the old object must be gone first, whatever applies the manifest before
/// that, and so must its Namespace and its definition. What keeps it for certain makes it a deletion; whether another finalizer is
/// ever removed is not known.
pub(crate) fn hold_back_recreations(plan: &mut Plan, snapshot: &Snapshot, system: &dyn FinalizerOwner) {
    let deleted: HashSet<&ObjectId> = plan.deletions().map(|change| &change.object.id).collect();
    let mut held: BTreeMap<ObjectId, Hold> = BTreeMap::new();
    for blocked in plan.blocked_by_finalizers() {
        let is_certain = blocked.controller.is_some() || blocked.detail.is_some();
        for container in containers(&blocked.object, snapshot).filter(|container| deleted.contains(container)) {
            held.entry(container).or_default().add(is_certain, format!("finalizers keep {}", blocked.object));
        }
        let cause = if is_certain { "it is terminating" } else { "its finalizers keep it" };
        held.entry(blocked.object.clone()).or_default().add(is_certain, cause.to_owned());
    }
    // Who waits for an object before the rest may be who takes over the rest, too.
    let delayed: BTreeMap<OwnerId, Hold> = plan
        .deletions()
        .filter(|change| system.is_awaited(&change.object.id))
        .filter_map(|change| Some((change.owner.clone()?, held.get(&change.object.id)?.clone())))
        .collect();
    plan.update_changes(|change| {
        let id = &change.object.id;
        let own = held.get(id).or_else(|| containers(id, snapshot).find_map(|container| held.get(&container)));
        let hold = own.or_else(|| delayed.get(change.owner.as_ref()?));
        let Some(Hold { is_certain, causes }) = hold.filter(|_| change.action == Action::Recreate) else { return };
        let condition = format!("it is not created again while {}", join_limited(causes, NAMED_HOLDS));
        if *is_certain && own.is_some() {
            change.action = Action::Delete;
            change.reason.add_detail(&condition);
        } else {
            change.make_race(condition);
        }
    });
}

/// What keeps an object or what is in it.
#[derive(Clone, Default)]
struct Hold {
    is_certain: bool,
    /// Causes that follow "while", for people.
    causes: Vec<String>,
}

impl Hold {
    fn add(&mut self, is_certain: bool, cause: String) {
        self.is_certain |= is_certain;
        self.causes.push(cause);
    }
}

/// Returns the Namespace of an object and the definition of its kind, as far as it has them.
fn containers(id: &ObjectId, snapshot: &Snapshot) -> impl Iterator<Item = ObjectId> {
    let namespace = (!id.namespace.is_empty()).then(|| id.namespace_object());
    let definition = snapshot.type_of(id).map(|kind| kind.definition().in_cluster(id.cluster.as_ref()));
    namespace.into_iter().chain(definition)
}

/// Returns what keeps a Namespace terminating if an API group does not answer and its APIService stays.
fn unanswered_group(namespace: &ObjectMetadata, plan: &Plan, snapshot: &Snapshot) -> Option<BlockedByFinalizers> {
    let cluster = &namespace.id.cluster;
    let gaps = cluster.as_ref().map_or(Some(&snapshot.gaps), |name| Some(&snapshot.spokes.get(name)?.gaps))?;
    let gap = gaps.iter().filter(|gap| gap.kind == GapKind::StaleGroup).find(|gap| {
        let service = gap.subject.split_once('/').map(|(group, version)| format!("{version}.{group}"));
        let mut deleted = plan.deletions().map(|change| &change.object.id).filter(|id| id.cluster == *cluster);
        !deleted.any(|id| id.is(API_SERVICE.0, API_SERVICE.1) && service.as_deref() == Some(&*id.name))
    })?;
    Some(held_namespace(&namespace.id, format!("the namespace controller waits for an answer of {}", gap.subject)))
}

/// Returns that the namespace controller keeps a Namespace terminating, and why.
fn held_namespace(namespace: &ObjectId, why: String) -> BlockedByFinalizers {
    let finalizers = vec!["kubernetes".to_owned()];
    BlockedByFinalizers { object: namespace.clone(), finalizers, controller: None, detail: Some(why) }
}

/// Returns what keeps a Namespace terminating if an APIService stays whose Service the plan deletes: its group no longer answers. A
/// Namespace that is empty before may end, so one that comes back is left out.
fn unserved_group(namespace: &ObjectId, plan: &Plan) -> Option<BlockedByFinalizers> {
    let mut rows = plan.changes().iter().filter(|row| row.object.id == *namespace);
    if namespace.cluster.is_some() || rows.any(|row| row.action != Action::Delete) {
        return None;
    }
    let (group, service) = plan.still_referenced().iter().find_map(|found| {
        let mut users = found.users.iter().map(|user| &user.object);
        Some((users.find(|user| user.is_here(API_SERVICE.0, API_SERVICE.1))?, &found.object))
    })?;
    let why = format!("the namespace controller waits for an answer of {group}, and {service} is deleted");
    Some(held_namespace(namespace, why))
}

/// Returns what keeps a Namespace terminating if the API server refuses to let the namespace controller delete an object in it.
fn refused_content(namespace: &ObjectId, plan: &Plan) -> Option<BlockedByFinalizers> {
    let mut rows = plan.changes().iter().filter(|row| row.by == Actor::NamespaceController);
    let kept = rows.find(|row| row.action == Action::Keep && row.cause.as_ref() == Some(namespace))?;
    let why = format!("the server refuses to let the namespace controller delete {}", kept.object.id);
    Some(held_namespace(namespace, why))
}

fn is_cloud_controller(id: &ObjectId) -> bool {
    id.cluster.is_none() && id.name.contains(CLOUD_CONTROLLER)
}

/// Returns the presence of the controller that removes the load balancers of Services.
fn cloud_presence(plan: &Plan, snapshot: &Snapshot) -> ControllerPresence {
    let workloads = ["Deployment", "DaemonSet"];
    let mut deleted = plan.deletions().map(|change| &change.object.id).filter(|id| is_cloud_controller(id));
    if let Some(id) = deleted.find(|id| workloads.iter().any(|kind| id.is("apps", kind))) {
        return ControllerPresence::Deleted(id.clone());
    }
    let mut here = snapshot.ids().filter(|id| is_cloud_controller(id));
    let leases = GroupKind::new("coordination.k8s.io", "Lease");
    if !snapshot.has_read(&leases) || here.next().is_some() {
        return ControllerPresence::Presumed;
    }
    ControllerPresence::Absent(format!("no {CLOUD_CONTROLLER} has a Lease in this cluster"))
}

/// Returns a volume or a claim that stays and names a VolumeAttributesClass (Kubernetes v1.36.3 `isBeingUsed` in
/// pkg/controller/volume/vacprotection). Objects of other kinds have none.
fn class_user<'p>(
    class: &ObjectMetadata,
    plan: &'p Plan,
    snapshot: &'p Snapshot,
    gone: &HashSet<&ObjectId>,
) -> Option<&'p ObjectId> {
    if !class.has_finalizer(CLASS_PROTECTION) {
        return None;
    }
    let cluster = snapshot.of_cluster(class.id.cluster.as_ref())?;
    let volumes = cluster.resources.iter().filter(|full| full.object.id.is("", "PersistentVolume"));
    let mut naming = volumes.filter(|full| full.text("/spec/volumeAttributesClassName") == Some(&*class.id.name));
    let volume = naming.find(|full| !gone.contains(&full.object.id)).map(|full| &full.object.id);
    volume.or_else(|| {
        let found = plan.still_referenced().iter().find(|found| found.object == class.id)?;
        found.users.iter().map(|user| &user.object).find(|id| id.is("", "PersistentVolumeClaim"))
    })
}

/// Returns the finalizers of an object that Kubernetes does not remove by itself. `is_used` says of a finalizer that protects what is
/// in use whether it is.
fn remaining_finalizers(
    object: &ObjectMetadata,
    is_used: impl Fn(&str) -> bool,
    presence: &ControllerPresence,
    system: &dyn FinalizerOwner,
) -> Vec<String> {
    let remaining = object.finalizers.iter().filter(|finalizer| match &***finalizer {
        protection @ (VOLUME_PROTECTION | CLAIM_PROTECTION | CLASS_PROTECTION) => is_used(protection),
        LOAD_BALANCER => *presence != ControllerPresence::Presumed,
        own if system.is_own(own) => *presence != ControllerPresence::Presumed,
        other => !is_removed_by_kubernetes(other),
    });
    remaining.map(ToString::to_string).collect()
}

/// Explains that the owner of a custom resource's definition also loses a Deployment, if that is so.
fn operator_deleted_with(resource: &ObjectId, plan: &Plan, snapshot: &Snapshot) -> Option<String> {
    let kind = snapshot.type_of(resource)?;
    let definition = plan.deletions().find(|change| {
        let id = &change.object.id;
        id.is_definition() && *id.name == *kind.resource() && id.cluster == resource.cluster
    })?;
    let owner = definition.owner.as_ref()?;
    let deployment = plan
        .deletions()
        .find(|change| change.object.id.is("apps", "Deployment") && change.owner.as_ref() == Some(owner))?;
    Some(format!("{} may be its controller and is deleted too", deployment.object.id))
}
