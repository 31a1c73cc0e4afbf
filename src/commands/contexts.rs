//! Several clusters in one answer: the contexts that `--contexts` and `--all-contexts` select, read in parallel.

use clap::Args;
use futures::stream::{self, StreamExt};

use super::Session;
use crate::cluster::Environment;
use crate::cluster::config::args::ConnectionArgs;
use crate::cluster::config::kubeconfig;
use crate::error::{Error, Result};
use crate::exit::ExitCode;
use crate::output::format::Format;
use gitops_core::kubernetes::gap::{Gap, GapKind};

/// Number of clusters that are read at the same time. Each is held in memory until its rows are known.
pub(super) const CLUSTERS_AT_ONCE: usize = 8;

/// Selection of several clusters.
#[derive(Args, Clone, Debug, Default)]
pub struct ContextsArgs {
    /// Read the clusters of these contexts of the kubeconfig, in this order
    #[arg(long, value_name = "NAME[,NAME…]", value_delimiter = ',', conflicts_with = "snapshot")]
    pub contexts: Vec<String>,
    /// Read the clusters of all contexts of the kubeconfig
    #[arg(long, conflicts_with_all = ["contexts", "snapshot"])]
    pub all_contexts: bool,
}

impl ContextsArgs {
    /// Returns the names of the contexts; `None` for the one cluster of the connection flags.
    ///
    /// # Errors
    /// If a context is unknown or listed twice, or if another argument is about one cluster.
    pub(super) fn names(&self, connection: &ConnectionArgs, output: Format) -> Result<Option<Vec<String>>> {
        if self.contexts.is_empty() && !self.all_contexts {
            return Ok(None);
        }
        let flag = if self.all_contexts { "--all-contexts" } else { "--contexts" };
        if let Some(other) = connection.flag_of_one_cluster() {
            return Err(Error::usage(format!("{other} is about one cluster, {flag} about several"))
                .hint(format!("leave {other} out: the contexts of the kubeconfig have it")));
        }
        if output == Format::Name {
            return Err(Error::usage(format!(
                "-o name does not say in which cluster an object is, so {flag} rejects it"
            ))
            .hint("use -o json, -o yaml or -o wide, which have the context of each object"));
        }
        let known = kubeconfig::names(connection, &Environment::process())?.contexts;
        if self.all_contexts {
            if known.is_empty() {
                return Err(Error::failed("the kubeconfig has no contexts")
                    .hint("name a file with --kubeconfig or KUBECONFIG, or put one at ~/.kube/config"));
            }
            return Ok(Some(known));
        }
        for (at, name) in self.contexts.iter().enumerate() {
            if self.contexts[..at].contains(name) {
                return Err(Error::usage(format!("context {name:?} is listed twice"))
                    .hint("name each context once: its objects would appear twice"));
            }
            if !known.contains(name) {
                return Err(Error::usage(format!("context was not found for specified context: {name}"))
                    .hint(kubeconfig::suggestion("context", name, known.iter().map(String::as_str))));
            }
        }
        Ok(Some(self.contexts.clone()))
    }
}

/// Answer of each cluster, by context.
pub(super) type ContextAnswers<T> = Vec<(String, Result<T, Gap>)>;

/// Reads several clusters in parallel. A cluster that cannot be read is a gap.
///
/// # Errors
/// If no cluster can be read.
pub(super) async fn read_each<T>(
    contexts: Vec<String>,
    session: &mut Session,
    read: impl AsyncFn(&mut Session) -> Result<T>,
) -> Result<ContextAnswers<T>> {
    let whole = &*session;
    let requests = contexts.into_iter().map(async |context| {
        let answer = read(&mut whole.of_context(&context)).await;
        (context, answer)
    });
    let answers: Vec<(String, Result<T>)> = stream::iter(requests).buffered(CLUSTERS_AT_ONCE).collect().await;
    if answers.iter().any(|(_, answer)| answer.is_ok()) {
        return Ok(answers.into_iter().map(|(context, answer)| (context, answer.map_err(gap))).collect());
    }
    let errors =
        answers.into_iter().filter_map(|(context, answer)| Some((format!("context {context}"), answer.err()?)));
    Err(failure_of_all(errors.collect(), "could be read", session))
}

/// Returns the gap of a cluster without an answer.
pub(super) fn gap(error: Error) -> Gap {
    Gap { kind: GapKind::Failed, subject: "cluster".to_owned(), namespace: None, message: error.message }
}

/// Returns one error for clusters of which none has an answer: `none of 3 clusters could be read`. Prints their messages if
/// these differ.
pub(super) fn failure_of_all(mut errors: Vec<(String, Error)>, outcome: &str, session: &mut Session) -> Error {
    let is_same = errors.iter().all(|(_, error)| error.message == errors[0].1.message);
    if is_same && let Some((_, error)) = errors.pop() {
        return error;
    }
    let is_usage = errors.iter().all(|(_, error)| error.exit == ExitCode::Usage);
    for (name, error) in &errors {
        session.terminal.status(&format!("{name}: {}", error.message));
    }
    let message = format!("none of {} clusters {outcome}", errors.len());
    if is_usage { Error::usage(message) } else { Error::failed(message) }
}
