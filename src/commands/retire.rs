//! `retire`: steps that remove owners with everything that they have, in an order in which nothing is stuck.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::acts::{Act, Awaited, kubectl_name, shows_hold};
use super::handover::{report, write};
use super::prune::args::grave_kind;
use super::prune::preflight::confirm;
use super::prune::tree::{CheckoutOptions, FoundStep, Removal, TreeArgs, TreeOptions, find_retirement};
use super::{Session, owners};
use crate::cluster::Cluster;
use crate::cluster::config::args::request_timeout;
use crate::error::{Error, Result};
use crate::exit::ExitCode;
use crate::output::format::{self, Format, Render};
use gitops_core::flux::handover::HandoverStep;
use gitops_core::flux::handover::patch::Hold;
use gitops_core::flux::retire::Retirement;
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::index::Index;
use gitops_core::plan::grave::GraveKind;
use gitops_core::text::{join_limited, pluralize};

/// Number of objects that a message names.
const NAMED: usize = 5;

/// Consequence of a cancelled question, for people.
const UNDONE: &str = "nothing of this step was done";

/// Show steps that remove owners with everything they have
///
/// Finds an order in which nothing is stuck: custom resources while their controller runs, definitions after them, owners
/// after what they own, namespaces last. Each step is a patch for Git or a command, with its plan, which judges it in every
/// order of events. Changes nothing without --apply. Refuses, with the object and the rule, where no order exists.
#[derive(Debug, Args)]
#[command(
    override_usage = "kubectl gitops retire OWNER... [OPTIONS]",
    after_help = "Examples:
  # Show how to remove an application
  kubectl gitops retire kustomization/web
  # Let the data of its claims go
  kubectl gitops retire kustomization/web --allow volumes
  # Write the patches of the steps
  kubectl gitops retire namespace/web --write patches/",
    after_long_help = "Examples:
  # Show how to remove an application
  kubectl gitops retire kustomization/web

  # Let the data of its claims go
  kubectl gitops retire kustomization/web --allow volumes

  # Remove a tenant, and write the patches of the steps
  kubectl gitops retire namespace/web --write steps/"
)]
pub struct RetireArgs {
    /// Owners, as KIND/NAME or NAMESPACE/KIND/NAME, or namespaces, as namespace/NAME
    #[arg(value_name = "OWNER", required = true)]
    pub owners: Vec<String>,
    /// Checkout of what is deployed; the current directory when absent
    #[arg(long, value_name = "DIR")]
    pub repo: Option<PathBuf>,
    /// Write the patches of the steps to DIR
    #[arg(long, value_name = "DIR")]
    pub write: Option<PathBuf>,
    /// Confirm that data of volumes, or content of namespaces or crds that no owner has, goes
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_parser = grave_kind)]
    pub allow: Vec<GraveKind>,
    /// Finalizer that something outside of the cluster removes
    #[arg(long, value_name = "FINALIZER", value_delimiter = ',')]
    pub served: Vec<String>,
    /// Carry out the steps: run their commands, and wait for Flux after each patch that you commit
    #[arg(long, conflicts_with = "snapshot")]
    pub apply: bool,
    /// Run the commands of all steps without asking
    #[arg(long, requires = "apply")]
    pub yes: bool,
    /// Time for each step of --apply
    #[arg(long, value_name = "DURATION", default_value = "30m", hide_short_help = true, requires = "apply", value_parser = request_timeout)]
    pub timeout: Duration,
    /// Read the cluster from FILE, which `snapshot` wrote
    #[arg(long, value_name = "FILE")]
    pub snapshot: Option<PathBuf>,
    #[command(flatten)]
    pub checkout: CheckoutOptions,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = format::parser(Retirement::PARTS))]
    pub output: Format,
}

