//! Result of the execution of a plan.

use super::document::PinnedObject;

/// Result of one deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeletionResult {
    /// The object was deleted and is gone.
    Deleted,
    /// The API server accepted the deletion; these finalizers keep the object.
    Terminating(Vec<String>),
    /// The object did not exist any more.
    Gone,
    /// The object does not qualify any more, so no request was sent; the reason.
    Changed(String),
    /// The API server refused or did not answer.
    Failed(String),
    /// The run was interrupted before.
    NotTried,
}

/// Object and result of one deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepResult {
    pub object: PinnedObject,
    pub step: DeletionResult,
}

/// Result of a prune.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PruneResult {
    /// Results in the order of deletion.
    pub steps: Vec<StepResult>,
    /// True if Ctrl-C ended the run early.
    pub interrupted: bool,
}

impl PruneResult {
    /// Returns true if every object is gone.
    pub fn is_complete(&self) -> bool {
        self.steps.iter().all(|row| matches!(row.step, DeletionResult::Deleted | DeletionResult::Gone))
    }

    /// Returns the number of objects that this run deleted and that are gone.
    pub fn deleted(&self) -> usize {
        self.steps.iter().filter(|row| row.step == DeletionResult::Deleted).count()
    }
}
