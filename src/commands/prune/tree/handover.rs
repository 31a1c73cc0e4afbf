//! The search for steps that hand objects over: lists of patches, each judged by its plans.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::planner::{Deployed, Planner, SearchStart, SearchWork, StepState, StepTrees};
use super::steps::annotate;
use super::{PlannedStep, TreeArgs};
use crate::commands::Session;
use crate::error::{Error, Result};
use crate::output::steps::kubectl::patches_hold;
use crate::output::text::sanitize::one_line;
use crate::tools::git::WorktreeState;
use crate::tools::worktree;
use gitops_core::flux::handover::leaving_out::LeavingOut;
use gitops_core::flux::handover::patch::{
    Field, FilePatch, differ_in_holds, ends_holds, hold_in_tree, set_in_tree, with_earlier_manifest,
};
use gitops_core::flux::handover::{
    Cost, Hold, Holds, Loss, MAX_LISTS, Renames, all_holds, contested, leaving_over, left_behind, listed, losses,
    managed_below, managed_from_roots, mark_left, next_holds, parked, put_to_sleep, renamed_parents, resume, set_holds,
    staying, unfollowed,
};
use gitops_core::flux::simulation::DryRunScope;
use gitops_core::flux::simulation::questions::FinishedPreview;
use gitops_core::flux::source::tree::Tree;
use gitops_core::flux::spec::{KustomizationSpec, SourceId};
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::index::Index;
use gitops_core::ownership::schemes::flux_kustomization::{GROUP, KIND};
use gitops_core::plan::mask::SecretMask;
use gitops_core::plan::{Outcome, Plan, ReasonCode};
use gitops_core::text::join_limited;

/// Number of owners that a message names.
const NAMED: usize = 5;

/// A list of steps that loses nothing.
pub(crate) struct FoundHandover {
    /// Objects that are lost without it.
    pub(crate) lost_at_once: Vec<ObjectId>,
    pub(crate) holds: Holds,
    pub(crate) steps: Vec<FoundMove>,
    /// State after the last step.
    pub(crate) last: Snapshot,
    /// Directory and sources of the trees.
    pub(crate) folder: PathBuf,
    pub(crate) sources: Vec<SourceId>,
    /// Branch that the change is merged into, if the change has everything that is deployed.
    pub(crate) into: Option<String>,
    /// Files with settings of earlier steps that are deployed, and that the change does not have.
    pub(crate) set_before: BTreeSet<String>,
    /// Objects of owners that the change suspends, once they are resumed.
    pub(crate) asleep: Asleep,
}

/// Purpose of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The holds alone.
    Hold,
    /// The change with those holds that must outlast it.
    HeldChange,
    /// Renames that come after that, while others still wait.
    Rename,
    Change,
}

/// One step.
pub(crate) struct FoundMove {
    pub(crate) role: Role,
    pub(crate) patches: Vec<FilePatch>,
    /// Files that the sources have with it.
    pub(crate) tree: Tree,
    /// Kustomizations that keep their old names in it.
    pub(crate) waiting: Vec<ObjectId>,
    pub(crate) step: PlannedStep,
}

