//! `prune`: plan, show, ask, delete. `prune --plan` stops after showing.

pub mod args;
pub mod collect;
pub mod diff;
pub mod diff_rows;
pub mod sources;
pub mod tree;

use chrono::{DateTime, TimeDelta, Utc};

use super::Session;
use crate::cluster::{Cluster, Execution};
use crate::output::duration::human;
use crate::output::{plan as show, sanitize, source_change};
use crate::tools::plan_file;
use args::{Include, PruneArgs};
use gitops_core::error::{Error, Result};
use gitops_core::exit::ExitCode;
use gitops_core::kubernetes::deletion::finalizers;
use gitops_core::kubernetes::deletion::volumes;
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::OwnerId;
use gitops_core::ownership::index::Index;
use gitops_core::plan::document::Plan;
use gitops_core::plan::filter;
use gitops_core::plan::limits;
use gitops_core::plan::limits::Limits;
use gitops_core::plan::preview_limits;
use gitops_core::prune::collectors::request::{CollectorPlan, Request};
use gitops_core::prune::collectors::safety::Allow;
use gitops_core::prune::leaked;
use gitops_core::prune::leaked::{LeakDecision, PruneOptions};
use gitops_core::text::count;

/// What a plan is made from.
enum PlanSource {
    /// The cluster alone.
    Cluster(PruneOptions),
    /// The cluster and the manifests of a system that marks what it applies.
    Marks(Box<Request>),
}

impl PlanSource {
    /// Plans; what goes comes in the order in which to delete it.
    fn plan(&self, snapshot: &Snapshot) -> Result<CollectorPlan> {
        match self {
            Self::Cluster(wishes) => Ok(CollectorPlan::of(leaked::plan(snapshot, wishes))),
            Self::Marks(request) => request.answer(snapshot),
        }
    }

