//! `man DIR`: one page for the plugin and one per verb, from the same definitions as `--help`.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};

use crate::error::{Error, Result};
use crate::exit::{EXIT_STATUS, ExitCode};
use gitops_core::plan::ReasonCode;

/// Date of the release. A build date would make every build different.
const DATE: &str = "2026-11-21";

/// Environment variables that the verbs read.
const ENVIRONMENT: [(&str, &str); 6] = [
    ("KUBECONFIG", "configuration files, separated by colons; missing ones are ignored"),
    ("KUBECTL_GITOPS_ANNOTATION_HONOURED", "true: this cluster's controllers honour the suspended annotation"),
    ("KUBECTL_GITOPS_SUSPEND", "spec: suspend sets spec.suspend too; annotation: it does not; flags win"),
    ("KUBECTL_GITOPS_COMPLETION_WAIT", "time that the completion of names waits for the cluster; 250ms when unset"),
    ("HTTPS_PROXY, NO_PROXY", "proxy for the API server, unless the configuration names one"),
    ("NO_COLOR", "no colour; no meaning is carried by colour alone"),
];

/// Files that the verbs read.
const FILES: [(&str, &str); 2] = [
    ("~/.kube/config", "configuration without --kubeconfig and KUBECONFIG"),
    ("~/.kube/kuberc", "policy for credential plugins; KUBERC names another file"),
];

/// Write the man pages into a directory
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  # Write the pages where man finds them
  kubectl gitops man -- ~/.local/share/man/man1
  man kubectl-gitops-prune")]
pub struct ManArgs {
    /// Directory, created when it is missing
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

/// Writes the man pages into the directory. `root` and `verbs` are as in [`pages`].
pub fn run(args: &ManArgs, root: Command, verbs: Command) -> Result<ExitCode> {
    write_pages(&args.directory, root, verbs)
        .map(|()| ExitCode::Done)
        .map_err(|error| Error::failed(format!("cannot write {}: {error}", args.directory.display())))
}

fn write_pages(directory: &Path, root: Command, verbs: Command) -> std::io::Result<()> {
    fs::create_dir_all(directory)?;
    for (name, page) in pages(root, verbs)? {
        fs::write(directory.join(name), page)?;
    }
    Ok(())
}

/// Returns the file name and the content of every page: that of the command line with all flags, `root`, and those of the
/// verbs with the flags that their help shows.
pub fn pages(mut root: Command, mut verbs: Command) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    root.build();
    verbs.build();
    let mut names = vec![];
    page_names(&verbs, "kubectl-gitops", &mut names);
    let mut pages = vec![("kubectl-gitops.1".to_owned(), page(&root, "kubectl-gitops", &names[1..])?)];
    add_pages(&verbs, "kubectl-gitops", &mut pages)?;
    Ok(pages)
}

fn page_names(command: &Command, name: &str, names: &mut Vec<String>) {
    names.push(name.to_owned());
    for subcommand in visible_subcommands(command) {
        page_names(subcommand, &format!("{name}-{}", subcommand.get_name()), names);
    }
}

/// Adds the pages of the subcommands, each before its own subcommands.
fn add_pages(command: &Command, name: &str, pages: &mut Vec<(String, Vec<u8>)>) -> std::io::Result<()> {
    for subcommand in visible_subcommands(command) {
        let own = format!("{name}-{}", subcommand.get_name());
        let mut related = vec![name.to_owned()];
        related.extend(visible_subcommands(subcommand).map(|sub| format!("{own}-{}", sub.get_name())));
        pages.push((format!("{own}.1"), page(subcommand, &own, &related)?));
        add_pages(subcommand, &own, pages)?;
    }
    Ok(())
}

fn visible_subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set())
}

