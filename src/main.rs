//! Entry point: parses the command line, runs the verb, prints the error and its hint, and exits with its code.

use clap::CommandFactory;
use kubectl_gitops::cli::{self, Cli, Command};
use kubectl_gitops::cluster::config::args::ConnectionArgs;
use kubectl_gitops::commands;
use kubectl_gitops::commands::Session;
use kubectl_gitops::error::{Error, Result};
use kubectl_gitops::exit::ExitCode;
use kubectl_gitops::output::terminal::Terminal;
use kubectl_gitops::tools::sandbox;
use kubectl_gitops::usage::{self, Rejection};
use tokio::runtime::Runtime;

fn main() -> std::process::ExitCode {
    if let Some(failed) = sandbox::launcher::enter() {
        return failed;
    }
    if let Some(answer) = commands::completion::called_by_name(cli::command) {
        return finish(&mut Terminal::process(), answer);
    }
    let cli = match usage::parse(std::env::args_os().collect()) {
        Ok(cli) => cli,
        Err(Rejection::Usage(error)) => return finish(&mut Terminal::process(), Err(error)),
        Err(Rejection::Help(text)) => {
            let mut terminal = Terminal::process();
            let outcome = terminal.help(&text).map(|()| ExitCode::Done);
            return finish(&mut terminal, outcome);
        }
        Err(Rejection::HelpInstead(text)) => {
            Terminal::process().block(&text);
            return ExitCode::Usage.into();
        }
    };
    init_logging(cli.verbosity);
    let connection = ConnectionArgs { verb: cli.command.verb(), ..cli.connection };
    let mut session = Session::new(connection, Terminal::process(), chrono::Utc::now());
    if let Some(file) = cli.command.snapshot() {
        session.name_recording(file);
    }
    let outcome = run(cli.command, &mut session);
    session.print_warnings();
    finish(&mut session.terminal, outcome)
}

fn run(command: Command, session: &mut Session) -> Result<ExitCode> {
    match command {
        Command::Get(args) => block_on(commands::get::run(&args, session)),
        Command::Suspend(args) => block_on(commands::suspend::run(&args, session)),
        Command::Resume(args) => block_on(commands::resume::run(&args, session)),
        Command::Inventory(args) => block_on(commands::inventory::run(&args, session)),
        Command::Plan(args) => block_on(commands::plan::run(*args, session)),
        Command::Handover(args) => block_on(commands::steps::handover::run(&args, session)),
        Command::Retire(args) => block_on(commands::steps::retire::run(&args, session)),
        Command::Prune(args) => block_on(commands::prune::run(&args, session)),
        Command::Guard(args) => block_on(commands::guard::run(&args, session)),
        Command::Snapshot(args) => block_on(commands::snapshot::run(&args, session)),
        Command::Mcp(args) => block_on(commands::mcp::run(&args, session)),
        Command::Completion(args) => commands::completion::run(&args, session, Cli::command()),
        Command::Man(args) => commands::man::run(&args, Cli::command(), cli::command()),
        Command::Options => commands::options(session, Cli::command()),
        Command::Version => commands::version(session),
        Command::Complete(args) => commands::completion::complete(&args, session, cli::command()),
    }
}

/// Runs a verb to its end, without waiting for a DNS lookup that is still running.
fn block_on(verb: impl Future<Output = Result<ExitCode>>) -> Result<ExitCode> {
    let runtime = Runtime::new().map_err(|error| Error::failed(format!("cannot start: {error}")))?;
    let outcome = runtime.block_on(verb);
    runtime.shutdown_background();
    outcome
}

fn finish(terminal: &mut Terminal, outcome: Result<ExitCode>) -> std::process::ExitCode {
    match outcome {
        Ok(code) => code.into(),
        Err(error) => {
            terminal.failure(&error);
            error.exit.into()
        }
    }
}

/// Sets up logging: from 6 on one line per request, as in kubectl; from 8 on also the libraries, because kube logs
/// response bodies when it cannot decode them.
fn init_logging(verbosity: u8) {
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