/// Finds the shortest list of steps by which the change of a tree deletes nothing that something manages in the end.
///
/// Fails as the plan of the tree, and if there is no such list: then with the object and the rule that prevent it.
pub(crate) async fn find_handover(
    args: &TreeArgs,
    session: &mut Session,
    snapshot: &Snapshot,
    offline: bool,
) -> Result<FoundHandover> {
    let work = SearchWork::default();
    let SearchStart { mut planner, state: start, change, deployed } =
        work.start_steps(args, session, snapshot, offline).await?;
    let mut trees = Trees {
        target: worktree::read(&deployed.folder, &args.options.state())?,
        deployed: worktree::read(&deployed.folder, &WorktreeState::Revision(deployed.commit.clone()))?,
        change,
        only_renames_left: false,
    };
    let behind = behind(&planner, &trees, &deployed.folder)?;
    let dry_runs = planner.end_dry_runs();
    let mut first = trees.play(&mut planner, &start, &List::default()).await?;
    trees.only_renames_left = behind == Behind::Others && trees.lacks_renames(&start.snapshot, &first.last);
    if trees.only_renames_left {
        first.steps.iter_mut().for_each(|found| found.patches = trees.patches_to_end());
    } else if behind == Behind::Others {
        warn_of_commits(&planner, &deployed.commit, session);
    }
    let asleep = trees.asleep(&mut planner, &start, &first).await?;
    let mut wanted = trees.wanted(&mut planner, &start, &first).await?;
    wanted.extend(asleep.objects.iter().cloned());
    let lost_at_once: Vec<ObjectId> = lost(&first, &wanted).into_iter().map(|loss| loss.object).collect();
    let goal = Goal { wanted, managed_at_once: listed(&first.last) };
    let (list, found) = match trees.find(&mut planner, &start, &goal, &first).await {
        // What new owners take over is not known, so that nothing can be said about what is left.
        Err(_) if !unfollowed(plans(&first), snapshot, &first.last).is_empty() => (List::default(), None),
        result => result?,
    };
    let best = found.unwrap_or(first);
    trees.ensure_resumable(&mut planner, &start, &list, &best, &goal.wanted).await?;
    if let Some(scope) = dry_runs {
        trees.ensure_applied(&mut planner, &start, &list.holds, scope, offline).await?;
    }
    let Played { mut steps, last, .. } = best;
    let gaps = unfollowed(steps.iter().map(|found| &found.step.plan), snapshot, &last);
    if let Some(change) = steps.last_mut() {
        change.step.plan.add_gaps(gaps);
    }
    let into = planner.subject().into.clone().filter(|_| behind != Behind::Others);
    let set_before = if let Behind::Settings(files) = behind { files } else { BTreeSet::new() };
    let Deployed { folder, sources, .. } = deployed;
    let List { holds, .. } = list;
    Ok(FoundHandover { lost_at_once, holds, steps, last, folder, sources, into, set_before, asleep })
}

/// Deployed content that the change does not have.
#[derive(PartialEq, Eq)]
enum Behind {
    Nothing,
    /// Only settings of steps, in these files: they end with the change.
    Settings(BTreeSet<String>),
    Others,
}

/// Compares what is deployed with what the change has of it.
fn behind(planner: &Planner<'_>, trees: &Trees, folder: &Path) -> Result<Behind> {
    let subject = planner.subject();
    let (Some(_), Some(base)) = (subject.behind_text(), &subject.merge_base) else { return Ok(Behind::Nothing) };
    let base = worktree::read(folder, &WorktreeState::Revision(base.clone()))?;
    if differ_in_holds(&base, &trees.deployed) {
        let files = FilePatch::between(&base, &trees.deployed).into_iter().map(|patch| patch.file);
        return Ok(Behind::Settings(files.collect()));
    }
    Ok(Behind::Others)
}

/// Warns of commits that are deployed and that the change does not have.
fn warn_of_commits(planner: &Planner<'_>, commit: &str, session: &mut Session) {
    let Some(text) = planner.subject().behind_text() else { return };
    session.terminal.warning(&text);
    session.terminal.hint(&format!("merge them into the change first: `git merge {commit}`"));
}

/// The trees between which objects move.
struct Trees {
    deployed: Tree,
    target: Tree,
    change: StepTrees,
    /// What is deployed is the change but for renames that come in steps of their own.
    only_renames_left: bool,
}

/// A list of steps, and its plans; `None` for the change alone.
type Found = (List, Option<Played>);

/// A way to find a list.
#[derive(Default)]
struct Way {
    /// Kustomizations in whose place objects are marked.
    marking: BTreeSet<ObjectId>,
    /// Renames that come in steps of their own.
    later: Vec<Renames>,
}

