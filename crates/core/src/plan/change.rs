//! Rows of a plan: what happens to each owner and to each object.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Not;

use serde::{Deserialize, Serialize};

use super::reason::{Reason, ReasonCode};
use crate::kubernetes::deletion::cascade::{CascadeKind, CascadedObject};
use crate::kubernetes::deletion::finalizers::awaited_finalizers;
use crate::kubernetes::deletion::volumes::ReclaimOutcome;
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::ownership::OwnerId;

/// An object that several owners apply. All of them use the same field manager, so none of them notices.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Contested {
    /// Identity of the object.
    pub object: ObjectId,
    /// Owners that apply it, sorted.
    pub owners: Vec<OwnerId>,
}

/// A change of the version of kustomize-controller. The plan has the rules of the one that runs now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ControllerUpgrade {
    /// Version that runs now.
    pub from: String,
    /// Version that the change installs; without the patch number if a FluxInstance names a range.
    pub to: String,
    /// Rules of the new version that the running one does not have.
    pub rules: Vec<String>,
}

/// A kustomization file that loses its last resources and is still built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EmptiedFile {
    /// Kustomization that builds it.
    pub owner: OwnerId,
    /// Path in the source.
    pub path: String,
    /// Number of entries that it loses.
    pub entries: usize,
}

/// Difference between the live object and the object after the update.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Diff {
    /// Identity of the object.
    pub object: ObjectId,
    /// Unified diff of its YAML. Values of Secrets are masked.
    pub text: String,
}

/// Outcome of one owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OwnerOutcome {
    #[serde(flatten)]
    pub owner: OwnerId,
    /// Effect of the change on it.
    pub outcome: Outcome,
    pub reason: Reason,
    /// Result of comparing our build of the last applied revision with the controller's digest.
    pub fidelity: Fidelity,
    /// Owners that apply the object of this owner, or list it in their inventory. Empty where that is not known.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub parents: BTreeSet<OwnerId>,
    /// Owners that this one waits for. Outputs show it below the one that blocks it.
    #[serde(skip)]
    pub dependencies: BTreeSet<OwnerId>,
}

impl OwnerOutcome {
    /// Creates the outcome of an owner whose last applied revision was not rebuilt.
    pub fn new(owner: OwnerId, outcome: Outcome, reason: impl Into<Reason>) -> Self {
        let (parents, dependencies) = (BTreeSet::new(), BTreeSet::new());
        Self { owner, outcome, reason: reason.into(), fidelity: Fidelity::Unknown, parents, dependencies }
    }

    /// Returns true if the owner applies the change at most until something that it needs is deleted: its dependency, or a
    /// namespace or definition of its objects.
    pub fn loses_what_it_needs(&self) -> bool {
        let is_lost = matches!(self.reason.code, ReasonCode::DependencyDeleted | ReasonCode::ContainerDeleted);
        self.outcome == Outcome::Applies && is_lost
    }
}

/// Effect of a change on an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Its controller applies the new revision.
    Applies,
    /// Its controller applies nothing, or only a part, and prunes nothing.
    Blocked,
    /// The owner object itself is deleted.
    Deleted,
    /// The change does not affect it.
    Unchanged,
    /// The effect is not known: any object in its inventory may be deleted.
    Unknown,
}

/// Result of comparing our build of the last applied revision with the digest in `status.history`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Fidelity {
    /// Both digests are equal.
    Verified,
    /// The digests differ, so our build is not the controller's.
    Unverified,
    /// Nothing was built, or there is no digest to compare with.
    Unknown,
}

/// Returns the condition of a race that depends on the deletion of an object.
pub fn if_deleted(id: &ObjectId) -> String {
    format!("it depends on whether {id} is deleted")
}

/// Returns the condition under which a dependent is deleted whose owner a finalizer keeps.
pub(crate) fn awaits_finalizer(owner: &ObjectId, finalizer: &str) -> String {
    format!("it stays until the finalizer {finalizer} of {owner} is removed")
}

/// One row of a plan: the change of one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// Action on the object.
    pub action: Action,
    /// Certainty of the prediction.
    pub certainty: Certainty,
    /// The object, pinned to the uid and resource version that were read.
    pub object: PinnedObject,
    /// Owner on whose behalf it happens.
    pub owner: Option<OwnerId>,
    /// Component that performs the action.
    pub by: Actor,
    /// Reason of the action.
    pub reason: Reason,
    /// Object whose deletion causes this one; `null` for a deletion in the object's own right. For a volume that stays,
    /// the claim that is deleted.
    pub cause: Option<ObjectId>,
    /// The object is deleted, and whether it is created again depends on a condition, or is not known without the chart of its owner.
    #[serde(default, rename = "mayComeBack", skip_serializing_if = "Not::not")]
    pub may_come_back: bool,
}

