//! Arguments whose candidates are not in the definition of the command line, and what is asked for each.
//!
//! The completion engine calls a function with the current word alone, but names depend on other words, such as the type
//! and the namespace. So it gets a mark in place of candidates, and the mark is replaced afterwards.

use std::path::PathBuf;

use clap::{Arg, Command, FromArgMatches};
use clap_complete::CompletionCandidate;
use clap_complete::engine::ArgValueCompleter;

use crate::cluster::config::args::ConnectionArgs;

/// First character of a mark. No argument contains it.
const MARK: char = '\u{1}';

/// Kind of candidates for an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// `TYPE NAME…` or `TYPE/NAME` of Flux.
    Objects,
    Owners,
    Systems,
    /// Types, with commas between them.
    Types,
    /// `TYPE/NAME` of any object.
    AnyObject,
    Namespaces,
    Contexts,
    /// Contexts, with commas between them.
    ContextList,
    Clusters,
    Users,
    /// Branches of the checkout.
    Branches,
    /// Kinds of `--allow`, with commas between them.
    GraveKinds,
}

impl Question {
    const ALL: [Self; 12] = [
        Self::Objects,
        Self::Owners,
        Self::Systems,
        Self::Types,
        Self::AnyObject,
        Self::Namespaces,
        Self::Contexts,
        Self::ContextList,
        Self::Clusters,
        Self::Users,
        Self::Branches,
        Self::GraveKinds,
    ];

    /// Returns the question for an argument of any command, by its id.
    fn of(argument: &Arg) -> Option<Self> {
        Some(match argument.get_id().as_str() {
            "words" => Self::Objects,
            "owners" => Self::Owners,
            "by" => Self::Systems,
            "kinds" => Self::Types,
            "why" => Self::AnyObject,
            "namespace" => Self::Namespaces,
            "context" | "owner_context" => Self::Contexts,
            "contexts" => Self::ContextList,
            "cluster" => Self::Clusters,
            "user" => Self::Users,
            "branch" | "then" | "to" => Self::Branches,
            "allow" => Self::GraveKinds,
            _ => return None,
        })
    }

    /// Splits a candidate that is a mark: what stands before it, such as `--namespace=`, and the question.
    pub(super) fn in_candidate(value: &str) -> Option<(&str, Self)> {
        let (before, number) = value.split_once(MARK)?;
        Some((before, *Self::ALL.get(number.parse::<usize>().ok()?)?))
    }
}

/// Puts the marks into a command and its subcommands.
pub(super) fn mark(command: Command) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let marked = command.mut_args(|argument| match Question::of(&argument) {
        Some(question) => argument.add(ArgValueCompleter::new(move |_: &_| {
            vec![CompletionCandidate::new(format!("{MARK}{}", question as usize))]
        })),
        _ => argument,
    });
    names.into_iter().fold(marked, |command, name| command.mut_subcommand(name, mark))
}

/// The words before the one that is completed, as far as they can be parsed.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) connection: ConnectionArgs,
    /// Arguments that are no flags: types and names.
    pub(super) words: Vec<String>,
    pub(super) all_namespaces: bool,
    /// Checkout that is planned.
    pub(super) checkout: PathBuf,
}

impl Line {
    /// Parses the words after the program; errors are ignored.
    pub(super) fn parse(command: Command, words: &[std::ffi::OsString]) -> Self {
        let Ok(matches) = command.ignore_errors(true).try_get_matches_from(words) else { return Self::default() };
        let connection = ConnectionArgs::from_arg_matches(&matches).unwrap_or_default();
        let mut deepest = &matches;
        while let Some((_, subcommand)) = deepest.subcommand() {
            deepest = subcommand;
        }
        let words = deepest.try_get_many::<String>("words").ok().flatten();
        let mut given =
            ["repo", "directory"].into_iter().filter_map(|id| deepest.try_get_one::<PathBuf>(id).ok().flatten());
        let checkout = given.find(|path| path.is_dir());
        let all_namespaces = matches!(deepest.try_get_one::<bool>("all_namespaces"), Ok(Some(true)));
        Self {
            connection: ConnectionArgs { verb: "complete", ..connection },
            words: words.map(|words| words.cloned().collect()).unwrap_or_default(),
            all_namespaces,
            checkout: checkout.cloned().unwrap_or_else(|| ".".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, ValueHint};

    use super::{Question, mark};
    use crate::cli::Cli;

    /// A flag whose value is no text of the user's own has candidates: of the definition, of a question, or paths.
    #[test]
    fn every_argument_with_candidates_has_a_question() {
        let mut found = vec![];
        collect(&mark(Cli::command()), &mut found);
        found.sort_unstable();
        found.dedup();
        let ids: Vec<&str> = found.iter().map(String::as_str).collect();
        let expected = [
            "allow",
            "branch",
            "by",
            "cluster",
            "context",
            "contexts",
            "kinds",
            "namespace",
            "owner_context",
            "owners",
            "then",
            "to",
            "user",
            "why",
            "words",
        ];
        assert_eq!(ids, expected);
    }

    fn collect(command: &clap::Command, found: &mut Vec<String>) {
        for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
            let has_question = Question::of(argument).is_some();
            assert!(!(has_question && argument.get_value_hint() == ValueHint::AnyPath), "{argument}");
            if has_question && command.get_name() != "__complete" {
                found.push(argument.get_id().to_string());
            }
        }
        command.get_subcommands().for_each(|subcommand| collect(subcommand, found));
    }
}
