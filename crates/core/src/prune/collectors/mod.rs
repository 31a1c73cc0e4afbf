//! Garbage collection by marks: qbec, Flux v1 and ApplySets mark what they apply, and call garbage what carries their
//! mark and stands in no manifest any more.
//!
//! Each collector is replayed twice over the same objects: what it would do itself ([`NativeAction`]), and what this tool
//! does under its own safety rules (design 3.4, [`PlannedAction`]). Where the two differ, the [`CollectorReason`] says why.
//!
//! Source of every rule: reference qbec-and-flux-v1, and ownership-and-prune 1.3 for ApplySets.

pub mod applyset;
pub mod flux_v1;
pub mod glob;
pub mod manifest;
pub mod qbec;
pub mod request;
pub mod rows;
pub mod safety;
pub mod type_aliases;

use crate::kubernetes::object::ObjectMetadata;
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::{OwnerId, Protection};
use crate::plan::{Reason, ReasonCode};

/// What a system's own collector does with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NativeAction {
    /// It deletes the object.
    Deletes,
    /// It looks at the object and keeps it.
    Keeps,
    /// The object is garbage by its marks, but the collector never looks where it is.
    Misses,
}

/// What this tool does with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlannedAction {
    /// Deletes it.
    Delete(CollectorReason),
    /// Keeps it.
    Keep(CollectorReason),
}

/// Why an object goes or stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CollectorReason {
    /// It carries the mark and stands in no manifest.
    NotInManifests,
    /// An earlier object of a manifest with `generateName`.
    Superseded,
    /// Garbage that its own collector never finds; the text says why.
    LeftBehind(String),
    /// The newest object of a manifest with `generateName`: the one that is in use.
    NewestGeneration,
    /// The manifests hold it, although its own collector overlooks that; the text says why.
    Desired(&'static str),
    /// It has a controller (or, where the system says so, any owner) reference: never anyone's garbage.
    Controlled,
    /// It has an owner reference, which its own collector does not look at.
    Referenced,
    /// A person protected it.
    Protected(Protection),
    /// The mark names another object: it was copied.
    CopiedMark(String),
    /// Only a label says so, and no second witness.
    BareMark(String),
    /// A live owner recorded it.
    Recorded(OwnerId),
    /// Already being deleted.
    Terminating,
    /// A namespace that the cluster needs.
    SystemNamespace,
    /// Objects of this kind are deleted only where that is permitted: `namespaces` or `crds`.
    NotAllowed(&'static str),
    /// Endpoints follow their Service; no collector lists them.
    Endpoints,
}

impl CollectorReason {
    /// Code of the reason in a plan.
    pub fn code(&self) -> ReasonCode {
        match self {
            Self::NotInManifests => ReasonCode::NotInManifests,
            Self::Superseded => ReasonCode::Superseded,
            Self::LeftBehind(_) => ReasonCode::LeftBehind,
            Self::NewestGeneration => ReasonCode::NewestGeneration,
            Self::Desired(_) => ReasonCode::Desired,
            Self::Controlled | Self::Referenced => ReasonCode::Referenced,
            Self::Protected(_) => ReasonCode::Protected,
            Self::CopiedMark(_) => ReasonCode::CopiedClaim,
            Self::BareMark(_) => ReasonCode::BareClaim,
            Self::Recorded(_) => ReasonCode::Recorded,
            Self::Terminating => ReasonCode::Terminating,
            Self::SystemNamespace => ReasonCode::ProtectedNamespace,
            Self::NotAllowed(_) => ReasonCode::NotAllowed,
            Self::Endpoints => ReasonCode::Endpoints,
        }
    }

    /// What stands behind the name, for people; empty where the name says all. Holds text written by others.
    pub fn detail(&self) -> String {
        match self {
            Self::LeftBehind(text) | Self::CopiedMark(text) | Self::BareMark(text) => text.clone(),
            Self::Protected(mark) => format!("{}={}", mark.key, mark.value),
            Self::Recorded(owner) => format!("{owner} lists it"),
            Self::NotAllowed(text) | Self::Desired(text) => (*text).to_owned(),
            Self::NewestGeneration => "the newest object of its generateName; the next apply replaces it".to_owned(),
            Self::Referenced => "something else in the cluster owns it".to_owned(),
            _ => String::new(),
        }
    }

    /// Whether an object kept for this reason looks prunable, so that a plan must say why it stays. What a controller
    /// made and what follows its Service was never anyone's garbage.
    pub fn worth_telling(&self) -> bool {
        !matches!(self, Self::Controlled | Self::Endpoints)
    }
}

impl From<&CollectorReason> for Reason {
    fn from(reason: &CollectorReason) -> Self {
        Self::new(reason.code(), reason.detail())
    }
}

/// One live object of the scope that stands in no manifest, and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision<'a> {
    /// The object.
    pub object: &'a ObjectMetadata,
    /// What its own collector does.
    pub theirs: NativeAction,
    /// What this tool does.
    pub ours: PlannedAction,
}

impl Decision<'_> {
    /// Whether this tool deletes the object.
    pub fn deletes(&self) -> bool {
        matches!(self.ours, PlannedAction::Delete(_))
    }

    /// Why.
    pub fn reason(&self) -> &CollectorReason {
        let (PlannedAction::Delete(reason) | PlannedAction::Keep(reason)) = &self.ours;
        reason
    }
}

/// A collector of one set of objects in one snapshot.
pub trait Collector<'a> {
    /// Whether an object carries the marks of the set.
    fn is_member(&self, object: &ObjectMetadata) -> bool;

    /// What becomes of one object; `None` when it is no member, stands in a manifest, or is filtered out. The same
    /// judgement is made for a plan and again right before a deletion.
    fn judge<'o>(&self, object: &'o ObjectMetadata) -> Option<Decision<'o>>;

    /// All verdicts, in the order in which the system deletes.
    fn collect(&self) -> Collected<'a>;

    /// Whether two neighbours in that order may go side by side.
    fn same_wave(&self, left: &ObjectMetadata, right: &ObjectMetadata) -> bool;
}

/// The answer of a collector: verdicts in the order in which the system deletes, and what a person should know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected<'a> {
    /// One per live object of the scope that stands in no manifest; deletions in the system's order.
    pub verdicts: Vec<Decision<'a>>,
    /// How many objects of the set stay because the manifests hold them: what the share of a deletion is measured by.
    pub staying: usize,
    /// Warnings; they may hold text written by others.
    pub warnings: Vec<String>,
}

impl<'a> Collected<'a> {
    /// What this tool deletes, in the system's order.
    pub fn deletions(&self) -> impl Iterator<Item = &'a ObjectMetadata> {
        self.verdicts.iter().filter(|verdict| verdict.deletes()).map(|verdict| verdict.object)
    }
}

/// How many objects of a set no verdict speaks of.
fn staying<'a>(collector: &impl Collector<'a>, snapshot: &Snapshot) -> usize {
    let stays = |object: &&ObjectMetadata| collector.is_member(object) && collector.judge(object).is_none();
    snapshot.objects.iter().filter(stays).count()
}
