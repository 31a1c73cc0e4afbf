//! `handover`: steps by which a change moves objects to other owners without deleting them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::Args;

use super::acts::{Act, Awaited, release_revision};
use super::apply::{Commit, NextStep, StepArgs, Steps, carry_out};
use crate::commands::Session;
use crate::commands::prune::tree::{Asleep, FoundHandover, FoundMove, Role, TreeArgs, TreeOptions, find_handover};
use crate::error::{Error, Result};
use crate::exit::ExitCode;
use crate::output::format::{self, Format, Render};
use crate::output::plan::warnings;
use crate::output::steps::kubectl::{kubectl_name, shows_hold, waits_for_deletion};
use crate::tools;
use crate::tools::git::{Checkout, WorktreeState};
use gitops_core::flux::handover::FIELD_MANAGER;
use gitops_core::flux::handover::{
    Handover, HandoverStep, Hold, Holds, Remains, ended_marks, left_over, listed, remains,
};
use gitops_core::flux::kinds::{KINDS, SOURCE_GROUP};
use gitops_core::flux::source::tree::Tree;
use gitops_core::flux::spec::SourceId;
use gitops_core::flux::suspension::wait::becomes_ready;
use gitops_core::kubernetes::gap::AnswerGap;
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::index::Index;
use gitops_core::ownership::schemes::flux_kustomization::KIND;
use gitops_core::ownership::{Members, OwnerId};
use gitops_core::plan::{FinishedPlan, Outcome, ReasonCode};
use gitops_core::text::{join_limited, plain_word, pluralize, shell_word};

/// Number of objects that a message names.
const NAMED: usize = 5;

/// Show steps that move objects to other owners without deleting them
///
/// Compares what is deployed with a checkout: a Kustomization that is renamed, split or joined, an object that moves from
/// one to another. Proposes the shortest list of commits by which nothing is deleted that something manages in the end, each
/// with its plan. Every order of events is judged. Changes nothing without --apply.
#[derive(Debug, Args)]
#[command(
    override_usage = "kubectl gitops handover [OPTIONS]",
    after_help = "Examples:
  # Show how to merge this checkout without losing what it moves
  kubectl gitops handover
  # Write the patches of the steps
  kubectl gitops handover --write patches/",
    after_long_help = "Examples:
  # Show how to merge this checkout without losing what it moves
  kubectl gitops handover

  # Write the patches of the steps
  kubectl gitops handover --write steps/

  # Take the steps: wait for each of your commits, and plan again after it
  kubectl gitops handover --to feature --write steps/ --apply"
)]
pub struct HandoverArgs {
    /// Checkout with the change; the current directory when absent
    #[arg(long, value_name = "DIR")]
    pub repo: Option<PathBuf>,
    /// Read this revision instead of the working tree
    #[arg(long, value_name = "REVISION")]
    pub to: Option<String>,
    /// Write the patches of the steps to DIR
    #[arg(long, value_name = "DIR")]
    pub write: Option<PathBuf>,
    #[command(flatten)]
    pub steps: StepArgs,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = format::parser(Handover::PARTS))]
    pub output: Format,
}

/// Finds and shows the steps, and carries them out if that is asked for.
pub async fn run(args: &HandoverArgs, session: &mut Session) -> Result<ExitCode> {
    let snapshot = args.steps.read(session).await?;
    let planned = plan(args, args.to.as_deref(), session, &snapshot).await?;
    let handover = &planned.document;
    session.terminal.raw(&args.output.render(handover, session.terminal.look(true))?)?;
    // Before the patches are written: they may be files of the checkout.
    let change = args.steps.apply.then(|| pinned(args.to.as_deref(), &planned.folder)).transpose()?;
    if let Some(directory) = &args.write {
        let places = planned.roles.iter().map(|role| role.place(planned.into.as_deref()));
        write(handover.steps.iter().zip(places), directory, &planned.folder, session)?;
    }
    let exit = report(&handover.steps, session);
    if let Some(blocked) = handover.blocked() {
        return Err(Error::refused(format!("the change {}", blocked.detail.trim_start_matches("this ")))
            .hint("correct what blocks owners, and run this again"));
    }
    let Some(change) = change else { return Ok(exit) };
    let listed = listed_by(&planned.owners, &snapshot);
    let kept = listed
        .intersection(&planned.managed)
        .filter_map(|id| Some((id.clone(), snapshot.object(id)?.uid.clone())))
        .collect();
    let titles = handover.steps.iter().map(|step| step.title.clone()).collect();
    let (roles, waiting) = (planned.roles.clone(), planned.waiting.clone());
    let mut moving = Moving { args, change, kept, listed, waiting, roles, titles, taken: 0 };
    let next = planned.next_steps(&moving.change);
    carry_out(&args.steps, &mut moving, (next, snapshot), exit, session).await
}

