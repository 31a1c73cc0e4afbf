//! Arguments of `inventory`.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use chrono::{DateTime, NaiveDate};
use clap::Args;

use crate::commands::Session;
use crate::commands::contexts::ContextsArgs;
use crate::output::format::{self, Format, Render};
use gitops_core::ownership::SYSTEMS;
use gitops_core::ownership::report::{InventoryDocument, Question};

/// Show what manages the cluster's objects, and what is leaked or orphaned
///
/// Without arguments, inventory lists every owner with the number of its objects. With an owner, it lists the objects of
/// that owner and their state. The flags list objects that are leaked (labelled by a live owner that does not list them),
/// orphaned (their owner does not exist), contested (several owners claim them), or managed by nothing.
/// --why is complete if nothing that could not be read can hold an owner of the object.
///
/// qbec and Flux v1 keep no inventory, only labels. --by qbec groups objects by application, environment, tag and
/// component, and separates copied labels from genuine ones. --by flux-v1 shows the status of each mark: synced (from the
/// source of a fluxd in this cluster), drifted (from an earlier configuration, with another form of the URL, branch master
/// or main, or other paths), copied, malformed, from an unknown source, or under the key of old versions. To find synced
/// objects that are in no manifest any more, give the manifests to `kubectl gitops prune`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:
  kubectl gitops inventory                                   # every owner
  kubectl gitops inventory -n flux-system kustomization/web  # its objects
  kubectl gitops inventory -n shop --why deployment/web      # its owner",
    after_long_help = "Examples:
  # One owner's objects, as a tree down to Pods; objects with labels of Flux v1
  kubectl gitops inventory -o tree flux-system/kustomization/apps
  kubectl gitops inventory --by flux-v1 -o wide

  # Objects that their owner will never prune, here and in all clusters
  kubectl gitops inventory --leaked --kind deployments,statefulsets -l team=shop
  kubectl gitops inventory --leaked --all-contexts

  # Objects of Helm releases; objects that owners in a hub apply to this cluster
  kubectl gitops inventory --by helm --read-secrets
  kubectl gitops inventory --owner-context hub --read-secrets

  # A check for CI: code 3 if an object is leaked that the file does not accept
  kubectl gitops inventory --leaked --ignore accepted.yaml --detailed-exitcode

  # What owns one object, and the evidence; what deleted one, by the history
  kubectl gitops inventory -n shop --why deployment/web
  kubectl gitops inventory -n shop --why-gone deployment/web --repo ."
)]
pub struct InventoryArgs {
    /// Owners to show, as KIND/NAME, KIND NAME or NAMESPACE/KIND/NAME
    #[arg(value_name = "OWNER")]
    pub owners: Vec<String>,
    #[arg(long, value_name = "SYSTEM", help = format!("Limit to owners of SYSTEM: {}", SYSTEMS.join(", ")))]
    pub by: Option<String>,
    /// List objects with the labels of a live owner that does not list them: their system will never prune them
    #[arg(long, group = "question")]
    pub leaked: bool,
    /// List objects whose owner does not exist
    #[arg(long, group = "question")]
    pub orphaned: bool,
    /// List contested objects: several owners claim them
    #[arg(long, group = "question")]
    pub conflicts: bool,
    /// List objects that nothing manages, except those that Kubernetes itself creates
    #[arg(long, group = "question")]
    pub unmanaged: bool,
    /// Explain one object: TYPE/NAME, or TYPE NAME, in the namespace of -n
    #[arg(long, group = "question", value_name = "TYPE/NAME", num_args = 1..=2, conflicts_with = "owners")]
    pub why: Vec<String>,
    /// Explain what deleted an object, by the history of --repo
    #[arg(
        long,
        group = "question",
        value_name = "TYPE/NAME",
        num_args = 1..=2,
        conflicts_with_all = ["owners", "by", "kinds", "selector", "read_secrets", "owner_context", "ignore", "detailed_exitcode"]
    )]
    pub why_gone: Vec<String>,
    #[command(flatten)]
    pub history: HistoryArgs,
    /// Show only objects of these kinds (TYPE[,TYPE…]), and count the hidden ones
    #[arg(long = "kind", value_name = "TYPE", value_delimiter = ',', conflicts_with = "why")]
    pub kinds: Vec<String>,
    /// Show only existing objects that match this label selector, and count the hidden ones
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "why")]
    pub selector: Option<String>,
    /// Read the records of Helm releases, which are Secrets, to list the objects of each release
    ///
    /// Only the identities of these objects are kept. Nothing else in a Secret is kept or shown.
    #[arg(long, conflicts_with = "snapshot")]
    pub read_secrets: bool,
    /// Read owners from the cluster of CONTEXT too: a hub whose owners apply to this cluster
    ///
    /// Kustomizations, HelmReleases and Applications with the address of this cluster count as its owners. The others are
    /// remote and not checked. Add --read-secrets to read the addresses in kubeConfig Secrets.
    #[arg(long, value_name = "CONTEXT", conflicts_with = "snapshot")]
    pub owner_context: Option<String>,
    /// Leave out findings that the YAML file FILE accepts, with its reasons
    #[arg(long, value_name = "FILE", requires = "question", conflicts_with = "why", hide_short_help = true)]
    pub ignore: Option<PathBuf>,
    /// Exit with code 3 if there are findings
    #[arg(long, requires = "question", conflicts_with = "why", hide_short_help = true)]
    pub detailed_exitcode: bool,
    #[command(flatten)]
    pub clusters: ContextsArgs,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = format::parser(InventoryDocument::PARTS))]
    pub output: Format,
    /// Print tables without a header line
    #[arg(long, hide_short_help = true)]
    pub no_headers: bool,
    /// Read the recorded cluster in FILE instead of a live one
    #[arg(long, value_name = "FILE")]
    pub snapshot: Option<PathBuf>,
}

