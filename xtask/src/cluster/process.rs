//! Processes that outlive the one that starts them, and how to stop exactly those.
//!
//! A process id alone is no proof: it may have been given to somebody else since. The start time that the kernel keeps
//! for it is, so both are recorded and compared before any signal is sent.

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

/// What to start: kept with the cluster, so that a stopped process can be started again in the same way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Spec {
    pub name: String,
    pub program: PathBuf,
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// The line in its own log that says it works. Its own: whoever else answers on a port cannot write there.
    pub ready: Option<String>,
}

/// A process that was started, told apart from any later one with the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Running {
    pub pid: u32,
    /// Clock ticks from boot to its start.
    pub started: u64,
    /// Where its part of the log begins: a process that is started again appends.
    pub log_from: u64,
}

impl Spec {
    /// Starts the process in a group of its own, so that no signal of a terminal reaches it and one signal ends it
    /// together with what it started.
    pub(crate) fn spawn(&self, dir: &Path) -> Result<Running> {
        let path = self.log(dir);
        let log = File::options().create(true).append(true).open(&path);
        let log = log.with_context(|| format!("cannot open {}", path.display()))?;
        let log_from = log.metadata()?.len();
        let mut child = Command::new(&self.program)
            .args(&self.args)
            .current_dir(dir)
            .env_remove("KUBECONFIG")
            .envs(&self.env)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {} ({})", self.name, self.program.display()))?;
        let pid = child.id();
        let started = start_time(pid);
        // Somebody has to collect its exit code, or it stays a zombie for as long as this process lives.
        thread::spawn(move || child.wait());
        let started = started.with_context(|| format!("{} ended at once\n{}", self.name, self.tail(dir)))?;
        Ok(Running { pid, started, log_from })
    }

    /// Its log file.
    pub(crate) fn log(&self, dir: &Path) -> PathBuf {
        dir.join("logs").join(format!("{}.log", self.name))
    }

    /// The end of its log, for error messages.
    pub(crate) fn tail(&self, dir: &Path) -> String {
        let log = fs::read(self.log(dir)).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        let last = &lines[lines.len().saturating_sub(12)..];
        format!("the last lines of its log:\n  {}", last.join("\n  "))
    }

    /// Whether `running` has written the line that says it works.
    pub(crate) fn says_ready(&self, dir: &Path, running: Running) -> bool {
        let log = fs::read(self.log(dir)).unwrap_or_default();
        let own = log.get(usize::try_from(running.log_from).unwrap_or(usize::MAX)..).unwrap_or_default();
        let own = String::from_utf8_lossy(own);
        self.ready.as_deref().is_none_or(|line| own.contains(line))
    }
}

impl Running {
    /// Whether this very process still runs; a zombie does not.
    pub(crate) fn is_alive(self) -> bool {
        start_time(self.pid) == Some(self.started)
    }
}

/// Ends all of `processes` and what they started: politely at first, and by force after `grace`.
pub(crate) fn stop(processes: &[Running], grace: Duration) -> Result<()> {
    let alive = || processes.iter().copied().filter(|process| process.is_alive()).collect::<Vec<_>>();
    if !grace.is_zero() {
        signal("TERM", &alive())?;
        wait_until(grace, || alive().is_empty());
    }
    signal("KILL", &alive())?;
    let gone = wait_until(Duration::from_secs(5), || alive().is_empty());
    gone.then_some(()).with_context(|| format!("processes {:?} do not end", alive()))
}

fn signal(signal: &str, processes: &[Running]) -> Result<()> {
    if processes.is_empty() {
        return Ok(());
    }
    let groups = processes.iter().map(|process| format!("-{}", process.pid));
    // It fails when one of them ended in between, which is what is wanted.
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

/// Programs of the control plane that run in a cluster's folder and are written down nowhere: whoever started them was
/// killed before it could do so.
pub(crate) fn strays(dir: &Path) -> Vec<Running> {
    let programs: Vec<PathBuf> =
        controlplane::names().into_iter().filter_map(|name| bin(name).canonicalize().ok()).collect();
    let leads_to = |entry: &fs::DirEntry, name: &str| fs::read_link(entry.path().join(name)).ok();
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let inside = pids.filter(|entry| {
        leads_to(entry, "cwd").is_some_and(|cwd| cwd == dir)
            && leads_to(entry, "exe").is_some_and(|program| programs.contains(&program))
    });
    let ids = inside.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(|pid: u32| Some(Running { pid, started: start_time(pid)?, log_from: 0 })).collect()
}

/// Field 22 of `/proc/PID/stat`, `None` for a process that is gone or a zombie.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses and may hold anything, so count from its end.
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
    fn a_process_is_stopped_and_another_one_with_its_id_is_not() {
        let dir = std::env::temp_dir().join(format!("xtask-process-{}", std::process::id()));
        let process = sleeper(&dir);
        let stranger = Running { started: process.started + 1, ..process };
        stop(&[stranger], Duration::ZERO).unwrap();
        assert!(process.is_alive());
        stop(&[process], Duration::from_secs(2)).unwrap();
        assert!(!process.is_alive());
        fs::remove_dir_all(dir).unwrap();
    }
}
