//! Plan files on disk: readable by this user only, written whole, and read up to a limit.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use crate::error::{Error, Result};
use gitops_core::plan::file::PlanFile;

/// Maximum size of a plan file. A row takes about 1 kB.
const MAX_SIZE: u64 = 64 << 20;

/// Writes a plan file atomically, with permissions for this user only. Returns the digest of its content.
///
/// Fails when the file cannot be written.
pub fn write(path: &Path, file: &PlanFile) -> Result<String> {
    let failed = |error: std::io::Error| Error::failed(format!("cannot write plan {}: {error}", path.display()));
    let (text, digest) = file.to_text().map_err(|error| failed(error.into()))?;
    super::write_private(path, |file| file.write_all(text.as_bytes())).map_err(failed)?;
    Ok(digest)
}

/// Reads a plan file and the digest of its content.
///
/// Fails when the file cannot be read. Refuses it when it is too large, or when its content is not what this program wrote.
pub fn read(path: &Path) -> Result<(PlanFile, String)> {
    let failed = |why: &str| Error::failed(format!("cannot read plan {}: {why}", path.display()));
    if !std::fs::metadata(path).map_err(|error| failed(&error.to_string()))?.is_file() {
        return Err(failed("it is not a regular file"));
    }
    let file = File::open(path).map_err(|error| failed(&error.to_string()))?;
    let mut text = vec![];
    file.take(MAX_SIZE + 1).read_to_end(&mut text).map_err(|error| failed(&error.to_string()))?;
    if text.len() as u64 > MAX_SIZE {
        return Err(refused(path, &format!("it is larger than {} MiB", MAX_SIZE >> 20)));
    }
    PlanFile::read(&text).map_err(|why| refused(path, &why))
}

/// Returns the error of a plan file that is not executed.
pub fn refused(path: &Path, why: &str) -> Error {
    Error::refused(format!("refused, nothing was deleted: plan {}: {why}", path.display()))
        .hint("write a new plan with `kubectl gitops prune --plan --out FILE`")
}
