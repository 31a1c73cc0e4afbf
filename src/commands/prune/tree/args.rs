//! Flags of `prune --plan` that are about a working tree.

use std::path::PathBuf;

use clap::Args;

use crate::commands::prune::spokes::Spoke;
use crate::tools::git::WorktreeState;

/// Flags of a working tree.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Working tree")]
pub struct TreeArgs {
    /// Plan what Flux will do once this checkout is merged
    #[arg(long, value_name = "DIR", requires = "plan")]
    pub repo: Option<PathBuf>,
    /// Plan with DIR as a source, as KIND/NAMESPACE/NAME=DIR
    #[arg(long, value_name = "SOURCE=DIR", requires = "plan")]
    pub source: Vec<String>,
    /// Show the differences of all applied objects, drift included
    #[arg(long, requires = "plan", conflicts_with_all = ["snapshot", "offline"])]
    pub diff: bool,
    /// Send no dry-runs to the API server
    #[arg(long, requires = "plan")]
    pub offline: bool,
    /// Cluster that a kubeconfig reaches, as NAMESPACE/SECRET=CONTEXT
    #[arg(long, value_name = "SECRET=CLUSTER", requires = "plan", hide_short_help = true)]
    pub spoke: Vec<Spoke>,
    /// List conflicts of owners that the tree does not change too
    #[arg(long, requires = "plan", hide_short_help = true)]
    pub all: bool,
    /// Branch that the checkout is merged into
    #[arg(long, value_name = "BRANCH", requires = "repo", hide_short_help = true)]
    pub branch: Option<String>,
    /// Read the staged files instead of the working tree
    #[arg(long, requires = "plan", conflicts_with = "rev", hide_short_help = true)]
    pub staged: bool,
    /// Read this revision instead of the working tree
    #[arg(long, value_name = "REVISION", requires = "plan", hide_short_help = true)]
    pub rev: Option<String>,
    /// Let builds fetch remote bases from the network
    #[arg(long, requires = "plan", hide_short_help = true)]
    pub allow_remote_bases: bool,
    /// Program to build with, instead of the kubectl on PATH
    #[arg(long, value_name = "PATH", requires = "plan", hide_short_help = true)]
    pub kustomize: Option<PathBuf>,
    /// Program to render charts with, instead of the helm on PATH
    #[arg(long, value_name = "PATH", requires = "plan", hide_short_help = true)]
    pub helm: Option<PathBuf>,
    /// Program to generate ResourceSets with, if not on PATH
    #[arg(long, value_name = "PATH", requires = "plan", hide_short_help = true)]
    pub flux_operator: Option<PathBuf>,
    /// Folder with charts, as NAME-VERSION.tgz or unpacked
    #[arg(long, value_name = "DIR", requires = "plan", hide_short_help = true)]
    pub charts: Option<PathBuf>,
    /// Let charts be fetched from the repositories of the cluster
    #[arg(long, requires = "plan", conflicts_with = "snapshot", hide_short_help = true)]
    pub allow_network: bool,
    /// Version of kustomize-controller, if it cannot be read
    #[arg(long, value_name = "VERSION", requires = "plan", hide_short_help = true)]
    pub controller_version: Option<String>,
}

impl TreeArgs {
    /// Returns true if a working tree is planned, and not the cluster alone.
    pub fn is_given(&self) -> bool {
        self.repo.is_some() || !self.source.is_empty()
    }

    pub(super) fn state(&self) -> WorktreeState {
        match &self.rev {
            Some(revision) => WorktreeState::Revision(revision.clone()),
            None if self.staged => WorktreeState::Index,
            None => WorktreeState::Worktree,
        }
    }
}