/// Finds and shows the steps, and carries them out if that is asked for.
pub async fn run(args: &RetireArgs, session: &mut Session) -> Result<ExitCode> {
    args.owners.iter().try_for_each(|text| owners::parse(text).map(drop))?;
    let snapshot = session.snapshot(args.snapshot.as_deref()).await?;
    let targets = targets(args, session, &snapshot)?;
    let removal = plan(args, &targets, session, &snapshot).await?;
    let document = &removal.document;
    session.terminal.raw(&args.output.render(document, session.terminal.look(true))?)?;
    ensure_confirmed(args, document, &removal.strangers)?;
    if let Some(directory) = &args.write {
        write(&document.steps, directory, session)?;
    }
    let exit = report(&document.steps, session);
    if !args.apply {
        return Ok(exit);
    }
    if exit != ExitCode::Done {
        return Err(Error::refused("no step was taken: a plan is incomplete")
            .hint("get the missing rights, or take the steps by hand"));
    }
    apply(args, targets, (removal, snapshot), session).await
}

/// The steps that remove what is left.
struct PlannedRemoval {
    document: Retirement,
    acts: Vec<Vec<Act>>,
    awaited: Vec<Awaited>,
    /// Objects that nobody manages and that go all the same, with what takes them along.
    strangers: Vec<(ObjectId, ObjectId)>,
}

/// Plans the removal of what is left.
async fn plan(
    args: &RetireArgs,
    targets: &BTreeSet<ObjectId>,
    session: &mut Session,
    snapshot: &Snapshot,
) -> Result<PlannedRemoval> {
    let removal = Removal { targets: targets.clone(), served: args.served.iter().cloned().collect() };
    let options = TreeOptions { checkout: args.checkout.clone(), offline: true, ..TreeOptions::default() };
    let tree = TreeArgs::of_checkout(args.repo.clone(), options);
    let found = find_retirement(&tree, &removal, session, snapshot, args.snapshot.is_some()).await;
    let found = found.inspect_err(|_| session.discard_warnings())?;
    let (mut steps, mut data, mut strangers, mut secrets) = (vec![], vec![], vec![], vec![]);
    let (mut all_acts, mut awaited) = (vec![], vec![]);
    for (number, step) in (1..).zip(found.steps) {
        session.print_masked_warnings(std::slice::from_ref(&step.secrets));
        data.extend(step.data.iter().cloned());
        strangers.extend(step.strangers.iter().cloned());
        secrets.push(step.secrets.clone());
        awaited.push(awaited_by(&step));
        let acts = acts(&step);
        steps.push(proposed(number, step, &acts));
        all_acts.push(acts);
    }
    let document = Retirement::new(&found.order, data, steps, (snapshot, &found.last), &secrets);
    Ok(PlannedRemoval { document, acts: all_acts, awaited, strangers })
}

/// Carries out the steps one after the other. Git is the user's: a step with patches waits until Flux has applied them. Each step is
/// planned again on the cluster as it is then.
async fn apply(
    args: &RetireArgs,
    mut targets: BTreeSet<ObjectId>,
    first: (PlannedRemoval, Snapshot),
    session: &mut Session,
) -> Result<ExitCode> {
    let cluster = session.cluster().await?;
    let shown: Vec<BTreeSet<ObjectId>> = first.0.document.steps.iter().map(deleted).collect();
    let total = shown.len();
    let (mut now, mut snapshot) = first;
    for (number, expected) in (1..).zip(&shown) {
        if targets.is_empty() {
            break;
        }
        if number > 1 {
            now = plan(args, &targets, session, &snapshot).await?;
            let Some(next) = now.document.steps.first() else { break };
            ensure_holds(number, expected, &deleted(next))?;
            ensure_confirmed(args, &now.document, &now.strangers)?;
        }
        take_step(args, (number, total), (&now, &snapshot), &cluster, session).await.map_err(|error| {
            let left: Vec<String> = targets.iter().map(owner_word).collect();
            let taken = pluralize(number - 1, "step");
            let message = format!("step {number} of {total}: {}; {taken} before it done", error.message);
            let go_on = format!("`kubectl gitops retire {} --apply` goes on with what is left", left.join(" "));
            Error { message, hint: Some(error.hint.map_or(go_on.clone(), |hint| format!("{hint}; {go_on}"))), ..error }
        })?;
        snapshot = session.snapshot(None).await?;
        targets.retain(|id| snapshot.object(id).is_some());
    }
    if let Some(left) = targets.first() {
        return Err(Error::failed(format!("{left} is still there after the last step")));
    }
    session.terminal.status("everything is removed");
    Ok(ExitCode::Done)
}