fn page(command: &Command, name: &str, related: &[String]) -> std::io::Result<Vec<u8>> {
    let bare = command.clone().after_long_help("").after_help("").display_name(name.to_owned());
    let man = Man::new(bare.mut_args(|argument| argument.hide_short_help(false)))
        .title(name.to_uppercase())
        .section("1")
        .date(DATE)
        .source(concat!("kubectl-gitops ", env!("CARGO_PKG_VERSION")))
        .manual("kubectl gitops manual");
    let mut text = vec![];
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    synopsis(command).to_writer(&mut text)?;
    man.render_description_section(&mut text)?;
    if let Some(examples) = command.get_after_long_help().map(ToString::to_string) {
        let mut roff = Roff::default();
        roff.control("SH", ["EXAMPLES"]).control("nf", []);
        let lines = examples.lines().filter(|line| line.trim_end() != "Examples:" && !line.starts_with("Use \""));
        for line in lines.collect::<Vec<_>>().join("\n").trim_end().lines() {
            roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
        }
        roff.control("fi", []);
        roff.to_writer(&mut text)?;
    }
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut text)?;
    }
    if visible_subcommands(command).next().is_some() {
        man.render_subcommands_section(&mut text)?;
    }
    let mut roff = Roff::default();
    if name == "kubectl-gitops-prune" {
        list(&mut roff, "REASON CODES", ReasonCode::ALL.iter().map(|(code, meaning)| (code.to_string(), *meaning)));
    }
    list(&mut roff, "EXIT STATUS", EXIT_STATUS.iter().map(|(code, meaning)| ((*code as u8).to_string(), *meaning)));
    list(&mut roff, "ENVIRONMENT", ENVIRONMENT.iter().map(|(name, meaning)| ((*name).to_owned(), *meaning)));
    list(&mut roff, "FILES", FILES.iter().map(|(name, meaning)| ((*name).to_owned(), *meaning)));
    let related: Vec<String> = related.iter().map(|name| format!("{name}(1)")).collect();
    roff.control("SH", ["SEE ALSO"]).text([roman(format!("kubectl(1), {}", related.join(", ")))]);
    roff.to_writer(&mut text)?;
    Ok(portable(&text))
}

/// Returns the SYNOPSIS section: the usage lines of the help, without the brackets of placeholders.
fn synopsis(command: &Command) -> Roff {
    let usage = command.clone().render_usage().to_string().replace(['<', '>'], "");
    let mut roff = Roff::default();
    roff.control("SH", ["SYNOPSIS"]);
    for (index, line) in usage.trim_start_matches("Usage:").trim().lines().enumerate() {
        if index > 0 {
            roff.control("br", []);
        }
        roff.text(words(line.trim()));
    }
    roff
}

/// Sets commands and flags in bold, placeholders in italics, and the signs between them in roman.
fn words(line: &str) -> Vec<Inline> {
    let mut inlines = vec![];
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| is_sign(c) != is_sign(first)).unwrap_or(rest.len());
        let (text, after) = rest.split_at(end);
        inlines.push(match text {
            _ if is_sign(first) => roman(text),
            _ if text.starts_with('-') || text.chars().any(char::is_lowercase) => bold(text),
            _ => italic(text),
        });
        rest = after;
    }
    inlines
}

fn is_sign(c: char) -> bool {
    "[]{}|,. …".contains(c)
}

/// Returns a page without what formatters warn about: line breaks around an empty line, and characters beyond ASCII.
fn portable(page: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(page).replace("\n.br\n\n.br\n", "\n.sp\n");
    let mut portable = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii() {
            portable.push(character);
        } else {
            portable.push_str(&format!("\\[u{:04X}]", u32::from(character)));
        }
    }
    portable.into_bytes()
}

/// Adds a section with a list of terms.
fn list<'a>(roff: &mut Roff, heading: &str, rows: impl Iterator<Item = (String, &'a str)>) {
    roff.control("SH", [heading]);
    for (term, meaning) in rows {
        roff.control("TP", []).text([bold(term)]).text([roman(meaning)]);
    }
}
