//! One verb per file: its arguments and `run`, which translates, calls and renders.

pub(crate) mod change;
pub mod completion;
mod connections;
mod contexts;
mod elsewhere;
pub mod get;
pub mod inventory;
pub mod man;
pub mod owners;
pub mod plan;
pub mod prune;
mod resource_args;
pub mod resume;
mod select;
pub mod snapshot;
pub mod suspend;

use std::path::Path;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use tracing::Level;

use crate::cluster::Cluster;
use crate::cluster::config::args::ConnectionArgs;
use crate::error::{Error, Result};
use crate::exit::ExitCode;
use crate::output::sanitize::one_line;
use crate::output::terminal::Terminal;
use connections::Connections;
use gitops_core::kubernetes::gap::{AnswerGap, Gap, GapGroup};
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::plan::mask::SecretMask;
use gitops_core::text::pluralize;

/// Environment of a command: connections, output and time.
pub struct Session {
    pub connection: ConnectionArgs,
    pub terminal: Terminal,
    /// Time of the start, or that of a recording.
    pub now: DateTime<Utc>,
    /// Beginning of the warnings of this session's cluster.
    place: String,
    connections: Arc<Connections>,
}

impl Session {
    /// Begins a run without a connection.
    pub fn new(connection: ConnectionArgs, terminal: Terminal, now: DateTime<Utc>) -> Self {
        Self { connection, terminal, now, place: String::new(), connections: Arc::default() }
    }

    /// Returns the cluster of the connection flags. The first call connects, and fails if there is no usable configuration.
    pub async fn cluster(&self) -> Result<Cluster> {
        self.connections.get((self.place.clone(), None), &self.connection).await
    }

    /// Begins a part of the run that is about another context of the kubeconfig. This session prints its warnings.
    fn of_context(&self, context: &str) -> Self {
        let connection = ConnectionArgs { context: Some(context.to_owned()), ..self.connection.clone() };
        let (place, connections) = (format!("context {context}: "), self.connections.clone());
        Self { place, connections, ..Self::new(connection, Terminal::process(), self.now) }
    }

    /// Returns the cluster of another context. The first call connects, without the flags that are about the cluster of this
    /// run.
    pub(crate) async fn cluster_of(&self, context: &str) -> Result<Cluster> {
        let key = (String::new(), Some(context.to_owned()));
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
            let message = one_line(&gap.message);
            return Err(Error::failed(format!("nothing in this cluster can be read: {message}"))
                .hint("`kubectl auth can-i --list` shows your rights"));
        }
        Ok(snapshot)
    }

    /// Reads a recorded cluster, and sets the time to that of the recording. Fails if the file is no snapshot.
    pub fn recorded(&mut self, file: &Path) -> Result<Snapshot> {
        let snapshot = crate::tools::snapshot_file::read(file)?;
        self.now = snapshot.taken;
        Ok(snapshot)
    }

    /// Prints the warnings of the API servers since the last call, each text once. `main` calls it after every command.
    pub fn print_warnings(&mut self) {
        self.print_masked_warnings(&SecretMask::default());
    }

    /// Prints the warnings as [`Self::print_warnings`], without the values of Secrets.
    pub(crate) fn print_masked_warnings(&mut self, secrets: &SecretMask) {
        for warning in self.connections.take_warnings() {
            self.terminal.warning(&secrets.mask_values(&warning));
        }
    }

    /// Forgets the warnings since the last call: they may show values of Secrets that are not known.
    pub(crate) fn discard_warnings(&mut self) {
        self.connections.take_warnings();
    }

    /// Prints what could not be read, one line for each cause, and returns the exit code for it. `-v 1` prints each gap
    /// with its message.
    pub fn report_gaps(&mut self, gaps: &[Gap]) -> ExitCode {
        let gaps: Vec<AnswerGap> = gaps.iter().cloned().map(AnswerGap::from).collect();
        self.report_answer_gaps(&gaps)
    }

    /// Prints the gaps of an answer, which may be about several clusters, as [`Self::report_gaps`]. Those that cannot change
    /// the answer leave it complete.
    fn report_answer_gaps(&mut self, gaps: &[AnswerGap]) -> ExitCode {
        for group in GapGroup::of(gaps) {
            let first = group.first;
            if tracing::enabled!(Level::INFO) || (group.others.is_empty() && first.affects_answer) {
                let of_group = std::iter::once(first).chain(group.others);
                of_group.for_each(|gap| self.warn_of_gap(gap));
            } else if first.affects_answer {
                self.terminal.warning(&describe(&group));
            } else {
                self.terminal.status(&describe(&group));
            }
        }
        if gaps.iter().any(|gap| gap.affects_answer) { ExitCode::Partial } else { ExitCode::Done }
    }

    fn warn_of_gap(&mut self, answer_gap: &AnswerGap) {
        let AnswerGap { gap, .. } = answer_gap;
        let text = format!("{}{} could not be read: {}", gap.subject, place(answer_gap), gap.message);
        self.terminal.warning(&text);
    }
}

/// Number of types that one line names.
const NAMED: usize = 3;

/// Returns one line about gaps of one cause.
fn describe(group: &GapGroup<'_>) -> String {
    let first = group.first;
    let subjects: Vec<&str> = group.subjects().collect();
    let (what, names) = match &subjects[..] {
        [one] => ((*one).to_owned(), String::new()),
        several => (pluralize(several.len(), "type"), format!(": {}", several[..several.len().min(NAMED)].join(", "))),
    };
    let rest = if subjects.len() > NAMED { ", …" } else { "" };
    let part = first.gap.part_read().map(|part| format!("; read in {part}")).unwrap_or_default();
    let effect = if first.affects_answer { "" } else { "; this cannot change the answer" };
    let (place, cause) = (place(first), first.gap.kind.cause());
    let more = if subjects.len() == 1 { "-v 1 says more" } else { "-v 1 lists them" };
    format!("{what}{place} could not be read ({cause}{part}){names}{rest}{effect}; {more}")
}

/// Returns the namespace and the context of a gap, where it has any.
fn place(AnswerGap { context, gap, .. }: &AnswerGap) -> String {
    let mut place = String::new();
    for (what, name) in [("namespace", gap.namespace.as_deref()), ("context", context.as_deref())] {
        place.extend(name.map(|name| format!(" in {what} {name}")));
    }
    place
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
