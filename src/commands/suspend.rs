//! `suspend`: stops the reconciliation of objects and says why, without moving their generation.

use clap::Args;
use clap::builder::BoolishValueParser;

use super::Session;
use super::change::{ChangeArgs, DryRun};
use super::outcome::ChangeResult;
use crate::cluster::PatchResult;
use crate::error::Result;
use crate::exit::ExitCode;
use crate::output::{document, sanitize};
use gitops_core::flux::kinds::FluxKind;
use gitops_core::flux::suspension;
use gitops_core::flux::suspension::patch;
use gitops_core::flux::suspension::patch::{PatchStep, Suspend};
use gitops_core::flux::suspension::{ANNOTATION, By, message};
use gitops_core::kubernetes::object::Resource;

/// Stop reconciling objects of Flux, and say why
///
/// Sets the annotation reconcile.fluxcd.io/suspended, as Flux's RFC-0006 describes: its presence suspends, its value is
/// the message. The generation of the object does not move.
///
/// No released Flux controller honours this annotation yet. Use --spec to set spec.suspend in the same request, which
/// every controller honours and which moves the generation by one. ArtifactGenerator, ResourceSet and the other kinds of
/// flux-operator have a switch of their own that works; it is used for them, with the message beside it. Set
/// KUBECTL_GITOPS_ANNOTATION_HONOURED=true when the controllers of your clusters honour the annotation.
///
/// A message of somebody else is never replaced without --overwrite. The message is stored as it is, and escaped when it
/// is shown.
#[derive(Args, Debug)]
#[command(
    override_usage = "kubectl gitops suspend TYPE NAME… | TYPE/NAME… | [TYPE[,TYPE…]] {-l SELECTOR | --all} [OPTIONS]",
    after_long_help = "Examples:
  # Suspend a Kustomization, with a reason, so that today's controllers stop
  kubectl gitops suspend kustomization apps --spec -m \"drill until noon, see INC-42\"

  # By annotation alone: the generation does not move
  kubectl gitops suspend ks/apps hr/podinfo -m \"drill\"

  # Everything of Flux in a namespace, after a question
  kubectl gitops suspend --all -n shop --spec -m \"migration\"

  # What would be suspended
  kubectl gitops suspend ks,hr -A -l team=web --dry-run=client"
)]
pub struct SuspendArgs {
    /// Which objects, and how results are shown.
    #[command(flatten)]
    pub change: ChangeArgs,
    /// Why; stored in the annotation
    #[arg(short, long, value_name = "MESSAGE")]
    pub message: Option<String>,
    /// Set spec.suspend too, which moves the generation by one
    #[arg(long)]
    pub spec: bool,
    /// Replace another message
    #[arg(long)]
    pub overwrite: bool,
    /// Record your user name, as the API server knows it, in fluxcd.controlplane.io/suspendedBy
    #[arg(long)]
    pub record_user: bool,
    /// The controllers of this cluster honour the annotation
    #[arg(
        long,
        env = "KUBECTL_GITOPS_ANNOTATION_HONOURED",
        hide = true,
        value_parser = BoolishValueParser::new(),
        num_args = 0..=1,
        require_equals = true,
        default_value_t = false,
        default_missing_value = "true"
    )]
    pub annotation_honoured: bool,
}

/// Suspends.
///
/// # Errors
/// When the message cannot be stored, the objects cannot be found, or the question is not answered with yes.
pub async fn run(args: &SuspendArgs, session: &mut Session) -> Result<ExitCode> {
    args.change.check()?;
    args.message.as_deref().map_or(Ok(()), message::check)?;
    let cluster = session.cluster().await?;
    let mut picked = args.change.read(&cluster).await?;
    if picked.objects.is_empty() && picked.errors.is_empty() && picked.gaps.is_empty() {
        super::pick::nothing_found(session, args.change.namespace(&cluster));
        return Ok(ExitCode::Done);
    }
    let user = if args.record_user { Some(cluster.user_name().await?) } else { None };
    let how = Suspend { message: args.message.clone(), spec: args.spec, overwrite: args.overwrite, user };
    let changes = |full: &&Resource| matches!(patch::suspend(full, &how), PatchStep::Patch(_));
    let due: Vec<&Resource> = picked.objects.iter().map(|(_, full)| full).filter(changes).collect();
    due.iter().for_each(|full| warn(args, session, full));
    args.change.ask(session, &cluster, "suspend", &due, args.risk(&due).as_deref())?;
    let objects = std::mem::take(&mut picked.objects);
    let outcomes = args.change.apply(&cluster, objects, &|full| patch::suspend(full, &how)).await;
    let exit = args.change.report(session, "suspended", &outcomes, &picked)?;
    let verified = verify(args, session, &outcomes);
    session.print_warnings(&cluster);
    Ok(if verified || exit != ExitCode::Done { exit } else { ExitCode::Partial })
}

