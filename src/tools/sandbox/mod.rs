//! Runs a program on input that nobody has reviewed, so that the input cannot make it do harm.
//!
//! Every child has an empty environment except for an allow-list, empty home and temporary directories, a process group
//! that ends with it, and limits of time and output. On Linux it also reads only the files that it is given, writes
//! nothing, and has no network: this program starts itself again ([`launcher`]), restricts itself, and then becomes the
//! child. So no unsafe code has to run between fork and exec.
//!
//! docs/safety.md describes what each platform has.

mod child;
mod environment;
mod gate;
mod klog;
#[cfg(target_os = "linux")]
mod landlock;
pub mod launcher;
mod limits;
mod program_files;
mod rules;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
mod seccomp;

use std::ffi::OsString;
use std::path::PathBuf;

pub use self::child::{Failure, Output};
pub use self::environment::{Environment, PrivateDirectories, has_proxy};
pub use self::gate::{Gate, Target};
pub use self::limits::Limits;
pub(crate) use self::limits::children_at_once;
pub use self::rules::{Network, Rules};
use super::program::Program;

/// The way in which children are restricted.
#[derive(Clone, Debug)]
pub struct Sandbox {
    mode: Mode,
}

#[derive(Clone, Debug)]
enum Mode {
    /// Children start through this program.
    On(PathBuf),
    /// This process has no program that children can start through. Nothing starts.
    NoLauncher,
    /// Children keep their environment and limits, but may use all files and the network.
    Off,
}

/// A program with everything that it is started with.
#[derive(Debug)]
pub struct Job<'a> {
    pub program: &'a Program,
    pub arguments: Vec<OsString>,
    pub environment: &'a Environment,
    pub rules: &'a Rules,
    pub limits: &'a Limits,
}

impl Sandbox {
    /// Returns the sandbox of this process: children start through the program that called [`launcher::enter`].
    pub fn of_this_process() -> Self {
        let mode = match launcher::registered() {
            Some(launcher) => Mode::On(launcher),
            None if cfg!(target_os = "linux") => Mode::NoLauncher,
            None => Mode::Off,
        };
        Self { mode }
    }

    /// Returns a sandbox whose children start through a given `kubectl-gitops` program. For processes of another program,
    /// such as tests.
    pub fn launched_by(launcher: impl Into<PathBuf>) -> Self {
        Self { mode: if cfg!(target_os = "linux") { Mode::On(launcher.into()) } else { Mode::Off } }
    }

    /// Returns no sandbox: only the environment, the time and the output of children are limited. For comparisons.
    pub fn off() -> Self {
        Self { mode: Mode::Off }
    }

    /// Runs a program to its end, once fewer children run than may at the same time.
    ///
    /// Fails if it cannot be started or restricted, and if it exceeds a limit; an exit code that is not 0 is no failure.
    pub async fn run(&self, job: Job<'_>) -> Result<Output, Failure> {
        let command = match &self.mode {
            Mode::On(launcher) => launcher::command(launcher, &job)?,
            Mode::NoLauncher => return Err(Failure::Sandbox("this process did not register its program".to_owned())),
            Mode::Off => direct(&job),
        };
        let _slot = limits::slot().await;
        child::run(command, &job).await
    }
}

/// Returns a command that starts the program itself.
fn direct(job: &Job<'_>) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(&job.program.file);
    #[cfg(unix)]
    command.arg0(&job.program.path);
    command.args(&job.arguments);
    command
}

/// Returns what the system cannot restrict of a child, for people; `None` if it restricts everything.
pub fn missing_restriction() -> Option<&'static str> {
    #[cfg(target_os = "linux")]
    return (!landlock::is_supported()).then_some(
        "this kernel has no Landlock, so the files that builds and charts read are not restricted: only the checks of \
         references are",
    );
    #[cfg(not(target_os = "linux"))]
    Some("this system cannot restrict the files and the network of builds and charts: only the checks of references do")
}
