//! Parses, runs the verb, prints the error and its hint, and ends with the exit code.

use clap::Parser;
use kubectl_gitops::cli::{Cli, Command};
use kubectl_gitops::command::{self, Session};
use kubectl_gitops::error::Result;
use kubectl_gitops::exit::ExitCode;
use kubectl_gitops::terminal::Terminal;

#[tokio::main]
async fn main() -> std::process::ExitCode {
    if let Some(candidates) = command::completion::called_by_name() {
        return finish(&mut Terminal::process(), candidates);
    }
    let cli = Cli::parse();
    log(cli.verbosity);
    let terminal = Terminal::process();
    let mut session = Session { connection: cli.connection, terminal, now: chrono::Utc::now() };
    let outcome = run(cli.command, &mut session).await;
    finish(&mut session.terminal, outcome)
}

async fn run(command: Command, session: &mut Session) -> Result<ExitCode> {
    match command {
        Command::Get(args) => command::get::run(&args, session).await,
        Command::Suspend(args) => command::suspend::run(&args, session).await,
        Command::Resume(args) => command::resume::run(&args, session).await,
        Command::Prune(args) => command::prune::run(&args, session).await,
        Command::Snapshot(args) => command::snapshot::run(&args, session).await,
        Command::Completion(args) => command::completion::run(&args, session),
        Command::Man(args) => command::man::run(&args),
        Command::Version => command::version(session),
        Command::Complete(args) => command::completion::complete(&args, session),
    }
}

fn finish(terminal: &mut Terminal, outcome: Result<ExitCode>) -> std::process::ExitCode {
    let error = match outcome {
        Ok(code) => return code.into(),
        Err(error) => error,
    };
    if !error.message.is_empty() {
        terminal.error(&error.message);
    }
    if let Some(hint) = &error.hint {
        terminal.hint(hint);
    }
    error.exit.into()
}

/// kube logs response bodies on decoding errors, so it stays silent unless requests are asked for.
fn log(verbosity: u8) {
    use tracing_subscriber::filter::{LevelFilter, Targets};
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::util::SubscriberInitExt;
    let level = match verbosity {
        0 => return,
        1..=5 => LevelFilter::INFO,
        6..=7 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    tracing_subscriber::registry().with(lines).with(Targets::new().with_default(level)).init();
}
