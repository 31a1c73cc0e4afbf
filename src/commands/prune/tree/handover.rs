//! The search for steps that hand objects over: lists of patches, each judged by its plans.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::planner::{Planner, SearchStart, SearchWork, StepState, StepTrees};
use super::steps::annotate;
use super::{PlannedStep, TreeArgs};
use crate::commands::Session;
use crate::error::{Error, Result};
use crate::output::text::sanitize::one_line;
use crate::tools::git::WorktreeState;
use crate::tools::worktree;
use gitops_core::flux::handover::patch::{Field, FilePatch, hold_in_tree};
use gitops_core::flux::handover::{Hold, Holds, Loss, MAX_LISTS, listed, losses, next_holds};
use gitops_core::flux::source::tree::Tree;
use gitops_core::flux::spec::SourceId;
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::plan::Outcome;

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
    /// Branch that the change is merged into.
    pub(crate) into: Option<String>,
}

/// Purpose of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The holds alone.
    Hold,
    /// The change with those holds that must outlast it.
    HeldChange,
    Change,
}

/// One step.
pub(crate) struct FoundMove {
    pub(crate) role: Role,
    pub(crate) patches: Vec<FilePatch>,
    /// Files that the sources have with it.
    pub(crate) tree: Tree,
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
        work.start(args, session, snapshot, offline).await?;
    let trees = Trees {
        target: worktree::read(&deployed.folder, &args.options.state())?,
        deployed: worktree::read(&deployed.folder, &WorktreeState::Revision(deployed.commit.clone()))?,
        change,
    };
    warn_of_commits(&planner, &trees, &deployed.folder, &deployed.commit, session)?;
    let (mut holds, mut tried) = (Holds::new(), BTreeSet::new());
    let first = trees.play(&mut planner, &start, &holds).await?;
    let lost_at_once: Vec<ObjectId> = lost(&first).into_iter().map(|loss| loss.object).collect();
    let managed_at_once = listed(&first.last);
    let mut best = first;
    for _ in 0..MAX_LISTS {
        let lost = lost(&best);
        if lost.is_empty() {
            break;
        }
        holds = next_holds(&holds, &mut tried, &lost, snapshot).map_err(|loss| no_list(&loss))?;
        best = trees.play(&mut planner, &start, &holds).await?;
    }
    if let Some(loss) = lost(&best).first() {
        return Err(no_list(loss));
    }
    ensure_managed(&managed_at_once, &best)?;
    // What is not needed is left out, one after the other.
    for owner in holds.keys().cloned().collect::<Vec<_>>() {
        let mut fewer = holds.clone();
        fewer.remove(&owner);
        if holds.len() > MAX_LISTS || fewer.is_empty() {
            break;
        }
        let played = trees.play(&mut planner, &start, &fewer).await?;
        if lost(&played).is_empty() && ensure_managed(&managed_at_once, &played).is_ok() {
            (holds, best) = (fewer, played);
        }
    }
    let Played { steps, last } = best;
    let into = planner.subject().into.clone();
    Ok(FoundHandover { lost_at_once, holds, steps, last, folder: deployed.folder, sources: deployed.sources, into })
}

/// Warns of commits that are deployed and that the change does not have, unless they only make settings of steps: those end with it.
fn warn_of_commits(
    planner: &Planner<'_>,
    trees: &Trees,
    folder: &Path,
    commit: &str,
    session: &mut Session,
) -> Result<()> {
    let subject = planner.subject();
    let (Some(text), Some(base)) = (subject.behind_text(), &subject.merge_base) else { return Ok(()) };
    let base = worktree::read(folder, &WorktreeState::Revision(base.clone()))?;
    if FilePatch::between(&base, &trees.deployed).iter().all(FilePatch::is_of_holds) {
        return Ok(());
    }
    session.terminal.warning(&text);
    session.terminal.hint(&format!("merge them into the change first: `git merge {commit}`"));
    Ok(())
}

/// The trees between which objects move.
struct Trees {
    deployed: Tree,
    target: Tree,
    change: StepTrees,
}

/// The plans of a list of steps.
struct Played {
    steps: Vec<FoundMove>,
    last: Snapshot,
}

