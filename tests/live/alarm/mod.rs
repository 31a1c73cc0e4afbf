//! Calibration of the alarm: how often ordinary commits raise it, and that no disaster is missed. The real
//! kustomize-controller applies each repository; then the plans of generated commits are made from a recording of the
//! cluster.
//!
//! `ALARM_COMMITS=200 cargo test --test live alarm -- --nocapture` plans 200 commits of each sort in each layout, and
//! `ALARM_SEED=7` others. docs/alarm.md has the table.

mod commits;
mod layouts;
mod tree;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use test_support::cluster::with_kustomize_controller;
use test_support::folder::folder;
use test_support::gitops::{Run, command, gitops};
use test_support::random::Random;
use xtask::cluster::Cluster;
use xtask::controlplane::bin;

use commits::{Commit, DISASTERS, ORDINARY};
use layouts::{Layout, Repository};

/// Commits of each sort in each layout in the usual tests.
const COMMITS: usize = 7;
/// Plans at the same time.
const AT_ONCE: usize = 2;

/// A commit to plan.
struct Case {
    layout: Layout,
    sort: &'static str,
    is_disaster: bool,
    commit: Commit,
    seed: u64,
}

/// A commit that was planned.
struct Outcome {
    case: Case,
    /// Codes of the alarms.
    alarms: Vec<String>,
    run: Run,
}

fn number(variable: &str) -> Option<usize> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

/// Publishes the repository of a layout and waits until all its Kustomizations are ready. Returns its checkout.
fn deploy(cluster: &Cluster, layout: Layout) -> PathBuf {
    let repository = Repository::new(layout);
    let directory = checkout(&repository);
    let namespace = layout.name();
    cluster.kubectl(&["create", "namespace", namespace]).unwrap();
    cluster.publish(&format!("GitRepository/{namespace}/fleet"), &directory).unwrap();
    cluster.kubectl_stdin(&["apply", "--server-side", "-f", "-"], &repository.root()).unwrap();
    let owners = if layout == Layout::PerApplication { 3 + 18 + 5 } else { 3 };
    let ready = || {
        let path = "jsonpath={.items[*].status.conditions[?(@.type==\"Ready\")].status}";
        let found = cluster.kubectl(&["get", "kustomizations", "-n", namespace, "-o", path])?;
        Ok(found.split(' ').filter(|status| *status == "True").count() == owners)
    };
    cluster.wait_for(&format!("{owners} Kustomizations in {namespace}"), Duration::from_secs(120), ready).unwrap();
    directory
}

/// Returns a new clone of a checkout.
fn clone(layout: Layout, checkout: &Path) -> PathBuf {
    let directory = folder(&format!("alarm-{}", layout.name()));
    xtask::git::run(&directory, &["clone", "-q", checkout.to_str().expect("a path"), "."]).unwrap();
    directory
}

/// Returns a new checkout whose commit is the repository.
fn checkout(repository: &Repository) -> PathBuf {
    let directory = folder(&format!("alarm-{}", repository.layout.name()));
    repository.tree.store(&directory);
    let git = |words: &[&str]| xtask::git::run(&directory, words).unwrap();
    git(&["init", "-q", "-b", "main"]);
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "all"]);
    directory
}

/// Plans the commit of a case in its checkout.
fn plan(case: Case, checkouts: &BTreeMap<Layout, PathBuf>, snapshot: &Path) -> Outcome {
    let mut random = Random::new(case.seed);
    let repository = loop {
        let mut repository = Repository::new(case.layout);
        if (case.commit)(&mut repository, &mut random) {
            break repository;
        }
    };
    let directory = &checkouts[&case.layout];
    repository.tree.store(directory);
    let source = format!("--source=GitRepository/{}/fleet={}", case.layout.name(), directory.display());
    let cache = snapshot.with_file_name("cache");
    let (snapshot, kustomize) = (format!("--snapshot={}", snapshot.display()), bin("kubectl"));
    let words =
        ["prune", "--plan", &source, &snapshot, "--kustomize", kustomize.to_str().expect("a path"), "-o", "json"];
    let run = Run::of(command(&words).env("XDG_CACHE_HOME", cache));
    let document: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run}"));
    let alarms = document["alarms"].as_array().expect("alarms").iter();
    let alarms: Vec<String> = alarms.map(|alarm| alarm["code"].as_str().expect("a code").to_owned()).collect();
    assert_eq!(alarms.is_empty(), run.code != 6, "{run}");
    Outcome { case, alarms, run }
}

