//! `retire`: steps that remove owners with everything that they have, in an order in which nothing is stuck.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::Args;

use super::acts::{Act, Awaited};
use super::apply::{NextStep, StepArgs, Steps, carry_out};
use super::handover::{DEPLOYED, report, write};
use crate::commands::prune::args::grave_kind;
use crate::commands::prune::tree::{FoundStep, Removal, TreeArgs, TreeOptions, find_retirement};
use crate::commands::{Session, owners};
use crate::error::{Error, Result};
use crate::exit::ExitCode;
use crate::output::format::{self, Format, Render};
use crate::output::steps::kubectl::{shows_hold, waits_for_deletion};
use crate::suggest::nearest;
use gitops_core::flux::handover::HandoverStep;
use gitops_core::flux::handover::patch::Hold;
use gitops_core::flux::retire::Retirement;
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::index::Index;
use gitops_core::plan::grave::GraveKind;
use gitops_core::text::{join_limited, shell_word};

/// Number of objects that a message names.
const NAMED: usize = 5;

/// Show steps that remove owners with everything they have
///
/// Finds an order in which nothing is stuck: custom resources while their controller runs, definitions after them, owners
/// after what they own, namespaces last. Each step is a patch for Git or a command, with its plan, which judges it in every
/// order of events. Changes nothing without --apply. Refuses, with the object and the rule, where no order exists.
#[derive(Debug, Args)]
#[command(
    override_usage = "kubectl gitops retire [OPTIONS] OWNER...",
    after_help = "Examples:
  # Show how to remove an application
  kubectl gitops retire -n flux-system kustomization/web
  # Let the data of its claims go
  kubectl gitops retire --allow volumes kustomization/web
  # Write the patches of the steps
  kubectl gitops retire --write patches/ namespace/web",
    after_long_help = "Examples:
  # Show how to remove an application
  kubectl gitops retire -n flux-system kustomization/web

  # Let the data of its claims go
  kubectl gitops retire --allow volumes kustomization/web

  # Remove a tenant, and write the patches of the steps
  kubectl gitops retire --write steps/ namespace/web"
)]
pub struct RetireArgs {
    /// Owners, as KIND/NAME, KIND NAME or NAMESPACE/KIND/NAME, or namespaces, as namespace/NAME
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
    #[command(flatten)]
    pub steps: StepArgs,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = format::parser(Retirement::PARTS))]
    pub output: Format,
}

/// Finds and shows the steps, and carries them out if that is asked for.
pub async fn run(args: &RetireArgs, session: &mut Session) -> Result<ExitCode> {
    owners::named(&args.owners)?;
    let snapshot = args.steps.read(session).await?;
    let targets = targets(args, session, &snapshot)?;
    let removal = plan(args, &targets, session, &snapshot).await?;
    let document = &removal.document;
    session.terminal.raw(&args.output.render(document, session.terminal.look(true))?)?;
    ensure_confirmed(args, document, &removal.strangers)?;
    if let Some(directory) = &args.write {
        let steps = document.steps.iter().map(|step| (step, DEPLOYED.to_owned()));
        write(steps, directory, &removal.folder, session)?;
    }
    let exit = report(&document.steps, session);
    if !args.steps.apply {
        return Ok(exit);
    }
    let mut removing = Removing {
        args,
        targets,
        removed: removed_by(&document.steps, &snapshot),
        left_over: document.left_over.clone(),
    };
    carry_out(&args.steps, &mut removing, (removal.next_steps(), snapshot), exit, session).await
}

/// The steps that remove what is left.
struct PlannedRemoval {
    /// Directory of the files.
    folder: PathBuf,
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
    let options = TreeOptions {
        checkout: args.steps.checkout.clone(),
        offline: true,
        is_of_steps: true,
        ..TreeOptions::default()
    };
    let tree = TreeArgs::of_checkout(args.repo.clone(), options);
    let found = find_retirement(&tree, &removal, session, snapshot, args.steps.snapshot.is_some())
        .await
        .inspect_err(|_| session.discard_warnings())?;
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
    Ok(PlannedRemoval { folder: found.folder, document, acts: all_acts, awaited, strangers })
}