impl Way {
    /// Returns the list with these holds.
    fn list(&self, holds: &Holds) -> List {
        List { holds: holds.clone(), later: self.later.clone(), ends_with_change: false }
    }

    /// Returns what the plans of a list lose, with marks of objects in place of settings that this way leaves alone.
    fn lost(&self, played: &Played, wanted: &BTreeSet<ObjectId>, live: &Index<'_>) -> Vec<Loss> {
        // A Kustomization whose rename waits has a setting of its own until then.
        let waiting: BTreeSet<ObjectId> = self.later.iter().flat_map(Renames::keys).cloned().collect();
        let of_given_away = &self.marking | &waiting;
        let marking = |loss: &Loss| if loss.is_given_away() { &of_given_away } else { &self.marking };
        lost(played, wanted).into_iter().map(|loss| loss.clone().with_mark(marking(&loss), live)).collect()
    }
}

/// A list of steps.
#[derive(Clone, Default)]
struct List {
    holds: Holds,
    /// Renames that come after the rest of the change, one group after the other.
    later: Vec<Renames>,
    /// All holds end with the change.
    ends_with_change: bool,
}

/// Objects that a list of steps must keep.
struct Goal {
    /// Objects that the change lets something manage, even if it does not come to that.
    wanted: BTreeSet<ObjectId>,
    /// Objects that something manages if the change is merged at once.
    managed_at_once: BTreeSet<ObjectId>,
}

impl Goal {
    fn is_reached(&self, played: &Played) -> bool {
        lost(played, &self.wanted).is_empty() && ensure_managed(&self.managed_at_once, played).is_ok()
    }
}

/// Owners that the change suspends, and what they have once they are resumed.
#[derive(Default)]
pub(crate) struct Asleep {
    pub(crate) owners: Vec<ObjectId>,
    pub(crate) objects: BTreeSet<ObjectId>,
}

/// The plans of a list of steps.
struct Played {
    steps: Vec<FoundMove>,
    last: Snapshot,
    /// Holds that the first step sets in Git, and that do not reach their owners.
    without_effect: Holds,
}

impl Played {
    /// Returns an identity as it is written if none of the plans shows its names.
    fn written(&self, id: ObjectId) -> ObjectId {
        self.steps.iter().fold(id, |id, found| found.step.secrets.written(&id))
    }
}

fn plans(played: &Played) -> impl Iterator<Item = &Plan> {
    played.steps.iter().map(|found| &found.step.plan)
}

/// `wanted` are objects that the change lets something manage, even if it does not come to that.
fn lost(played: &Played, wanted: &BTreeSet<ObjectId>) -> Vec<Loss> {
    losses(played.steps.iter().map(|found| (&found.step.plan, &found.step.secrets)), &played.last, wanted)
}

impl Trees {
    /// Finds the shortest list that loses nothing. `first` is the change alone. Where that is needed, renames come in
    /// steps of their own.
    ///
    /// Fails if there is none, with the object and the rule that prevent it.
    async fn find(
        &self,
        planner: &mut Planner<'_>,
        start: &StepState<'_>,
        goal: &Goal,
        first: &Played,
    ) -> Result<Found> {
        let (live, mut tries) = (&*start.snapshot, 0);
        let found = self.find_marking(planner, start, goal, first, Way::default(), &mut tries).await;
        let later = renamed_parents(live, &first.last);
        if later.is_empty() || found.as_ref().is_ok_and(|found| !cost(found, live, first).leaves_owner()) {
            return found;
        }
        let way = Way { later, ..Way::default() };
        let other = self.find_marking(planner, start, goal, first, way, &mut tries).await;
        better(found, other, live, first)
    }

