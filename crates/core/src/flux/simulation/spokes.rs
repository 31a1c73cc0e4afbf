//! Owners with `spec.kubeConfig`: their objects are in another cluster, and the plan follows them if it was read.
//!
//! The Secret of `spec.kubeConfig` is never read: the user says which cluster it reaches. Dependencies, variables, keys and
//! service accounts are those of the cluster that has the Kustomization; health checks are about the other cluster
//! (docs/reference/kustomize-controller.md 1).

use std::sync::Arc;

use serde_json::Value;

use super::Preview;
use super::blockers::Blocker;
use super::comparison::{Comparison, Difference, Part};
use super::model::{Node, Pass};
use super::owners::owner_id;
use crate::flux::build::objects::BuiltObject;
use crate::flux::kinds;
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::gap::{Gap, GapKind};
use crate::kubernetes::object::{ObjectId, Resource};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::Members;
use crate::ownership::scheme::hub::{Access, HubTarget};
use crate::ownership::schemes::flux::{inventory_members, target};
use crate::plan::{Action, Actor, Change, PinnedObject, Plan, Reason, ReasonCode};
use crate::text::join_limited;

/// Detail of the reason that the objects of an owner are in a cluster that was not read.
pub(super) const NOT_READ: &str = "its objects are in another cluster (spec.kubeConfig)";

/// Number of changed parts of a spec that one message names.
const NAMED_PARTS: usize = 5;

/// Name of the cluster to which an owner applies; `None` for the one that has the owner.
type ClusterName = Option<Arc<str>>;

/// An object of Flux in another cluster that a Kustomization changes there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RemoteOwner {
    id: ObjectId,
    /// Kustomization that changes it.
    applied_by: NamespacedName,
    /// What changes, for people.
    change: String,
}

impl<'a> Preview<'a> {
    /// Returns the cluster to which an owner in a namespace applies, or the reason why it was not read.
    fn target(&self, namespace: &str, spec: &Value) -> Result<ClusterName, Reason> {
        let cluster = match target(spec, namespace) {
            HubTarget::Hub => return Ok(None),
            HubTarget::Access(access) => self.input.snapshot.spoke_of(&access.id, access.key.as_deref()),
            HubTarget::Address(_) | HubTarget::Unknown => None,
        };
        cluster.cloned().map(Some).ok_or_else(|| Reason::new(ReasonCode::OtherCluster, NOT_READ))
    }

    /// Returns the cluster to which a live owner applies, or the reason why it was not read.
    pub(super) fn target_of_live(&self, live: &Resource) -> Result<ClusterName, Reason> {
        self.target(&live.object.id.namespace, live.spec())
    }

    /// Returns the reading of the cluster to which a live owner applies.
    pub(super) fn cluster_of(&self, live: &Resource) -> Option<&'a Snapshot> {
        self.cluster_of_spec(&live.object.id.namespace, live.spec())
    }

    /// Returns the reading of the cluster to which an owner with this spec applies.
    pub(super) fn cluster_of_spec(&self, namespace: &str, spec: &Value) -> Option<&'a Snapshot> {
        self.input.snapshot.of_cluster(self.target(namespace, spec).ok()?.as_ref())
    }

    /// Returns the cluster to which a pass applies. Fails if it was not read, or if the live Kustomization applies to another
    /// one: the controller then looks for the objects of its inventory in the new cluster.
    pub(super) fn target_of_pass(&self, key: &NamespacedName, spec: &KustomizationSpec) -> Result<ClusterName, Reason> {
        let target = self.target(&key.namespace, spec.value())?;
        match self.live.get(key).map(|live| self.target_of_live(live)) {
            Some(live) if live.as_ref() != Ok(&target) => {
                let detail = "it moves to another cluster (spec.kubeConfig changes)";
                Err(Reason::new(ReasonCode::OtherCluster, detail))
            }
            _ => Ok(target),
        }
    }

    /// Returns true if the objects of a pass are in a cluster that the plan does not follow.
    pub(super) fn is_elsewhere(&self, key: &NamespacedName, spec: &KustomizationSpec) -> bool {
        self.target_of_pass(key, spec).is_err()
    }

    /// Returns the members of a live owner. Those in another cluster that was read are listed with its name.
    pub(super) fn members(&self, live: &Resource) -> Members {
        let members = match (inventory_members(&live.content), self.target_of_live(live)) {
            (Members::Remote(ids), Ok(cluster)) => {
                Members::Listed(ids.into_iter().map(|id| id.in_cluster(cluster.as_ref())).collect())
            }
            (members, _) => members,
        };
        match &members {
            Members::Listed(ids) if self.input.features.refuses_underscores => {
                let refused = ids.iter().find(|id| id.name.contains('_'));
                refused
                    .map_or(members.clone(), |id| Members::Unreadable(format!("too many fields within: {}", id.name)))
            }
            _ => members,
        }
    }

    /// Returns the objects of `spec.healthChecks`, in the cluster to which the Kustomization applies.
    pub(super) fn health_checks(&self, key: &NamespacedName, spec: &KustomizationSpec) -> Vec<ObjectId> {
        let Ok(cluster) = self.target(&key.namespace, spec.value()) else { return vec![] };
        spec.health_checks().into_iter().map(|id| id.in_cluster(cluster.as_ref())).collect()
    }

    /// Returns the Secret or ConfigMap of `spec.kubeConfig`.
    pub(super) fn kube_config(&self, namespace: &str, spec: &Value) -> Option<ObjectId> {
        match target(spec, namespace) {
            HubTarget::Access(Access { id, .. }) => Some(id),
            _ => None,
        }
    }

    /// Returns a blocker if the object of `spec.kubeConfig` does not exist.
    pub(super) fn missing_kube_config(&self, key: &NamespacedName, spec: &KustomizationSpec) -> Option<Blocker> {
        let id = self.kube_config(&key.namespace, spec.value()).filter(|id| self.is_absent(id))?;
        let detail = format!("{id}, by which it reaches its cluster, does not exist");
        Some(Blocker::certain(ReasonCode::KubeConfigMissing, detail))
    }

    /// Adds what is not known of Flux in other clusters: a gap for each of its objects there that changes or is deleted.
    pub(super) fn add_remote_owners(&self, plan: &mut Plan) {
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
    pub(super) fn remote_owners(&mut self) -> Vec<RemoteOwner> {
        let preview = self.preview();
        let mut owners: Vec<RemoteOwner> = vec![];
        for node in &preview.nodes {
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
    pub(super) fn is_followed_elsewhere(&self, node: &Node, pass: &Pass) -> bool {
        matches!(self.preview().target_of_pass(&node.id.key, &pass.spec), Ok(Some(_)))
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

/// Returns the objects of a build in a cluster.
pub(super) fn in_cluster(built: &[BuiltObject], cluster: Option<&Arc<str>>) -> Vec<BuiltObject> {
    built.iter().map(|built| built.clone().in_cluster(cluster)).collect()
}
