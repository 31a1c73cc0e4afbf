//! `prune`: plan, show, ask, delete. `prune --plan` stops after showing.

pub mod args;
pub mod collect;
pub mod diff;
pub mod sources;
pub mod tree;

use chrono::{DateTime, TimeDelta, Utc};

use super::Session;
use crate::cluster::{Cluster, Execution};
use crate::error::{Error, Result};
use crate::exit::ExitCode;
use crate::output::duration::human;
use crate::output::{plan as show, sanitize, source_change};
use crate::tools::plan_file;
use args::{Include, PruneArgs};
use gitops_core::flux::controllers::FluxControllers;
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::OwnerId;
use gitops_core::ownership::index::Index;
use gitops_core::plan::finalizers::add_blocked_by_finalizers;
use gitops_core::plan::limits::{Base, Limits};
use gitops_core::plan::volumes::add_volume_outcomes;
use gitops_core::plan::{Plan, filter, limits};
use gitops_core::prune::collectors::request::{CollectorPlan, CollectorRequest};
use gitops_core::prune::collectors::safety::Allow;
use gitops_core::prune::leaked;
use gitops_core::prune::leaked::{LeakDecision, PruneOptions};
use gitops_core::text::pluralize;

/// What a plan is made from.
enum PlanSource {
    /// The cluster alone.
    Cluster(PruneOptions),
    /// The cluster and the manifests of a system that marks what it applies.
    Marks(Box<CollectorRequest>),
}

impl PlanSource {
    /// Plans; what goes comes in the order in which to delete it.
    fn plan(&self, index: &Index<'_>) -> Result<CollectorPlan> {
        match self {
            Self::Cluster(options) => Ok(leaked::plan(index, options).into()),
            Self::Marks(request) => Ok(request.plan(index)?),
        }
    }

    /// The same judgement as in the plan, on a fresh reading.
    fn keeps(&self, snapshot: &Snapshot, id: &ObjectId) -> Option<String> {
        let index = Index::build(snapshot);
        match self {
            Self::Cluster(options) => reason_to_keep(&index, id, options),
            Self::Marks(request) => request.reason_to_keep(&index, id),
        }
    }
}

/// Plans and, unless `--plan` is given, asks and deletes.
///
/// # Errors
/// When the cluster cannot be read, a guard refuses, or the question is answered with no.
pub async fn run(args: &PruneArgs, session: &mut Session) -> Result<ExitCode> {
    let allow = Allow {
        missed: args.include.contains(&Include::Missed),
        namespaces: args.allow_namespaces,
        crds: args.allow_crds,
    };
    let request = args.gc.request(args.by.as_deref(), allow, session).await?;
    if request.is_some() && args.tree.is_given() {
        return Err(Error::usage("a working tree of Flux and the manifests of another system make two plans")
            .hint("ask for one at a time"));
    }
    if request.is_some() && !args.owners.is_empty() {
        return Err(Error::usage("owners cannot be named together with manifests")
            .hint("the manifests say whose objects are looked at"));
    }
    if args.tree.diff && !args.tree.is_given() {
        return Err(
            Error::usage("--diff compares a working tree with the cluster").hint("name it with --repo or --source")
        );
    }
    let now = session.now;
    let mut snapshot = session.snapshot(args.snapshot.as_deref()).await?;
    let index = Index::build(&snapshot);
    if args.tree.is_given() {
        if args.snapshot.is_some() {
            recorded_elsewhere(session, &snapshot).await?;
            warn_of_age(session, &snapshot, now);
        }
        return preview(args, session, &index).await;
    }
    let basis = match request {
        Some(request) => PlanSource::Marks(Box::new(request)),
        None => PlanSource::Cluster(options(args, session, &index)?),
    };
    let CollectorPlan { mut plan, waves, retained, source_change: change, warnings } = basis.plan(&index)?;
    for warning in warnings {
        session.terminal.warning(&sanitize::one_line(&warning));
    }
    if change.is_some() && !args.plan {
        return Err(Error::refused("refused: fluxd itself will do this once its source changes")
            .hint("look at it with --plan; without the --new-git flags this tool deletes in fluxd's place"));
    }
    if let Some(file) = &args.apply {
        plan_file::read(file)?.restrict(&mut plan)?;
    }
    plan = add_consequences(plan, args, &snapshot);
    let limits = limits(args);
    let base = match basis {
        PlanSource::Cluster(_) => Base::Inventories(&index),
        PlanSource::Marks(_) => Base::Staying(retained),
    };
    plan.set_alarms(limits::check_plan(&plan, base, &limits));
    if let Some(change) = &change {
        session.terminal.status(&sanitize::one_line(change));
        session.terminal.data(&source_change::render(&plan, args.output, !args.no_headers)?)?;
        session.terminal.status(&source_change::summary(&plan));
        source_change::advice(&plan).into_iter().for_each(|advice| session.terminal.status(advice));
    } else {
        session.terminal.data(&show::render(&plan, args.output, !args.no_headers)?)?;
        session.terminal.status(&show::summary(&plan));
        show::warnings(&plan).iter().for_each(|line| session.terminal.warning(line));
    }
    let gaps = session.report_gaps(plan.gaps());
    if args.plan {
        args.out.as_deref().map_or(Ok(()), |file| plan_file::write(file, &plan))?;
        return Ok(plan_exit(args, &plan, gaps));
    }
    if plan.deletions().next().is_none() {
        return Ok(gaps);
    }
    ensure_within_limits(&plan)?;
    let cluster = session.cluster().await?;
    dry_run_deletions(&cluster, &plan, &snapshot, args.parallel).await?;
    confirm(args, session, &plan)?;
    let judge = |snapshot: &Snapshot, id: &ObjectId| basis.keeps(snapshot, id);
    let terminal = &mut session.terminal;
    let mut tell = |row: &_| {
        let _ = terminal.data(&show::step(row));
    };
    let execution = Execution { timeout: args.timeout, waves, parallel: args.parallel };
    let result = cluster.execute(&plan, &mut snapshot, &judge, &execution, &mut tell).await;
    session.terminal.status(&show::outcome(&result));
    Ok(match result.is_complete() {
        _ if result.interrupted => ExitCode::Interrupted,
        true => gaps,
        false => ExitCode::Partial,
    })
}

