//! `cargo xtask check` and `cargo xtask test`: the tiers of checks. The fast tier needs Rust and git; the full tier adds the
//! licences of the crates and every test on real programs. Proofs that change rarely are tasks of their own, see [`TASKS`].

use std::collections::BTreeSet;
use std::process::{Command, Output};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::controlplane::{self, crds};
use crate::{child, dependencies, items, say, text, tool, workspace_root};

/// Steps of the fast tier before its tests: name and arguments of cargo.
const LINTS: [(&str, &[&str]); 2] = [
    ("format", &["fmt", "--all", "--check"]),
    ("lints", &["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]),
];

/// Test programs of the fast tier, beside the unit tests: no cluster, and the corpus of the fuzz targets.
const FAST: [&str; 2] = ["offline", "corpus"];
/// Threads of the fast tier for each processor: many of its tests wait for programs and for ends of time.
const THREADS_PER_PROCESSOR: usize = 2;
/// The test program that takes longest. It waits for controllers most of the time, so all the others run beside it.
const LONGEST: &str = "live";
/// The test program that measures time. It runs when no other does.
const ALONE: &str = "timing";

/// Variable with the number of runs of the offline test `interleavings`, and this number in the full tier.
const INTERLEAVINGS: [&str; 2] = ["INTERLEAVINGS", "2000"];

/// Tasks that run tests which are in neither tier, with what they need.
const TASKS: &str = "`cargo xtask examples` (promtool and opa), `cargo xtask actions` (act, npm and Debian), \
                     `cargo xtask browser` (Chromium), `cargo xtask shells` (Debian)";

/// Runs the fast tier.
pub fn check() -> Result<()> {
    let start = Instant::now();
    for (name, args) in LINTS {
        timed(&format!("fast tier, {name}"), || run_cargo(args))?;
    }
    let programs = FAST.iter().flat_map(|name| ["--test", name]);
    let tests = ["test", "--workspace", "--locked", "--lib", "--bins"].into_iter().chain(programs);
    let threads = format!("--test-threads={}", THREADS_PER_PROCESSOR * thread::available_parallelism()?.get());
    let tests: Vec<&str> = tests.chain(["--", &threads]).collect();
    timed("fast tier, tests", || run_cargo(&tests))?;
    say(format!("fast tier: {:.0?}", start.elapsed()));
    Ok(())
}

/// Runs both tiers.
pub fn run() -> Result<()> {
    let start = Instant::now();
    check()?;
    timed("full tier, dependencies", dependencies::check)?;
    timed("full tier, control plane", || {
        controlplane::ensure(&controlplane::names())?;
        crds::ensure(&crds::names())
    })?;
    timed("full tier, build", || run_cargo(&["build", "--workspace", "--all-targets", "--locked"]))?;
    timed("full tier, tests", run_full_tests)?;
    say(format!("everything: {:.0?}; tests of other tasks: {TASKS}", start.elapsed()));
    Ok(())
}

/// `cargo xtask examples`: tests the alert rules and the Rego policy with promtool and opa.
pub fn examples() -> Result<()> {
    controlplane::ensure(&["promtool", "opa"])?;
    let tests = ["prometheus::", "policy::"];
    run_cargo(&[&["test", "--locked", "--test", "systems", "--", "--ignored"][..], &tests].concat())
}

/// Runs every test program that is not in the fast tier: the longest one beside the others, and then the one that measures.
fn run_full_tests() -> Result<()> {
    let programs = test_programs()?;
    let own = [&FAST[..], &[LONGEST, ALONE]].concat();
    let others: Vec<&str> = programs.iter().map(String::as_str).filter(|name| !own.contains(name)).collect();
    let [longest, others] = thread::scope(|scope| {
        let runs = [vec![LONGEST], others].map(|names| scope.spawn(move || output_of_tests(&names)));
        runs.map(|run| run.join().expect("a run of tests does not panic"))
    });
    let [variable, runs] = INTERLEAVINGS;
    let mut more = Command::new(env!("CARGO"));
    more.args(["test", "--workspace", "--locked", "--test", "offline", "interleavings"]).env(variable, runs);
    let interleavings = timed("full tier, interleavings", || child::run(more.current_dir(workspace_root())));
    let documentation = run_cargo(&["test", "--workspace", "--locked", "--doc"]);
    let alone = output_of_tests(&[ALONE]);
    [longest, others, interleavings, documentation, alone].into_iter().collect()
}

/// Returns the names of all test programs of the workspace, so that a new one cannot be forgotten.
fn test_programs() -> Result<BTreeSet<String>> {
    let metadata = tool::metadata(&["--no-deps"])?;
    let targets = items(&metadata, "/packages").flat_map(|package| items(package, "/targets"));
    let tests = targets.filter(|target| items(target, "/kind").any(|kind| kind == "test"));
    Ok(tests.map(|target| text(target, "/name").to_owned()).collect())
}

/// Runs test programs one after another, and prints their output at the end: another run may print at the same time.
fn output_of_tests(names: &[&str]) -> Result<()> {
    let start = Instant::now();
    let programs = names.join(", ");
    say(format!("running {programs}"));
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["test", "--workspace", "--locked", "--no-fail-fast"]).current_dir(workspace_root());
    cargo.args(names.iter().flat_map(|name| ["--test", name]));
    let Output { status, stdout, stderr } = cargo.output().context("cannot run cargo test")?;
    say(format!("{}{}", String::from_utf8_lossy(&stderr), String::from_utf8_lossy(&stdout)));
    say(format!("{programs}: {:.0?}", start.elapsed()));
    if status.success() { Ok(()) } else { bail!("tests failed: {programs}") }
}

fn run_cargo(args: &[&str]) -> Result<()> {
    child::run(Command::new(env!("CARGO")).args(args).current_dir(workspace_root()))
        .with_context(|| format!("cargo {}", args.join(" ")))
}

/// Runs a step and prints how long it took.
fn timed(name: &str, step: impl FnOnce() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    step().with_context(|| format!("{name} failed"))?;
    say(format!("{name}: {:.0?}", start.elapsed()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_that_runs_in_an_order_of_its_own_exists() {
        let programs = test_programs().unwrap();
        for name in FAST.iter().chain(&[LONGEST, ALONE, "systems", "oracle", "cluster"]) {
            assert!(programs.contains(*name), "{name}: {programs:?}");
        }
    }
}