    /// Finds the shortest list of this way that loses nothing. What the settings of Kustomizations would leave over, or
    /// where they do not help, objects are marked in their place.
    async fn find_marking(
        &self,
        planner: &mut Planner<'_>,
        start: &StepState<'_>,
        goal: &Goal,
        first: &Played,
        mut way: Way,
        tries: &mut usize,
    ) -> Result<Found> {
        let (live, mut best) = (&*start.snapshot, None);
        loop {
            let found = self.find_list(planner, start, goal, first, &way, tries).await;
            let blamed = match &found {
                Ok((list, played)) => leaving_over(&list.holds, live, &played.as_ref().unwrap_or(first).last),
                Err(_) if best.is_none() => staying(live, &first.last),
                Err(_) => BTreeSet::new(),
            };
            let found = found.and_then(|found| ensure_good(found, live, first));
            let found = match best.take() {
                Some(best) => better(best, found, live, first),
                None => found,
            };
            if blamed.is_subset(&way.marking) || *tries >= MAX_LISTS {
                return found;
            }
            way.marking.extend(blamed);
            best = Some(found);
        }
    }

    /// Finds the shortest list of this way that loses nothing. `tries` is the number of lists that were tried.
    async fn find_list(
        &self,
        planner: &mut Planner<'_>,
        start: &StepState<'_>,
        goal: &Goal,
        first: &Played,
        way: &Way,
        tries: &mut usize,
    ) -> Result<Found> {
        let live = &*start.snapshot;
        let index = Index::build(live);
        let (mut holds, mut tried, mut vain) = (Holds::new(), BTreeSet::new(), Holds::new());
        let mut best = None;
        if !way.later.is_empty() {
            best = Some(self.play(planner, start, &way.list(&holds)).await?);
        }
        let lost_first = way.lost(best.as_ref().unwrap_or(first), &goal.wanted, &index);
        while *tries < MAX_LISTS {
            let lost = way.lost(best.as_ref().unwrap_or(first), &goal.wanted, &index);
            if lost.is_empty() {
                break;
            }
            *tries += 1;
            let next = next_holds(&holds, &mut tried, &lost, live);
            holds = next.map_err(|loss| no_list(&loss, &vain, best.as_ref().unwrap_or(first)))?;
            let played = self.play(planner, start, &way.list(&holds)).await?;
            // The first one that was tried costs least.
            vain = played.without_effect.clone().into_iter().chain(vain).collect();
            best = Some(played);
        }
        let found = best.as_ref().unwrap_or(first);
        if let Some(loss) = way.lost(found, &goal.wanted, &index).first() {
            return Err(no_list(loss, &vain, found));
        }
        ensure_managed(&goal.managed_at_once, found)?;
        // What is not needed is left out.
        let mut leaving = LeavingOut::new(holds, &lost_first, live);
        for _ in *tries..MAX_LISTS {
            let Some(fewer) = leaving.fewer() else { break };
            *tries += 1;
            let played = self.play(planner, start, &way.list(&fewer)).await?;
            let is_good = goal.is_reached(&played);
            leaving.take(&way.lost(&played, &goal.wanted, &index), is_good);
            best = if is_good { Some(played) } else { best };
        }
        let list = way.list(&leaving.into_holds());
        let mut steps = best.iter().flat_map(|played| &played.steps);
        if way.later.is_empty() && steps.any(|found| found.role == Role::HeldChange) {
            let shorter = List { ends_with_change: true, ..list.clone() };
            let played = self.play(planner, start, &shorter).await?;
            if goal.is_reached(&played) {
                return Ok((shorter, Some(played)));
            }
        }
        Ok((list, best))
    }

