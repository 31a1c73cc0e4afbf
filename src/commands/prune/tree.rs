//! `prune --plan --repo DIR`: what Flux will do once a working tree is its source.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use futures::{StreamExt, stream};
use serde_json::Value;

use super::rehearsal::{ControllerUser, Rehearsal};
use super::sources;
use super::spokes::{Spoke, SpokeClusters};
use crate::cluster::{Cluster, Failure, FailureKind};
use crate::commands::Session;
use crate::error::{Error, Result};
use crate::output::progress::BuildProgress;
use crate::output::sanitize;
use crate::tools::chart_folder::ChartFolder;
use crate::tools::flux_operator::FluxOperator;
use crate::tools::git::WorktreeState;
use crate::tools::helm::Helm;
use crate::tools::kustomize::Kustomize;
use crate::tools::worktree;
use gitops_core::flux::build::data::{Data, DataRef, Lookup};
use gitops_core::flux::build::fidelity::RecordedBuild;
use gitops_core::flux::build::{Answers, BuildContext, Needs, secrets_in_use};
use gitops_core::flux::controller_deployment;
use gitops_core::flux::generator::recorded::RecordedArtifacts;
use gitops_core::flux::kinds::EXTERNAL_ARTIFACT;
use gitops_core::flux::kustomize_controller;
use gitops_core::flux::kustomize_controller::{Features, KustomizeController, KustomizeVersions};
use gitops_core::flux::simulation::{Preview, PreviewInput, Progress};
use gitops_core::flux::source::artifact::Artifact;
use gitops_core::flux::source::matching;
use gitops_core::flux::spec::{NamespacedName, SourceId};
use gitops_core::kubernetes::gap::Gap;
use gitops_core::kubernetes::object::{ObjectId, ObjectMetadata};
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::schemes::flux_kustomization;
use gitops_core::plan::mask::SecretMask;
use gitops_core::plan::{Fidelity, Plan};

/// Name of the Deployment of source-watcher.
const SOURCE_WATCHER: &str = "source-watcher";
/// Number of stored charts that are read at once.
const CHARTS_AT_ONCE: usize = 8;

/// Flags of a working tree.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Working tree")]
pub struct TreeArgs {
    /// Plan what Flux will do once this checkout is merged
    #[arg(long, value_name = "DIR", requires = "plan")]
    pub repo: Option<PathBuf>,
    /// Plan with DIR as a source, as KIND/NAMESPACE/NAME=DIR
    #[arg(long, value_name = "SOURCE=DIR", requires = "plan")]
    pub source: Vec<String>,
    /// Show the differences of all applied objects, drift included
    #[arg(long, requires = "plan", conflicts_with_all = ["snapshot", "offline"])]
    pub diff: bool,
    /// Send no dry-runs to the API server
    #[arg(long, requires = "plan")]
    pub offline: bool,
    /// Cluster that a kubeconfig reaches, as NAMESPACE/SECRET=CONTEXT
    #[arg(long, value_name = "SECRET=CLUSTER", requires = "plan", hide_short_help = true)]
    pub spoke: Vec<Spoke>,
    /// Branch that the checkout is merged into
    #[arg(long, value_name = "BRANCH", requires = "repo", hide_short_help = true)]
    pub branch: Option<String>,
    /// Read the staged files instead of the working tree
    #[arg(long, requires = "plan", conflicts_with = "rev", hide_short_help = true)]
    pub staged: bool,
    /// Read this revision instead of the working tree
    #[arg(long, value_name = "REVISION", requires = "plan", hide_short_help = true)]
    pub rev: Option<String>,
    /// Let builds fetch remote bases from the network
    #[arg(long, requires = "plan", hide_short_help = true)]
    pub allow_remote_bases: bool,
    /// Program to build with, instead of the kubectl on PATH
    #[arg(long, value_name = "PATH", requires = "plan", hide_short_help = true)]
    pub kustomize: Option<PathBuf>,
    /// Program to render charts with, instead of the helm on PATH
    #[arg(long, value_name = "PATH", requires = "plan", hide_short_help = true)]
    pub helm: Option<PathBuf>,
    /// Program to generate ResourceSets with, if not on PATH
    #[arg(long, value_name = "PATH", requires = "plan", hide_short_help = true)]
    pub flux_operator: Option<PathBuf>,
    /// Folder with charts, as NAME-VERSION.tgz or unpacked
    #[arg(long, value_name = "DIR", requires = "plan", hide_short_help = true)]
    pub charts: Option<PathBuf>,
    /// Let charts be fetched from the repositories of the cluster
    #[arg(long, requires = "plan", conflicts_with = "snapshot", hide_short_help = true)]
    pub allow_network: bool,
    /// Version of kustomize-controller, if it cannot be read
    #[arg(long, value_name = "VERSION", requires = "plan", hide_short_help = true)]
    pub controller_version: Option<String>,
}