fn lost(played: &Played) -> Vec<Loss> {
    losses(played.steps.iter().map(|found| (&found.step.plan, &found.step.secrets)), &played.last)
}

impl Trees {
    /// Plans the steps of these holds: the holds alone, the change with those that must stay, and the change.
    async fn play(&self, planner: &mut Planner<'_>, start: &StepState<'_>, holds: &Holds) -> Result<Played> {
        let by_hand: Vec<&ObjectId> = holds.iter().filter(|(_, hold)| hold.is_by_hand()).map(|(id, _)| id).collect();
        let mut pending = vec![];
        if !holds.is_empty() {
            let mut tree = self.deployed.clone();
            let in_git = holds.iter().filter(|(_, hold)| !hold.is_by_hand());
            let patches = patch(&mut tree, &in_git.map(|(id, hold)| (id.clone(), *hold)).collect())?;
            // What is deployed can have all of them already.
            if !patches.is_empty() || !by_hand.is_empty() {
                pending.push((Role::Hold, patches, tree));
            }
            let tree = self.held_target(holds);
            let patches = FilePatch::between(&self.target, &tree);
            if !patches.is_empty() {
                pending.push((Role::HeldChange, patches, tree));
            }
        }
        pending.push((Role::Change, self.settings_to_end(pending.len()), self.target.clone()));
        let (mut steps, mut state) = (vec![], start.clone());
        if !by_hand.is_empty() {
            let Field { name, value, .. } = Hold::Keep.field();
            let mark = BTreeMap::from([(name.to_owned(), Some(value.to_owned()))]);
            state.edit(|snapshot| by_hand.iter().for_each(|id| annotate(snapshot, id, &mark)));
        }
        for (role, patches, tree) in pending {
            let trees = if role == Role::Change { self.change.clone() } else { planner.files(&tree) };
            let (mut finished, next) = planner.step(&state, &trees).await?;
            planner.describe(&mut finished.plan, &trees);
            finished.plan.add_gaps(state.open.clone());
            let snapshot = std::mem::replace(&mut state, next).snapshot.into_owned();
            let title = String::new();
            let step = PlannedStep { title, plan: finished.plan, secrets: finished.secrets, snapshot };
            steps.push(FoundMove { role, patches, tree, step });
        }
        Ok(Played { steps, last: state.snapshot.into_owned() })
    }
}

impl Trees {
    /// Returns the patches of the last step, if no step is `left` before it and what is deployed is the change with settings of
    /// earlier steps.
    fn settings_to_end(&self, left: usize) -> Vec<FilePatch> {
        let patches = if left == 0 { FilePatch::between(&self.deployed, &self.target) } else { vec![] };
        if patches.iter().all(FilePatch::ends_holds) { patches } else { vec![] }
    }

    /// Returns the change with the holds that must outlast it.
    fn held_target(&self, holds: &Holds) -> Tree {
        let mut tree = self.target.clone();
        for (owner, hold) in holds {
            if let Hold::KeepInventory | Hold::Disable = hold {
                // An owner that the change deletes has no manifest in it.
                drop(hold_in_tree(&mut tree, owner, *hold));
            }
        }
        tree
    }
}

/// Sets the fields of holds in a tree.
///
/// Fails if a manifest cannot be patched.
pub(super) fn patch(tree: &mut Tree, holds: &Holds) -> Result<Vec<FilePatch>> {
    let before = tree.clone();
    for (id, hold) in holds {
        hold_in_tree(tree, id, *hold).map_err(|why| {
            let field = hold.field();
            Error::refused(format!("no steps without loss: {id} needs `{field}`, and {}", one_line(&why)))
                .hint(format!("set `{field}` where the manifest of {id} is made, commit it, and run this again"))
        })?;
    }
    Ok(FilePatch::between(&before, tree))
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

fn no_list(loss: &Loss) -> Error {
    let owner = loss.owner.as_ref().map(|owner| format!(" by {owner}")).unwrap_or_default();
    let message = format!("no steps without loss: {} is deleted{owner}: {}", loss.object, one_line(&loss.reason));
    Error::refused(message)
        .hint("`kubectl gitops plan` shows what is deleted at once; split the change, or accept the loss")
}
