//! tools.

pub mod git;
pub mod kustomize;
pub mod manifests;
pub mod plan_file;
pub mod qbec;
pub mod snapshot_file;
pub mod worktree;
