//! A garbage collector that works by label: the decision on each object, and its reason. Each system implements it.

pub mod manifest;
pub mod safety;
pub(crate) mod served_kinds;

use std::cmp::Ordering;

use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::{OwnerId, Protection};
use crate::plan::grave::GraveKind;
use crate::plan::{Plan, Reason, ReasonCode};

/// Plan of a request for one snapshot.
#[derive(Clone, Debug)]
pub struct CollectorPlan {
    pub plan: Plan,
    /// Deletions in the system's order. Those of one wave may be deleted at the same time.
    pub waves: Vec<Vec<ObjectId>>,
    /// Number of objects of the set that the manifests contain.
    pub retained: usize,
    /// Description of a changed source of fluxd. The plan then shows what fluxd will do; this tool deletes nothing.
    pub source_change: Option<String>,
    /// Warnings, which hold text written by others.
    pub warnings: Vec<String>,
}

impl From<Plan> for CollectorPlan {
    fn from(plan: Plan) -> Self {
        Self { plan, waves: vec![], retained: 0, source_change: None, warnings: vec![] }
    }
}

/// Action of a system's own collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NativeAction {
    Deletes,
    Keeps,
    /// The collector would delete the object, but never lists it.
    Misses,
}

/// Action of this tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlannedAction {
    Delete(CollectorReason),
    Keep(CollectorReason),
}

/// Reason to delete or to keep an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CollectorReason {
    /// It carries the label and is in no manifest.
    NotInManifests,
    /// A manifest with `generateName` created a newer object.
    Superseded,
    /// The system's own collector never lists it; with the cause.
    LeftBehind(String),
    /// It is the newest object of a manifest with `generateName`, so it is in use.
    NewestGeneration,
    /// A manifest contains it, but the system's own collector overlooks the manifest; with the cause.
    Desired(&'static str),
    /// It has a controller reference (for Flux v1, any owner reference), so it belongs to that object.
    Controlled,
    /// It has an owner reference, which the system's own collector does not check.
    Referenced,
    /// A protection keeps it.
    Protected(Protection),
    /// Its label was copied from another object.
    CopiedClaim(String),
    /// Only a label claims it; nothing else confirms the label.
    BareClaim(String),
    /// It is in the inventory of a live owner.
    Recorded(OwnerId),
    /// It is being deleted already.
    Terminating,
    /// It is a namespace that the cluster needs.
    SystemNamespace,
    /// Objects of this kind are deleted only where that is permitted.
    NotAllowed(GraveKind),
    /// Endpoints follow their Service; no collector lists them.
    Endpoints,
}

impl CollectorReason {
    pub fn code(&self) -> ReasonCode {
        match self {
            Self::NotInManifests => ReasonCode::NotInManifests,
            Self::Superseded => ReasonCode::Superseded,
            Self::LeftBehind(_) => ReasonCode::LeftBehind,
            Self::NewestGeneration => ReasonCode::NewestGeneration,
            Self::Desired(_) => ReasonCode::Desired,
            Self::Controlled | Self::Referenced => ReasonCode::Referenced,
            Self::Protected(_) => ReasonCode::Protected,
            Self::CopiedClaim(_) => ReasonCode::CopiedClaim,
            Self::BareClaim(_) => ReasonCode::BareClaim,
            Self::Recorded(_) => ReasonCode::Recorded,
            Self::Terminating => ReasonCode::Terminating,
            Self::SystemNamespace => ReasonCode::ProtectedNamespace,
            Self::NotAllowed(_) => ReasonCode::NotAllowed,
            Self::Endpoints => ReasonCode::Endpoints,
        }
    }