    /// Plans the steps of a list: its holds alone, the change with those that must stay and without what comes later, and the change.
    async fn play(&self, planner: &mut Planner<'_>, start: &StepState<'_>, list: &List) -> Result<Played> {
        let holds = &list.holds;
        let by_hand: Vec<&ObjectId> = holds.iter().filter(|(_, hold)| hold.is_by_hand()).map(|(id, _)| id).collect();
        let (mut pending, mut held) = (vec![], vec![]);
        if !holds.is_empty() || !list.later.is_empty() {
            let mut tree = self.deployed.clone();
            let in_git = holds.iter().filter(|(_, hold)| !hold.is_by_hand());
            let patches = patch(&mut tree, &in_git.map(|(id, hold)| (id.clone(), *hold)).collect(), &start.snapshot)?;
            // What is deployed can have all of them already.
            if !patches.is_empty() || !by_hand.is_empty() {
                pending.push((Role::Hold, patches, tree, vec![]));
            }
            if !list.ends_with_change {
                held = self.held_targets(list, &start.snapshot);
            }
            let mut before = &self.target;
            for (at, (waiting, tree)) in held.iter().enumerate() {
                let role = if at == 0 { Role::HeldChange } else { Role::Rename };
                // An earlier run can have taken this step.
                if *tree != self.deployed {
                    pending.push((role, FilePatch::between(before, tree), tree.clone(), waiting.clone()));
                }
                before = tree;
            }
        }
        let patches = match held.last() {
            Some((_, held)) => FilePatch::between(held, &self.target),
            None if pending.is_empty() => self.patches_to_end(),
            None => vec![],
        };
        pending.push((Role::Change, patches, self.target.clone(), vec![]));
        let (mut steps, mut state, mut without_effect) = (vec![], start.clone(), Holds::new());
        if !by_hand.is_empty() {
            let Field { name, value, .. } = Hold::Keep.field();
            let mark = BTreeMap::from([(name.to_owned(), Some(value.to_owned()))]);
            state.edit(|snapshot| by_hand.iter().for_each(|id| annotate(snapshot, id, &mark)));
        }
        for (role, patches, tree, waiting) in pending {
            let trees = match role {
                Role::Hold => planner.deployed_files(&tree),
                Role::HeldChange | Role::Rename => planner.files(&tree),
                Role::Change => self.change.clone(),
            };
            let (mut finished, next) = planner.step(&state, &trees).await?;
            planner.describe(&mut finished.plan, &trees);
            finished.plan.add_gaps(state.open.clone());
            let snapshot = std::mem::replace(&mut state, next).snapshot.into_owned();
            if role == Role::Hold {
                without_effect = gitops_core::flux::handover::without_effect(holds, &state.snapshot);
            }
            let title = String::new();
            let step = PlannedStep { title, plan: finished.plan, secrets: finished.secrets, snapshot };
            steps.push(FoundMove { role, patches, tree, waiting, step });
        }
        Ok(Played { steps, last: state.snapshot.into_owned(), without_effect })
    }
}

impl Trees {
    /// Returns what owners have after the change if nothing is deleted on the way: a deletion can take a new owner along, so that it
    /// has nothing. `first` is the change alone.
    async fn wanted(
        &self,
        planner: &mut Planner<'_>,
        start: &StepState<'_>,
        first: &Played,
    ) -> Result<BTreeSet<ObjectId>> {
        let holds: Holds = first.steps.iter().flat_map(|found| all_holds(&found.step.plan, &start.snapshot)).collect();
        if holds.is_empty() {
            return Ok(BTreeSet::new());
        }
        let state = with_holds(start, &holds);
        let held = planner.files(&self.held_target(&holds, &[], &start.snapshot));
        let (_, after) = planner.step(&state, &held).await?;
        Ok(managed_from_roots(&start.snapshot, &after.snapshot))
    }

