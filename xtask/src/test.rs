//! `cargo xtask test`: every check of the project. The fastest ones run first.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::controlplane::{self, crds};
use crate::{dependencies, say, workspace_root};

/// Steps: name and arguments of cargo.
const STEPS: [(&str, &[&str]); 4] = [
    ("format", &["fmt", "--all", "--check"]),
    ("lints", &["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]),
    ("build", &["build", "--workspace", "--all-targets", "--locked"]),
    ("tests", &["test", "--workspace", "--locked", "--no-fail-fast"]),
];

/// Builds the missing programs of the control plane, then runs every step.
pub fn run() -> Result<()> {
    let start = Instant::now();
    controlplane::ensure(&controlplane::names())?;
    crds::ensure(&crds::names())?;
    say(format!("control plane: {:.0?}", start.elapsed()));
    let step = Instant::now();
    dependencies::check()?;
    say(format!("dependencies: {:.0?}", step.elapsed()));
    for (name, args) in STEPS {
        let step = Instant::now();
        let status = Command::new(env!("CARGO")).args(args).current_dir(workspace_root()).status();
        if !status.with_context(|| format!("cannot run cargo {}", args.join(" ")))?.success() {
            bail!("{name} failed: cargo {}", args.join(" "));
        }
        say(format!("{name}: {:.0?}", step.elapsed()));
    }
    say(format!("everything: {:.0?}", start.elapsed()));
    Ok(())
}