impl PlannedRemoval {
    fn next_steps(self) -> Vec<NextStep> {
        let steps = self.document.steps.into_iter().zip(self.acts).zip(self.awaited);
        steps.map(|((step, acts), awaited)| NextStep { step, acts, awaited, commit: None }).collect()
    }
}

/// A removal that is carried out, with the targets that are left.
struct Removing<'a> {
    args: &'a RetireArgs,
    targets: BTreeSet<ObjectId>,
    /// Objects that the steps delete, with their uids.
    removed: BTreeMap<ObjectId, Box<str>>,
    /// Objects that were said to stay.
    left_over: Vec<ObjectId>,
}

impl Steps for Removing<'_> {
    fn take_one(&mut self) {}

    async fn left(&mut self, snapshot: &Snapshot, session: &mut Session) -> Result<Vec<NextStep>> {
        self.targets.retain(|id| snapshot.object(id).is_some());
        if self.targets.is_empty() {
            return Ok(vec![]);
        }
        let now = plan(self.args, &self.targets, session, snapshot).await?;
        if !now.document.steps.is_empty() {
            ensure_confirmed(self.args, &now.document, &now.strangers)?;
        }
        Ok(now.next_steps())
    }

    fn command(&self) -> String {
        let left: Vec<String> = self.targets.iter().map(|id| shell_word(&owner_word(id))).collect();
        let allow = self.args.allow.iter().map(|kind| format!(" --allow {}", kind.name()));
        let served = self.args.served.iter().map(|finalizer| format!(" --served {}", shell_word(finalizer)));
        let confirmed: String = allow.chain(served).collect();
        let flags = self.args.steps.checkout.flags(self.args.repo.as_deref());
        // A flag comes first: without one, kubectl takes a word with a slash for the path of a program.
        format!("kubectl gitops retire --apply{confirmed}{flags} {}", left.join(" "))
    }

    fn end(&self, snapshot: &Snapshot) -> Result<String> {
        let there = self.removed.iter().filter(|(id, uid)| snapshot.object(id).is_some_and(|live| live.uid == **uid));
        let left: Vec<&ObjectId> = there.map(|(id, _)| id).filter(|id| !self.left_over.contains(id)).collect();
        if !left.is_empty() {
            let message = format!("still there after the last step: {}", join_limited(&left, NAMED));
            return Err(Error::failed(message).hint("`kubectl gitops inventory --why TYPE/NAME` says what manages one"));
        }
        let over: Vec<&ObjectId> = self.left_over.iter().filter(|id| snapshot.object(id).is_some()).collect();
        Ok(if over.is_empty() {
            "everything is removed".to_owned()
        } else {
            format!("the owners are removed; left over, and nothing deletes it: {}", join_limited(&over, NAMED))
        })
    }
}

