//! The arguments of `prune`: what to plan from, what is allowed, and how to show it.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::collect::GcArgs;
use super::tree::TreeArgs;
use crate::output::plan::PlanFormat;
use gitops_core::plan::limits::Limits;

/// The most of `--parallel`: more would only wait for a free place among the requests in flight.
const MOST: usize = 32;

/// Plan and delete what its owner will never prune
///
/// Finds leaked objects: those that a live owner's controller labelled, but that the owner's inventory does not list, so
/// that it will never prune them. With --plan the plan is printed and nothing is changed. Without it the plan is shown,
/// the server is asked to rehearse every deletion, you are asked, and then the objects are deleted one after another
/// (or some side by side with --parallel), each only if it is still what the plan saw.
///
/// Orphaned objects, whose owner does not exist, are shown as kept; --include orphaned plans them too.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  # What would be deleted, and why
  kubectl gitops prune --plan

  # What Flux will delete once this checkout is merged
  kubectl gitops prune --plan --repo .

  # The same for one owner, as JSON
  kubectl gitops prune --plan -o json kustomization/apps

  # And what it will change, which the server tells by dry-runs
  kubectl gitops prune --plan --repo . --diff

  # What Flux will delete, as a comment on a pull request, without access to the cluster
  kubectl gitops prune --plan --repo . --snapshot prod.json.gz -o markdown

  # Review a plan first, execute exactly that later
  kubectl gitops prune --plan --out plan.json
  kubectl gitops prune --apply plan.json

  # What qbec would delete, what it would miss, and why something stays
  kubectl gitops prune --plan --by qbec --qbec-root . --env dev
  qbec show dev | kubectl gitops prune --plan --by qbec --app shop --env dev --default-namespace shop -f -

  # What a Flux v1 that is gone left behind, and then delete it in its place
  kubectl gitops prune --plan --by flux-v1 --git-url git@example.com:org/repo --git-path deploy -f deploy
  kubectl gitops prune --by flux-v1 --git-url git@example.com:org/repo --git-path deploy -f deploy

  # What fluxd will relabel, delete and miss for ever once its path changes
  kubectl gitops prune --plan --by flux-v1 --git-url git@example.com:org/repo --git-path a,b --new-git-path a -f a

  # What `kubectl apply --prune --applyset=shop -n prod` would prune
  kubectl gitops prune --plan --by applyset --applyset shop -n prod -f deploy")]
pub struct PruneArgs {
    /// Only these owners, as KIND/NAME or NAMESPACE/KIND/NAME
    #[arg(value_name = "OWNER")]
    pub owners: Vec<String>,
    /// Print the plan and change nothing
    #[arg(long)]
    pub plan: bool,
    /// Write the plan to a file for --apply
    #[arg(long, value_name = "FILE", requires = "plan")]
    pub out: Option<PathBuf>,
    /// Delete what this plan lists and what still qualifies
    #[arg(long, value_name = "FILE", conflicts_with_all = ["plan", "owners", "snapshot"])]
    pub apply: Option<PathBuf>,
    /// Only owners of this system
    #[arg(long, value_name = "SYSTEM")]
    pub by: Option<String>,
    /// Plan these too: orphaned; missed (what qbec, fluxd or kubectl would never find)
    #[arg(long, value_name = "WHAT", value_enum, hide_possible_values = true)]
    pub include: Vec<Include>,
    /// No owner lives in another cluster, although none of its system is in this one
    #[arg(long)]
    pub yes_no_hub: bool,
    /// Namespaces may be deleted
    #[arg(long)]
    pub allow_namespaces: bool,
    /// Custom resource definitions may be deleted
    #[arg(long)]
    pub allow_crds: bool,
    /// Execute a plan although something could not be read
    #[arg(long)]
    pub allow_incomplete: bool,
    /// How many objects may go, cascades included
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_delete)]
    pub max_delete: usize,
    /// How many percent of an owner's objects may go
    #[arg(long, value_name = "PERCENT", default_value_t = Limits::default().max_percent, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub max_percent: u8,
    /// How long to wait for each object to be gone, such as 30s or 5m
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = crate::cluster::config::args::request_timeout)]
    pub timeout: Duration,
    /// How many objects to delete side by side; kinds still go one after another in their order
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parallel)]
    pub parallel: usize,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// With --plan: exit with 3 when the plan deletes something
    #[arg(long, requires = "plan")]
    pub detailed_exitcode: bool,
    /// Read this recorded cluster instead of a live one
    #[arg(long, value_name = "FILE", requires = "plan")]
    pub snapshot: Option<PathBuf>,
    /// table, wide, json, yaml, name, or markdown for a comment on a pull request
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    pub output: PlanFormat,
    /// No header line in tables
    #[arg(long)]
    pub no_headers: bool,
    /// The systems that mark what they apply.
    #[command(flatten)]
    pub gc: Box<GcArgs>,
    /// A working tree, where Flux is to be previewed.
    #[command(flatten)]
    pub tree: TreeArgs,
}

fn parallel(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| (1..=MOST).contains(number)).ok_or(format!("give a number from 1 to {MOST}"))
}

/// What `--include` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Include {
    /// Objects whose owner does not exist.
    Orphaned,
    /// Garbage that its own collector never finds.
    Missed,
}
