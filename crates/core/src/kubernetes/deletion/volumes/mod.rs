//! What becomes of volumes when the claims that they are bound to go: their reclaim policy decides.
//!
//! Source: `pkg/controller/volume/persistentvolume` of Kubernetes 1.36, the part of kube-controller-manager that binds
//! and reclaims; `tests/live_volumes.rs` runs it. A volume points at its claim by uid, so a claim that comes back is
//! another one to it. A reference without uid reserves the volume, and nothing is reclaimed before it is bound.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};

use crate::kubernetes::gap::{Gap, GapKind};
use crate::kubernetes::object::{ObjectId, ObjectMetadata, Resource};
use crate::kubernetes::snapshot::Snapshot;
use crate::plan::document::{Action, Actor, Change, PinnedObject, Plan};

/// The kind whose objects are read with their content: the policy stands in the spec.
pub const KIND: &str = "PersistentVolume";
const CLAIM: &str = "PersistentVolumeClaim";
const RESOURCE: &str = "persistentvolumes";

/// Who made a volume for a claim. Such a volume is its maker's to delete.
const PROVISIONED: &str = "pv.kubernetes.io/provisioned-by";

/// Volume types whose deletion moved from Kubernetes to a driver; whether one runs is in no record of the volume.
const DRIVEN: [&str; 8] = [
    "csi",
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cinder",
    "gcePersistentDisk",
    "portworxVolume",
    "vsphereVolume",
];

/// What becomes of a volume whose claim goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReclaimOutcome {
    /// It is deleted, and its data with it.
    Deleted,
    /// It is deleted if the driver behind it takes it for its own; nobody provisioned it.
    Driven,
    /// It is only reserved for the claim; it is deleted if it is bound by then.
    Reserved,
    /// It is being deleted already, and only the claim holds it; nothing is done to its data.
    Leaving,
    /// Its policy is to delete it, and Kubernetes has no way to delete a volume of its type.
    Failed,
    /// It stays with its data, bound to a claim that is gone.
    Retained,
    /// Its data is removed, and it is offered to other claims.
    Recycled,
}

impl ReclaimOutcome {
    /// Whether the volume goes or may go.
    pub fn may_go(self) -> bool {
        matches!(self, Self::Deleted | Self::Driven | Self::Reserved | Self::Leaving)
    }

    /// Whether this is sure to happen once the claim is gone.
    pub fn is_sure(self) -> bool {
        !matches!(self, Self::Driven | Self::Reserved)
    }

    /// The reason in a plan: a code and words.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Deleted => "reclaimed: its policy is Delete, so its data goes",
            Self::Driven => "reclaimed: its policy is Delete; nobody provisioned it, so it depends on its driver",
            Self::Reserved => "reclaimed: its policy is Delete; it is only reserved, so only if it is bound by then",
            Self::Leaving => "released: it is being deleted already, and only its claim holds it; its data stays",
            Self::Failed => "failed: its policy is Delete, and nothing deletes volumes of its type: its data stays",
            Self::Retained => "retained: its data stays, and nothing binds it again by itself",
            Self::Recycled => "recycled: its data is scrubbed, and then any claim may take it",
        }
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
        for volume in snapshot.full.iter().filter(|full| full.object.id.is("", KIND)) {
            let text = |key: &str| volume.text(&format!("/spec/claimRef/{key}")).unwrap_or_default();
            match (text("uid"), text("namespace"), text("name")) {
                ("", _, "") => {}
                ("", namespace, name) => volumes.reserved.entry((namespace, name)).or_default().push(volume),
                (uid, ..) => volumes.bound.entry(uid).or_default().push(volume),
            }
        }
        volumes
    }

    /// The volumes of a claim, and what becomes of each when it goes. Other objects have none.
    pub fn of(&self, claim: &ObjectMetadata) -> Vec<(&'a ObjectMetadata, ReclaimOutcome)> {
        if !claim.id.is("", CLAIM) {
            return vec![];
        }
        let bound_fate = |volume: &Resource| match fate(volume) {
            ReclaimOutcome::Deleted => ReclaimOutcome::Deleted,
            _ if volume.object.deleting.is_some() => ReclaimOutcome::Leaving,
            fate => fate,
        };
        let bound = self.bound.get(&*claim.uid).into_iter().flatten();
        let bound = bound.map(|volume| (&volume.object, bound_fate(volume)));
        let reserved = self.reserved.get(&(&*claim.id.namespace, &*claim.id.name)).into_iter().flatten();
        let reserved = reserved.filter(|volume| fate(volume).may_go());
        bound.chain(reserved.map(|volume| (&volume.object, ReclaimOutcome::Reserved))).collect()
    }
}