/// Shows what Flux will do with a tree; a broken limit is the exit code.
async fn preview(args: &PruneArgs, session: &mut Session, index: &Index<'_>) -> Result<ExitCode> {
    let snapshot = index.snapshot();
    let mut plan = tree::plan(&args.tree, session, snapshot, args.snapshot.is_some()).await?;
    let options = options(args, session, index)?;
    if options.is_restricted() {
        filter::restrict_to_owners(&mut plan, &|owner| options.includes(owner), index);
    }
    plan = add_consequences(plan, args, snapshot);
    plan.set_alarms(limits::check_preview(&plan, index, &limits(args)));
    session.terminal.data(&show::render(&plan, args.output, !args.no_headers)?)?;
    session.terminal.status(&show::summary(&plan));
    show::warnings(&plan).iter().for_each(|line| session.terminal.warning(line));
    let gaps = session.report_gaps(plan.gaps());
    args.out.as_deref().map_or(Ok(()), |file| plan_file::write(file, &plan))?;
    let Some(first) = plan.alarms().first() else { return Ok(plan_exit(args, &plan, gaps)) };
    let messages: Vec<_> = plan.alarms().iter().map(|alarm| sanitize::one_line(&alarm.detail).into_owned()).collect();
    Err(Error::refused(messages.join("\n       ")).hint(show::remedy(first)))
}

/// Adds retained volumes, objects blocked by finalizers, and the time of the recording to the plan.
fn add_consequences(mut plan: Plan, args: &PruneArgs, snapshot: &Snapshot) -> Plan {
    add_volume_outcomes(&mut plan, snapshot);
    let controllers = FluxControllers::new(&plan, snapshot);
    add_blocked_by_finalizers(&mut plan, snapshot, &controllers);
    plan.recorded_at(args.snapshot.is_some().then_some(snapshot.taken))
}

/// A recording says of which cluster it is; connection flags that name another one are a mistake.
async fn recorded_elsewhere(session: &Session, snapshot: &Snapshot) -> Result<()> {
    let flags = &session.connection;
    if flags.context.is_none() && flags.cluster.is_none() && flags.server.is_none() && flags.kubeconfig.is_none() {
        return Ok(());
    }
    let named = session.cluster().await?.server;
    let recorded = &snapshot.cluster.server;
    if named.trim_end_matches('/') == recorded.trim_end_matches('/') {
        return Ok(());
    }
    let message = format!("the snapshot is of {}, and the flags name {named}", sanitize::one_line(recorded));
    Err(Error::failed(message).hint("leave the connection flags out, or record that cluster"))
}

