//! Builds and runs `kubectl-gitops` for other tasks.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{child, target_dir, workspace_root};

/// Builds `kubectl-gitops` in the profile `dev` or `release` and returns its path.
pub fn build(release: bool) -> Result<PathBuf> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--locked", "--package", "kubectl-gitops", "--bin", "kubectl-gitops"]);
    if release {
        cargo.arg("--release");
    }
    child::run(cargo.current_dir(workspace_root())).context("kubectl-gitops does not build")?;
    Ok(target_dir().join(if release { "release" } else { "debug" }).join("kubectl-gitops"))
}

/// Runs the program in the workspace root. Fails unless the exit code is 0.
pub fn run(program: &PathBuf, args: &[&str]) -> Result<()> {
    child::run(Command::new(program).args(args).current_dir(workspace_root()))
        .with_context(|| format!("kubectl gitops {}", args.join(" ")))
}

/// Returns the answer of `cargo metadata` about the workspace, with more arguments.
pub(crate) fn metadata(args: &[&str]) -> Result<Value> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version", "1", "--locked"]).args(args).current_dir(workspace_root());
    serde_json::from_slice(&child::output(&mut cargo)?).context("cargo metadata printed no JSON")
}
