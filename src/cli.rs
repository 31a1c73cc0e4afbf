//! The command line: verbs and global flags; no logic.

use std::path::Path;

use clap::{CommandFactory, Parser, Subcommand};

use crate::cluster::config::args::ConnectionArgs;
use crate::commands;
use crate::commands::prune::tree::WORKING_TREE;

/// Inspect, suspend, resume and prune what GitOps tools manage
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-gitops",
    bin_name = "kubectl gitops",
    display_name = "kubectl-gitops",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    max_term_width = 100,
    override_usage = "kubectl gitops COMMAND [ARGUMENTS] [OPTIONS]",
    after_help = "Use \"kubectl gitops COMMAND --help\" for more information about a command.\n\
                  Use \"kubectl gitops options\" for the connection options of all commands.",
    after_long_help = "Examples:
  # What is suspended in this cluster, by whom and why
  kubectl gitops get -A --suspended

  # What manages the objects of this cluster
  kubectl gitops inventory

  # What a commit deletes, before it is merged
  kubectl gitops plan

Use \"kubectl gitops COMMAND --help\" for more information about a command.
Use \"kubectl gitops options\" for the connection options of all commands."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub connection: ConnectionArgs,
    /// Log level as in kubectl; 6 and above log requests to standard error
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
    Plan(Box<commands::plan::PlanArgs>),
    Handover(commands::steps::handover::HandoverArgs),
    Retire(commands::steps::retire::RetireArgs),
    Prune(Box<commands::prune::args::PruneArgs>),
    Guard(commands::guard::GuardArgs),
    Snapshot(commands::snapshot::SnapshotArgs),
    Mcp(commands::mcp::McpArgs),
    Completion(commands::completion::CompletionArgs),
    Man(commands::man::ManArgs),
    /// Print the connection options, which all commands take
    #[command(after_long_help = "Examples:\n  kubectl gitops options")]
    Options,
    /// Print the version of the plugin
    #[command(after_long_help = "Examples:\n  kubectl gitops version")]
    Version,
    /// Print candidates for a word, in the protocol of kubectl's plugin completion
    #[command(name = "__complete", hide = true)]
    Complete(commands::completion::CompleteArgs),
}

impl Command {
    /// Returns the recording that the verb reads in place of a cluster.
    pub fn snapshot(&self) -> Option<&Path> {
        let file = match self {
            Self::Get(args) => &args.snapshot,
            Self::Inventory(args) => &args.snapshot,
            Self::Plan(args) => &args.planning.snapshot,
            Self::Handover(args) => &args.steps.snapshot,
            Self::Retire(args) => &args.steps.snapshot,
            Self::Prune(args) => &args.execution.planning.snapshot,
            Self::Guard(args) => &args.snapshot,
            _ => &None,
        };
        file.as_deref()
    }

    /// Returns the name of the verb; empty for a command that sends no request.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Get(_) => "get",
            Self::Suspend(_) => "suspend",
            Self::Resume(_) => "resume",
            Self::Inventory(_) => "inventory",
            Self::Plan(_) => "plan",
            Self::Handover(_) => "handover",
            Self::Retire(_) => "retire",
            Self::Prune(_) => "prune",
            Self::Guard(_) => "guard",
            Self::Snapshot(_) => "snapshot",
            Self::Mcp(_) => "mcp",
            Self::Complete(_) => "complete",
            Self::Completion(_) | Self::Man(_) | Self::Options | Self::Version => "",
        }
    }
}

/// Flag of a working tree that the help of `prune` shows; that of `plan` and the man pages of both show all.
const TREE_OF_PRUNE: &str = "repo";

/// Heading of the connection flags.
pub const CONNECTION: &str = "Connection options";

/// Returns the command line. As in kubectl, the help of a command shows the namespace as its only connection flag;
/// `options` shows all of them.
pub fn command() -> clap::Command {
    let root = Cli::command()
        .mut_subcommands(|verb| match verb.get_name() {
            "prune" => verb.mut_args(|argument| {
                let is_of_plan = argument.get_help_heading() == Some(WORKING_TREE);
                let is_shown = !is_of_plan || argument.get_id() == TREE_OF_PRUNE;
                if is_shown { argument } else { argument.hide_short_help(true).hide_long_help(true) }
            }),
            _ => verb,
        })
        .mut_args(|argument| {
            let is_shown = argument.get_help_heading() != Some(CONNECTION) && argument.get_id() != "verbosity";
            match argument.get_id().as_str() {
                NAMESPACE => argument.help_heading(None),
                _ if is_shown => argument,
                _ => argument.hide(true),
            }
        });
    let namespace = root.get_arguments().find(|argument| argument.get_id() == NAMESPACE).cloned();
    match namespace {
        Some(namespace) => root.mut_subcommands(|verb| with_namespace(verb, &namespace)),
        None => root,
    }
}

/// Argument of the namespace, whose meaning depends on the command.
const NAMESPACE: &str = "namespace";

/// Returns a command whose help says what its `-n` means, and that of its subcommands. The help of a command that reads no
/// cluster does not show it.
fn with_namespace(command: clap::Command, namespace: &clap::Arg) -> clap::Command {
    let own = match namespace_help(command.get_name()) {
        Some(help) => namespace.clone().help(help),
        None => namespace.clone().hide(true),
    };
    command.arg(own).mut_subcommands(|subcommand| with_namespace(subcommand, namespace))
}

/// Returns what `-n` means for a command; `None` if it has no effect.
fn namespace_help(command: &str) -> Option<&'static str> {
    match command {
        "get" | "suspend" | "resume" => Some("Namespace of the objects; the context's when absent"),
        "inventory" | "plan" | "prune" => Some("Limit to owners in this namespace; KIND/NAME means one of them"),
        "retire" => Some("Namespace of an OWNER that is given as KIND/NAME"),
        "guard" => Some("Namespace of the ConfigMap with the approvals; kube-system when absent"),
        "applyset" => Some("Namespace of the parent, and of manifests that have none"),
        "mcp" => Some("Namespace for tools that are called without one"),
        "handover" | "snapshot" | "qbec" | "flux-v1" => Some("Namespace to read if you may not read all of them"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_of_a_command_says_what_its_namespace_means() {
        let mut root = command();
        root.build();
        let help = |path: &[&str]| {
            let command = path.iter().fold(&root, |command, name| command.find_subcommand(name).expect("a command"));
            let mut found = command.get_arguments().filter(|argument| argument.get_id() == NAMESPACE);
            let argument = found.next().filter(|argument| !argument.is_hide_set());
            assert!(found.next().is_none(), "{path:?}");
            argument.and_then(|argument| argument.get_help()).map(ToString::to_string).unwrap_or_default()
        };
        for (path, expected) in [
            (&["get"][..], "the context's"),
            (&["guard"], "kube-system"),
            (&["prune"], "Limit to owners"),
            (&["prune", "applyset"], "of the parent"),
            (&["prune", "qbec"], "may not read"),
            (&["snapshot"], "may not read"),
        ] {
            assert!(help(path).contains(expected), "{path:?}: {}", help(path));
        }
        for name in ["completion", "man", "options", "version"] {
            assert_eq!(help(&[name]), "", "{name}");
        }
        let hidden = root.get_subcommands().filter(|verb| !verb.is_hide_set() && help(&[verb.get_name()]).is_empty());
        assert_eq!(hidden.count(), 4, "a new command needs a line in namespace_help");
    }
}
