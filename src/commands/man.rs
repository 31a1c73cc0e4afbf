//! `man DIR`: one page for the plugin and one per verb, from the same definitions as `--help`.

use std::fs;
use std::path::PathBuf;

use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::cli::Cli;
use crate::error::{Error, Result};
use crate::exit::{EXIT_STATUS, ExitCode};

/// The pages carry the day of the release, not of the build, so that building twice gives the same bytes.
const DATE: &str = "2026-11-21";

/// Environment that the verbs read.
const ENVIRONMENT: [(&str, &str); 4] = [
    ("KUBECONFIG", "configuration files, separated by colons; missing ones are ignored"),
    ("KUBECTL_GITOPS_ANNOTATION_HONOURED", "true: this cluster's controllers honour the suspended annotation"),
    ("HTTPS_PROXY, NO_PROXY", "proxy for the API server, unless the configuration names one"),
    ("NO_COLOR", "no colour; no meaning is carried by colour alone"),
];

/// Write the man pages into a directory
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Directory, created when it is missing
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

/// Writes the pages.
///
/// # Errors
/// When the directory cannot be written.
pub fn run(args: &ManArgs) -> Result<ExitCode> {
    let failed = |error: std::io::Error| Error::failed(format!("cannot write {}: {error}", args.directory.display()));
    fs::create_dir_all(&args.directory).map_err(failed)?;
    for (name, page) in pages().map_err(failed)? {
        fs::write(args.directory.join(name), page).map_err(failed)?;
    }
    Ok(ExitCode::Done)
}

/// File name and content of every page.
///
/// # Errors
/// None in practice: pages are written to memory.
pub fn pages() -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut root = Cli::command();
    root.build();
    let verbs: Vec<Command> = root.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned().collect();
    let names: Vec<String> = verbs.iter().map(|verb| format!("kubectl-gitops-{}", verb.get_name())).collect();
    let mut pages = vec![("kubectl-gitops.1".to_owned(), page(root, "kubectl-gitops", &names)?)];
    for (verb, name) in verbs.into_iter().zip(&names) {
        let others = [String::from("kubectl-gitops")];
        pages.push((format!("{name}.1"), page(verb, name, &others)?));
    }
    Ok(pages)
}

fn page(command: Command, name: &str, others: &[String]) -> std::io::Result<Vec<u8>> {
    let examples = command.get_after_long_help().map(ToString::to_string);
    let subcommands = command.has_subcommands();
    let options = command.get_arguments().any(|argument| !argument.is_hide_set());
    let command = command.after_long_help("").after_help("").display_name(name.to_owned());
    let man = Man::new(command)
        .title(name.to_uppercase())
        .section("1")
        .date(DATE)
        .source(concat!("kubectl-gitops ", env!("CARGO_PKG_VERSION")))
        .manual("kubectl gitops manual");
    let mut text = vec![];
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    if options {
        man.render_options_section(&mut text)?;
    }
    if subcommands {
        man.render_subcommands_section(&mut text)?;
    }
    own_sections(examples.as_deref(), others).to_writer(&mut text)?;
    Ok(text)
}

fn own_sections(examples: Option<&str>, others: &[String]) -> Roff {
    let mut roff = Roff::default();
    roff.control("SH", ["EXIT STATUS"]);
    for (code, meaning) in EXIT_STATUS {
        roff.control("TP", []).text([bold((code as u8).to_string())]).text([roman(meaning)]);
    }
    roff.control("SH", ["ENVIRONMENT"]);
    for (name, meaning) in ENVIRONMENT {
        roff.control("TP", []).text([bold(name)]).text([roman(meaning)]);
    }
    if let Some(examples) = examples {
        roff.control("SH", ["EXAMPLES"]).control("nf", []);
        for line in examples.lines().skip_while(|line| line.trim_end() == "Examples:") {
            roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
        }
        roff.control("fi", []);
    }
    roff.control("SH", ["SEE ALSO"]);
    let others = others.iter().map(|name| format!("{name}(1)")).collect::<Vec<_>>().join(", ");
    roff.text([roman(format!("kubectl(1), {others}"))]);
    roff
}