    /// Returns what the owners that the change suspends have once they are resumed. `first` is the change alone.
    ///
    /// Fails if the change deletes something, and no file says that one of them is suspended.
    async fn asleep(&self, planner: &mut Planner<'_>, start: &StepState<'_>, first: &Played) -> Result<Asleep> {
        let secrets = first.steps.iter().map(|found| &found.step.secrets);
        let owners = SecretMask::written_by_all(secrets, put_to_sleep(&start.snapshot, &first.last));
        if owners.is_empty() {
            return Ok(Asleep::default());
        }
        let holds: Holds = first.steps.iter().flat_map(|found| all_holds(&found.step.plan, &start.snapshot)).collect();
        let (mut tree, index) = (self.held_target(&holds, &[], &start.snapshot), Index::build(&first.last));
        for owner in &owners {
            let set = set_in_tree(&mut tree, owner, Field::AWAKE, path_of_manifest(owner, &index).as_deref());
            if let Err(why) = set {
                if holds.is_empty() {
                    return Ok(Asleep::default());
                }
                let what =
                    format!("the change suspends {owner}, and what that takes over once it is resumed is not known");
                return Err(Error::refused(format!("no steps: {what}: {}", one_line(&why)))
                    .hint("merge the change without the suspension, and suspend it then"));
            }
        }
        let state = with_holds(start, &holds);
        let (finished, after) = planner.step(&state, &planner.files(&tree)).await?;
        let listed = listed(&first.last);
        let mut objects = managed_below(&owners, &after.snapshot);
        objects.retain(|id| start.snapshot.object(id).is_some() && !listed.contains(id));
        let objects = SecretMask::written_by_all([&finished.secrets], objects.into_iter().collect());
        Ok(Asleep { owners, objects: objects.into_iter().collect() })
    }

    /// Fails if the steps lose something once the Kustomizations that are suspended now are resumed.
    async fn ensure_resumable(
        &self,
        planner: &mut Planner<'_>,
        start: &StepState<'_>,
        list: &List,
        played: &Played,
        wanted: &BTreeSet<ObjectId>,
    ) -> Result<()> {
        let parked = parked(&start.snapshot, &played.last);
        if parked.is_empty() {
            return Ok(());
        }
        let mut resumed = start.clone();
        resumed.edit_settings(|snapshot| resume(&parked, snapshot));
        let later = self.play(planner, &resumed, list).await?;
        let Some(loss) = lost(&later, wanted).into_iter().next() else { return Ok(()) };
        let owners = join_limited(&parked, NAMED);
        let message = format!(
            "no steps without loss: {} is deleted once what is suspended is resumed ({owners}): {}",
            loss.object,
            one_line(&loss.reason)
        );
        Err(Error::refused(message).hint("resume it first, and run this again"))
    }

    /// Fails if the API server refuses what an owner applies with the change, such as a change of an immutable field: asked is about the
    /// present objects, with the holds that are set before.
    async fn ensure_applied(
        &self,
        planner: &mut Planner<'_>,
        start: &StepState<'_>,
        holds: &Holds,
        scope: DryRunScope,
        offline: bool,
    ) -> Result<()> {
        let state = with_holds(start, holds);
        let held = planner.files(&self.held_target(holds, &[], &start.snapshot));
        let finished = planner.rehearse(&state, &held, scope).await?;
        let FinishedPreview { plan, secrets, .. } = finished;
        let step = PlannedStep { title: String::new(), plan, secrets, snapshot: state.snapshot.into_owned() };
        let plan = step.finish(offline);
        let mut refused = plan
            .owners()
            .iter()
            .filter(|row| row.outcome == Outcome::Blocked)
            .filter(|row| row.reason.code == ReasonCode::ApplyRefused);
        let Some(row) = refused.next() else { return Ok(()) };
        let message =
            format!("no steps without loss: {} cannot apply the change: {}", row.owner, one_line(&row.reason.detail));
        Err(Error::refused(message).hint("make this change in a commit of its own, before or after the move"))
    }

    /// Returns the patches of the only step, if what is deployed is the change with settings of earlier steps, or
    /// without the last renames.
    fn patches_to_end(&self) -> Vec<FilePatch> {
        let is_rest = self.only_renames_left || ends_holds(&self.deployed, &self.target);
        if is_rest { FilePatch::between(&self.deployed, &self.target) } else { vec![] }
    }

    /// Returns true if what is deployed is the change but for renames that come in steps of their own. `last` is the
    /// state after the change.
    fn lacks_renames(&self, live: &Snapshot, last: &Snapshot) -> bool {
        let mut groups = &renamed_parents(live, last)[..];
        while let [_, rest @ ..] = groups {
            if self.held_target(&Holds::new(), groups, live) == self.deployed {
                return true;
            }
            groups = rest;
        }
        false
    }

