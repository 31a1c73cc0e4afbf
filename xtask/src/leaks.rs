//! `cargo xtask leaks`: random changes, in which a value of a Secret reaches a plan, in every output.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{child, workspace_root};

/// Number of changes without `--cases`.
const CASES: &str = "10000";

/// `cargo xtask leaks [--cases N]`: runs tests/offline/leaks.rs with this number of changes.
pub fn command(words: &[&str]) -> Result<()> {
    let cases = match words {
        [] => CASES,
        ["--cases", cases] => cases,
        _ => bail!(crate::Usage),
    };
    cases.parse::<u64>().with_context(|| format!("{cases:?} is no number"))?;
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["test", "--locked", "--test", "offline", "--", "leaks::", "--nocapture"]);
    child::run(cargo.env("LEAK_CASES", cases).current_dir(workspace_root()))
}
