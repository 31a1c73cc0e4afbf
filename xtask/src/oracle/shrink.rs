//! Removes lines of a failing scenario while it still fails (delta debugging, Zeller and Hildebrandt).

use super::scenarios::Scenario;

/// Maximum number of rounds. Each candidate takes as long as a scenario.
const ROUNDS: usize = 12;

/// Returns the smallest scenario found that still fails. `fail` returns, for each candidate, true if it fails.
pub(super) fn smallest(scenario: &Scenario, fail: impl Fn(&[Scenario]) -> Vec<bool>) -> Scenario {
    let mut best = scenario.clone();
    let mut size = lines(&best).div_ceil(2);
    for _ in 0..ROUNDS {
        let starts = (0..lines(&best)).step_by(size.max(1));
        let candidates: Vec<Scenario> = starts.map(|start| without(&best, start, size)).collect();
        match fail(&candidates).iter().position(|fails| *fails) {
            Some(at) => {
                best = candidates[at].clone();
                size = size.min(lines(&best)).max(1);
            }
            None if size <= 1 => break,
            None => size = size.div_ceil(2),
        }
    }
    best
}

fn lines(scenario: &Scenario) -> usize {
    scenario.before.len() + scenario.live.len() + scenario.after.len()
}

/// Returns the scenario without `size` lines from `start`, counted over `before`, `live` and `after`. Removals of missing
/// files and the expected rows are dropped too.
fn without(scenario: &Scenario, start: usize, size: usize) -> Scenario {
    let mut number = 0;
    let [before, live, mut after] = [&scenario.before, &scenario.live, &scenario.after].map(|lines| {
        let mut kept = vec![];
        for line in lines {
            if !(start..start + size).contains(&number) {
                kept.push(line.clone());
            }
            number += 1;
        }
        kept
    });
    after.retain(|line| line.strip_prefix('-').is_none_or(|path| before.iter().any(|line| line.starts_with(path))));
    Scenario { before, live, after, expect: vec![], ..scenario.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smallest_keeps_only_the_lines_of_the_failure() {
        let lines = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let scenario = Scenario {
            before: lines(&["a: cm a", "b: cm b", "c: cm c", "d: cm d"]),
            live: lines(&["annotate x"]),
            after: lines(&["-b", "-c", "e: cm e"]),
            ..Scenario::default()
        };
        let fails = |scenario: &Scenario| {
            scenario.before.iter().any(|line| line == "c: cm c") && scenario.after.iter().any(|line| line == "-c")
        };
        let smallest = smallest(&scenario, |candidates| candidates.iter().map(fails).collect());
        assert_eq!((smallest.before, smallest.live, smallest.after), (lines(&["c: cm c"]), vec![], lines(&["-c"])));
    }
}
