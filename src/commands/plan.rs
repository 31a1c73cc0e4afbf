//! `plan`: what Flux will do once a checkout is merged, by the same code as `prune --plan --repo DIR`.

use std::path::{Path, PathBuf};

use clap::Args;

use super::prune::args::{ExecutionArgs, PlanningArgs, PruneArgs};
use super::prune::fleet::{self, FleetArgs};
use super::prune::tree::{TreeArgs, TreeOptions};
use super::{Session, guard, owners, prune};
use crate::error::{Error, Result};
use crate::exit::ExitCode;
use crate::output::format::Format;

/// Arguments that mean something beside `--show`: how the plan is shown, and with which code it ends.
pub(crate) const BESIDE_SHOW: [&str; 6] = ["show", "output", "reports", "no_headers", "detailed_exitcode", "verbosity"];

/// Directory that is planned if none is named.
const HERE: &str = ".";

/// Show what Flux will create, change and delete once a checkout is merged
///
/// Finds the sources of the cluster that have an address of the checkout and the branch that they follow, and plans as if
/// what is checked out were merged into it: a feature branch, a detached HEAD, a fork. Changes nothing.
/// `prune --plan --repo DIR` is the same.
#[derive(Debug, Args)]
#[command(
    override_usage = "kubectl gitops plan [OPTIONS] [DIR] [OWNER]...",
    after_help = "Examples:
  # Show what Flux will delete once this checkout is merged
  kubectl gitops plan
  # Plan the result of merging with what is deployed
  kubectl gitops plan --merge
  # Write the plan as a comment on a pull request, without access to the cluster
  kubectl gitops plan --snapshot prod.json.gz -o markdown",
    after_long_help = "Examples:
  # Show what Flux will delete once this checkout is merged
  kubectl gitops plan

  # Plan the result of merging with what is deployed
  kubectl gitops plan --merge

  # Plan the merge, and then its revert: what does not come back?
  kubectl gitops plan --then main

  # Write the plan as a comment on a pull request, without access to the cluster
  kubectl gitops plan --snapshot prod.json.gz -o markdown

  # Plan for all clusters that follow the checkout, as one answer
  kubectl gitops plan --contexts eu,us

  # Plan in one job, and write the comment in another one that does not trust it
  kubectl gitops plan --out plan.json
  kubectl gitops plan --show plan.json -o markdown"
)]
pub struct PlanArgs {
    /// Checkout, or part of one; the current directory when absent
    #[arg(value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Owners to plan for, as KIND/NAME, KIND NAME or NAMESPACE/KIND/NAME
    #[arg(value_name = "OWNER")]
    pub owners: Vec<String>,
    /// Limit the plan to owners of SYSTEM
    #[arg(long, value_name = "SYSTEM", hide_short_help = true)]
    pub by: Option<String>,
    /// Show the plan in FILE, which `-o json` or --out wrote, and read nothing else
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub show: Option<PathBuf>,
    #[command(flatten)]
    pub fleet: FleetArgs,
    #[command(flatten)]
    pub tree: TreeOptions,
    #[command(flatten)]
    pub planning: PlanningArgs,
}

/// Plans what Flux does once a checkout is merged.
pub async fn run(args: PlanArgs, session: &mut Session) -> Result<ExitCode> {
    let PlanArgs { directory, owners, by, show, fleet, mut tree, planning } = args;
    tree.as_approved |= planning.output == Format::Vap;
    if let Some(file) = show {
        if planning.output == Format::Vap {
            return Err(guard::reject_shown(&file));
        }
        return prune::show_again(&file, &ExecutionArgs::of_plan(planning), session);
    }
    let clusters = fleet.clusters(&session.connection, &planning)?;
    let (repo, owners) = subject(directory, owners, !tree.checkout.source.is_empty())?;
    let request = PruneArgs {
        owners,
        by,
        include: vec![],
        assume_no_hub: false,
        tree: TreeArgs { repo, options: tree },
        execution: ExecutionArgs::of_plan(planning),
        system: None,
    };
    match clusters {
        Some(clusters) => fleet::run(&request, clusters, session).await,
        None => prune::run(&request, session).await,
    }
}

/// Returns the checkout and the owners that the words mean: a first word that is no directory names an owner. Without a
/// word, `named` is true if --source names what is planned.
fn subject(directory: Option<PathBuf>, owners: Vec<String>, named: bool) -> Result<(Option<PathBuf>, Vec<String>)> {
    let Some(first) = directory else { return Ok(((!named).then(|| HERE.into()), owners)) };
    if first.is_dir() {
        return Ok((Some(first), owners));
    }
    let word = first.display().to_string();
    let words: Vec<String> = std::iter::once(word.clone()).chain(owners).collect();
    if is_path(&first) || (owners::parse(&word).is_err() && owners::named(&words).is_err()) {
        return Err(Error::usage(format!("{word:?} is neither a directory nor an owner"))
            .hint("name a checkout, such as `.`, or an owner as KIND/NAME, such as kustomization/apps"));
    }
    Ok(((!named).then(|| HERE.into()), words))
}

/// Returns true for a word that can only be a path.
fn is_path(word: &Path) -> bool {
    word.is_absolute() || word.starts_with(HERE) || word.starts_with("..") || word.exists()
}
