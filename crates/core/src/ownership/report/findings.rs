//! Objects with one status.

use super::InventoryReport;
use super::rows::{Finding, Terminating};
use crate::kubernetes::object::ObjectMetadata;
use crate::ownership::classify::OwnershipStatus;
use crate::ownership::rules::protection::find_protections;
use crate::ownership::scheme::claim::OwnerId;

/// Status that a list of objects is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Leaked, according to an owner that can be trusted now.
    Leaked,
    /// With the claim of an owner that does not exist.
    Orphaned,
    /// Claimed by several owners.
    Conflicts,
    /// Without claim, controller and rule.
    Unmanaged,
    /// With copied labels or annotations.
    Copied,
    /// With an owner that could not be read, or leaked according to an owner that cannot be trusted now.
    Unknown,
}

impl Question {
    /// Returns the status of the objects, as in [`Finding::status`].
    pub fn status(self) -> &'static str {
        match self {
            Self::Leaked => "leaked",
            Self::Orphaned => "orphaned",
            Self::Conflicts => "conflict",
            Self::Unmanaged => "unmanaged",
            Self::Copied => "copied",
            Self::Unknown => "unknown",
        }
    }
}

impl<'a> InventoryReport<'_, 'a> {
    /// Returns the objects that answer a question and that the caller selects by object and owners, in order.
    pub fn findings(
        &self,
        question: Question,
        is_selected: impl Fn(&ObjectMetadata, &[OwnerId]) -> bool,
    ) -> Vec<Finding> {
        let mut findings = vec![];
        for (object, status) in self.statuses() {
            if let Some(finding) = self.finding(question, object, status)
                && is_selected(object, &finding.owners)
            {
                findings.push(finding);
            }
        }
        findings
    }

    fn finding(&self, question: Question, object: &'a ObjectMetadata, status: &OwnershipStatus) -> Option<Finding> {
        let untrusted = match status {
            OwnershipStatus::Leaked(claim) => self.index.untrusted_reason(object, claim),
            _ => None,
        };
        let (claim, reason) = match (question, status) {
            (Question::Leaked, OwnershipStatus::Leaked(claim)) if untrusted.is_none() => (Some(claim), None),
            (Question::Unknown, OwnershipStatus::Leaked(claim)) => (Some(claim), Some(untrusted?)),
            (Question::Unknown, OwnershipStatus::Unknown(claim, reason)) => (Some(claim), Some(reason.clone())),
            (Question::Orphaned, OwnershipStatus::Orphaned(claim))
            | (Question::Copied, OwnershipStatus::Copied(claim)) => (Some(claim), None),
            (Question::Conflicts, OwnershipStatus::Conflict(_)) | (Question::Unmanaged, OwnershipStatus::Unmanaged) => {
                (None, None)
            }
            _ => return None,
        };
        let owners = match status {
            OwnershipStatus::Conflict(owners) => owners.clone(),
            _ => claim.map(|claim| claim.owner.clone()).into_iter().collect(),
        };
        Some(Finding {
            context: None,
            object: object.id.clone(),
            uid: object.uid.to_string(),
            created: object.creation_timestamp,
            created_by: object.created_by.as_deref().map(str::to_owned),
            status: status.as_str(),
            owners,
            strength: claim.map(|claim| claim.strength),
            evidence: claim.map(|claim| claim.evidence.clone()),
            reason,
            owner_may_live_elsewhere: matches!(status, OwnershipStatus::Orphaned(claim) if self.index.may_live_elsewhere(object, claim)),
            protections: find_protections(object),
            terminating: Terminating::of(object),
        })
    }
}
