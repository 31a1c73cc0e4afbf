//! Races that deserve the name: both ends have to come when a scenario is played often enough.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::{Outcome, Scenario, Verdict};
use crate::say;

/// Plays the scenarios with races again and tells of each race which ends came.
pub(super) fn tell(
    scenarios: &[Scenario],
    outcomes: &[Result<Outcome>],
    times: usize,
    play: impl Fn(&[Scenario]) -> Vec<Result<Verdict>>,
) {
    let first = scenarios.iter().zip(outcomes).filter_map(|(scenario, outcome)| {
        let verdict = &outcome.as_ref().ok()?.verdict;
        (!verdict.races.is_empty()).then_some((scenario, verdict))
    });
    let (racing, verdicts): (Vec<Scenario>, Vec<&Verdict>) = first.map(|(a, b)| (a.clone(), b)).unzip();
    let mut seen: BTreeMap<(&str, String), BTreeSet<&str>> = BTreeMap::new();
    let mut note = |name, verdict: &Verdict| {
        for (id, end) in &verdict.races {
            seen.entry((name, id.clone())).or_default().insert(end);
        }
    };
    racing.iter().zip(verdicts).for_each(|(scenario, verdict)| note(&scenario.name, verdict));
    for _ in 0..times {
        for (scenario, verdict) in racing.iter().zip(play(&racing)) {
            verdict.iter().for_each(|verdict| note(&scenario.name, verdict));
        }
    }
    let both = seen.values().filter(|ends| ends.len() > 1).count();
    for ((name, id), ends) in &seen {
        say(format!("race  {name}: {id}: {}", ends.iter().copied().collect::<Vec<_>>().join(", ")));
    }
    say(format!("{} races, each played {} times: {both} ended in more than one way", seen.len(), times + 1));
}
