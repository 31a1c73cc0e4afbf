//! `prune --plan --repo DIR`: what Flux will do once a working tree is its source.

mod args;
mod builds;
mod controllers;
mod handover;
mod history;
mod planner;
mod retire;
mod self_check;
mod shared;
pub mod steps;
mod subject;

use std::borrow::Cow;
use std::time::{Duration, Instant};

use tokio::time::timeout_at;

use super::rehearsal::Rehearsal;
use super::spokes::SpokeClusters;
use crate::commands::Session;
use crate::error::{Error, Result};
use crate::tools::sandbox;
pub use args::{CheckoutOptions, TreeArgs, TreeOptions, WORKING_TREE};
use builds::Builds;
use gitops_core::flux::controllers::FluxControllers;
use gitops_core::flux::kustomize_controller::{KustomizeController, KustomizeVersions};
use gitops_core::flux::simulation::questions::{Answers, Needs, Progress};
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::index::Index;
use gitops_core::plan::finished::{Executor, Finish};
use gitops_core::plan::limits::Limits;
use gitops_core::plan::mask::SecretMask;
use gitops_core::plan::{FinishedPlan, Plan};
pub(crate) use handover::{Asleep, FoundHandover, FoundMove, Role, find_handover};
pub(crate) use history::{HistoryQuery, search_history};
use planner::Planner;
pub(crate) use retire::{FoundStep, Removal, find_retirement};
pub(super) use shared::{CheckoutFacts, SharedWork};
use steps::StepsFile;

/// Reason why a tree has no plan for a cluster.
pub(super) enum NotPlanned {
    /// Nothing in the cluster follows the tree.
    Unaffected(Error),
    Failed(Error),
}

impl From<Error> for NotPlanned {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<NotPlanned> for Error {
    fn from(reason: NotPlanned) -> Self {
        match reason {
            NotPlanned::Unaffected(error) | NotPlanned::Failed(error) => error,
        }
    }
}

/// Plans what Flux does with the tree. Also returns the names with values of Secrets, which must be masked before the plan
/// is shown. `spokes` are other clusters that the snapshot has, with a connection. `offline` is true if the snapshot came from
/// a file: then no cluster is asked. `shared` has what was read and built for other clusters.
///
/// Fails if a directory cannot be read, if kustomize cannot be run, or if no source of the cluster is the tree.
pub(super) async fn plan(
    args: &TreeArgs,
    session: &mut Session,
    snapshot: &Snapshot,
    spokes: &SpokeClusters,
    offline: bool,
    shared: &SharedWork,
) -> Result<(Plan, SecretMask), NotPlanned> {
    let (mut planner, start, trees) = Planner::prepare(args, session, snapshot, spokes, offline, shared).await?;
    let mut finished = planner.preview(&start, &trees).await?;
    planner.add_live_referrers(&mut finished.plan).await;
    planner.describe(&mut finished.plan, &trees);
    planner.report(session, &finished);
    Ok((finished.plan, finished.secrets))
}

/// Plans what Flux does with the tree and then with each of these revisions of it, one after the other, or with the steps of
/// `--steps`, as [`plan`]. Every step begins with the predicted state after the one before it.
///
/// Fails as [`plan`], and if a revision cannot be read or a step cannot be done then.
pub async fn plan_steps(
    args: &TreeArgs,
    session: &mut Session,
    snapshot: &Snapshot,
    spokes: &SpokeClusters,
    offline: bool,
) -> Result<Vec<PlannedStep>> {
    let shared = SharedWork::default();
    let file = args.options.steps.as_deref().map(StepsFile::read).transpose()?;
    let (mut planner, mut state, checked_out) =
        Planner::prepare(args, session, snapshot, spokes, offline, &shared).await?;
    let entries = match file {
        Some(file) => file.entries,
        None => StepsFile::of_commits(&args.options.then).entries,
    };
    let mut current = match entries.first() {
        Some(first) if !first.is_commit() => planner.revision(&planner.deployed()?.commit)?,
        _ => checked_out.clone(),
    };
    let (mut steps, last) = (vec![], entries.len());
    for (number, entry) in (1..).zip(&entries) {
        let (title, trees) = entry.prepare(number, &planner, &mut state, &current, &checked_out)?;
        let (mut finished, next) = if number == last {
            (planner.preview(&state, &trees).await?, None)
        } else {
            let (finished, next) = planner.step(&state, &trees).await?;
            (finished, Some(next))
        };
        planner.add_live_referrers(&mut finished.plan).await;
        planner.describe(&mut finished.plan, &trees);
        finished.plan.add_gaps(state.open.clone());
        if number == 1 {
            planner.report(session, &finished);
        }
        let begins_with = std::mem::replace(&mut state.snapshot, Cow::Borrowed(snapshot)).into_owned();
        steps.push(PlannedStep { title, plan: finished.plan, secrets: finished.secrets, snapshot: begins_with });
        state = next.unwrap_or(state);
        current = trees;
    }
    Ok(steps)
}

/// The plan of one of several steps.
pub struct PlannedStep {
    /// Description of the step in one line.
    pub title: String,
    pub plan: Plan,
    pub secrets: SecretMask,
    /// State that the step begins with.
    pub snapshot: Snapshot,
}

impl PlannedStep {
    /// Finishes the plan of a proposed step, without a policy.
    pub(crate) fn finish(&self, is_recorded: bool) -> FinishedPlan {
        self.finish_with(&self.secrets, is_recorded)
    }