/// Returns the objects that steps delete, with their uids.
fn removed_by(steps: &[HandoverStep], snapshot: &Snapshot) -> BTreeMap<ObjectId, Box<str>> {
    let deletions = steps.iter().flat_map(|step| step.plan.deletions());
    deletions.filter_map(|row| Some((row.object.id.clone(), snapshot.object(&row.object.id)?.uid.clone()))).collect()
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
    for text in &owners::named(&args.owners)? {
        let (kind, name) = owners::parse(text)?;
        if owners::is_namespace(kind) && !name.contains('/') {
            let id = ObjectId::new("", "Namespace", "", name);
            if snapshot.object(&id).is_none() {
                return Err(no_namespace(name, snapshot));
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

/// Returns the error for a namespace that does not exist; the hint has the nearest one.
fn no_namespace(name: &str, snapshot: &Snapshot) -> Error {
    let all: Vec<&str> = snapshot.ids().filter(|id| id.is("", "Namespace")).map(|id| &*id.name).collect();
    let error = Error::failed(format!("no namespace {name:?} in this cluster"));
    match nearest(name, all.iter().copied()) {
        Some(near) => error.hint(format!("did you mean namespace/{near}?")),
        None => error.hint(format!("there is {}", join_limited(all, NAMED))),
    }
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
        let others: Vec<&ObjectId> = strangers
            .iter()
            .filter(|(_, cause)| GraveKind::of(cause) == Some(kind))
            .map(|(object, _)| object)
            .collect();
        if !others.is_empty() && !args.allow.contains(&kind) {
            let message = format!(
                "the steps delete objects that no owner manages, or that are marked to stay: {}",
                join_limited(&others, NAMED)
            );
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
///
/// The finalizer of a namespace is in its spec.
fn awaited_by(step: &FoundStep) -> Awaited {
    let held = step.plan.deletions().map(|change| &change.object.id).filter(|id| {
        let has_finalizer = step.before.object(id).is_some_and(|object| !object.finalizers.is_empty());
        has_finalizer || GraveKind::of(id) == Some(GraveKind::Namespaces)
    });
    let awaited = step.removes.iter().chain(held);
    let set = if step.removes.is_empty() { &step.keeping } else { &BTreeSet::new() };
    Awaited {
        gone: awaited.filter_map(|id| Some((id.clone(), step.before.object(id)?.uid.clone()))).collect(),
        set: set.iter().map(|id| (id.clone(), Hold::Delete)).collect(),
        ..Awaited::default()
    }
}

/// Returns a step as it is shown.
fn proposed(number: usize, step: FoundStep, acts: &[Act]) -> HandoverStep {
    let awaited = awaited_by(&step);
    let FoundStep { patches, removes, notes, plan, .. } = step;
    let commands: Vec<String> = acts.iter().map(Act::command).collect();
    let purpose = if removes.is_empty() { "let the owners delete their objects".to_owned() } else { removed(&removes) };
    let what = match (patches.is_empty(), commands.is_empty()) {
        (false, true) => "commit this to the branch that is deployed, and wait until Flux has applied it",
        (false, false) => "commit this, wait until Flux has applied it, and run the commands",
        (true, false) => "run the commands",
        (true, true) => "nothing is to do",
    };
    let set = awaited.set.iter().map(|(id, hold)| shows_hold(id, *hold));
    let done_when = waits_for_deletion(awaited.gone.keys()).into_iter().chain(set).collect();
    let way_back = way_back(removes.is_empty(), !patches.is_empty(), !commands.is_empty());
    HandoverStep {
        number,
        title: format!("{purpose}: {what}"),
        patches,
        commands,
        notes,
        plan,
        done_when,
        way_back: way_back.to_owned(),
    }
}

/// Returns how to go back after a step that only prepares owners, or that removes something: by a commit, by commands, or by both.
fn way_back(prepares: bool, has_patches: bool, has_commands: bool) -> &'static str {
    match (prepares, has_patches, has_commands) {
        (true, _, false) => "revert the commit: nothing is deleted yet",
        (true, false, true) => "give the owners the `deletionPolicy` that they had: nothing is deleted yet",
        (true, true, true) => {
            "revert the commit, and give the owners of the commands the `deletionPolicy` that they had: nothing is deleted yet"
        }
        (false, _, false) => {
            "revert the commit: Flux creates the objects again, without uids, data and addresses that they had"
        }
        (false, false, true) => {
            "apply the manifests of what the commands delete again; uids, data and addresses do not come back"
        }
        (false, true, true) => {
            "revert the commit, and apply the manifests of what the commands delete and Git does not have; uids, data and addresses do \
             not come back"
        }
    }
}

fn removed(removes: &BTreeSet<ObjectId>) -> String {
    let names = removes.iter().map(ObjectId::shown).map(|id| {
        let place = if id.namespace.is_empty() { String::new() } else { format!(" -n {}", id.namespace) };
        format!("{}/{}{place}", id.kind.to_lowercase(), id.name)
    });
    format!("remove {}", join_limited(names, NAMED))
}

#[cfg(test)]
mod tests {
    use super::way_back;

    #[test]
    fn each_way_back_is_one_of_what_the_step_has() {
        assert!(way_back(true, true, false).starts_with("revert the commit: nothing is deleted"));
        assert!(way_back(true, false, true).starts_with("give the owners the `deletionPolicy`"));
        assert!(way_back(false, true, false).starts_with("revert the commit: Flux creates"));
        assert!(way_back(false, false, true).starts_with("apply the manifests"));
        assert!(way_back(false, true, true).starts_with("revert the commit, and apply the manifests"));
    }
}
