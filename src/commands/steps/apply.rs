//! `--apply`: carries out proposed steps one after the other, each planned again on the cluster as it is then.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::acts::{Act, Awaited, Wait, wait_for};
use crate::cluster::config::args::duration;
use crate::cluster::{Cluster, Failure};
use crate::commands::Session;
use crate::commands::prune::preflight::confirm;
use crate::commands::prune::tree::CheckoutOptions;
use crate::error::{Error, Result};
use crate::exit::ExitCode;
use crate::tools::git::{Checkout, WorktreeState};
use crate::tools::worktree;
use gitops_core::flux::handover::HandoverStep;
use gitops_core::flux::source::matching::{commit_of, source};
use gitops_core::flux::source::tree::Tree;
use gitops_core::flux::spec::SourceId;
use gitops_core::kubernetes::object::{ObjectId, text_at};
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::text::{join_limited, pluralize};

/// Number of objects that a message names.
const NAMED: usize = 5;

/// Pause before an incomplete plan is made again.
const PAUSE: Duration = Duration::from_secs(5);

/// Consequence of a cancelled question, for people.
const UNDONE: &str = "nothing of this step was done";

/// Flags of verbs that propose steps.
#[derive(Clone, Debug, Args)]
pub struct StepArgs {
    /// Read the cluster from FILE, which `snapshot` wrote
    #[arg(long, value_name = "FILE")]
    pub snapshot: Option<PathBuf>,
    /// Carry out the steps: run their commands, and wait for Flux after each patch that you commit
    #[arg(long, conflicts_with = "snapshot")]
    pub apply: bool,
    /// Run the commands of all steps without asking
    #[arg(long, requires = "apply")]
    pub yes: bool,
    /// Time for each step of --apply
    #[arg(long, value_name = "DURATION", default_value = "30m", hide_short_help = true, requires = "apply", value_parser = duration)]
    pub timeout: Duration,
    #[command(flatten)]
    pub checkout: CheckoutOptions,
}

impl StepArgs {
    /// Returns the state of the cluster, or of the recording.
    pub(crate) async fn read(&self, session: &mut Session) -> Result<Snapshot> {
        session.snapshot(self.snapshot.as_deref()).await
    }
}

/// A step that can be carried out.
pub(crate) struct NextStep {
    pub(crate) step: HandoverStep,
    pub(crate) acts: Vec<Act>,
    pub(crate) awaited: Awaited,
    /// The commit that this step needs; `None` if only what is awaited shows it.
    pub(crate) commit: Option<Commit>,
}

/// A commit that somebody makes, and that the sources get.
pub(crate) struct Commit {
    /// Instruction for a person.
    pub(crate) what: String,
    /// Directory and sources of the files.
    pub(crate) folder: PathBuf,
    pub(crate) sources: Vec<SourceId>,
    /// Files of the commit below the directory.
    pub(crate) tree: Tree,
    /// Files in which a merge of Git keeps a setting of the step before.
    pub(crate) merged: BTreeSet<String>,
}

/// Steps of a verb.
pub(crate) trait Steps {
    /// Counts a step that is taken.
    fn take_one(&mut self);

    /// Plans the steps that are left on a state of the cluster; none once everything is done.
    ///
    /// Fails if the next step may not be taken.
    async fn left(&mut self, snapshot: &Snapshot, session: &mut Session) -> Result<Vec<NextStep>>;

    /// Returns the command that goes on with what is left.
    fn command(&self) -> String;

    /// Returns what is reached, for people. Fails if it is not.
    fn end(&self, snapshot: &Snapshot) -> Result<String>;
}