    /// Finishes the plan with the names that objects have in the states, to judge them. Nothing of it may be shown.
    fn finish_unmasked(&self, is_recorded: bool) -> FinishedPlan {
        self.finish_with(&SecretMask::default(), is_recorded)
    }

    fn finish_with(&self, secrets: &SecretMask, is_recorded: bool) -> FinishedPlan {
        let index = Index::build(&self.snapshot);
        let finish = Finish {
            snapshot: &self.snapshot,
            is_recorded,
            executor: Executor::Controllers(&index),
            limits: Limits::default(),
            secrets,
            policy: None,
        };
        finish.finish(self.plan.clone(), FluxControllers::new).0
    }
}

/// Warns if the system cannot restrict the programs that build.
///
/// Fails with `--require-sandbox`.
fn check_sandbox(options: &TreeOptions, session: &mut Session) -> Result<()> {
    let Some(missing) = sandbox::missing_restriction() else { return Ok(()) };
    if options.require_sandbox {
        let hint = "plan on Linux with Landlock, or without --require-sandbox if you trust the tree";
        return Err(Error::failed(format!("{missing}, and --require-sandbox is set")).hint(hint));
    }
    session.terminal.warning(missing);
    Ok(())
}

/// Prints warnings about the version and the state of kustomize-controller.
fn warn_of_controller(
    session: &mut Session,
    controller: &KustomizeController,
    versions: &KustomizeVersions,
    is_in_cluster: bool,
) {
    if let Some(difference) = versions.difference() {
        session.terminal.warning(&format!("{difference}: builds may differ"));
    }
    if let Some(unknown) = controller.unknown_version().filter(|_| is_in_cluster || controller.version.is_some()) {
        session.terminal.warning(&unknown);
    }
    if controller.is_stopped {
        session.terminal.warning("no pod of kustomize-controller is available; nothing changes until one is");
    }
}

/// The only place that answers what the core asks: builds, and dry-runs.
struct Answerer<'s> {
    builds: Builds<'s>,
    /// Dry-runs; `None` if the API server is not asked.
    rehearsal: Option<Rehearsal<'s>>,
    shared: &'s SharedWork,
    answers: Answers,
    /// End of the time of the plan; `None` if it has no limit.
    deadline: Option<Instant>,
    /// The time of the plan.
    limit: Duration,
}

impl Answerer<'_> {
    /// Answers a computation until it is done.
    async fn finish<T>(&mut self, mut step: impl FnMut(&Answers) -> Progress<T>) -> Result<T> {
        loop {
            let needs = match step(&self.answers) {
                Progress::Done(done) => return Ok(done),
                Progress::Needs(needs) => needs,
            };
            let Some(deadline) = self.deadline else {
                self.answer(*needs).await?;
                continue;
            };
            // What runs is ended, with its children, when its future is dropped.
            let left = (*needs).clone();
            let is_over = Instant::now() >= deadline;
            let answered = if is_over { None } else { timeout_at(deadline.into(), self.answer(*needs)).await.ok() };
            match answered {
                Some(result) => result?,
                None => {
                    let why = format!("the time of the plan is over (--plan-timeout={:?})", self.limit);
                    self.answers.give_up(left, &why);
                }
            }
        }
    }

    async fn answer(&mut self, needs: Needs) -> Result<()> {
        self.shared.answer(&self.builds, needs.builds, &mut self.answers.builds).await?;
        if let Some(rehearsal) = &mut self.rehearsal {
            rehearsal.answer(needs.dry_runs, &mut self.answers.dry_runs).await;
        }
        Ok(())
    }
}
