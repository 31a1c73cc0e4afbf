//! Progress on stderr: of builds, a line on a terminal; of deletions, a bar on a terminal, and plain lines elsewhere.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use dialoguer::console::measure_text_width;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::terminal::fits;

/// Time between two plain lines about the same object.
const REPEAT: Duration = Duration::from_secs(10);

/// Width of the counters before the text of a bar, as in `2/24 6s `; more with many objects or minutes.
const COUNTERS: usize = 12;

/// Time after which the progress of builds is shown.
const PATIENCE: Duration = Duration::from_secs(1);

/// A line with the number of builds, on a terminal, if they take a while.
pub struct BuildProgress {
    is_shown: bool,
    begin: Instant,
    bar: OnceLock<ProgressBar>,
}

impl BuildProgress {
    pub fn new(is_terminal: bool) -> Self {
        Self { is_shown: is_terminal && !is_dumb(), begin: Instant::now(), bar: OnceLock::new() }
    }

    /// Shows how many builds are done.
    pub fn show(&self, done: usize, all: usize) {
        if !self.is_shown || self.begin.elapsed() < PATIENCE {
            return;
        }
        let bar = self.bar.get_or_init(|| {
            let style = ProgressStyle::with_template("building {pos}/{len} {elapsed}").expect("the template is valid");
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style)
        });
        // More builds can follow, and before them a warning.
        if bar.is_finished() {
            bar.reset();
        }
        bar.set_length(all as u64);
        bar.set_position(done as u64);
        if done == all {
            bar.finish_and_clear();
        }
    }
}

impl Drop for BuildProgress {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}

/// Returns true if the terminal cannot move the cursor.
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term == "dumb")
}

/// A bar, or plain lines.
pub struct Progress {
    bar: Option<ProgressBar>,
    /// Line that was printed last, and when.
    last: Option<(String, Instant)>,
}

impl Progress {
    /// Begins with this number of steps. Without a terminal that can move the cursor, there is no bar.
    pub fn new(steps: usize, is_terminal: bool) -> Self {
        let bar = (is_terminal && !is_dumb()).then(|| {
            let style =
                ProgressStyle::with_template("{pos}/{len} {elapsed} {wide_msg}").expect("the template is valid");
            let bar = ProgressBar::with_draw_target(Some(steps as u64), ProgressDrawTarget::stderr()).with_style(style);
            bar.enable_steady_tick(Duration::from_millis(500));
            bar
        });
        Self { bar, last: None }
    }

    /// Shows what is waited for. Runs `print` where it does not fit behind the bar or where there is none: when the text
    /// changes, and from time to time.
    pub fn waiting(&mut self, text: &str, print: impl FnOnce()) {
        if let Some(bar) = &self.bar {
            bar.set_message(text.to_owned());
            if fits(COUNTERS + measure_text_width(text)) {
                return;
            }
        }
        let is_known = self.last.as_ref().is_some_and(|(last, printed)| last == text && printed.elapsed() < REPEAT);
        if is_known {
            return;
        }
        self.last = Some((text.to_owned(), Instant::now()));
        self.print(print);
    }

    /// Runs `print` while the bar is hidden.
    fn print(&self, print: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// Counts a step, and runs `print`.
    pub fn step(&mut self, print: impl FnOnce()) {
        self.print(print);
        if let Some(bar) = &self.bar {
            bar.inc(1);
            bar.set_message(String::new());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