    /// Returns the trees of a list between its holds alone and the change, each with the Kustomizations that keep their
    /// old names in it: the change without all renames that come later, then without the last groups of them.
    fn held_targets(&self, list: &List, live: &Snapshot) -> Vec<(Vec<ObjectId>, Tree)> {
        let (mut held, mut groups) = (vec![], &list.later[..]);
        loop {
            let tree = self.held_target(&list.holds, groups, live);
            if tree != *held.last().map_or(&self.target, |(_, tree)| tree) {
                held.push((groups.iter().flat_map(Renames::keys).cloned().collect(), tree));
            }
            groups = match groups {
                [] | [_] => return held,
                [_, rest @ ..] => rest,
            };
        }
    }

    /// Returns the change with the holds that must outlast it, and without the renames that come later.
    fn held_target(&self, holds: &Holds, later: &[Renames], live: &Snapshot) -> Tree {
        let (mut tree, index) = (self.target.clone(), Index::build(live));
        for (old, new) in later.iter().flatten() {
            let root = path_of_manifest(old, &index);
            if let Some(held) = with_earlier_manifest(&tree, &self.deployed, (old, new), root.as_deref()) {
                tree = held;
            }
        }
        for (owner, hold) in holds {
            let waits = later.iter().any(|renames| renames.contains_key(owner));
            if waits || matches!(hold, Hold::KeepInventory | Hold::Disable) {
                // An owner that the change deletes has no manifest in it.
                drop(hold_in_tree(&mut tree, owner, *hold, path_of_manifest(owner, &index).as_deref()));
            }
        }
        tree
    }
}

/// Returns the state with the fields of holds.
fn with_holds<'s>(start: &StepState<'s>, holds: &Holds) -> StepState<'s> {
    let mut state = start.clone();
    state.edit_settings(|snapshot| set_holds(holds, snapshot));
    state
}

/// Returns the path of the Kustomization that applies an object.
fn path_of_manifest(id: &ObjectId, index: &Index<'_>) -> Option<String> {
    let mut managers =
        index.recorded_by(id).iter().filter(|owner| !owner.is_object(id)).filter_map(|owner| index.owner(owner)?.full);
    let manager = managers.find(|manager| manager.object.id.is(GROUP, KIND))?;
    Some(KustomizationSpec::of(manager).path().to_owned())
}

/// Sets the fields of holds in a tree.
///
/// Fails if a manifest cannot be patched.
pub(super) fn patch(tree: &mut Tree, holds: &Holds, live: &Snapshot) -> Result<Vec<FilePatch>> {
    let (before, index) = (tree.clone(), Index::build(live));
    for (id, hold) in holds {
        hold_in_tree(tree, id, *hold, path_of_manifest(id, &index).as_deref()).map_err(|why| {
            let field = hold.field();
            let is_applied = index.recorded_by(id).iter().any(|owner| !owner.is_object(id));
            let hint = if is_applied {
                format!("set `{field}` where the manifest of {id} is made, commit it, and run this again")
            } else {
                let command = patches_hold(id, *hold, true);
                format!("nothing applies it, so set it by hand: `{command}`; run this again, and set it back after the last step")
            };
            Error::refused(format!("no steps without loss: {id} needs `{field}`, and {}", one_line(&why))).hint(hint)
        })?;
    }
    Ok(FilePatch::between(&before, tree))
}

fn cost((list, played): &Found, live: &Snapshot, first: &Played) -> Cost {
    Cost::of(&list.holds, live, &played.as_ref().unwrap_or(first).last)
}

/// Returns the second list if it costs no more than the first one, else the first one. `first` is the change alone.
fn better(one: Result<Found>, other: Result<Found>, live: &Snapshot, first: &Played) -> Result<Found> {
    match (&one, &other) {
        (_, Err(_)) => one,
        (Ok(found), Ok(new)) if cost(new, live, first) > cost(found, live, first) => one,
        _ => other,
    }
}

