//! Serialised form of the answers, `kubectl-gitops/inventory/v1`.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::ignored::{IgnoreList, Ignored};
use super::{explain, tree};
use crate::kubernetes::gap::AnswerGap;
use crate::kubernetes::object::ObjectId;
use crate::kubernetes::snapshot::ClusterIdentity;
use crate::ownership::readiness::Readiness;
use crate::ownership::scheme::SourceReference;
use crate::ownership::scheme::claim::{ClaimEvidence, OwnerId, Strength};
use crate::ownership::scheme::label_report::LabelReport;
use crate::ownership::scheme::owner_status::OwnerStatus;
use crate::ownership::scheme::protection::Protection;

/// Schema name of the serialised form.
pub const SCHEMA: &str = "kubectl-gitops/inventory/v1";

/// Answer of `inventory`. Later versions may add fields; no field changes its meaning.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct InventoryDocument {
    pub schema: &'static str,
    /// Identity of the cluster; absent if the answer is about several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterIdentity>,
    /// Clusters of the answer, if it is about several, in the order of the request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contexts: Vec<ContextSummary>,
    /// Time at which reading began.
    pub taken: DateTime<Utc>,
    /// True if everything that can change the answer could be read.
    pub complete: bool,
    pub gaps: Vec<AnswerGap>,
    /// All objects that were read, by status.
    pub totals: Totals,
    /// Part of the cluster that was read, where the answer needs no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Filter that hides a part of the answer. It does not affect the totals and the counts of an owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<Filtered>,
    /// Findings that `--ignore` removed. They are still in the totals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignored: Option<Ignored>,
    /// Rows of the answer.
    #[serde(flatten)]
    pub body: Body,
    /// Report on the labels of the chosen system, if it keeps no inventory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<std::collections::BTreeMap<String, serde_json::Value>>"))]
    pub label_report: Option<LabelReport>,
    /// Leaked, orphaned and contested objects beside an answer about owners, for a page that shows both.
    #[serde(skip)]
    pub beside: Vec<Finding>,
}

impl InventoryDocument {
    /// Removes the findings that a list accepts from an answer about one status. Other answers stay as they are.
    pub fn remove_ignored(&mut self, list: &IgnoreList, status: &str) {
        let Body::Findings(findings) = &mut self.body else { return };
        let (before, mut accepted) = (findings.len(), list.entries_for(status));
        findings.retain(|finding| !accepted.accept(&finding.object));
        self.ignored = Some(accepted.into_ignored(before - findings.len()));
    }
}

/// Filter by kind and label, and the number of rows that it hides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Filtered {
    /// Kinds, as `deployment.apps`; empty for all.
    pub kinds: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Number of shown rows: owners in a list of owners, otherwise objects.
    pub shown: usize,
    /// Number of rows that only the filter hides.
    pub hidden: usize,
}

/// One of several clusters. The rest is absent if the cluster could not be read, or another context names it too.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ContextSummary {
    /// Name of the context in the kubeconfig.
    pub context: String,
    /// Another context of the same cluster. Its answer is the one that counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_cluster_as: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterIdentity>,
    /// All objects that were read, by status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub totals: Option<Totals>,
    /// Part of the cluster that was read, where the answer needs no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Report on the labels of the chosen system, if it keeps no inventory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<std::collections::BTreeMap<String, serde_json::Value>>"))]
    pub label_report: Option<LabelReport>,
}

/// Rows of an answer, serialised under the name of their kind.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Body {
    Owners(Vec<OwnerSummary>),
    /// Owners with their objects.
    Objects(Vec<OwnerObjects>),
    /// Objects of one status.
    Findings(Vec<Finding>),
    /// Owners, their objects and dependents, nested.
    Tree(Vec<tree::TreeNode>),
    Explanation(Box<explain::Explanation>),
}

