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
use clap::CommandFactory;

use crate::cli::Cli;
use crate::cluster::Cluster;
use crate::cluster::config::args::ConnectionArgs;
use crate::error::{Error, Result};
use crate::exit::ExitCode;
use crate::output::sanitize::one_line;
use crate::output::terminal::Terminal;
use connections::Connections;
use gitops_core::kubernetes::gap::{AnswerGap, Gap};
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::plan::mask::SecretMask;

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

    /// Prints reads that failed as warnings, and returns the exit code for them.
    pub fn report_gaps(&mut self, gaps: &[Gap]) -> ExitCode {
        gaps.iter().for_each(|gap| self.warn_of_gap(None, gap));
        if gaps.is_empty() { ExitCode::Done } else { ExitCode::Partial }
    }

    /// Prints the gaps of an answer, which may be about several clusters, as [`Self::report_gaps`].
    fn report_answer_gaps(&mut self, gaps: &[AnswerGap]) -> ExitCode {
        gaps.iter().for_each(|AnswerGap { context, gap }| self.warn_of_gap(context.as_deref(), gap));
        if gaps.is_empty() { ExitCode::Done } else { ExitCode::Partial }
    }

    fn warn_of_gap(&mut self, context: Option<&str>, gap: &Gap) {
        let mut place = String::new();
        for (what, name) in [("namespace", gap.namespace.as_deref()), ("context", context)] {
            place.extend(name.map(|name| format!(" in {what} {name}")));
        }
        let text = format!("{}{place} could not be read: {}", gap.subject, gap.message);
        self.terminal.warning(&text);
    }
}

/// Prints the connection options.
pub fn options(session: &mut Session) -> Result<ExitCode> {
    let mut root = Cli::command()
        .disable_help_flag(true)
        .disable_version_flag(true)
        .help_template("The following options can be passed to any command:\n\n{options}\n");
    session.terminal.raw(&root.render_help().to_string())?;
    Ok(ExitCode::Done)
}

/// Prints the version. Fails if standard output cannot be written.
pub fn version(session: &mut Session) -> Result<ExitCode> {
    session.terminal.raw(concat!("kubectl-gitops ", env!("CARGO_PKG_VERSION"), "\n"))?;
    Ok(ExitCode::Done)
}
