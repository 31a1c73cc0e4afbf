//! Usage errors of the command line in this tool's own form: `error: …`, `hint: …`, exit code 2.

use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, FromArgMatches};

use crate::cli::{self, Cli};
use crate::commands::plan::BESIDE_SHOW;
use crate::error::Error;
use crate::suggest::nearest;

/// Outcome of a command line that is not a command.
pub enum Rejection {
    /// Help or version that was asked for.
    Help(String),
    /// Help because something is missing, or an error in the words of clap.
    HelpInstead(String),
    Usage(Error),
}

/// Parses the words of a command line; the first is the name of the program.
pub fn parse(words: Vec<OsString>) -> Result<Cli, Rejection> {
    let mut root = cli::command();
    root.build();
    let parsed = root.try_get_matches_from_mut(&words).and_then(|matches| {
        let misplaced = misplaced_flag(&root, &matches).or_else(|| ignored_by_show(&root, &matches));
        Cli::from_arg_matches(&matches).map(|cli| {
            let error = misplaced.or_else(|| empty_namespace(&cli));
            (cli, error)
        })
    });
    match parsed {
        Ok((cli, None)) => Ok(cli),
        Ok((_, Some(error))) => Err(Rejection::Usage(error)),
        Err(error) => {
            let context = UsageContext::new(&root, &words);
            if error.kind() == ErrorKind::DisplayHelp {
                let is_long = words.iter().any(|word| word == "--help");
                let text = if is_long { long_help(context.command) } else { error.render().to_string() };
                return Err(Rejection::Help(format!("{}\n", text.trim_end())));
            }
            Err(context.describe(&error).map_or_else(|| in_words_of_clap(&error), Rejection::Usage))
        }
    }
}

fn in_words_of_clap(error: &clap::Error) -> Rejection {
    let text = error.render().to_string();
    if error.use_stderr() { Rejection::HelpInstead(text.trim_end().to_owned()) } else { Rejection::Help(text) }
}

/// Returns the long help, with one line per flag as in the short help.
fn long_help(command: &Command) -> String {
    let about = command.get_long_about().or(command.get_about()).cloned().unwrap_or_default();
    let after = command.get_after_long_help().or(command.get_after_help()).cloned().unwrap_or_default();
    let mut long = command.clone().about(about).after_help(after).mut_args(|argument| {
        let is_hidden = argument.is_hide_long_help_set();
        argument.hide_short_help(is_hidden)
    });
    long.render_help().to_string()
}

/// Rejects a flag or argument of a verb that is given together with a sub-verb, which does not take it.
fn misplaced_flag(command: &Command, matches: &ArgMatches) -> Option<Error> {
    let (name, sub) = matches.subcommand()?;
    let subcommand = command.find_subcommand(name)?;
    let given = command.get_arguments().find(|argument| {
        !argument.is_global_set() && matches.value_source(argument.get_id().as_str()) == Some(ValueSource::CommandLine)
    });
    let Some(argument) = given else { return misplaced_flag(subcommand, sub) };
    let (path, verb) = (path_of(subcommand), path_of(command));
    let error = Error::usage(format!("{argument} cannot be used with `{path}`"));
    Some(error.hint(format!("it is an argument of `{verb}` alone")))
}

/// Rejects what `plan --show` would ignore: it shows a plan that was made before.
fn ignored_by_show(root: &Command, matches: &ArgMatches) -> Option<Error> {
    let given = matches.subcommand_matches("plan")?;
    let mut arguments = root.find_subcommand("plan").filter(|_| is_typed(given, "show"))?.get_arguments();
    let ignored = arguments.find(|argument| {
        let id = argument.get_id().as_str();
        is_typed(given, id) && !BESIDE_SHOW.contains(&id)
    })?;
    let error = Error::usage(format!("{ignored} cannot be used with --show"));
    Some(error.hint("leave it out: --show changes nothing of the plan in FILE"))
}

/// Returns true if the command line has an argument, rather than its default.
fn is_typed(given: &ArgMatches, id: &str) -> bool {
    given.value_source(id) == Some(ValueSource::CommandLine)
}

/// Rejects an empty `-n` of a verb that reads the whole cluster without one. For kubectl an empty value is none, so a
/// variable of the shell that is not set would widen what is deleted.
fn empty_namespace(cli: &Cli) -> Option<Error> {
    let is_empty = cli.connection.namespace.as_deref() == Some("") && WHOLE_CLUSTER.contains(&cli.command.verb());
    is_empty.then(|| Error::usage("--namespace is empty").hint("name a namespace, or leave -n out"))
}

/// `kubectl gitops prune qbec`.
fn path_of(command: &Command) -> &str {
    command.get_bin_name().unwrap_or_else(|| command.get_name())
}

