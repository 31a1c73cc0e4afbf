//! The committed man pages are those of the command line.

use std::fs;
use std::path::Path;

use clap::{Command, CommandFactory};
use gitops_core::plan::ReasonCode;
use kubectl_gitops::cli::{self, Cli};
use kubectl_gitops::commands::man;
use test_support::gitops::{Run, command};

const SECTIONS: [&str; 8] =
    ["NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES", "SEE ALSO"];

fn pages() -> Vec<(String, Vec<u8>)> {
    man::pages(Cli::command(), cli::command()).unwrap()
}

#[test]
fn committed_pages_are_up_to_date() {
    for (name, page) in pages() {
        let committed = fs::read(Path::new("man").join(&name)).unwrap_or_default();
        assert!(committed == page, "man/{name} is stale: run `cargo xtask man`");
    }
}

#[test]
fn every_page_has_every_section_and_every_flag() {
    let pages = pages();
    let text = |name: &str| {
        let page = pages.iter().find(|(page, _)| page == name).unwrap_or_else(|| panic!("no page {name}"));
        String::from_utf8(page.1.clone()).unwrap().replace("\\-", "-")
    };
    let mut root = cli::command();
    root.build();
    check(&root, "kubectl-gitops", &text);
    assert!(SECTIONS.iter().all(|section| text("kubectl-gitops.1").contains(section)));
    for (name, page) in &pages {
        assert!(page.is_ascii(), "{name}: formatters read Latin-1");
    }
    for (code, _) in ReasonCode::ALL {
        assert!(text("kubectl-gitops-prune.1").contains(&code.to_string()), "{code}");
    }
}

/// Checks the pages of the commands below a command.
fn check(command: &Command, name: &str, text: &impl Fn(&str) -> String) {
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        let name = format!("{name}-{}", verb.get_name());
        let page = text(&format!("{name}.1"));
        for section in SECTIONS {
            assert!(
                page.contains(&format!(".SH {section}")) || page.contains(&format!(".SH \"{section}\"")),
                "{name}: {section}"
            );
        }
        let place = |section: &str| page.find(&format!(".SH {section}"));
        assert!(place("EXAMPLES") > place("DESCRIPTION"), "{name}: examples follow the description");
        assert!(
            place("OPTIONS").is_none_or(|options| place("EXAMPLES") < Some(options)),
            "{name}: examples come first"
        );
        for flag in verb.get_arguments().filter(|flag| !flag.is_hide_set()).filter_map(|flag| flag.get_long()) {
            assert!(page.contains(&format!("--{flag}")), "{name}: --{flag}");
        }
        let call = format!("\\fB{}", verb.get_bin_name().unwrap().split(' ').next().unwrap());
        assert!(page.contains(&call), "{name}: the synopsis says how it is called");
        check(verb, &name, text);
    }
}

/// As in kubectl, the short help fits on one screen, the long help on two, and every flag has one line.
#[test]
fn help_fits_on_one_and_on_two_screens() {
    let mut root = cli::command();
    root.build();
    let mut paths = vec![];
    collect_paths(&root, &mut vec![], &mut paths);
    assert!(paths.len() > 10);
    for path in paths {
        for (flag, limit) in [("-h", 40), ("--help", 80)] {
            let mut words: Vec<&str> = path.iter().map(String::as_str).collect();
            words.push(flag);
            let run = Run::of(command(&words).env("COLUMNS", "100"));
            let lines = run.stdout.lines().count();
            assert!(run.code == 0 && lines <= limit, "{path:?} {flag}: {lines} lines\n{run}");
            let widest = run.stdout.lines().max_by_key(|line| line.chars().count()).unwrap_or_default();
            assert!(widest.chars().count() <= 100, "{path:?} {flag}: {widest}");
        }
    }
}

/// A line that the help breaks cannot be copied, and a comment would continue without its sign.
#[test]
fn examples_are_whole_on_a_terminal_of_80_columns() {
    let mut root = cli::command();
    root.build();
    let mut paths = vec![];
    collect_paths(&root, &mut vec![], &mut paths);
    for path in paths {
        let command_of = |root, name: &String| Command::find_subcommand(root, name).unwrap();
        let verb = path.iter().fold(&root, command_of);
        let short = verb.get_after_help();
        for (flag, examples) in [("-h", short), ("--help", verb.get_after_long_help().or(short))] {
            let words: Vec<&str> = path.iter().map(String::as_str).chain([flag]).collect();
            let run = Run::of(command(&words).env("COLUMNS", "80"));
            let examples = examples.map(ToString::to_string).unwrap_or_default();
            assert!(run.stdout.contains(examples.trim_end()), "{path:?} {flag}: {run}");
            assert!(run.stdout.lines().all(|line| line.chars().count() <= 80), "{path:?} {flag}: {run}");
        }
    }
}

fn collect_paths(command: &Command, path: &mut Vec<String>, paths: &mut Vec<Vec<String>>) {
    paths.push(path.clone());
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        path.push(verb.get_name().to_owned());
        collect_paths(verb, path, paths);
        path.pop();
    }
}
