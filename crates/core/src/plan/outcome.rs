//! What happened to each step of a plan that was executed. Schema `kubectl-gitops/result/v1`.

use serde::{Deserialize, Serialize};

use super::document::PinnedObject;

/// What became of one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", content = "detail", rename_all = "kebab-case")]
pub enum DeletionResult {
    /// Deleted and gone.
    Deleted,
    /// The deletion was accepted; these finalizers still hold the object.
    Terminating(Vec<String>),
    /// It was gone already.
    Gone,
    /// It does not qualify any more; nothing was sent.
    Changed(String),
    /// The server refused or did not answer.
    Failed(String),
    /// An interrupt came first.
    NotTried,
}

/// One row of a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepResult {
    /// The object.
    pub object: PinnedObject,
    /// What became of it.
    #[serde(flatten)]
    pub step: DeletionResult,
}

/// The result of a prune.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PruneResult {
    /// Always `kubectl-gitops/result/v1`.
    pub schema: String,
    /// What happened, in the order of deletion.
    pub steps: Vec<StepResult>,
    /// Whether Ctrl-C ended it early.
    #[serde(default)]
    pub interrupted: bool,
}

impl PruneResult {
    /// An empty result.
    pub fn new() -> Self {
        Self { schema: "kubectl-gitops/result/v1".to_owned(), steps: vec![], interrupted: false }
    }

    /// Whether every object is gone.
    pub fn is_complete(&self) -> bool {
        self.steps.iter().all(|row| matches!(row.step, DeletionResult::Deleted | DeletionResult::Gone))
    }

    /// How many objects this run deleted for good.
    pub fn deleted(&self) -> usize {
        self.steps.iter().filter(|row| row.step == DeletionResult::Deleted).count()
    }
}

impl Default for PruneResult {
    fn default() -> Self {
        Self::new()
    }
}
