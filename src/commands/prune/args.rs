//! Arguments of `prune`: the flags that every form of it takes, and those for leaked objects and working trees.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::applyset::ApplySetArgs;
use super::flux_v1::FluxV1Args;
use super::qbec::QbecArgs;
use super::tree::TreeArgs;
use crate::error::{Error, Result};
use crate::output::format::{self, Format, Render};
use gitops_core::plan::FinishedPlan;
use gitops_core::plan::grave::{AllowedKinds, GraveKind};
use gitops_core::plan::limits::Limits;

/// Maximum of `--parallel`: more deletions would only wait for a free request slot.
const MAX_PARALLEL: usize = 32;

/// Plan and delete objects that their owner no longer prunes
///
/// Finds leaked objects: labelled for a live owner whose inventory does not list them, so that its controller never prunes
/// them. Orphaned objects, whose owner does not exist, need --include orphaned. Without --plan, sends each deletion as a
/// dry-run, asks you, and deletes what still qualifies.
#[derive(Debug, Args)]
#[command(
    subcommand_value_name = "SYSTEM",
    subcommand_help_heading = "Systems that keep no inventory",
    override_usage = "kubectl gitops prune [OPTIONS] [OWNER]...\n       \
                      kubectl gitops prune --plan --repo DIR [OPTIONS]\n       \
                      kubectl gitops prune {qbec|flux-v1|applyset} -f FILE [OPTIONS]",
    after_help = "Examples:
  kubectl gitops prune --plan                  # show what would be deleted
  kubectl gitops prune --plan --out plan.json  # write a plan to review
  kubectl gitops prune --apply plan.json       # execute exactly that plan",
    after_long_help = "Examples:
  # Show what would be deleted, and why
  kubectl gitops prune --plan

  # Show what Flux will delete once this checkout is merged; the help of
  # `kubectl gitops plan` has the flags of a working tree
  kubectl gitops prune --plan --repo .

  # Review a plan, and execute exactly that plan later
  kubectl gitops prune --plan --out plan.json
  kubectl gitops prune --apply plan.json"
)]
pub struct PruneArgs {
    /// Owners to plan for, as KIND/NAME, KIND NAME or NAMESPACE/KIND/NAME
    #[arg(value_name = "OWNER", conflicts_with = "apply")]
    pub owners: Vec<String>,
    /// Limit the plan to owners of SYSTEM
    #[arg(long, value_name = "SYSTEM")]
    pub by: Option<String>,
    /// Plan orphaned objects too
    #[arg(long, value_name = "orphaned", value_enum, hide_possible_values = true)]
    pub include: Vec<Include>,
    /// Assume that no owner is in another cluster
    #[arg(long, hide_short_help = true)]
    pub assume_no_hub: bool,
    #[command(flatten)]
    pub tree: TreeArgs,
    #[command(flatten)]
    pub execution: ExecutionArgs,
    #[command(subcommand)]
    pub system: Option<System>,
}

