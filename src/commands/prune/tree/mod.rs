//! `prune --plan --repo DIR`: what Flux will do once a working tree is its source.

mod args;
mod builds;
mod controllers;
mod self_check;
mod shared;
mod subject;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout_at;

use super::rehearsal::Rehearsal;
use super::sources;
use super::spokes::SpokeClusters;
use crate::commands::Session;
use crate::error::{Error, Result};
use crate::output::progress::BuildProgress;
use crate::tools::chart_folder::ChartFolder;
use crate::tools::git::WorktreeState;
use crate::tools::programs::flux_operator::FluxOperator;
use crate::tools::programs::helm::Helm;
use crate::tools::programs::kustomize::Kustomize;
use crate::tools::sandbox;
pub use args::{TreeArgs, TreeOptions, WORKING_TREE};
use builds::Builds;
use gitops_core::flux::build::secrets_in_use;
use gitops_core::flux::kustomize_controller::{KustomizeController, KustomizeVersions};
use gitops_core::flux::simulation::questions::{Answers, FinishedPreview, Needs, Progress};
use gitops_core::flux::simulation::{DryRunScope, Preview, PreviewInput};
use gitops_core::flux::source::artifact::Artifact;
use gitops_core::flux::spec::SourceId;
use gitops_core::kubernetes::gap::Gap;
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::plan::Plan;
use gitops_core::plan::mask::SecretMask;
use gitops_core::text::join_limited;
use self_check::LastApplied;
pub(super) use shared::{CheckoutFacts, SharedWork};
use subject::PlannedTree;

/// Number of objects that one message names.
const NAMED_OBJECTS: usize = 5;

/// Reason why a tree has no plan for a cluster.
pub(super) enum NotPlanned {
    /// Nothing in the cluster follows the tree.
    Unaffected(Error),
    Failed(Error),
}

