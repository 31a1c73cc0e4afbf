//! The command line: verbs and global flags; no logic.

use clap::{Parser, Subcommand};

use crate::cluster::config::args::ConnectionArgs;
use crate::commands;

/// Shows what GitOps tools manage in a cluster, suspends and resumes them with a reason, and says before the fact what
/// a prune will delete.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-gitops",
    bin_name = "kubectl gitops",
    display_name = "kubectl-gitops",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// How to reach the cluster.
    #[command(flatten)]
    pub connection: ConnectionArgs,
    /// Log what is sent and received on standard error; a number as in kubectl, 6 and above show requests
    #[arg(
        short = 'v',
        long = "v",
        value_name = "LEVEL",
        default_value_t = 0,
        global = true,
        hide_default_value = true
    )]
    pub verbosity: u8,
}

/// The verbs. Their help is the doc comment of their arguments.
#[derive(Debug, Subcommand)]
#[expect(missing_docs, reason = "a doc comment here would hide the long help of the verb's arguments")]
pub enum Command {
    Get(commands::get::GetArgs),
    Suspend(commands::suspend::SuspendArgs),
    Resume(commands::resume::ResumeArgs),
    Inventory(commands::inventory::InventoryArgs),
    Prune(Box<commands::prune::args::PruneArgs>),
    Snapshot(commands::snapshot::SnapshotArgs),
    Completion(commands::completion::CompletionArgs),
    Man(commands::man::ManArgs),
    /// Print the version
    Version,
    /// Candidates for a word, in the protocol of kubectl's plugin completion
    #[command(name = "__complete", hide = true)]
    Complete(commands::completion::CompleteArgs),
}
