//! The search for steps that hand objects over: lists of patches, each judged by its plans.

use std::collections::BTreeSet;

use super::planner::{Planner, StepState, StepTrees};
use super::{PlannedStep, SharedWork, TreeArgs};
use crate::commands::Session;
use crate::commands::prune::spokes::SpokeClusters;
use crate::error::{Error, Result};
use crate::output::sanitize::one_line;
use crate::tools::git::WorktreeState;
use crate::tools::worktree;
use gitops_core::flux::handover::patch::{FilePatch, hold_in_tree};
use gitops_core::flux::handover::{Hold, Holds, Loss, MAX_LISTS, losses, next_holds};
use gitops_core::flux::source::tree::Tree;
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::kubernetes::snapshot::Snapshot;

/// A list of steps that loses nothing.
pub(crate) struct FoundHandover {
    /// Objects that are lost without it.
    pub(crate) lost_at_once: Vec<ObjectId>,
    pub(crate) holds: Holds,
    /// Patches and plan of each step.
    pub(crate) steps: Vec<(Vec<FilePatch>, PlannedStep)>,
    /// State after the last step.
    pub(crate) last: Snapshot,
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
    let (spokes, shared) = (SpokeClusters::new(), SharedWork::default());
    let (mut planner, start, target) = Planner::prepare(args, session, snapshot, &spokes, offline, &shared).await?;
    planner.without_dry_runs();
    let (folder, commit) = planner.deployed()?;
    let trees = Trees {
        deployed: worktree::read(&folder, &WorktreeState::Revision(commit))?,
        target: worktree::read(&folder, &args.options.state())?,
        change: target,
    };
    let (mut holds, mut tried) = (Holds::new(), BTreeSet::new());
    let first = trees.play(&mut planner, &start, &holds).await?;
    let lost_at_once: Vec<ObjectId> = lost(&first).into_iter().map(|loss| loss.object).collect();
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
    // What is not needed is left out, one after the other.
    for owner in holds.keys().cloned().collect::<Vec<_>>() {
        let mut fewer = holds.clone();
        fewer.remove(&owner);
        if holds.len() > MAX_LISTS || fewer.is_empty() {
            break;
        }
        let played = trees.play(&mut planner, &start, &fewer).await?;
        if lost(&played).is_empty() {
            (holds, best) = (fewer, played);
        }
    }
    let Played { steps, last } = best;
    Ok(FoundHandover { lost_at_once, holds, steps, last })
}

/// The trees between which objects move.
struct Trees {
    deployed: Tree,
    target: Tree,
    change: StepTrees,
}

/// The plans of a list of steps.
struct Played {
    steps: Vec<(Vec<FilePatch>, PlannedStep)>,
    last: Snapshot,
}

fn lost(played: &Played) -> Vec<Loss> {
    losses(played.steps.iter().map(|(_, step)| (&step.plan, &step.secrets)), &played.last)
}

impl Trees {
    /// Plans the steps of these holds: the holds alone, the change with those that must stay, and the change.
    async fn play(&self, planner: &mut Planner<'_>, start: &StepState<'_>, holds: &Holds) -> Result<Played> {
        let mut pending: Vec<(Vec<FilePatch>, Option<StepTrees>)> = vec![];
        if !holds.is_empty() {
            let mut tree = self.deployed.clone();
            let patches = patch(&mut tree, holds)?;
            pending.push((patches, Some(planner.files(&tree))));
            let mut tree = self.target.clone();
            for (owner, hold) in holds.iter().filter(|(_, hold)| **hold == Hold::KeepInventory) {
                // An owner that the change deletes has no manifest in it.
                let _ = hold_in_tree(&mut tree, owner, *hold);
            }
            let patches = FilePatch::between(&self.target, &tree);
            if !patches.is_empty() {
                pending.push((patches, Some(planner.files(&tree))));
            }
        }
        pending.push((vec![], None));
        let (mut steps, mut state) = (vec![], start.clone());
        for (patches, trees) in pending {
            let trees = trees.as_ref().unwrap_or(&self.change);
            let (mut finished, next) = planner.step(&state, trees).await?;
            planner.describe(&mut finished.plan, trees);
            finished.plan.add_gaps(state.open.clone());
            let snapshot = std::mem::replace(&mut state, next).snapshot.into_owned();
            let title = String::new();
            steps.push((patches, PlannedStep { title, plan: finished.plan, secrets: finished.secrets, snapshot }));
        }
        Ok(Played { steps, last: state.snapshot.into_owned() })
    }
}

/// Sets the fields of holds in a tree.
///
/// Fails if a manifest cannot be patched.
pub(super) fn patch(tree: &mut Tree, holds: &Holds) -> Result<Vec<FilePatch>> {
    let before = tree.clone();
    for (id, hold) in holds {
        hold_in_tree(tree, id, *hold).map_err(|why| {
            let (field, value) = hold.field();
            Error::refused(format!("no steps without loss: {id} needs `{field}: {value}`, and {}", one_line(&why)))
                .hint(format!(
                    "set `{field}: {value}` where the manifest of {id} is made, commit it, and run this again"
                ))
        })?;
    }
    Ok(FilePatch::between(&before, tree))
}

fn no_list(loss: &Loss) -> Error {
    let owner = loss.owner.as_ref().map(|owner| format!(" by {owner}")).unwrap_or_default();
    let message = format!("no steps without loss: {} is deleted{owner}: {}", loss.object, one_line(&loss.reason));
    Error::refused(message)
        .hint("`kubectl gitops plan` shows what is deleted at once; split the change, or accept the loss")
}
