//! Compares the plans of `prune --plan` with the real kustomize-controller.
//!
//! A scenario is a repository and an edit. The repository is published, the edit is planned and then published too. Every
//! object that was deleted, recreated or created is compared with the plan, by uid.

mod check;
mod idle;
mod manifest;
mod races;
mod random;
mod reader;
mod run;
mod scenarios;
mod shrink;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};

use crate::cluster::{Cluster, Flux, Options};
use crate::{controlplane, say, tool};

use reader::Reader;
pub use run::{Comparison, Program};
pub use scenarios::{Scenario, all};

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
    cluster_with(&[], None)
}

/// Starts a cluster with these flags of the controller, and with this program as controller or the pinned one. With flags,
/// the cluster has a Deployment, from which plans read them.
fn cluster_with(flags: &[String], controller: Option<&Path>) -> Result<Cluster> {
    // Plans use the kustomize version of Flux.
    controlplane::ensure(&["kustomize"])?;
    let own = ["--requeue-dependency=2s", "--concurrent=8"].map(str::to_owned);
    let kustomize_controller_flags = [&own, flags].concat();
    let deployment = deployment(&kustomize_controller_flags);
    let kustomize_controller = controller.map(Path::to_path_buf);
    let options =
        Options { flux: Flux::Kustomize, kustomize_controller_flags, kustomize_controller, ..Options::default() };
    let cluster = Cluster::up(options)?;
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
            let name = &scenario.name;
            say(format!("ok    {name} ({} rows, {} races)", comparison.rows, comparison.races.len()));
            let races = comparison.races.iter();
            races.for_each(|(id, race)| say(format!("      race {id}: {}, happened {}", race.row, race.happened)));
            comparison.gaps.iter().for_each(|gap| say(format!("      incomplete: {gap}")));
            not_repeated.iter().for_each(|line| say(format!("      only once: {line}")));
        }
        Ok(Outcome { comparison, .. }) => {
            let lines: Vec<&str> =
                comparison.mismatches.iter().chain(&comparison.evidence).map(String::as_str).collect();
            say(format!("WRONG {}\n      {}", scenario.name, lines.join("\n      ")));
        }
        Err(error) => say(format!("ERROR {}: {error:#}", scenario.name)),
    }
}

/// `oracle [--cases N] [--seed S] [--dir D] [--races N] [--binary PATH] [--controller PATH --controller-version V] [--parallel N]
/// [--no-shrink] [--show] [NAME…]`: runs all scenarios or N random ones, or only those named. With `--races`, scenarios with races are repeated N
/// times to see both results. With `--no-shrink`, a scenario with a mismatch is not made smaller. With `--show`, the scenarios are printed and not run. With `--controller`,
/// another kustomize-controller runs.
pub fn command(words: &[&str]) -> Result<()> {
    let (mut cases, mut seed, mut dir, mut again, mut names) = (None, 1_u64, None, 0_usize, Vec::new());
    let (mut shrinks, mut shows, mut binary, mut controller, mut controller_version) = (true, false, None, None, None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value"));
        match *word {
            "--cases" => cases = Some(value()?.parse::<u64>()?),
            "--seed" => seed = value()?.parse()?,
            "--races" => again = value()?.parse()?,
            "--dir" => dir = Some(PathBuf::from(value()?)),
            "--binary" => binary = Some(PathBuf::from(value()?)),
            "--controller" => controller = Some(PathBuf::from(value()?)),
            "--controller-version" => controller_version = Some((*value()?).to_owned()),
            "--parallel" => PARALLEL.store(value()?.parse()?, Ordering::Relaxed),
            "--no-shrink" => shrinks = false,
            "--show" => shows = true,
            name => names.push(name.to_owned()),
        }
    }
    let mut scenarios = cases.map_or_else(all, |cases| Ok(random(seed, cases)))?;
    if let Some(unknown) = names.iter().find(|name| scenarios.iter().all(|scenario| scenario.name != **name)) {
        bail!("no scenario is called {unknown:?}; usage: oracle [--cases N] [--seed S] [--dir D] [--races N] [NAME…]");
    }
    scenarios.retain(|scenario| names.is_empty() || names.contains(&scenario.name));
    if shows {
        scenarios.iter().for_each(|scenario| crate::answer(scenario.to_string()));
        return Ok(());
    }
    let path = binary.map_or_else(|| tool::build(false), Ok)?;
    let controller_version = controller_version.unwrap_or_else(|| PINNED.to_owned());
    let program = Program { path, controller_version };
    // Those with the same flags follow each other.
    scenarios.sort_by(|a, b| a.controller.cmp(&b.controller));
    let (mut clusters, mut outcomes) = (vec![], vec![]);
    for group in scenarios.chunk_by(|a, b| a.controller == b.controller) {
        let flags = &group[0].controller;
        let cluster = match &dir {
            Some(dir) if flags.is_empty() => Cluster::attach(dir)?,
            _ => match cluster_with(flags, controller.as_deref()) {
                Ok(cluster) => cluster,
                Err(error) => {
                    // An older controller does not have every flag.
                    outcomes.extend(group.iter().map(|_| Err(anyhow!("no cluster: {error:#}"))));
                    continue;
                }
            },
        };
        let reader = Reader::start(&cluster)?;
        outcomes.extend(run_with(&cluster, &reader, &program, group));
        clusters.push((flags, cluster, reader));
    }
    let again_once = |scenario: &Scenario| {
        let own = clusters.iter().find(|(flags, ..)| **flags == scenario.controller).expect("each has one");
        run_once(&own.1, &own.2, &program, scenario)
    };
    let (mut rows, mut races, mut incomplete, mut not_repeated, mut failed) = (0, 0, 0, 0, 0);
    let mut wrong = vec![];
    for (scenario, outcome) in scenarios.iter().zip(&outcomes) {
        match outcome {
            Ok(outcome) => {
                rows += outcome.comparison.rows;
                races += outcome.comparison.races.len();
                incomplete += usize::from(!outcome.comparison.gaps.is_empty());
                not_repeated += usize::from(!outcome.not_repeated.is_empty());
                if !outcome.comparison.mismatches.is_empty() {
                    wrong.push(scenario);
                }
            }
            Err(error) => {
                failed += 1;
                say(format!("{}: {error:#}", scenario.name));
            }
        }
    }
    if again > 0 {
        races::report(&scenarios, &outcomes, again, |racing| in_parallel(racing, again_once));
    }
    for scenario in wrong.iter().filter(|_| shrinks) {
        say(format!("{}: searching for the smallest repository with the mismatch", scenario.name));
        let fails = |smaller: &Scenario| again_once(smaller).is_ok_and(|got| !got.mismatches.is_empty());
        say(shrink::smallest(scenario, |candidates| in_parallel(candidates, fails)).to_string());
    }
    let (total, wrong) = (scenarios.len(), wrong.len());
    say(format!(
        "{total} scenarios: {wrong} with mismatches, {failed} failed, {not_repeated} with a mismatch that did not repeat; \
         {incomplete} with an incomplete plan; {rows} rows, {races} of them races ({:.1} %)",
        100.0 * races as f64 / rows.max(1) as f64
    ));
    if wrong + failed > 0 { bail!("the plan and the controller disagree") } else { Ok(()) }
}

/// Returns the first random scenarios of a seed.
pub fn random(seed: u64, cases: u64) -> Vec<Scenario> {
    (0..cases).map(|case| random::scenario(seed, case)).collect()
}
