//! Presence of Flux's controllers, which remove Flux's finalizers.
//!
//! No record says which process reconciles a kind, so the evidence decides, in this order:
//! 1. There are Deployments with the controller's name, or with its name as label `app` or
//!    `app.kubernetes.io/component`: it is present unless the plan deletes all of them.
//! 2. Not every Deployment could be read: nothing is known.
//! 3. The controller wrote a status within two intervals of that object (10 minutes where it has none): it is present.
//!    A controller that was removed within that time is taken for a running one.
//! 4. There is a Deployment of another Flux controller: this one is absent.
//! 5. No Flux controller has a Deployment or wrote a status recently: Flux is absent. If one wrote recently, Flux runs
//!    without Deployments and nothing is known of the others.
//!
//! Replica counts of Deployments are not read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;

use crate::flux::kinds::{FluxKind, KINDS, find};
use crate::flux::stages::{Stage, stage};
use crate::kubernetes::deletion::finalizers::awaited_finalizers;
use crate::kubernetes::duration;
use crate::kubernetes::object::{GroupKind, ObjectId, ObjectMetadata, Resource};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::OwnerId;
use crate::plan::finished::finalizers::{ControllerPresence, FinalizerOwner};
use crate::plan::{Plan, ReasonCode};

const DEFAULT_INTERVAL: Duration = Duration::from_secs(600);

/// Finalizers of Flux and of the Flux Operator.
const FINALIZERS: [&str; 2] = ["finalizers.fluxcd.io", "fluxcd.controlplane.io/finalizer"];

/// Deployments of a snapshot and those that a plan deletes.
pub struct FluxControllers<'a> {
    snapshot: &'a Snapshot,
    deleted: Vec<ObjectId>,
    deployments: Vec<&'a ObjectMetadata>,
    /// Owners whose finalizer fails, with the reason.
    stuck: Vec<(OwnerId, String)>,
    /// Those of the other clusters.
    spokes: BTreeMap<&'a str, FluxControllers<'a>>,
}

impl<'a> FluxControllers<'a> {
    /// Collects the Deployments of a snapshot.
    pub fn new(plan: &Plan, snapshot: &'a Snapshot) -> Self {
        let spokes = snapshot.spokes.iter().map(|(name, spoke)| (&**name, Self::of_cluster(plan, Some(name), spoke)));
        Self { spokes: spokes.collect(), ..Self::of_cluster(plan, None, snapshot) }
    }

    fn of_cluster(plan: &Plan, name: Option<&Arc<str>>, snapshot: &'a Snapshot) -> Self {
        let deletions = plan.deletions().map(|change| &change.object.id);
        let deleted = deletions.filter(|id| id.cluster.as_ref() == name && id.is("apps", "Deployment"));
        let deployments = snapshot.objects.iter().filter(|object| object.id.is("apps", "Deployment")).collect();
        // The owners of a plan are objects of the cluster itself.
        let rows = plan.owners().iter().filter(|row| name.is_none() && row.reason.code == ReasonCode::OwnerStuck);
        let stuck = rows.map(|row| (row.owner.clone(), row.reason.detail.clone())).collect();
        Self { snapshot, deleted: deleted.cloned().collect(), deployments, stuck, spokes: BTreeMap::new() }
    }

    /// Returns true if every Deployment of the cluster was read.
    fn has_read_deployments(&self) -> bool {
        let deployments = GroupKind::new("apps", "Deployment");
        let types = &self.snapshot.types;
        types.iter().any(|kind| kind.is("apps", "Deployment"))
            && !self.snapshot.gaps.iter().any(|gap| gap.hides(&deployments, types))
    }

    /// Returns true if a controller wrote the status of an object of such a kind within two of its intervals.
    fn wrote_recently(&self, wanted: impl Fn(&FluxKind) -> bool) -> bool {
        self.snapshot
            .resources
            .iter()
            .any(|full| FluxKind::of(full).is_some_and(|kind| wanted(kind) && self.is_recent(full, kind.controller)))
    }

