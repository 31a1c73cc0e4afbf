//! The figures, for people: one table for each size and, at the end, each target with what was reached.

use std::fs;
use std::time::Duration;

use super::measure::{Contender, HEAD};
use super::server::Traffic;
use crate::answer;

/// Everything measured at one size.
pub(crate) struct Stage {
    /// Objects that were seeded.
    pub objects: usize,
    pub types: usize,
    pub snapshot_bytes: u64,
    /// Load averages before and after.
    pub load: (String, String),
    /// Each with its most memory in KiB and the server's count.
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

/// Prints the table of one size.
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

/// Prints every target and what was reached.
pub(crate) fn targets(stages: &[Stage]) {
    let Some(last) = stages.last() else { return };
    let large = last.objects >= 100_000;
    answer("");
    line("time of d / a, the lists by curl in JSON", "at most 1.00", last.ratio('d', 'a'), |value| value <= 1.0);
    line("time of d / b, the lists by curl in protobuf", "at most 2.50", last.ratio('d', 'b'), |value| value <= 2.5);
    line("time of c / d, kubectl get of all types", "at least 8.00", last.ratio('c', 'd'), |value| value >= 8.0);
    let (bound, limit) = if large { ("below 200 MiB", 200.0) } else { ("below 64 MiB", 64.0) };
    line("peak memory of d in MiB", bound, last.peak_mib('d'), |value| value < limit);
    if !large {
        let megabytes = last.snapshot_bytes as f64 / 1e6;
        line("snapshot.json.gz in MB", "below 3", megabytes, |value| value < 3.0);
        line("snapshot read and shown, whole process, in ms", "below 100", last.median('e') * 1e3, |value| {
            value < 100.0
        });
    }
    if let [first, .., last] = stages {
        let size = last.objects as f64 / first.objects as f64;
        let growth = last.median('d') / first.median('d');
        let bound = format!("linear, at most {size:.1}");
        line("growth of d from the first size to the last", &bound, growth, |value| value <= size);
    }
}

fn line(what: &str, target: &str, reached: f64, met: impl Fn(f64) -> bool) {
    let verdict = if met(reached) { "met" } else { "MISSED" };
    answer(format!("target: {what:<48} {target:<22} reached {reached:>7.2}  {verdict}"));
}

/// The load average of the last minute: figures of a busy machine are to be taken with care.
pub(crate) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name"));
    name.and_then(|name| name.split_once(": ")).map_or("unknown processor", |(_, name)| name).trim().to_owned()
}
