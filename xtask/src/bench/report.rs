//! Prints a table for each size, and at the end each target with its result.

use std::fs;
use std::time::Duration;

use super::measure::{Contender, HEAD};
use super::server::Traffic;
use crate::answer;

/// Results at one size.
pub(crate) struct Stage {
    /// Number of created objects.
    pub objects: usize,
    pub types: usize,
    pub snapshot_bytes: u64,
    /// Load average before the first and after the last run.
    pub load: (String, String),
    /// Programs with their peak memory in KiB and their traffic.
    pub contenders: Vec<(Contender, (u64, Traffic))>,
}

impl Stage {
    fn median(&self, letter: char) -> f64 {
        let found = self.contenders.iter().find(|(contender, _)| contender.letter == letter);
        found.map_or(Duration::ZERO, |(contender, _)| contender.median()).as_secs_f64()
    }

    fn ratio(&self, letter: char, to: char) -> f64 {
        self.median(letter) / self.median(to)
    }

    fn peak_mib(&self, letter: char) -> f64 {
        let found = self.contenders.iter().find(|(contender, _)| contender.letter == letter);
        found.map_or(0.0, |(_, (peak, _))| *peak as f64 / 1024.0)
    }
}

/// Prints the table of a size.
pub(crate) fn stage(stage: &Stage) {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let (before, after) = &stage.load;
    answer(format!(
        "\n{} objects, {} types; {cores} cores ({}), load {before} before and {after} after",
        stage.objects,
        stage.types,
        processor()
    ));
    answer(format!("{HEAD}   lists       bytes  peak MiB"));
    for (contender, (peak, traffic)) in &stage.contenders {
        let peak = *peak as f64 / 1024.0;
        answer(format!("{} {:>7} {:>11} {peak:>9.1}", contender.row(), traffic.lists, traffic.bytes));
    }
}

/// Prints every target and its result.
pub(crate) fn targets(stages: &[Stage]) {
    let Some(last) = stages.last() else { return };
    let large = last.objects >= 100_000;
    answer("");
    target("time of d / a, the lists by curl in JSON", "at most 1.00", last.ratio('d', 'a'), |value| value <= 1.0);
    target("time of d / b, the lists by curl in protobuf", "at most 2.50", last.ratio('d', 'b'), |value| value <= 2.5);
    target("time of c / d, kubectl get of all types", "at least 8.00", last.ratio('c', 'd'), |value| value >= 8.0);
    let (bound, limit) = if large { ("below 200 MiB", 200.0) } else { ("below 64 MiB", 64.0) };
    target("peak memory of d in MiB", bound, last.peak_mib('d'), |value| value < limit);
    if !large {
        let megabytes = last.snapshot_bytes as f64 / 1e6;
        target("snapshot.json.gz in MB", "below 3", megabytes, |value| value < 3.0);
        target("get from a snapshot, whole process, in ms", "below 100", last.median('e') * 1e3, |value| value < 100.0);
    }
    if let [first, .., last] = stages {
        let size = last.objects as f64 / first.objects as f64;
        let growth = last.median('d') / first.median('d');
        let bound = format!("linear, at most {size:.1}");
        target("growth of d from the first size to the last", &bound, growth, |value| value <= size);
    }
}

/// Prints a target and its result.
pub(crate) fn target(what: &str, target: &str, reached: f64, met: impl Fn(f64) -> bool) {
    let result = if met(reached) { "met" } else { "MISSED" };
    answer(format!("target: {what:<48} {target:<22} reached {reached:>7.2}  {result}"));
}

/// Returns the load average of the last minute. Times of a busy machine are not reliable.
pub(crate) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name"));
    name.and_then(|name| name.split_once(": ")).map_or("unknown processor", |(_, name)| name).trim().to_owned()
}
