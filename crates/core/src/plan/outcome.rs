//! Results of the deletions of a plan that was executed.

use super::{PinnedObject, Reason};

/// Result of one deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeletionResult {
    /// The object was deleted and is gone.
    Deleted,
    /// The deletion was accepted, and these finalizers keep the object terminating.
    Terminating(Vec<String>),
    /// The object did not exist any more.
    Gone,
    /// The object no longer qualifies, for this reason; nothing was deleted.
    Skipped(Reason),
    /// The server refused the deletion, or the object could not be read. The object was not deleted.
    Failed(String),
    /// A DELETE was sent, its answer was lost, and no later read shows whether it took effect.
    Unknown(String),
    /// The run was interrupted before.
    NotTried,
}

impl DeletionResult {
    /// Every code with its meaning, in the order of the documentation.
    pub const CODES: &'static [(&'static str, &'static str)] = &[
        ("deleted", "The object was deleted and is gone."),
        ("terminating", "The deletion was accepted, and finalizers keep the object."),
        ("gone", "The object did not exist any more."),
        ("skipped", "The object no longer qualifies; nothing was deleted."),
        ("failed", "The server refused the deletion, or the object could not be read; it was not deleted."),
        ("unknown", "The answer to the DELETE was lost, and no later read shows whether it took effect."),
        ("not-tried", "The run was interrupted before."),
    ];

    /// Returns the stable code of the result.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::Terminating(_) => "terminating",
            Self::Gone => "gone",
            Self::Skipped(_) => "skipped",
            Self::Failed(_) => "failed",
            Self::Unknown(_) => "unknown",
            Self::NotTried => "not-tried",
        }
    }

    /// Returns what the result says beside its code; empty where the code says everything.
    pub fn detail(&self) -> String {
        match self {
            Self::Deleted | Self::Gone | Self::NotTried => String::new(),
            Self::Terminating(held_by) => held_by.join(", "),
            Self::Skipped(reason) => reason.to_string(),
            Self::Failed(text) | Self::Unknown(text) => text.clone(),
        }
    }

    /// Returns true if the object is gone or will be: no other deletion has to spare it.
    pub fn is_deletion(&self) -> bool {
        matches!(self, Self::Deleted | Self::Terminating(_) | Self::Gone)
    }
}

/// Progress of an execution.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The object still qualifies; its DELETE is sent next.
    Deleting(&'a PinnedObject),
    /// The deletion was accepted, and these finalizers keep the object. Sent again whenever they change.
    Waiting(&'a PinnedObject, &'a [String]),
    /// A deletion ended. Deletions that run at the same time end in any order.
    Ended(&'a StepResult),
    /// The same results in the order of the plan: this one and all before it have ended.
    Reported(&'a StepResult),
}

/// One object with the result of its deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepResult {
    pub object: PinnedObject,
    pub step: DeletionResult,
}

/// Results of an execution, in the order of the deletions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PruneResult {
    /// One row per object that was to be deleted in its own right.
    pub steps: Vec<StepResult>,
    /// Set if an interrupt ended the execution early.
    pub interrupted: bool,
    /// Failure of this machine that ended the execution early, such as a full disk.
    pub failure: Option<String>,
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
