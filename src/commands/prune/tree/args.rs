//! Flags of `prune --plan` that are about a working tree.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use crate::commands::prune::spokes::Spoke;
use crate::error::{Error, Result};
use crate::tools::git::WorktreeState;
use gitops_core::text::shell_word;

/// Heading of the flags of a working tree.
pub const WORKING_TREE: &str = "Working tree";

/// Flags of a working tree.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = WORKING_TREE)]
pub struct TreeArgs {
    /// Plan what Flux will do once this checkout is merged
    #[arg(long, value_name = "DIR")]
    pub repo: Option<PathBuf>,
    #[command(flatten)]
    pub options: TreeOptions,
}

/// Flags of a working tree, apart from its directory.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = WORKING_TREE)]
pub struct TreeOptions {
    /// Show the differences of all applied objects, drift included
    #[arg(long, conflicts_with_all = ["snapshot", "offline"])]
    pub diff: bool,
    /// Send no dry-runs to the API server
    #[arg(long)]
    pub offline: bool,
    /// Plan as if `guard` approved every deletion
    #[arg(long, hide_short_help = true)]
    pub as_approved: bool,
    /// Cluster that a kubeconfig reaches, as NAMESPACE/SECRET=CONTEXT
    #[arg(long, value_name = "SECRET=CLUSTER", hide_short_help = true)]
    pub spoke: Vec<Spoke>,
    /// List suspended owners and conflicts that the tree leaves too
    #[arg(long, hide_short_help = true)]
    pub all: bool,
    /// Plan the result of merging with the deployed commit
    #[arg(long, conflicts_with = "staged")]
    pub merge: bool,
    /// Read the staged files instead of the working tree
    #[arg(long, conflicts_with = "rev")]
    pub staged: bool,
    /// Read this revision instead of the working tree
    #[arg(long, value_name = "REVISION")]
    pub rev: Option<String>,
    /// Plan this revision after the one before it; it can be repeated
    #[arg(long, value_name = "REVISION", hide_short_help = true, conflicts_with_all = ["diff", "spoke"])]
    pub then: Vec<String>,
    /// Plan the steps in the YAML file FILE, one after the other
    #[arg(long, value_name = "FILE", hide_short_help = true, conflicts_with_all = ["then", "diff", "spoke", "merge"])]
    pub steps: Option<PathBuf>,
    /// Let builds fetch remote bases from the network
    #[arg(long, hide_short_help = true)]
    pub allow_remote_bases: bool,
    /// Fail where the system cannot restrict the programs that build
    #[arg(long, hide_short_help = true)]
    pub require_sandbox: bool,
    /// Other trees than this one are looked at, so nothing is said about it.
    #[arg(skip)]
    pub is_search: bool,
    /// A verb that proposes steps plans the tree.
    #[arg(skip)]
    pub is_of_steps: bool,
    #[command(flatten)]
    pub checkout: CheckoutOptions,
}

/// Flags of every verb that plans a checkout.
#[derive(Clone, Debug, Default, Args)]
pub struct CheckoutOptions {
    /// Plan with DIR as a source, as KIND/NAMESPACE/NAME=DIR
    #[arg(long, value_name = "SOURCE=DIR")]
    pub source: Vec<String>,
    /// Branch that the checkout is merged into, if there are several
    #[arg(long, value_name = "BRANCH")]
    pub branch: Option<String>,
    /// Program to build with, instead of the kubectl on PATH
    #[arg(long, value_name = "PATH", hide_short_help = true)]
    pub kustomize: Option<PathBuf>,
    /// Program to render charts with, instead of the helm on PATH
    #[arg(long, value_name = "PATH", hide_short_help = true)]
    pub helm: Option<PathBuf>,
    /// Program to generate ResourceSets with, if not on PATH
    #[arg(long, value_name = "PATH", hide_short_help = true)]
    pub flux_operator: Option<PathBuf>,
    /// Folder with charts, as NAME-VERSION.tgz or unpacked
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub charts: Option<PathBuf>,
    /// Let charts be fetched from the repositories of the cluster
    #[arg(long, conflicts_with = "snapshot", hide_short_help = true)]
    pub allow_network: bool,
    /// Use the credentials of helm and docker for these repositories
    #[arg(long, requires = "allow_network", hide_short_help = true)]
    pub chart_credentials: bool,
    /// Version of kustomize-controller, if it cannot be read
    #[arg(long, value_name = "VERSION", hide_short_help = true)]
    pub controller_version: Option<String>,
    /// Time for all builds and dry-runs; what is left is a gap
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "5m",
        hide_short_help = true,
        value_parser = crate::cluster::config::args::duration
    )]
    pub plan_timeout: Duration,
}

impl CheckoutOptions {
    /// Returns the flags that select a checkout and what it is planned with, each after a space, for a command that
    /// goes on.
    pub(crate) fn flags(&self, repo: Option<&Path>) -> String {
        let [kustomize, helm, flux_operator, charts] = [&self.kustomize, &self.helm, &self.flux_operator, &self.charts]
            .map(|path| path.as_ref().map(|path| path.display().to_string()));
        let single = [
            ("--repo", repo.map(|repo| repo.display().to_string()).filter(|repo| repo != ".")),
            ("--branch", self.branch.clone()),
            ("--kustomize", kustomize),
            ("--helm", helm),
            ("--flux-operator", flux_operator),
            ("--charts", charts),
            ("--controller-version", self.controller_version.clone()),
        ];
        let sources = self.source.iter().map(|source| ("--source", source.clone()));
        let valued = single
            .into_iter()
            .filter_map(|(flag, value)| Some((flag, value?)))
            .chain(sources)
            .map(|(flag, value)| format!(" {flag} {}", shell_word(&value)));
        let switches = [(self.allow_network, " --allow-network"), (self.chart_credentials, " --chart-credentials")]
            .into_iter()
            .filter(|(given, _)| *given)
            .map(|(_, flag)| flag.to_owned());
        valued.chain(switches).collect()
    }
}