/// The command that a line was meant for.
struct UsageContext<'a> {
    root: &'a Command,
    command: &'a Command,
    /// Words after the command that are no flags.
    arguments: Vec<String>,
}

impl<'a> UsageContext<'a> {
    fn new(root: &'a Command, words: &[OsString]) -> Self {
        let (mut command, mut arguments) = (root, vec![]);
        let mut words = words.iter().skip(1).map(|word| word.to_string_lossy());
        while let Some(word) = words.next() {
            if word.starts_with('-') {
                if takes_next_word(command, &word) {
                    words.next();
                }
                continue;
            }
            match command.find_subcommand(&*word) {
                Some(subcommand) if arguments.is_empty() => command = subcommand,
                _ => arguments.push(word.into_owned()),
            }
        }
        Self { root, command, arguments }
    }

    /// Words an error of clap; `None` for help, the version, and errors without a better wording.
    fn describe(&self, error: &clap::Error) -> Option<Error> {
        let argument = context(error, ContextKind::InvalidArg);
        let (message, hint) = match error.kind() {
            ErrorKind::UnknownArgument => {
                let flag = argument?;
                // clap reads `-A=false` as the flags -A and -=.
                if flag == "-=" {
                    return Some(Error::usage("a flag that takes no value has a `=` behind it").hint(NO_VALUE));
                }
                let what = if flag.starts_with('-') { "unknown flag" } else { "unexpected argument" };
                let known = self.mistyped_command().or_else(|| self.commands_with(&flag));
                let hint = known.or_else(|| suggestion(error, ContextKind::SuggestedArg));
                (format!("{what} {flag} for `{}`", path_of(self.command)), hint)
            }
            ErrorKind::InvalidSubcommand => {
                let verb = context(error, ContextKind::InvalidSubcommand)?;
                let lower = verb.to_lowercase();
                let same =
                    self.command.find_subcommand(&lower).map(|known| format!("did you mean {}?", known.get_name()));
                let hint = same
                    .or_else(|| other_name(&lower))
                    .or_else(|| suggestion(error, ContextKind::SuggestedSubcommand))
                    .or_else(|| self.nearest_command(&lower).map(|near| format!("did you mean {near}?")));
                (format!("unknown command {verb:?} for `{}`", path_of(self.command)), hint)
            }
            ErrorKind::InvalidValue => {
                let (flag, value) = (argument?, context(error, ContextKind::InvalidValue)?);
                let values = context(error, ContextKind::ValidValue).filter(|values| !values.is_empty());
                let message = if value.is_empty() {
                    format!("{flag} needs a value")
                } else {
                    format!("invalid value {value:?} for {flag}")
                };
                (message, values.map(|values| format!("use one of: {values}")))
            }
            ErrorKind::ValueValidation => {
                let reason = error.source().map(|reason| format!(": {reason}")).unwrap_or_default();
                let value = context(error, ContextKind::InvalidValue)?;
                (format!("invalid value {value:?} for {}{reason}", argument?), None)
            }
            ErrorKind::TooManyValues => {
                let value = context(error, ContextKind::InvalidValue)?;
                (format!("{} takes no value, but is given {value:?}", argument?), Some(NO_VALUE.to_owned()))
            }
            ErrorKind::MissingRequiredArgument => (format!("{} is required", argument?), None),
            ErrorKind::ArgumentConflict => match context(error, ContextKind::PriorArg) {
                Some(prior) if prior == *argument.as_ref()? => (format!("{prior} is given more than once"), None),
                Some(prior) => (format!("{} cannot be used with {prior}", argument?), None),
                None => return None,
            },
            _ => return None,
        };
        Some(
            Error::usage(message)
                .hint(hint.unwrap_or_else(|| format!("`{} -h` shows its usage", path_of(self.command)))),
        )
    }

    /// Returns a hint if the first argument looks like a command.
    fn mistyped_command(&self) -> Option<String> {
        let name = self.nearest_command(self.arguments.first()?)?;
        Some(format!("did you mean `{} {name}`? It comes before the arguments", path_of(self.command)))
    }

    fn nearest_command(&self, word: &str) -> Option<&str> {
        nearest(word, self.command.get_subcommands().map(Command::get_name))
    }

    /// Returns a hint that names the commands that take a flag, or says why this one needs none.
    fn commands_with(&self, flag: &str) -> Option<String> {
        if matches!(flag, "-A" | "--all-namespaces") && WHOLE_CLUSTER.contains(&self.command.get_name()) {
            return Some(format!("leave it out: `{}` reads all namespaces without -n", path_of(self.command)));
        }
        if self.command.get_arguments().any(|argument| is_written(argument, flag)) {
            return Some(format!("write it after the command: `{} {flag}`", path_of(self.command)));
        }
        if let Some(hint) = other_flag(self.command.get_name(), flag) {
            return Some(hint.to_owned());
        }
        let mut found = vec![];
        commands_with(self.root, flag, &mut found);
        (!found.is_empty()).then(|| format!("it is a flag of {}", found.join(", ")))
    }
}

