//! Seed 000's table of configuration changes, printed by the tool itself on a prepared cluster; then fluxd does each.

use std::fmt::Write as _;
use std::io::Write as _;

use test_support::comparison::Table;
use test_support::folder::reports;

use super::cases::{Change, cm, namespace};
use super::repository::{Collection, Config, Repository, paths};
use super::{cluster, repository};

const NEW: &str = "git@new.example.com:shop/deploy";
const RELABELLED: &str = "it is in the new manifests";
const MISSED: &str = "it is in no new manifest and keeps the label of the old source, so fluxd never finds it again";
const CREATED: &str = "it is in the new manifests and not in the cluster";
const DELETED: &str = "it carries the label of the new source and is in no manifest";

/// Output of the tool for one change: action, kind, name and reason of each object.
struct Expected<'a> {
    title: &'a str,
    lines: &'a [(&'static str, &'static str, &'static str, &'static str)],
    summary: &'a str,
}

struct Printed<'a> {
    repository: &'a Repository,
    change: Change<'a>,
    text: String,
}

impl Printed<'_> {
    /// Previews a change, compares what is printed, and lets fluxd do it.
    fn row(&mut self, name: &str, old: &Config, new: &Config, args: &[&str], expected: &Expected<'_>) {
        let files = self.repository.files(&new.paths);
        let all: Vec<&str> = args.iter().copied().chain(files.iter().map(String::as_str)).collect();
        let run = self.repository.gitops(old, &["prune", "flux-v1", "--plan"], &all);
        assert!([0, 6].contains(&run.code), "{name}: {run:?}");
        let lines: Vec<Vec<&str>> = run.stdout.lines().skip(1).map(cells).collect();
        let row = |(fate, kind, name, why): &(&'static str, &'static str, &'static str, &'static str)| {
            let place = if *kind == "Namespace" { vec![] } else { vec!["shop"] };
            [vec![*fate], place, vec![*kind, *name, *why]].concat()
        };
        let rows: Vec<Vec<&str>> = expected.lines.iter().map(row).collect();
        assert_eq!(lines, rows, "{name}: {run:?}");
        assert!(run.stderr.contains(expected.title), "{name}: {}", run.stderr);
        assert!(run.stderr.lines().any(|line| line == expected.summary), "{name}: {}", run.stderr);
        let missed: Vec<String> = expected
            .lines
            .iter()
            .filter(|line| line.3 == MISSED)
            .map(|line| format!("shop:{}/{}", line.1.to_lowercase(), line.2))
            .collect();
        assert_eq!(run.stderr.contains("hint: once fluxd has the new source"), !missed.is_empty(), "{name}");
        let (before, after) = run.stderr.split_once(expected.summary).unwrap();
        let _ = writeln!(self.text, "# {name}\n{before}{}{}{after}", run.stdout, expected.summary);
        let missed: Vec<&str> = missed.iter().map(String::as_str).collect();
        self.change.case(name, old, new, &missed);
    }
}

