//! Plans as files: what was reviewed is what is deleted.

use std::path::Path;

use crate::error::{Error, Result};
use gitops_core::plan::document::{Plan, SCHEMA};

/// A plan that was read from a file.
#[derive(Debug)]
pub struct Reviewed(Plan);

/// Writes a plan.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, plan: &Plan) -> Result<()> {
    let failed = |error: std::io::Error| Error::failed(format!("cannot write plan {}: {error}", path.display()));
    let mut text = serde_json::to_string_pretty(plan).map_err(|error| failed(error.into()))?;
    text.push('\n');
    std::fs::write(path, text).map_err(failed)
}

/// Reads a plan.
///
/// # Errors
/// When the file is missing, not a plan, or of another schema.
pub fn read(path: &Path) -> Result<Reviewed> {
    let broken = |why: String| {
        Error::failed(format!("plan {} cannot be read: {why}", path.display()))
            .hint("write one with `kubectl gitops prune --plan --out FILE`")
    };
    let text = std::fs::read(path).map_err(|error| broken(error.to_string()))?;
    let plan: Plan = serde_json::from_slice(&text).map_err(|error| broken(error.to_string()))?;
    if plan.schema != SCHEMA {
        return Err(broken(format!("its schema is {:?}, this version reads {SCHEMA:?}", plan.schema)));
    }
    Ok(Reviewed(plan))
}

impl Reviewed {
    /// The part of the present plan that was reviewed: the same objects, by uid, and nothing else.
    ///
    /// # Errors
    /// When the plan was made for another cluster, or was incomplete.
    pub fn still_holding(self, mut present: Plan) -> Result<Plan> {
        let reviewed = self.0;
        if reviewed.cluster.uid != present.cluster.uid || present.cluster.uid.is_empty() {
            return Err(Error::refused(format!(
                "refused: the plan was made for another cluster ({})",
                reviewed.cluster.server
            ))
            .hint("plan again on this cluster"));
        }
        if present.deletions().any(|change| change.cause.is_some() && !reviewed.lists(change)) {
            return Err(Error::refused(
                "refused: deleting what the plan lists would now take more along than the plan shows",
            )
            .hint("plan again"));
        }
        present.changes.retain(|change| reviewed.lists(change));
        Ok(Plan::new(present.cluster, present.gaps, present.owners, present.changes))
    }
}
