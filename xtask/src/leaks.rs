//! `cargo xtask leaks`: random changes, in which a value of a Secret reaches a plan, in every output.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{child, workspace_root};

/// Number of changes without `--cases`.
const CASES: &str = "10000";

/// `cargo xtask leaks [--cases N] [--first M]`: runs tests/offline/leaks.rs with N changes, from the one with the number M on.
pub fn command(words: &[&str]) -> Result<()> {
    let (cases, first) = match words {
        [] => (CASES, "0"),
        ["--cases", cases] => (*cases, "0"),
        ["--cases", cases, "--first", first] => (*cases, *first),
        _ => bail!(crate::Usage),
    };
    for word in [cases, first] {
        word.parse::<u64>().with_context(|| format!("{word:?} is no number"))?;
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["test", "--locked", "--test", "offline", "--", "leaks::", "--nocapture"]);
    child::run(cargo.env("LEAK_CASES", cases).env("LEAK_FIRST", first).current_dir(workspace_root()))
}