/// Carries out the steps one after the other. Git is the user's: a step with patches waits until Flux has applied them. `exit` is
/// that of the plans.
///
/// Fails if a plan is incomplete, and with the number of steps that are done if one cannot be taken or no longer holds.
pub(crate) async fn carry_out(
    args: &StepArgs,
    steps: &mut impl Steps,
    first: (Vec<NextStep>, Snapshot),
    exit: ExitCode,
    session: &mut Session,
) -> Result<ExitCode> {
    if exit != ExitCode::Done {
        return Err(
            Error::refused("no step was taken: a plan is incomplete").hint("the gaps above say what is missing")
        );
    }
    let cluster = session.cluster().await?;
    let (mut left, mut snapshot) = first;
    let shown: Vec<BTreeSet<ObjectId>> = left.iter().map(|next| deleted(&next.step)).collect();
    let total = shown.len();
    for (number, expected) in (1..).zip(&shown) {
        if number > 1 {
            (left, snapshot) = left_after(args, steps, session).await.map_err(|error| Error {
                message: format!(
                    "{}; {} before step {number} of {total} done",
                    error.message,
                    pluralize(number - 1, "step")
                ),
                ..error
            })?;
            let Some(next) = left.first() else { break };
            ensure_holds(number, expected, &deleted(&next.step))?;
        }
        take(args, (number, total), (&left[0], &snapshot), &cluster, session).await.map_err(|error| {
            let taken = pluralize(number - 1, "step");
            let message = format!("step {number} of {total}: {}; {taken} before it done", error.message);
            let go_on = format!("`{}` goes on with what is left", steps.command());
            Error { message, hint: Some(error.hint.map_or(go_on.clone(), |hint| format!("{hint}; {go_on}"))), ..error }
        })?;
    }
    let end = steps.end(&session.snapshot(None).await?)?;
    session.terminal.status(&end);
    Ok(ExitCode::Done)
}

/// Plans the steps that are left after one, until their plan is complete, and returns them with the state of the cluster. A plan is
/// incomplete while controllers are still at work.
///
/// Fails if a step no longer holds, after the time limit, and after Ctrl-C.
async fn left_after(
    args: &StepArgs,
    steps: &mut impl Steps,
    session: &mut Session,
) -> Result<(Vec<NextStep>, Snapshot)> {
    let mut wait = Wait::new(args.timeout);
    steps.take_one();
    loop {
        let snapshot = session.snapshot(None).await?;
        let left = steps.left(&snapshot, session).await?;
        let gaps = left.first().filter(|next| !next.step.plan.is_complete()).map(|next| next.step.plan.gaps());
        let Some(gaps) = gaps else { return Ok((left, snapshot)) };
        let why = join_limited(gaps.iter().map(|gap| format!("{}: {}", gap.subject, gap.message)), NAMED);
        if wait.is_over() {
            return Err(Error::refused(format!("the plan of the next step is incomplete: {why}"))
                .hint("the gaps above say what is missing"));
        }
        if wait.is_new(&why) {
            session.terminal.status(&format!("waiting for a complete plan of the next step: {why}"));
        }
        if !wait.pause(PAUSE).await {
            return Err(Error::interrupted("interrupted while the next step was planned"));
        }
    }
}

/// Takes a step.
async fn take(
    args: &StepArgs,
    (number, total): (usize, usize),
    (next, snapshot): (&NextStep, &Snapshot),
    cluster: &Cluster,
    session: &mut Session,
) -> Result<()> {
    let NextStep { step, acts, awaited, commit } = next;
    session.terminal.status(&format!("step {number} of {total}: {}", step.title));
    let (by_hand, mut by_git) = awaited.split(|id| acts.iter().any(|act| act.object() == id));
    let files: Vec<&str> = step.patches.iter().map(|patch| &*patch.file).collect();
    let what = commit
        .as_ref()
        .map(|commit| commit.what.clone())
        .or((!files.is_empty()).then(|| format!("commit the patch of {}", files.join(", "))));
    let mut say = |missing: &str| session.terminal.status(&format!("waiting for {missing}"));
    if let Some(what) = what {
        say(&format!("Flux: {what}, and push it"));
        if let Some(commit) = commit {
            by_git.commit = Some(commit.wait(cluster, snapshot, args.timeout, &mut say).await?);
        }
        by_git.wait(cluster, snapshot, args.timeout, &mut say).await?;
    }
    if step.plan.deletions().next().is_some() && acts.iter().any(|act| matches!(act, Act::Delete(_))) {
        confirm(cluster, &step.plan, None, args.yes, session).await?;
    } else if !acts.is_empty() {
        confirm_settings(acts, args.yes, session)?;
    }
    for act in acts {
        act.carry_out(cluster, snapshot).await?;
        session.terminal.status(&act.command());
    }
    by_hand
        .wait(cluster, snapshot, args.timeout, |missing| session.terminal.status(&format!("waiting for {missing}")))
        .await
}

