//! The task `oracle`: runs scenarios, searches for the smallest repository of each mismatch, and sums up.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, anyhow, bail};

use super::reader::Reader;
use super::scenarios::{self, Checkout};
use super::{Outcome, PARALLEL, PINNED, Program, Scenario};
use crate::cluster::Cluster;
use crate::{say, tool};

const USAGE: &str = "oracle [--cases N | --mutations N] [--seed S] [--checkout edited|branch|none|each] [--dir D] [--races N] [--reverts] [--mcp] \
                     [--file PATH] [--binary PATH] [--controller PATH --controller-version V] [--parallel N] [--no-shrink] [--show] [NAME…]";

/// Options of the task.
struct Options {
    /// Number of random repositories.
    cases: Option<u64>,
    /// Number of written scenarios with one line changed.
    mutations: Option<u64>,
    seed: u64,
    /// File with scenarios in place of the written ones.
    file: Option<PathBuf>,
    /// Place of the edits for all plans, in place of those of the scenarios. With `each`, every scenario runs in each way.
    checkouts: Vec<Checkout>,
    dir: Option<PathBuf>,
    /// Runs of each scenario with races after the first one, to see both results.
    again: usize,
    binary: Option<PathBuf>,
    /// Compares the plan of a revert on the predicted state with the one on the real state.
    reverts: bool,
    /// Compares the answer of `mcp` with the plan of the command line.
    asks_agent: bool,
    /// Another kustomize-controller, and its version.
    controller: Option<PathBuf>,
    controller_version: String,
    /// Makes a scenario with a mismatch smaller.
    shrinks: bool,
    /// Prints the scenarios and does not run them.
    shows: bool,
    names: Vec<String>,
}

impl Options {
    fn read(words: &[&str]) -> Result<Self> {
        let mut own = Self {
            cases: None,
            mutations: None,
            seed: 1,
            file: None,
            checkouts: vec![],
            dir: None,
            again: 0,
            binary: None,
            reverts: false,
            asks_agent: false,
            controller: None,
            controller_version: PINNED.to_owned(),
            shrinks: true,
            shows: false,
            names: vec![],
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} needs a value"));
            match *word {
                "--cases" => own.cases = Some(value()?.parse()?),
                "--mutations" => own.mutations = Some(value()?.parse()?),
                "--seed" => own.seed = value()?.parse()?,
                "--checkout" => own.checkouts = checkouts(value()?)?,
                "--races" => own.again = value()?.parse()?,
                "--file" => own.file = Some(value()?.into()),
                "--dir" => own.dir = Some(value()?.into()),
                "--binary" => own.binary = Some(value()?.into()),
                "--controller" => own.controller = Some(value()?.into()),
                "--controller-version" => own.controller_version = (*value()?).to_owned(),
                "--parallel" => PARALLEL.store(value()?.parse()?, Ordering::Relaxed),
                "--reverts" => own.reverts = true,
                "--mcp" => own.asks_agent = true,
                "--no-shrink" => own.shrinks = false,
                "--show" => own.shows = true,
                option if option.starts_with("--") => bail!("there is no {option}; usage: {USAGE}"),
                name => own.names.push(name.to_owned()),
            }
        }
        Ok(own)
    }

    /// Returns the scenarios to run. Those with the same flags of the controller follow each other.
    fn selected(&self) -> Result<Vec<Scenario>> {
        let mut scenarios = match (self.cases, &self.file) {
            (Some(cases), _) => super::random(self.seed, cases),
            (None, Some(file)) => scenarios::read(&fs::read_to_string(file)?)?,
            (None, None) => scenarios::all()?,
        };
        let is_unknown = |name: &&String| scenarios.iter().all(|scenario| scenario.name != **name);
        if let Some(unknown) = self.names.iter().find(is_unknown) {
            bail!("no scenario is called {unknown:?}; usage: {USAGE}");
        }
        scenarios.retain(|scenario| self.names.is_empty() || self.names.contains(&scenario.name));
        if let Some(mutations) = self.mutations {
            scenarios = super::mutated(self.seed, mutations, &scenarios);
        }
        if !self.checkouts.is_empty() {
            let each = |scenario: &Scenario| {
                let own = scenario.clone();
                self.checkouts.iter().map(move |checkout| Scenario { checkout: *checkout, ..own.clone() })
            };
            scenarios = scenarios.iter().flat_map(each).collect();
        }
        if self.file.is_some() {
            scenarios.iter_mut().for_each(|scenario| scenario.may_be_incomplete = true);
        }
        scenarios.sort_by_key(needs);
        Ok(scenarios)
    }

    /// Returns the cluster for scenarios with the needs of this one.
    fn cluster(&self, scenario: &Scenario) -> Result<Cluster> {
        let (flags, has_releases) = needs(scenario);
        match &self.dir {
            Some(dir) if flags.is_empty() => Cluster::attach(dir),
            _ => super::cluster_with(&flags, has_releases, self.controller.as_deref()),
        }
    }
}

/// Returns what a scenario needs of its cluster: flags of kustomize-controller, and the controllers of releases.
fn needs(scenario: &Scenario) -> (Vec<String>, bool) {
    (scenario.controller.clone(), scenario.has_releases())
}