/// Takes the first of the steps that are left.
async fn take_step(
    args: &RetireArgs,
    (number, total): (usize, usize),
    (planned, snapshot): (&PlannedRemoval, &Snapshot),
    cluster: &Cluster,
    session: &mut Session,
) -> Result<()> {
    let step = &planned.document.steps[0];
    session.terminal.status(&format!("step {number} of {total}: {}", step.title));
    if !step.patches.is_empty() {
        let files: Vec<&str> = step.patches.iter().map(|patch| &*patch.file).collect();
        let text =
            format!("commit the patch of {} and push it; this waits until Flux has applied it", files.join(", "));
        session.terminal.status(&text);
    }
    let mut say = |missing: &str| session.terminal.status(&format!("waiting for {missing}"));
    let (by_hand, by_git) = planned.awaited[0].split(|id| planned.acts[0].iter().any(|act| act.object() == id));
    if !step.patches.is_empty() {
        by_git.wait(cluster, snapshot, args.timeout, &mut say).await?;
    }
    if step.plan.deletions().next().is_some() && !planned.acts[0].is_empty() {
        confirm(cluster, &step.plan, None, args.yes, session).await?;
    } else if !planned.acts[0].is_empty() {
        confirm_settings(&planned.acts[0], args.yes, session)?;
    }
    for act in &planned.acts[0] {
        act.carry_out(cluster, snapshot).await?;
        session.terminal.status(&act.command());
    }
    let mut say = |missing: &str| session.terminal.status(&format!("waiting for {missing}"));
    by_hand.wait(cluster, snapshot, args.timeout, &mut say).await
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

/// Returns the objects that a step deletes.
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

/// Returns an owner or a namespace as the command line names it.
fn owner_word(id: &ObjectId) -> String {
    let name = format!("{}/{}", id.kind.to_lowercase(), id.name);
    if id.namespace.is_empty() { name } else { format!("{}/{name}", id.namespace) }
}

/// Finds the objects of the owners and namespaces that are named.
fn targets(args: &RetireArgs, session: &Session, snapshot: &Snapshot) -> Result<BTreeSet<ObjectId>> {
    let index = Index::build(snapshot);
    let mut targets = BTreeSet::new();
    for text in &args.owners {
        let (kind, name) = owners::parse(text)?;
        if ["namespace", "namespaces", "ns"].contains(&&*kind.to_lowercase()) && !name.contains('/') {
            let id = ObjectId::new("", "Namespace", "", name);
            if snapshot.object(&id).is_none() {
                return Err(Error::failed(format!("no namespace {name:?} in this cluster")));
            }
            targets.insert(id);
            continue;
        }
        let owner = owners::find(text, session.connection.namespace.as_deref(), &index)?;
        let object = index.owner(&owner).and_then(|owner| owner.object);
        let Some(object) = object.filter(|_| owner.system == "flux") else {
            return Err(Error::usage(format!(
                "{owner} belongs to {}, and retire removes owners of Flux",
                owner.system
            ))
            .hint("name a Kustomization, a HelmRelease, a ResourceSet or a namespace"));
        };
        targets.insert(object.id.clone());
    }
    Ok(targets)
}

/// Refuses steps by which data goes, or what somebody else has, unless that is confirmed.
fn ensure_confirmed(args: &RetireArgs, retirement: &Retirement, strangers: &[(ObjectId, ObjectId)]) -> Result<()> {
    let claims: Vec<&ObjectId> =
        retirement.data.iter().filter(|fate| fate.loses_data).map(|fate| &fate.claim).collect();
    if !claims.is_empty() && !args.allow.contains(&GraveKind::Volumes) {
        let message = format!("the steps delete the data of {}", join_limited(&claims, NAMED));
        return Err(
            Error::refused(message).hint("take a snapshot of what you need, and confirm it with `--allow volumes`")
        );
    }
    for kind in [GraveKind::Namespaces, GraveKind::Crds] {
        let others = strangers.iter().filter(|(_, cause)| GraveKind::of(cause) == Some(kind));
        let others: Vec<&ObjectId> = others.map(|(object, _)| object).collect();
        if !others.is_empty() && !args.allow.contains(&kind) {
            let message = format!("the steps delete objects that no owner manages: {}", join_limited(&others, NAMED));
            let hint = format!("move what you need, and confirm it with `--allow {}`", kind.name());
            return Err(Error::refused(message).hint(hint));
        }
    }
    Ok(())
}

/// Returns what a step does in the cluster.
fn acts(step: &FoundStep) -> Vec<Act> {
    let sets = step.prepares.iter().map(|id| Act::Set(id.clone(), Hold::Delete));
    sets.chain(step.by_hand.iter().map(|id| Act::Delete(id.clone()))).collect()
}

/// Returns what a step waits for: the objects that it removes, and those that a finalizer keeps for a while.
fn awaited_by(step: &FoundStep) -> Awaited {
    let live = |id: &ObjectId| Some((id.clone(), step.before.object(id)?.uid.clone()));
    let held = step.plan.deletions().map(|change| &change.object.id);
    let held = held.filter(|id| step.before.object(id).is_some_and(|object| !object.finalizers.is_empty()));
    let set = if step.removes.is_empty() { &step.keeping } else { &BTreeSet::new() };
    Awaited {
        gone: step.removes.iter().chain(held).filter_map(live).collect(),
        set: set.iter().map(|id| (id.clone(), Hold::Delete)).collect(),
    }
}

/// Returns a step as it is shown.
fn proposed(number: usize, step: FoundStep, acts: &[Act]) -> HandoverStep {
    let awaited = awaited_by(&step);
    let FoundStep { patches, removes, by_hand, plan, .. } = step;
    let commands: Vec<String> = acts.iter().map(Act::command).collect();
    let purpose = if removes.is_empty() { "let the owners delete their objects".to_owned() } else { removed(&removes) };
    let what = match (patches.is_empty(), commands.is_empty()) {
        (false, true) => "commit this to the branch that is deployed, and wait until Flux has applied it",
        (false, false) => "commit this, wait until Flux has applied it, and run the commands",
        (true, false) => "run the commands",
        (true, true) => "nothing is to do",
    };
    let gone = awaited.gone.keys().map(|id| format!("kubectl wait --for=delete {} --timeout=10m", kubectl_name(id)));
    let done_when: Vec<String> = gone.chain(awaited.set.iter().map(|(id, hold)| shows_hold(id, *hold))).collect();
    let way_back = match (removes.is_empty(), by_hand.is_empty()) {
        (true, _) => "revert the commit: nothing is deleted yet",
        (false, true) => {
            "revert the commit: Flux creates the objects again, without uids, data and addresses that they had"
        }
        (false, false) => {
            "apply the manifests of what the commands delete again; uids, data and addresses do not come back"
        }
    };
    HandoverStep {
        number,
        title: format!("{purpose}: {what}"),
        patches,
        commands,
        notes: vec![],
        plan,
        done_when,
        way_back: way_back.to_owned(),
    }
}

fn removed(removes: &BTreeSet<ObjectId>) -> String {
    let name = |id: &ObjectId| {
        let id = id.shown();
        let place = if id.namespace.is_empty() { String::new() } else { format!(" -n {}", id.namespace) };
        format!("{}/{}{place}", id.kind.to_lowercase(), id.name)
    };
    format!("remove {}", join_limited(removes.iter().map(name).collect::<Vec<_>>(), NAMED))
}