impl TreeArgs {
    /// Returns true if a working tree is planned, and not the cluster alone.
    pub fn is_given(&self) -> bool {
        self.repo.is_some() || !self.source.is_empty()
    }

    fn state(&self) -> WorktreeState {
        match &self.rev {
            Some(revision) => WorktreeState::Revision(revision.clone()),
            None if self.staged => WorktreeState::Index,
            None => WorktreeState::Worktree,
        }
    }
}

/// Plans what Flux does with the tree. Also returns the names with values of Secrets, which must be masked before the plan
/// is shown. `spokes` are other clusters that the snapshot has, with a connection. `offline` is true if the snapshot came from
/// a file: then no cluster is asked.
///
/// Fails if a directory cannot be read, if kustomize cannot be run, or if no source of the cluster is the tree.
pub async fn plan(
    args: &TreeArgs,
    session: &mut Session,
    snapshot: &Snapshot,
    spokes: &SpokeClusters,
    offline: bool,
) -> Result<(Plan, SecretMask)> {
    let (folders, pinned) = sources::find(args.repo.as_deref(), args.branch.as_deref(), &args.source, snapshot)?;
    for unused in sources::unused(&folders, snapshot)? {
        session.terminal.warning(&sanitize::one_line(&format!("nothing in this cluster uses {unused}")));
    }
    let kustomize = Kustomize::new(args.kustomize.as_deref())
        .of_trees(folders.values().cloned())
        .with_remote_bases(args.allow_remote_bases);
    // The program starts, and prints its version while git reads the trees.
    let (version, read) = futures::join!(kustomize.version(), async { read_trees(&folders, &args.state(), snapshot) });
    let (trees, gaps) = read?;
    let cluster = if offline { None } else { Some(session.cluster().await?) };
    let (controller, user) = controller(args, cluster.as_ref(), snapshot).await?;
    let versions = KustomizeVersions { program: version?, linked: controller.kustomize };
    if let Some(difference) = versions.difference() {
        session.terminal.warning(&sanitize::one_line(&format!("{difference}: builds may differ")));
    }
    if let Some(unknown) = controller.unknown_version().filter(|_| user.is_in_cluster() || controller.version.is_some())
    {
        session.terminal.warning(&sanitize::one_line(&unknown));
    }
    if controller.is_stopped {
        session.terminal.warning("no pod of kustomize-controller is available; nothing changes until one is");
    }
    let helm = Helm::new(args.helm.as_deref(), folders.values().cloned());
    let flux_operator = FluxOperator::new(args.flux_operator.as_deref(), folders.values().cloned());
    let charts = args.charts.as_deref().map(ChartFolder::open).transpose()?;
    let folder_charts = charts.as_ref().map(|charts| charts.stems().map(str::to_owned).collect());
    let (secrets, answers) = (secrets_in_use(snapshot), Answers::default());
    let progress = BuildProgress::new(session.terminal.can_ask());
    let mut runner = BuildRunner {
        snapshot,
        versions,
        kustomize,
        helm,
        flux_operator,
        charts,
        cluster,
        spokes,
        secrets,
        progress,
        answers,
    };
    let checked = verify_last_applied(snapshot, &folders, controller.features, &mut runner).await?;
    for warning in sources::missing_history(&checked.missing, &folders) {
        session.terminal.warning(&sanitize::one_line(&warning));
    }
    let KustomizeController { features, workers, flags, .. } = controller.clone();
    let generators_deny_other_namespaces = denies_other_namespaces(runner.cluster.as_ref(), snapshot).await;
    let LastApplied { fidelity, applied: last_applied, deployed, differing: differing_artifacts, .. } = checked;
    let input = PreviewInput {
        snapshot,
        trees,
        pinned,
        features,
        flags,
        workers,
        fidelity,
        last_applied,
        deployed,
        differing_artifacts,
        generators_deny_other_namespaces,
        charts: folder_charts,
        fetches_charts: args.allow_network,
    };
    let mut preview = Preview::new(input);
    let mut plan = runner.plan(&mut preview).await?;
    plan.add_gaps(gaps.clone());
    let Some(cluster) = runner.cluster.clone().filter(|_| !args.offline) else {
        return Ok((plan, preview.secret_mask(&runner.answers)));
    };
    let rehearsal = Rehearsal::new(&cluster, snapshot, user, controller, args.diff, spokes);
    let mut rehearsed = rehearsal.run(&mut runner, &mut preview, plan).await?;
    let secrets = preview.secret_mask(&runner.answers);
    let of_spokes = spokes.values().flat_map(Cluster::take_warnings);
    let warnings = rehearsed.warning.into_iter().chain(cluster.take_warnings()).chain(of_spokes);
    for warning in warnings {
        session.terminal.warning(&sanitize::one_line(&secrets.mask_values(&warning)));
    }
    if let Some(hint) = rehearsed.hint {
        session.terminal.hint(&sanitize::one_line(&secrets.mask_values(&hint)));
    }
    rehearsed.plan.add_gaps(gaps);
    Ok((rehearsed.plan, secrets))
}

