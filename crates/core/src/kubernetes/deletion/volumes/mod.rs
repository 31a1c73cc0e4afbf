//! Predicts what happens to volumes when their claims are deleted: the reclaim policy decides.
//!
//! Source: `pkg/controller/volume/persistentvolume` of Kubernetes 1.36, the part of kube-controller-manager that binds
//! and reclaims; `tests/live/plan/volumes.rs` runs it. A volume refers to its claim by uid, so a recreated claim is
//! another claim. A reference without uid reserves the volume, and nothing is reclaimed before it is bound.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use crate::kubernetes::object::{ObjectId, ObjectMetadata, Resource};
use crate::kubernetes::snapshot::Snapshot;

/// Kind of volumes, which are read with their content because the spec contains the policy.
pub const KIND: &str = "PersistentVolume";
/// Kind of the claims that volumes are bound to.
pub(crate) const CLAIM: &str = "PersistentVolumeClaim";
/// Resource of volumes, as gaps name it.
pub const RESOURCE: &str = "persistentvolumes";

/// Annotation that names the provisioner of a volume. The provisioner deletes the volume.
const PROVISIONED: &str = "pv.kubernetes.io/provisioned-by";

/// Volume types that a driver deletes, not Kubernetes. The volume does not record if the driver runs.
const DELETED_BY_DRIVER: [&str; 8] = [
    "csi",
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cinder",
    "gcePersistentDisk",
    "portworxVolume",
    "vsphereVolume",
];

/// Effect on a volume when its claim is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReclaimOutcome {
    /// The volume and its data are deleted.
    Deleted,
    /// The volume is deleted if its driver considers it its own; no provisioner is recorded.
    DependsOnDriver,
    /// The volume is only reserved for the claim; it is deleted if it is bound by then.
    DependsOnBinding,
    /// The volume is being deleted already and only the claim holds it; its data is not touched.
    Released,
    /// The policy is Delete, but Kubernetes cannot delete volumes of this type.
    Failed,
    /// The volume stays with its data, bound to a claim that no longer exists.
    Retained,
    /// The data is erased, and the volume is offered to other claims.
    Recycled,
    /// The policy changes, and it is open which one the volume has when its claim is gone.
    DependsOnPolicy,
}

/// Reclaim policies that a plan sets, by the volumes.
pub type PolicyChanges = BTreeMap<ObjectId, PolicyChange>;

/// A reclaim policy that a plan sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyChange {
    pub policy: String,
    /// It is set for certain.
    pub is_certain: bool,
    /// If it is set, that is before the claim of the volume is deleted.
    pub is_first: bool,
}

impl ReclaimOutcome {
    pub(crate) fn may_delete(self) -> bool {
        matches!(
            self,
            Self::Deleted | Self::DependsOnDriver | Self::DependsOnBinding | Self::DependsOnPolicy | Self::Released
        )
    }

    /// Returns true if the data is, or may be, gone afterwards.
    pub(crate) fn loses_data(self) -> bool {
        !matches!(self, Self::Released | Self::Failed | Self::Retained)
    }

    /// Returns true if the outcome is certain once the claim is deleted.
    pub fn is_certain(self) -> bool {
        !matches!(self, Self::DependsOnDriver | Self::DependsOnBinding | Self::DependsOnPolicy)
    }
}

/// Volumes by the claims that they are bound to or reserved for.
#[derive(Debug, Default)]
pub struct Volumes<'a> {
    bound: HashMap<&'a str, Vec<&'a Resource>>,
    reserved: HashMap<(&'a str, &'a str), Vec<&'a Resource>>,
}

impl<'a> Volumes<'a> {
    /// Reads the content of volumes in a snapshot.
    pub fn new(snapshot: &'a Snapshot) -> Self {
        let mut volumes = Self::default();
        for volume in snapshot.resources.iter().filter(|full| full.object.id.is("", KIND)) {
            match claim_reference(volume).map(Option::unwrap_or_default) {
                [_, "", ""] => {}
                [namespace, name, ""] => volumes.reserved.entry((namespace, name)).or_default().push(volume),
                [.., uid] => volumes.bound.entry(uid).or_default().push(volume),
            }
        }
        volumes
    }