/// Returns true if the word after a flag is its value. Of several short flags in one word, the first that takes a value
/// has the rest of the word as its value.
fn takes_next_word(command: &Command, flag: &str) -> bool {
    let mut arguments = command.get_arguments().filter(|argument| {
        argument.get_action().takes_values()
            && !argument.is_require_equals_set()
            && argument.get_num_args().is_none_or(|number| number.min_values() > 0)
    });
    if let Some(long) = flag.strip_prefix("--") {
        return arguments.any(|argument| argument.get_long() == Some(long));
    }
    let shorts: Vec<char> = arguments.filter_map(clap::Arg::get_short).collect();
    flag.find(&*shorts).is_some_and(|at| flag[at..].chars().count() == 1)
}

/// Verbs that look at the whole cluster unless `-n` limits them.
const WHOLE_CLUSTER: [&str; 6] = ["inventory", "prune", "plan", "handover", "retire", "guard"];

/// Hint for a flag with a value that it does not take.
const NO_VALUE: &str = "leave the value out: the flag alone turns it on, and it is off without it";

/// Adds the commands that take a flag, which is written with its dashes.
fn commands_with(command: &Command, flag: &str, found: &mut Vec<String>) {
    for subcommand in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        if subcommand.get_arguments().any(|argument| is_written(argument, flag)) {
            found.push(format!("`{}`", path_of(subcommand)));
        }
        commands_with(subcommand, flag, found);
    }
}

fn is_written(argument: &clap::Arg, flag: &str) -> bool {
    argument.get_long().is_some_and(|long| flag.strip_prefix("--") == Some(long))
        || argument.get_short().is_some_and(|short| flag.strip_prefix('-') == Some(&*short.to_string()))
}

/// Returns a hint for a flag whose effect the verb has without it, or by another one.
fn other_flag(verb: &str, flag: &str) -> Option<&'static str> {
    match (verb, flag) {
        ("plan", "--repo") => Some("name the checkout as an argument: `kubectl gitops plan DIR`"),
        ("inventory" | "prune", "--snapshots") => Some("it reads one recording: --snapshot FILE"),
        ("prune", "--dry-run") => Some("`kubectl gitops prune --plan` shows what would be deleted"),
        ("prune", "--orphaned") => Some("`--include orphaned` plans orphaned objects too"),
        ("prune", "--leaked") => Some("leave it out: leaked objects are what `prune` deletes"),
        ("plan", "--dry-run") => Some("leave it out: a plan changes nothing"),
        _ => None,
    }
}

/// Returns a hint for a verb that other programs have under this name.
fn other_name(verb: &str) -> Option<String> {
    match verb {
        "diff" | "preview" => Some("`kubectl gitops plan` shows what a merge changes in the cluster".to_owned()),
        "status" | "list" | "ls" => Some("`kubectl gitops get` shows the state of Flux objects".to_owned()),
        "tree" => Some("`kubectl gitops inventory -o tree` shows owners and their objects".to_owned()),
        "why" | "trace" => Some("`kubectl gitops inventory --why TYPE/NAME` shows what manages an object".to_owned()),
        "reconcile" => Some("`kubectl gitops resume` ends suspensions; `flux reconcile` reconciles".to_owned()),
        "help" => Some("`kubectl gitops --help` lists the commands".to_owned()),
        _ => None,
    }
}

/// Returns a hint that names what an error of clap suggests.
fn suggestion(error: &clap::Error, kind: ContextKind) -> Option<String> {
    context(error, kind).map(|near| format!("did you mean {near}?"))
}

fn context(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => Some(texts.join(", ")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_of_a_flag_is_no_argument() {
        let mut root = cli::command();
        root.build();
        for (line, path, arguments) in [
            ("-s URL -n x suspend ks web", "kubectl gitops suspend", &["ks", "web"][..]),
            ("--context get suspend ks", "kubectl gitops suspend", &["ks"]),
            ("--context=get suspend", "kubectl gitops suspend", &[]),
            ("-nx prune qbec", "kubectl gitops prune qbec", &[]),
            ("--insecure-skip-tls-verify get a", "kubectl gitops get", &["a"]),
            ("get -Al app=x ks", "kubectl gitops get", &["ks"]),
            ("prune --plan --by flux a/b qbec", "kubectl gitops prune", &["a/b", "qbec"]),
            ("-n", "kubectl gitops", &[]),
        ] {
            let words: Vec<OsString> = ["kubectl-gitops"].into_iter().chain(line.split(' ')).map(Into::into).collect();
            let context = UsageContext::new(&root, &words);
            assert_eq!(path_of(context.command), path, "{line}");
            assert_eq!(context.arguments, arguments, "{line}");
        }
    }
}
