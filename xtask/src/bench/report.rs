//! Prints tables of times, and each target with its result.

use std::fs;

use super::measure::Times;
use crate::answer;

/// Prints a table of times.
pub(crate) fn table(what: &str, times: &Times) {
    let (head, rows) = times.rows();
    answer(times.title(what));
    answer(head);
    rows.into_iter().for_each(answer);
    answer("");
}

/// Prints a target and its result.
pub(crate) fn target(what: &str, target: &str, reached: f64, is_met: bool) {
    let result = if is_met { "met" } else { "MISSED" };
    answer(format!("target: {what:<48} {target:<22} reached {reached:>7.2}  {result}"));
}

/// Prints a target that is a maximum.
pub(crate) fn at_most(what: &str, limit: f64, reached: f64) {
    target(what, &format!("at most {limit:.2}"), reached, reached <= limit);
}

/// Returns the load average of the last minute. Times of a busy machine are not reliable.
pub(crate) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

/// Returns the number and the name of the processors.
pub(crate) fn processors() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name"));
    let name = name.and_then(|name| name.split_once(": ")).map_or("unknown processor", |(_, name)| name);
    format!("{cores} cores ({})", name.trim())
}