/// The steps that are left of a handover.
struct PlannedHandover {
    document: Handover,
    roles: Vec<Role>,
    /// What each step does in the cluster, and what it waits for.
    acts: Vec<(Vec<Act>, Awaited)>,
    /// Files that the sources have with each step.
    trees: Vec<Tree>,
    /// Files in which a merge of Git keeps a setting that the step before made.
    merged: BTreeSet<String>,
    /// Objects that inventories have after the last step, or once owners that the change suspends are resumed.
    managed: BTreeSet<ObjectId>,
    /// Those that owners have once they are resumed.
    waiting: BTreeSet<ObjectId>,
    /// Owners that a step reconciles or deletes.
    owners: BTreeSet<OwnerId>,
    /// Directory and sources of the trees.
    folder: PathBuf,
    sources: Vec<SourceId>,
    /// Branch that the change is merged into.
    into: Option<String>,
}

/// Plans the handover to a revision, or to the working tree, as it is left on a state of the cluster.
async fn plan(
    args: &HandoverArgs,
    to: Option<&str>,
    session: &mut Session,
    snapshot: &Snapshot,
) -> Result<PlannedHandover> {
    let (rev, checkout) = (to.map(str::to_owned), args.steps.checkout.clone());
    let options = TreeOptions { rev, checkout, is_of_steps: true, ..TreeOptions::default() };
    let tree = TreeArgs::of_checkout(args.repo.clone(), options);
    let mut found = find_handover(&tree, session, snapshot, args.steps.snapshot.is_some())
        .await
        .inspect_err(|_| session.discard_warnings())?;
    let mut left_over = left_over(snapshot, &found.last, found.steps.iter().map(|found| &found.step.secrets));
    left_over.retain(|id| !found.asleep.objects.contains(id));
    let roles: Vec<Role> = found.steps.iter().map(|found| found.role).collect();
    let (mut steps, mut all_acts, mut trees) = (vec![], vec![], vec![]);
    for (number, FoundMove { role, patches, tree, waiting, step }) in (1..).zip(std::mem::take(&mut found.steps)) {
        session.print_masked_warnings(std::slice::from_ref(&step.secrets));
        let plan = step.finish(args.steps.snapshot.is_some());
        let acts = role.acts(&found.holds, snapshot, &found.last);
        let awaited = role.awaited(&found.holds, &plan, &step.snapshot);
        let (has_patches, has_acts) = (!patches.is_empty(), !acts.is_empty());
        steps.push(HandoverStep {
            number,
            title: role.title(has_patches, has_acts),
            patches,
            commands: acts.iter().map(Act::command).collect(),
            notes: match role {
                Role::Hold => vec![],
                Role::HeldChange | Role::Rename => waiting_names(&waiting).into_iter().collect(),
                Role::Change => notes(&found, snapshot),
            },
            done_when: role.done_when(&found.holds, &plan, &awaited),
            way_back: role.way_back(has_patches, has_acts).to_owned(),
            plan,
        });
        all_acts.push((acts, awaited));
        trees.push(tree);
    }
    if !steps.iter().all(|step| step.plan.is_complete()) {
        let last = roles.iter().zip(&mut steps).filter(|(role, _)| **role == Role::Change);
        last.for_each(|(_, step)| step.title = format!("once its plan is complete, {}", step.title));
    }
    let merged = &found.set_before | &merged_files(&roles, &steps);
    // The last step may be a commit that only takes settings back.
    let merging = roles
        .iter()
        .position(|role| *role != Role::Hold)
        .filter(|at| roles[*at] == Role::HeldChange || steps[*at].patches.is_empty());
    if let Some(step) = merging.and_then(|at| steps.get_mut(at)) {
        let set_by = if step.number == 1 { "earlier steps" } else { "step 1" };
        step.notes.extend(merge_note(&merged, set_by, found.into.as_deref()));
    }
    let managed = &listed(&found.last) | &found.asleep.objects;
    let FoundHandover { lost_at_once, folder, sources, into, asleep, .. } = found;
    let rows = steps
        .iter()
        .flat_map(|step: &HandoverStep| step.plan.owners())
        .filter(|row| matches!(row.outcome, Outcome::Applies | Outcome::Deleted));
    let owners = rows.map(|row| row.owner.clone()).collect();
    let document = Handover::new(lost_at_once, steps, left_over, snapshot);
    let waiting = asleep.objects;
    Ok(PlannedHandover {
        document,
        roles,
        acts: all_acts,
        trees,
        merged,
        managed,
        waiting,
        owners,
        folder,
        sources,
        into,
    })
}

