//! The oracle: what `prune --plan` predicts of a repository is compared with what the real kustomize-controller does.
//!
//! Every scenario is published, planned, edited and published again; then every object that vanished, was replaced or
//! appeared is compared by uid with the plan.

mod check;
mod manifest;
mod races;
mod random;
mod run;
mod scenarios;
mod shrink;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

use crate::cluster::{Cluster, Flux, Options};
use crate::{controlplane, say};

pub use run::Verdict;
pub use scenarios::{Scenario, all};

/// Scenarios that run at once: they wait most of the time.
const LANES: usize = 5;

/// Numbers for namespaces: one for every scenario that is played.
static PLAYED: AtomicUsize = AtomicUsize::new(0);

/// What a scenario came to, over all its plays.
#[derive(Debug)]
pub struct Outcome {
    /// The last play.
    pub verdict: Verdict,
    /// What went wrong in a first play and did not repeat itself.
    pub unsteady: Vec<String>,
}

/// Runs scenarios against a cluster and says what each came to, in the order given.
pub fn run(cluster: &Cluster, binary: &Path, scenarios: &[Scenario]) -> Vec<Result<Outcome>> {
    lanes(scenarios, |scenario| {
        let outcome = repeated(|| play(cluster, binary, scenario));
        tell(scenario, &outcome);
        outcome
    })
}

/// Does something with each scenario, a few at once; the answers stand in the order of the scenarios.
fn lanes<T: Send>(scenarios: &[Scenario], work: impl Fn(&Scenario) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..LANES.min(scenarios.len()) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(scenario) = scenarios.get(number) else { return };
                    let answer = work(scenario);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((number, answer));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, answer)| answer).collect()
}

fn play(cluster: &Cluster, binary: &Path, scenario: &Scenario) -> Result<Verdict> {
    run::scenario(cluster, binary, scenario, PLAYED.fetch_add(1, Ordering::Relaxed))
}

/// A mismatch has to repeat itself. One that does not is the controller's own unsteadiness (it reconciles by a cache that
/// lags behind what it has just written): told apart, never hidden.
fn repeated(play: impl Fn() -> Result<Verdict>) -> Result<Outcome> {
    let first = play()?;
    if first.mismatches.is_empty() {
        return Ok(Outcome { verdict: first, unsteady: vec![] });
    }
    let second = play()?;
    let steady = !second.mismatches.is_empty();
    let unsteady = if steady { vec![] } else { first.mismatches.into_iter().chain(first.evidence).collect() };
    Ok(Outcome { verdict: second, unsteady })
}

/// A cluster that scenarios can run on.
pub fn cluster() -> Result<Cluster> {
    // Its plans are built by the kustomize that Flux links.
    controlplane::ensure(&["kustomize"])?;
    let flags = ["--requeue-dependency=1s", "--concurrent=8"];
    let kustomize_controller_flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
    Cluster::up(Options { dir: None, flux: Flux::Kustomize, kustomize_controller_flags, ..Options::default() })
}

fn tell(scenario: &Scenario, outcome: &Result<Outcome>) {
    match outcome {
        Ok(Outcome { verdict, unsteady }) if verdict.mismatches.is_empty() => {
            let name = &scenario.name;
            say(format!("ok    {name} ({} rows, {} races)", verdict.rows, verdict.races.len()));
            unsteady.iter().for_each(|line| say(format!("      once: {line}")));
        }
        Ok(Outcome { verdict, .. }) => {
            let lines: Vec<&str> = verdict.mismatches.iter().chain(&verdict.evidence).map(String::as_str).collect();
            say(format!("WRONG {}\n      {}", scenario.name, lines.join("\n      ")));
        }
        Err(error) => say(format!("ERROR {}: {error:#}", scenario.name)),
    }
}

/// `oracle [--cases N] [--seed S] [--dir D] [--races N] [NAME…]`: all scenarios, or N random ones, or those of them that
/// are named. With `--races` those that have races are played N times more, to see whether both ends come.
pub fn command(words: &[&str]) -> Result<()> {
    let (mut cases, mut seed, mut dir, mut again, mut names) = (None, 1_u64, None, 0_usize, Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value"));
        match *word {
            "--cases" => cases = Some(value()?.parse::<u64>()?),
            "--seed" => seed = value()?.parse()?,
            "--races" => again = value()?.parse()?,
            "--dir" => dir = Some(PathBuf::from(value()?)),
            name => names.push(name.to_owned()),
        }
    }
    let mut scenarios: Vec<Scenario> = cases.map_or_else(all, |cases| random(seed, cases));
    if let Some(unknown) = names.iter().find(|name| scenarios.iter().all(|scenario| scenario.name != **name)) {
        bail!("{unknown:?} is no scenario; it takes [--cases N] [--seed S] [--dir D] [--races N] [NAME…]");
    }
    scenarios.retain(|scenario| names.is_empty() || names.contains(&scenario.name));
    let binary = build()?;
    let cluster = dir.map_or_else(self::cluster, Cluster::attach)?;
    let outcomes = run(&cluster, &binary, &scenarios);
    let (mut rows, mut races, mut unsteady, mut failed) = (0, 0, 0, 0);
    let mut wrong = vec![];
    for (scenario, outcome) in scenarios.iter().zip(&outcomes) {
        match outcome {
            Ok(outcome) => {
                rows += outcome.verdict.rows;
                races += outcome.verdict.races.len();
                unsteady += usize::from(!outcome.unsteady.is_empty());
                if !outcome.verdict.mismatches.is_empty() {
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
        races::tell(&scenarios, &outcomes, again, |racing| lanes(racing, |scenario| play(&cluster, &binary, scenario)));
    }
    for scenario in &wrong {
        say(format!("{}: looking for the smallest repository that shows it", scenario.name));
        let fails = |smaller: &Scenario| play(&cluster, &binary, smaller).is_ok_and(|got| !got.mismatches.is_empty());
        say(shrink::smallest(scenario, |candidates| lanes(candidates, fails)).to_string());
    }
    let (total, wrong) = (scenarios.len(), wrong.len());
    say(format!(
        "{total} scenarios: {wrong} with mismatches, {failed} failed, {unsteady} with one that did not repeat itself; \
         {rows} rows, {races} of them races"
    ));
    if wrong + failed > 0 { bail!("the plan and the controller disagree") } else { Ok(()) }
}

/// The first random scenarios of a seed.
pub fn random(seed: u64, cases: u64) -> Vec<Scenario> {
    (0..cases).map(|case| random::scenario(seed, case)).collect()
}

/// The binary of this workspace, built.
fn build() -> Result<PathBuf> {
    let status = Command::new("cargo").args(["build", "--quiet", "--bin", "kubectl-gitops"]).status()?;
    if !status.success() {
        bail!("kubectl-gitops does not build");
    }
    Ok(crate::target_dir().join("debug").join("kubectl-gitops"))
}
