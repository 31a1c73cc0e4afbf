//! One verb per file: its arguments and `run`, which translates, calls and renders.

pub(crate) mod change;
pub mod completion;
mod connections;
mod contexts;
mod elsewhere;
pub mod get;
pub mod guard;
pub mod inventory;
pub mod man;
pub mod mcp;
pub mod owners;
pub mod plan;
pub mod prune;
mod resource_args;
pub mod resume;
mod select;
pub mod snapshot;
pub mod steps;
pub mod suspend;

use std::path::Path;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use tracing::Level;

use crate::cluster::Cluster;
use crate::cluster::config::args::ConnectionArgs;
use crate::error::{Error, Result};
use crate::exit::ExitCode;
use crate::name::Subject;
use crate::output::gaps;
use crate::output::terminal::{Messages, Terminal};
use crate::output::text::duration::human;
use crate::output::text::sanitize::one_line;
use connections::Connections;
use gitops_core::kubernetes::gap::{AnswerGap, Gap, GapGroup};
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::plan::mask::SecretMask;
use gitops_core::text::shell_word;

/// Environment of a command: connections, output and time.
pub struct Session {
    pub connection: ConnectionArgs,
    pub terminal: Terminal,
    /// Time of the start, or that of a recording.
    pub now: DateTime<Utc>,
    /// Beginning of the warnings of this session's cluster.
    place: String,
    connections: Arc<Connections>,
    /// Hints that stand below the answer.
    hints: Vec<String>,
}

impl Session {
    /// Begins a run without a connection.
    pub fn new(connection: ConnectionArgs, mut terminal: Terminal, now: DateTime<Utc>) -> Self {
        terminal.set_subject(Subject::Cluster(connection.of_same_cluster()));
        Self { connection, terminal, now, place: String::new(), connections: Arc::default(), hints: vec![] }
    }

    /// Returns the cluster of the connection flags. The first call connects, and fails if there is no usable configuration.
    pub async fn cluster(&self) -> Result<Cluster> {
        self.connections.get(self.key(), &self.connection).await
    }

    /// Begins a part of the run that is about another context of the kubeconfig. This session prints its warnings.
    fn of_context(&self, context: &str) -> Self {
        let connection = ConnectionArgs { context: Some(context.to_owned()), ..self.connection.clone() };
        let (place, connections) = (place_of(context), self.connections.clone());
        Self { place, connections, ..Self::new(connection, Terminal::process(), self.now) }
    }

    /// Begins a part of the run that is about one of several clusters, and whose messages are collected.
    pub(crate) fn collecting(&self, name: &str) -> (Self, Messages) {
        let (terminal, collected) = self.terminal.collecting();
        let part = Self { terminal, ..self.of_context(name) };
        self.connections.reserve(part.key());
        (part, collected.messages)
    }

    /// Returns the key of the cluster of the connection flags.
    fn key(&self) -> connections::Key {
        (self.place.clone(), self.connection.context.clone().filter(|_| self.is_part()))
    }

    /// Returns true for a part of a run that is about several clusters.
    pub(crate) fn is_part(&self) -> bool {
        !self.place.is_empty()
    }

    /// Returns the cluster of another context. The first call connects, without the flags that are about the cluster of this
    /// run. A cluster that is a part of this run too is connected to once, unless the run acts as somebody else there.
    pub(crate) async fn cluster_of(&self, context: &str) -> Result<Cluster> {
        let (name, part) = (Some(context.to_owned()), place_of(context));
        let of_part = (part, name.clone());
        let is_shared = !self.connection.impersonates() && self.connections.has(&of_part);
        let key = if is_shared { of_part } else { (String::new(), name) };
        self.connections.get(key, &self.connection.of_context(context)).await
    }

    /// Returns the snapshot in a file, or reads the whole cluster. Fails if nothing can be read.
    pub async fn snapshot(&mut self, file: Option<&Path>) -> Result<Snapshot> {
        if let Some(file) = file {
            return self.recorded(file);
        }
        self.snapshot_of(&self.cluster().await?).await
    }

    /// Reads a whole cluster. Fails if nothing in it can be read.
    pub async fn snapshot_of(&self, cluster: &Cluster) -> Result<Snapshot> {
        let snapshot = cluster.snapshot(self.now).await?;
        if let (true, Some(gap)) = (snapshot.objects.is_empty(), snapshot.gaps.first()) {
            let (message, namespace) = (one_line(&gap.message), &cluster.namespace);
            // Where the whole cluster may not be read, one namespace was tried.
            return Err(Error::failed(format!(
                "nothing can be read, in the whole cluster or in namespace {namespace}: {message}"
            ))
            .hint("pass -n with a namespace that you may read; `kubectl auth can-i --list` shows your rights"));
        }
        Ok(snapshot)
    }

