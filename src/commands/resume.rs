//! `resume`: ends suspensions, requests a reconciliation, and can wait for it.

use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use clap::Args;
use futures::future::join_all;

use super::change::{ChangeArgs, ChangeResult, Verb};
use super::{Session, select};
use crate::cluster::{Cluster, DryRun, PatchResult};
use crate::error::{Error, Result};
use crate::exit::ExitCode;
use crate::output::document;
use gitops_core::flux::kinds::FluxKind;

use gitops_core::flux::suspension::patch::{PatchDecision, RemainingCause, remaining_causes, resume};
use gitops_core::flux::suspension::resume_order;
use gitops_core::flux::suspension::wait::WaitProgress;
use gitops_core::flux::suspension::{Mechanism, is_expired};
use gitops_core::kubernetes::object::{Resource, ResourceType};

/// End suspensions and reconcile at once
///
/// Removes the annotation reconcile.fluxcd.io/suspended and requests a reconciliation in the same request. --spec clears
/// spec.suspend too. If an object is still suspended afterwards, the reason is printed and the exit code is 5.
///
/// Sources are resumed before the objects that use them, and dependencies before the objects that depend on them. With
/// --wait, the command ends when each object was reconciled after this request and is ready, or when one fails.
#[derive(Args, Clone, Debug)]
#[command(
    override_usage = "kubectl gitops resume {TYPE NAME... | TYPE/NAME...} [OPTIONS]\n       kubectl gitops resume [TYPE,...] {-l SELECTOR | --all} [OPTIONS]",
    after_long_help = "Examples:
  # Resume a Kustomization and wait until it is reconciled
  kubectl gitops resume kustomization apps --spec --wait

  # Resume all Flux objects of a namespace, sources first, after confirmation
  kubectl gitops resume --all -n shop --spec

  # Resume everything whose time is over, as a CronJob does
  kubectl gitops resume --expired -A --spec --yes

  # Show what would be resumed
  kubectl gitops resume ks,hr -A -l team=web --dry-run=client"
)]
pub struct ResumeArgs {
    #[command(flatten)]
    pub change: ChangeArgs,
    /// Clear spec.suspend too, which moves the generation by one
    #[arg(long)]
    pub spec: bool,
    /// Resume only objects whose suspension has ended (suspend --for); without names, all of them
    #[arg(long)]
    pub expired: bool,
    /// Wait until the objects are reconciled
    #[arg(long)]
    pub wait: bool,
    /// Time limit of --wait, such as 30s or 5m
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = crate::cluster::config::args::request_timeout)]
    pub timeout: Duration,
}

/// Resumes the objects that the arguments name or select.
pub async fn run(args: &ResumeArgs, session: &mut Session) -> Result<ExitCode> {
    let mut change = args.change.clone();
    // An end of the suspension selects objects as --all does; also TYPE alone.
    change.all |= args.expired && !change.is_selection() && !change.is_named();
    change.check()?;
    let args = &ResumeArgs { change, ..args.clone() };
    let cluster = session.cluster().await?;
    let mut selected = args.change.read(&cluster).await?;
    let now = session.now;
    if args.expired {
        selected.objects.retain(|(_, full)| is_expired(full, now));
        if selected.is_empty() {
            session.terminal.status("no suspension has ended");
            return Ok(ExitCode::Done);
        }
    }
    if selected.is_empty() {
        select::print_no_resources(session, args.change.namespace(&cluster));
        return Ok(ExitCode::Done);
    }
    let token = session.now.to_rfc3339_opts(SecondsFormat::Nanos, true);
    let mut changing: Vec<&Resource> = selected.objects.iter().map(|(_, full)| full).collect();
    changing.retain(|full| matches!(decide(args, full, now, &token), PatchDecision::Patch(_)));
    args.change.confirm(session, &cluster, Verb::Resume, &changing)?;
    let mut results = vec![];
    for stage in split_into_stages(std::mem::take(&mut selected.objects)) {
        results.extend(args.change.apply(&cluster, stage, &|full| decide(args, full, now, &token)).await);
    }
    let mut exit = args.change.report(session, Verb::Resume, &results, &selected)?;
    if print_remaining_causes(args, session, &results) {
        exit = ExitCode::Partial;
    }
    if args.wait && args.change.dry_run == DryRun::None && !wait(args, session, &cluster, &results, &token).await? {
        exit = ExitCode::Partial;
    }
    Ok(exit)
}