/// Artifacts of the trees by source.
type Trees = BTreeMap<SourceId, Arc<Artifact>>;

/// Reads the trees of the sources. Also returns what their content lacks.
fn read_trees(
    folders: &BTreeMap<SourceId, PathBuf>,
    state: &WorktreeState,
    snapshot: &Snapshot,
) -> Result<(Trees, Vec<Gap>)> {
    let (mut trees, mut gaps) = (BTreeMap::new(), Vec::new());
    for (id, folder) in folders {
        let tree = worktree::read(folder, state)?;
        let artifact = sources::pack(snapshot, id, &tree);
        gaps.extend(sources::missing_content(snapshot, id, &tree, &artifact));
        trees.insert(id.clone(), artifact);
    }
    Ok((trees, gaps))
}

/// Runner of the builds that a preview asks for.
pub(super) struct BuildRunner<'s> {
    snapshot: &'s Snapshot,
    kustomize: Kustomize,
    helm: Helm,
    flux_operator: FluxOperator,
    /// The folder of `--charts`.
    charts: Option<ChartFolder>,
    versions: KustomizeVersions,
    cluster: Option<Cluster>,
    spokes: &'s SpokeClusters,
    /// Secrets that may be read.
    secrets: BTreeSet<DataRef>,
    progress: BuildProgress,
    pub(super) answers: Answers,
}

impl BuildRunner<'_> {
    /// Answers the questions of a preview until it returns its plan.
    pub(super) async fn plan(&mut self, preview: &mut Preview<'_>) -> Result<Plan> {
        loop {
            match preview.step(&self.answers) {
                Progress::Done(plan) => return Ok(*plan),
                Progress::Needs(needs) => self.answer(needs).await?,
            }
        }
    }

    async fn answer(&mut self, needs: Needs) -> Result<()> {
        let parallel = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let built = self
            .kustomize
            .run_all(&self.versions, needs.runs.into_values(), parallel, |done, all| self.progress.show(done, all))
            .await?;
        for (key, output) in built {
            self.answers.record_run(key, output);
        }
        for (key, output) in self.helm.run_all(needs.charts.into_values(), parallel).await? {
            self.answers.record_chart(key, output);
        }
        for (key, output) in self.flux_operator.build_all(needs.resource_sets.into_values(), parallel).await? {
            self.answers.record_resource_set(key, output);
        }
        for name in needs.kube_versions {
            let recorded = self.snapshot.of_cluster(name.as_ref()).map(|cluster| cluster.kube_version.clone());
            let version = match name.as_ref().map_or(self.cluster.as_ref(), |name| self.spokes.get(name)) {
                Some(cluster) => cluster.version().await.ok(),
                None => recorded.filter(|version| !version.is_empty()),
            };
            self.answers.record_kube_version(name, version);
        }
        for (chart, archive) in self.helm.pull_all(needs.remote_charts, parallel).await? {
            self.answers.record_remote_chart(chart, archive);
        }
        for stem in needs.folder_charts {
            let absent = || Err("--charts is not given".to_owned());
            let files = self.charts.as_ref().map_or_else(absent, |charts| charts.read(&stem));
            self.answers.record_folder_chart(stem, files);
        }
        let (cluster, snapshot) = (self.cluster.as_ref(), self.snapshot);
        let fetches = needs.artifacts.into_values().map(|artifact| async move {
            let archive = match cluster {
                Some(cluster) => {
                    let answer = cluster.fetch_artifact(&artifact).await;
                    answer.map(|answer| answer.body.to_vec()).map_err(|failure| failure.to_string())
                }
                None => snapshot
                    .chart(&artifact.digest)
                    .ok_or_else(|| "the snapshot lacks it: record one with --with-charts".to_owned()),
            };
            (artifact, archive)
        });
        let fetched: Vec<_> = stream::iter(fetches).buffered(CHARTS_AT_ONCE).collect().await;
        for (artifact, archive) in fetched {
            self.answers.record_artifact(&artifact, archive.as_deref().map_err(Clone::clone));
        }
        for reference in needs.data {
            let found = match &self.cluster {
                _ if reference.is_secret() && !self.secrets.contains(&reference) => Lookup::NotRead,
                Some(cluster) => look_up(cluster, &reference).await,
                None => Lookup::Unreadable("a snapshot holds no data of ConfigMaps and Secrets".to_owned()),
            };
            self.answers.record_data(reference, found);
        }
        Ok(())
    }
}