impl Change {
    /// Creates a certain change in the object's own right.
    pub fn new(
        action: Action,
        object: impl Into<PinnedObject>,
        owner: Option<OwnerId>,
        by: Actor,
        reason: impl Into<Reason>,
    ) -> Self {
        let (object, reason) = (object.into(), reason.into());
        Self { action, certainty: Certainty::Certain, object, owner, by, reason, cause: None, may_come_back: false }
    }

    /// Creates the row of an object that is deleted as a consequence of another deletion.
    pub fn cascaded(cascaded: &CascadedObject<'_>, owner: Option<OwnerId>) -> Self {
        let by = Actor::from(cascaded.kind);
        let reason = Reason::from(cascaded.kind);
        let mut row = Self {
            certainty: if cascaded.kind.is_certain() { Certainty::Certain } else { Certainty::Race },
            cause: Some(cascaded.cause.clone()),
            ..Self::new(Action::Delete, cascaded.object, owner, by, reason)
        };
        for owner in cascaded.owners.iter().filter(|owner| owner.deletion_timestamp.is_some()) {
            if let Some(finalizer) = awaited_finalizers(owner).next() {
                row.add_condition(awaits_finalizer(&owner.id, finalizer));
            }
        }
        row
    }

    /// Makes the change depend on a condition, which its reason then names.
    pub(crate) fn make_race(&mut self, condition: impl Into<String>) {
        self.certainty = Certainty::Race;
        self.reason.conditions.push(condition.into());
    }

    /// Makes the change depend on a condition, unless its reason names it already.
    pub(crate) fn add_condition(&mut self, condition: String) {
        if !self.reason.conditions.contains(&condition) {
            self.make_race(condition);
        }
    }

    /// Returns true if this object, identified by its uid, is deleted, and is not an old record of a release.
    pub fn is_deletion(&self) -> bool {
        matches!(self.action, Action::Delete | Action::Recreate) && !self.is_old_record()
    }

    /// Returns true for an object that its owner deletes because it lets go of it, and that another owner creates again, or may create
    /// again: a rename or a move.
    pub fn is_moved_with_loss(&self) -> bool {
        let let_go =
            [ReasonCode::OwnerDeleted, ReasonCode::Uninstalled, ReasonCode::NotInChart, ReasonCode::NotGenerated];
        let comes_back = self.action == Action::Recreate || self.may_come_back;
        self.is_deletion()
            && (self.reason.code == ReasonCode::Moved || (comes_back && let_go.contains(&self.reason.code)))
    }

    /// Returns true for Helm's record of a revision that is beyond `maxHistory`. It holds nothing that is deployed, so it
    /// counts for itself and not as a deletion.
    pub fn is_old_record(&self) -> bool {
        self.reason.code == ReasonCode::OldRecord
    }
}

/// An object pinned to what was read of it. Uid and resource version are empty for an object that does not exist yet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PinnedObject {
    /// Group, kind, namespace and name.
    #[serde(flatten)]
    pub id: ObjectId,
    /// Uid of the live object.
    pub uid: String,
    /// Resource version at the time of reading.
    pub resource_version: String,
}

impl PinnedObject {
    /// Creates the reference to an object that does not exist yet.
    pub fn absent(id: ObjectId) -> Self {
        Self { id, uid: String::new(), resource_version: String::new() }
    }
}

impl From<&ObjectMetadata> for PinnedObject {
    fn from(object: &ObjectMetadata) -> Self {
        let id = object.id.clone();
        Self { id, uid: object.uid.to_string(), resource_version: object.resource_version.to_string() }
    }
}

/// Effect of a change on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// The object is deleted and nothing takes its place.
    Delete,
    /// The object is deleted and one of the same identity is created.
    Recreate,
    /// The object looks prunable and stays.
    Keep,
    /// The object is created.
    Create,
    /// The object is updated.
    Update,
    /// The effect cannot be known.
    Unknown,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Delete => "delete",
            Self::Recreate => "recreate",
            Self::Keep => "keep",
            Self::Create => "create",
            Self::Update => "update",
            Self::Unknown => "unknown",
        })
    }
}

/// Certainty of a prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Certainty {
    /// Every order of events has this result.
    Certain,
    /// The result depends on the order of events; the reason names what it depends on.
    Race,
}

