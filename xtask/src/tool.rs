//! Builds and runs `kubectl-gitops` for other tasks.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{target_dir, workspace_root};

/// Builds `kubectl-gitops` in the profile `dev` or `release` and returns its path.
pub fn build(release: bool) -> Result<PathBuf> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--locked", "--package", "kubectl-gitops", "--bin", "kubectl-gitops"]);
    if release {
        cargo.arg("--release");
    }
    if !cargo.current_dir(workspace_root()).status().context("cannot run cargo build")?.success() {
        bail!("kubectl-gitops does not build");
    }
    Ok(target_dir().join(if release { "release" } else { "debug" }).join("kubectl-gitops"))
}

/// Runs the program in the workspace root. Fails unless the exit code is 0.
pub fn run(program: &PathBuf, args: &[&str]) -> Result<()> {
    let status = Command::new(program).args(args).current_dir(workspace_root()).status();
    let status = status.with_context(|| format!("cannot run {}", program.display()))?;
    if !status.success() {
        bail!("kubectl gitops {} ended with {status}", args.join(" "));
    }
    Ok(())
}
