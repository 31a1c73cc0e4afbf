//! The steps of a removal: patches of the tree and deletions by hand, each judged by its plan.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::handover::patch;
use super::planner::{Planner, SearchStart, SearchWork, StepState};
use super::{PlannedStep, TreeArgs};
use crate::commands::Session;
use crate::error::{Error, Result};
use crate::output::text::sanitize::one_line;
use crate::tools::git::WorktreeState;
use crate::tools::worktree;
use gitops_core::flux::handover::patch::{FilePatch, is_below, remove_from_tree};
use gitops_core::flux::handover::{Hold, Holds, set_holds};
use gitops_core::flux::retire::{ClaimFate, NoOrder, Order, Unit, Way, ensure_own, fates, once_gone, order};
use gitops_core::flux::source::tree::Tree;
use gitops_core::flux::spec::{KustomizationSpec, NamespacedName};
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::kubernetes::referrer::Referrer;
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::OwnerId;
use gitops_core::ownership::index::Index;
use gitops_core::ownership::schemes::flux_kustomization::{GROUP, KIND};
use gitops_core::plan::FinishedPlan;
use gitops_core::plan::mask::SecretMask;
use gitops_core::text::join_limited;

/// Number of files and paths that a message names.
const NAMED: usize = 5;

/// What is removed.
pub(crate) struct Removal {
    pub(crate) targets: BTreeSet<ObjectId>,
    /// Finalizers that something outside of the cluster removes.
    pub(crate) served: BTreeSet<String>,
}

/// Steps that remove everything.
pub(crate) struct FoundRetirement {
    /// Directory of the files.
    pub(crate) folder: PathBuf,
    pub(crate) order: Order,
    pub(crate) steps: Vec<FoundStep>,
    /// State after the last step.
    pub(crate) last: Snapshot,
}

/// One step.
pub(crate) struct FoundStep {
    pub(crate) patches: Vec<FilePatch>,
    /// Objects that are removed; none if the step prepares their owners.
    pub(crate) removes: BTreeSet<ObjectId>,
    /// Those of them that are deleted by hand.
    pub(crate) by_hand: BTreeSet<ObjectId>,
    /// Owners whose policy the step sets.
    pub(crate) keeping: BTreeSet<ObjectId>,
    /// Those of them where that is done by hand.
    pub(crate) prepares: BTreeSet<ObjectId>,
    pub(crate) plan: FinishedPlan,
    pub(crate) secrets: SecretMask,
    /// Claims that the plan deletes, with what becomes of their data.
    pub(crate) data: Vec<ClaimFate>,
    /// Objects that nobody has, which the plan deletes, each with what takes it along.
    pub(crate) strangers: Vec<(ObjectId, ObjectId)>,
    /// State that the step begins with.
    pub(crate) before: Snapshot,
    /// Consequences of the patches that no plan of this cluster has.
    pub(crate) notes: Vec<String>,
}

/// Finds the steps that remove owners and namespaces.
///
/// Fails as the plan of the tree, and if there is no order: then with the object and the rule that prevent it.
pub(crate) async fn find_retirement(
    args: &TreeArgs,
    removal: &Removal,
    session: &mut Session,
    snapshot: &Snapshot,
    offline: bool,
) -> Result<FoundRetirement> {
    let work = SearchWork::default();
    let SearchStart { mut planner, mut state, deployed, .. } =
        work.start_steps(args, session, snapshot, offline).await?;
    let (referrers, gaps) = planner.referrers().await;
    let accounts = planner.default_accounts().await;
    let order = order(&removal.targets, snapshot, &referrers, &removal.served, &accounts).map_err(refused)?;
    let tree = worktree::read(&deployed.folder, &WorktreeState::Revision(deployed.commit.clone()))?;
    state.open.extend(gaps);
    let mut play = Play { order: &order, referrers, tree, offline, steps: 0 };
    let mut steps = vec![];
    if !order.keeping.is_empty() {
        steps.push(play.prepare(&mut planner, &mut state).await?);
    }
    for units in &order.steps {
        steps.push(play.remove(units, &mut planner, &mut state).await?);
    }
    Ok(FoundRetirement { folder: deployed.folder, steps, last: state.snapshot.into_owned(), order })
}

