//! Shell completion: a script for the bare binary, and the protocol of kubectl for its plugins.
//!
//! Source: docs/reference/kubectl-plugin.md 4. kubectl runs an executable `kubectl_complete-gitops` from PATH with the words
//! after the plugin's name and reads candidates, then `:4` for "no files".

use std::ffi::OsString;
use std::path::Path;

use clap::{Args, CommandFactory};
use clap_complete::engine::CompletionCandidate;
use clap_complete::{Shell, generate};

use super::Session;
use crate::cli::Cli;
use crate::error::Result;
use crate::exit::ExitCode;
use crate::output::terminal::Terminal;

/// Name by which kubectl runs a plugin's completion.
const COMPLETER: &str = "kubectl_complete-";
/// The wrapper that a user puts on PATH.
const WRAPPER: &str = "#!/bin/sh\nexec kubectl gitops __complete \"$@\"\n";

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

/// Prints a completion script. Fails if standard output cannot be written.
pub fn run(args: &CompletionArgs, session: &mut Session) -> Result<ExitCode> {
    let Ok(shell) = args.shell.parse::<Shell>() else {
        session.terminal.data(WRAPPER)?;
        return Ok(ExitCode::Done);
    };
    let mut script = vec![];
    generate(shell, &mut Cli::command(), "kubectl-gitops", &mut script);
    session.terminal.data(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::Done)
}

/// Answers kubectl's completion protocol. Fails if standard output cannot be written.
pub fn complete(args: &CompleteArgs, session: &mut Session) -> Result<ExitCode> {
    answer(&args.words, &mut session.terminal)
}

/// Answers when the binary runs under its completion name; `None` otherwise.
pub fn called_by_name() -> Option<Result<ExitCode>> {
    let mut words = std::env::args_os();
    let name = words.next()?;
    Path::new(&name).file_name()?.to_str()?.starts_with(COMPLETER).then(|| {
        let words: Vec<_> = words.collect();
        answer(&words, &mut Terminal::process())
    })
}

/// Never fails because of the words: a failure would make the shell forget what was typed.
fn answer(words: &[OsString], terminal: &mut Terminal) -> Result<ExitCode> {
    let typed = words.last().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    let mut line = vec![OsString::from("kubectl-gitops")];
    line.extend(words.iter().cloned());
    if words.is_empty() {
        line.push(OsString::new());
    }
    let last = line.len() - 1;
    let candidates = clap_complete::engine::complete(&mut Cli::command(), line, last, None).unwrap_or_default();
    let wanted = |candidate: &&CompletionCandidate| {
        let value = candidate.get_value().to_string_lossy();
        !candidate.is_hide_set() && (typed.starts_with('-') || !value.starts_with('-'))
    };
    let mut text = String::new();
    for candidate in candidates.iter().filter(wanted) {
        text.push_str(&candidate.get_value().to_string_lossy());
        if let Some(help) = candidate.get_help() {
            let help = help.to_string();
            text.push('\t');
            text.push_str(help.lines().next().unwrap_or_default());
        }
        text.push('\n');
    }
    text.push_str(":4\n");
    terminal.data(&text)?;
    Ok(ExitCode::Done)
}
