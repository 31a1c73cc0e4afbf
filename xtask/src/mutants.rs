//! `cargo xtask mutants`: changes one expression at a time in the code that decides what is deleted, and runs the tests that
//! must notice. A mutant that no test notices is a rule without a test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{child, say, target_dir, workspace_root};

/// Version of cargo-mutants, which is installed into `target/tools`.
const VERSION: &str = "25.3.1";
/// Seconds that the tests of one mutant may take.
const TEST_SECONDS: &str = "120";

/// Files of one package whose mutants are tried, and the tests that must notice them.
struct Part {
    package: &'static str,
    files: &'static [&'static str],
    tests: &'static [&'static str],
    /// Number of runs of a test with seeds: fewer than usual, because they are repeated for each mutant.
    seeds: (&'static str, &'static str),
}

/// Limits, plan files, waves, cascades, and the rules for deletions.
const RULES: Part = Part {
    package: "gitops-core",
    files: &[
        "crates/core/src/plan/limits.rs",
        "crates/core/src/plan/file/*.rs",
        "crates/core/src/prune/reevaluation.rs",
        "crates/core/src/prune/leaked.rs",
        "crates/core/src/prune/candidates.rs",
        "crates/core/src/plan/execution.rs",
        "crates/core/src/plan/grave.rs",
        "crates/core/src/plan/alarm.rs",
        "crates/core/src/prune/collectors/collector/safety.rs",
    ],
    tests: &["--lib", "--", "plan::", "prune::"],
    seeds: ("MODEL_CASES", "2000"),
};

/// Deletions on a cluster.
const EXECUTION: Part = Part {
    package: "kubectl-gitops",
    files: &[
        "src/cluster/write/execute.rs",
        "src/cluster/write/schedule.rs",
        "src/cluster/write/step.rs",
        "src/cluster/write/reading.rs",
    ],
    tests: &["--test", "offline", "--", "prune::", "interleavings::"],
    seeds: ("INTERLEAVINGS", "400"),
};

/// `cargo xtask mutants [--shard K/N] [FILE…]`: tries the mutants of these files, or of all; with a shard, every Nth of
/// them, which bounds the time.
pub fn command(arguments: &[&str]) -> Result<()> {
    let (shard, files) = match arguments {
        ["--shard", shard, files @ ..] => (Some(*shard), files),
        files => (None, files),
    };
    let tool = install()?;
    let mut unnoticed = vec![];
    for part in [RULES, EXECUTION] {
        let is_core = |file: &&&str| file.starts_with("crates/core/") == (part.package == "gitops-core");
        let own: Vec<&str> = files.iter().filter(is_core).copied().collect();
        let own = if files.is_empty() { part.files } else { &own };
        if !own.is_empty() && !run(&tool, &part, shard, own)? {
            unnoticed.push(output(&part).join("mutants.out").display().to_string());
        }
    }
    if !unnoticed.is_empty() {
        bail!("a mutant was not noticed, or the tests fail without one: see {}", unnoticed.join(" and "));
    }
    Ok(())
}

/// Returns the path of cargo-mutants.
fn install() -> Result<PathBuf> {
    let tool = target_dir().join("tools/bin/cargo-mutants");
    if !tool.is_file() {
        say("installing cargo-mutants");
        let mut install = Command::new(env!("CARGO"));
        install.args(["install", "--quiet", "--locked", "cargo-mutants", "--version", VERSION, "--root"]);
        child::run(install.arg(target_dir().join("tools"))).context("cargo-mutants could not be installed")?;
    }
    Ok(tool)
}

fn output(part: &Part) -> PathBuf {
    target_dir().join("mutants").join(part.package)
}

/// Tries the mutants of files. Returns true if the tests notice all of them.
fn run(tool: &Path, part: &Part, shard: Option<&str>, files: &[&str]) -> Result<bool> {
    let output = output(part);
    fs::create_dir_all(&output).with_context(|| format!("cannot create {}", output.display()))?;
    let mut mutants = Command::new(tool);
    mutants.current_dir(workspace_root()).args(["mutants", "--package", part.package, "--no-shuffle", "--jobs", "1"]);
    mutants.args(["--timeout", TEST_SECONDS, "--output"]).arg(&output).env(part.seeds.0, part.seeds.1);
    for file in files {
        mutants.args(["--file", file]);
    }
    if let Some(shard) = shard {
        mutants.args(["--shard", shard]);
    }
    let status = mutants.arg("--").args(part.tests).status().context("cannot run cargo-mutants")?;
    Ok(status.success())
}
