//! Plan files on disk: readable by this user only, written whole, and read up to a limit.

use std::io::Write;
use std::path::Path;

use super::{files, limits};
use crate::error::{Error, Result};
use crate::output::text::sanitize::one_line;
use gitops_core::plan::FinishedPlan;
use gitops_core::plan::file::PlanFile;

/// Writes a plan file atomically, with permissions for this user only. Returns the digest of its content.
///
/// Fails when the file cannot be written.
pub fn write(path: &Path, file: &PlanFile) -> Result<String> {
    let mut written = String::new();
    super::write_private(path, |temporary| {
        let (text, digest) = file.to_text()?;
        written = digest;
        temporary.write_all(text.as_bytes())
    })
    .map_err(|error| super::cannot_write("plan", path, &error))?;
    Ok(written)
}

/// Reads a plan file and the digest of its content.
///
/// Fails when the file cannot be read. Refuses it when it is too large, or when its content is not what this program wrote.
pub fn read(path: &Path) -> Result<(PlanFile, String)> {
    if std::fs::metadata(path).is_ok_and(|metadata| metadata.len() > limits::MAX_PLAN) {
        return Err(refused(path, &format!("it is larger than {}", limits::bytes(limits::MAX_PLAN))));
    }
    let text = files::read_named(path, limits::MAX_PLAN)
        .map_err(|error| Error::failed(format!("cannot read plan {}: {error}", path.display())))?;
    PlanFile::read(&text).map_err(|why| refused(path, &why))
}

/// Reads a plan that was written as a document or as a plan file, to show it again or to approve it.
pub fn read_document(path: &Path) -> Result<FinishedPlan> {
    let text = files::read_named(path, limits::MAX_PLAN).map_err(|error| error.to_string());
    let plan = text.and_then(|text| FinishedPlan::read(&text));
    plan.map_err(|why| {
        Error::failed(format!("cannot read plan {}: {}", path.display(), one_line(&why)))
            .hint("a plan is what `-o json` or --out wrote; a document of several clusters has one at .clusters[].plan")
    })
}

/// Returns the error of a plan file that is not executed.
pub fn refused(path: &Path, why: &str) -> Error {
    Error::refused(format!("refused, nothing was deleted: plan {}: {why}", path.display()))
        .hint("write a new plan with `kubectl gitops prune --plan --out FILE`")
}
