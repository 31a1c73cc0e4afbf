//! Files and folders of the tasks.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Copies a folder with all that is in it. The copies are writable, also those of Go's module cache, which is read-only.
pub fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_folder(&path, &target)?;
        } else {
            let content = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            fs::write(&target, content).with_context(|| format!("cannot write {}", target.display()))?;
        }
    }
    Ok(())
}
