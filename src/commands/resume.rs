//! `resume`: ends suspensions, asks for a reconcile at once, and can wait for it.

use std::time::Duration;

use chrono::SecondsFormat;
use clap::Args;
use futures::future::join_all;

use super::Session;
use super::change::{ChangeArgs, DryRun};
use super::outcome::ChangeResult;
use crate::cluster::{Cluster, PatchResult};
use crate::error::{Error, Result};
use crate::exit::ExitCode;
use crate::output::{document, sanitize};
use gitops_core::flux::kinds::FluxKind;
use gitops_core::flux::suspension::patch;
use gitops_core::flux::suspension::patch::PatchStep;
use gitops_core::flux::suspension::resume_order;
use gitops_core::flux::suspension::wait::WaitProgress;
use gitops_core::kubernetes::object::{Resource, ResourceType};

/// End suspensions and reconcile at once
///
/// Removes the annotation reconcile.fluxcd.io/suspended, and asks for a reconcile in the same request. --spec clears
/// spec.suspend too. What still suspends an object afterwards is named, and the exit code is 5.
///
/// Sources are resumed before what uses them, and what others depend on before those. With --wait the command ends when
/// each object has been reconciled after this request and is ready, or when one fails.
#[derive(Args, Debug)]
#[command(
    override_usage = "kubectl gitops resume TYPE NAME… | TYPE/NAME… | [TYPE[,TYPE…]] {-l SELECTOR | --all} [OPTIONS]",
    after_long_help = "Examples:
  # Resume a Kustomization and wait until it is reconciled
  kubectl gitops resume kustomization apps --spec --wait

  # Everything of Flux in a namespace, sources first, after a question
  kubectl gitops resume --all -n shop --spec

  # What would be resumed
  kubectl gitops resume ks,hr -A -l team=web --dry-run=client"
)]
pub struct ResumeArgs {
    /// Which objects, and how results are shown.
    #[command(flatten)]
    pub change: ChangeArgs,
    /// Clear spec.suspend too, which moves the generation by one
    #[arg(long)]
    pub spec: bool,
    /// Wait until the objects are reconciled
    #[arg(long)]
    pub wait: bool,
    /// How long to wait at most, such as 30s or 5m
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = crate::cluster::config::args::request_timeout)]
    pub timeout: Duration,
}

/// Resumes.
///
/// # Errors
/// When the objects cannot be found, or the question is not answered with yes.
pub async fn run(args: &ResumeArgs, session: &mut Session) -> Result<ExitCode> {
    args.change.check()?;
    let cluster = session.cluster().await?;
    let mut picked = args.change.read(&cluster).await?;
    if picked.objects.is_empty() && picked.errors.is_empty() && picked.gaps.is_empty() {
        super::pick::nothing_found(session, args.change.namespace(&cluster));
        return Ok(ExitCode::Done);
    }
    let token = session.now.to_rfc3339_opts(SecondsFormat::Nanos, true);
    let decide = |full: &Resource| patch::resume(full, args.spec, &token);
    let changes = |full: &&Resource| matches!(decide(full), PatchStep::Patch(_));
    let due: Vec<&Resource> = picked.objects.iter().map(|(_, full)| full).filter(changes).collect();
    args.change.ask(session, &cluster, "resume", &due, None)?;
    let mut outcomes = vec![];
    for stage in staged(std::mem::take(&mut picked.objects)) {
        outcomes.extend(args.change.apply(&cluster, stage, &decide).await);
    }
    let mut exit = args.change.report(session, "resumed", &outcomes, &picked)?;
    if held(args, session, &outcomes) {
        exit = ExitCode::Partial;
    }
    if args.wait && args.change.dry_run == DryRun::None && !wait(args, session, &cluster, &outcomes, &token).await? {
        exit = ExitCode::Partial;
    }
    session.print_warnings(&cluster);
    Ok(exit)
}

/// The objects in stages: what others wait for comes first.
fn staged(objects: Vec<(ResourceType, Resource)>) -> Vec<Vec<(ResourceType, Resource)>> {
    let stages = resume_order::stages(&objects.iter().map(|(_, full)| full).collect::<Vec<_>>());
    let mut staged: Vec<Vec<_>> = vec![];
    for (stage, object) in stages.into_iter().zip(objects) {
        staged.resize_with(staged.len().max(stage + 1), Vec::new);
        staged[stage].push(object);
    }
    staged
}

/// Names what still suspends the objects; whether there is any.
fn held(args: &ResumeArgs, session: &mut Session, outcomes: &[ChangeResult]) -> bool {
    let mut any = false;
    for outcome in outcomes {
        let causes = match &outcome.changed {
            PatchResult::Done { before, after, .. } if args.change.dry_run != DryRun::Client => {
                patch::remaining(before, after)
            }
            PatchResult::Unchanged(full) => patch::remaining(full, full),
            _ => continue,
        };
        for cause in causes {
            any = true;
            let name = document::name(&outcome.id);
            session.terminal.warning(&format!("{name} is still suspended: {}", sanitize::one_line(&cause)));
        }
    }
    any
}

/// Waits for the objects that were resumed; whether all of them are ready.
async fn wait(
    args: &ResumeArgs,
    session: &mut Session,
    cluster: &Cluster,
    outcomes: &[ChangeResult],
    token: &str,
) -> Result<bool> {
    let mut waiting = vec![];
    for outcome in outcomes {
        let PatchResult::Done { before, after, .. } = &outcome.changed else { continue };
        if !patch::remaining(before, after).is_empty() {
            continue;
        }
        let name = document::name(&outcome.id);
        if FluxKind::of(after).is_some_and(|kind| kind.can_wait(after)) {
            session.terminal.status(&format!("waiting for {name}"));
            waiting.push(async move {
                (name, cluster.wait_until_reconciled(&outcome.kind, &outcome.id, token, args.timeout).await)
            });
        } else {
            session.terminal.status(&format!("{name} has no status to wait for"));
        }
    }
    let mut good = true;
    for (name, end) in join_all(waiting).await {
        let trouble = match end {
            Ok(WaitProgress::Ready(said)) => {
                session.terminal.data(&format!("{name} reconciled\n"))?;
                session.terminal.status(&format!("{name}: {}", sanitize::one_line(&said)));
                continue;
            }
            Ok(WaitProgress::Pending(said)) => format!("not reconciled within {:?}: {said}", args.timeout),
            Ok(WaitProgress::Failed(said)) => format!("reconciliation failed: {said}"),
            Ok(WaitProgress::Superseded(why)) => format!("waiting has no end: {why}"),
            Err(failure) => Error::from(failure).message,
        };
        good = false;
        session.terminal.error(&format!("{name}: {}", sanitize::one_line(&trouble)));
    }
    Ok(good)
}