/// Asks before settings of objects are changed.
fn confirm_settings(acts: &[Act], yes: bool, session: &mut Session) -> Result<()> {
    let what = pluralize(acts.len(), "object");
    if yes {
        return Ok(());
    }
    if !session.terminal.can_ask() {
        return Err(Error::refused(format!("no terminal to confirm the change of {what} on")).hint("pass --yes"));
    }
    let is_confirmed = session.terminal.confirm(&format!("Change {what}?"), UNDONE)?;
    if is_confirmed { Ok(()) } else { Err(Error::cancelled(format!("cancelled: {UNDONE}"))) }
}

impl Commit {
    /// Waits until the sources have a commit with these files, and returns the commit. `waiting` gets what is missing whenever that
    /// changes.
    ///
    /// Fails after the time limit, and after Ctrl-C.
    async fn wait(
        &self,
        cluster: &Cluster,
        planned: &Snapshot,
        limit: Duration,
        waiting: impl FnMut(&str),
    ) -> Result<String> {
        let mut known = (String::new(), None);
        wait_for(limit, waiting, async || {
            for source in &self.sources {
                if let Some(missing) = self.missing(source, &mut known, cluster, planned).await? {
                    return Ok(Some(missing));
                }
            }
            Ok(None)
        })
        .await?;
        Ok(known.0)
    }

    /// Returns what a source still lacks, for people. `known` is the commit that was looked at last, and what it lacks.
    async fn missing(
        &self,
        id: &SourceId,
        known: &mut (String, Option<String>),
        cluster: &Cluster,
        planned: &Snapshot,
    ) -> Result<Option<String>, Failure> {
        let Some(full) = source(planned, id) else { return Ok(Some(format!("{} {}", id.kind, id.name))) };
        let object = &full.object.id;
        let Some(kind) = planned.type_of(object) else { return Ok(Some(object.to_string())) };
        let live = cluster.fetch_json(kind, object).await?.unwrap_or_default();
        let revision = text_at(&live, "/status/artifact/revision");
        let Some(commit) = commit_of(revision) else { return Ok(Some(format!("{object} to have a commit"))) };
        if known.0 != commit {
            *known = (commit.to_owned(), self.difference(commit));
        }
        let is_before = revision == full.text("/status/artifact/revision").unwrap_or_default();
        let lacks = known.1.as_deref().map(|lacks| if is_before { "is the commit before it" } else { lacks });
        Ok(lacks.map(|lacks| format!("{object} to have the files of this step; {revision} {lacks}")))
    }

    /// Returns how a commit differs from the files, for people; `None` if it does not.
    fn difference(&self, commit: &str) -> Option<String> {
        let is_here = Checkout::containing(&self.folder).ok().flatten().and_then(|checkout| checkout.commit(commit));
        if is_here.is_none() {
            return Some(format!("is not in {}: `git fetch` there", self.folder.display()));
        }
        let tree = match worktree::read(&self.folder, &WorktreeState::Revision(commit.to_owned())) {
            Ok(tree) => tree,
            Err(error) => return Some(format!("cannot be read: {}", error.message)),
        };
        let paths: BTreeSet<&str> = tree.iter().chain(self.tree.iter()).map(|(path, _)| path).collect();
        let differing: Vec<&str> = paths.into_iter().filter(|path| tree.get(path) != self.tree.get(path)).collect();
        let is_merged = differing.iter().all(|path| self.merged.contains(*path));
        let cause = if is_merged { ": take out there what the step before set, which a merge keeps" } else { "" };
        (!differing.is_empty()).then(|| format!("has another {}{cause}", join_limited(&differing, NAMED)))
    }
}

/// Returns the objects that a step deletes, without old records of releases.
fn deleted(step: &HandoverStep) -> BTreeSet<ObjectId> {
    step.plan.deletions().map(|change| change.object.id.clone()).collect()
}

/// Refuses a step that deletes something else than what was shown.
fn ensure_holds(number: usize, expected: &BTreeSet<ObjectId>, now: &BTreeSet<ObjectId>) -> Result<()> {
    let (more, fewer): (Vec<_>, Vec<_>) = (now.difference(expected).collect(), expected.difference(now).collect());
    let difference = match (&more[..], &fewer[..]) {
        ([], []) => return Ok(()),
        ([], fewer) => format!("it no longer deletes {}", join_limited(fewer, NAMED)),
        (more, _) => format!("it would also delete {}", join_limited(more, NAMED)),
    };
    let message = format!("step {number} no longer holds, because the cluster has changed: {difference}");
    Err(Error::refused(message).hint("run the command again without --apply, and look at the steps that are left"))
}