    /// The same judgement as in the plan, on a fresh reading.
    fn keeps(&self, snapshot: &Snapshot, id: &ObjectId) -> Option<String> {
        match self {
            Self::Cluster(wishes) => still_prunable(snapshot, id, wishes),
            Self::Marks(request) => request.keeps(snapshot, id),
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
    if args.tree.is_given() {
        if args.snapshot.is_some() {
            recorded_elsewhere(session, &snapshot).await?;
            warn_of_age(session, &snapshot, now);
        }
        return preview(args, session, &snapshot).await;
    }
    let basis = match request {
        Some(request) => PlanSource::Marks(Box::new(request)),
        None => PlanSource::Cluster(wishes(args, session, &snapshot)?),
    };
    let CollectorPlan { mut plan, waves, staying, preview: change, warnings } = basis.plan(&snapshot)?;
    for warning in warnings {
        session.terminal.warning(&sanitize::one_line(&warning));
    }
    if change.is_some() && !args.plan {
        return Err(Error::refused("refused: fluxd itself will do this once its source changes")
            .hint("look at it with --plan; without the --new-git flags this tool deletes in fluxd's place"));
    }
    if let Some(file) = &args.apply {
        plan = plan_file::read(file)?.still_holding(plan)?;
    }
    plan = with_circumstances(plan, args, &snapshot);
    if let Some(change) = &change {
        session.terminal.status(&sanitize::one_line(change));
        session.terminal.data(&source_change::render(&plan, args.output, !args.no_headers)?)?;
        session.terminal.status(&source_change::summary(&plan));
        source_change::advice(&plan).into_iter().for_each(|advice| session.terminal.status(advice));
    } else {
        session.terminal.data(&show::render(&plan, args.output, !args.no_headers, &[])?)?;
        session.terminal.status(&show::summary(&plan));
        show::warnings(&plan).iter().for_each(|line| session.terminal.warning(line));
    }
    let gaps = session.report_gaps(&plan.gaps);
    if args.plan {
        args.out.as_deref().map_or(Ok(()), |file| plan_file::write(file, &plan))?;
        return Ok(plan_exit(args, &plan, gaps));
    }
    if plan.deletions().next().is_none() {
        return Ok(gaps);
    }
    guarded(args, &plan, &snapshot, &basis, staying)?;
    let cluster = session.cluster().await?;
    rehearsed(&cluster, &plan, &snapshot, args.parallel).await?;
    confirmed(args, session, &plan)?;
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
async fn preview(args: &PruneArgs, session: &mut Session, snapshot: &Snapshot) -> Result<ExitCode> {
    let mut plan = tree::plan(&args.tree, session, snapshot, args.snapshot.is_some()).await?;
    let wishes = wishes(args, session, snapshot)?;
    if wishes.narrow() {
        plan = filter::narrowed(plan, &|owner| wishes.include(owner), snapshot);
    }
    plan = with_circumstances(plan, args, snapshot);
    let broken = preview_limits::check(&plan, &Index::build(snapshot), &limits(args));
    session.terminal.data(&show::render(&plan, args.output, !args.no_headers, &broken)?)?;
    session.terminal.status(&show::summary(&plan));
    show::warnings(&plan).iter().for_each(|line| session.terminal.warning(line));
    let gaps = session.report_gaps(&plan.gaps);
    args.out.as_deref().map_or(Ok(()), |file| plan_file::write(file, &plan))?;
    let Some(first) = broken.first() else { return Ok(plan_exit(args, &plan, gaps)) };
    let messages: Vec<_> = broken.iter().map(|violation| sanitize::one_line(&violation.message).into_owned()).collect();
    Err(Error::refused(messages.join("\n       ")).hint(first.hint.clone()))
}

/// Adds what becomes of volumes, what will hang, and of when the cluster is that was planned on.
fn with_circumstances(plan: Plan, args: &PruneArgs, snapshot: &Snapshot) -> Plan {
    let plan = volumes::told(plan, snapshot);
    let recorded = args.snapshot.is_some().then_some(snapshot.taken);
    Plan { held: finalizers::of(&plan, snapshot), recorded, ..plan }
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

fn wishes(args: &PruneArgs, session: &Session, snapshot: &Snapshot) -> Result<PruneOptions> {
    let index = Index::build(snapshot);
    let owners: Result<Vec<OwnerId>> = args.owners.iter().map(|text| super::owners::find(text, &index)).collect();
    Ok(PruneOptions {
        owners: owners?,
        namespace: session.connection.namespace.clone(),
        system: args.by.as_deref().map(super::owners::system).transpose()?,
        include_orphaned: args.include.contains(&Include::Orphaned),
        no_hub: args.yes_no_hub,
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

/// Rule 3 and 6: limits come before anything is sent.
fn guarded(args: &PruneArgs, plan: &Plan, snapshot: &Snapshot, basis: &PlanSource, staying: usize) -> Result<()> {
    let limits = limits(args);
    let broken = match basis {
        PlanSource::Cluster(_) => limits::check(plan, &Index::build(snapshot), &limits),
        PlanSource::Marks(_) => {
            let lost = limits::lost_by_owner(plan).into_iter();
            let shares = lost.filter_map(|(owner, lost)| limits::share(owner, lost, staying, &limits));
            limits::totals(plan, &limits).into_iter().chain(shares).collect()
        }
    };
    let Some(first) = broken.first() else { return Ok(()) };
    let messages: Vec<_> = broken.iter().map(|violation| violation.message.as_str()).collect();
    Err(Error::refused(format!("refused, nothing was deleted: {}", messages.join("; "))).hint(first.hint.clone()))
}

/// Rule 7: what the server would refuse is found before the first real deletion.
async fn rehearsed(cluster: &Cluster, plan: &Plan, snapshot: &Snapshot, parallel: usize) -> Result<()> {
    let refused = cluster.rehearse(plan, snapshot, parallel).await;
    if refused.is_empty() {
        return Ok(());
    }
    let lines: Vec<_> =
        refused.iter().map(|(id, why)| sanitize::one_line(&format!("{id}: {why}")).into_owned()).collect();
    let number = count(refused.len(), "deletion");
    Err(Error::refused(format!("refused, nothing was deleted: the server would refuse {number}: {}", lines.join("; ")))
        .hint("plan again; if it stays, look at your rights and at admission policies"))
}

/// Rule 8: without a terminal there is no question and no deletion.
fn confirmed(args: &PruneArgs, session: &mut Session, plan: &Plan) -> Result<()> {
    let total = plan.deletions().count();
    let objects = count(total, "object");
    if args.yes {
        return Ok(());
    }
    if !session.terminal.can_ask() {
        return Err(Error::refused(format!("refused, nothing was deleted: no terminal to confirm {objects} on"))
            .hint("review with --plan, then pass --yes"));
    }
    let server = sanitize::one_line(&plan.cluster.server);
    let agreed = if show::is_grave(plan) {
        let question = format!(
            "This takes along what cannot be restored from Git. Type {total} to delete {objects} from {server}"
        );
        session.terminal.confirm_typed(&question, &total.to_string())?
    } else {
        session.terminal.confirm(&format!("Delete {objects} from {server}?"))?
    };
    if agreed { Ok(()) } else { Err(Error::cancelled("cancelled: nothing was deleted")) }
}

/// The same judgement as in the plan, on a fresh reading of the object and its owner.
fn still_prunable(snapshot: &Snapshot, id: &ObjectId, wishes: &PruneOptions) -> Option<String> {
    let index = Index::build(snapshot);
    let Some(object) = snapshot.object(id) else { return Some("it is gone".to_owned()) };
    match leaked::verdict(&index, object, &index.status(object), wishes) {
        Some((_, LeakDecision::Delete(_))) => None,
        Some((_, LeakDecision::Keep(why))) => Some(why),
        None => Some("nothing claims it any more, or its owner lists it".to_owned()),
    }
}