    /// Returns the detail of the reason, or empty text. It holds text written by others.
    fn detail(&self) -> String {
        match self {
            Self::LeftBehind(text) | Self::CopiedClaim(text) | Self::BareClaim(text) => text.clone(),
            Self::Protected(mark) => format!("{}={}", mark.key, mark.value),
            Self::Recorded(owner) => format!("{owner} lists it"),
            Self::NotAllowed(kind) => kind.name().to_owned(),
            Self::Desired(text) => (*text).to_owned(),
            Self::NewestGeneration => "the newest object of its generateName; the next apply replaces it".to_owned(),
            Self::Referenced => "another object in the cluster owns it".to_owned(),
            _ => String::new(),
        }
    }

    /// Returns true if a plan lists an object that is kept for this reason: it looks as if it could be pruned. Objects of
    /// a controller, and Endpoints, do not.
    pub(crate) fn is_listed(&self) -> bool {
        !matches!(self, Self::Controlled | Self::Endpoints)
    }
}

impl From<&CollectorReason> for Reason {
    fn from(reason: &CollectorReason) -> Self {
        Self::new(reason.code(), reason.detail())
    }
}

/// Answer for one labelled object that is in no manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision<'a> {
    pub object: &'a ObjectMetadata,
    pub native: NativeAction,
    pub planned: PlannedAction,
}

impl Decision<'_> {
    /// Returns true if this tool deletes the object.
    pub fn is_deletion(&self) -> bool {
        matches!(self.planned, PlannedAction::Delete(_))
    }

    /// Returns the reason of this tool's action.
    pub fn reason(&self) -> &CollectorReason {
        let (PlannedAction::Delete(reason) | PlannedAction::Keep(reason)) = &self.planned;
        reason
    }
}

/// Replay of one system's garbage collector for one set of labelled objects in one snapshot.
///
/// An implementation has the system's rules: the label, the decision for one object, and the order of deletion. The
/// plan, and the second check right before a deletion, use the same [`Collector::decide`].
pub trait Collector<'a> {
    /// Returns the snapshot that is compared with the manifests.
    fn snapshot(&self) -> &'a Snapshot;

    /// Returns true if an object carries the label of the set.
    fn is_member(&self, object: &ObjectMetadata) -> bool;

    /// Decides on one object. Returns `None` if it is no member, is in a manifest, or is excluded by a filter.
    fn decide<'o>(&self, object: &'o ObjectMetadata) -> Option<Decision<'o>>;

    /// Compares decisions in the system's order of deletion.
    fn deletion_order(&self, left: &Decision<'_>, right: &Decision<'_>) -> Ordering;

    /// Returns true if two neighbours in the order of deletion may be deleted at the same time.
    fn same_wave(&self, left: &ObjectMetadata, right: &ObjectMetadata) -> bool;

    /// Changes sorted decisions that depend on each other.
    fn adjust(&self, _decisions: &mut [Decision<'_>]) {}

    /// Returns warnings about the set. They hold text written by others.
    fn warnings(&self, _decisions: &[Decision<'_>]) -> Vec<String> {
        vec![]
    }

    /// Decides on all objects of the snapshot.
    fn collect(&self) -> Collected<'a> {
        let objects = &self.snapshot().objects;
        let mut decisions: Vec<Decision<'a>> = objects.iter().filter_map(|object| self.decide(object)).collect();
        decisions.sort_by(|left, right| self.deletion_order(left, right));
        self.adjust(&mut decisions);
        let retained = objects.iter().filter(|object| self.is_member(object) && self.decide(object).is_none());
        Collected { retained: retained.count(), warnings: self.warnings(&decisions), decisions }
    }
}

/// Result of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected<'a> {
    /// Decisions in the system's order of deletion.
    pub decisions: Vec<Decision<'a>>,
    /// Number of objects of the set that the manifests contain. The limits measure deletions by it.
    pub retained: usize,
    /// Warnings, which hold text written by others.
    pub warnings: Vec<String>,
}

impl<'a> Collected<'a> {
    /// Iterates over the objects that this tool deletes, in the system's order.
    pub fn deletions(&self) -> impl Iterator<Item = &'a ObjectMetadata> {
        self.decisions.iter().filter(|decision| decision.is_deletion()).map(|decision| decision.object)
    }
}