fn refused(no_order: NoOrder) -> Error {
    let NoOrder { object, rule, hint } = no_order;
    let error = Error::refused(format!("no order removes everything: {object}: {}", one_line(&rule)));
    match hint {
        Some(hint) => error.hint(hint),
        None => error.hint("`kubectl gitops plan --steps FILE` shows the plans of an order of your own"),
    }
}

/// The steps so far.
struct Play<'o> {
    order: &'o Order,
    referrers: Vec<Referrer>,
    /// Files after the last step.
    tree: Tree,
    offline: bool,
    /// Number of steps so far.
    steps: usize,
}

impl Play<'_> {
    /// Lets Kustomizations delete their objects that would leave them behind.
    async fn prepare<'s>(&mut self, planner: &mut Planner<'s>, state: &mut StepState<'s>) -> Result<FoundStep> {
        let units = self.order.steps.iter().flatten().filter(|unit| matches!(unit.way, Way::Git(_)));
        let pruned: BTreeSet<&ObjectId> = units.flat_map(|unit| &unit.removes).collect();
        let (in_git, by_hand): (Vec<&ObjectId>, Vec<&ObjectId>) =
            self.order.keeping.iter().partition(|id| pruned.contains(id));
        let holds: Holds = in_git.into_iter().map(|id| (id.clone(), Hold::Delete)).collect();
        let prepared: Holds = by_hand.into_iter().map(|id| (id.clone(), Hold::Delete)).collect();
        let patches = patch(&mut self.tree, &holds, &state.snapshot)?;
        state.edit(|snapshot| set_holds(&prepared, snapshot));
        let step = self.step(patches, BTreeSet::new(), &[], planner, state).await?;
        let prepares = prepared.keys().map(|id| step.secrets.written(id)).collect();
        let keeping = self.order.keeping.iter().map(|id| step.secrets.written(id)).collect();
        Ok(FoundStep { prepares, keeping, ..step })
    }

    /// Removes units at once.
    async fn remove<'s>(
        &mut self,
        units: &[Unit],
        planner: &mut Planner<'s>,
        state: &mut StepState<'s>,
    ) -> Result<FoundStep> {
        let before = self.tree.clone();
        let (mut manifests, mut by_hand) = (BTreeMap::new(), BTreeSet::new());
        for unit in units {
            let Way::Git(parent) = &unit.way else {
                by_hand.extend(unit.removes.iter().cloned());
                continue;
            };
            let spec = spec_of(&state.snapshot, parent);
            if spec.as_ref().is_some_and(|spec| !spec.prunes()) {
                let index = Index::build(&state.snapshot);
                let owner = OwnerId::new("flux", KIND, &parent.namespace, &parent.name);
                unit.removes.iter().try_for_each(|id| ensure_own(&index, &owner, id)).map_err(refused)?;
                by_hand.extend(unit.removes.iter().cloned());
            }
            let path = spec.map(|spec| spec.path().to_owned()).unwrap_or_default();
            manifests.extend(unit.removes.iter().map(|id| (id.clone(), path.clone())));
        }
        let staying = state.snapshot.resources.iter().filter(|full| full.object.id.is(GROUP, KIND));
        let staying =
            staying.filter(|full| !manifests.contains_key(&full.object.id) && !by_hand.contains(&full.object.id));
        let roots: BTreeSet<String> = staying.map(|full| KustomizationSpec::of(full).path().to_owned()).collect();
        remove_from_tree(&mut self.tree, &manifests, &roots).map_err(|(id, why)| {
            let message = format!("no order removes everything: {id} must leave Git, and {}", one_line(&why));
            Error::refused(message)
                .hint(format!("remove the manifest of {id} where it is made, commit it, and run this again"))
        })?;
        let patches = FilePatch::between(&before, &self.tree);
        let paths: BTreeSet<&str> = manifests.values().map(String::as_str).collect();
        let notes = shared_files(&patches, &paths).into_iter().collect();
        Ok(FoundStep { notes, ..self.step(patches, by_hand, units, planner, state).await? })
    }

    /// Plans a step with the tree as it is now, judges it, and goes on to the state after it.
    async fn step<'s>(
        &mut self,
        patches: Vec<FilePatch>,
        deleted: BTreeSet<ObjectId>,
        units: &[Unit],
        planner: &mut Planner<'s>,
        state: &mut StepState<'s>,
    ) -> Result<FoundStep> {
        let mut trees = planner.deployed_files(&self.tree);
        trees.by_hand.clone_from(&deleted);
        let (mut finished, mut next) = planner.step(state, &trees).await?;
        finished.plan.set_live_referrers(self.referrers.clone());
        planner.describe(&mut finished.plan, &trees);
        finished.plan.add_gaps(state.open.clone());
        let before = state.snapshot.clone().into_owned();
        let title = String::new();
        let planned = PlannedStep { title, plan: finished.plan, secrets: finished.secrets, snapshot: before };
        let plan = planned.finish(self.offline);
        let PlannedStep { secrets, snapshot: before, .. } = &planned;
        // A name with placeholders is none that the states have: judged are the objects themselves.
        let (order, judged) = (self.order, planned.finish_unmasked(self.offline));
        next.edit(|snapshot| once_gone(&judged, snapshot));
        order.judge(units, &judged, before, &next.snapshot).map_err(|no_order| refused(no_order.masked(secrets)))?;
        let data = fates(&judged, before, self.steps + 1).into_iter().map(|fate| fate.masked(secrets)).collect();
        let found = order.strangers(&judged, before).into_iter();
        let strangers = found.map(|(id, cause)| (secrets.written(&id), secrets.written(&cause))).collect();
        self.steps += 1;
        *state = next;
        let removes = units.iter().flat_map(|unit| unit.removes.iter().map(|id| secrets.written(id))).collect();
        let by_hand = deleted.iter().map(|id| secrets.written(id)).collect();
        let (prepares, keeping, notes) = (BTreeSet::new(), BTreeSet::new(), vec![]);
        let PlannedStep { secrets, snapshot: before, .. } = planned;
        Ok(FoundStep { patches, removes, by_hand, prepares, keeping, plan, secrets, data, strangers, before, notes })
    }
}