impl From<Error> for NotPlanned {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<NotPlanned> for Error {
    fn from(reason: NotPlanned) -> Self {
        match reason {
            NotPlanned::Unaffected(error) | NotPlanned::Failed(error) => error,
        }
    }
}

/// Plans what Flux does with the tree. Also returns the names with values of Secrets, which must be masked before the plan
/// is shown. `spokes` are other clusters that the snapshot has, with a connection. `offline` is true if the snapshot came from
/// a file: then no cluster is asked. `shared` has what was read and built for other clusters.
///
/// Fails if a directory cannot be read, if kustomize cannot be run, or if no source of the cluster is the tree.
pub(super) async fn plan(
    args: &TreeArgs,
    session: &mut Session,
    snapshot: &Snapshot,
    spokes: &SpokeClusters,
    offline: bool,
    shared: &SharedWork,
) -> Result<(Plan, SecretMask), NotPlanned> {
    let TreeArgs { repo, options } = args;
    let deadline = Instant::now().checked_add(options.plan_timeout).filter(|_| !options.plan_timeout.is_zero());
    check_sandbox(options, session)?;
    let found = sources::find(repo.as_deref(), options.branch.as_deref(), &options.source, snapshot, shared)?;
    let mut planned = PlannedTree::of(args, &found, snapshot, shared)?;
    let folders = found.folders;
    for unused in sources::unused(&folders, snapshot)? {
        session.terminal.warning(&format!("nothing in this cluster uses {unused}"));
    }
    let kustomize = Kustomize::new(options.kustomize.as_deref())
        .of_trees(folders.values().cloned())
        .with_remote_bases(options.allow_remote_bases);
    // The program starts, and prints its version while git reads the trees.
    let (version, read) = futures::join!(shared.kustomize_version(&kustomize), async {
        read_trees(&folders, &planned.states, snapshot, shared)
    });
    let (trees, gaps) = read?;
    let cluster = if offline { None } else { Some(session.cluster().await?) };
    let given = options.controller_version.as_deref();
    let (controller, user) = controllers::kustomize_controller(given, cluster.as_ref(), snapshot).await?;
    let versions = KustomizeVersions { program: version?, linked: controller.kustomize };
    planned.add_cluster(snapshot, cluster.as_ref(), controller.version);
    planned.announce(session);
    warn_of_controller(session, &controller, &versions, user.is_in_cluster());
    let charts = options.charts.as_deref().map(ChartFolder::open).transpose()?;
    let folder_charts = charts.as_ref().map(|charts| charts.stems().map(str::to_owned).collect());
    let asked = cluster.as_ref().filter(|_| !options.offline);
    let generators_deny_other_namespaces = controllers::denies_other_namespaces(cluster.as_ref(), snapshot).await;
    let mut answerer = Answerer {
        rehearsal: asked.map(|cluster| Rehearsal::new(cluster, snapshot, user, controller.clone(), spokes)),
        builds: Builds {
            snapshot,
            versions,
            kustomize,
            helm: Helm::new(options.helm.as_deref(), folders.values().cloned()),
            flux_operator: FluxOperator::new(options.flux_operator.as_deref(), folders.values().cloned()),
            charts,
            cluster: cluster.clone(),
            spokes,
            secrets: secrets_in_use(snapshot),
            progress: BuildProgress::new(session.terminal.can_ask()),
        },
        shared,
        answers: Answers::default(),
        deadline,
        limit: options.plan_timeout,
    };
    let checked = self_check::verify_last_applied(snapshot, &folders, controller.features, &mut answerer).await?;
    for warning in sources::missing_history(&checked.missing, &folders, shared) {
        session.terminal.warning(&warning);
    }
    let KustomizeController { features, workers, flags, .. } = controller;
    let LastApplied { fidelity, applied: last_applied, deployed, differing: differing_artifacts, .. } = checked;
    let unread = snapshot.spokes.keys().filter(|name| !spokes.contains_key(*name)).cloned();
    let mut preview = Preview::new(PreviewInput {
        snapshot,
        trees,
        pinned: found.pinned,
        features,
        flags,
        workers,
        fidelity,
        last_applied,
        deployed,
        differing_artifacts,
        generators_deny_other_namespaces,
        charts: folder_charts,
        fetches_charts: options.allow_network,
        generates_sets: answerer.builds.flux_operator.program.find().is_ok(),
        dry_runs: asked.map(|_| DryRunScope { compares_all: options.diff, unread: unread.collect() }),
    });
    let mut finished = answerer.finish(|answers| preview.step(answers)).await?;
    finished.plan.add_gaps(gaps);
    finished.plan.set_subject(planned.subject);
    if let Some(rehearsal) = &answerer.rehearsal {
        report(session, &finished, rehearsal.hint());
    }
    Ok((finished.plan, finished.secrets))
}

/// Warns if the system cannot restrict the programs that build.
///
/// Fails with `--require-sandbox`.
fn check_sandbox(options: &TreeOptions, session: &mut Session) -> Result<()> {
    let Some(missing) = sandbox::missing_restriction() else { return Ok(()) };
    if options.require_sandbox {
        let hint = "plan on Linux with Landlock, or without --require-sandbox if you trust the tree";
        return Err(Error::failed(format!("{missing}, and --require-sandbox is set")).hint(hint));
    }
    session.terminal.warning(missing);
    Ok(())
}

/// Prints warnings about the version and the state of kustomize-controller.
fn warn_of_controller(
    session: &mut Session,
    controller: &KustomizeController,
    versions: &KustomizeVersions,
    is_in_cluster: bool,
) {
    if let Some(difference) = versions.difference() {
        session.terminal.warning(&format!("{difference}: builds may differ"));
    }
    if let Some(unknown) = controller.unknown_version().filter(|_| is_in_cluster || controller.version.is_some()) {
        session.terminal.warning(&unknown);
    }
    if controller.is_stopped {
        session.terminal.warning("no pod of kustomize-controller is available; nothing changes until one is");
    }
}

/// Prints what the dry-runs could not compare, and the hint for missing rights.
fn report(session: &mut Session, finished: &FinishedPreview, hint: Option<String>) {
    if !finished.not_compared.is_empty() {
        let objects = join_limited(&finished.not_compared, NAMED_OBJECTS);
        let reason = "encrypted, or name what has a hash of encrypted content";
        let warning = format!("not compared, as they are {reason}: {objects}");
        session.terminal.warning(&finished.secrets.mask_values(&warning));
    }
    if let Some(hint) = hint {
        session.terminal.hint(&finished.secrets.mask_values(&hint));
    }
}

/// Artifacts of the trees by source.
type Trees = BTreeMap<SourceId, Arc<Artifact>>;

/// Reads the trees of the sources. Also returns what their content lacks.
fn read_trees(
    folders: &BTreeMap<SourceId, PathBuf>,
    states: &BTreeMap<SourceId, WorktreeState>,
    snapshot: &Snapshot,
    shared: &SharedWork,
) -> Result<(Trees, Vec<Gap>)> {
    let (mut trees, mut gaps) = (BTreeMap::new(), Vec::new());
    for (id, folder) in folders {
        let state = states.get(id).unwrap_or(&WorktreeState::Worktree);
        let tree = shared.tree(folder, state)?;
        let artifact = shared.artifact(folder, state, sources::options(snapshot, id))?;
        gaps.extend(sources::missing_content(snapshot, id, &tree, &artifact));
        trees.insert(id.clone(), artifact);
    }
    Ok((trees, gaps))
}

/// The only place that answers what the core asks: builds, and dry-runs.
struct Answerer<'s> {
    builds: Builds<'s>,
    /// Dry-runs; `None` if the API server is not asked.
    rehearsal: Option<Rehearsal<'s>>,
    shared: &'s SharedWork,
    answers: Answers,
    /// End of the time of the plan; `None` if it has no limit.
    deadline: Option<Instant>,
    /// The time of the plan.
    limit: Duration,
}

impl Answerer<'_> {
    /// Answers a computation until it is done.
    async fn finish<T>(&mut self, mut step: impl FnMut(&Answers) -> Progress<T>) -> Result<T> {
        loop {
            let needs = match step(&self.answers) {
                Progress::Done(done) => return Ok(done),
                Progress::Needs(needs) => needs,
            };
            let Some(deadline) = self.deadline else {
                self.answer(*needs).await?;
                continue;
            };
            // What runs is ended, with its children, when its future is dropped.
            let left = (*needs).clone();
            let is_over = Instant::now() >= deadline;
            let answered = if is_over { None } else { timeout_at(deadline.into(), self.answer(*needs)).await.ok() };
            match answered {
                Some(result) => result?,
                None => {
                    let why = format!("the time of the plan is over ({} s, --plan-timeout)", self.limit.as_secs());
                    self.answers.give_up(left, &why);
                }
            }
        }
    }

    async fn answer(&mut self, needs: Needs) -> Result<()> {
        self.shared.answer(&self.builds, needs.builds, &mut self.answers.builds).await?;
        if let Some(rehearsal) = &mut self.rehearsal {
            rehearsal.answer(needs.dry_runs, &mut self.answers.dry_runs).await;
        }
        Ok(())
    }
}