/// Systems without an inventory: only the manifests show which objects are still wanted.
#[derive(Debug, Subcommand)]
#[expect(missing_docs, reason = "a doc comment here would hide the long help of the arguments")]
pub enum System {
    Qbec(Box<QbecArgs>),
    FluxV1(Box<FluxV1Args>),
    #[command(name = "applyset")]
    ApplySet(Box<ApplySetArgs>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Include {
    Orphaned,
}

/// Flags of a plan: its limits, and how to show it.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Plan and execution")]
pub struct PlanningArgs {
    /// Write the plan to FILE
    #[arg(long, global = true, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Allow the deletion of namespaces, crds, volumes or statefulsets
    #[arg(long, global = true, value_name = "KINDS", value_delimiter = ',', value_parser = grave_kind)]
    pub allow: Vec<GraveKind>,
    /// Maximum number of deleted objects, cascades included
    #[arg(long, global = true, value_name = "N", default_value_t = Limits::default().max_delete, allow_negative_numbers = true, value_parser = count)]
    pub max_delete: usize,
    /// Maximum percentage of an owner's objects
    #[arg(long, global = true, value_name = "PERCENT", default_value_t = Limits::default().max_percent, allow_negative_numbers = true, value_parser = percent)]
    pub max_percent: u8,
    /// Refuse a plan that a rule in the YAML file FILE denies
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub policy: Option<PathBuf>,
    /// Exit with code 3 if the plan deletes something
    #[arg(long, global = true, hide_short_help = true)]
    pub detailed_exitcode: bool,
    /// Read a recorded cluster from FILE
    #[arg(long, global = true, value_name = "FILE")]
    pub snapshot: Option<PathBuf>,
    /// Format of the plan
    #[arg(short, long, global = true, value_name = "FORMAT", default_value = "table", value_parser = format::parser(FinishedPlan::PARTS))]
    pub output: Format,
    /// Write the plan to FILE too, such as html=plan.html
    #[arg(long = "report", global = true, value_name = "FORMAT=FILE", value_parser = report, hide_short_help = true)]
    pub reports: Vec<Report>,
    /// Omit the header line of tables
    #[arg(long, global = true, hide_short_help = true)]
    pub no_headers: bool,
}

/// Flags of `prune` and of each of its systems: a plan, and how to execute it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Plan and execution")]
pub struct ExecutionArgs {
    /// Print the plan and change nothing
    #[arg(long, global = true)]
    pub plan: bool,
    #[command(flatten)]
    pub planning: PlanningArgs,
    /// Delete what the plan in FILE lists and still qualifies
    #[arg(long, global = true, value_name = "FILE", conflicts_with_all = ["plan", "snapshot"])]
    pub apply: Option<PathBuf>,
    /// Refuse the file of --apply unless its content has this digest
    #[arg(long, global = true, value_name = "DIGEST", requires = "apply", value_parser = sha256, hide_short_help = true)]
    pub expect_sha256: Option<String>,
    /// Maximum age of a plan file, such as 8h; 1h when absent
    #[arg(long, global = true, value_name = "DURATION", value_parser = crate::cluster::config::args::duration, hide_short_help = true)]
    pub max_age: Option<Duration>,
    /// Delete objects of --apply with a newer resourceVersion too
    #[arg(long, global = true, requires = "apply", hide_short_help = true)]
    pub allow_changed: bool,
    /// Write each object to a file in DIR before it is deleted
    #[arg(long, global = true, value_name = "DIR", conflicts_with = "plan")]
    pub backup: Option<PathBuf>,
    /// Write Secrets to the directory of --backup too
    #[arg(long, global = true, requires = "backup", hide_short_help = true)]
    pub backup_secrets: bool,
    /// Record each deletion in FILE, so that a second run continues
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "plan", hide_short_help = true)]
    pub journal: Option<PathBuf>,
    /// Allow the execution of an incomplete plan
    #[arg(long, global = true, hide_short_help = true)]
    pub allow_incomplete: bool,
    /// Time to wait for each deletion, such as 30s or 5m
    #[arg(long, global = true, value_name = "DURATION", default_value = "1m", value_parser = crate::cluster::config::args::duration, hide_short_help = true)]
    pub timeout: Duration,
    /// Number of deletions at the same time, kind by kind
    #[arg(long, global = true, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = parallel, hide_short_help = true)]
    pub parallel: usize,
    /// Delete the objects without asking for confirmation
    #[arg(short, long, global = true)]
    pub yes: bool,
}

/// A plan in one more format.
#[derive(Clone, Debug)]
pub struct Report {
    pub format: Format,
    pub file: PathBuf,
}

fn report(text: &str) -> std::result::Result<Report, String> {
    let (format, file) = text.split_once('=').ok_or("write FORMAT=FILE, such as html=plan.html")?;
    let Some((_, found)) = format::of(FinishedPlan::PARTS).find(|(name, _)| *name == format) else {
        let names: Vec<&str> = format::of(FinishedPlan::PARTS).map(|(name, _)| name).collect();
        return Err(format!("the formats are {}", names.join(", ")));
    };
    if file.is_empty() {
        return Err("write the name of a file after =".to_owned());
    }
    Ok(Report { format: found, file: file.into() })
}