/// Decides about an object, which is read again after a conflict: its suspension may have been prolonged in the meantime.
fn decide(args: &ResumeArgs, full: &Resource, now: DateTime<Utc>, token: &str) -> PatchDecision {
    if args.expired && !is_expired(full, now) {
        return PatchDecision::Unchanged;
    }
    resume(full, args.spec, token)
}

/// Splits objects into stages. Each stage depends on earlier stages only.
fn split_into_stages(objects: Vec<(ResourceType, Resource)>) -> Vec<Vec<(ResourceType, Resource)>> {
    let numbers = resume_order::stages(&objects.iter().map(|(_, full)| full).collect::<Vec<_>>());
    let mut stages: Vec<Vec<_>> = vec![];
    for (number, object) in numbers.into_iter().zip(objects) {
        stages.resize_with(stages.len().max(number + 1), Vec::new);
        stages[number].push(object);
    }
    stages
}

/// Prints the reasons why objects are still suspended. Returns true if there are any.
fn print_remaining_causes(args: &ResumeArgs, session: &mut Session, results: &[ChangeResult]) -> bool {
    let mut any = false;
    for result in results {
        let causes = match &result.result {
            PatchResult::Done { before, after, .. } if args.change.dry_run != DryRun::Client => {
                remaining_causes(before, after)
            }
            PatchResult::Unchanged(full) => remaining_causes(full, full),
            _ => continue,
        };
        for cause in causes {
            any = true;
            let advice = match cause {
                RemainingCause::Suspended(Mechanism::Spec) => "; clear it with --spec",
                _ => "",
            };
            let name = document::name(&result.id);
            session.terminal.warning(&format!("{name} is still suspended: {cause}{advice}"));
        }
    }
    any
}

/// Waits for the resumed objects. Returns true if all are ready.
async fn wait(
    args: &ResumeArgs,
    session: &mut Session,
    cluster: &Cluster,
    results: &[ChangeResult],
    token: &str,
) -> Result<bool> {
    let mut waiting = vec![];
    for result in results {
        let PatchResult::Done { before, after, .. } = &result.result else { continue };
        if !remaining_causes(before, after).is_empty() {
            continue;
        }
        let name = document::name(&result.id);
        if FluxKind::of(after).is_some_and(|kind| kind.can_wait(after)) {
            session.terminal.status(&format!("waiting for {name}"));
            waiting.push(async move {
                (name, cluster.wait_until_reconciled(&result.kind, &result.id, token, args.timeout).await)
            });
        } else {
            session.terminal.status(&format!("{name} has no status to wait for"));
        }
    }
    let mut all_ready = true;
    for (name, progress) in join_all(waiting).await {
        let error = match progress {
            Ok(WaitProgress::Ready(message)) => {
                session.terminal.raw(&format!("{name} reconciled\n"))?;
                session.terminal.status(&format!("{name}: {message}"));
                continue;
            }
            Ok(WaitProgress::Pending(message)) => format!("not reconciled within {:?}: {message}", args.timeout),
            Ok(WaitProgress::Failed(message)) => format!("reconciliation failed: {message}"),
            Ok(WaitProgress::Superseded(reason)) => format!("stopped waiting: {reason}"),
            Err(failure) => Error::from(failure).message,
        };
        all_ready = false;
        session.terminal.error(&format!("{name}: {error}"));
    }
    Ok(all_ready)
}