impl PlannedHandover {
    /// Returns the steps to carry out. `change` is the commit that is handed over to.
    fn next_steps(self, change: &str) -> Vec<NextStep> {
        let (folder, sources) = (self.folder, self.sources);
        let parts = self.document.steps.into_iter().zip(self.roles).zip(self.acts).zip(self.trees);
        let steps = parts.map(|(((step, role), (acts, awaited)), tree)| {
            let files: Vec<&str> = step.patches.iter().map(|patch| &*patch.file).collect();
            let patch = format!("the patch of {}", files.join(", "));
            let what = match role {
                Role::Hold if files.is_empty() => None,
                Role::Hold => Some(format!("commit {patch}")),
                Role::HeldChange => Some(format!("merge {change} together with {patch}")),
                Role::Change if files.is_empty() => Some(format!("merge {change}")),
                Role::Rename | Role::Change => Some(format!("commit {patch}")),
            };
            let (folder, merged) = (folder.clone(), self.merged.clone());
            let sources = staying(&sources, &step.plan);
            let commit = what.map(|what| Commit { what, folder, sources, tree, merged });
            NextStep { step, acts, awaited, commit }
        });
        steps.collect()
    }
}

/// Returns the sources that a step does not delete: the others need not get its commit. If it deletes all, any can show the commit.
fn staying(sources: &[SourceId], plan: &FinishedPlan) -> Vec<SourceId> {
    let deleted: BTreeSet<SourceId> = plan
        .deletions()
        .map(|change| &change.object.id)
        .filter(|id| &*id.group == SOURCE_GROUP)
        .map(SourceId::of)
        .collect();
    let staying: Vec<SourceId> = sources.iter().filter(|source| !deleted.contains(source)).cloned().collect();
    if staying.is_empty() { sources.to_vec() } else { staying }
}

/// Returns the files of the first step's settings that the change does not have: a merge of Git keeps them all the same, or finds a conflict.
fn merged_files(roles: &[Role], steps: &[HandoverStep]) -> BTreeSet<String> {
    let [held, changed] = [Role::Hold, Role::HeldChange].map(|role| -> BTreeSet<&str> {
        let of_role = roles.iter().zip(steps).filter(|(found, _)| **found == role);
        of_role.flat_map(|(_, step)| &step.patches).map(|patch| &*patch.file).collect()
    });
    held.difference(&changed).map(|file| (*file).to_owned()).collect()
}

/// Says which Kustomizations keep their old names in a step.
fn waiting_names(waiting: &[ObjectId]) -> Option<String> {
    let names = join_limited(waiting, NAMED);
    let until = if waiting.len() == 1 { "until a later step" } else { "until later steps" };
    (!waiting.is_empty()).then(|| {
        format!("the old name of {names} stays {until}: renamed in this one, it may delete what it has just created")
    })
}

