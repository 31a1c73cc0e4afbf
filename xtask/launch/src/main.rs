//! `cargo xtask TASK`: runs the demo, or compiles the package `xtask` and runs one of its tasks.

use std::process::{Command, ExitCode};

use anyhow::Error;

use launch::{demo, say, workspace_root};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments != ["demo"] {
        return run_task(&arguments);
    }
    match demo::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

/// Runs a task of the package `xtask`. On Unix it replaces this process, so that it gets the signals.
fn run_task(arguments: &[String]) -> ExitCode {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["run", "--quiet", "--package", "xtask", "--manifest-path"]).arg(workspace_root().join("Cargo.toml"));
    cargo.arg("--").args(arguments);
    replace_process(cargo)
}

#[cfg(unix)]
fn replace_process(mut command: Command) -> ExitCode {
    use std::os::unix::process::CommandExt;
    let error = command.exec();
    failed(&Error::new(error).context("cannot run cargo"))
}

#[cfg(not(unix))]
fn replace_process(mut command: Command) -> ExitCode {
    match command.status() {
        Ok(status) => ExitCode::from(u8::try_from(status.code().unwrap_or(1)).unwrap_or(1)),
        Err(error) => failed(&Error::new(error).context("cannot run cargo")),
    }
}

fn failed(error: &Error) -> ExitCode {
    say(format!("error: {error:#}"));
    ExitCode::FAILURE
}
