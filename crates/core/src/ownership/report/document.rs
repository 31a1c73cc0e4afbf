//! The serialised form of the answers, `kubectl-gitops/inventory/v1`.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::labels::LabelReport;
use super::{explain, tree};
use crate::kubernetes::gap::Gap;
use crate::kubernetes::object::ObjectId;
use crate::kubernetes::snapshot::ClusterIdentity;
use crate::ownership::readiness::Readiness;
use crate::ownership::{OwnerId, OwnerStatus, Protection, Strength};

/// Schema name of the serialised form.
pub const SCHEMA: &str = "kubectl-gitops/inventory/v1";

/// One answer of `inventory`. Fields may be added; none changes its meaning.
#[derive(Clone, Debug, Serialize)]
pub struct InventoryDocument {
    /// Always [`SCHEMA`].
    pub schema: &'static str,
    /// Which cluster.
    pub cluster: ClusterIdentity,
    /// When it was read.
    pub taken: DateTime<Utc>,
    /// Whether everything could be read.
    pub complete: bool,
    /// What could not be read.
    pub gaps: Vec<Gap>,
    /// All objects by standing.
    pub totals: Totals,
    /// To what the reading was narrowed, where the answer needs no more; the totals are of what was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub narrowed: Option<String>,
    /// What was asked to be hidden of the answer; the totals and an owner's counts are of everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<Filtered>,
    /// The answer.
    #[serde(flatten)]
    pub body: Body,
    /// What the marks of the system asked for say, where it keeps no record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub census: Option<LabelReport>,
}

/// Kinds and labels that narrowed what is shown, and by how much.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Filtered {
    /// Kinds, as `deployment.apps`; empty for all.
    pub kinds: Vec<String>,
    /// Label selector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Rows that are shown: owners in a list of owners, otherwise objects.
    pub shown: usize,
    /// Rows that would be shown without the filter.
    pub hidden: usize,
}

/// The part of an answer that depends on the question; serialised under its name.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Body {
    /// Owners with counts.
    Owners(Vec<OwnerSummary>),
    /// Owners with their objects.
    Objects(Vec<OwnerObjects>),
    /// Objects of one standing.
    Findings(Vec<Finding>),
    /// Owners, their objects and what these made, nested.
    Tree(Vec<tree::TreeNode>),
    /// One object explained.
    Why(Box<explain::Why>),
}

/// How many objects there are of each standing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// All that were read.
    pub objects: usize,
    /// Managed by one owner.
    pub managed: usize,
    /// Leaked, on the word of an owner that can be trusted now.
    pub leaked: usize,
    /// With the claim of an owner that does not exist.
    pub orphaned: usize,
    /// Claimed by several owners.
    pub conflicts: usize,
    /// With copied marks.
    pub copied: usize,
    /// Not decidable now.
    pub unjudged: usize,
    /// Made by another object.
    pub controlled: usize,
    /// The cluster's own.
    pub cluster_own: usize,
    /// Of no one.
    pub unmanaged: usize,
}

/// How an owner knows its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordKind {
    /// It lists them.
    Listed,
    /// It lists them, in another cluster: not checked.
    Remote,
    /// It selects them by mark.
    Selected,
    /// It has no record.
    Unrecorded,
    /// Its record cannot be parsed.
    Unreadable,
}

/// One owner with counts.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerSummary {
    /// Identity.
    #[serde(flatten)]
    pub owner: OwnerId,
    /// Whether its record can be trusted now.
    #[serde(flatten)]
    pub state: OwnerStatus,
    /// How it knows its members.
    pub record: RecordKind,
    /// Whether it lives in the hub cluster that was asked for owners, not in this one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub in_hub: bool,
    /// Why its record cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// What it applied last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Members.
    pub objects: usize,
    /// Members that the filter lets through, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matching: Option<usize>,
    /// Members known to be ready.
    pub ready: usize,
    /// Members whose content was not read, so that nobody knows.
    pub unread: usize,
    /// Members that do not exist.
    pub missing: usize,
    /// Members being deleted.
    pub terminating: usize,
    /// Objects with its claim that it does not list.
    pub leaked: usize,
    /// Objects with its claim that cannot be judged now.
    pub unjudged: usize,
}

/// One owner with its objects.
#[derive(Clone, Debug, Serialize)]
pub struct OwnerObjects {
    /// The owner and its counts.
    pub owner: OwnerSummary,
    /// Its objects, in order.
    pub objects: Vec<MemberView>,
}

/// Deletion in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Terminating {
    /// Since when.
    pub since: DateTime<Utc>,
    /// Who holds it.
    pub finalizers: Vec<String>,
}

/// One object of an owner.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberView {
    /// Identity.
    #[serde(flatten)]
    pub object: ObjectId,
    /// Whether it exists; `None` where that was not or could not be checked.
    pub exists: Option<bool>,
    /// Whether the owner recorded it; otherwise its marks alone say that it is the owner's.
    pub recorded: bool,
    /// Uid of the live object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Creation time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<DateTime<Utc>>,
    /// Readiness, where its content was read.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Readiness>,
    /// Deletion in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<Terminating>,
    /// Marks that protect it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keep: Vec<Protection>,
    /// Other owners that recorded or claim it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also_claimed_by: Vec<OwnerId>,
    /// Whether the owner itself says it will prune it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub prunable: bool,
}

/// One object that answers a question.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Identity.
    #[serde(flatten)]
    pub object: ObjectId,
    /// Uid.
    pub uid: String,
    /// Creation time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<DateTime<Utc>>,
    /// What it is.
    pub standing: &'static str,
    /// Owners that recorded or claim it.
    pub owners: Vec<OwnerId>,
    /// How much its claim proves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strength: Option<Strength>,
    /// The mark and its witness.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
    /// Why it cannot be judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// No owner of the kind is in this cluster: it may live in a hub.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub owner_may_live_elsewhere: bool,
    /// Marks that protect it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keep: Vec<Protection>,
    /// Deletion in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<Terminating>,
}