/// Builds of the last applied revisions, as far as git has the commits.
struct LastApplied {
    /// Result of comparing each build with the controller's own.
    fidelity: BTreeMap<NamespacedName, Fidelity>,
    /// Artifact of each Kustomization's last applied revision.
    applied: BTreeMap<NamespacedName, Arc<Artifact>>,
    /// Artifact of each source's present revision, and of each ExternalArtifact that is generated of them.
    deployed: BTreeMap<SourceId, Arc<Artifact>>,
    /// ExternalArtifacts that are generated here with another content than source-watcher stores.
    differing: BTreeSet<SourceId>,
    /// Sources whose last applied commit is not in their directory.
    missing: BTreeSet<SourceId>,
}

/// Builds the last applied revision of each Kustomization and compares it with the controller's own digest.
async fn verify_last_applied(
    snapshot: &Snapshot,
    folders: &BTreeMap<SourceId, PathBuf>,
    features: Features,
    runner: &mut BuildRunner<'_>,
) -> Result<LastApplied> {
    let mut artifacts: BTreeMap<(SourceId, String), Option<Arc<Artifact>>> = BTreeMap::new();
    let mut artifact_of = |source: &SourceId, commit: &str| {
        let read = || {
            // A shallow clone or another history may lack the commit: the build is then not verified.
            let tree = worktree::read(folders.get(source)?, &WorktreeState::Revision(commit.to_owned())).ok()?;
            Some(sources::pack(snapshot, source, &tree))
        };
        artifacts.entry((source.clone(), commit.to_owned())).or_insert_with(read).clone()
    };
    let deployed = folders.keys().filter_map(|source| {
        let artifact = artifact_of(source, matching::deployed_commit(snapshot, source)?)?;
        Some((source.clone(), artifact))
    });
    let mut deployed: BTreeMap<SourceId, Arc<Artifact>> = deployed.collect();
    let recorded = RecordedArtifacts::find(snapshot, &deployed);
    deployed.extend(recorded.verified);
    let (mut fidelity, mut applied, mut missing) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
    loop {
        let mut needs = Needs::default();
        for full in snapshot
            .resources
            .iter()
            .filter(|full| full.object.id.is(flux_kustomization::GROUP, flux_kustomization::KIND))
        {
            let Some(recorded) = RecordedBuild::read(full) else { continue };
            let is_current = matching::source(snapshot, &recorded.source)
                .is_some_and(|source| source.text("/status/artifact/revision") == Some(&recorded.revision));
            let generated = deployed.get(&recorded.source).filter(|_| recorded.source.kind == EXTERNAL_ARTIFACT);
            let artifact = match (generated.filter(|_| is_current), recorded.commit()) {
                (Some(artifact), _) => artifact.clone(),
                (None, Some(commit)) if folders.contains_key(&recorded.source) => {
                    let Some(artifact) = artifact_of(&recorded.source, commit) else {
                        missing.insert(recorded.source);
                        continue;
                    };
                    artifact
                }
                _ => continue,
            };
            let mut context = BuildContext::new(features, &runner.answers, &mut needs);
            let verified = recorded.verify(&artifact, &mut context);
            applied.insert(recorded.owner.clone(), artifact);
            fidelity.extend(verified.map(|verified| (recorded.owner, verified)));
        }
        if needs.is_empty() {
            return Ok(LastApplied { fidelity, applied, deployed, missing, differing: recorded.differing });
        }
        runner.answer(needs).await?;
    }
}