/// The claim that a volume is bound to, if it is there. Other objects have none.
pub fn claim_of<'a>(volume: &ObjectMetadata, snapshot: &'a Snapshot) -> Option<&'a ObjectMetadata> {
    let full = snapshot.full(&volume.id).filter(|full| full.object.id.is("", KIND))?;
    let text = |key: &str| full.text(&format!("/spec/claimRef/{key}"));
    let claim = snapshot.object(&ObjectId::new("", CLAIM, text("namespace")?, text("name")?))?;
    (text("uid") == Some(&*claim.uid)).then_some(claim)
}

/// What the policy of a bound volume comes to.
fn fate(volume: &Resource) -> ReclaimOutcome {
    let has = |kind: &str| volume.at(&format!("/spec/{kind}")).is_some();
    match volume.text("/spec/persistentVolumeReclaimPolicy") {
        Some("Delete") if volume.object.annotations.get(PROVISIONED).is_some_and(|by| !by.is_empty()) => {
            ReclaimOutcome::Deleted
        }
        Some("Delete") if DRIVEN.iter().any(|kind| has(kind)) => ReclaimOutcome::Driven,
        // The one type that Kubernetes itself deletes, for tests of a single node, where its path has this in it.
        Some("Delete") => match volume.text("/spec/hostPath/path").and_then(|path| path.split_once("/tmp/")) {
            Some((_, below)) if !below.is_empty() => ReclaimOutcome::Deleted,
            _ => ReclaimOutcome::Failed,
        },
        Some("Recycle") if has("hostPath") || has("nfs") => ReclaimOutcome::Recycled,
        _ => ReclaimOutcome::Retained,
    }
}

/// Adds to a plan what becomes of the volumes that stay when their claims go, and what a claim that comes back has lost.
/// Where the snapshot is an old recording without the content of volumes, that is a gap.
#[must_use]
pub fn told(mut plan: Plan, snapshot: &Snapshot) -> Plan {
    let volumes = Volumes::new(snapshot);
    let listed: BTreeSet<ObjectId> = plan.changes.iter().map(|change| change.object.id.clone()).collect();
    let (mut more, mut is_asked) = (vec![], false);
    let goes = |change: &&mut Change| matches!(change.action, Action::Delete | Action::Recreate);
    for change in plan.changes.iter_mut().filter(goes).filter(|change| change.object.id.is("", CLAIM)) {
        is_asked = true;
        let Some(claim) = snapshot.object(&change.object.id) else { continue };
        for (volume, fate) in volumes.of(claim) {
            if change.action == Action::Recreate {
                let stays = matches!(fate, ReclaimOutcome::Retained | ReclaimOutcome::Failed | ReclaimOutcome::Leaving);
                let data = if stays { "stays" } else { "is lost" };
                change.reason += &format!("; it comes back empty: the data in {} {data}", volume.id);
            }
            if !fate.may_go() && !listed.contains(&volume.id) {
                more.push(Change {
                    action: Action::Keep,
                    certainty: change.certainty,
                    object: PinnedObject::from(volume),
                    owner: None,
                    by: Actor::PersistentVolumeController,
                    reason: fate.reason().to_owned(),
                    cause: Some(claim.id.clone()),
                });
            }
        }
    }
    plan.changes.extend(more);
    let unread = snapshot.objects.iter().any(|object| object.id.is("", KIND) && snapshot.full(&object.id).is_none());
    if is_asked && unread && !plan.gaps.iter().any(|gap| gap.subject == RESOURCE) {
        let message = "the recording holds no specs of volumes, so what becomes of them is unknown; record it again";
        let (kind, subject) = (GapKind::Failed, RESOURCE.to_owned());
        plan.gaps.push(Gap { kind, subject, namespace: None, message: message.to_owned() });
    }
    let (diffs, held) = (plan.diffs, plan.held);
    Plan { diffs, held, ..Plan::new(plan.cluster, plan.gaps, plan.owners, plan.changes) }
}
