//! Child processes whose failure ends the task.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::cluster::wait;

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

/// Runs a command and returns its output, whatever its code. Kills it at the time limit.
pub(crate) fn output_within(command: &mut Command, limit: Duration) -> Result<Output> {
    let name = command.get_program().display().to_string();
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.with_context(|| format!("cannot run {name}"))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        let (stdout, stderr) = (scope.spawn(|| read(stdout)), scope.spawn(|| read(stderr)));
        if let Err(error) = wait::until(&name, limit, || Ok(child.try_wait()?.is_some())) {
            child.kill()?;
            child.wait()?;
            return Err(error);
        }
        let [stdout, stderr] = [stdout, stderr].map(|reader| reader.join().unwrap_or_default());
        Ok(Output { status: child.wait()?, stdout, stderr })
    })
}

/// Returns everything of a pipe until its end or an error.
fn read(pipe: Option<impl Read>) -> Vec<u8> {
    let mut bytes = vec![];
    if let Some(mut pipe) = pipe {
        let _ = pipe.read_to_end(&mut bytes);
    }
    bytes
}
