//! Results of the deletions of a plan that was executed.

use super::PinnedObject;

/// Result of one deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeletionResult {
    /// The object was deleted and is gone.
    Deleted,
    /// The deletion was accepted, and these finalizers keep the object terminating.
    Terminating(Vec<String>),
    /// The object did not exist any more.
    Gone,
    /// The object no longer qualifies, for this reason; nothing was sent.
    Skipped(String),
    /// The server refused or did not answer.
    Failed(String),
    /// The run was interrupted before.
    NotTried,
}

/// One object with the result of its deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepResult {
    pub object: PinnedObject,
    /// Result of its deletion.
    pub step: DeletionResult,
}

/// Results of an execution, in the order of the deletions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PruneResult {
    /// One row per object that was to be deleted in its own right.
    pub steps: Vec<StepResult>,
    /// Set if an interrupt ended the execution early.
    pub interrupted: bool,
}

impl PruneResult {
    /// Returns true if every object is gone.
    pub fn is_complete(&self) -> bool {
        self.steps.iter().all(|row| matches!(row.step, DeletionResult::Deleted | DeletionResult::Gone))
    }

    /// Number of objects that this run deleted and that are gone.
    pub fn deleted(&self) -> usize {
        self.steps.iter().filter(|row| row.step == DeletionResult::Deleted).count()
    }
}
