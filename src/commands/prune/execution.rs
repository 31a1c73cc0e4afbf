//! The way of every plan: show it, check the limits, send dry-runs, ask, and delete.

use super::args::ExecutionArgs;
use crate::cluster::{Cluster, Execution};
use crate::commands::Session;
use crate::error::{Error, Result};
use crate::exit::ExitCode;
use crate::output::source_change::SourceChange;
use crate::output::{plan as output, sanitize, source_change};
use crate::tools::plan_file;
use gitops_core::flux::controllers::FluxControllers;
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::index::Index;
use gitops_core::plan::finalizers::add_blocked_by_finalizers;
use gitops_core::plan::limits;
use gitops_core::plan::limits::Base;
use gitops_core::plan::outcome::Event;
use gitops_core::plan::volumes::add_volume_outcomes;
use gitops_core::plan::{Change, Plan, Reason};
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

    /// Re-evaluates roots of the plan on a newer index. Returns the reason to keep each, or `None` to delete it.
    fn reasons_to_keep(&self, index: &Index<'_>, changes: &[&Change]) -> Vec<Option<Reason>> {
        match self {
            Self::Cluster(options) => changes.iter().map(|change| leaked::reevaluate(index, change, options)).collect(),
            Self::Manifests(request) => request.reasons_to_keep(index, changes),
        }
    }
}

/// Plans, shows the plan and, unless `--plan` is given, asks and deletes. `source` gets the one index of the snapshot.
pub(super) async fn run(
    source: impl FnOnce(&Session, &Index<'_>) -> Result<PlanSource>,
    args: &ExecutionArgs,
    snapshot: Snapshot,
    session: &mut Session,
) -> Result<ExitCode> {
    let index = Index::build(&snapshot);
    let source = source(session, &index)?;
    let CollectorPlan { mut plan, waves, retained, source_change: change, warnings } = source.plan(&index)?;
    for warning in warnings {
        session.terminal.warning(&sanitize::one_line(&warning));
    }
    if change.is_some() && !args.plan {
        return Err(Error::refused("refused: fluxd itself will do this once its source changes")
            .hint("add --plan; without the --new-git flags, this tool deletes in fluxd's place"));
    }
    if let Some(file) = &args.apply {
        plan_file::read(file)?.restrict(&mut plan)?;
    }
    plan = add_consequences(plan, args, &snapshot);
    let base = match source {
        PlanSource::Cluster(_) => Base::Inventories(&index),
        PlanSource::Manifests(_) => Base::Staying(retained),
    };
    plan.set_alarms(limits::check_plan(&plan, base, &args.limits()));
    match change {
        Some(change) => show_source_change(&plan, &change, args, session)?,
        None => show(&plan, args, session)?,
    }
    let exit = finish_plan(&plan, args, session)?;
    if args.plan || plan.deletions().next().is_none() {
        return Ok(exit);
    }
    ensure_within_limits(&plan)?;
    let cluster = session.cluster().await?;
    dry_run_deletions(&cluster, &plan, &snapshot, args.parallel).await?;
    confirm(args, session, &plan)?;
    let reevaluate = |index: &Index<'_>, changes: &[&Change]| source.reasons_to_keep(index, changes);
    let terminal = &mut session.terminal;
    let mut report = |event: Event<'_>| {
        if let Event::Reported(row) = event {
            let _ = terminal.data(&output::step(row));
        }
    };
    let execution = Execution { timeout: args.timeout, waves, parallel: args.parallel };
    let result = cluster.execute(&plan, &reevaluate, &execution, &mut report).await;
    session.terminal.status(&output::outcome(&result));
    Ok(match result.is_complete() {
        _ if result.interrupted => ExitCode::Interrupted,
        true => exit,
        false => ExitCode::Partial,
    })
}

/// Adds retained volumes, objects blocked by finalizers, and the time of the recording to the plan.
pub(super) fn add_consequences(mut plan: Plan, args: &ExecutionArgs, snapshot: &Snapshot) -> Plan {
    add_volume_outcomes(&mut plan, snapshot);
    let controllers = FluxControllers::new(&plan, snapshot);
    add_blocked_by_finalizers(&mut plan, snapshot, &controllers);
    plan.recorded_at(args.snapshot.is_some().then_some(snapshot.taken))
}