/// Says which files of patches are outside of the paths of the Kustomizations that build them: others, such as those of another cluster,
/// can build them too.
fn shared_files(patches: &[FilePatch], paths: &BTreeSet<&str>) -> Option<String> {
    let outside: Vec<&str> = patches
        .iter()
        .map(|patch| &*patch.file)
        .filter(|file| !paths.iter().any(|path| is_below(file, path)))
        .collect();
    let paths = join_limited(paths, NAMED);
    let files = join_limited(&outside, NAMED);
    (!outside.is_empty()).then(|| {
        format!("{files}: outside of {paths}; whatever else builds this, such as another cluster, loses what the patch removes too")
    })
}

fn spec_of(snapshot: &Snapshot, key: &NamespacedName) -> Option<KustomizationSpec> {
    snapshot.resource(&ObjectId::new(GROUP, KIND, &key.namespace, &key.name)).map(KustomizationSpec::of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_outside_of_the_path_can_be_built_by_others_too() {
        let patch = |file: &str| FilePatch::of(file, Some("a\n"), Some("b\n"));
        let paths = BTreeSet::from(["./clusters/prod", "./apps"]);
        assert_eq!(shared_files(&[patch("clusters/prod/web.yaml"), patch("apps/a.yaml")], &paths), None);
        let note = shared_files(&[patch("base/web.yaml"), patch("clusters/production/a.yaml")], &paths).unwrap();
        assert!(
            note.starts_with("base/web.yaml, clusters/production/a.yaml: outside of ./apps, ./clusters/prod;"),
            "{note}"
        );
        assert_eq!(shared_files(&[patch("web.yaml")], &BTreeSet::from(["./"])), None);
    }
}
