//! `cargo xtask mutants`: changes one expression at a time in the code that decides what is deleted, and runs the tests that
//! must notice. A mutant that no test notices is a rule without a test.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{say, target_dir, workspace_root};

/// Version of cargo-mutants, which is installed into `target/tools`.
const VERSION: &str = "25.3.1";
/// Files whose mutants are tried: limits, plan files, waves, cascades, and the rules for deletions.
const FILES: [&str; 9] = [
    "crates/core/src/plan/limits.rs",
    "crates/core/src/plan/alarm.rs",
    "crates/core/src/plan/grave.rs",
    "crates/core/src/plan/execution.rs",
    "crates/core/src/plan/file/*.rs",
    "crates/core/src/prune/candidates.rs",
    "crates/core/src/prune/leaked.rs",
    "crates/core/src/prune/reevaluation.rs",
    "crates/core/src/prune/collectors/collector/safety.rs",
];
/// Seconds that the tests of one mutant may take.
const TEST_SECONDS: &str = "120";

/// `cargo xtask mutants [--shard K/N] [FILE…]`: tries the mutants of these files, or of all; with a shard, every Nth of
/// them, which bounds the time.
pub fn command(arguments: &[&str]) -> Result<()> {
    let (shard, files) = match arguments {
        ["--shard", shard, files @ ..] => (Some(*shard), files),
        files => (None, files),
    };
    let tool = target_dir().join("tools/bin/cargo-mutants");
    if !tool.is_file() {
        say("installing cargo-mutants");
        let mut install = Command::new(env!("CARGO"));
        install.args(["install", "--quiet", "--locked", "cargo-mutants", "--version", VERSION, "--root"]);
        let status = install.arg(target_dir().join("tools")).status().context("cannot run cargo install")?;
        if !status.success() {
            bail!("cargo-mutants could not be installed");
        }
    }
    let mut mutants = Command::new(tool);
    mutants.current_dir(workspace_root()).args(["mutants", "--package", "gitops-core", "--no-shuffle", "--jobs", "1"]);
    mutants.args(["--timeout", TEST_SECONDS, "--output"]).arg(target_dir().join("mutants"));
    for file in if files.is_empty() { &FILES[..] } else { files } {
        mutants.args(["--file", file]);
    }
    if let Some(shard) = shard {
        mutants.args(["--shard", shard]);
    }
    let status = mutants.args(["--", "--lib"]).status().context("cannot run cargo-mutants")?;
    if !status.success() {
        bail!("a mutant was not noticed, or the tests fail without one: see target/mutants/mutants.out");
    }
    Ok(())
}
