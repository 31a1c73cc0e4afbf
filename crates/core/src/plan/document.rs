//! The plan: every object that anyone would delete or that looks prunable, each once. Schema `kubectl-gitops/plan/v1`.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::kubernetes::deletion::finalizers::BlockedByFinalizers;
use crate::kubernetes::gap::Gap;
use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::kubernetes::snapshot::ClusterIdentity;
use crate::ownership::OwnerId;

/// Schema name.
pub const SCHEMA: &str = "kubectl-gitops/plan/v1";

/// A plan. Sorted, so that two runs over the same cluster are equal to the byte.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// Whether nothing that could hide or misjudge an object went unread.
    pub complete: bool,
    /// What could not be read.
    pub gaps: Vec<Gap>,
    /// The cluster that the plan is pinned to.
    pub cluster: ClusterIdentity,
    /// When the cluster was recorded, where the plan was made from a recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<DateTime<Utc>>,
    /// What happens to each owner that was looked at.
    pub owners: Vec<OwnerOutcome>,
    /// What happens to each object.
    pub changes: Vec<Change>,
    /// Counts of `changes` by action.
    pub summary: Summary,
    /// How objects that are updated change, where that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diffs: Vec<Diff>,
    /// What more than one owner applies once everything has settled: each undoes what the other does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contested: Vec<Contested>,
    /// What goes and is held by finalizers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<BlockedByFinalizers>,
}

/// An object of more than one owner. Source: reference kustomize-controller 0 and 8 (4): all of them apply as one field
/// manager, so none of them notices.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Contested {
    /// The object.
    pub object: ObjectId,
    /// Who applies it.
    pub owners: Vec<OwnerId>,
}

/// How one object changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Diff {
    /// The object.
    pub object: ObjectId,
    /// A unified diff of its YAML. No value of a Secret stands in it.
    pub text: String,
}

/// What happens to an owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OwnerOutcome {
    /// The owner.
    #[serde(flatten)]
    pub owner: OwnerId,
    /// What happens.
    pub outcome: Outcome,
    /// Why, empty when there is nothing to explain.
    pub reason: String,
    /// Whether our build of it was checked against the controller's own digest.
    pub fidelity: Fidelity,
}

/// What happens to an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Its controller applies the new tree.
    Applies,
    /// It applies and prunes nothing.
    Blocked,
    /// It goes itself.
    Deleted,
    /// Nothing happens to it.
    Unchanged,
}

/// Whether the last applied revision was rebuilt and its digest compared with the controller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fidelity {
    /// Equal.
    Verified,
    /// Different.
    Unverified,
    /// Nothing was built, or nothing could be compared.
    Unknown,
}

/// What happens to one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Change {
    /// What happens.
    pub action: Action,
    /// Whether it is sure.
    pub certainty: Certainty,
    /// The object, pinned to what was seen of it.
    pub object: PinnedObject,
    /// The owner in whose name it happens.
    pub owner: Option<OwnerId>,
    /// Who does it.
    pub by: Actor,
    /// Why: a stable code such as `leaked`, followed by `: ` and words for people where they help.
    pub reason: String,
    /// What takes the object along in a cascade; `null` for what goes in its own right. Of a volume that stays, the
    /// claim that goes.
    pub cause: Option<ObjectId>,
}

/// An object pinned to what was seen of it. Uid and resourceVersion are empty for what does not exist yet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PinnedObject {
    /// Identity.
    #[serde(flatten)]
    pub id: ObjectId,
    /// Uid.
    pub uid: String,
    /// Resource version at the time of reading.
    pub resource_version: String,
}

impl From<&ObjectMetadata> for PinnedObject {
    fn from(object: &ObjectMetadata) -> Self {
        let id = object.id.clone();
        Self { id, uid: object.uid.to_string(), resource_version: object.resource_version.to_string() }
    }
}

/// What happens to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// This uid goes and nothing takes its place.
    Delete,
    /// This uid goes and an object of the same identity comes back.
    Recreate,
    /// It looks prunable and stays.
    Keep,
    /// It is created.
    Create,
    /// It is changed.
    Update,
    /// What happens cannot be known.
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

/// Whether something is sure to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Certainty {
    /// It happens.
    Certain,
    /// Either outcome is possible; the reason says on what it depends.
    Race,
}

/// Who acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Actor {
    /// Flux's kustomize-controller.
    KustomizeController,
    /// The namespace controller, emptying a namespace.
    NamespaceController,
    /// The garbage collector, following owner references.
    GarbageCollector,
    /// The API server, emptying a custom resource definition.
    CrdFinalizer,
    /// The controller of volumes, following reclaim policies.
    PersistentVolumeController,
    /// Flux's helm-controller.
    HelmController,
    /// The controller of Flux v1.
    Fluxd,
    /// This tool.
    KubectlGitops,
}

/// Counts by action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// `delete` rows.
    pub delete: usize,
    /// `recreate` rows.
    pub recreate: usize,
    /// `keep` rows.
    pub keep: usize,
    /// `create` rows.
    pub create: usize,
    /// `update` rows.
    pub update: usize,
    /// `unknown` rows.
    pub unknown: usize,
}

impl Plan {
    /// Puts owners and changes in order and counts.
    pub fn new(
        cluster: ClusterIdentity,
        mut gaps: Vec<Gap>,
        mut owners: Vec<OwnerOutcome>,
        mut changes: Vec<Change>,
    ) -> Self {
        gaps.sort();
        owners.sort();
        changes.sort_by(|a, b| (&a.object, a.action).cmp(&(&b.object, b.action)));
        let count = |action| changes.iter().filter(|change| change.action == action).count();
        let summary = Summary {
            delete: count(Action::Delete),
            recreate: count(Action::Recreate),
            keep: count(Action::Keep),
            create: count(Action::Create),
            update: count(Action::Update),
            unknown: count(Action::Unknown),
        };
        let (schema, complete) = (SCHEMA.to_owned(), gaps.is_empty());
        Self {
            schema,
            complete,
            gaps,
            cluster,
            owners,
            changes,
            summary,
            diffs: vec![],
            contested: vec![],
            held: vec![],
            recorded: None,
        }
    }

    /// The same plan with more that could not be read.
    #[must_use]
    pub fn with_gaps(self, more: Vec<Gap>) -> Self {
        let gaps = self.gaps.into_iter().chain(more).collect();
        let Self { diffs, contested, held, .. } = self;
        Self { diffs, contested, held, ..Self::new(self.cluster, gaps, self.owners, self.changes) }
    }

    /// The same plan with more rows and with how objects change.
    #[must_use]
    pub fn with_updates(self, more: Vec<Change>, mut diffs: Vec<Diff>) -> Self {
        diffs.sort();
        let changes = self.changes.into_iter().chain(more).collect();
        let Self { contested, held, .. } = self;
        Self { diffs, contested, held, ..Self::new(self.cluster, self.gaps, self.owners, changes) }
    }

    /// What goes: deletions in their own right and by cascade.
    pub fn deletions(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| matches!(change.action, Action::Delete | Action::Recreate))
    }

    /// What is deleted in its own right; the cascade follows by itself.
    pub fn roots(&self) -> impl Iterator<Item = &Change> {
        self.deletions().filter(|change| change.cause.is_none())
    }

    /// Whether this plan does the same to the same object, by identity and uid.
    pub fn lists(&self, change: &Change) -> bool {
        self.changes.iter().any(|own| {
            own.action == change.action && own.object.id == change.object.id && own.object.uid == change.object.uid
        })
    }
}
