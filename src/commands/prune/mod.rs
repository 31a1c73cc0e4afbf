//! `prune`: what is leaked in the cluster, what Flux will do with a working tree, and what the systems without an
//! inventory would delete. `execution` shows and executes the plans of all of them.

pub mod applyset;
pub mod args;
mod execution;
pub(super) mod fleet;
pub mod flux_v1;
pub mod manifests;
mod policy;
pub(super) mod preflight;
pub mod qbec;
mod recorder;
mod rehearsal;
mod review;
pub mod sources;
mod spokes;
pub mod tree;

use std::path::Path;

use super::{Session, guard, owners};
use crate::cluster::read::snapshot::add_stored_versions;
use crate::error::{Error, Result};
use crate::exit::ExitCode;
use crate::output::format::{self, Format, Render};
use crate::output::plan as show;
use crate::output::text::sanitize::one_line;
use crate::suggest::nearest;
use crate::tools::plan_file;
use args::{ExecutionArgs, Include, PruneArgs, System};
use execution::{PlanSource, Request};
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::index::Index;
use gitops_core::plan::finished::Executor;
use gitops_core::plan::mask::SecretMask;
use gitops_core::plan::sequence::Sequence;
use gitops_core::plan::{FinishedPlan, Plan, filter};
use gitops_core::prune::collectors::request::CollectorRequest;
use gitops_core::prune::leaked::PruneOptions;
use policy::PolicyFile;
use review::ReviewedPlan;
use spokes::SpokeClusters;
use tree::{NotPlanned, SharedWork};

/// Names of the sub-verbs.
const SYSTEMS: [&str; 3] = ["qbec", "flux-v1", "applyset"];

/// Plans and, unless `--plan` is given, asks and deletes.
pub async fn run(args: &PruneArgs, session: &mut Session) -> Result<ExitCode> {
    let execution = &args.execution;
    execution.check()?;
    args.check()?;
    let command = args.command();
    let policy = PolicyFile::read(execution)?;
    let reviewed = ReviewedPlan::read(execution, command, session)?;
    let request = Request { command, args: execution, policy, reviewed };
    if let Some(system) = &args.system {
        let collector: Box<dyn CollectorRequest> = match system {
            System::Qbec(args) => Box::new(args.request(execution, session).await?),
            System::FluxV1(args) => Box::new(args.request(execution, session)?),
            System::ApplySet(args) => Box::new(args.request(execution, session)?),
        };
        let snapshot = session.snapshot(execution.planning.snapshot.as_deref()).await?;
        return execution::run(|_, _| Ok(PlanSource::Manifests(collector)), request, snapshot, session).await;
    }
    let mut snapshot = session.snapshot(execution.planning.snapshot.as_deref()).await?;
    if !args.tree.is_given() {
        return execution::run(
            |session, index| Ok(PlanSource::Cluster(args.selection(session, index)?)),
            request,
            snapshot,
            session,
        )
        .await;
    }
    if execution.planning.snapshot.is_some() {
        check_cluster_flags(session, &snapshot).await?;
    }
    if args.tree.options.offline && execution.planning.snapshot.is_none() {
        // Dry-runs would say what the server refuses.
        add_stored_versions(&session.cluster().await?, &mut snapshot).await;
    }
    let clusters =
        spokes::read(&args.tree.options.spoke, session, &mut snapshot, execution.planning.snapshot.is_some()).await?;
    if !args.tree.options.has_steps() {
        return preview(args, request.policy.as_ref(), session, &snapshot, &clusters).await;
    }
    preview_steps(args, request.policy.as_ref(), session, &snapshot, &clusters).await
}

impl PruneArgs {
    /// Returns the words of the command, which a plan file records.
    fn command(&self) -> &'static str {
        match &self.system {
            None => "prune",
            Some(System::Qbec(_)) => "prune qbec",
            Some(System::FluxV1(_)) => "prune flux-v1",
            Some(System::ApplySet(_)) => "prune applyset",
        }
    }

    /// Checks what clap cannot, before anything is read.
    fn check(&self) -> Result<()> {
        if self.execution.apply.is_some() && (self.by.is_some() || self.tree.is_given()) {
            let flag = if self.by.is_some() { "--by" } else { "a working tree" };
            return Err(Error::usage(format!("{flag} cannot be used with --apply: the plan decides what is deleted"))
                .hint("leave it out, or write another plan with `kubectl gitops prune --plan --out FILE`"));
        }
        if let Err(error) = owners::named(&self.owners) {
            let system =
                self.owners.iter().find_map(|text| nearest(text, SYSTEMS).filter(|_| owners::parse(text).is_err()));
            return Err(match system {
                Some(system) => {
                    error.hint(format!("did you mean `kubectl gitops prune {system}`? The system comes first"))
                }
                None => error,
            });
        }
        if self.by.as_deref() == Some("qbec") {
            return Err(Error::usage("--by qbec can find no leaked object, because qbec keeps no inventory")
                .hint("compare with its manifests: `kubectl gitops prune qbec --plan --qbec-root DIR --env ENV`"));
        }
        self.tree.check(self.execution.plan)?;
        self.check_steps()?;
        self.check_policies()?;
        if !self.tree.options.spoke.is_empty() && self.execution.planning.output == Format::Name {
            return Err(Error::usage("-o name does not say in which cluster an object is, so --spoke rejects it")
                .hint("use -o json or -o wide, which have the cluster of each object"));
        }
        Ok(())
    }
}