/// Says how the files of the change stay as they are when it is merged into this branch after steps that set something in others.
fn merge_note(merged: &BTreeSet<String>, set_by: &str, into: Option<&str>) -> Option<String> {
    let first = merged.first()?;
    let more = if merged.len() == 1 { String::new() } else { format!(" and {} more", merged.len() - 1) };
    let Some(branch) = into else {
        return Some(format!(
            "a merge of Git would keep what {set_by} set in {first}{more}: take that out of the result"
        ));
    };
    Some(format!(
        "a merge of Git would keep what {set_by} set in {first}{more}: before it, run `git merge -s ours {}` on the branch of the change, \
         which leaves the files there as they are (only while {branch} has no other new commits)",
        shell_word(branch)
    ))
}

/// Returns the commit of the change: working trees change between steps.
///
/// Fails if files of the working tree are in no commit.
fn pinned(to: Option<&str>, folder: &Path) -> Result<String> {
    let checkout = Checkout::containing(folder)?;
    let is_loose = match (&checkout, to) {
        (Some(checkout), None) => checkout.is_dirty(&WorktreeState::Worktree)?,
        _ => false,
    };
    let commit = checkout.filter(|_| !is_loose).and_then(|checkout| checkout.commit(to.unwrap_or("HEAD")));
    commit.ok_or_else(|| {
        Error::usage("--apply needs the change as a commit, and the working tree has changes that are in none")
            .hint("commit it to a branch of its own, and name the branch with --to")
    })
}

/// A handover that is carried out.
struct Moving<'a> {
    args: &'a HandoverArgs,
    /// Commit of the change.
    change: String,
    /// Objects that owners of the steps list, and that inventories have in the end too, with their uids, which must stay.
    kept: BTreeMap<ObjectId, Box<str>>,
    /// Objects that the inventories of these owners had at first.
    listed: BTreeSet<ObjectId>,
    /// Objects that owners that the change suspends have once they are resumed.
    waiting: BTreeSet<ObjectId>,
    /// Purposes of the steps that were shown.
    roles: Vec<Role>,
    /// Their instructions, which one that is planned again keeps.
    titles: Vec<String>,
    /// Number of steps that are taken.
    taken: usize,
}

impl Steps for Moving<'_> {
    fn take_one(&mut self) {
        self.taken += 1;
    }

    async fn left(&mut self, snapshot: &Snapshot, session: &mut Session) -> Result<Vec<NextStep>> {
        let now = plan(self.args, Some(&self.change), session, snapshot).await?;
        if now.roles != self.roles[self.taken..] {
            let left = pluralize(now.roles.len(), "other step");
            let message = format!(
                "step {} no longer holds, because the cluster or what is deployed has changed: {left} would be left",
                self.taken + 1
            );
            return Err(Error::refused(message).hint(format!("`{}` begins anew", self.command())));
        }
        let mut next = now.next_steps(&self.change);
        next.iter_mut().zip(&self.titles[self.taken..]).for_each(|(next, title)| next.step.title.clone_from(title));
        Ok(next)
    }

    fn command(&self) -> String {
        let flags = self.args.steps.checkout.flags(self.args.repo.as_deref());
        format!("kubectl gitops handover --to {}{flags} --apply", self.change)
    }

    fn end(&self, snapshot: &Snapshot) -> Result<String> {
        let lost: Vec<&ObjectId> = self
            .kept
            .iter()
            .filter(|(id, uid)| snapshot.object(id).is_none_or(|live| live.uid != **uid))
            .map(|(id, _)| id)
            .collect();
        if !lost.is_empty() {
            let message = format!(
                "after the last step, these are not the objects that they were: {}",
                join_limited(&lost, NAMED)
            );
            return Err(
                Error::failed(message).hint("`kubectl gitops inventory --why-gone TYPE/NAME` says what deleted one")
            );
        }
        let managed = &listed(snapshot) | &self.waiting;
        let left: Vec<&ObjectId> =
            self.listed.iter().filter(|id| snapshot.object(id).is_some() && !managed.contains(*id)).collect();
        let over = if left.is_empty() {
            "nothing is left over".to_owned()
        } else {
            format!("left over, and nothing deletes it: {}", join_limited(&left, NAMED))
        };
        Ok(format!("the change is merged, and {} kept; {over}", pluralize(self.kept.len(), "object")))
    }
}