/// Component that performs an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Actor {
    KustomizeController,
    /// The namespace controller, which empties a namespace.
    NamespaceController,
    /// The garbage collector, which follows owner references.
    GarbageCollector,
    /// The API server, which deletes the custom resources of a definition.
    CrdFinalizer,
    /// The persistent volume controller, which follows reclaim policies.
    PersistentVolumeController,
    HelmController,
    FluxOperator,
    SourceWatcher,
    /// The controller of kube-controller-manager that makes and deletes tokens of service accounts.
    TokenController,
    /// The controller of kube-controller-manager that makes and deletes the Endpoints of Services.
    EndpointsController,
    /// The daemon of Flux v1.
    Fluxd,
    /// This tool, on behalf of the user.
    KubectlGitops,
    /// Somebody, by a step of a list.
    User,
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl From<CascadeKind> for Actor {
    fn from(kind: CascadeKind) -> Self {
        match kind {
            CascadeKind::NamespaceContent => Self::NamespaceController,
            CascadeKind::CustomResource => Self::CrdFinalizer,
            CascadeKind::Dependent { .. } => Self::GarbageCollector,
            CascadeKind::Token { .. } => Self::TokenController,
            CascadeKind::Endpoints => Self::EndpointsController,
            CascadeKind::Volume(_) => Self::PersistentVolumeController,
            CascadeKind::HelmRelease | CascadeKind::ReplacedRelease | CascadeKind::Upgrade => Self::HelmController,
            CascadeKind::ResourceSet | CascadeKind::NotInResourceSet => Self::FluxOperator,
            CascadeKind::ArtifactGenerator | CascadeKind::RemovedArtifact => Self::SourceWatcher,
        }
    }
}

impl From<CascadeKind> for Reason {
    fn from(kind: CascadeKind) -> Self {
        match kind {
            CascadeKind::NamespaceContent => ReasonCode::InNamespace.into(),
            CascadeKind::CustomResource => ReasonCode::CustomResource.into(),
            CascadeKind::Dependent { owner_in_other_namespace: false } => ReasonCode::Dependent.into(),
            CascadeKind::Dependent { owner_in_other_namespace: true } => {
                Self::new(ReasonCode::Dependent, "of an object in another namespace")
            }
            CascadeKind::Token { is_known: true } => ReasonCode::Token.into(),
            CascadeKind::Token { is_known: false } => {
                Self::new(ReasonCode::Token, "race: it stays if its type is not kubernetes.io/service-account-token")
            }
            CascadeKind::Endpoints => Self::new(ReasonCode::Dependent, "of the Service of its name"),
            CascadeKind::Volume(outcome) => outcome.into(),
            CascadeKind::HelmRelease => ReasonCode::Uninstalled.into(),
            CascadeKind::ReplacedRelease => ReasonCode::ReleaseReplaced.into(),
            CascadeKind::Upgrade => ReasonCode::NotInChart.into(),
            CascadeKind::ResourceSet | CascadeKind::ArtifactGenerator => ReasonCode::OwnerDeleted.into(),
            CascadeKind::RemovedArtifact | CascadeKind::NotInResourceSet => ReasonCode::NotGenerated.into(),
        }
    }
}

impl From<ReclaimOutcome> for Reason {
    fn from(outcome: ReclaimOutcome) -> Self {
        match outcome {
            ReclaimOutcome::Deleted => {
                Self::new(ReasonCode::Reclaimed, "its reclaim policy is Delete, so its data is deleted")
            }
            ReclaimOutcome::DependsOnDriver => Self::new(
                ReasonCode::Reclaimed,
                "its reclaim policy is Delete, but no provisioner created it, so its driver decides",
            ),
            ReclaimOutcome::DependsOnBinding => Self::new(
                ReasonCode::Reclaimed,
                "its reclaim policy is Delete, but it is only reserved: it is deleted if it is bound by then",
            ),
            ReclaimOutcome::DependsOnPolicy => Self::new(ReasonCode::Reclaimed, "its reclaim policy changes")
                .on_condition("it depends on the policy that it has when its claim is gone"),
            ReclaimOutcome::Released => {
                Self::new(ReasonCode::Released, "it is being deleted and only its claim holds it; its data remains")
            }
            ReclaimOutcome::Failed => Self::new(
                ReasonCode::ReclaimFailed,
                "its reclaim policy is Delete, but nothing deletes volumes of its type; its data remains",
            ),
            ReclaimOutcome::Retained => Self::new(
                ReasonCode::Retained,
                "its data remains, and no claim can bind it until an administrator acts",
            ),
            ReclaimOutcome::Recycled => {
                Self::new(ReasonCode::Recycled, "its data is erased, and any claim can bind it again")
            }
        }
    }
}

/// A deleted object that finalizers keep terminating.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlockedByFinalizers {
    /// Identity of the object.
    pub object: ObjectId,
    /// Finalizers that nothing removes, or that a controller of unknown presence must remove.
    pub finalizers: Vec<String>,
    /// Deployment of the controller that would remove them and that the same plan deletes.
    pub controller: Option<ObjectId>,
    /// Explanation where `controller` is `null` and something is known.
    pub detail: Option<String>,
}
