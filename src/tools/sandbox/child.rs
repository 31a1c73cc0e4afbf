//! A running child: reads its output up to a limit, and ends its process group.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

use super::{Job, klog, launcher};

/// Output and exit status of a child.
#[derive(Clone, Debug)]
pub struct Output {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    /// Standard error, without the headers of log lines.
    pub stderr: Vec<u8>,
}

/// A child that gave no answer. This says nothing about its input: it is a failure of this machine.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("{0}")]
    Start(io::Error),
    #[error("the sandbox cannot be set up: {0}")]
    Sandbox(String),
    #[error("did not finish within {} s", .0.as_secs())]
    Time(Duration),
    #[error("printed more than {} MiB", .0 >> 20)]
    Output(u64),
    #[error("needs more than {} MiB of memory", .0 >> 20)]
    Memory(u64),
    #[error("was ended by signal {0}")]
    Signal(i32),
}

impl Failure {
    /// Returns the message about a child with this name.
    pub(in crate::tools) fn describe(&self, name: &str) -> String {
        match self {
            Self::Start(error) => format!("{name} cannot be run: {error}"),
            Self::Sandbox(error) => format!("{name} cannot be run in a sandbox: {error}"),
            failure => format!("{name} {failure}"),
        }
    }
}

/// Starts a command in a process group of its own and waits for its end. The group is killed when it exceeds a limit and
/// when the future is dropped.
pub(super) async fn run(mut command: Command, job: &Job<'_>) -> Result<Output, Failure> {
    command.env_clear().envs(job.environment.variables());
    command.current_dir(job.environment.directory());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    #[cfg(unix)]
    command.process_group(0);
    let mut child = command.spawn().map_err(Failure::Start)?;
    let group = Group::of(&child);
    let ended = tokio::time::timeout(job.limits.time, finish(&mut child, job)).await;
    drop(group);
    let output = ended.unwrap_or(Err(Failure::Time(job.limits.time)));
    if output.is_err() {
        // The directories of the child are removed next, so it must have ended.
        let _ = tokio::time::timeout(Duration::from_secs(5), child.wait()).await;
    }
    check(output?, job)
}

async fn finish(child: &mut Child, job: &Job<'_>) -> Result<Output, Failure> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (stdout, stderr) = tokio::try_join!(read(stdout, job.limits.stdout), read(stderr, job.limits.stderr))?;
    let status = child.wait().await.map_err(Failure::Start)?;
    let stderr = klog::without_headers(&String::from_utf8_lossy(&stderr)).into_bytes();
    Ok(Output { status, stdout, stderr })
}

/// Reads a stream to its end. Fails at the first byte above the limit.
async fn read(stream: Option<impl AsyncRead + Unpin>, limit: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        stream.take(limit + 1).read_to_end(&mut bytes).await.map_err(Failure::Start)?;
    }
    if bytes.len() as u64 > limit { Err(Failure::Output(limit)) } else { Ok(bytes) }
}

/// Tells the end of a program from a failure of the sandbox and from limits that the kernel keeps.
fn check(output: Output, job: &Job<'_>) -> Result<Output, Failure> {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&output.status) {
        return Err(Failure::Signal(signal));
    }
    if let Some(message) = launcher::failure(&output) {
        return Err(Failure::Sandbox(message));
    }
    // The Go runtime prints this when the kernel gives it no more memory.
    let text = String::from_utf8_lossy(&output.stderr);
    let is_out_of_memory = MEMORY.iter().any(|line| text.contains(line));
    if !output.status.success() && is_out_of_memory {
        return Err(Failure::Memory(job.limits.resources.memory));
    }
    Ok(output)
}

/// Texts with which a program written in Go ends for want of memory.
const MEMORY: [&str; 3] = ["runtime: out of memory", "runtime: cannot allocate memory", "fatal error: out of memory"];

/// The process group of a child, killed on drop.
struct Group {
    #[cfg(unix)]
    leader: Option<rustix::process::Pid>,
}

impl Group {
    #[cfg(unix)]
    fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self { leader: id.and_then(rustix::process::Pid::from_raw) }
    }

    #[cfg(not(unix))]
    fn of(_: &Child) -> Self {
        Self {}
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(leader) = self.leader {
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        }
    }
}