/// Flags of `--why-gone`: the checkout, and the part of its history.
#[derive(Args, Clone, Debug)]
pub struct HistoryArgs {
    /// Checkout with the history that --why-gone searches; the current directory when absent
    #[arg(long, value_name = "DIR", requires = "why_gone", hide_short_help = true)]
    pub repo: Option<PathBuf>,
    /// Search the history of DIR as that of a source, as KIND/NAMESPACE/NAME=DIR
    #[arg(long, value_name = "SOURCE=DIR", requires = "why_gone", hide_short_help = true)]
    pub source: Vec<String>,
    /// Branch that is deployed, if there are several
    #[arg(long, value_name = "BRANCH", requires = "why_gone", hide_short_help = true)]
    pub branch: Option<String>,
    /// Search no commits before DATE: 2026-11-01, or a time of RFC 3339
    #[arg(long, value_name = "DATE", requires = "why_gone", hide_short_help = true, value_parser = since)]
    pub since: Option<String>,
    /// Search at most N commits; a merge counts as one
    #[arg(
        long,
        value_name = "N",
        default_value_t = 300,
        value_parser = max_commits,
        requires = "why_gone",
        hide_short_help = true
    )]
    pub max_commits: u32,
    /// Time for the search
    #[arg(
        long,
        value_name = "TIME",
        default_value = "5m",
        requires = "why_gone",
        hide_short_help = true,
        value_parser = crate::cluster::config::args::duration
    )]
    pub search_timeout: Duration,
    /// Program to build with, instead of the kubectl on PATH
    #[arg(long, value_name = "PATH", requires = "why_gone", hide_short_help = true)]
    pub kustomize: Option<PathBuf>,
}

fn max_commits(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=100_000).contains(number));
    number.ok_or_else(|| "it must be a number from 1 to 100000".to_owned())
}

/// Parses a date, or a time in RFC 3339. Git takes any text for a date, and a date for the present time on that day.
fn since(text: &str) -> Result<String, String> {
    let is_time = DateTime::parse_from_rfc3339(text).is_ok();
    let midnight = NaiveDate::from_str(text).map(|day| format!("{day}T00:00:00Z"));
    if is_time {
        Ok(text.to_owned())
    } else {
        midnight.map_err(|_| "it must be a date or a time, such as 2026-11-01 or 2026-11-01T12:00:00Z".to_owned())
    }
}

impl InventoryArgs {
    /// Returns the question about objects that a flag asks.
    pub(super) fn question(&self) -> Option<Question> {
        let questions = [
            (self.leaked, Question::Leaked),
            (self.orphaned, Question::Orphaned),
            (self.conflicts, Question::Conflicts),
            (self.unmanaged, Question::Unmanaged),
        ];
        questions.into_iter().find(|(is_asked, _)| *is_asked).map(|(_, question)| question)
    }

    /// Returns true if the arguments select owners, by name, system or namespace.
    pub(super) fn selects_owners(&self, session: &Session) -> bool {
        !self.owners.is_empty() || self.by.is_some() || session.connection.namespace.is_some()
    }

    /// Returns true if the arguments select a part of the findings.
    pub(super) fn is_limited(&self, session: &Session) -> bool {
        self.selects_owners(session) || !self.kinds.is_empty() || self.selector.is_some()
    }
}
