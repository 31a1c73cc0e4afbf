//! Measures programs: their wall times in turn, and in separate runs the peak memory and what the server counts.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::report;
use crate::cluster::Cluster;

/// A command line that runs many times.
#[derive(Clone)]
pub(crate) struct Line {
    words: Vec<PathBuf>,
    environment: Vec<(&'static str, PathBuf)>,
    folder: PathBuf,
    /// Folder in which each run has an empty cache.
    caches: Option<PathBuf>,
}

impl Line {
    /// Returns the line of a program without arguments.
    pub(crate) fn new(program: impl Into<PathBuf>) -> Self {
        Self { words: vec![program.into()], environment: vec![], folder: ".".into(), caches: None }
    }

    /// Returns the line of a program that uses a cluster.
    pub(crate) fn of(program: &Path, cluster: &Cluster) -> Self {
        Self::new(program).and(["--kubeconfig".into(), cluster.kubeconfig()])
    }

    /// Adds arguments.
    pub(crate) fn and<T: AsRef<OsStr>>(mut self, words: impl IntoIterator<Item = T>) -> Self {
        self.words.extend(words.into_iter().map(|word| PathBuf::from(word.as_ref())));
        self
    }

    /// Sets a variable of the environment.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<PathBuf>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    /// Sets the working directory.
    pub(crate) fn inside(self, folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), ..self }
    }

    /// Gives each run an empty cache in this folder.
    pub(crate) fn cold(self, caches: PathBuf) -> Self {
        Self { caches: Some(caches), ..self }
    }

    /// Returns a command without input and output. Its messages are kept for an error.
    fn command(&self) -> Command {
        static COLD: AtomicUsize = AtomicUsize::new(0);
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).current_dir(&self.folder);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(caches) = &self.caches {
            command.env("XDG_CACHE_HOME", caches.join(COLD.fetch_add(1, Ordering::Relaxed).to_string()));
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    /// Runs the program and returns the wall time, including its start.
    pub(crate) fn run(&self) -> Result<Duration> {
        let start = Instant::now();
        let output = self.command().output().with_context(|| format!("cannot run {}", self.words[0].display()))?;
        let time = start.elapsed();
        if !output.status.success() {
            bail!("{:?} ended with {}: {}", self.words, output.status, String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(time)
    }

    /// Runs the program and returns what it prints.
    pub(crate) fn output(&self) -> Result<String> {
        let output = self.command().stdout(Stdio::piped()).output();
        let output = output.with_context(|| format!("cannot run {}", self.words[0].display()))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs the program and returns its peak resident memory in MiB. The run is not timed, because reading the memory takes
    /// time.
    pub(crate) fn peak(&self) -> Result<f64> {
        let mut child = self.command().stderr(Stdio::null()).spawn()?;
        let status = format!("/proc/{}/status", child.id());
        let mut peak = 0;
        while child.try_wait()?.is_none() {
            // The kernel keeps the maximum, so only the last millisecond of the process can be missed.
            peak = peak.max(high_water_mark(&status).unwrap_or_default());
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(peak as f64 / 1024.0)
    }
}

fn high_water_mark(status: &str) -> Option<u64> {
    let text = fs::read_to_string(status).ok()?;
    text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().strip_suffix(" kB")?.parse().ok()
}

/// A program to measure, and its wall times.
pub(crate) struct Contender {
    /// Letter of the program in ratios.
    pub letter: char,
    pub title: String,
    pub line: Line,
    /// Maximum number of runs.
    runs: usize,
    times: Vec<Duration>,
}

impl Contender {
    pub(crate) fn new(letter: char, title: impl Into<String>, line: Line) -> Self {
        Self { letter, title: title.into(), line, runs: usize::MAX, times: vec![] }
    }

    /// Runs it so often at most, because it takes seconds and varies little.
    pub(crate) fn at_most(self, runs: usize) -> Self {
        Self { runs, ..self }
    }
}

/// Wall times of programs, and the load average before the first run and after the last one.
pub(crate) struct Times {
    pub contenders: Vec<Contender>,
    load: [String; 2],
}

impl Times {
    /// Runs the programs in turn, so that a slow minute affects all of them. The first run of each one fills the caches of the
    /// server and of the program, and is not counted.
    pub(crate) fn measure(contenders: Vec<Contender>, rounds: usize) -> Result<Self> {
        contenders.iter().try_for_each(|contender| contender.line.run().map(drop))?;
        Self::measure_prepared(contenders, rounds, || Ok(()))
    }

    /// Runs the programs in turn, and `prepare` before each run.
    pub(crate) fn measure_prepared(
        mut contenders: Vec<Contender>,
        rounds: usize,
        mut prepare: impl FnMut() -> Result<()>,
    ) -> Result<Self> {
        ensure!(rounds > 0, "a benchmark needs a round");
        let before = report::load();
        for _ in 0..rounds {
            for contender in contenders.iter_mut().filter(|contender| contender.times.len() < contender.runs) {
                prepare()?;
                contender.times.push(contender.line.run()?);
            }
        }
        contenders.iter_mut().for_each(|contender| contender.times.sort_unstable());
        Ok(Self { contenders, load: [before, report::load()] })
    }

    /// Returns the median of a program in seconds.
    pub(crate) fn median(&self, letter: char) -> f64 {
        let found = self.contenders.iter().find(|contender| contender.letter == letter);
        found.map_or(f64::NAN, |contender| contender.times[contender.times.len() / 2].as_secs_f64())
    }

    /// Returns the title of the table: what was measured, and the load.
    pub(crate) fn title(&self, what: &str) -> String {
        format!("\n{what}; load {} before and {} after", self.load[0], self.load[1])
    }

    /// Returns the header of the table, and a row for each program.
    pub(crate) fn rows(&self) -> (String, Vec<String>) {
        let width = self.contenders.iter().map(|contender| contender.title.len()).max().unwrap_or_default();
        let rows = self.contenders.iter().map(|Contender { letter, title, times, .. }| {
            let [min, median, max] =
                [0, times.len() / 2, times.len() - 1].map(|at| format!("{:.3}", times[at].as_secs_f64()));
            format!("{letter}  {title:<width$} {:>5} {min:>7} {median:>9} {max:>7}", times.len())
        });
        (format!("   {:width$}  runs   min s  median s   max s", ""), rows.collect())
    }
}
