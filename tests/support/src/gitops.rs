//! Runs of the built binary.

use std::fmt::{self, Display, Write as _};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

pub use assert_cmd::Command;
use xtask::cluster::Cluster;

use crate::schemas;

/// Limit of one run. Some tests delete hundreds of objects on a slow machine.
const LIMIT: Duration = Duration::from_secs(600);

/// Output and exit code of a run of the binary.
#[derive(Debug)]
pub struct Run {
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Run {
    /// Runs a command to its end.
    #[track_caller]
    pub fn of(command: &mut Command) -> Self {
        Self::from(command.output().expect("the program starts"))
    }
}

impl Run {
    /// The same with a placeholder for what differs from run to run, such as a port or a folder.
    pub fn with(self, placeholder: &str, text: impl Display) -> Self {
        let text = text.to_string();
        Self {
            code: self.code,
            stdout: self.stdout.replace(&text, placeholder),
            stderr: self.stderr.replace(&text, placeholder),
        }
    }
}

impl Run {
    /// The same without the warning that a recording is old, which depends on the day.
    #[must_use]
    pub fn without_age(self) -> Self {
        Self { stderr: xtask::demo::without_age(&self.stderr), ..self }
    }
}

impl Display for Run {
    /// Everything that a snapshot compares.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "exit code {}", self.code)?;
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !text.is_empty() {
                write!(f, "--- {name}\n{text}")?;
            }
        }
        Ok(())
    }
}

/// Several runs as one text for a snapshot.
#[derive(Debug, Default)]
pub struct Transcript(String);

impl Transcript {
    /// Adds a run under the name of its case.
    pub fn add(&mut self, case: &str, run: &Run) {
        let _ = writeln!(self.0, "=== {case}\n{run}");
    }
}

impl Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Output> for Run {
    #[track_caller]
    fn from(output: Output) -> Self {
        let stdout = String::from_utf8(output.stdout.clone()).expect("standard output is text");
        schemas::check_output(&stdout);
        Self {
            code: output.status.code().unwrap_or_else(|| panic!("ended by a signal, or not at all: {output:?}")),
            stdout,
            stderr: String::from_utf8(output.stderr).expect("standard error is text"),
        }
    }
}

/// The path of the built binary.
pub fn binary() -> PathBuf {
    assert_cmd::cargo::cargo_bin("kubectl-gitops")
}

/// A command of the built binary, which is stopped when it takes too long.
pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(args).timeout(LIMIT);
    command
}

/// A command of the built binary that cannot write more than this many KiB to a file, as on a full disk.
pub fn command_on_full_disk(kibibytes: u32, args: &[&str]) -> std::process::Command {
    limited("trap '' XFSZ; ", kibibytes, args)
}

/// A command of the built binary that the kernel kills when it writes more than this many KiB to a file.
pub fn command_killed_in_a_write(kibibytes: u32, args: &[&str]) -> std::process::Command {
    limited("", kibibytes, args)
}

fn limited(before: &str, kibibytes: u32, args: &[&str]) -> std::process::Command {
    let script = format!("{before}ulimit -c 0; ulimit -f {kibibytes}; exec \"$0\" \"$@\"");
    let mut command = std::process::Command::new("bash");
    command.args(["-c", &script]).arg(binary()).args(args);
    command
}

/// Runs the binary against a cluster as its admin, without a terminal.
pub fn gitops(cluster: &Cluster, args: &[&str]) -> Run {
    gitops_as(&cluster.kubeconfig(), args)
}

/// Runs the binary with a kubeconfig, without a terminal.
pub fn gitops_as(kubeconfig: &Path, args: &[&str]) -> Run {
    Run::of(command(args).env("KUBECONFIG", kubeconfig))
}

/// Runs the binary without any kubeconfig, with `home` as home folder.
pub fn gitops_without_kubeconfig(home: &Path, args: &[&str]) -> Run {
    Run::of(command(args).env_remove("KUBECONFIG").env("HOME", home).env_remove("XDG_CACHE_HOME"))
}

/// Runs the binary on a terminal of its own and types `answer` once it has had time to ask.
pub fn gitops_typing(cluster: &Cluster, args: &[&str], answer: &str) -> Run {
    gitops_typing_on(cluster, 80, args, answer)
}

/// Runs the binary as [`gitops_typing`], on a terminal of this width.
pub fn gitops_typing_on(cluster: &Cluster, columns: usize, args: &[&str], answer: &str) -> Run {
    let words: Vec<String> = args.iter().map(|word| format!("'{word}'")).collect();
    let line = format!(
        "(sleep 3; printf '{answer}'; sleep 1) | script -qec \"stty rows 24 cols {columns}; '{}' {}\" /dev/null",
        binary().display(),
        words.join(" ")
    );
    // The shell and `script` of util-linux.
    Run::of(Command::new("sh").args(["-c", &line]).env("KUBECONFIG", cluster.kubeconfig()).timeout(LIMIT))
}

/// Returns an answer in which the lines that say what is planned have no path, time and revision.
pub fn without_subject(answer: impl std::fmt::Display) -> String {
    let text = answer.to_string();
    let known = text.lines().map(|line| {
        let beginning = ["planning", "plan of"].into_iter().find(|word| line.starts_with(&format!("{word} ")));
        beginning.map_or_else(|| line.to_owned(), |word| format!("{word} SUBJECT"))
    });
    known.collect::<Vec<_>>().join("\n")
}
