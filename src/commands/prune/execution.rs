//! The way of every plan: show it, check the limits, send dry-runs, ask, and delete.

use std::collections::BTreeSet;

use super::args::{ExecutionArgs, Report};
use super::policy::{PolicyFile, ensure_not_denied};
use super::preflight;
use super::recorder::{self, Recorder, Records};
use super::review::{self, Recording, ReviewedPlan};
use crate::cluster::{Execution, OWNERS_AGE, execute};
use crate::commands::Session;
use crate::error::{Error, Result};
use crate::exit::ExitCode;
use crate::output::format::{Format, Look, Render};
use crate::output::source_change::SourceChange;
use crate::output::steps::sequence as output_sequence;
use crate::output::{deletion, plan as output, source_change};
use crate::tools;
use gitops_core::flux::controllers::FluxControllers;
use gitops_core::kubernetes::gap::AnswerGap;
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::index::Index;
use gitops_core::plan::alarm::AlarmCode;
use gitops_core::plan::file::{OwnerSelection, Selection};
use gitops_core::plan::finished::{Executor, Finish};
use gitops_core::plan::limits::Base;
use gitops_core::plan::mask::SecretMask;
use gitops_core::plan::outcome::{DeletionResult, StepResult};
use gitops_core::plan::sequence::Sequence;
use gitops_core::plan::{Change, FinishedPlan, Plan, Reason, ReasonCode};
use gitops_core::prune::collectors::collector::CollectorPlan;
use gitops_core::prune::collectors::request::CollectorRequest;
use gitops_core::prune::leaked;
use gitops_core::prune::leaked::PruneOptions;
use gitops_core::text::pluralize;

/// Source of a plan that this tool can execute.
pub(super) enum PlanSource {
    Cluster(PruneOptions),
    /// The cluster and the manifests of a system that keeps no inventory.
    Manifests(Box<dyn CollectorRequest>),
}

impl PlanSource {
    fn plan(&self, index: &Index<'_>) -> Result<CollectorPlan> {
        match self {
            Self::Cluster(options) => Ok(leaked::plan(index, options).into()),
            Self::Manifests(request) => Ok(request.plan(index)?),
        }
    }

    /// Owners that the plan is limited to.
    fn selection(&self) -> OwnerSelection {
        match self {
            Self::Cluster(options) => OwnerSelection {
                owners: options.owners.clone(),
                namespace: options.namespace.clone(),
                system: options.system.clone(),
            },
            Self::Manifests(_) => OwnerSelection::default(),
        }
    }

    /// Re-evaluates roots as [`Self::reasons_to_keep`]. With `pinned`, objects that changed after the review stay too.
    fn reevaluate(&self, index: &Index<'_>, changes: &[&Change], pinned: bool) -> Vec<Option<Reason>> {
        let rows = changes.iter().zip(self.reasons_to_keep(index, changes));
        rows.map(|(change, own)| own.or_else(|| change_since_plan(index, change).filter(|_| pinned))).collect()
    }

    /// Re-evaluates roots of the plan on a newer index. Returns the reason to keep each, or `None` to delete it.
    fn reasons_to_keep(&self, index: &Index<'_>, changes: &[&Change]) -> Vec<Option<Reason>> {
        match self {
            Self::Cluster(options) => changes.iter().map(|change| leaked::reevaluate(index, change, options)).collect(),
            Self::Manifests(request) => request.reasons_to_keep(index, changes),
        }
    }
}

/// A command that plans, and its flags.
pub(super) struct Request<'a> {
    /// Words of the command, such as `prune qbec`.
    pub(super) command: &'static str,
    pub(super) args: &'a ExecutionArgs,
    pub(super) policy: Option<PolicyFile<'a>>,
    /// The plan file of `--apply`.
    pub(super) reviewed: Option<ReviewedPlan>,
}