/// Prints the warnings and gaps of the plans of proposed steps, and returns the exit code.
pub(crate) fn report(steps: &[HandoverStep], session: &mut Session) -> ExitCode {
    for step in steps {
        let texts = warnings(&step.plan);
        texts.iter().for_each(|text| session.terminal.warning(&format!("step {}: {text}", step.number)));
    }
    let gaps: BTreeSet<AnswerGap> = steps.iter().flat_map(|step| step.plan.gaps()).cloned().collect();
    session.report_answer_gaps(&gaps.into_iter().collect::<Vec<_>>(), false)
}

impl Role {
    /// Returns the branch to which the patch of a step applies, for people.
    fn place(self, into: Option<&str>) -> String {
        match (self, into) {
            (Self::HeldChange, _) => "the branch of the change".to_owned(),
            (_, Some(branch)) => branch.to_owned(),
            (_, None) => DEPLOYED.to_owned(),
        }
    }

    /// Returns the words that say what to do in this step.
    fn title(self, has_patches: bool, has_commands: bool) -> String {
        let what = match self {
            Self::Hold if !has_patches => {
                return "run the commands: then the old owners delete nothing of what moves".to_owned();
            }
            Self::Hold if has_commands => {
                "commit this to the branch that is deployed, wait until Flux has applied it, and run the commands: then the old \
                 owners delete nothing of what moves"
            }
            Self::Hold => {
                "commit this to the branch that is deployed, and wait until Flux has applied it: then the old owners delete nothing of \
                 what moves"
            }
            Self::HeldChange => "merge the change together with this, and wait until Flux has applied it",
            Self::Rename => {
                "commit this to the branch that is deployed, and wait until Flux has applied it: it renames what had to wait for the step before"
            }
            Self::Change if has_patches => {
                "commit this to the branch that is deployed: it takes back what the steps before have changed"
            }
            Self::Change => "merge the change",
        };
        // A mark that ends before a release is upgraded protects nothing.
        let then = if self == Self::Change && has_commands {
            "; run the commands only when what is below shows that it is done"
        } else {
            ""
        };
        format!("{what}{then}")
    }

    /// Returns what a step does in the cluster: marks of objects that no manifest in Git has, and their end. A mark that an earlier
    /// run set ends too once it protects nothing.
    fn acts(self, holds: &Holds, first: &Snapshot, last: &Snapshot) -> Vec<Act> {
        let marks = holds.iter().filter(|(_, hold)| hold.is_by_hand()).map(|(id, _)| id.clone());
        match self {
            Self::Hold => marks.map(|id| Act::Set(id, Hold::Keep)).collect(),
            Self::HeldChange | Self::Rename => vec![],
            Self::Change => {
                let all: BTreeSet<ObjectId> = marks.chain(ended_marks(first, last, FIELD_MANAGER)).collect();
                all.into_iter().map(|id| Act::Unset(id, Hold::Keep)).collect()
            }
        }
    }

    /// Returns what a step waits for. `before` is the state that it begins with.
    fn awaited(self, holds: &Holds, plan: &FinishedPlan, before: &Snapshot) -> Awaited {
        if let Self::Hold = self {
            return Awaited { set: holds.clone(), ..Awaited::default() };
        }
        let owners = |outcome: Outcome| {
            let rows = plan.owners().iter().filter(move |row| row.outcome == outcome);
            rows.filter_map(|row| object_of(&row.owner))
        };
        let gone = owners(Outcome::Deleted).filter_map(|id| {
            let uid = before.object(&id)?.uid.clone();
            Some((id, uid))
        });
        // One that is not ready anyway, and that the step does not change, is not waited for.
        let changed: BTreeSet<ObjectId> =
            plan.changes().iter().filter_map(|change| object_of(change.owner.as_ref()?)).collect();
        let is_well =
            |id: &ObjectId| changed.contains(id) || before.resource(id).is_none_or(|live| becomes_ready(before, live));
        let upgraded = plan
            .owners()
            .iter()
            .filter(|row| row.reason.code == ReasonCode::ReleaseUpgraded)
            .filter_map(|row| object_of(&row.owner))
            .filter_map(|id| {
                let revision = release_revision(&before.resource(&id)?.content)?;
                Some((id, revision))
            });
        Awaited {
            gone: gone.collect(),
            upgraded: upgraded.collect(),
            applied: owners(Outcome::Applies).filter(is_well).collect(),
            ..Awaited::default()
        }
    }

