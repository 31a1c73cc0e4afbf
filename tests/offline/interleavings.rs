//! Executions while other people and controllers change the cluster between any two requests. A witness with rules of its
//! own sees every DELETE: what is gone was a row of the plan, and nothing in its cascade was protected, recorded by another
//! owner, relabelled or new (docs/safety.md).
//!
//! `INTERLEAVINGS=100000 cargo test --release --test offline interleavings` runs more than the usual number of seeds, and
//! `INTERLEAVINGS_SEED=7` only one.

use std::collections::BTreeMap;
use std::time::Duration;

use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::index::Index;
use gitops_core::plan::Change;
use gitops_core::plan::grave::AllowedKinds;
use gitops_core::plan::outcome::{DeletionResult, PruneResult};
use gitops_core::prune::leaked::{self, PruneOptions};
use kubectl_gitops::cluster::{Execution, OWNERS_AGE, dry_run_deletions, execute};
use test_support::workers::on_all_processors;
use test_support::world::World;

/// Number of runs in the fast tier. The full tier has more, see `INTERLEAVINGS` in xtask/src/test.rs.
const RUNS: u64 = 500;

fn options() -> PruneOptions {
    PruneOptions {
        include_orphaned: true,
        assume_no_hub: true,
        allowed: AllowedKinds::all(),
        ..PruneOptions::default()
    }
}

/// Plans, waits for an answer, and deletes in the world of a seed. Returns nothing if the cluster could not be planned.
async fn prune(world: &World, seed: u64, activity: usize) -> Option<PruneResult> {
    let cluster = world.connect();
    let snapshot: Snapshot = cluster.snapshot(chrono::Utc::now()).await.ok()?;
    let options = options();
    let plan = leaked::plan(&Index::build(&snapshot), &options);
    let parallel = [1, 1, 1, 3][seed as usize % 4];
    world.expect(&plan, parallel == 1);
    world.set_activity(activity);
    let _ = dry_run_deletions(&cluster, &plan, &snapshot, parallel).await;
    world.wait_for_answer();
    let reevaluate = |index: &Index<'_>, changes: &[&Change]| {
        changes.iter().map(|change| leaked::reevaluate(index, change, &options)).collect()
    };
    let execution = Execution { timeout: Duration::from_secs(2), waves: vec![], parallel, owners_age: OWNERS_AGE };
    Some(execute(&cluster, &plan, &reevaluate, &execution, &mut ()).await)
}

/// Returns what is wrong with a run.
fn problems(world: &World, result: &PruneResult) -> Vec<String> {
    let mut problems = world.violations();
    for row in &result.steps {
        let uid = &row.object.uid;
        let is_true = match &row.step {
            DeletionResult::Deleted | DeletionResult::Gone | DeletionResult::Terminating(_) => !world.is_alive(uid),
            DeletionResult::NotTried => !world.was_deleted(uid),
            // The cascade of a later row may have deleted it, if the plan says so; the witness judges that.
            DeletionResult::Skipped(_) | DeletionResult::Failed(_) | DeletionResult::Unknown(_) => true,
        };
        if !is_true {
            problems.push(format!("{} is reported as {}, which is wrong", row.object.id, row.step.code()));
        }
    }
    problems
}

fn run(seed: u64, activity: usize) -> (World, Option<PruneResult>) {
    let world = World::new(seed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let result = runtime.block_on(prune(&world, seed, activity));
    (world, result)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn undisturbed_every_row_is_deleted() {
    for seed in 0..20 {
        let (world, result) = run(seed, 0);
        let result = result.expect("a plan");
        assert_eq!(problems(&world, &result), [""; 0], "seed {seed}");
        let kept: Vec<_> = result.steps.iter().filter(|row| !row.step.is_deletion()).collect();
        // The actor may act while the question waits, so few seeds delete everything.
        assert!(world.deletions() > 0 || !kept.is_empty(), "seed {seed}: {result:?}");
    }
}

/// Results of some runs.
#[derive(Default)]
struct Seen {
    runs: usize,
    deletions: usize,
    codes: BTreeMap<String, usize>,
    problems: Vec<String>,
}

impl Seen {
    fn run(&mut self, seed: u64) {
        let (world, result) = run(seed, [6, 12, 25, 60][(seed / 4) as usize % 4]);
        let Some(result) = result else { return };
        self.runs += 1;
        self.deletions += world.deletions();
        for row in &result.steps {
            let code = match &row.step {
                DeletionResult::Skipped(reason) => format!("skipped: {}", reason.code),
                other => other.code().to_owned(),
            };
            *self.codes.entry(code).or_default() += 1;
        }
        let problems = problems(&world, &result);
        self.problems.extend(problems.into_iter().map(|problem| format!("seed {seed}: {problem}")));
        if number("INTERLEAVINGS_SEED").is_some() {
            xtask::say(format!("{result:#?}"));
        }
    }

    fn add(mut self, other: Self) -> Self {
        self.runs += other.runs;
        self.deletions += other.deletions;
        other.codes.into_iter().for_each(|(code, count)| *self.codes.entry(code).or_default() += count);
        self.problems.extend(other.problems);
        self
    }
}

#[test]
fn nothing_is_deleted_that_changed_before_its_last_reading() {
    let seeds = match number("INTERLEAVINGS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("INTERLEAVINGS").unwrap_or(RUNS),
    };
    let parts = on_all_processors(seeds, Seen::run);
    let Seen { runs, deletions, codes, mut problems } = parts.into_iter().fold(Seen::default(), Seen::add);
    xtask::say(format!("{runs} runs, {deletions} deletions, results {codes:#?}"));
    problems.truncate(20);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    if number("INTERLEAVINGS_SEED").is_none() {
        // The runs reach what they are about.
        for code in
            ["deleted", "gone", "terminating", "failed", "skipped: protected", "skipped: cascade", "skipped: recorded"]
        {
            assert!(codes.get(code).is_some_and(|count| *count > 5), "{code}: {codes:?}");
        }
    }
}
