//! A lock between processes that build or install into the same folder.

use std::fs::{self, File, TryLockError};
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::say;

/// Locks a file until the result is dropped. Waits while `other`, such as "another build", holds it.
pub(crate) fn exclusive(path: &Path, other: &str) -> Result<File> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => say(format!("waiting for {other}")),
        Err(TryLockError::Error(error)) => bail!("cannot lock {}: {error}", path.display()),
    }
    file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(file)
}
