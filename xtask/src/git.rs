//! Runs git for repositories of tasks and tests, with a fixed author.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Runs `git` in a folder and returns its output without the last line break. An error has git's own message.
pub fn run(folder: impl AsRef<Path>, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder.as_ref()).args(["-c", "user.name=tests", "-c", "user.email=tests@example.invalid"]);
    let output = command.args(arguments).output().context("cannot run git")?;
    if !output.status.success() {
        bail!("git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}
