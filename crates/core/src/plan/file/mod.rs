//! Plan files: a plan, and what pins it to the cluster, the caller and the time that it was made with. A plan file is a
//! contract (docs/reference/ownership.md 8, rule 10; docs/plan-files.md).

mod canonical;
mod check;
mod read;
mod select;
mod steps;
#[cfg(test)]
mod tests;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use check::Refusal;
pub(super) use read::read_document;
pub use select::Selection;
pub use steps::{CascadePin, Step, steps};

use super::Plan;
use super::limits::Limits;
use crate::ownership::OwnerId;

/// A plan that was written to a file, or is going to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanFile {
    pub plan: Plan,
    /// `None` for a plan that this tool never executes: of a working tree, or of a recorded cluster.
    pub execution: Option<ExecutionPins>,
}

/// Cluster, caller and limits that the execution of a plan is pinned to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecutionPins {
    /// Name and version of the program that made the plan.
    pub tool: String,
    /// Command that made the plan, such as `prune` or `prune qbec`.
    pub command: String,
    pub created: DateTime<Utc>,
    /// Time after which the plan is not executed.
    pub expires: DateTime<Utc>,
    pub connection: ConnectionPin,
    pub selection: OwnerSelection,
    /// Limits in force when the plan was made. Those of the execution are given again.
    pub limits: Limits,
    /// Deletions in an object's own right, in the order of execution.
    pub steps: Vec<Step>,
}

/// Connection that a plan was made with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConnectionPin {
    /// Name of the kubeconfig's context; empty without one.
    pub context: String,
    /// User that the API server authenticated; empty if it gave no name.
    pub caller: String,
    /// SHA-256 of the certificate authority of the API server; empty if the one of the system is used.
    pub certificate_authority: String,
}

/// Owners that the plan was limited to; all if empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnerSelection {
    pub owners: Vec<OwnerId>,
    pub namespace: Option<String>,
    pub system: Option<String>,
}

/// The JSON form. Its digest is that of the same form without a digest.
#[derive(Serialize)]
struct PlanFileDocument<'a> {
    #[serde(flatten)]
    plan: &'a Plan,
    #[serde(skip_serializing_if = "Option::is_none")]
    execution: &'a Option<ExecutionPins>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<&'a str>,
}

impl PlanFile {
    /// Returns the text of the file and the digest of its content.
    pub fn to_text(&self) -> serde_json::Result<(String, String)> {
        let digest = canonical::digest(&self.content()?);
        let text = serde_json::to_string_pretty(&self.document(Some(&digest)))?;
        Ok((text + "\n", digest))
    }

    fn content(&self) -> serde_json::Result<Value> {
        serde_json::to_value(self.document(None))
    }

    fn document<'a>(&'a self, digest: Option<&'a str>) -> PlanFileDocument<'a> {
        PlanFileDocument { plan: &self.plan, execution: &self.execution, digest }
    }
}
