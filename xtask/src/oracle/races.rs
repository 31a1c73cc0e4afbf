//! Repeats scenarios with races: a real race has both results if it is repeated often enough.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::{Comparison, Outcome, Scenario};
use crate::say;

/// Results of each race, by scenario and object.
#[derive(Default)]
struct Results(BTreeMap<(String, String), BTreeSet<&'static str>>);

impl Results {
    fn add(&mut self, scenario: &Scenario, comparison: &Comparison) {
        for (id, race) in &comparison.races {
            self.0.entry((scenario.name.clone(), id.clone())).or_default().insert(race.happened);
        }
    }
}

/// Runs the scenarios with races again and prints the results of each race.
pub(super) fn report(
    scenarios: &[Scenario],
    outcomes: &[Result<Outcome>],
    times: usize,
    run: impl Fn(&[Scenario]) -> Vec<Result<Comparison>>,
) {
    let (mut racing, mut results) = (vec![], Results::default());
    for (scenario, outcome) in scenarios.iter().zip(outcomes) {
        if let Ok(Outcome { comparison, .. }) = outcome
            && !comparison.races.is_empty()
        {
            racing.push(scenario.clone());
            results.add(scenario, comparison);
        }
    }
    for _ in 0..times {
        for (scenario, comparison) in racing.iter().zip(run(&racing)) {
            if let Ok(comparison) = comparison {
                results.add(scenario, &comparison);
            }
        }
    }
    for ((name, id), results) in &results.0 {
        say(format!("race  {name}: {id}: {}", results.iter().copied().collect::<Vec<_>>().join(", ")));
    }
    let races = results.0.len();
    let both = results.0.values().filter(|results| results.len() > 1).count();
    say(format!("{races} races, each run {} times: {both} had more than one result", times + 1));
}