/// Number of objects by status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// All objects that were read.
    pub objects: usize,
    /// Managed by one owner.
    pub managed: usize,
    /// Leaked, according to an owner that can be trusted now.
    pub leaked: usize,
    /// With the claim of an owner that does not exist.
    pub orphaned: usize,
    /// Claimed by several owners.
    pub conflicts: usize,
    /// With labels or annotations that were copied from another object.
    pub copied: usize,
    /// With an owner that could not be read or cannot be trusted now.
    pub unknown: usize,
    /// Controlled by another object.
    pub controlled: usize,
    /// Created by Kubernetes itself, or records of an ownership system.
    pub system: usize,
    /// Without claim, controller and rule.
    pub unmanaged: usize,
}

/// Form of an owner's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RecordKind {
    /// It lists its members.
    Listed,
    /// It lists members in another cluster, which are not checked.
    Remote,
    /// It selects its members by label.
    Selected,
    /// It has no record.
    Unrecorded,
    /// Its record cannot be parsed.
    Unreadable,
}

/// One owner with counts.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct OwnerSummary {
    /// Context of the cluster, if the answer is about several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    #[serde(flatten)]
    pub owner: OwnerId,
    /// Current status; only the record of a ready owner can be trusted.
    #[serde(flatten)]
    pub status: OwnerStatus,
    /// Form of its record.
    pub record: RecordKind,
    /// True if it is in the hub cluster.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub in_hub: bool,
    /// Reason why its record cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// Revision that it applied last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Time at which it last finished a reconciliation, where it records that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_reconciled: Option<DateTime<Utc>>,
    /// Source of its manifests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceReference>,
    pub objects: usize,
    /// Number of members that the filter shows, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matching: Option<usize>,
    /// Number of members known to be ready.
    pub ready: usize,
    /// Number of members whose content was not read, so that their readiness is unknown.
    pub unread: usize,
    /// Number of members that do not exist.
    pub missing: usize,
    /// Number of members being deleted.
    pub terminating: usize,
    /// Number of objects with its claim that it does not list.
    pub leaked: usize,
    /// Number of objects with its claim whose status is unknown.
    pub unknown: usize,
}

/// One owner with its objects.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OwnerObjects {
    /// The owner and its counts.
    pub owner: OwnerSummary,
    /// Its objects, in order.
    pub objects: Vec<MemberView>,
    /// Objects with its claim that it does not list: leaked ones, and those of which that is not certain.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unlisted: Vec<Finding>,
}

/// A deletion that finalizers delay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Terminating {
    pub since: DateTime<Utc>,
    /// Finalizers on the object.
    pub finalizers: Vec<String>,
}

/// One object of an owner.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct MemberView {
    #[serde(flatten)]
    pub object: ObjectId,
    /// True if it exists; `None` where that was not or could not be checked.
    pub exists: Option<bool>,
    /// True if the owner recorded it; otherwise only its labels and annotations name the owner.
    pub recorded: bool,
    /// Uid of the live object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<DateTime<Utc>>,
    /// Readiness, where its content was read.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Readiness>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<Terminating>,
    /// Labels and annotations that protect it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub protections: Vec<Protection>,
    /// Other owners that recorded or claim it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also_claimed_by: Vec<OwnerId>,
    /// True if the owner itself announces to prune it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub prunable: bool,
}

/// One object with the status in question.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Context of the cluster, if the answer is about several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    #[serde(flatten)]
    pub object: ObjectId,
    pub uid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<DateTime<Utc>>,
    /// Field manager that created it, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// Status, such as `leaked`.
    pub status: &'static str,
    /// Owners that recorded or claim it.
    pub owners: Vec<OwnerId>,
    /// Strength of its claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strength: Option<Strength>,
    /// Labels and annotations behind its claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub evidence: Option<ClaimEvidence>,
    /// Reason why its status is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// True if no owner of the kind is in this cluster, so that the owner may be in a hub.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub owner_may_live_elsewhere: bool,
    /// Labels and annotations that protect it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub protections: Vec<Protection>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<Terminating>,
}
