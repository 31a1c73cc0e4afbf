//! Parses, runs the verb, prints the error and its hint, and ends with the exit code.

use clap::Parser;
use kubectl_gitops::cli::{Cli, Command};
use kubectl_gitops::commands;
use kubectl_gitops::commands::Session;
use kubectl_gitops::error::{Error, Result};
use kubectl_gitops::exit::ExitCode;
use kubectl_gitops::output::sanitize;
use kubectl_gitops::output::terminal::Terminal;

/// How the messages begin that kubectl prints without `error: `.
const KUBECTL_LINES: [&str; 4] =
    ["Error from server", "The connection to the server", "Unable to connect to the server", "You must be logged in"];

fn main() -> std::process::ExitCode {
    if let Some(answer) = commands::completion::called_by_name() {
        return finish(&mut Terminal::process(), answer);
    }
    let cli = Cli::parse();
    log(cli.verbosity);
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return finish(&mut Terminal::process(), Err(Error::failed(format!("cannot start: {error}")))),
    };
    let terminal = Terminal::process();
    let mut session = Session { connection: cli.connection, terminal, now: chrono::Utc::now() };
    let outcome = runtime.block_on(run(cli.command, &mut session));
    let code = finish(&mut session.terminal, outcome);
    // A look-up of a name that hangs must not hold the process.
    runtime.shutdown_background();
    code
}

async fn run(command: Command, session: &mut Session) -> Result<ExitCode> {
    match command {
        Command::Get(args) => commands::get::run(&args, session).await,
        Command::Suspend(args) => commands::suspend::run(&args, session).await,
        Command::Resume(args) => commands::resume::run(&args, session).await,
        Command::Inventory(args) => commands::inventory::run(&args, session).await,
        Command::Prune(args) => commands::prune::run(&args, session).await,
        Command::Snapshot(args) => commands::snapshot::run(&args, session).await,
        Command::Completion(args) => commands::completion::run(&args, session),
        Command::Man(args) => commands::man::run(&args),
        Command::Version => commands::version(session),
        Command::Complete(args) => commands::completion::complete(&args, session),
    }
}

fn finish(terminal: &mut Terminal, outcome: Result<ExitCode>) -> std::process::ExitCode {
    let error = match outcome {
        Ok(code) => return code.into(),
        Err(error) => error,
    };
    if !error.message.is_empty() {
        let message = sanitize::escape(&error.message);
        // kubectl's users know some messages as whole lines.
        match KUBECTL_LINES.iter().any(|start| message.starts_with(start)) {
            true => terminal.status(&message),
            false => terminal.error(&message),
        }
    }
    if let Some(hint) = &error.hint {
        terminal.hint(&sanitize::escape(hint));
    }
    error.exit.into()
}

/// At 6 one line per request, as kubectl has it; from 8 on everything that the libraries say. kube logs response bodies on
/// decoding errors, so it stays silent before that.
fn log(verbosity: u8) {
    use tracing_subscriber::filter::{LevelFilter, Targets};
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::util::SubscriberInitExt;
    let (own, libraries) = match verbosity {
        0 => return,
        1..=5 => (LevelFilter::INFO, LevelFilter::WARN),
        6..=7 => (LevelFilter::DEBUG, LevelFilter::WARN),
        _ => (LevelFilter::TRACE, LevelFilter::TRACE),
    };
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    tracing_subscriber::registry()
        .with(lines)
        .with(Targets::new().with_target("kubectl_gitops", own).with_default(libraries))
        .init();
}
