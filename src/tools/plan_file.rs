//! Plans as files: what was reviewed is what is deleted.

use std::io::Write;
use std::path::Path;

use super::{files, limits};
use crate::error::{Error, Result};
use gitops_core::plan::{Plan, SCHEMA};

/// A plan that was read from a file.
#[derive(Debug)]
pub struct ReviewedPlan(Plan);

/// Writes a plan to a file atomically, with permissions for this user only.
///
/// Fails when the file cannot be written.
pub fn write(path: &Path, plan: &Plan) -> Result<()> {
    let failed = |error: std::io::Error| Error::failed(format!("cannot write plan {}: {error}", path.display()));
    let mut text = serde_json::to_string_pretty(plan).map_err(|error| failed(error.into()))?;
    text.push('\n');
    super::write_private(path, |file| file.write_all(text.as_bytes())).map_err(failed)?;
    Ok(())
}

/// Reads a plan from a file.
///
/// Fails when the file is missing, is not a plan, or was written by an incompatible version.
pub fn read(path: &Path) -> Result<ReviewedPlan> {
    let unreadable = |why: String| {
        Error::failed(format!("cannot read plan {}: {why}", path.display()))
            .hint("write a new plan with `kubectl gitops prune --plan --out FILE`")
    };
    let text = files::read_named(path, limits::MAX_PLAN).map_err(|error| unreadable(error.to_string()))?;
    let document: serde_json::Value = serde_json::from_slice(&text).map_err(|error| unreadable(error.to_string()))?;
    let schema = document.get("schema").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
    if schema != SCHEMA {
        return Err(unreadable(format!("its schema is {schema:?}; this version reads {SCHEMA:?}")));
    }
    let plan = serde_json::from_value(document).map_err(|error| {
        unreadable(format!("another version of kubectl-gitops wrote it as {schema}, or it was edited: {error}"))
    })?;
    Ok(ReviewedPlan(plan))
}

impl ReviewedPlan {
    /// Restricts the present plan to the changes that were reviewed: the same objects, by uid, and nothing else.
    ///
    /// Fails when the plan was made for another cluster, or when a cascade would delete more than it shows.
    pub fn restrict(self, present: &mut Plan) -> Result<()> {
        let reviewed = self.0;
        if reviewed.cluster().uid != present.cluster().uid || present.cluster().uid.is_empty() {
            let server = &reviewed.cluster().server;
            return Err(Error::refused(format!("refused: the plan was made for another cluster ({server})"))
                .hint("plan again on this cluster"));
        }
        if present.deletions().any(|change| change.cause.is_some() && !reviewed.contains(change)) {
            return Err(Error::refused("refused: the cascade would now delete more objects than the plan lists")
                .hint("plan again"));
        }
        present.retain_changes(|change| reviewed.contains(change));
        Ok(())
    }
}
