//! Compares the plans of `prune --plan` with the real kustomize-controller.
//!
//! A scenario is a repository and an edit. The repository is published, the edit is planned and then published too. Every
//! object that was deleted, recreated or created is compared with the plan, by uid.

mod agent;
mod check;
mod command;
mod idle;
mod manifest;
mod mutations;
mod peers;
mod races;
mod random;
mod reader;
mod run;
mod scenarios;
mod scoreboard;
mod shrink;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Flux, Options};
use crate::{controlplane, say};

pub use command::command;
use reader::Reader;
pub use run::{Comparison, Program};
pub use scenarios::{Scenario, all};
pub use scoreboard::command as scoreboard;

/// Version of the kustomize-controller that the control plane has.
pub const PINNED: &str = "1.9.5";

/// Scenarios that run in parallel. They wait most of the time.
static PARALLEL: AtomicUsize = AtomicUsize::new(5);

/// Number of scenarios started so far. It numbers the namespaces.
static STARTED: AtomicUsize = AtomicUsize::new(0);

/// Result of a scenario over all its runs.
#[derive(Debug)]
pub struct Outcome {
    /// Result of the last run.
    pub comparison: Comparison,
    /// Mismatches of the first run that did not occur again.
    pub not_repeated: Vec<String>,
}

/// Runs scenarios on a cluster. Returns one result for each, in the same order.
///
/// # Errors
/// The cluster cannot be watched.
pub fn run(cluster: &Cluster, program: &Program, scenarios: &[Scenario]) -> Result<Vec<Result<Outcome>>> {
    let reader = Reader::start(cluster)?;
    Ok(run_with(cluster, &reader, program, scenarios))
}

fn run_with(cluster: &Cluster, reader: &Reader, program: &Program, scenarios: &[Scenario]) -> Vec<Result<Outcome>> {
    in_parallel(scenarios, |scenario| {
        let outcome = repeat_mismatch(|| run_once(cluster, reader, program, scenario));
        report(scenario, &outcome);
        outcome
    })
}

/// Calls `work` for each scenario, several in parallel. The results are in the order of the scenarios.
fn in_parallel<T: Send>(scenarios: &[Scenario], work: impl Fn(&Scenario) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..PARALLEL.load(Ordering::Relaxed).min(scenarios.len()) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(scenario) = scenarios.get(number) else { return };
                    let result = work(scenario);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

fn run_once(cluster: &Cluster, reader: &Reader, program: &Program, scenario: &Scenario) -> Result<Comparison> {
    run::scenario(cluster, reader, program, scenario, STARTED.fetch_add(1, Ordering::Relaxed))
}

/// Runs a scenario again after a mismatch. A mismatch that does not occur again comes from the stale cache of the
/// controller; it is reported separately.
fn repeat_mismatch(run: impl Fn() -> Result<Comparison>) -> Result<Outcome> {
    let first = run()?;
    if first.mismatches.is_empty() {
        return Ok(Outcome { comparison: first, not_repeated: vec![] });
    }
    let second = run()?;
    let mut not_repeated = vec![];
    if second.mismatches.is_empty() {
        not_repeated.extend(first.mismatches.into_iter().chain(first.evidence));
    }
    Ok(Outcome { comparison: second, not_repeated })
}

/// Starts a cluster for scenarios.
pub fn cluster() -> Result<Cluster> {
    cluster_with(&[], false, None)
}

/// Starts a cluster with these flags of the controller, and with this program as controller or the pinned one. With flags,
/// the cluster has a Deployment, from which plans read them. helm-controller and flux-operator run if there are releases.
fn cluster_with(flags: &[String], has_releases: bool, controller: Option<&Path>) -> Result<Cluster> {
    // Plans use the kustomize version of Flux.
    controlplane::ensure(&["kustomize"])?;
    let own = ["--requeue-dependency=2s", "--concurrent=8"].map(str::to_owned);
    let kustomize_controller_flags = [&own, flags].concat();
    let deployment = deployment(&kustomize_controller_flags);
    let kustomize_controller = controller.map(Path::to_path_buf);
    let options = Options {
        flux: if has_releases { Flux::All } else { Flux::Kustomize },
        kustomize_controller_flags,
        kustomize_controller,
        workloads: true,
        ..Options::default()
    };
    let cluster = Cluster::up(options)?;
    if has_releases {
        controlplane::ensure(&["helm", "flux-operator"])?;
        // The scenarios pack their charts themselves.
        cluster.stop("source-controller")?;
        cluster.start("flux-operator-controller")?;
    }
    if !flags.is_empty() {
        cluster.kubectl_stdin(&["create", "-f", "-"], &deployment.to_string())?;
    }
    Ok(cluster)
}

/// Returns a Deployment of the controller without pods.
fn deployment(flags: &[String]) -> Value {
    let container =
        json!({"name": "manager", "image": format!("fluxcd/kustomize-controller:v{PINNED}"), "args": flags});
    let labels = json!({"app": "kustomize-controller"});
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "kustomize-controller", "namespace": "flux-system"},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}}})
}

fn report(scenario: &Scenario, outcome: &Result<Outcome>) {
    match outcome {
        Ok(Outcome { comparison, not_repeated }) if comparison.mismatches.is_empty() => {
            let Comparison { rows, verified, .. } = comparison;
            let races = comparison.races.len();
            say(format!("ok    {} ({rows} rows, {races} races, {verified} builds verified)", scenario.name));
            let races = comparison.races.iter();
            races.for_each(|(id, race)| say(format!("      race {id}: {}, happened {}", race.row, race.happened)));
            comparison.gaps.iter().for_each(|gap| say(format!("      incomplete: {gap}")));
            not_repeated.iter().for_each(|line| say(format!("      only once: {line}")));
        }
        Ok(Outcome { comparison, .. }) => {
            let lines: Vec<&str> =
                comparison.mismatches.iter().chain(&comparison.evidence).map(String::as_str).collect();
            let word = if comparison.dangerous.is_empty() { "WRONG" } else { "DANGER" };
            say(format!("{word} {}\n      {}\n{scenario}", scenario.name, lines.join("\n      ")));
        }
        Err(error) => say(format!("ERROR {}: {error:#}", scenario.name)),
    }
}

/// Returns the first random scenarios of a seed.
pub fn random(seed: u64, cases: u64) -> Vec<Scenario> {
    (0..cases).map(|case| random::scenario(seed, case)).collect()
}

/// Returns the first mutations of a seed. Scenarios with flags of the controller need a cluster each, and are left out unless
/// all are of this kind.
fn mutated(seed: u64, cases: u64, written: &[Scenario]) -> Vec<Scenario> {
    let (own, flags): (Vec<Scenario>, Vec<Scenario>) =
        written.iter().cloned().partition(|scenario| scenario.controller.is_empty());
    let written = if own.is_empty() { flags } else { own };
    (0..cases).map(|case| mutations::scenario(seed, case, &written)).collect()
}
