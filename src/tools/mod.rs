//! Programs and files on this machine: git, kustomize, helm, flux-operator, qbec, working trees, charts, manifests, snapshot and plan files.

pub mod backup;
pub mod cache;
pub mod chart_folder;
pub mod files;
pub mod git;
pub mod journal;
pub mod limits;
pub mod manifests;
pub mod plan_file;
pub mod program;
pub mod programs;
pub mod sandbox;
pub mod snapshot_file;
pub mod worktree;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

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
    // Otherwise a crash of the machine can leave an empty file under the name.
    temporary.as_file().sync_all()?;
    Ok(temporary.persist(path)?.metadata()?.len())
}

/// Returns the error of a file that cannot be written, such as `plan`, with a hint for the usual reasons.
fn cannot_write(what: &str, path: &Path, error: &io::Error) -> Error {
    // `tempfile` adds the random name of its file.
    let text = error.to_string();
    let reason = text.split(" at path ").next().unwrap_or(&text);
    let message = Error::failed(format!("cannot write {what} {}: {reason}", path.display()));
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            message.hint(format!("free space in {}, or use another directory", directory.display()))
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            message.hint("use a directory that you may write to")
        }
        io::ErrorKind::IsADirectory => {
            message.hint(format!("name a file in it, such as {}", path.join("FILE").display()))
        }
        io::ErrorKind::NotFound if !directory.exists() => {
            message.hint(format!("create the directory: mkdir -p {}", directory.display()))
        }
        _ => message.hint("use another directory"),
    }
}

/// Writes a report atomically, with permissions for this user only.
pub fn write_report(path: &Path, text: &str) -> Result<()> {
    let written = write_private(path, |file| file.write_all(text.as_bytes()));
    written.map(drop).map_err(|error| cannot_write("report", path, &error))
}

/// Returns the error of a temporary file or directory that cannot be written.
fn cannot_write_temporary(what: &str, error: &io::Error) -> Error {
    Error::failed(format!("cannot write {what}: {error}"))
        .hint("set TMPDIR to a directory with free space that you may write to")
}

/// Returns the home directory, or `None` if there is none or if it is not an absolute path: a relative one would be in the
/// current directory, which may be a tree of others.
fn home_directory() -> Option<PathBuf> {
    std::env::home_dir().filter(|home| home.is_absolute())
}

/// Creates a directory, and those above it, that only this user may read.
fn create_private_directory(directory: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(directory)
}

/// Creates a temporary directory that only this user may read and that is removed on drop.
fn temporary_directory() -> Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("kubectl-gitops-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder.tempdir().map_err(|error| cannot_write_temporary("a temporary directory", &error))
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