    /// Returns commands that show that a step is done.
    fn done_when(self, holds: &Holds, plan: &FinishedPlan, awaited: &Awaited) -> Vec<String> {
        if let Self::Hold = self {
            return show_holds(holds);
        }
        let revisions = awaited.upgraded.iter().map(|(id, revision)| {
            format!("kubectl get {} -o jsonpath='{{.status.history[0].version}}' # above {revision}", kubectl_name(id))
        });
        let applied = plan.owners().iter().filter(|row| row.outcome == Outcome::Applies);
        let mut names: BTreeMap<(Reverse<bool>, &str, &str), Vec<&str>> = BTreeMap::new();
        for owner in applied.map(|row| &row.owner).filter(|owner| owner.system == "flux") {
            let key = (Reverse(owner.kind == KIND), &*owner.kind, &*owner.namespace);
            names.entry(key).or_default().push(&owner.name);
        }
        let shows = names.into_iter().map(|((Reverse(has_revision), kind, namespace), names)| {
            let (kind, names, namespace) = (kind.to_lowercase(), words(&names), shell_word(namespace));
            let revision = if has_revision { ", at the new revision" } else { "" };
            format!("kubectl gitops get {kind}{names} -n {namespace} # Ready{revision}")
        });
        revisions.chain(shows).chain(waits_for_deletion(awaited.gone.keys())).collect()
    }

    fn way_back(self, has_patches: bool, has_commands: bool) -> &'static str {
        match self {
            Self::Hold if !has_commands => "revert the commit: nothing has moved yet",
            Self::Hold if !has_patches => {
                "run the commands again with `null` in place of `\"keep\"`: nothing has moved yet"
            }
            Self::Hold => {
                "revert the commit, and run the commands again with `null` in place of `\"keep\"`: nothing has moved yet"
            }
            Self::HeldChange | Self::Rename | Self::Change => {
                "do not revert it alone: check out the revert, and run `kubectl gitops handover` on it"
            }
        }
    }
}

/// Returns the costs of the change, and what it leaves to be done.
fn notes(found: &FoundHandover, first: &Snapshot) -> Vec<String> {
    let Asleep { owners, objects } = &found.asleep;
    let takes = (!objects.is_empty()).then(|| {
        let (verb, pronoun) = if owners.len() == 1 { ("is", "it is") } else { ("are", "they are") };
        let owners = join_limited(owners, NAMED);
        format!(
            "{owners} {verb} suspended with the change: nothing manages {} before {pronoun} resumed",
            join_limited(objects, NAMED)
        )
    });
    remains(&found.holds, first, &found.last).iter().map(remains_note).chain(takes).collect()
}

/// Says what stays behind of a HelmRelease that is suspended when it is deleted.
fn remains_note(remains: &Remains) -> String {
    let release = &remains.release;
    let history = format!("the Secrets with the history of the release of {release}");
    let marks = "Helm's labels, annotations and field managers";
    let fields = "a field that leaves Git before `flux-operator migrate owner` has removed the field managers stays";
    match (remains.history, remains.marks) {
        (true, true) => format!("{history}, and {marks}, stay behind; {fields}"),
        (true, false) => format!("{history} stay behind"),
        (false, _) => format!("{marks} on the objects of {release} stay behind; {fields}"),
    }
}