impl PruneArgs {
    /// Rejects policies where no controller deletes, and in a report.
    fn check_policies(&self) -> Result<()> {
        let planning = &self.execution.planning;
        if planning.reports.iter().any(|report| report.format == Format::Vap) {
            return Err(Error::usage("--report does not write policies").hint("use -o vap, and redirect the output"));
        }
        if planning.output == Format::Vap && !(self.tree.is_given() && self.tree.options.as_approved) {
            return Err(Error::usage("-o vap approves what controllers delete")
                .hint("use `kubectl gitops plan -o vap`, which plans a checkout"));
        }
        Ok(())
    }

    /// Checks the flags that a plan of several steps does not take.
    fn check_steps(&self) -> Result<()> {
        let planning = &self.execution.planning;
        if !self.tree.options.has_steps() {
            return Ok(());
        }
        let formats: Vec<&str> = format::of(Sequence::PARTS).map(|(name, _)| name).collect();
        let mut shown = planning.reports.iter().map(|report| report.format).chain([planning.output]);
        if shown.any(|shown| format::of(Sequence::PARTS).all(|(_, known)| known != shown)) {
            let message = format!("a plan of several steps has these formats: {}", formats.join(", "));
            return Err(Error::usage(message).hint("leave --then and --steps out, or choose one of them with -o"));
        }
        if planning.out.is_some() {
            return Err(Error::usage("--out writes the plan of one step")
                .hint("leave --out out and use -o json, or leave --then and --steps out"));
        }
        Ok(())
    }

    /// Translates the flags for an index, in which the owners must exist.
    fn selection(&self, session: &Session, index: &Index<'_>) -> Result<PruneOptions> {
        let namespace = session.connection.namespace.clone();
        let named = owners::named(&self.owners)?;
        let found = named.iter().map(|text| owners::find(text, namespace.as_deref(), index));
        Ok(PruneOptions {
            owners: found.collect::<Result<_>>()?,
            system: self.by.as_deref().map(owners::system).transpose()?,
            include_orphaned: self.include.contains(&Include::Orphaned),
            assume_no_hub: self.assume_no_hub,
            allowed: self.execution.allowed(),
            namespace,
        })
    }

    /// Finishes the plan of a tree on a state of the cluster.
    fn finish(
        &self,
        mut plan: Plan,
        secrets: &SecretMask,
        policy: Option<&PolicyFile<'_>>,
        snapshot: &Snapshot,
        session: &Session,
    ) -> Result<(FinishedPlan, Result<()>)> {
        let index = Index::build(snapshot);
        let options = self.selection(session, &index)?;
        if options.is_restricted() {
            filter::restrict_to_owners(&mut plan, &|owner| options.includes(owner), &index);
        }
        if !self.tree.options.all {
            filter::drop_untouched(&mut plan, &index);
        }
        Ok(execution::finish(plan, Executor::Controllers(&index), secrets, policy, &self.execution, snapshot))
    }
}

/// Shows what Flux will do with a tree and then with further revisions of it. An exceeded limit or a rule that denies
/// one of the plans decides the exit code.
async fn preview_steps(
    args: &PruneArgs,
    policy: Option<&PolicyFile<'_>>,
    session: &mut Session,
    snapshot: &Snapshot,
    spokes: &SpokeClusters,
) -> Result<ExitCode> {
    let execution = &args.execution;
    session.print_warnings();
    let planned = tree::plan_steps(&args.tree, session, snapshot, spokes, execution.planning.snapshot.is_some()).await;
    let steps = planned.inspect_err(|_| session.discard_warnings())?;
    let (mut plans, mut failed) = (vec![], Ok(()));
    for step in steps {
        session.print_masked_warnings(std::slice::from_ref(&step.secrets));
        let (plan, judged) = args.finish(step.plan, &step.secrets, policy, &step.snapshot, session)?;
        failed = failed.and(judged);
        plans.push((step.title, plan));
    }
    let sequence = Sequence::new(plans);
    execution::show_sequence(&sequence, execution, session)?;
    let plans: Vec<(String, &FinishedPlan)> =
        sequence.steps.iter().map(|step| (format!("step {}: ", step.number), &step.plan)).collect();
    conclude(&plans, failed, execution, &args.tree.handover_flags(session.connection.namespace.as_deref()), session)
}

