//! Clusters to which owners apply: with `spec.kubeConfig`, their objects are in another cluster.
//!
//! The Secret of `spec.kubeConfig` is never read: the user says which cluster it reaches. Dependencies, variables, keys and
//! service accounts are those of the cluster that has the Kustomization; health checks are about the other cluster
//! (docs/reference/kustomize-controller.md 1).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::owner_names::NOT_READ;
use super::state::State;
use crate::flux::build::objects::BuiltObject;
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::object::{ObjectId, Resource};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::Members;
use crate::ownership::scheme::hub::{Access, HubTarget};
use crate::ownership::schemes::flux::{inventory_members, target};
use crate::plan::{Reason, ReasonCode};

/// Name of the cluster to which an owner applies; `None` for the one that has the owner.
type ClusterName = Option<Arc<str>>;

impl<'a> State<'a> {
    /// Returns the cluster to which an owner in a namespace applies, or the reason why it was not read.
    pub(crate) fn target(&self, namespace: &str, spec: &Value) -> Result<ClusterName, Reason> {
        let unread = match target(spec, namespace) {
            HubTarget::Hub => return Ok(None),
            HubTarget::Access(access) => match self.input.snapshot.spoke_of(&access.id, access.key.as_deref()) {
                Some(cluster) => return Ok(Some(cluster.clone())),
                None => how_to_read(&access.id),
            },
            HubTarget::Address(_) | HubTarget::Unknown => NOT_READ.to_owned(),
        };
        Err(Reason::new(ReasonCode::OtherCluster, unread))
    }

    /// Returns the cluster to which a live owner applies, or the reason why it was not read.
    pub(crate) fn target_of_live(&self, live: &Resource) -> Result<ClusterName, Reason> {
        self.target(&live.object.id.namespace, live.spec())
    }

    /// Returns the reading of the cluster to which a live owner applies.
    pub(crate) fn cluster_of(&self, live: &Resource) -> Option<&'a Snapshot> {
        self.cluster_of_spec(&live.object.id.namespace, live.spec())
    }

    /// Returns the reading of the cluster to which an owner with this spec applies.
    pub(crate) fn cluster_of_spec(&self, namespace: &str, spec: &Value) -> Option<&'a Snapshot> {
        self.input.snapshot.of_cluster(self.target(namespace, spec).ok()?.as_ref())
    }

    /// Returns the cluster to which a pass applies. Fails if it was not read, or if the live Kustomization applies to another
    /// one: the controller then looks for the objects of its inventory in the new cluster.
    pub(crate) fn target_of_pass(&self, key: &NamespacedName, spec: &KustomizationSpec) -> Result<ClusterName, Reason> {
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
    pub(crate) fn is_elsewhere(&self, key: &NamespacedName, spec: &KustomizationSpec) -> bool {
        self.target_of_pass(key, spec).is_err()
    }

    /// Returns the members of a live owner. Those in another cluster that was read are listed with its name.
    pub(crate) fn members(&self, live: &Resource) -> Members {
        let members = match (inventory_members(&live.content), self.target_of_live(live)) {
            (Members::Remote(ids), Ok(cluster)) => {
                Members::Listed(ids.into_iter().map(|id| id.in_cluster(cluster.as_ref())).collect())
            }
            (members, _) => members,
        };
        let members = match members {
            Members::Listed(ids) => Members::Listed(ids.into_iter().map(|id| self.in_scope(id)).collect()),
            other => other,
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

    /// Returns the cluster-scoped objects that the inventory of a live owner lists with a namespace, as they are in the
    /// cluster, with that namespace.
    pub(crate) fn misplaced_members(&self, live: &Resource) -> BTreeMap<ObjectId, Arc<str>> {
        let (Members::Listed(ids) | Members::Remote(ids)) = inventory_members(&live.content) else {
            return BTreeMap::new();
        };
        let Ok(cluster) = self.target_of_live(live) else { return BTreeMap::new() };
        let listed = ids.into_iter().map(|id| (self.in_scope(id.clone().in_cluster(cluster.as_ref())), id.namespace));
        listed.filter(|(id, namespace)| id.namespace != *namespace).collect()
    }

    /// Returns an object that an inventory lists as it is in the cluster: the controller ignores the namespace of a
    /// cluster-scoped one (`NamespaceIfScoped` in client-go's requests of controller-runtime).
    pub(crate) fn in_scope(&self, id: ObjectId) -> ObjectId {
        match self.input.snapshot.type_of(&id) {
            Some(kind) if !kind.namespaced => ObjectId { namespace: "".into(), ..id },
            _ => id,
        }
    }

    /// Returns the definition of the kind of an object; `None` for a kind that is not served.
    pub(crate) fn definition_of(&self, id: &ObjectId) -> Option<ObjectId> {
        let served = self.input.snapshot.type_of(id)?;
        Some(served.definition().in_cluster(id.cluster.as_ref()))
    }

    /// Returns the objects of `spec.healthChecks`, in the cluster to which the Kustomization applies.
    pub(crate) fn health_checks(&self, key: &NamespacedName, spec: &KustomizationSpec) -> Vec<ObjectId> {
        let Ok(cluster) = self.target(&key.namespace, spec.value()) else { return vec![] };
        spec.health_checks().into_iter().map(|id| id.in_cluster(cluster.as_ref())).collect()
    }

    /// Returns the Secret or ConfigMap of `spec.kubeConfig`.
    pub(crate) fn kube_config(&self, namespace: &str, spec: &Value) -> Option<ObjectId> {
        match target(spec, namespace) {
            HubTarget::Access(Access { id, .. }) => Some(id),
            _ => None,
        }
    }
}

/// Returns the reason why a cluster was not read that an object with a kubeconfig reaches, with the flag that names it.
fn how_to_read(config: &ObjectId) -> String {
    let ObjectId { kind, namespace, name, .. } = config;
    let prefix = if &**kind == "ConfigMap" { "ConfigMap/" } else { "" };
    format!("{NOT_READ}: --spoke {prefix}{namespace}/{name}=CONTEXT names the one that {config} reaches")
}

/// Returns the objects of a build in a cluster.
pub(crate) fn in_cluster(built: &[BuiltObject], cluster: Option<&Arc<str>>) -> Vec<BuiltObject> {
    built.iter().map(|built| built.clone().in_cluster(cluster)).collect()
}
