//! Processes that run longer than the one that starts them.
//!
//! The kernel reuses process ids. The start time is recorded too, and both are compared before a signal is sent.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::controlplane::{self, bin};

/// Command line of a process, recorded so that a stopped process can be started again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Spec {
    pub name: String,
    pub program: PathBuf,
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// Text in the log of the process that means it is ready. A port alone could belong to another process.
    pub ready: Option<String>,
}

/// A started process. The start time distinguishes it from a later process with the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Running {
    pub pid: u32,
    /// Start time in clock ticks since boot.
    pub started: u64,
    /// Offset of its first line in the log file. A process that is started again appends.
    pub log_from: u64,
}

impl Spec {
    /// Starts the process in its own process group. Signals of a terminal do not reach it, and one signal stops
    /// it and its children.
    pub(crate) fn spawn(&self, dir: &Path) -> Result<Running> {
        let path = self.log(dir);
        let log = File::options().create(true).append(true).open(&path);
        let log = log.with_context(|| format!("cannot open {}", path.display()))?;
        let log_from = log.metadata()?.len();
        let mut child = Command::new(&self.program)
            .args(&self.args)
            .current_dir(dir)
            .env_remove("KUBECONFIG")
            // Fewer garbage collections: a cluster of tests has few objects, and the processors are what tests wait for.
            .env("GOGC", "400")
            .envs(&self.env)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {} ({})", self.name, self.program.display()))?;
        let pid = child.id();
        let started = start_time(pid);
        // Wait for the process, or it stays a zombie until this process ends.
        thread::spawn(move || child.wait());
        let started = started.with_context(|| format!("{} ended at once\n{}", self.name, self.tail(dir)))?;
        Ok(Running { pid, started, log_from })
    }

    /// Returns the path of the log file.
    pub(crate) fn log(&self, dir: &Path) -> PathBuf {
        dir.join("logs").join(format!("{}.log", self.name))
    }

    /// Returns the end of the log, for error messages.
    pub(crate) fn tail(&self, dir: &Path) -> String {
        let log = fs::read(self.log(dir)).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        let last = &lines[lines.len().saturating_sub(12)..];
        format!("the last lines of its log:\n  {}", last.join("\n  "))
    }

    /// Returns true if `running` has written its `ready` text.
    pub(crate) fn is_ready(&self, dir: &Path, running: Running) -> bool {
        let log = fs::read(self.log(dir)).unwrap_or_default();
        let own = log.get(usize::try_from(running.log_from).unwrap_or(usize::MAX)..).unwrap_or_default();
        let own = String::from_utf8_lossy(own);
        self.ready.as_deref().is_none_or(|line| own.contains(line))
    }
}

impl Running {
    /// Returns true if this process still runs. A zombie does not.
    pub(crate) fn is_alive(self) -> bool {
        start_time(self.pid) == Some(self.started)
    }
}

/// Stops `processes` and their children: SIGTERM first, SIGKILL after `grace`.
pub(crate) fn stop(processes: &[Running], grace: Duration) -> Result<()> {
    if !grace.is_zero() {
        signal("TERM", &alive(processes))?;
        wait_until(grace, || alive(processes).is_empty());
    }
    signal("KILL", &alive(processes))?;
    let gone = wait_until(Duration::from_secs(5), || alive(processes).is_empty());
    gone.then_some(()).with_context(|| format!("processes {:?} do not stop", alive(processes)))
}

fn alive(processes: &[Running]) -> Vec<Running> {
    processes.iter().copied().filter(|process| process.is_alive()).collect()
}

fn signal(signal: &str, processes: &[Running]) -> Result<()> {
    if processes.is_empty() {
        return Ok(());
    }
    let groups = processes.iter().map(|process| format!("-{}", process.pid));
    // An error means that a process has ended already.
    let kill = Command::new("kill").arg(format!("-{signal}")).arg("--").args(groups).stderr(Stdio::null()).status();
    kill.map(|_| ()).context("cannot run kill to stop the cluster's processes")
}

fn wait_until(limit: Duration, done: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !done() {
        if start.elapsed() > limit {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
    true
}

/// Returns programs of the control plane that run in the folder of a cluster but are not recorded, because the process
/// that started them was killed.
pub(crate) fn unrecorded(dir: &Path) -> Vec<Running> {
    let programs: Vec<PathBuf> =
        controlplane::names().into_iter().filter_map(|name| bin(name).canonicalize().ok()).collect();
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let inside = pids.filter(|entry| {
        link(entry, "cwd").is_some_and(|cwd| cwd == dir)
            && link(entry, "exe").is_some_and(|program| programs.contains(&program))
    });
    let ids = inside.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(|pid: u32| Some(Running { pid, started: start_time(pid)?, log_from: 0 })).collect()
}

/// Reads a symlink in `/proc/PID`.
fn link(process: &fs::DirEntry, name: &str) -> Option<PathBuf> {
    fs::read_link(process.path().join(name)).ok()
}

/// Returns field 22 of `/proc/PID/stat`, or `None` for a zombie or a process that does not exist.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program name in parentheses and may contain spaces, so count from its end.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let state = *fields.first()?;
    (state != "Z" && state != "X").then(|| fields.get(19)?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper(dir: &Path) -> Running {
        fs::create_dir_all(dir.join("logs")).unwrap();
        let args = vec!["60".to_owned()];
        let spec = Spec { name: "sleep".into(), program: "sleep".into(), args, env: BTreeMap::new(), ready: None };
        spec.spawn(dir).unwrap()
    }

    #[test]
    fn stop_ends_only_the_process_with_the_recorded_start_time() {
        let dir = std::env::temp_dir().join(format!("xtask-process-{}", std::process::id()));
        let process = sleeper(&dir);
        let other = Running { started: process.started + 1, ..process };
        stop(&[other], Duration::ZERO).unwrap();
        assert!(process.is_alive());
        stop(&[process], Duration::from_secs(2)).unwrap();
        assert!(!process.is_alive());
        fs::remove_dir_all(dir).unwrap();
    }
}
