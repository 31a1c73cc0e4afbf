//! The oracle: what `prune --plan` predicts of a repository is compared with what the real kustomize-controller does.
//!
//! Every scenario is published, planned, edited and published again; then every object that vanished, was replaced or
//! appeared is compared by uid with the plan.

mod check;
mod manifest;
mod random;
mod run;
mod scenarios;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, bail};

use crate::cluster::{Cluster, Flux, Options};
use crate::say;

pub use run::Verdict;
pub use scenarios::{Scenario, all};

/// Scenarios that run at once: they wait most of the time.
const LANES: usize = 3;

/// Runs scenarios against a cluster and says what each came to, in the order given.
pub fn run(cluster: &Cluster, binary: &Path, scenarios: &[Scenario]) -> Vec<Result<Verdict>> {
    let next = AtomicUsize::new(0);
    let verdicts: Mutex<Vec<(usize, Result<Verdict>)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..LANES.min(scenarios.len()) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(scenario) = scenarios.get(number) else { return };
                    let verdict = run::scenario(cluster, binary, scenario, number);
                    tell(scenario, &verdict);
                    verdicts.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((number, verdict));
                }
            });
        }
    });
    let mut verdicts = verdicts.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    verdicts.sort_by_key(|(number, _)| *number);
    verdicts.into_iter().map(|(_, verdict)| verdict).collect()
}

/// A cluster that scenarios can run on.
pub fn cluster() -> Result<Cluster> {
    let flags = ["--requeue-dependency=1s", "--concurrent=4"];
    let kustomize_controller_flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
    Cluster::up(Options { dir: None, flux: Flux::Kustomize, kustomize_controller_flags, ..Options::default() })
}

fn tell(scenario: &Scenario, verdict: &Result<Verdict>) {
    match verdict {
        Ok(verdict) if verdict.mismatches.is_empty() => {
            say(format!("ok    {} ({} rows, {} races)", scenario.name, verdict.rows, verdict.races));
        }
        Ok(verdict) => {
            say(format!("WRONG {}\n      {}", scenario.name, verdict.mismatches.join("\n      ")));
        }
        Err(error) => say(format!("ERROR {}: {error:#}", scenario.name)),
    }
}

/// `oracle [--cases N] [--seed S] [--dir D] [NAME…]`: all scenarios, or N random ones, or those of them that are named.
pub fn command(words: &[&str]) -> Result<()> {
    let (mut cases, mut seed, mut dir, mut names) = (None, 1_u64, None, Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value"));
        match *word {
            "--cases" => cases = Some(value()?.parse::<usize>()?),
            "--seed" => seed = value()?.parse()?,
            "--dir" => dir = Some(PathBuf::from(value()?)),
            name => names.push(name.to_owned()),
        }
    }
    let mut scenarios: Vec<Scenario> = match cases {
        Some(cases) => (0..cases as u64).map(|case| random::scenario(seed, case)).collect(),
        None => all(),
    };
    scenarios.retain(|scenario| names.is_empty() || names.contains(&scenario.name));
    let binary = build()?;
    let cluster = dir.map_or_else(self::cluster, Cluster::attach)?;
    let verdicts = run(&cluster, &binary, &scenarios);
    let (mut rows, mut races, mut wrong, mut failed) = (0, 0, 0, 0);
    for (scenario, verdict) in scenarios.iter().zip(&verdicts) {
        match verdict {
            Ok(verdict) => {
                rows += verdict.rows;
                races += verdict.races;
                if !verdict.mismatches.is_empty() {
                    wrong += 1;
                    say(format!("{}\n  {}", scenario, verdict.mismatches.join("\n  ")));
                }
            }
            Err(error) => {
                failed += 1;
                say(format!("{}: {error:#}", scenario.name));
            }
        }
    }
    let total = scenarios.len();
    say(format!("{total} scenarios: {wrong} with mismatches, {failed} failed; {rows} rows, {races} of them races"));
    if wrong + failed > 0 { bail!("the plan and the controller disagree") } else { Ok(()) }
}

/// The binary of this workspace, built.
fn build() -> Result<PathBuf> {
    let status = Command::new("cargo").args(["build", "--quiet", "--bin", "kubectl-gitops"]).status()?;
    if !status.success() {
        bail!("kubectl-gitops does not build");
    }
    Ok(crate::target_dir().join("debug").join("kubectl-gitops"))
}