    /// Gives the commands of hints the flag of the recording that this run reads.
    pub fn name_recording(&mut self, file: &Path) {
        let flags = format!(" --snapshot {}", shell_word(&file.display().to_string()));
        self.terminal.set_subject(Subject::Snapshot(flags));
    }

    /// Reads a recorded cluster, and sets the time to that of the recording. Warns if it is more than a day old. Fails if the
    /// file is no snapshot.
    pub fn recorded(&mut self, file: &Path) -> Result<Snapshot> {
        let snapshot = crate::tools::snapshot_file::read(file)?;
        self.name_recording(file);
        let now = std::mem::replace(&mut self.now, snapshot.taken);
        let age = now - snapshot.taken;
        if age > TimeDelta::days(1) {
            let warning = format!("the snapshot is {} old; the answer ignores later changes", human(age));
            self.terminal.warning(&warning);
            self.terminal.hint("record a new one with `kubectl gitops snapshot FILE`");
        }
        Ok(snapshot)
    }

    /// Prints the warnings of the API servers since the last call, each text once. `main` calls it after every command.
    pub fn print_warnings(&mut self) {
        self.print_masked_warnings(&[]);
    }

    /// Prints the warnings as [`Self::print_warnings`], without the values of the Secrets of each cluster.
    pub(crate) fn print_masked_warnings(&mut self, secrets: &[SecretMask]) {
        for warning in self.connections.take_warnings() {
            let masked = secrets.iter().fold(warning, |text, secrets| secrets.mask_values(&text));
            self.terminal.warning(&masked);
        }
    }

    /// Forgets the warnings since the last call: they may show values of Secrets that are not known.
    pub(crate) fn discard_warnings(&mut self) {
        self.connections.take_warnings();
    }

    /// Keeps a hint until [`Self::print_hints`], when the answer has been printed.
    pub(crate) fn hint_below(&mut self, hint: String) {
        self.hints.push(hint);
    }

    pub(crate) fn print_hints(&mut self) {
        std::mem::take(&mut self.hints).iter().for_each(|hint| self.terminal.hint(hint));
    }

    /// Prints what could not be read, one line for each cause, and returns the exit code for it. `-v 1` prints each gap
    /// with its message.
    pub fn report_gaps(&mut self, gaps: &[Gap]) -> ExitCode {
        let gaps: Vec<AnswerGap> = gaps.iter().cloned().map(AnswerGap::from).collect();
        self.report_answer_gaps(&gaps, false)
    }

    /// Prints the gaps of an answer, which may be about several clusters, as [`Self::report_gaps`]. Those that cannot change
    /// the answer leave it complete. With `is_told`, the reader has seen the others in the answer.
    fn report_answer_gaps(&mut self, gaps: &[AnswerGap], is_told: bool) -> ExitCode {
        let mut groups = GapGroup::of(gaps);
        groups.sort_by_key(|group| !group.first.affects_answer);
        for group in groups {
            let (first, named) = (group.first, gaps::unread(&group, gaps::NAMED));
            if tracing::enabled!(Level::INFO) {
                group.gaps().for_each(|gap| self.warn_of_gap(gap));
            } else if !first.affects_answer {
                let more = if group.others.is_empty() { "says more" } else { "lists them" };
                self.terminal.status(&format!("{named}; this cannot change the answer; -v 1 {more}"));
            } else if is_told {
                // The answer has them.
            } else if group.others.is_empty() {
                self.warn_of_gap(first);
            } else {
                let more =
                    if group.has_one_message() && group.others.len() < gaps::NAMED { "" } else { "; -v 1 lists them" };
                self.terminal.warning(&format!("{named}{more}"));
            }
        }
        if gaps.iter().any(|gap| gap.affects_answer) { ExitCode::Partial } else { ExitCode::Done }
    }

    fn warn_of_gap(&mut self, answer_gap: &AnswerGap) {
        let AnswerGap { gap, .. } = answer_gap;
        let text = format!("{}{} {}: {}", gap.subject, gaps::place(answer_gap), gap.predicate(1), gap.message);
        self.terminal.warning(&text);
    }
}

/// Returns the beginning of the warnings of a context.
fn place_of(context: &str) -> String {
    format!("context {context}: ")
}

/// Prints the connection options, which are those of the root command. Fails if standard output cannot be written.
pub fn options(session: &mut Session, root: clap::Command) -> Result<ExitCode> {
    let mut options = root
        .disable_help_flag(true)
        .disable_version_flag(true)
        .help_template("The following options can be passed to any command:\n\n{options}\n");
    session.terminal.raw(&options.render_help().to_string())?;
    Ok(ExitCode::Done)
}

/// Prints the version. Fails if standard output cannot be written.
pub fn version(session: &mut Session) -> Result<ExitCode> {
    session.terminal.raw(concat!("kubectl-gitops ", env!("CARGO_PKG_VERSION"), "\n"))?;
    Ok(ExitCode::Done)
}