/// Fails if a list gives an object a second owner, or leaves a mark on one. `first` is the change alone.
fn ensure_good(found: Found, live: &Snapshot, first: &Played) -> Result<Found> {
    let (list, played) = (&found.0, found.1.as_ref().unwrap_or(first));
    ensure_one_owner(live, played)?;
    match mark_left(&list.holds, live, &played.last) {
        None => Ok(found),
        Some(id) => {
            let field = Hold::Protect.field();
            Err(Error::refused(format!("no steps without loss: {id} would keep `{field}`, which no owner takes away")))
        }
    }
}

/// Fails if nothing manages an object after the steps that something would manage after the change at once: what should take it over
/// cannot, because it exists.
fn ensure_managed(managed_at_once: &BTreeSet<ObjectId>, played: &Played) -> Result<()> {
    let managed = listed(&played.last);
    let left = managed_at_once.difference(&managed).find(|id| played.last.object(id).is_some());
    let Some(object) = left else { return Ok(()) };
    let rows = played.steps.last().into_iter().flat_map(|found| found.step.plan.owners());
    let blocked =
        rows.filter(|row| row.outcome == Outcome::Blocked).find(|row| row.reason.detail.contains(&object.to_string()));
    let why = blocked.map_or_else(
        || "nothing manages it in the end".to_owned(),
        |row| format!("{} does not take it over: {}", row.owner, row.reason),
    );
    Err(Error::refused(format!("no steps without loss: {object}: {}", one_line(&why)))
        .hint("let its new owner take it over, or accept that it is created anew: `kubectl gitops plan`"))
}

/// Fails if the change gives an object a second owner, which somebody else can be.
fn ensure_one_owner(first: &Snapshot, played: &Played) -> Result<()> {
    let Some((object, owners)) = contested(first, &played.last) else { return Ok(()) };
    let object = played.written(object);
    if let Some(left) = left_behind(first, &played.last, &owners) {
        let left = played.written(left);
        let message = format!(
            "no steps without loss: what keeps the objects of the owner of {left} keeps {left} too, which would apply {object} beside its new \
             owner"
        );
        return Err(Error::refused(message).hint(format!(
            "make the change of {left} in a commit of its own before, and run this for each of the two"
        )));
    }
    let names: Vec<String> = owners.iter().map(ToString::to_string).collect();
    let message = format!(
        "no steps without loss: with the change {object} is applied by {}: each undoes what the other does, and removing it from one may \
         delete it",
        names.join(" and ")
    );
    Err(Error::refused(message).hint("leave it to one of them, and run this again"))
}

/// `vain` are holds that a commit set and that did not reach their owners.
fn no_list(loss: &Loss, vain: &Holds, played: &Played) -> Error {
    let vain = loss.holder().and_then(|holder| Some((holder, vain.get(holder)?.field())));
    if let Some((holder, field)) = vain {
        let message = format!(
            "no steps without loss: {} needs `{field}` on {holder}, which its manifest alone does not set: a patch, a component or \
             something else that builds it decides",
            loss.object
        );
        return Error::refused(message)
            .hint(format!("set `{field}` where {holder} gets the field, commit it, and run this again"));
    }
    let owner = loss.owner.as_ref().map(|owner| format!(" by {owner}")).unwrap_or_default();
    let mut message = format!("no steps without loss: {} is deleted{owner}: {}", loss.object, one_line(&loss.reason));
    if let Some(gap) = played.steps.iter().flat_map(|found| found.step.plan.gaps()).next() {
        message += &format!("; the plan is incomplete: {}: {}", one_line(&gap.subject), one_line(&gap.message));
    }
    Error::refused(message)
        .hint("`kubectl gitops plan` shows what is deleted at once; split the change, or accept the loss")
}