/// What came after the recording is not in the plan.
fn warn_of_age(session: &mut Session, snapshot: &Snapshot, now: DateTime<Utc>) {
    let age = now - snapshot.taken;
    if age > TimeDelta::days(1) {
        let text = format!("the snapshot is {} old: what was created since is not in the plan", human(age));
        session.terminal.warning(&text);
        session.terminal.hint("record a new one with `kubectl gitops snapshot FILE`");
    }
}

fn limits(args: &PruneArgs) -> Limits {
    Limits { max_delete: args.max_delete, max_percent: args.max_percent, allow_incomplete: args.allow_incomplete }
}

fn options(args: &PruneArgs, session: &Session, index: &Index<'_>) -> Result<PruneOptions> {
    let owners: Result<Vec<OwnerId>> = args.owners.iter().map(|text| super::owners::find(text, index)).collect();
    Ok(PruneOptions {
        owners: owners?,
        namespace: session.connection.namespace.clone(),
        system: args.by.as_deref().map(super::owners::system).transpose()?,
        include_orphaned: args.include.contains(&Include::Orphaned),
        assume_no_hub: args.yes_no_hub,
        allow_namespaces: args.allow_namespaces,
        allow_crds: args.allow_crds,
    })
}

fn plan_exit(args: &PruneArgs, plan: &Plan, gaps: ExitCode) -> ExitCode {
    match gaps {
        ExitCode::Done if args.detailed_exitcode && plan.deletions().next().is_some() => ExitCode::PlanDeletes,
        other => other,
    }
}

/// Refuses a plan that exceeds a limit, before anything is sent (safety rules 3 and 6).
fn ensure_within_limits(plan: &Plan) -> Result<()> {
    let Some(first) = plan.alarms().first() else { return Ok(()) };
    let details: Vec<_> = plan.alarms().iter().map(|alarm| alarm.detail.as_str()).collect();
    Err(Error::refused(format!("refused, nothing was deleted: {}", details.join("; "))).hint(show::remedy(first)))
}

/// Sends every deletion as a dry-run and refuses the plan if the server refuses any of them (safety rule 7).
async fn dry_run_deletions(cluster: &Cluster, plan: &Plan, snapshot: &Snapshot, parallel: usize) -> Result<()> {
    let refused = cluster.rehearse(plan, snapshot, parallel).await;
    if refused.is_empty() {
        return Ok(());
    }
    let lines: Vec<_> =
        refused.iter().map(|(id, why)| sanitize::one_line(&format!("{id}: {why}")).into_owned()).collect();
    let number = pluralize(refused.len(), "deletion");
    Err(Error::refused(format!("refused, nothing was deleted: the server would refuse {number}: {}", lines.join("; ")))
        .hint("plan again; if it stays, look at your rights and at admission policies"))
}

/// Asks for confirmation; without a terminal nothing is deleted unless --yes is given (safety rule 8).
fn confirm(args: &PruneArgs, session: &mut Session, plan: &Plan) -> Result<()> {
    let total = plan.deletions().count();
    let objects = pluralize(total, "object");
    if args.yes {
        return Ok(());
    }
    if !session.terminal.can_ask() {
        return Err(Error::refused(format!("refused, nothing was deleted: no terminal to confirm {objects} on"))
            .hint("review with --plan, then pass --yes"));
    }
    let server = sanitize::one_line(&plan.cluster().server);
    let agreed = if show::is_grave(plan) {
        let question = format!(
            "This takes along what cannot be restored from Git. Type {total} to delete {objects} from {server}"
        );
        session.terminal.confirm_by_typing(&question, &total.to_string())?
    } else {
        session.terminal.confirm(&format!("Delete {objects} from {server}?"))?
    };
    if agreed { Ok(()) } else { Err(Error::cancelled("cancelled: nothing was deleted")) }
}

/// Re-evaluates an object after a fresh read. Returns the reason to keep it, or `None` to delete it.
fn reason_to_keep(index: &Index<'_>, id: &ObjectId, options: &PruneOptions) -> Option<String> {
    let Some(object) = index.snapshot().object(id) else { return Some("it no longer exists".to_owned()) };
    match leaked::evaluate(index, object, &index.status(object), options) {
        Some((_, LeakDecision::Delete(_))) => None,
        Some((_, LeakDecision::Keep(reason))) => Some(reason.to_string()),
        None => Some("no owner claims it any more, or its owner lists it".to_owned()),
    }
}