/// Returns the commands that show holds, one for those with the same setting in one namespace.
fn show_holds(holds: &Holds) -> Vec<String> {
    let mut groups: BTreeMap<(String, &str, Hold), Vec<&ObjectId>> = BTreeMap::new();
    for (id, hold) in holds {
        groups.entry((id.group_kind().to_string(), &id.namespace, *hold)).or_default().push(id);
    }
    let commands = groups.into_iter().map(|((kind, namespace, hold), ids)| {
        if let [only] = ids[..] {
            return shows_hold(only, hold);
        }
        let shown: Vec<_> = ids.iter().map(|id| id.shown()).collect();
        let names = words(&shown.iter().map(|id| &*id.name).collect::<Vec<_>>());
        let (field, namespace) = (hold.field(), shell_word(namespace));
        format!(
            "kubectl get {kind}{names} -n {namespace} -o custom-columns='NAME:.metadata.name,SET:{}' # {}",
            field.json_path(),
            field.value
        )
    });
    commands.collect()
}

/// Returns names as words of a command. Without a name the command shows all objects: so it does if there are too many for a line,
/// or if one is no plain word.
fn words(names: &[&str]) -> String {
    let plain: Vec<&str> = names.iter().filter_map(|name| plain_word(name)).collect();
    if names.len() > NAMED || plain.len() < names.len() { String::new() } else { format!(" {}", plain.join(" ")) }
}

/// Returns the objects in the inventories of owners.
fn listed_by(owners: &BTreeSet<OwnerId>, snapshot: &Snapshot) -> BTreeSet<ObjectId> {
    let index = Index::build(snapshot);
    let members = index.owners().filter(|owner| owners.contains(&owner.id)).filter_map(|owner| match &owner.members {
        Members::Listed(members) => Some(members.iter().cloned()),
        _ => None,
    });
    members.flatten().collect()
}

/// Returns the object of an owner of Flux.
fn object_of(owner: &OwnerId) -> Option<ObjectId> {
    let kind = KINDS.iter().find(|known| known.kind == owner.kind)?;
    Some(ObjectId::new(kind.group, kind.kind, &owner.namespace, &owner.name))
}

/// Branch of a patch, where its name is not known.
pub(crate) const DEPLOYED: &str = "the branch that is deployed";

/// Writes the patches and commands of the steps, one file each. A step comes with the branch of its patch; `folder` is the directory that the files of the patches are in.
///
/// Fails if the directory has files of steps already, of which some would not be replaced, or cannot be written.
pub(crate) fn write<'s>(
    steps: impl Iterator<Item = (&'s HandoverStep, String)>,
    directory: &Path,
    folder: &Path,
    session: &mut Session,
) -> Result<()> {
    std::fs::create_dir_all(directory)
        .map_err(|error| Error::failed(format!("{} cannot be created: {error}", directory.display())))?;
    let entries = std::fs::read_dir(directory)
        .map_err(|error| Error::failed(format!("{} cannot be read: {error}", directory.display())))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    if let Some(file) = names.filter(|name| is_of_step(name)).min() {
        let file = directory.join(file);
        return Err(Error::failed(format!("{} exists already", file.display())).hint("name another directory"));
    }
    for (step, place) in steps {
        let patches: String = step.patches.iter().map(|patch| patch.diff.as_str()).collect();
        let commands: String = step.commands.iter().map(|command| format!("{command}\n")).collect();
        for (text, kind) in [(patches, "patch"), (commands, "sh")] {
            let file = directory.join(format!("step-{}.{kind}", step.number));
            if text.is_empty() {
                continue;
            }
            tools::write_report(&file, &text)?;
            let use_of_it = match kind {
                "sh" => format!("`sh -e {}`", word(&file)),
                _ => format!("on {place}, `{}`", apply_command(folder, &file)?),
            };
            session.terminal.status(&format!("wrote {}: {use_of_it}", file.display()));
        }
    }
    Ok(())
}

