//! Measures a program: its wall time, and in a separate run its peak memory and its requests.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::server::Traffic;
use crate::cluster::Cluster;

/// Header of a table of programs.
pub(crate) const HEAD: &str = "                     runs   min s  median s   max s";

/// A program to measure.
pub(crate) struct Contender {
    /// Letter of the program in ratios.
    pub letter: char,
    pub title: &'static str,
    pub make: Box<dyn Fn() -> Command>,
    /// Wall times of all timed runs.
    pub times: Vec<Duration>,
}

impl Contender {
    pub(crate) fn new(letter: char, title: &'static str, make: impl Fn() -> Command + 'static) -> Self {
        Self { letter, title, make: Box::new(make), times: vec![] }
    }

    /// Runs the program once and records the wall time.
    pub(crate) fn run(&mut self) -> Result<()> {
        let time = self.run_once()?;
        self.times.push(time);
        Ok(())
    }

    /// Runs the program once and returns the wall time, including its start.
    pub(crate) fn run_once(&self) -> Result<Duration> {
        let mut command = (self.make)();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let start = Instant::now();
        let output = command.output().with_context(|| format!("cannot run {}", self.title))?;
        let time = start.elapsed();
        if !output.status.success() {
            bail!("{} ended with {}: {}", self.title, output.status, String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(time)
    }

    /// Returns the peak resident memory in KiB and the traffic that the server counted. This run is not timed, because
    /// reading the memory takes time.
    pub(crate) fn observe(&self, cluster: &Cluster) -> Result<(u64, Traffic)> {
        let before = Traffic::read(cluster)?;
        let mut command = (self.make)();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().with_context(|| format!("cannot run {}", self.title))?;
        let status = format!("/proc/{}/status", child.id());
        let mut peak = 0;
        while child.try_wait()?.is_none() {
            // The kernel keeps the maximum, so only the last millisecond of the process can be missed.
            peak = peak.max(high_water_mark(&status).unwrap_or_default());
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok((peak, Traffic::read(cluster)?.since(before)))
    }

    /// Returns a row of the table under [`HEAD`].
    pub(crate) fn row(&self) -> String {
        let (min, max) = (self.times.iter().min(), self.times.iter().max());
        format!(
            "{}  {:<16} {:>5} {:>7} {:>9} {:>7}",
            self.letter,
            self.title,
            self.times.len(),
            seconds(min.copied().unwrap_or_default()),
            seconds(self.median()),
            seconds(max.copied().unwrap_or_default()),
        )
    }

    /// Returns the median of the timed runs.
    pub(crate) fn median(&self) -> Duration {
        let mut sorted = self.times.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    }
}

fn high_water_mark(status: &str) -> Option<u64> {
    let text = fs::read_to_string(status).ok()?;
    text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().strip_suffix(" kB")?.parse().ok()
}

/// Formats a time in seconds with three decimals.
pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64())
}