/// Returns the rules of the version that was given, or of the controller's Deployment, and the user of the controller.
async fn controller(
    args: &TreeArgs,
    cluster: Option<&Cluster>,
    snapshot: &Snapshot,
) -> Result<(KustomizeController, ControllerUser)> {
    let given = args.controller_version.as_ref().map(|text| {
        let version = kustomize_controller::parse_version(text);
        version.ok_or_else(|| Error::usage(format!("{text:?} is no version")))
    });
    let given = given.transpose()?;
    let assumed = || given.map_or_else(KustomizeController::default, KustomizeController::of);
    let (Some(cluster), Some(deployment)) =
        (cluster, controller_deployment::deployment(snapshot, kustomize_controller::NAME))
    else {
        return Ok((assumed(), ControllerUser::NotInCluster));
    };
    // Without the right to read it the newest rules are assumed.
    Ok(match read_deployment(cluster, deployment).await {
        Ok(content) => {
            let account = controller_deployment::service_account(&content, &deployment.id.namespace, snapshot);
            let mut controller = KustomizeController::from_deployment(&content, given);
            if !controller.flags.watched.is_empty() {
                add_shards(cluster, snapshot, &mut controller).await;
            }
            (controller, account.map_or(ControllerUser::NotInCluster, ControllerUser::Account))
        }
        Err(failure) => (assumed(), ControllerUser::Unreadable(failure)),
    })
}

/// Reads the Deployment of a controller.
pub(super) async fn read_deployment(
    cluster: &Cluster,
    deployment: &ObjectMetadata,
) -> std::result::Result<Value, Failure> {
    let ObjectId { namespace, name, .. } = &deployment.id;
    let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/{name}");
    let answer = cluster.get(&path, "application/json").await?;
    Ok(serde_json::from_slice(&answer.body).unwrap_or_default())
}

/// Returns true if source-watcher lets generators use sources of their own namespace only. Without its Deployment the default
/// of the flag is assumed.
async fn denies_other_namespaces(cluster: Option<&Cluster>, snapshot: &Snapshot) -> bool {
    let deployment = controller_deployment::deployment(snapshot, SOURCE_WATCHER);
    let (Some(cluster), Some(deployment)) = (cluster, deployment) else { return false };
    let content = read_deployment(cluster, deployment).await;
    content.is_ok_and(|content| controller_deployment::denies_other_namespaces(&content))
}

/// Adds the label selectors of further Deployments of the controller. One without a selector, or one that cannot be read,
/// may reconcile every Kustomization.
async fn add_shards(cluster: &Cluster, snapshot: &Snapshot, controller: &mut KustomizeController) {
    for shard in kustomize_controller::shards(snapshot) {
        let content = read_deployment(cluster, shard).await.ok();
        match content.as_ref().and_then(kustomize_controller::watch_selector) {
            Some(selector) => controller.flags.watched.push(selector),
            None => return controller.flags.watched.clear(),
        }
    }
}

/// Reads the data of a ConfigMap or Secret, as the controller would read it.
async fn look_up(cluster: &Cluster, reference: &DataRef) -> Lookup {
    let plural = match reference.kind.as_str() {
        "ConfigMap" => "configmaps",
        "Secret" => "secrets",
        other => return Lookup::Unreadable(format!("{other} is not a kind that variables are read from")),
    };
    let path = format!("/api/v1/namespaces/{}/{plural}/{}", reference.namespace, reference.name);
    let answer = match cluster.get(&path, "application/json").await {
        Ok(answer) => answer,
        Err(failure) if failure.kind == FailureKind::NotFound => return Lookup::Missing,
        Err(failure) => return Lookup::Unreadable(failure.to_string()),
    };
    Lookup::Found(Data::read(&serde_json::from_slice(&answer.body).unwrap_or_default()))
}