/// Returns the command that applies a patch to the files of a folder. Git reads the paths of a patch from the directory in which it runs.
///
/// Fails if the checkout cannot be read.
fn apply_command(folder: &Path, patch: &Path) -> Result<String> {
    let Some(checkout) = Checkout::containing(folder)? else { return Ok(format!("git apply {}", word(patch))) };
    let prefix = folder.canonicalize().map(|folder| checkout.prefix(&folder)).unwrap_or_default();
    let is_here = std::env::current_dir().and_then(|here| here.canonicalize()).is_ok_and(|here| here == checkout.top());
    let below = if prefix.is_empty() { String::new() } else { format!("--directory {} ", shell_word(&prefix)) };
    Ok(if is_here {
        format!("git apply {below}{}", word(patch))
    } else {
        let patch = std::path::absolute(patch).unwrap_or_else(|_| patch.to_owned());
        format!("git -C {} apply {below}{}", word(checkout.top()), word(&patch))
    })
}

fn word(path: &Path) -> String {
    shell_word(&path.display().to_string())
}

/// Returns true for the name of a file that [`write`] writes.
fn is_of_step(name: &str) -> bool {
    let number = name.strip_prefix("step-").and_then(|rest| rest.strip_suffix(".patch").or(rest.strip_suffix(".sh")));
    number.is_some_and(|number| number.parse::<usize>().is_ok())
}

#[cfg(test)]
mod tests {
    use gitops_core::plan::{Action, Actor, Change, PinnedObject, Plan};

    use super::*;

    #[test]
    fn a_source_that_a_step_deletes_need_not_get_its_commit() {
        let source = |name: &str| SourceId::parse(&format!("GitRepository/flux-system/{name}")).unwrap();
        let row = |action, name: &str| {
            let object = PinnedObject::absent(ObjectId::new(SOURCE_GROUP, "GitRepository", "flux-system", name));
            Change::new(action, object, None, Actor::KustomizeController, ReasonCode::NotInBuild)
        };
        let mut plan = Plan::default();
        plan.add_changes([row(Action::Delete, "old"), row(Action::Update, "fleet")]);
        assert_eq!(staying(&[source("fleet"), source("old")], &plan.into()), [source("fleet")]);
    }

    #[test]
    fn each_way_back_is_one_of_what_the_step_has() {
        let of = |has_patches, has_commands| Role::Hold.way_back(has_patches, has_commands);
        assert_eq!(of(true, false), "revert the commit: nothing has moved yet");
        assert!(of(false, true).starts_with("run the commands again with `null` in place of `\"keep\"`"));
        assert!(of(true, true).starts_with("revert the commit, and run the commands again"));
    }

    #[test]
    fn a_patch_is_applied_to_the_branch_that_it_was_made_for() {
        let places = [Role::Hold, Role::HeldChange, Role::Change].map(|role| role.place(Some("main")));
        assert_eq!(places, ["main", "the branch of the change", "main"]);
        assert_eq!(Role::Hold.place(None), DEPLOYED);
    }

    #[test]
    fn a_patch_is_applied_where_its_paths_begin() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let git = std::process::Command::new("git").arg("-C").arg(&top).args(["init", "-q"]).status();
        assert!(git.unwrap().success());
        std::fs::create_dir(top.join("fleet")).unwrap();
        let command = |folder: &Path| apply_command(folder, Path::new("/steps/step-1.patch")).unwrap();
        assert_eq!(command(&top), format!("git -C {} apply /steps/step-1.patch", top.display()));
        let below = format!("git -C {} apply --directory fleet /steps/step-1.patch", top.display());
        assert_eq!(command(&top.join("fleet")), below);
    }

    #[test]
    fn marks_end_only_when_the_release_is_upgraded() {
        let title = |has_commands| Role::Change.title(false, has_commands);
        assert_eq!(title(false), "merge the change");
        assert_eq!(title(true), "merge the change; run the commands only when what is below shows that it is done");
        let release = ObjectId::new("helm.toolkit.fluxcd.io", "HelmRelease", "shop", "web");
        let awaited = Awaited { upgraded: BTreeMap::from([(release, 3)]), ..Awaited::default() };
        let done = Role::Change.done_when(&Holds::new(), &Plan::default().into(), &awaited);
        let shows = "kubectl get helmrelease.helm.toolkit.fluxcd.io/web -n shop -o jsonpath='{.status.history[0].version}' # above 3";
        assert_eq!(done, [shows]);
    }
}
