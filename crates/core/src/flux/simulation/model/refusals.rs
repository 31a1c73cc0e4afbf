//! Answers of the API server to dry-runs.

use std::sync::Arc;

use crate::flux::spec::NamespacedName;
use crate::kubernetes::object::ObjectId;
use crate::kubernetes::question::OwnerQuestion;

/// A refusal of the server to apply an object of a Kustomization.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// Kustomization that applies the object.
    pub owner: NamespacedName,
    /// Identity of the object.
    pub id: ObjectId,
    /// Manifest that is refused.
    pub manifest: Arc<serde_json::Value>,
    /// Message of the server.
    pub message: String,
}

/// A refusal of the server to delete an object for a Kustomization.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeletionRefusal {
    /// Kustomization that deletes the object.
    pub owner: NamespacedName,
    /// Identity of the object.
    pub id: ObjectId,
    /// Message of the server.
    pub message: String,
}

/// Answer of the API server to a dry-run: accepted, or the message of a refusal.
pub type OwnerAnswer = Result<(), String>;

/// Answers of the API server about changes of HelmReleases and ResourceSets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OwnerDryRuns(Vec<(OwnerQuestion, OwnerAnswer)>);

impl OwnerDryRuns {
    /// Adds an answer. A question without one stays open.
    pub fn add(&mut self, question: OwnerQuestion, answer: OwnerAnswer) {
        self.0.push((question, answer));
    }

    pub(crate) fn answer(&self, question: &OwnerQuestion) -> Option<&OwnerAnswer> {
        self.0.iter().find(|(asked, _)| asked == question).map(|(_, answer)| answer)
    }
}
