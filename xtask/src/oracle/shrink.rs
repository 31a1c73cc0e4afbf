//! Removes parts of a failing scenario while it still fails (delta debugging, Zeller and Hildebrandt): lines, then objects of
//! the lines that are left, then options of the objects.

use super::scenarios::Scenario;

/// Maximum number of rounds. Each candidate takes as long as a scenario.
const ROUNDS: usize = 24;

/// Part of a scenario that is removed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Line,
    Object,
    Option,
}

/// Returns the smallest scenario found that still fails. `fail` returns, for each candidate, true if it fails.
pub(super) fn smallest(scenario: &Scenario, fail: impl Fn(&[Scenario]) -> Vec<bool>) -> Scenario {
    let mut best = scenario.clone();
    let mut rounds = 0;
    for part in [Part::Line, Part::Object, Part::Option] {
        let mut size = count(&best, part).div_ceil(2);
        while size > 0 && rounds < ROUNDS {
            rounds += 1;
            let starts = (0..count(&best, part)).step_by(size);
            let candidates: Vec<Scenario> = starts.map(|start| without(&best, part, start, size)).collect();
            match fail(&candidates).iter().position(|fails| *fails) {
                Some(at) => {
                    best = candidates[at].clone();
                    size = size.min(count(&best, part));
                }
                None if size == 1 => break,
                None => size = size.div_ceil(2),
            }
        }
    }
    best
}

fn count(scenario: &Scenario, part: Part) -> usize {
    let lines = [&scenario.cluster, &scenario.before, &scenario.between, &scenario.live, &scenario.after];
    lines.into_iter().flatten().map(|line| removable(line, part).count()).sum()
}

/// Returns the scenario without `size` parts from `start`, counted over all its lines. Removals of missing files and the
/// expected rows are dropped too.
fn without(scenario: &Scenario, part: Part, start: usize, size: usize) -> Scenario {
    let mut number = 0;
    let [cluster, before, between, live, after] =
        [&scenario.cluster, &scenario.before, &scenario.between, &scenario.live, &scenario.after].map(|lines| {
            let mut kept = vec![];
            for line in lines {
                let removed: Vec<usize> = removable(line, part)
                    .filter(|_| {
                        number += 1;
                        (start..start + size).contains(&(number - 1))
                    })
                    .collect();
                kept.extend(without_parts(line, part, &removed));
            }
            kept
        });
    let mut smaller =
        Scenario { cluster, before, between, live, after, expect: vec![], happens: vec![], ..scenario.clone() };
    let written = [&smaller.before[..], &smaller.between].concat();
    let exists =
        |line: &String| line.strip_prefix('-').is_none_or(|path| written.iter().any(|line| line.starts_with(path)));
    smaller.between.retain(exists);
    smaller.after.retain(exists);
    smaller
}

/// Returns the numbers of the parts of a line that can be removed: the line itself, its objects if there are several, or the
/// words of its objects except their kind and name, and the path of a Kustomization.
fn removable(line: &str, part: Part) -> impl Iterator<Item = usize> {
    let numbers: Vec<usize> = match (part, objects(line)) {
        (Part::Line, _) => vec![0],
        (_, None) => vec![],
        (Part::Object, Some((_, objects))) => {
            (0..objects.split(" | ").count()).filter(|_| objects.contains(" | ")).collect()
        }
        (Part::Option, Some((_, objects))) => {
            let words = objects.split(' ').enumerate();
            words.filter(|(_, word)| word.contains('=')).map(|(number, _)| number).collect()
        }
    };
    numbers.into_iter()
}

/// Returns a line without the parts of these numbers, or `None` if nothing is left.
fn without_parts(line: &str, part: Part, removed: &[usize]) -> Option<String> {
    if removed.is_empty() {
        return Some(line.to_owned());
    }
    let (head, objects) = objects(line).filter(|_| part != Part::Line)?;
    let separator = if part == Part::Object { " | " } else { " " };
    let kept = objects.split(separator).enumerate().filter(|(number, _)| !removed.contains(number));
    let kept: Vec<&str> = kept.map(|(_, text)| text).collect();
    (!kept.is_empty()).then(|| format!("{head}{}", kept.join(separator)))
}

/// Returns the beginning of a line and the objects that follow it, if it lists objects.
fn objects(line: &str) -> Option<(&str, &str)> {
    let at = line.find(": ").filter(|at| !line[..*at].ends_with(':'))? + 2;
    Some(line.split_at(at))
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

    #[test]
    fn smallest_removes_objects_and_options_too() {
        let scenario = Scenario {
            before: vec!["root/k.yaml: ks k ./p prune=false force=true | cm x".into(), "p/a.yaml:: text".into()],
            ..Scenario::default()
        };
        let fails = |scenario: &Scenario| scenario.before.iter().any(|line| line.contains("force=true"));
        let smallest = smallest(&scenario, |candidates| candidates.iter().map(fails).collect());
        assert_eq!(smallest.before, ["root/k.yaml: ks k ./p force=true"]);
    }
}