/// Plans what Flux will do with a tree. Also returns the error of a policy that cannot be evaluated, and the values of
/// Secrets that messages about the cluster can show.
async fn plan_tree(
    args: &PruneArgs,
    policy: Option<&PolicyFile<'_>>,
    session: &mut Session,
    snapshot: &Snapshot,
    spokes: &SpokeClusters,
    shared: &SharedWork,
) -> Result<(FinishedPlan, Result<()>, SecretMask), NotPlanned> {
    let offline = args.execution.planning.snapshot.is_some();
    let (plan, secrets) = tree::plan(&args.tree, session, snapshot, spokes, offline, shared).await?;
    let finished = args.finish(plan, &secrets, policy, snapshot, session).map_err(|error| {
        // An owner that was not found may be one that could not be read.
        let is_missing = error.exit == ExitCode::Error && snapshot.gaps.is_empty();
        if is_missing { NotPlanned::Unaffected(error) } else { error.into() }
    })?;
    let (plan, judged) = finished;
    Ok((plan, judged, secrets))
}

/// Shows what Flux will do with a tree. An exceeded limit or a rule that denies the plan decides the exit code.
async fn preview(
    args: &PruneArgs,
    policy: Option<&PolicyFile<'_>>,
    session: &mut Session,
    snapshot: &Snapshot,
    spokes: &SpokeClusters,
) -> Result<ExitCode> {
    let execution = &args.execution;
    session.print_warnings();
    if execution.planning.output == Format::Vap {
        let cluster = if execution.planning.snapshot.is_some() { None } else { Some(session.cluster().await?) };
        guard::ensure_supported(cluster.as_ref(), snapshot).await?;
    }
    let planned = plan_tree(args, policy, session, snapshot, spokes, &SharedWork::default()).await;
    // What the server said about manifests can show values of Secrets, which are known once there is a plan.
    let (plan, judged, secrets) = planned.inspect_err(|_| session.discard_warnings())?;
    session.print_masked_warnings(&[secrets]);
    if execution.planning.output == Format::Vap {
        guard::print_approving(&plan, snapshot, session).await?;
        session.terminal.status(&show::summary(&plan, false));
    } else {
        execution::show(&plan, execution, session)?;
    }
    if judged.is_ok() && policy::ensure_not_denied(&plan).is_ok() {
        review::write(&plan, None, execution, session).await?;
    }
    let flags = args.tree.handover_flags(session.connection.namespace.as_deref());
    conclude(&[(String::new(), &plan)], judged, execution, &flags, session)
}

/// Shows a plan that was written before, and ends as the command that made it.
pub(super) fn show_again(file: &Path, args: &ExecutionArgs, session: &mut Session) -> Result<ExitCode> {
    args.check()?;
    let plan = plan_file::read_document(file)?;
    execution::show(&plan, args, session)?;
    conclude(&[(String::new(), &plan)], Ok(()), args, "", session).map_err(|error| {
        let again = "give the flags to the command that makes the plan: --show changes nothing of it";
        Error { hint: error.hint.map(|hint| format!("{hint}\n      {again}")), ..error }
    })
}

/// Reports what is wrong with plans for controllers that were shown, each with the beginning of its messages, and
/// returns the exit code. `flags` are those of a `handover` of the same checkout.
fn conclude(
    plans: &[(String, &FinishedPlan)],
    judged: Result<()>,
    execution: &ExecutionArgs,
    flags: &str,
    session: &mut Session,
) -> Result<ExitCode> {
    let is_told = execution::is_told(execution, session);
    let exit = execution::report_gaps(plans.iter().map(|(_, plan)| *plan), execution, session);
    session.print_hints();
    let lossless = plans.iter().find_map(|(_, plan)| show::way_without_loss(plan, flags));
    if !plans.iter().any(|(_, plan)| execution::raises_alarm(plan)) {
        lossless.into_iter().for_each(|way| session.terminal.hint(&way));
        return judged.map(|()| exit);
    }
    if let Err(error) = judged {
        session.terminal.error(&error.message);
    }
    let lines = plans.iter().flat_map(|(place, plan)| {
        show::alarm_lines(plan, is_told).into_iter().map(move |line| format!("{place}{line}"))
    });
    let messages = lines.collect::<Vec<_>>().join("\n       ");
    let remedies = show::remedies(plans.iter().flat_map(|(_, plan)| plan.alarms())).to_string();
    let hints: Vec<String> = [remedies].into_iter().chain(lossless).collect();
    Err(Error::refused(messages).hint(hints.join("\n      ")))
}

/// Rejects connection flags that name another cluster than the one that was recorded.
async fn check_cluster_flags(session: &Session, snapshot: &Snapshot) -> Result<()> {
    let flags = &session.connection;
    if flags.context.is_none() && flags.cluster.is_none() && flags.server.is_none() && flags.kubeconfig.is_none() {
        return Ok(());
    }
    let named = session.cluster().await?.server;
    let recorded = &snapshot.cluster.server;
    if named.trim_end_matches('/') == recorded.trim_end_matches('/') {
        return Ok(());
    }
    let message = format!("the snapshot is of {}, and the flags name {named}", one_line(recorded));
    Err(Error::failed(message).hint("leave the connection flags out, or record that cluster"))
}
