//! Who removes Flux's finalizers: whether a controller of Flux goes with a plan, or is not in the cluster.
//!
//! No record says which process serves a kind, so this goes by evidence, in this order:
//! 1. Deployments of the controller's name, in any namespace, or with its name as label `app` or
//!    `app.kubernetes.io/component`: it is served unless all of them go with the plan;
//! 2. where Deployments could not all be read, nothing is said;
//! 3. a status that the controller wrote no longer ago than two intervals of that object (Flux's 10 minutes where it
//!    names none): it runs, in whatever way. A controller that was removed within that time passes for one that runs;
//! 4. where a Deployment of another controller of Flux is there, this one's is not;
//! 5. where none is and none wrote lately, Flux is gone or does not run as Deployments; where any wrote lately, it runs
//!    by other means, and nothing can be said of the others.
//!
//! Whether a Deployment has replicas is not read.

use std::time::Duration;

use chrono::TimeDelta;

use crate::flux::kinds::{FluxKind, KINDS, find};
use crate::kubernetes::duration;
use crate::kubernetes::object::{GroupKind, ObjectId, ObjectMetadata, Resource};
use crate::kubernetes::snapshot::Snapshot;
use crate::plan::document::Plan;

const INTERVAL: Duration = Duration::from_secs(600);

/// Who serves a kind of Flux after a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControllerPresence {
    /// Somebody does, or nothing can be said.
    Presumed,
    /// This Deployment did, and goes.
    Goes(ObjectId),
    /// Nobody; the reason, in words.
    Nobody(String),
}

/// Who serves the kinds of Flux after a plan.
pub struct ControllerLookup<'a> {
    snapshot: &'a Snapshot,
    going: Vec<&'a ObjectId>,
    deployments: Vec<&'a ObjectMetadata>,
}

impl<'a> ControllerLookup<'a> {
    /// Looks at the Deployments of a snapshot and at what of them a plan deletes.
    pub fn new(plan: &'a Plan, snapshot: &'a Snapshot) -> Self {
        let is_deployment = |id: &ObjectId| id.is("apps", "Deployment");
        let going = plan.deletions().map(|change| &change.object.id).filter(|id| is_deployment(id)).collect();
        let deployments = snapshot.objects.iter().filter(|object| is_deployment(&object.id)).collect();
        Self { snapshot, going, deployments }
    }

    /// Who serves a kind; kinds that are not Flux's are presumed to be served.
    pub fn of(&self, id: &ObjectId) -> ControllerPresence {
        let Some(kind) = find(&id.group, &id.kind) else { return ControllerPresence::Presumed };
        let mut own = self.deployments.iter().filter(|object| is_of(object, kind.controller)).map(|object| &object.id);
        if let Some(first) = own.clone().next() {
            let all_go = own.all(|id| self.going.contains(&id));
            return if all_go { ControllerPresence::Goes(first.clone()) } else { ControllerPresence::Presumed };
        }
        if !self.saw_deployments() || self.wrote_lately(|other| other.controller == kind.controller) {
            return ControllerPresence::Presumed;
        }
        let of_flux = |object: &&&ObjectMetadata| KINDS.iter().any(|other| is_of(object, other.controller));
        if self.deployments.iter().any(|object| of_flux(&object)) {
            return ControllerPresence::Nobody(format!("no Deployment {} is in this cluster", kind.controller));
        }
        match self.wrote_lately(|_| true) {
            true => ControllerPresence::Presumed,
            false => {
                ControllerPresence::Nobody("no Deployment of Flux is in this cluster, and none wrote lately".to_owned())
            }
        }
    }

    /// Whether every Deployment of the cluster is known.
    fn saw_deployments(&self) -> bool {
        let deployment = GroupKind::new("apps", "Deployment");
        self.snapshot.resource_type(&deployment).is_some() && self.snapshot.gaps_hiding(&deployment).next().is_none()
    }

    /// Whether a controller wrote the status of an object of such a kind within two of its intervals.
    fn wrote_lately(&self, wanted: impl Fn(&FluxKind) -> bool) -> bool {
        let lately = |full: &Resource| {
            let Some(kind) = FluxKind::of(full).filter(|kind| wanted(kind)) else { return false };
            let interval = full.text("/spec/interval").and_then(duration::parse).unwrap_or(INTERVAL);
            let limit = TimeDelta::from_std(interval * 2).unwrap_or(TimeDelta::MAX);
            let written = full.object.writers.iter().filter(|writer| &*writer.subresource == "status");
            let by_it = written.filter(|writer| writer.manager.ends_with(kind.controller));
            by_it.filter_map(|writer| writer.time).any(|time| self.snapshot.taken - time <= limit)
        };
        self.snapshot.full.iter().any(lately)
    }
}

fn is_of(deployment: &ObjectMetadata, controller: &str) -> bool {
    let label = |key: &str| deployment.labels.get(key) == Some(controller);
    *deployment.id.name == *controller || label("app") || label("app.kubernetes.io/component")
}