    /// Returns the volumes of a claim with the effect of deleting it while reclaim policies change. Objects of other kinds have
    /// none.
    pub fn of(&self, claim: &ObjectMetadata, changes: &PolicyChanges) -> Vec<(&'a ObjectMetadata, ReclaimOutcome)> {
        if !claim.id.is("", CLAIM) {
            return vec![];
        }
        let mut volumes = vec![];
        for volume in self.bound.get(&*claim.uid).into_iter().flatten() {
            let outcome = match outcome_with(volume, changes) {
                ReclaimOutcome::Deleted => ReclaimOutcome::Deleted,
                _ if volume.object.deletion_timestamp.is_some() => ReclaimOutcome::Released,
                outcome => outcome,
            };
            volumes.push((&volume.object, outcome));
        }
        for volume in self.reserved.get(&(&*claim.id.namespace, &*claim.id.name)).into_iter().flatten() {
            if outcome_with(volume, changes).may_delete() {
                volumes.push((&volume.object, ReclaimOutcome::DependsOnBinding));
            }
        }
        volumes
    }
}

/// Returns the live claim that a volume is bound to. Objects of other kinds have none.
pub fn claim_of<'a>(volume: &ObjectMetadata, snapshot: &'a Snapshot) -> Option<&'a ObjectMetadata> {
    let full = snapshot.resource(&volume.id).filter(|full| full.object.id.is("", KIND))?;
    let [namespace, name, uid] = claim_reference(full);
    let claim = ObjectId::new("", CLAIM, namespace?, name?);
    let claim = snapshot.object(&claim.in_cluster(volume.id.cluster.as_ref()))?;
    (uid == Some(&*claim.uid)).then_some(claim)
}

/// Returns the effect of a new reclaim policy on a volume whose claim is gone already: the volume is reclaimed at once
/// (Kubernetes v1.36.3 `syncVolume` in pkg/controller/volume/persistentvolume/pv_controller.go). `None` if it has none.
pub(crate) fn late_outcome(volume: &Resource, policy: &str, snapshot: &Snapshot) -> Option<ReclaimOutcome> {
    let [namespace, name, uid] = claim_reference(volume).map(|text| text.filter(|text| !text.is_empty()));
    let claim = ObjectId::new("", CLAIM, namespace?, name?).in_cluster(volume.object.id.cluster.as_ref());
    let is_released = match snapshot.object(&claim) {
        Some(claim) => uid? != &*claim.uid,
        None => uid.is_some() && snapshot.lacks(&claim),
    };
    let outcome = reclaim_outcome(volume, Some(policy));
    let is_new = outcome.loses_data() && outcome != reclaim_outcome(volume, policy_of(volume));
    (is_released && is_new && volume.object.deletion_timestamp.is_none()).then_some(outcome)
}

/// Returns the namespace, the name and the uid in the reference of a volume to its claim.
fn claim_reference(volume: &Resource) -> [Option<&str>; 3] {
    ["/spec/claimRef/namespace", "/spec/claimRef/name", "/spec/claimRef/uid"].map(|pointer| volume.text(pointer))
}

/// Returns the effect of the deletion of the claim of a bound volume, whose reclaim policy may change.
fn outcome_with(volume: &Resource, changes: &PolicyChanges) -> ReclaimOutcome {
    let before = reclaim_outcome(volume, policy_of(volume));
    let Some(change) = changes.get(&volume.object.id) else { return before };
    let after = reclaim_outcome(volume, Some(&change.policy));
    // A volume that stays follows a policy that it gets later.
    let counts = change.is_certain && (change.is_first || !before.loses_data());
    if counts || before == after { after } else { ReclaimOutcome::DependsOnPolicy }
}

/// Returns the reclaim policy of a live volume.
pub(crate) fn policy_of(volume: &Resource) -> Option<&str> {
    volume.text("/spec/persistentVolumeReclaimPolicy")
}

/// Returns the effect of a reclaim policy of a bound volume.
fn reclaim_outcome(volume: &Resource, policy: Option<&str>) -> ReclaimOutcome {
    match policy {
        Some("Delete") if volume.object.annotations.get(PROVISIONED).is_some_and(|by| !by.is_empty()) => {
            ReclaimOutcome::Deleted
        }
        Some("Delete") if DELETED_BY_DRIVER.iter().any(|kind| volume.spec().get(kind).is_some()) => {
            ReclaimOutcome::DependsOnDriver
        }
        // Kubernetes itself deletes only host paths below /tmp/, for tests on a single node.
        Some("Delete") => match volume.text("/spec/hostPath/path").and_then(|path| path.split_once("/tmp/")) {
            Some((_, below)) if !below.is_empty() => ReclaimOutcome::Deleted,
            _ => ReclaimOutcome::Failed,
        },
        Some("Recycle") if ["hostPath", "nfs"].iter().any(|kind| volume.spec().get(kind).is_some()) => {
            ReclaimOutcome::Recycled
        }
        _ => ReclaimOutcome::Retained,
    }
}
