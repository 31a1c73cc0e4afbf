//! Owners whose effect is not always computed: HelmReleases, ResourceSets, FluxInstances, ArtifactGenerators, and Kustomizations
//! whose objects or whose source are elsewhere.
//!
//! If a change affects what such an owner deploys, any of its objects may be deleted, and the plan says so. Only a change
//! that is known to have no effect is left out. A new owner deletes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::node::{BuiltObjects, PassId};
use crate::flux::spec::NamespacedName;
use crate::helm::upgrade::Upgrade;
use crate::kubernetes::object::ObjectId;
use crate::plan::Reason;

/// An owner whose effect is not computed, and how the change affects it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Unfollowed {
    pub(crate) id: ObjectId,
    pub(crate) effect: Effect,
}

/// The way in which a change affects an owner.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Effect {
    /// It is not known what is deleted.
    Unknown(Reason),
    /// The release of a HelmRelease is uninstalled and another one installed; the plan lists what the uninstall deletes.
    Replaces(Reason),
    /// The release of a HelmRelease is upgraded, for this reason; the plan lists what the upgrade deletes.
    Upgrades(Box<Upgrade>, Reason),
    /// The resources of a ResourceSet are generated anew, for this reason; the plan follows them.
    Expands(Box<Expansion>, Reason),
    /// An ArtifactGenerator makes other artifacts, which the plan follows.
    Generates(Reason),
    /// The build of an ArtifactGenerator fails, so that its artifacts stay as they are.
    Fails(Reason),
    /// The owner is suspended, so that nothing happens for now.
    Suspended(Reason),
    /// The owner is new and creates objects that are not in the plan; the remark for its row.
    Creates(&'static str),
}

/// An object of Flux in another cluster that a Kustomization changes there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RemoteOwner {
    pub(crate) id: ObjectId,
    /// Kustomization that changes it.
    pub(crate) applied_by: NamespacedName,
    /// What changes, for people.
    pub(crate) change: String,
}

/// Resources of a ResourceSet after the change.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expansion {
    /// Pass that applies the ResourceSet, or a provider of its inputs.
    pub(crate) trigger: PassId,
    /// Everything that is generated.
    pub(crate) objects: Arc<BuiltObjects>,
    /// Objects in the inventory that are no longer generated.
    pub(crate) removed: BTreeSet<ObjectId>,
    /// Objects that are perhaps not generated for a moment.
    pub(crate) interrupted: BTreeSet<ObjectId>,
    /// Condition of the deletions, for people; `None` if they are certain.
    pub(crate) condition: Option<String>,
    /// Messages of the server about deletions that it refuses.
    pub(crate) refused_deletions: BTreeMap<ObjectId, String>,
}