pub(super) fn show(plan: &Plan, args: &ExecutionArgs, session: &mut Session) -> Result<()> {
    session.terminal.data(&args.output.render(plan, !args.no_headers)?)?;
    session.terminal.status(&output::summary(plan));
    for warning in output::warnings(plan) {
        session.terminal.warning(&sanitize::one_line(&warning.to_string()));
    }
    Ok(())
}

fn show_source_change(plan: &Plan, change: &str, args: &ExecutionArgs, session: &mut Session) -> Result<()> {
    session.terminal.status(&sanitize::one_line(change));
    session.terminal.data(&args.output.render(&SourceChange(plan), !args.no_headers)?)?;
    session.terminal.status(&source_change::summary(plan));
    source_change::advice(plan).into_iter().for_each(|advice| session.terminal.hint(advice));
    Ok(())
}

/// Reports the gaps, writes the plan to the file of `--out`, and returns the exit code.
pub(super) fn finish_plan(plan: &Plan, args: &ExecutionArgs, session: &mut Session) -> Result<ExitCode> {
    let exit = session.report_gaps(plan.gaps());
    if let Some(file) = &args.out {
        plan_file::write(file, plan)?;
    }
    let deletes = args.detailed_exitcode && plan.deletions().next().is_some();
    Ok(if deletes && exit == ExitCode::Done { ExitCode::PlanDeletes } else { exit })
}

/// Refuses a plan that exceeds a limit, before anything is sent (docs/reference/ownership.md 8, rules 3 and 6).
fn ensure_within_limits(plan: &Plan) -> Result<()> {
    let Some(first) = plan.alarms().first() else { return Ok(()) };
    let details: Vec<_> = plan.alarms().iter().map(|alarm| alarm.detail.as_str()).collect();
    Err(Error::refused(format!("refused, nothing was deleted: {}", details.join("; "))).hint(output::remedy(first)))
}

/// Sends every deletion as a dry-run and refuses the plan if the server refuses any of them
/// (docs/reference/ownership.md 8, rule 7).
async fn dry_run_deletions(cluster: &Cluster, plan: &Plan, snapshot: &Snapshot, parallel: usize) -> Result<()> {
    let refused = cluster.dry_run_deletions(plan, snapshot, parallel).await;
    if refused.is_empty() {
        return Ok(());
    }
    let lines: Vec<_> =
        refused.iter().map(|(id, why)| sanitize::one_line(&format!("{id}: {why}")).into_owned()).collect();
    let number = pluralize(refused.len(), "deletion");
    Err(Error::refused(format!("refused, nothing was deleted: the server would refuse {number}: {}", lines.join("; ")))
        .hint("plan again; if it stays, look at your rights and at admission policies"))
}

/// Asks for confirmation. Without a terminal, nothing is deleted unless --yes is given
/// (docs/reference/ownership.md 8, rule 8).
fn confirm(args: &ExecutionArgs, session: &mut Session, plan: &Plan) -> Result<()> {
    if args.yes {
        return Ok(());
    }
    let total = plan.deletions().count();
    let objects = pluralize(total, "object");
    if !session.terminal.can_ask() {
        return Err(Error::refused(format!("refused, nothing was deleted: no terminal to confirm {objects} on"))
            .hint("review with --plan, then pass --yes"));
    }
    let server = sanitize::one_line(&plan.cluster().server);
    let confirmed = if output::is_grave(plan) {
        let question = format!(
            "These deletions include objects that Git cannot restore. Type {total} to delete {objects} from {server}"
        );
        session.terminal.confirm_by_typing(&question, &total.to_string())?
    } else {
        session.terminal.confirm(&format!("Delete {objects} from {server}?"))?
    };
    if confirmed { Ok(()) } else { Err(Error::cancelled("cancelled: nothing was deleted")) }
}