impl SuspendArgs {
    /// Whether an object is suspended by nothing that a released controller honours.
    fn annotation_only(&self, full: &Resource) -> bool {
        let switched = FluxKind::of(full).is_some_and(|kind| kind.switch().is_some());
        !self.annotation_honoured && !self.spec && !switched && !full.flag("/spec/suspend")
    }

    /// What deleting objects would still do although they are suspended (reference flux 0.5).
    fn risk(&self, due: &[&Resource]) -> Option<String> {
        let only = due.iter().filter(|full| self.annotation_only(full));
        let mut what: Vec<_> =
            only.filter_map(|full| Some((FluxKind::of(full)?.kind, FluxKind::of(full)?.deletion_of(full)?))).collect();
        what.sort_unstable();
        what.dedup();
        let each: Vec<_> = what.iter().map(|(kind, does)| format!("deleting a {kind} still {does}")).collect();
        (!each.is_empty())
            .then(|| format!("suspended by annotation only: {}; --spec would prevent that", each.join(", ")))
    }
}

/// What the user should know of one object before it is changed.
fn warn(args: &SuspendArgs, session: &mut Session, full: &Resource) {
    let name = document::name(&full.object.id);
    if full.object.deleting.is_some() {
        session.terminal.warning(&format!("{name} is being deleted: its finalizers run now, suspended or not"));
    }
    let part = if args.spec { By::Both } else { By::Annotation };
    if let Some(applier) = suspension::applier(full, part) {
        let applier = sanitize::one_line(applier);
        session.terminal.warning(&format!(
            "{applier} applies this part of {name} from Git: its next apply undoes this; change it in Git"
        ));
    }
}

/// Compares what the server made of each patch with what was asked, and says once what is not honoured.
fn verify(args: &SuspendArgs, session: &mut Session, outcomes: &[ChangeResult]) -> bool {
    let mut good = true;
    for outcome in outcomes {
        let PatchResult::Done { before, after, change } = &outcome.changed else { continue };
        if args.change.dry_run == DryRun::Client {
            continue;
        }
        let name = document::name(&outcome.id);
        let moved = after.object.generation - before.object.generation;
        if args.spec && change.generation == 1 && !after.flag("/spec/suspend") {
            session.terminal.error(&format!(
                "{name}: the server dropped spec.suspend, which this version of the kind does not have"
            ));
            good = false;
        } else if moved != change.generation {
            let (from, to) = (before.object.generation, after.object.generation);
            session.terminal.warning(&format!(
                "{name}: generation moved from {from} to {to}: something changed its spec with this request"
            ));
        }
        if after.object.annotations.get(ANNOTATION).is_none() {
            session.terminal.error(&format!("{name}: the server dropped the annotation {ANNOTATION}"));
            good = false;
        }
    }
    let after = outcomes.iter().filter_map(ChangeResult::after);
    if after.filter(|full| args.annotation_only(full)).count() > 0 {
        let warning =
            format!("no released Flux controller honours the annotation {ANNOTATION}: reconciliation goes on");
        session.terminal.warning(&warning);
        session.terminal.hint("--spec sets spec.suspend too; KUBECTL_GITOPS_ANNOTATION_HONOURED=true says that your controllers honour it");
    } else if args.spec
        && outcomes.iter().any(|one| matches!(&one.changed, PatchResult::Done { change, .. } if change.generation == 1))
    {
        session.terminal.status("spec.suspend was set: the generation moved by one");
    }
    good
}