fn checkouts(word: &str) -> Result<Vec<Checkout>> {
    if word == "each" { Ok(Checkout::ALL.map(|(checkout, _)| checkout).to_vec()) } else { Ok(vec![word.parse()?]) }
}

/// Numbers over all scenarios.
#[derive(Default)]
struct Sums {
    rows: usize,
    races: usize,
    states: usize,
    /// Answers of `mcp`, and those of them that are the plan of the command line.
    asked: usize,
    answered: usize,
    incomplete: usize,
    not_repeated: usize,
    failed: usize,
    wrong: usize,
    dangerous: usize,
}

impl Sums {
    fn add(&mut self, outcome: &Result<Outcome>) {
        let Ok(Outcome { comparison, not_repeated }) = outcome else {
            self.failed += 1;
            return;
        };
        self.rows += comparison.rows;
        self.races += comparison.races.len();
        self.states += comparison.states;
        self.asked += usize::from(comparison.agent.is_some());
        self.answered += usize::from(comparison.agent == Some(true));
        self.incomplete += usize::from(!comparison.gaps.is_empty());
        self.not_repeated += usize::from(!not_repeated.is_empty());
        self.wrong += usize::from(!comparison.mismatches.is_empty());
        self.dangerous += usize::from(!comparison.dangerous.is_empty());
    }
}

/// Runs all written scenarios, random ones, or written ones with one line changed. The options are those of [`Options`].
///
/// # Errors
/// A plan and the controller disagree, or a scenario cannot be played.
pub fn command(words: &[&str]) -> Result<()> {
    let options = Options::read(words)?;
    let scenarios = options.selected()?;
    if options.shows {
        scenarios.iter().for_each(|scenario| crate::answer(scenario.to_string()));
        return Ok(());
    }
    let path = options.binary.clone().map_or_else(|| tool::build(false), Ok)?;
    let controller_version = options.controller_version.clone();
    let (reverts, asks_agent) = (options.reverts, options.asks_agent);
    let program = Program { path, controller_version, peers: vec![], reverts, asks_agent };
    let (mut clusters, mut outcomes) = (vec![], vec![]);
    for group in scenarios.chunk_by(|a, b| needs(a) == needs(b)) {
        let cluster = match options.cluster(&group[0]) {
            Ok(cluster) => cluster,
            Err(error) => {
                // An older controller does not have every flag.
                outcomes.extend(group.iter().map(|_| Err(anyhow!("no cluster: {error:#}"))));
                continue;
            }
        };
        let reader = Reader::start(&cluster)?;
        outcomes.extend(super::run_with(&cluster, &reader, &program, group));
        clusters.push((needs(&group[0]), cluster, reader));
    }
    let again_once = |scenario: &Scenario| {
        let (flags, has_releases) = needs(scenario);
        // A smaller repository may have lost its releases, or what needs a flag.
        let serves = |(own, has): &(Vec<String>, bool)| *own == flags && *has >= has_releases;
        let found = clusters.iter().find(|(own, ..)| serves(own));
        let (_, cluster, reader) = found.context("no cluster of this run has what it needs")?;
        super::run_once(cluster, reader, &program, scenario)
    };
    if options.again > 0 {
        super::races::report(&scenarios, &outcomes, options.again, |racing| super::in_parallel(racing, again_once));
    }
    let mut sums = Sums::default();
    outcomes.iter().for_each(|outcome| sums.add(outcome));
    for (scenario, outcome) in scenarios.iter().zip(&outcomes).filter(|_| options.shrinks) {
        let Ok(Outcome { comparison, .. }) = outcome else { continue };
        let is_dangerous = !comparison.dangerous.is_empty();
        // Of the mutations, what is not dangerous is only counted: there are many.
        if comparison.mismatches.is_empty() || (options.mutations.is_some() && !is_dangerous) {
            continue;
        }
        say(format!("{}: searching for the smallest repository with the mismatch", scenario.name));
        let fails = |smaller: &Scenario| {
            again_once(smaller).is_ok_and(|got| !if is_dangerous { got.dangerous } else { got.mismatches }.is_empty())
        };
        say(super::shrink::smallest(scenario, |candidates| super::in_parallel(candidates, fails)).to_string());
    }
    report(scenarios.len(), &sums)
}

fn report(total: usize, sums: &Sums) -> Result<()> {
    let Sums { rows, races, states, asked, answered, incomplete, not_repeated, failed, wrong, dangerous } = sums;
    say(format!(
        "{total} scenarios: {wrong} with mismatches, {dangerous} of them dangerous, {failed} failed, {not_repeated} with a \
         mismatch that did not repeat; {incomplete} with an incomplete plan; {rows} rows, {races} of them races ({:.1} %); {states} predicted states \
         confirmed",
        100.0 * *races as f64 / (*rows).max(1) as f64
    ));
    if *asked > 0 {
        say(format!("mcp: {answered} of {asked} answers are the plan of the command line"));
    }
    if wrong + failed > 0 { bail!("the plan and the controller disagree") } else { Ok(()) }
}
