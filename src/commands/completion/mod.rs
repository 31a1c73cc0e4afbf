//! Shell completion: a script for the bare binary, and the protocol of kubectl for its plugins.
//!
//! Source: docs/reference/kubectl-plugin.md 4. kubectl runs an executable `kubectl_complete-gitops` from PATH with the words
//! after the plugin's name; flux runs the plugin with `__complete`. Both read candidates, then a sum of directives.

mod live;
mod question;

use std::ffi::OsString;
use std::path::Path;

use clap::{Args, Command};
use clap_complete::engine::CompletionCandidate;
use clap_complete::{Shell, generate};

use self::question::{Line, Question};
use super::Session;
use crate::error::Result;
use crate::exit::ExitCode;
use crate::name;
use crate::output::terminal::Terminal;

/// Name by which kubectl runs a plugin's completion.
const COMPLETER: &str = "kubectl_complete-";
/// Directives after the candidates: no space after the word, and no names of files.
const NO_SPACE: u8 = 2;
const NO_FILES: u8 = 4;

/// Print a completion script
///
/// For `kubectl gitops …`, kubectl asks an executable named kubectl_complete-gitops on PATH; `completion kubectl` prints
/// it. For the bare binary `kubectl-gitops`, name your shell.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  # Complete `kubectl gitops` (kubectl 1.26 or newer)
  kubectl gitops completion kubectl > ~/.local/bin/kubectl_complete-gitops
  chmod +x ~/.local/bin/kubectl_complete-gitops

  # Complete the bare binary in bash
  source <(kubectl-gitops completion bash)")]
pub struct CompletionArgs {
    /// kubectl, bash, elvish, fish, powershell or zsh
    #[arg(value_name = "SHELL", value_parser = ["kubectl", "bash", "elvish", "fish", "powershell", "zsh"], hide_possible_values = true)]
    pub shell: String,
}

/// Words after the plugin's name, the last one being completed.
#[derive(Debug, Args)]
pub struct CompleteArgs {
    /// Words of the command line so far
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<OsString>,
}

/// Prints a completion script of a command line. Fails if standard output cannot be written.
pub fn run(args: &CompletionArgs, session: &mut Session, mut root: Command) -> Result<ExitCode> {
    let Ok(shell) = args.shell.parse::<Shell>() else {
        // Not by kubectl, which takes words with a slash for the path of a program (docs/reference/kubectl-plugin.md 1).
        let program = name::program_of_kubectl(session.terminal.called());
        session.terminal.raw(&format!("#!/bin/sh\nexec {program} __complete \"$@\"\n"))?;
        return Ok(ExitCode::Done);
    };
    let mut script = vec![];
    generate(shell, &mut root, "kubectl-gitops", &mut script);
    session.terminal.raw(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::Done)
}

/// Answers kubectl's completion protocol. Fails if standard output cannot be written.
pub fn complete(args: &CompleteArgs, session: &mut Session, root: Command) -> Result<ExitCode> {
    answer(&args.words, &mut session.terminal, root)
}

/// Answers when the binary runs under its completion name; `None` otherwise. `root` returns the command line.
pub fn called_by_name(root: impl FnOnce() -> Command) -> Option<Result<ExitCode>> {
    let mut words = std::env::args_os();
    let name = words.next()?;
    Path::new(&name)
        .file_name()?
        .to_str()?
        .starts_with(COMPLETER)
        .then(|| answer(&words.collect::<Vec<_>>(), &mut Terminal::process(), root()))
}

/// Never fails because of the words: a failure would make the shell forget what was typed.
fn answer(words: &[OsString], terminal: &mut Terminal, root: Command) -> Result<ExitCode> {
    let typed = words.last().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    let mut line = vec![OsString::from("kubectl-gitops")];
    line.extend(words.iter().cloned());
    if words.is_empty() {
        line.push(OsString::new());
    }
    let last = line.len() - 1;
    let mut command = question::mark(root.clone());
    let candidates = clap_complete::engine::complete(&mut command, line.clone(), last, None).unwrap_or_default();
    let mut rows = vec![];
    for candidate in candidates.iter().filter(|candidate| is_wanted(candidate, &typed)) {
        let value = candidate.get_value().to_string_lossy();
        match Question::in_candidate(&value) {
            None => {
                let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
                rows.push((value.into_owned(), help.lines().next().unwrap_or_default().to_owned()));
            }
            Some((before, question)) => {
                let begun = typed.strip_prefix(before).unwrap_or_default();
                let context = Line::parse(root.clone(), &line[..last]);
                let found = live::candidates(question, &context, begun);
                rows.extend(found.into_iter().map(|name| (format!("{before}{name}"), String::new())));
            }
        }
    }
    let is_unfinished = !rows.is_empty() && rows.iter().all(|(value, _)| value.ends_with(['/', '=']));
    let mut text = String::new();
    for (value, help) in rows {
        text.push_str(&value);
        if !help.is_empty() {
            text.push('\t');
            text.push_str(&help);
        }
        text.push('\n');
    }
    let directives = if is_unfinished { NO_FILES | NO_SPACE } else { NO_FILES };
    text.push_str(&format!(":{directives}\n"));
    terminal.raw(&text)?;
    Ok(ExitCode::Done)
}

/// Returns true unless a candidate is hidden, or a flag where no flag is typed.
fn is_wanted(candidate: &CompletionCandidate, typed: &str) -> bool {
    let value = candidate.get_value().to_string_lossy();
    !candidate.is_hide_set() && (typed.starts_with('-') || !value.starts_with('-'))
}