/// Columns are three spaces apart.
fn cells(line: &str) -> Vec<&str> {
    line.split("   ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

#[test]
fn the_table_of_configuration_changes() {
    let _cluster = cluster();
    let repository = repository("shop");
    repository.known_as(&[NEW]);
    repository.write("base/ns.yaml", &namespace("shop")).write("base/web.yaml", &cm("shop", "web"));
    repository.write("jobs/readme.md", "x").write("jobs/mail.yaml", &cm("shop", "mail"));
    repository.write("extra/faq.yaml", &cm("shop", "faq")).write("basejobs/ns.yaml", &namespace("shop")).push();
    let old = paths(&["base", "jobs"]);
    repository.sync(&old, Collection::On);
    let change = Change { repository: &repository, table: Table::default(), namespace: "shop" };
    let mut printed = Printed { repository: &repository, change, text: String::new() };
    let relabelled = |kind, name| ("relabelled", kind, name, RELABELLED);
    let (web, shop) = (relabelled("ConfigMap", "web"), relabelled("Namespace", "shop"));
    let faq = relabelled("ConfigMap", "faq");

    let url = Config { url: Some(NEW), ..old.clone() };
    let expected = Expected {
        title: " -> ssh://git@new.example.com/shop/deploy\n",
        lines: &[relabelled("ConfigMap", "mail"), web, shop],
        summary: "3 relabelled",
    };
    printed.row("URL changed, same manifests", &old, &url, &["--new-git-url", NEW], &expected);

    repository.remove("jobs/mail.yaml").write("jobs/post.yaml", &cm("shop", "post")).push();
    let main = Config { branch: "main", ..url.clone() };
    let expected = Expected {
        title: "fluxd's source changes: branch master -> main\n",
        lines: &[
            ("never found again", "ConfigMap", "mail", MISSED),
            ("created", "ConfigMap", "post", CREATED),
            web,
            shop,
        ],
        summary: "1 never found again, 1 created, 2 relabelled",
    };
    printed.row("branch changed, other manifests", &url, &main, &["--new-git-branch", "main"], &expected);

    let at = |list: &[&str]| Config { paths: paths(list).paths, ..main.clone() };
    let added = at(&["base", "jobs", "extra"]);
    let expected = Expected {
        title: "fluxd's source changes: paths base, jobs -> base, jobs, extra\n",
        lines: &[("created", "ConfigMap", "faq", CREATED), relabelled("ConfigMap", "post"), web, shop],
        summary: "1 created, 3 relabelled",
    };
    printed.row("path added", &main, &added, &["--new-git-path", "base,jobs,extra"], &expected);

    let removed = at(&["base", "extra"]);
    let expected = Expected {
        title: "fluxd's source changes: paths base, jobs, extra -> base, extra\n",
        lines: &[("never found again", "ConfigMap", "post", MISSED), faq, web, shop],
        summary: "1 never found again, 3 relabelled",
    };
    printed.row("path removed", &added, &removed, &["--new-git-path", "base,extra"], &expected);

    let reordered = at(&["extra", "base"]);
    let expected = Expected {
        title: "fluxd's source changes: paths base, extra -> extra, base\n",
        lines: &[faq, web, shop],
        summary: "3 relabelled",
    };
    printed.row("paths reordered", &removed, &reordered, &["--new-git-path", "extra,base"], &expected);

    repository.remove("jobs/post.yaml").push();
    let expected = Expected {
        title: "fluxd's source changes: paths extra, base -> base, jobs, extra\n",
        lines: &[("deleted", "ConfigMap", "post", DELETED), faq, web, shop],
        summary: "1 deleted, 3 relabelled",
    };
    let args = ["--new-git-path", "base,jobs,extra"];
    printed.row("back to an old source, whose orphan is collected now", &reordered, &added, &args, &expected);

    let collides = at(&["basejobs", "extra"]);
    let expected = Expected {
        title: "warning: both sources have the same hash (fluxd hashes URLs without passwords, and joins the parts without \
                separators): nothing is relabelled, and what the new manifests lack is deleted\n\
                fluxd's source changes: paths base, jobs, extra -> basejobs, extra\n",
        lines: &[("deleted", "ConfigMap", "web", DELETED)],
        summary: "1 deleted",
    };
    printed.row("paths that collide when joined", &added, &collides, &["--new-git-path", "basejobs,extra"], &expected);

    let expected = Expected { title: "fluxd's source stays the same\n", lines: &[], summary: "nothing changes" };
    printed.row("nothing", &collides, &collides, &["--new-git-branch", "main"], &expected);

    let text = printed.text.replace(&repository.url(), "file:///srv/deploy.git");
    let _ = std::io::stderr().write_all(text.as_bytes());
    let file = reports().join("fluxd-table.txt");
    std::fs::write(file, text).expect("the table is written");

    // What was missed can be deleted with the old source and the new manifests.
    let now = ["-f".to_owned(), repository.work().join("base").display().to_string()];
    let missed = repository.gitops(&url, &["prune", "flux-v1", "--plan"], &[&now[0], &now[1]]);
    assert!(missed.stdout.contains("not-in-manifests") && missed.stdout.contains("mail"), "{missed:?}");
}
