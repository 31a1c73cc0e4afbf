//! The task `scoreboard`: which program says what the controller then deletes? docs/scoreboard.md describes the method.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;

use super::manifest::{self, Files};
use super::peers::{self, OWN, Peer, Score};
use super::reader::Reader;
use super::run::write;
use super::scenarios::Checkout;
use super::{PINNED, Program, Scenario, all};
use crate::{answer, say, tool};

/// Numbers of a program over all scenarios.
#[derive(Default)]
struct Line {
    exact: usize,
    exact_all: usize,
    unanswered: usize,
    missed: usize,
    missed_all: usize,
    wrong: usize,
    scenarios_with_wrong: usize,
    times: Vec<Duration>,
}

impl Line {
    fn add(&mut self, score: &Score) {
        self.exact += usize::from(score.is_answered && score.missed == 0 && score.wrong == 0);
        self.exact_all += usize::from(score.is_answered && score.missed_all == 0 && score.wrong == 0);
        self.unanswered += usize::from(!score.is_answered);
        self.missed += score.missed;
        self.missed_all += score.missed_all;
        self.wrong += score.wrong;
        self.scenarios_with_wrong += usize::from(score.wrong > 0);
        self.times.push(score.time);
    }

    /// Returns the line of a Markdown table.
    fn row(mut self, name: &str) -> String {
        self.times.sort();
        let median = self.times.get(self.times.len() / 2).copied().unwrap_or_default();
        format!(
            "| `{name}` | {} | {} | {} | {} / {} | {} / {} | {:.1} s |",
            self.exact,
            self.exact_all,
            self.unanswered,
            self.missed,
            self.missed_all,
            self.scenarios_with_wrong,
            self.wrong,
            median.as_secs_f64()
        )
    }
}

/// Name and namespace of a scenario that is written to files.
const EXPORTED: &str = "demo";

/// `cargo xtask scoreboard --export DIR`: writes each scenario as files, for the tests of other programs.
/// `cargo xtask scoreboard [NAME…]`: plays the written scenarios that need no flags of the controller, or those named, and
/// prints the table of docs/scoreboard.md.
///
/// # Errors
/// A program cannot be built, or the cluster does not start.
pub fn command(names: &[&str]) -> Result<()> {
    let mut scenarios = all()?;
    if let ["--export", folder] = names {
        for scenario in &scenarios {
            export(scenario, &Path::new(folder).join(&scenario.name)).with_context(|| scenario.name.clone())?;
        }
        answer(format!("{} scenarios: {folder}", scenarios.len()));
        return Ok(());
    }
    peers::ensure()?;
    scenarios.retain(|scenario| {
        scenario.controller.is_empty()
            && !scenario.has_releases()
            && (names.is_empty() || names.contains(&&*scenario.name))
    });
    // The other programs read folders; a commit on a branch is the same for them.
    scenarios.iter_mut().for_each(|scenario| scenario.checkout = Checkout::Edited);
    let peers = Peer::ALL.to_vec();
    let (path, controller_version) = (tool::build(false)?, PINNED.to_owned());
    let program = Program { path, controller_version, peers, reverts: false, asks_agent: false };
    let cluster = super::cluster()?;
    let reader = Reader::start(&cluster)?;
    let played = super::in_parallel(&scenarios, |scenario| {
        let comparison = super::run_once(&cluster, &reader, &program, scenario);
        match &comparison {
            Ok(comparison) => say(line(scenario, &comparison.scores)),
            Err(error) => say(format!("ERROR {}: {error:#}", scenario.name)),
        }
        comparison
    });
    let mut lines: BTreeMap<&str, Line> = BTreeMap::new();
    let comparisons: Vec<_> = played.into_iter().flatten().collect();
    for (name, score) in comparisons.iter().flat_map(|comparison| &comparison.scores) {
        lines.entry(name).or_default().add(score);
    }
    answer(format!("{} of {} scenarios were played.\n", comparisons.len(), scenarios.len()));
    answer(
        "| command | exact, inventories | exact, all | no answer | missed objects, inventories / all | false deletions, scenarios / objects | time, median |",
    );
    answer("|---|---|---|---|---|---|---|");
    let own = lines.remove(OWN);
    lines.into_iter().chain(own.map(|own| (OWN, own))).for_each(|(name, line)| answer(line.row(name)));
    Ok(())
}

/// Returns what each program got wrong in a scenario.
fn line(scenario: &Scenario, scores: &BTreeMap<&'static str, Score>) -> String {
    let parts = scores.iter().map(|(name, score)| match score {
        Score { is_answered: false, .. } => format!("{name}: no answer"),
        Score { missed_all: 0, wrong: 0, .. } => format!("{name}: exact"),
        Score { missed_all, wrong, .. } => format!("{name}: {missed_all} missed, {wrong} false"),
    });
    format!("{}: {}", scenario.name, parts.collect::<Vec<_>>().join("; "))
}

/// Writes a scenario: `before` and `after` are the repository, `cluster.yaml` has what is applied first, `root.yaml` the
/// Kustomization, `commands.txt` what is run with kubectl in between, and `expected.txt` the rows that its plan must have.
fn export(scenario: &Scenario, folder: &Path) -> Result<()> {
    let mut files = Files::new();
    manifest::edit(&mut files, &scenario.before, EXPORTED)?;
    manifest::edit(&mut files, &scenario.between, EXPORTED)?;
    write(&folder.join("before"), &files)?;
    manifest::edit(&mut files, &scenario.after, EXPORTED)?;
    write(&folder.join("after"), &files)?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": EXPORTED}});
    let mut objects = vec![namespace.to_string()];
    for text in &scenario.cluster {
        objects.push(manifest::object(&text.replace('@', EXPORTED), EXPORTED)?.to_string());
    }
    let lines = |lines: &[String]| lines.iter().map(|line| line.replace('@', EXPORTED) + "\n").collect::<String>();
    fs::write(folder.join("cluster.yaml"), objects.join("\n---\n") + "\n")?;
    fs::write(folder.join("root.yaml"), manifest::object("ks root ./root", EXPORTED)?.to_string() + "\n")?;
    fs::write(folder.join("commands.txt"), lines(&scenario.live))?;
    fs::write(folder.join("expected.txt"), lines(&scenario.expect))?;
    Ok(())
}
