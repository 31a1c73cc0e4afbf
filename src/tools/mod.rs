//! Programs and files on this machine: git, kustomize, qbec, working trees, manifests, snapshot and plan files.

pub mod backup;
pub mod files;
pub mod git;
pub mod journal;
pub mod kustomize;
pub mod limits;
pub mod manifests;
pub mod plan_file;
pub mod program;
pub mod qbec;
pub mod sandbox;
pub mod snapshot_file;
pub mod worktree;

use std::io;
use std::path::Path;

use crate::error::{Error, Result};
use tempfile::{NamedTempFile, TempDir};

/// Writes a file that only this user may read, all of it or nothing. Returns the size in bytes. A link, a device or
/// anything else that is no regular file is neither followed nor replaced.
fn write_private(path: &Path, write: impl FnOnce(&mut NamedTempFile) -> io::Result<()>) -> io::Result<u64> {
    if std::fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(io::Error::other("it exists and is not a regular file"));
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut temporary = NamedTempFile::new_in(directory)?;
    write(&mut temporary)?;
    Ok(temporary.persist(path)?.metadata()?.len())
}

/// Creates a temporary directory that only this user may read and that is removed on drop.
fn temporary_directory() -> Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("kubectl-gitops-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder.tempdir().map_err(|error| Error::failed(format!("cannot create a temporary directory: {error}")))
}

#[cfg(all(test, unix))]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn private_files_are_for_this_user_and_links_are_left_alone() {
        let directory = temporary_directory().unwrap();
        let (file, link) = (directory.path().join("plan.json"), directory.path().join("link.json"));
        for text in ["first", "second"] {
            write_private(&file, |file| file.write_all(text.as_bytes())).unwrap();
            assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        }
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        symlink(&file, &link).unwrap();
        write_private(&link, |file| file.write_all(b"third")).unwrap_err();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "second");
    }
}