    fn is_recent(&self, full: &Resource, controller: &str) -> bool {
        let interval = full.text("/spec/interval").and_then(duration::parse).unwrap_or(DEFAULT_INTERVAL);
        let limit = TimeDelta::from_std(interval * 2).unwrap_or(TimeDelta::MAX);
        full.object
            .managed_fields
            .iter()
            .filter(|entry| &*entry.subresource == "status" && entry.manager.ends_with(controller))
            .filter_map(|entry| entry.time)
            .any(|time| self.snapshot.taken - time <= limit)
    }
}

impl FinalizerOwner for FluxControllers<'_> {
    fn is_own(&self, finalizer: &str) -> bool {
        is_of_flux(finalizer)
    }

    /// Source: the stages of an apply (docs/reference/kustomize-controller.md 4.2). What kind of object comes later in them does not
    /// matter here.
    fn is_awaited(&self, id: &ObjectId) -> bool {
        stage(id, &BTreeSet::new()) < Stage::Custom
    }

    /// Kinds that are not Flux's are presumed to have a controller.
    fn presence(&self, id: &ObjectId) -> ControllerPresence {
        if let Some(cluster) = &id.cluster {
            return self.spokes.get(&**cluster).map_or(ControllerPresence::Presumed, |spoke| spoke.presence_here(id));
        }
        self.presence_here(id)
    }
}

impl FluxControllers<'_> {
    /// Returns the presence of the controller of an object in the same cluster.
    fn presence_here(&self, id: &ObjectId) -> ControllerPresence {
        if let Some((_, detail)) = self.stuck.iter().find(|(owner, _)| owner.is_object(id)) {
            return ControllerPresence::Absent(detail.clone());
        }
        let Some(kind) = find(&id.group, &id.kind) else { return ControllerPresence::Presumed };
        let mut own = self.deployments.iter().filter(|object| is_of(object, kind.controller)).map(|object| &object.id);
        if let Some(first) = own.clone().next() {
            let all_deleted = own.all(|id| self.deleted.contains(id));
            return if all_deleted { ControllerPresence::Deleted(first.clone()) } else { ControllerPresence::Presumed };
        }
        if !self.has_read_deployments() || self.wrote_recently(|other| other.controller == kind.controller) {
            return ControllerPresence::Presumed;
        }
        if KINDS.iter().any(|other| self.deployments.iter().any(|object| is_of(object, other.controller))) {
            return ControllerPresence::Absent(format!("no Deployment {} is in this cluster", kind.controller));
        }
        if self.wrote_recently(|_| true) {
            return ControllerPresence::Presumed;
        }
        let detail = "no Deployment of Flux is in this cluster, and no Flux controller wrote a status recently";
        ControllerPresence::Absent(detail.to_owned())
    }
}

/// Returns the finalizers of an object that neither Kubernetes nor Flux removes.
pub fn foreign_finalizers(object: &ObjectMetadata) -> impl Iterator<Item = &str> {
    awaited_finalizers(object).filter(|finalizer| !is_of_flux(finalizer))
}

/// Returns true for a finalizer that a controller of Flux removes.
pub(crate) fn is_of_flux(finalizer: &str) -> bool {
    FINALIZERS.contains(&finalizer)
}

/// Returns true if an object is being deleted, and a finalizer of a controller of Flux has not succeeded yet.
pub(crate) fn is_finalizing(object: &ObjectMetadata) -> bool {
    object.deletion_timestamp.is_some() && object.finalizers.iter().any(|finalizer| is_of_flux(finalizer))
}

pub(crate) fn is_of(deployment: &ObjectMetadata, controller: &str) -> bool {
    let labels = ["app", "app.kubernetes.io/component"].map(|key| deployment.labels.get(key));
    *deployment.id.name == *controller || labels.contains(&Some(controller))
}

#[cfg(test)]
mod tests;