fn cases(seed: u64, count: usize) -> Vec<Case> {
    let mut cases = vec![];
    for layout in Layout::ALL {
        for (is_disaster, sorts) in [(false, &ORDINARY[..]), (true, &DISASTERS[..])] {
            for number in 0..count {
                let (sort, commit) = sorts[number % sorts.len()];
                let seed = seed * 1_000_003 + cases.len() as u64;
                cases.push(Case { layout, sort, is_disaster, commit, seed });
            }
        }
    }
    cases
}

#[test]
fn ordinary_commits_rarely_raise_the_alarm_and_disasters_always_do() {
    let cluster = &with_kustomize_controller();
    let deployed = Layout::ALL.map(|layout| (layout, deploy(cluster, layout)));
    let snapshot = folder("alarm").join("cluster.json");
    let recorded = gitops(cluster, &["snapshot", "--with-values", snapshot.to_str().unwrap()]);
    assert_eq!(recorded.code, 0, "{recorded}");
    let (seed, count) = (number("ALARM_SEED").unwrap_or(1), number("ALARM_COMMITS").unwrap_or(COMMITS));
    let waiting = Mutex::new(cases(seed as u64, count));
    let done: Mutex<Vec<Outcome>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                let clones = deployed.iter().map(|(layout, checkout)| (*layout, clone(*layout, checkout)));
                let checkouts: BTreeMap<Layout, PathBuf> = clones.collect();
                loop {
                    let case = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop();
                    let Some(case) = case else { break };
                    let outcome = plan(case, &checkouts, &snapshot);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
                }
            });
        }
    });
    let done = done.into_inner().unwrap();
    report(&done);
    let missed: Vec<String> =
        done.iter().filter(|outcome| outcome.case.is_disaster && outcome.alarms.is_empty()).map(describe).collect();
    assert!(missed.is_empty(), "{} disasters raise no alarm:\n{}", missed.len(), missed.join("\n"));
    let ordinary = done.iter().filter(|outcome| !outcome.case.is_disaster);
    let raised: Vec<String> = ordinary.clone().filter(|outcome| !outcome.alarms.is_empty()).map(describe).collect();
    let all = ordinary.count();
    assert!(
        raised.len() * 20 <= all,
        "{} of {all} ordinary commits raise the alarm:\n{}",
        raised.len(),
        raised.join("\n")
    );
}

fn describe(outcome: &Outcome) -> String {
    let Outcome { case, alarms, run } = outcome;
    let last = run.stderr.lines().take(4).collect::<Vec<_>>().join(" | ");
    format!("{} {} (seed {}): {alarms:?} {last}", case.layout.name(), case.sort, case.seed)
}

/// Commits that raise the alarm, and all commits, by layout.
type Cells = BTreeMap<Layout, (usize, usize)>;

/// Prints the table of docs/alarm.md.
fn report(done: &[Outcome]) {
    let mut rows: BTreeMap<(bool, &str), Cells> = BTreeMap::new();
    let mut codes: BTreeMap<(bool, &str), usize> = BTreeMap::new();
    for outcome in done {
        let case = &outcome.case;
        let cell = rows.entry((case.is_disaster, case.sort)).or_default().entry(case.layout).or_default();
        cell.0 += usize::from(!outcome.alarms.is_empty());
        cell.1 += 1;
        for code in &outcome.alarms {
            *codes.entry((case.is_disaster, code)).or_default() += 1;
        }
    }
    let names = Layout::ALL.map(Layout::name).join(" | ");
    xtask::say(format!("| commit | {names} | all |\n|---|---|---|---|---|---|"));
    for ((_, sort), cells) in &rows {
        let all = cells.values().fold((0, 0), |sum, cell| (sum.0 + cell.0, sum.1 + cell.1));
        let cells: Vec<String> =
            cells.values().chain([&all]).map(|(raised, all)| format!("{raised} of {all}")).collect();
        xtask::say(format!("| {sort} | {} |", cells.join(" | ")));
    }
    for ((is_disaster, code), count) in codes {
        xtask::say(format!("{} {code}: {count}", if is_disaster { "disaster" } else { "ordinary" }));
    }
}
