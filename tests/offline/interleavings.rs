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
use test_support::world::World;

/// Number of runs in the usual tests.
const RUNS: u64 = 2_000;

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

#[test]
fn nothing_is_deleted_that_changed_before_its_last_reading() {
    let seeds = match number("INTERLEAVINGS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("INTERLEAVINGS").unwrap_or(RUNS),
    };
    let mut found: Vec<String> = vec![];
    let mut codes: BTreeMap<String, usize> = BTreeMap::new();
    let (mut runs, mut deletions) = (0, 0);
    for seed in seeds {
        let (world, result) = run(seed, [6, 12, 25, 60][(seed / 4) as usize % 4]);
        let Some(result) = result else { continue };
        runs += 1;
        deletions += world.deletions();
        for row in &result.steps {
            let code = match &row.step {
                DeletionResult::Skipped(reason) => format!("skipped: {}", reason.code),
                other => other.code().to_owned(),
            };
            *codes.entry(code).or_default() += 1;
        }
        found.extend(problems(&world, &result).into_iter().map(|problem| format!("seed {seed}: {problem}")));
        if number("INTERLEAVINGS_SEED").is_some() {
            xtask::say(format!("{result:#?}"));
        }
    }
    xtask::say(format!("{runs} runs, {deletions} deletions, results {codes:#?}"));
    found.truncate(20);
    assert!(found.is_empty(), "{}", found.join("\n"));
    if number("INTERLEAVINGS_SEED").is_none() {
        // The runs reach what they are about.
        for code in
            ["deleted", "gone", "terminating", "failed", "skipped: protected", "skipped: cascade", "skipped: recorded"]
        {
            assert!(codes.get(code).is_some_and(|count| *count > 5), "{code}: {codes:?}");
        }
    }
}