/// Plans, shows the plan and, unless `--plan` is given, asks and deletes. `make_source` gets the one index of the snapshot.
pub(super) async fn run(
    make_source: impl FnOnce(&Session, &Index<'_>) -> Result<PlanSource>,
    request: Request<'_>,
    snapshot: Snapshot,
    session: &mut Session,
) -> Result<ExitCode> {
    let Request { command, args, policy, reviewed } = request;
    if let Some(reviewed) = &reviewed {
        reviewed.check_cluster(args, &snapshot.cluster, &session.cluster().await?)?;
    }
    let index = Index::build(&snapshot);
    let source = make_source(session, &index)?;
    let CollectorPlan { mut plan, waves, retained, source_change: change, warnings } = source.plan(&index)?;
    for warning in warnings {
        session.terminal.warning(&warning);
    }
    if change.is_some() && !args.plan {
        return Err(Error::refused("refused: fluxd itself will do this once its source changes")
            .hint("add --plan; without the --new-git flags, this tool deletes in fluxd's place"));
    }
    let mut skipped = vec![];
    if let Some(reviewed) = &reviewed {
        Selection { plan, skipped } = reviewed.file.select(plan, &index, args.allow_changed);
    }
    let base = match source {
        PlanSource::Cluster(_) => Base::Inventories(&index),
        PlanSource::Manifests(_) => Base::Staying(retained),
    };
    // A plan that this tool executes holds no manifests, and so no values of Secrets.
    let secrets = SecretMask::default();
    let (plan, judged) = finish(plan, Executor::Own(base), &secrets, policy.as_ref(), args, &snapshot);
    let is_executable = change.is_none() && args.planning.snapshot.is_none();
    match change {
        Some(change) => show_source_change(&plan, &change, args, session)?,
        None => show(&plan, args, session)?,
    }
    let exit = report_gaps(std::iter::once(&plan), args, session);
    judged?;
    ensure_not_denied(&plan)?;
    let recording = Recording { command, selection: source.selection(), waves: &waves, index: &index };
    review::write(&plan, is_executable.then_some(recording), args, session).await?;
    if args.plan {
        return if raises_alarm(&plan) { Err(alarm(&plan, is_told(args, session))) } else { Ok(exit) };
    }
    let digest = reviewed.as_ref().map(|reviewed| reviewed.digest.as_str());
    if plan.deletions().next().is_none() {
        return finish_without_deletion(&plan, skipped, digest, args, session).map(|skips| skips.unwrap_or(exit));
    }
    ensure_within_limits(&plan, is_told(args, session))?;
    let cluster = session.cluster().await?;
    preflight::rehearse(&cluster, &plan, &snapshot, args.parallel).await?;
    warn_of_backup(args, &plan, session);
    session.print_warnings();
    preflight::confirm(&cluster, &plan, reviewed.as_ref(), args.yes, session).await?;
    // After the question: a cancelled run leaves no file.
    let mut records = Records::open(args, &plan, digest)?;
    let skips = report_skipped(skipped, &mut records, session)?;
    let pinned = args.apply.is_some() && !args.allow_changed;
    let execution = Execution { timeout: args.timeout, waves, parallel: args.parallel, owners_age: OWNERS_AGE };
    let mut recorder = Recorder::new(records, &plan, &index, &mut session.terminal);
    let reevaluate = |index: &Index<'_>, changes: &[&Change]| source.reevaluate(index, changes, pinned);
    let result = execute(&cluster, &plan, &reevaluate, &execution, &mut recorder).await;
    drop(recorder);
    session.terminal.status(&deletion::outcome(&result, &plan));
    if let Some(failure) = &result.failure {
        return Err(Error { exit: ExitCode::Partial, ..Error::failed(format!("stopped: {failure}")) }
            .hint("make room, and run the same command again"));
    }
    if result.interrupted {
        return Ok(ExitCode::Interrupted);
    }
    Ok(if result.is_complete() { skips.unwrap_or(exit) } else { ExitCode::Partial })
}

/// Reports the steps of a plan file when none of them is executed.
fn finish_without_deletion(
    plan: &Plan,
    skipped: Vec<StepResult>,
    digest: Option<&str>,
    args: &ExecutionArgs,
    session: &mut Session,
) -> Result<Option<ExitCode>> {
    if skipped.is_empty() {
        return Ok(None);
    }
    report_skipped(skipped, &mut Records::open(args, plan, digest)?, session)
}

/// Prints and records the steps of a plan file that are not executed, and returns the exit code for them. What an earlier
/// run with the same journal deleted is only counted.
fn report_skipped(skipped: Vec<StepResult>, records: &mut Records, session: &mut Session) -> Result<Option<ExitCode>> {
    let (earlier, skipped): (Vec<_>, Vec<_>) =
        skipped.into_iter().partition(|row| row.step == DeletionResult::Gone && records.has_begun(&row.object));
    if !earlier.is_empty() {
        let number = pluralize(earlier.len(), "object");
        session.terminal.status(&format!("{number} deleted by an earlier run with this journal"));
    }
    for row in &skipped {
        records.record(row)?;
        session.terminal.raw(&deletion::step(row))?;
    }
    Ok(skipped.iter().any(|row| row.step != DeletionResult::Gone).then_some(ExitCode::Partial))
}

fn warn_of_backup(args: &ExecutionArgs, plan: &Plan, session: &mut Session) {
    let left_out = recorder::left_out_of_backup(args, plan);
    if left_out > 0 {
        let number = pluralize(left_out, "Secret");
        session.terminal.warning(&format!("{number} will be deleted without a backup; --backup-secrets writes them"));
    }
}

/// Returns the reason to keep an object that changed after it was reviewed.
fn change_since_plan(index: &Index<'_>, change: &Change) -> Option<Reason> {
    let (planned, now) =
        (&change.object.resource_version, &index.snapshot().object(&change.object.id)?.resource_version);
    let detail = format!("its resourceVersion was {planned} and is {now}");
    (**planned != **now).then(|| Reason::new(ReasonCode::ChangedSincePlan, detail))
}

/// Finishes a plan. Also returns the error of a policy that cannot be evaluated, which is for after the plan is shown.
pub(super) fn finish(
    plan: Plan,
    executor: Executor<'_>,
    secrets: &SecretMask,
    policy: Option<&PolicyFile<'_>>,
    args: &ExecutionArgs,
    snapshot: &Snapshot,
) -> (FinishedPlan, Result<()>) {
    let (limits, is_recorded) = (args.limits(), args.planning.snapshot.is_some());
    let finish = Finish { snapshot, is_recorded, executor, limits, secrets, policy: policy.map(PolicyFile::named) };
    let (plan, judged) = finish.finish(plan, FluxControllers::new);
    (plan, policy.map_or(Ok(()), |policy| judged.map_err(|why| policy.not_evaluated(&why))))
}

pub(super) fn show(plan: &FinishedPlan, args: &ExecutionArgs, session: &mut Session) -> Result<()> {
    let answer = args.planning.output.render(plan, session.terminal.look(!args.planning.no_headers))?;
    session.terminal.raw(&answer)?;
    let is_told = is_told(args, session);
    if is_told && !answer.is_empty() {
        session.terminal.status("");
    }
    let folded = args.planning.output == Format::Table && plan.changes().iter().any(output::is_updated);
    let more = if folded { " (-o wide shows what is updated)" } else { "" };
    session.terminal.status(&format!("{}{more}", output::summary(plan, is_told)));
    if !is_told {
        output::warnings(plan).iter().for_each(|warning| session.terminal.warning(&warning.to_string()));
    }
    write_reports(plan, args)
}

/// Shows plans of several steps, and what all of them lose.
pub(super) fn show_sequence(sequence: &Sequence, args: &ExecutionArgs, session: &mut Session) -> Result<()> {
    session.terminal.raw(&args.planning.output.render(sequence, session.terminal.look(!args.planning.no_headers))?)?;
    if !args.planning.output.is_table() {
        session.terminal.status(&output_sequence::summary(sequence));
    }
    for (number, plan) in sequence.steps.iter().map(|step| (step.number, &step.plan)) {
        let warnings = output::warnings(plan);
        warnings.iter().for_each(|warning| session.terminal.warning(&format!("step {number}: {warning}")));
    }
    write_reports(sequence, args)
}

/// Returns true if the table has said everything to who reads the messages: both are on one terminal.
pub(super) fn is_told(args: &ExecutionArgs, session: &Session) -> bool {
    args.planning.output.is_table() && session.terminal.is_shared()
}

/// Writes the answer in the formats of `--report`. Fails when a file cannot be written.
pub(super) fn write_reports(answer: &impl Render, args: &ExecutionArgs) -> Result<()> {
    for Report { format, file } in &args.planning.reports {
        tools::write_report(file, &format.render(answer, Look::whole(!args.planning.no_headers))?)?;
    }
    Ok(())
}

fn show_source_change(plan: &FinishedPlan, change: &str, args: &ExecutionArgs, session: &mut Session) -> Result<()> {
    session.terminal.status(change);
    session
        .terminal
        .raw(&args.planning.output.render(&SourceChange(plan), session.terminal.look(!args.planning.no_headers))?)?;
    session.terminal.status(&source_change::summary(plan));
    source_change::advice(plan).into_iter().for_each(|advice| session.terminal.hint(advice));
    write_reports(&SourceChange(plan), args)
}

/// Reports the gaps that the tables did not, each once, and returns the exit code of plans.
pub(super) fn report_gaps<'p>(
    mut plans: impl Iterator<Item = &'p FinishedPlan> + Clone,
    args: &ExecutionArgs,
    session: &mut Session,
) -> ExitCode {
    let is_told = is_told(args, session);
    let gaps: BTreeSet<AnswerGap> = plans.clone().flat_map(|plan| plan.gaps()).cloned().collect();
    let exit = session.report_answer_gaps(&gaps.into_iter().collect::<Vec<_>>(), is_told);
    let deletes = args.planning.detailed_exitcode && plans.any(|plan| plan.deletions().next().is_some());
    if deletes && exit == ExitCode::Done { ExitCode::Found } else { exit }
}

/// Returns true if a plan that is only shown ends with the exit code of an alarm. What could not be read is none: the answer is
/// incomplete.
pub(super) fn raises_alarm(plan: &FinishedPlan) -> bool {
    plan.alarms().iter().any(|alarm| alarm.code != AlarmCode::Incomplete)
}

/// Returns the error of a plan that is only shown, and that exceeds a limit.
fn alarm(plan: &FinishedPlan, is_told: bool) -> Error {
    let lines = output::alarm_lines(plan, is_told);
    Error::refused(lines.join("\n       ")).hint(output::remedies(plan.alarms()).to_string())
}

/// Refuses a plan that exceeds a limit, before anything is sent (docs/reference/ownership.md 8, rules 3 and 6).
fn ensure_within_limits(plan: &FinishedPlan, is_told: bool) -> Result<()> {
    if plan.alarms().is_empty() {
        return Ok(());
    }
    let details = output::alarm_lines(plan, is_told).join("; ");
    Err(Error::refused(format!("refused, nothing was deleted: {details}"))
        .hint(output::remedies(plan.alarms()).to_string()))
}
