//! What will not be gone as soon as it is deleted: objects with finalizers, which only the controllers behind them remove.
//!
//! A namespace whose content is held stays in Terminating as long. Which controller serves a finalizer is in no record.
//! What is known: Kubernetes' own come off by themselves, but a volume's only once its claim is gone; Flux's come off as
//! [`super::controllers`] tells. Of any other it can be said where its controller may go too: when a Deployment goes in the
//! name of the owner in whose name the object's own definition goes, because operators are installed with theirs.

#[cfg(test)]
mod tests;

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::controllers::{ControllerLookup, ControllerPresence};
use super::volumes::claim_of;
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::kubernetes::snapshot::Snapshot;
use crate::plan::document::{Change, Plan};

/// Finalizers that the control plane removes itself, and that of the provisioner of a volume, whose work the removal is.
/// Source: the constants of k8s.io/api, of the API server and of sig-storage-lib-external-provisioner.
const OWN: [&str; 11] = [
    "foregroundDeletion",
    "orphan",
    "kubernetes",
    "kubernetes.io/pvc-protection",
    VOLUME_PROTECTION,
    "kubernetes.io/pv-controller",
    "external-provisioner.volume.kubernetes.io/finalizer",
    "batch.kubernetes.io/job-tracking",
    "service.kubernetes.io/load-balancer-cleanup",
    "customresourcecleanup.apiextensions.k8s.io",
    "resource.kubernetes.io/delete-protection",
];
const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";

/// Flux's finalizers.
const FLUX: [&str; 2] = ["finalizers.fluxcd.io", "fluxcd.controlplane.io/finalizer"];

/// An object that goes and is held.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BlockedByFinalizers {
    /// The object.
    pub object: ObjectId,
    /// Its finalizers that do not come off by themselves.
    pub finalizers: Vec<String>,
    /// The Deployment that would remove them and goes with the same plan; `null` when none is known to.
    pub controller: Option<ObjectId>,
    /// Why it may hang, in words, where `controller` does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What a plan deletes and finalizers hold, those first of which it is known why they hang.
pub fn of(plan: &Plan, snapshot: &Snapshot) -> Vec<BlockedByFinalizers> {
    let services = ControllerLookup::new(plan, snapshot);
    let going: HashSet<&ObjectId> = plan.deletions().map(|change| &change.object.id).collect();
    let held = |object: &ObjectMetadata| {
        let service = services.of(&object.id);
        let claim = claim_of(object, snapshot).map(|claim| &claim.id).filter(|claim| !going.contains(claim));
        let stays = |finalizer: &str| match finalizer {
            VOLUME_PROTECTION => claim.is_some(),
            flux if FLUX.contains(&flux) => service != ControllerPresence::Presumed,
            other => !OWN.contains(&other),
        };
        let finalizers = object.finalizers.iter().filter(|text| stays(text));
        let finalizers: Vec<String> = finalizers.map(ToString::to_string).collect();
        if finalizers.is_empty() {
            return None;
        }
        let (controller, why) = match service {
            ControllerPresence::Goes(controller) => (Some(controller), None),
            ControllerPresence::Nobody(why) => (None, Some(why)),
            ControllerPresence::Presumed => {
                let bound = claim.map(|claim| format!("it is bound to {claim}, which stays"));
                (None, bound.or_else(|| installed_with(&object.id, plan, snapshot)))
            }
        };
        Some(BlockedByFinalizers { object: object.id.clone(), finalizers, controller, why })
    };
    let objects = plan.deletions().filter_map(|change| snapshot.object(&change.object.id));
    let mut all: Vec<BlockedByFinalizers> = objects.filter_map(held).collect();
    all.sort_by(|a, b| (a.controller.is_none(), a.why.is_none(), a).cmp(&(b.controller.is_none(), b.why.is_none(), b)));
    all
}

/// The Deployment that goes in the name of the owner in whose name the definition of a custom resource goes.
fn installed_with(resource: &ObjectId, plan: &Plan, snapshot: &Snapshot) -> Option<String> {
    let kind = snapshot.resource_type(&resource.group_kind())?;
    let is_definition = |change: &&Change| {
        let id = &change.object.id;
        id.is("apiextensions.k8s.io", "CustomResourceDefinition") && *id.name == *kind.resource()
    };
    let owner = plan.deletions().find(is_definition)?.owner.as_ref()?;
    let mut deployments = plan.deletions().filter(|change| change.object.id.is("apps", "Deployment"));
    let found = deployments.find(|change| change.owner.as_ref() == Some(owner))?;
    Some(format!("{} goes too, which came with its definition and may be what removes it", found.object.id))
}
