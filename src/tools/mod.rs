//! Programs and files on this machine: git, kustomize, qbec, working trees, manifests, snapshot and plan files.

pub mod git;
pub mod kustomize;
pub mod manifests;
pub mod plan_file;
pub mod qbec;
pub mod snapshot_file;
pub mod worktree;

use crate::error::{Error, Result};
use tempfile::TempDir;

/// Creates a temporary directory that only this user may read and that is removed on drop.
fn temporary_directory() -> Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("kubectl-gitops-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder.tempdir().map_err(|error| Error::failed(format!("cannot create a temporary directory: {error}")))
}
