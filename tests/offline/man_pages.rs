//! The committed man pages are those of the command line.

use std::fs;
use std::path::Path;

use clap::CommandFactory;
use kubectl_gitops::cli::Cli;
use kubectl_gitops::commands::man::pages;

#[test]
fn committed_pages_are_up_to_date() {
    for (name, page) in pages().unwrap() {
        let committed = fs::read(Path::new("man").join(&name)).unwrap_or_default();
        assert!(committed == page, "man/{name} is stale: run `cargo xtask man`");
    }
}

#[test]
fn every_page_has_every_section_and_every_flag() {
    let pages = pages().unwrap();
    let text = |name: &str| {
        let page = pages.iter().find(|(page, _)| page == name).unwrap_or_else(|| panic!("no page {name}"));
        String::from_utf8(page.1.clone()).unwrap().replace("\\-", "-")
    };
    let mut root = Cli::command();
    root.build();
    for verb in root.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        let page = text(&format!("kubectl-gitops-{}.1", verb.get_name()));
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "ENVIRONMENT", "SEE ALSO"] {
            assert!(
                page.contains(&format!(".SH {section}")) || page.contains(&format!(".SH \"{section}\"")),
                "{}: {section}",
                verb.get_name()
            );
        }
        for flag in verb.get_arguments().filter(|flag| !flag.is_hide_set()).filter_map(|flag| flag.get_long()) {
            assert!(page.contains(&format!("--{flag}")), "{}: --{flag}", verb.get_name());
        }
        assert!(page.contains(&format!("kubectl gitops {}", verb.get_name())), "the synopsis says how it is called");
    }
}
