//! Starts this program again as a process that restricts itself and then becomes the child (Linux).
//!
//! The first argument is [`ARGUMENT`], the second one a [`Launch`] as JSON, and the others are the program and its
//! arguments. `main` calls [`enter`] first, before it starts threads.

use std::path::PathBuf;
use std::sync::OnceLock;

use super::Output;

/// Program that [`enter`] was called in.
static REGISTERED: OnceLock<PathBuf> = OnceLock::new();

/// Exit code of a launcher that cannot start the child, with a message that begins with [`MESSAGE`]. Shells and
/// containers use the same code.
const FAILED: i32 = 125;
const MESSAGE: &str = "kubectl-gitops sandbox: ";

/// Returns the program that children start through.
pub(super) fn registered() -> Option<PathBuf> {
    REGISTERED.get().cloned()
}

/// Returns the message of a launcher that could not start the child.
pub(super) fn failure(output: &Output) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stderr);
    let message = text.strip_prefix(MESSAGE).filter(|_| output.status.code() == Some(FAILED));
    message.map(|message| message.trim().to_owned())
}

#[cfg(not(target_os = "linux"))]
pub(super) use self::other::command;
#[cfg(not(target_os = "linux"))]
pub use self::other::enter;

#[cfg(target_os = "linux")]
pub(super) use self::linux::command;
#[cfg(target_os = "linux")]
pub use self::linux::enter;

#[cfg(target_os = "linux")]
mod linux {
    use std::borrow::Cow;
    use std::ffi::OsString;
    use std::io::Write;
    use std::os::unix::process::CommandExt;
    use std::path::{Path, PathBuf};
    use std::process::{Command, ExitCode};

    use rustix::process::{Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit};
    use serde::{Deserialize, Serialize};

    use super::super::limits::Resources;
    use super::super::{Failure, Job, Rules, landlock};
    use super::{FAILED, MESSAGE, REGISTERED};

    /// First argument of a launcher. It is no verb: the command line never sees it.
    const ARGUMENT: &str = "__sandbox";

    /// Restrictions that a launcher applies before it becomes the child.
    #[derive(Serialize, Deserialize)]
    struct Launch<'a> {
        /// Process that started the launcher. If it has ended already, nothing starts.
        parent: u32,
        /// First argument of the child: the path by which its program was found.
        name: PathBuf,
        rules: Cow<'a, Rules>,
        resources: Resources,
    }

    /// Becomes the child if this process was started as a launcher, and returns only if that fails. Otherwise registers this
    /// program as the one that children start through, and returns `None`.
    pub fn enter() -> Option<ExitCode> {
        let mut arguments = std::env::args_os().skip(1);
        if arguments.next().is_none_or(|first| first != ARGUMENT) {
            // The link stays valid when the file is renamed or replaced.
            let _ = REGISTERED.set("/proc/self/exe".into());
            return None;
        }
        let Err(message) = launch(arguments);
        let _ = writeln!(std::io::stderr(), "{MESSAGE}{message}");
        Some(ExitCode::from(FAILED as u8))
    }

    /// Returns the command that starts the launcher for a child.
    pub(in super::super) fn command(launcher: &Path, job: &Job<'_>) -> Result<tokio::process::Command, Failure> {
        let launch = Launch {
            parent: std::process::id(),
            name: job.program.path.clone(),
            rules: Cow::Borrowed(job.rules),
            resources: job.limits.resources,
        };
        let launch = serde_json::to_string(&launch).map_err(|error| Failure::Sandbox(error.to_string()))?;
        let mut command = tokio::process::Command::new(launcher);
        command.arg(ARGUMENT).arg(launch).arg(&job.program.file).args(&job.arguments);
        Ok(command)
    }

    fn launch(mut arguments: impl Iterator<Item = OsString>) -> Result<std::convert::Infallible, String> {
        let launch = arguments.next().ok_or("no rules")?;
        let launch: Launch<'_> =
            serde_json::from_slice(launch.as_encoded_bytes()).map_err(|error| format!("rules: {error}"))?;
        let program = arguments.next().ok_or("no program")?;
        end_with_parent(launch.parent)?;
        // Files that the parent has open are closed when the child starts, except its standard streams.
        close_fds::set_fds_cloexec(3, &[]);
        apply_limits(&launch.resources)?;
        landlock::restrict(&launch.rules)?;
        restrict_system_calls(&launch.rules)?;
        let error = Command::new(&program).arg0(&launch.name).args(arguments).exec();
        Err(format!("cannot run {}: {error}", program.display()))
    }

    /// Makes the kernel kill this process when the thread that started it ends.
    fn end_with_parent(parent: u32) -> Result<(), String> {
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| format!("death signal: {error}"))?;
        if std::os::unix::process::parent_id() == parent { Ok(()) } else { Err("the parent has ended".to_owned()) }
    }

    fn apply_limits(resources: &Resources) -> Result<(), String> {
        let limits = [
            (Resource::Data, resources.memory),
            (Resource::Cpu, resources.cpu_seconds),
            (Resource::Nofile, resources.open_files),
            (Resource::Fsize, resources.file_size),
            (Resource::Core, 0),
        ];
        for (resource, limit) in limits {
            let maximum = getrlimit(resource).maximum.unwrap_or(u64::MAX).min(limit);
            let limit = Rlimit { current: Some(maximum), maximum: Some(maximum) };
            setrlimit(resource, limit).map_err(|error| format!("limit {resource:?}: {error}"))?;
        }
        Ok(())
    }

    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
    fn restrict_system_calls(rules: &Rules) -> Result<(), String> {
        super::super::seccomp::restrict(rules).map_err(|error| format!("seccomp: {error}"))
    }

    /// Other processors have only Landlock.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
    fn restrict_system_calls(_: &Rules) -> Result<(), String> {
        Ok(())
    }
}

/// Systems without a launcher: children start directly.
#[cfg(not(target_os = "linux"))]
mod other {
    use std::path::Path;
    use std::process::ExitCode;

    use super::super::{Failure, Job, direct};

    /// Returns `None`: this process is no launcher.
    pub fn enter() -> Option<ExitCode> {
        None
    }

    /// Returns the command that starts the program.
    pub(in super::super) fn command(_: &Path, job: &Job<'_>) -> Result<tokio::process::Command, Failure> {
        Ok(direct(job))
    }
}