impl PruneArgs {
    /// Returns the flags of the plan of a working tree for another cluster: one that was recorded in this file.
    pub(super) fn of_cluster(&self, snapshot: Option<PathBuf>) -> Self {
        let planning = PlanningArgs { snapshot, ..self.execution.planning.clone() };
        Self {
            owners: self.owners.clone(),
            by: self.by.clone(),
            include: vec![],
            assume_no_hub: false,
            tree: self.tree.clone(),
            execution: ExecutionArgs::of_plan(planning),
            system: None,
        }
    }
}

impl ExecutionArgs {
    /// Returns the flags of a plan that is not executed.
    pub(crate) fn of_plan(planning: PlanningArgs) -> Self {
        Self {
            plan: true,
            planning,
            apply: None,
            expect_sha256: None,
            max_age: None,
            allow_changed: false,
            backup: None,
            backup_secrets: false,
            journal: None,
            allow_incomplete: false,
            timeout: Duration::ZERO,
            parallel: 1,
            yes: false,
        }
    }

    /// Checks what clap cannot: flags may stand before and after the name of a system.
    pub(crate) fn check(&self) -> Result<()> {
        let flags = [
            (self.planning.out.is_some(), "--out"),
            (self.planning.detailed_exitcode, "--detailed-exitcode"),
            (self.planning.snapshot.is_some(), "--snapshot"),
            (!self.planning.reports.is_empty(), "--report"),
        ];
        if let Some((_, flag)) = flags.into_iter().find(|(given, _)| *given && !self.plan) {
            return Err(Error::usage(format!("{flag} needs --plan"))
                .hint("add --plan: only a plan is made without asking or deleting"));
        }
        let reports = &self.planning.reports;
        let twice = reports
            .iter()
            .enumerate()
            .find(|(at, report)| reports[..*at].iter().any(|earlier| earlier.file == report.file));
        if let Some((_, report)) = twice {
            return Err(Error::usage(format!("two reports are written to {}", report.file.display())));
        }
        if self.max_age.is_some() && self.planning.out.is_none() && self.apply.is_none() {
            return Err(Error::usage("--max-age is the age of a plan file").hint("add --out FILE or --apply FILE"));
        }
        Ok(())
    }

    /// Returns the grave kinds that may be deleted.
    pub(crate) fn allowed(&self) -> AllowedKinds {
        self.planning.allow.iter().copied().collect()
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits {
            max_delete: self.planning.max_delete,
            max_percent: self.planning.max_percent,
            allow_incomplete: self.allow_incomplete,
            allowed: self.allowed(),
        }
    }
}

fn count(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "it must be a number of objects, 0 or more".to_owned())
}

fn sha256(text: &str) -> Result<String, String> {
    let digits = text.strip_prefix("sha256:").unwrap_or(text).to_lowercase();
    if digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(format!("sha256:{digits}"));
    }
    Err("it must be a SHA-256 of 64 hexadecimal digits, as --out prints it".to_owned())
}

pub(crate) fn grave_kind(text: &str) -> Result<GraveKind, String> {
    let names = GraveKind::ALL.map(GraveKind::name).join(", ");
    let kind = GraveKind::ALL.into_iter().find(|kind| kind.name() == text);
    kind.ok_or(format!("it must be one of {names}, or several with a comma between them"))
}

fn percent(text: &str) -> Result<u8, String> {
    text.parse().ok().filter(|number| *number <= 100).ok_or("it must be a number from 0 to 100".to_owned())
}

fn parallel(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=MAX_PARALLEL).contains(number));
    number.ok_or(format!("it must be a number from 1 to {MAX_PARALLEL}"))
}
