//! Objects that answer a question about standing.

use super::Views;
use super::document::Finding;
use super::members::terminating;
use crate::kubernetes::object::ObjectMetadata;
use crate::ownership::{Claim, OwnerId, OwnershipStatus, protection};

/// A question about standing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Leaked, on the word of an owner that can be trusted now.
    Leaked,
    /// Orphaned.
    Orphaned,
    /// Claimed by several owners.
    Conflicts,
    /// Of no one.
    Unmanaged,
    /// With copied marks.
    Copied,
    /// Not decidable now: what looks leaked but whose owner cannot be trusted, and what claims unreadable owners.
    Unjudged,
}

impl<'a> Views<'_, 'a> {
    /// The objects that answer a question and that the caller wants, in order. The caller sees the owners of each.
    pub fn findings(&self, question: Question, wanted: impl Fn(&ObjectMetadata, &[OwnerId]) -> bool) -> Vec<Finding> {
        let found = self.standings().filter_map(|(object, standing)| self.finding(question, object, standing));
        found.filter(|(object, finding)| wanted(object, &finding.owners)).map(|(_, finding)| finding).collect()
    }

    fn finding(
        &self,
        question: Question,
        object: &'a ObjectMetadata,
        standing: &OwnershipStatus,
    ) -> Option<(&'a ObjectMetadata, Finding)> {
        let distrust = |claim: &Claim| self.index.distrust(object, claim);
        let (owners, claim, why) = match (question, standing) {
            (Question::Leaked, OwnershipStatus::Leaked(claim)) if distrust(claim).is_none() => {
                (vec![], Some(claim), None)
            }
            (Question::Unjudged, OwnershipStatus::Leaked(claim)) => (vec![], Some(claim), Some(distrust(claim)?)),
            (Question::Unjudged, OwnershipStatus::Unjudged(claim, why)) => (vec![], Some(claim), Some(why.clone())),
            (Question::Orphaned, OwnershipStatus::Orphaned(claim))
            | (Question::Copied, OwnershipStatus::Copied(claim)) => (vec![], Some(claim), None),
            (Question::Conflicts, OwnershipStatus::Conflict(owners)) => (owners.clone(), None, None),
            (Question::Unmanaged, OwnershipStatus::Unmanaged) => (vec![], None, None),
            _ => return None,
        };
        let elsewhere = matches!(standing, OwnershipStatus::Orphaned(claim) if self.index.may_live_elsewhere(claim));
        let finding = Finding {
            object: object.id.clone(),
            uid: object.uid.to_string(),
            created: object.created,
            standing: standing.label(),
            owners: owners.into_iter().chain(claim.map(|claim| claim.owner.clone())).collect(),
            strength: claim.map(|claim| claim.strength),
            evidence: claim.map(|claim| claim.evidence.clone()),
            why,
            owner_may_live_elsewhere: elsewhere,
            keep: protection::keep_marks(object),
            terminating: terminating(object),
        };
        Some((object, finding))
    }
}
