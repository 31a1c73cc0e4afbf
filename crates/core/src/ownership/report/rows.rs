//! Rows of answers: owners with counts, their objects, and objects with one status.

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::kubernetes::object::{ObjectId, ObjectMetadata};
use crate::ownership::readiness::Readiness;
use crate::ownership::scheme::SourceReference;
use crate::ownership::scheme::claim::{ClaimEvidence, OwnerId, Strength};
use crate::ownership::scheme::owner_status::OwnerStatus;
use crate::ownership::scheme::protection::Protection;

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

impl Terminating {
    /// Returns the deletion in progress of an object.
    pub(crate) fn of(object: &ObjectMetadata) -> Option<Self> {
        let finalizers = object.finalizers.iter().map(ToString::to_string).collect();
        Some(Self { since: object.deletion_timestamp?, finalizers })
    }
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