impl TreeArgs {
    /// Returns the flags with which `handover` compares the same checkout, and reads no more than `namespace` if that
    /// is given.
    pub(in crate::commands::prune) fn handover_flags(&self, namespace: Option<&str>) -> String {
        let options = &self.options;
        let read = namespace.map(|name| format!(" -n {}", shell_word(name))).unwrap_or_default();
        let to = options.rev.as_ref().filter(|_| !options.has_steps()).map(|rev| format!(" --to {}", shell_word(rev)));
        options.checkout.flags(self.repo.as_deref()) + &to.unwrap_or_default() + &read
    }

    /// Returns the flags of a verb that reads the current directory if neither a checkout nor a source is named.
    pub(crate) fn of_checkout(repo: Option<PathBuf>, options: TreeOptions) -> Self {
        let is_here = repo.is_none() && options.checkout.source.is_empty();
        Self { repo: if is_here { Some(".".into()) } else { repo }, options }
    }

    /// Returns true if a working tree is planned, and not the cluster alone.
    pub fn is_given(&self) -> bool {
        self.repo.is_some() || !self.options.checkout.source.is_empty()
    }

    /// Checks what clap cannot. `plan` is true if nothing is going to be deleted.
    pub(in crate::commands::prune) fn check(&self, plan: bool) -> Result<()> {
        let options = &self.options;
        let given = [(self.repo.is_some(), "--repo"), (!options.checkout.source.is_empty(), "--source")];
        if let Some((_, flag)) = given.into_iter().find(|(given, _)| *given && !plan) {
            return Err(Error::usage(format!("{flag} needs --plan: Flux deletes what the tree no longer has"))
                .hint("add --plan, or use `kubectl gitops plan DIR`"));
        }
        let of_trees = [
            (options.diff, "--diff compares a working tree with the cluster"),
            (!options.spoke.is_empty(), "--spoke reads another cluster for the plan of a working tree"),
            (options.offline, "--offline leaves out the dry-runs of a working tree"),
            (options.as_approved, "--as-approved plans what controllers do with a working tree"),
            (options.all, "--all lists what a working tree does not change"),
            (options.staged, "--staged reads the staged files of a working tree"),
            (options.rev.is_some(), "--rev reads a revision of a working tree"),
            (!options.then.is_empty(), "--then plans further revisions of a working tree"),
            (options.steps.is_some(), "--steps plans steps with a working tree"),
            (options.allow_remote_bases, "--allow-remote-bases is about the builds of a working tree"),
            (options.checkout.kustomize.is_some(), "--kustomize builds a working tree"),
            (options.checkout.helm.is_some(), "--helm renders the charts of a working tree"),
            (options.checkout.flux_operator.is_some(), "--flux-operator generates the ResourceSets of a working tree"),
            (options.checkout.charts.is_some(), "--charts has charts for a working tree"),
            (options.checkout.allow_network, "--allow-network fetches charts for a working tree"),
            (options.require_sandbox, "--require-sandbox is about the programs that build a working tree"),
            (options.checkout.controller_version.is_some(), "--controller-version is about the plan of a working tree"),
        ];
        if let Some((_, message)) = of_trees.into_iter().find(|(given, _)| *given && !self.is_given()) {
            return Err(Error::usage(message).hint("name the tree with --repo or --source, and add --plan"));
        }
        let of_checkouts = [(options.checkout.branch.is_some(), "--branch"), (options.merge, "--merge")];
        if let Some((_, flag)) = of_checkouts.into_iter().find(|(given, _)| *given && self.repo.is_none()) {
            return Err(Error::usage(format!("{flag} is about a checkout that is merged"))
                .hint("name the checkout with --repo, and add --plan"));
        }
        Ok(())
    }
}

impl TreeOptions {
    /// Returns true for a plan of several steps.
    pub(in crate::commands::prune) fn has_steps(&self) -> bool {
        !self.then.is_empty() || self.steps.is_some()
    }

    /// Returns the files that are read.
    pub(super) fn state(&self) -> WorktreeState {
        match &self.rev {
            Some(revision) => WorktreeState::Revision(revision.clone()),
            None if self.staged => WorktreeState::Index,
            None => WorktreeState::Worktree,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_goes_on_has_the_flags_of_the_checkout() {
        let checkout = CheckoutOptions {
            source: vec!["GitRepository/a/b=my dir".to_owned()],
            branch: Some("main".to_owned()),
            allow_network: true,
            ..CheckoutOptions::default()
        };
        assert_eq!(
            checkout.flags(Some(Path::new("../fleet"))),
            " --repo ../fleet --branch main --source 'GitRepository/a/b=my dir' --allow-network"
        );
        let options = TreeOptions { rev: Some("feature".to_owned()), ..TreeOptions::default() };
        let mut tree = TreeArgs { repo: Some(".".into()), options };
        assert_eq!(tree.handover_flags(None), " --to feature");
        assert_eq!(tree.handover_flags(Some("shop")), " --to feature -n shop");
        tree.options.then = vec!["main".to_owned()];
        assert_eq!(tree.handover_flags(None), "", "a move can be in any of the steps");
    }
}
