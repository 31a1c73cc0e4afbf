//! Child processes whose failure ends the task.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Runs a command with the output of the task. Fails unless it ends with code 0.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {}", command.get_program().display()))?;
    if !status.success() {
        bail!("{} ended with {status}", command.get_program().display());
    }
    Ok(())
}

/// Runs a command and returns its standard output. The error of a failed one has its standard error.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>> {
    let output = command.output().with_context(|| format!("cannot run {}", command.get_program().display()))?;
    if !output.status.success() {
        bail!("{command:?} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(output.stdout)
}

/// Copies files, of which one is a package.json, to a folder, and installs the packages of npm that they pin. No package runs
/// a script.
pub(crate) fn install_packages(from: &Path, files: &[&str], folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for file in files {
        fs::copy(from.join(file), folder.join(file)).with_context(|| format!("cannot copy {file}"))?;
    }
    let options = ["ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"];
    run(Command::new("npm").args(options).current_dir(folder))
}
