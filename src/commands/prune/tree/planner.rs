//! Previews of trees on states of the cluster: what is the same for all steps of a plan, and the answers so far.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::args::CheckoutOptions;
use super::builds::Builds;
use super::controllers::OtherControllers;
use super::self_check::{self, LastApplied};
use super::subject::PlannedTree;
use super::{Answerer, NotPlanned, SharedWork, TreeArgs, check_sandbox, controllers, warn_of_controller};
use crate::cluster::read::snapshot::read_referrers;
use crate::commands::Session;
use crate::commands::prune::rehearsal::Rehearsal;
use crate::commands::prune::sources;
use crate::commands::prune::spokes::SpokeClusters;
use crate::error::{Error, Result};
use crate::output::progress::BuildProgress;
use crate::tools::chart_folder::ChartFolder;
use crate::tools::git::{Checkout, WorktreeState, no_revision};
use crate::tools::programs::flux_operator::FluxOperator;
use crate::tools::programs::kustomize::Kustomize;
use gitops_core::flux::build::objects::data::{DataRef, Lookup};
use gitops_core::flux::build::secrets_in_use;
use gitops_core::flux::guard;
use gitops_core::flux::kustomize_controller::{KustomizeController, KustomizeVersions};
use gitops_core::flux::retire::DefaultAccounts;
use gitops_core::flux::simulation::questions::{Answers, FinishedPreview};
use gitops_core::flux::simulation::{
    Declared, DryRunScope, Packed, Preview, PreviewInput, Recorded, StateAfter, packed,
};
use gitops_core::flux::source::artifact::Artifact;
use gitops_core::flux::source::matching;
use gitops_core::flux::source::obstacles::obstacles;
use gitops_core::flux::source::tree::Tree;
use gitops_core::flux::spec::{KustomizationSpec, NamespacedName, SourceId};
use gitops_core::kubernetes::gap::Gap;
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::kubernetes::referrer::Referrer;
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::schemes::flux_helmrelease;
use gitops_core::ownership::schemes::flux_kustomization::{GROUP, KIND};
use gitops_core::plan::subject::{SubjectContent, short};
use gitops_core::plan::{Fidelity, Plan, ReasonCode, Subject};
use gitops_core::text::{join_limited, pluralize};

/// Time for the computation after the end of the time of a plan, when nothing more is built.
const COMPUTATION: std::time::Duration = std::time::Duration::from_secs(20);

/// Number of objects that one message names.
const NAMED_OBJECTS: usize = 5;

/// Previews one step after the other.
pub(super) struct Planner<'s> {
    answerer: Answerer<'s>,
    folders: BTreeMap<SourceId, PathBuf>,
    pinned: BTreeMap<SourceId, String>,
    controller: KustomizeController,
    others: OtherControllers,
    charts: Option<BTreeSet<String>>,
    fetches_charts: bool,
    /// Extent of the dry-runs of the first step; `None` if the API server is not asked.
    dry_runs: Option<DryRunScope>,
    /// Subject of the first step.
    subject: Subject,
    /// Command that fetches the history of what is deployed.
    fetch: String,
}

/// A state that a step begins with.
#[derive(Clone)]
pub(super) struct StepState<'s> {
    pub(super) snapshot: Cow<'s, Snapshot>,
    /// Gaps that earlier steps leave.
    pub(super) open: Vec<Gap>,
    /// Number of the step that begins with it, from 1 on.
    number: usize,
    /// False for a state that no cluster has.
    is_live: bool,
    fidelity: BTreeMap<NamespacedName, Fidelity>,
    last_applied: BTreeMap<NamespacedName, Arc<Artifact>>,
    deployed: BTreeMap<SourceId, Arc<Artifact>>,
    differing: BTreeSet<SourceId>,
    /// ConfigMaps and Secrets that the steps before change.
    data: BTreeMap<DataRef, Lookup>,
}

/// The content that the sources have in a step, and what somebody deletes in it.
#[derive(Clone)]
pub(super) struct StepTrees {
    sources: Sources,
    /// Gaps of their content.
    gaps: Vec<Gap>,
    pub(super) subject: Subject,
    pub(super) by_hand: BTreeSet<ObjectId>,
}

/// Clusters that the hub reaches, and work that the plans of a search share.
#[derive(Default)]
pub(super) struct SearchWork {
    spokes: SpokeClusters,
    shared: SharedWork,
}

/// The start of a search, which looks at states that no cluster has: the API server is asked about the present one only.
pub(super) struct SearchStart<'s> {
    pub(super) planner: Planner<'s>,
    pub(super) state: StepState<'s>,
    pub(super) change: StepTrees,
    pub(super) deployed: Deployed,
}

/// The revision that the sources have.
pub(super) struct Deployed {
    /// Only directory of the sources.
    pub(super) folder: PathBuf,
    pub(super) commit: String,
    pub(super) sources: Vec<SourceId>,
}

impl SearchWork {
    /// Prepares a search in the tree of the sources.
    ///
    /// Fails as a plan of the tree, and if the sources have several directories or commits.
    pub(super) async fn start<'s>(
        &'s self,
        args: &TreeArgs,
        session: &mut Session,
        snapshot: &'s Snapshot,
        offline: bool,
    ) -> Result<SearchStart<'s>> {
        let Self { spokes, shared } = self;
        let (planner, state, change) = Planner::prepare(args, session, snapshot, spokes, offline, shared).await?;
        let deployed = planner.deployed()?;
        Ok(SearchStart { planner, state, change, deployed })
    }

    /// Prepares a search for steps, which begin with the commit that is deployed.
    ///
    /// Fails also if no checkout has that commit, and if a source is suspended.
    pub(super) async fn start_steps<'s>(
        &'s self,
        args: &TreeArgs,
        session: &mut Session,
        snapshot: &'s Snapshot,
        offline: bool,
    ) -> Result<SearchStart<'s>> {
        if args.options.checkout.source.is_empty() {
            Checkout::with_commits(args.repo.as_deref().unwrap_or(Path::new(".")))?;
        }
        let start = self.start(args, session, snapshot, offline).await?;
        let SearchStart { planner, deployed, .. } = &start;
        if Checkout::with_commits(&deployed.folder)?.commit(&deployed.commit).is_none() {
            let hint = format!(
                "`{}` fetches it, unless the branch was rewritten: then wait until Flux has applied what the branch has now",
                planner.fetch
            );
            return Err(
                Error::failed(format!("the checkout lacks the deployed commit {}", short(&deployed.commit))).hint(hint)
            );
        }
        if let Some(source) = planner.suspended_source(snapshot) {
            let kind = source.kind.to_lowercase();
            let hint = format!(
                "resume it first: `kubectl gitops resume --spec {kind} {} -n {}`",
                source.name, source.namespace
            );
            let message = format!("no steps: {source} is suspended, and fetches no commit of a step");
            return Err(Error::refused(message).hint(hint));
        }
        Ok(start)
    }
}

impl<'s> StepState<'s> {
    /// The present state of the cluster.
    fn present(snapshot: &'s Snapshot, checked: LastApplied) -> Self {
        let LastApplied { fidelity, applied: last_applied, deployed, differing, .. } = checked;
        Self {
            snapshot: Cow::Borrowed(snapshot),
            open: vec![],
            number: 1,
            is_live: true,
            fidelity,
            last_applied,
            deployed,
            differing,
            data: BTreeMap::new(),
        }
    }

    /// Changes settings of owners, of which no dry-run of what they apply depends.
    pub(super) fn edit_settings(&mut self, change: impl FnOnce(&mut Snapshot)) {
        change(self.snapshot.to_mut());
    }

    /// Changes the state as somebody does by hand.
    pub(super) fn edit(&mut self, change: impl FnOnce(&mut Snapshot)) {
        change(self.snapshot.to_mut());
        self.is_live = false;
    }
}

impl<'s> Planner<'s> {
    /// Reads everything that previews need: the tree, the controllers, and the last applied revisions. Also returns the
    /// present state and the tree.
    pub(super) async fn prepare(
        args: &TreeArgs,
        session: &mut Session,
        snapshot: &'s Snapshot,
        spokes: &'s SpokeClusters,
        offline: bool,
        shared: &'s SharedWork,
    ) -> Result<(Self, StepState<'s>, StepTrees), NotPlanned> {
        let TreeArgs { repo, options } = args;
        let CheckoutOptions { source, branch, kustomize, controller_version, plan_timeout, .. } = &options.checkout;
        let deadline = Instant::now().checked_add(*plan_timeout).filter(|_| !plan_timeout.is_zero());
        check_sandbox(options, session)?;
        let found = sources::find(repo.as_deref(), branch.as_deref(), source, snapshot, shared)?;
        let mut planned = PlannedTree::of(args, &found, snapshot, shared)?;
        let folders = found.folders;
        for unused in sources::unused(&folders, snapshot)? {
            session.terminal.warning(&format!("nothing in this cluster uses {unused}"));
        }
        let kustomize = Kustomize::new(kustomize.as_deref())
            .of_trees(folders.values().cloned())
            .with_remote_bases(options.allow_remote_bases);
        let helm = shared.helm(&options.checkout, &folders)?;
        let has_releases = controllers::has(snapshot, flux_helmrelease::GROUP, flux_helmrelease::KIND);
        // The programs start, and print their versions while git reads the trees.
        let (version, (), read) =
            futures::join!(shared.kustomize_version(&kustomize), helm.prepare(has_releases), async {
                read_trees(&folders, &planned.states, snapshot, shared)
            });
        let (sources, gaps) = read?;
        let cluster = if offline { None } else { Some(session.cluster().await?) };
        let given = controller_version.as_deref();
        let (controller, user) = controllers::kustomize_controller(given, cluster.as_ref(), snapshot).await?;
        let versions = KustomizeVersions { program: version?, linked: controller.kustomize };
        planned.add_cluster(snapshot, cluster.as_ref(), controller.version);
        if !options.is_search {
            planned.announce(options.is_of_steps, session);
        }
        warn_of_controller(session, &controller, &versions, user.is_in_cluster());
        let charts = options.checkout.charts.as_deref().map(ChartFolder::open).transpose()?;
        let folder_charts = charts.as_ref().map(|charts| charts.stems().map(str::to_owned).collect());
        let asked = cluster.as_ref().filter(|_| !options.offline);
        let others = OtherControllers::read(cluster.as_ref(), snapshot).await;
        let known = shared.known_answers(versions.linked).await;
        let mut answerer = Answerer {
            rehearsal: asked.map(|cluster| {
                let rehearsal = Rehearsal::new(cluster, snapshot, user, controller.clone(), spokes);
                rehearsal.with_approvals(options.as_approved)
            }),
            builds: Builds {
                snapshot,
                versions,
                kustomize,
                helm,
                flux_operator: FluxOperator::new(options.checkout.flux_operator.as_deref(), folders.values().cloned()),
                charts,
                cluster: cluster.clone(),
                spokes,
                secrets: secrets_in_use(snapshot),
                progress: BuildProgress::new(session.terminal.can_ask()),
            },
            shared,
            answers: Answers { builds: known, ..Answers::default() },
            deadline,
            limit: *plan_timeout,
        };
        answerer.builds.add_recorded_data(&mut answerer.answers.builds).await;
        let checked =
            self_check::verify_last_applied(snapshot, &folders, &sources.artifacts, controller.features, &mut answerer)
                .await?;
        // One warning is enough for a checkout without the deployed commit.
        if !planned.lacks_history() || options.is_search {
            for warning in sources::missing_history(&checked.missing, &folders, shared) {
                session.terminal.warning(&warning);
            }
        }
        let unread = snapshot.spokes.keys().filter(|name| !spokes.contains_key(*name)).cloned();
        let planner = Self {
            answerer,
            folders,
            pinned: found.pinned,
            controller,
            others,
            charts: folder_charts,
            fetches_charts: options.checkout.allow_network,
            dry_runs: asked.map(|_| DryRunScope { compares_all: options.diff, unread: unread.collect() }),
            subject: planned.subject.clone(),
            fetch: planned.fetch(),
        };
        Ok((planner, StepState::present(snapshot, checked), StepTrees::new(sources, gaps, planned.subject)))
    }

    fn input<'i>(&self, state: &'i StepState<'_>, trees: &StepTrees) -> PreviewInput<'i> {
        let Sources { artifacts, files } = self.sources_in(state, trees);
        PreviewInput {
            snapshot: &state.snapshot,
            trees: artifacts,
            repositories: files,
            pinned: self.pinned.clone(),
            controller_version: self.controller.version,
            by_hand: trees.by_hand.iter().filter(|id| state.snapshot.object(id).is_some()).cloned().collect(),
            features: self.controller.features,
            flags: self.controller.flags.clone(),
            workers: self.controller.workers,
            fidelity: state.fidelity.clone(),
            last_applied: state.last_applied.clone(),
            deployed: state.deployed.clone(),
            differing_artifacts: state.differing.clone(),
            generators_deny_other_namespaces: self.others.denies_other_namespaces,
            helm_controller: self.others.helm.clone(),
            set_account: self.others.set_account.clone(),
            charts: self.charts.clone(),
            fetches_charts: self.fetches_charts,
            generates_sets: self.answerer.builds.flux_operator.program.find().is_ok(),
            // An API server cannot be asked about a state that it does not have.
            dry_runs: self.dry_runs.clone().filter(|_| state.is_live && trees.by_hand.is_empty()),
            // What is given up at the end of the time is still computed with.
            deadline: self.answerer.deadline.map(|end| end + COMPUTATION),
        }
    }

    /// Returns the content of the sources in a state with these trees. Steps before it can have created and removed sources of the same
    /// repository, and changed which files are packed.
    fn sources_in(&self, state: &StepState<'_>, trees: &StepTrees) -> Sources {
        let mut sources = trees.sources.clone();
        if state.is_live {
            return sources;
        }
        let live = self.answerer.builds.snapshot;
        sources.artifacts.retain(|source, _| {
            matching::source(&state.snapshot, source).is_some() || matching::source(live, source).is_none()
        });
        sources.files.retain(|source, _| sources.artifacts.contains_key(source));
        for full in matching::git_repositories(&state.snapshot) {
            let source = SourceId::of(&full.object.id);
            let before = matching::source(live, &source);
            let is_other = before.is_some() && !sources.artifacts.contains_key(&source);
            if is_other || before.is_some_and(|before| before.spec() == full.spec()) {
                continue;
            }
            let Sources { artifacts, files } = &trees.sources;
            let packed = packed(live, artifacts, files, &full.object.id.namespace, full.spec());
            if let Some(Packed { files, artifact: Ok(artifact) }) = packed {
                sources.add(&source, artifact, files);
            }
        }
        sources
    }

    /// Plans what Flux does with the trees in a state.
    pub(super) async fn preview(&mut self, state: &StepState<'_>, trees: &StepTrees) -> Result<FinishedPreview> {
        let mut preview = Preview::new(self.input(state, trees));
        self.finish(state, &mut preview).await
    }

    /// Asks the API server no more.
    pub(super) fn end_dry_runs(&mut self) -> Option<DryRunScope> {
        self.dry_runs.take()
    }

    /// Plans as [`Self::preview`], with dry-runs of this extent.
    pub(super) async fn rehearse(
        &mut self,
        state: &StepState<'_>,
        trees: &StepTrees,
        scope: DryRunScope,
    ) -> Result<FinishedPreview> {
        self.dry_runs = Some(scope);
        let finished = self.preview(state, trees).await;
        self.dry_runs = None;
        finished
    }

    /// Returns a planned source that is suspended in a state.
    pub(super) fn suspended_source(&self, snapshot: &Snapshot) -> Option<ObjectId> {
        let sources = self.folders.keys().filter_map(|source| matching::source(snapshot, source));
        sources.filter(|full| full.flag("/spec/suspend")).map(|full| full.object.id.clone()).next()
    }

    /// Returns a planned source that is suspended in a state, although it is not in the cluster.
    pub(super) fn source_suspended_by_steps(&self, snapshot: &Snapshot) -> Option<ObjectId> {
        let live = self.suspended_source(self.answerer.builds.snapshot);
        self.suspended_source(snapshot).filter(|_| live.is_none())
    }

    /// Returns the description of the tree.
    pub(super) fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Returns the wanted objects that owners declare in the trees, in a state.
    pub(super) async fn declared(
        &mut self,
        state: &StepState<'_>,
        trees: &StepTrees,
        recorded: &Recorded,
        is_wanted: &dyn Fn(&ObjectId) -> bool,
    ) -> Result<Declared> {
        let mut preview = Preview::new(self.input(state, trees));
        let finished = self.finish(state, &mut preview).await?;
        // A search looks at many trees, each once.
        self.answerer.answers.builds.forget_finished();
        Ok(preview.declared(&finished.plan, recorded, is_wanted))
    }

    /// Returns true if the time of the plan is over.
    pub(super) fn is_over(&self) -> bool {
        self.answerer.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Plans as [`Self::preview`], and also returns the state after it.
    pub(super) async fn step(
        &mut self,
        state: &StepState<'_>,
        trees: &StepTrees,
    ) -> Result<(FinishedPreview, StepState<'s>)> {
        let mut preview = Preview::new(self.input(state, trees));
        let finished = self.finish(state, &mut preview).await?;
        let revision = trees.revision(state.number);
        let StateAfter { snapshot, open, data } =
            preview.after(&finished, &self.answerer.answers, state.number, &revision);
        let mut next = StepState {
            snapshot: Cow::Owned(snapshot),
            open: state.open.iter().cloned().chain(open).collect(),
            number: state.number + 1,
            is_live: false,
            fidelity: state.fidelity.clone(),
            last_applied: state.last_applied.clone(),
            deployed: state.deployed.clone(),
            differing: state.differing.clone(),
            data: state.data.clone(),
        };
        next.data.extend(data);
        let Sources { artifacts, .. } = self.sources_in(&next, trees);
        next.deployed.extend(artifacts.clone());
        for full in next.snapshot.resources.iter().filter(|full| full.object.id.is(GROUP, KIND)) {
            let key = NamespacedName::of(&full.object.id);
            let source = KustomizationSpec::of(full).source(&key.namespace);
            let is_applied = full.text("/status/lastAppliedRevision") == Some(&*revision);
            if let Some(artifact) = artifacts.get(&source).filter(|_| is_applied) {
                next.last_applied.insert(key, artifact.clone());
            }
        }
        Ok((finished, next))
    }

    async fn finish(&mut self, state: &StepState<'_>, preview: &mut Preview<'_>) -> Result<FinishedPreview> {
        let changed = state.data.iter().map(|(reference, found)| (reference.clone(), Some(found.clone())));
        let before = self.answerer.answers.builds.swap_data(changed.collect());
        let finished = self.answerer.finish(|answers| preview.step(answers)).await;
        self.answerer.answers.builds.swap_data(before);
        finished.map(|finished| *finished)
    }

    /// Reads a revision of the trees.
    ///
    /// Fails if a checkout does not have it.
    pub(super) fn revision(&self, revision: &str) -> Result<StepTrees> {
        let mut commit = None;
        for folder in self.folders.values() {
            let checkout = Checkout::containing(folder)?;
            commit = checkout.and_then(|checkout| checkout.commit(revision));
            if commit.is_none() {
                return Err(no_revision(folder, revision));
            }
        }
        let state = WorktreeState::Revision(revision.to_owned());
        let states = self.folders.keys().map(|id| (id.clone(), state.clone())).collect();
        let (sources, gaps) = read_trees(&self.folders, &states, self.answerer.builds.snapshot, self.answerer.shared)?;
        let subject = Subject {
            content: SubjectContent::Revision,
            revision: commit,
            branch: Some(revision.to_owned()),
            dirty: false,
            merge_base: None,
            behind: None,
            ..self.subject.clone()
        };
        Ok(StepTrees::new(sources, gaps, subject))
    }

    /// Returns the content of the sources with files of the deployed commit and the patches of steps.
    pub(super) fn deployed_files(&self, tree: &Tree) -> StepTrees {
        let trees = self.files(tree);
        let subject = Subject { branch: self.subject.into.clone(), merge_base: None, ..trees.subject };
        StepTrees { subject, ..trees }
    }

    /// Returns the content of the sources with files of the change and the patches of steps.
    pub(super) fn files(&self, tree: &Tree) -> StepTrees {
        let snapshot = self.answerer.builds.snapshot;
        let files = Arc::new(tree.clone());
        let mut sources = Sources::default();
        for id in self.folders.keys() {
            let artifact = Artifact::pack(tree, &sources::options(snapshot, id));
            sources.add(id, Arc::new(artifact), files.clone());
        }
        let content = SubjectContent::Patched;
        let subject = Subject { content, revision: None, dirty: false, behind: None, ..self.subject.clone() };
        StepTrees::new(sources, vec![], subject)
    }

    /// Returns what the sources have deployed.
    ///
    /// Fails if they have several directories or commits, or none is known.
    pub(super) fn deployed(&self) -> Result<Deployed> {
        let folders: BTreeSet<&PathBuf> = self.folders.values().collect();
        let snapshot = self.answerer.builds.snapshot;
        let commits: BTreeSet<&str> =
            self.folders.keys().filter_map(|id| matching::deployed_commit(snapshot, id)).collect();
        match (&folders.into_iter().collect::<Vec<_>>()[..], &commits.into_iter().collect::<Vec<_>>()[..]) {
            ([folder], [commit]) => {
                let sources = self.folders.keys().cloned().collect();
                Ok(Deployed { folder: (*folder).clone(), commit: (*commit).to_owned(), sources })
            }
            ([_, _, ..], _) => {
                Err(Error::usage("steps are commits of one checkout, and the sources have several directories")
                    .hint("name one directory, or several sources with the same one"))
            }
            (_, []) => Err(Error::failed("the sources of the checkout have deployed no commit yet, so nothing moves")
                .hint("wait until they are ready: `kubectl gitops get gitrepositories -A`")),
            _ => Err(Error::failed("the sources of the checkout have deployed different commits")
                .hint("wait until all of them have the same revision, or choose a branch with --branch")),
        }
    }

    /// Returns the accounts of owners that name none.
    pub(super) async fn default_accounts(&self) -> DefaultAccounts {
        let Builds { cluster, snapshot, .. } = &self.answerer.builds;
        controllers::default_accounts(cluster.as_ref(), snapshot).await
    }

    /// Adds what live objects refer to, if the plan deletes something and a cluster can be asked.
    pub(super) async fn add_live_referrers(&self, plan: &mut Plan) {
        let Builds { cluster: Some(cluster), snapshot, .. } = &self.answerer.builds else { return };
        let namespaces: BTreeSet<Arc<str>> =
            plan.deletions().map(|change| change.object.id.namespace.clone()).collect();
        let one = namespaces.first().filter(|namespace| namespaces.len() == 1 && !namespace.is_empty());
        if !namespaces.is_empty() {
            let (live, gaps) = read_referrers(cluster, snapshot, one).await;
            plan.set_live_referrers(live);
            plan.add_gaps(gaps);
        }
    }

    /// Returns live objects with what they refer to: as they are in the cluster, or as they were recorded.
    pub(super) async fn referrers(&self) -> (Vec<Referrer>, Vec<Gap>) {
        match &self.answerer.builds {
            Builds { cluster: Some(cluster), snapshot, .. } => read_referrers(cluster, snapshot, None).await,
            Builds { snapshot, .. } => (snapshot.referrers.clone().unwrap_or_default(), vec![]),
        }
    }

    /// Says which references are not known that what is deleted could have.
    fn hint_unknown_references(&self, session: &mut Session, plan: &Plan) {
        let Builds { cluster, snapshot, .. } = &self.answerer.builds;
        if cluster.is_none() && snapshot.referrers.is_none() && plan.deletions().next().is_some() {
            let missing =
                "this recording does not say what live objects refer to; only references in the tree are known";
            session.terminal.hint(&format!("{missing}: record it again"));
        }
        let unknown = plan.unknown_referrers();
        if !unknown.is_empty() {
            let kinds = join_limited(&unknown, NAMED_OBJECTS);
            session.terminal.hint(&format!("references in objects of these kinds are not known: {kinds}"));
        }
    }

    /// Adds to a plan what it is a plan of, and what the trees lack.
    pub(super) fn describe(&self, plan: &mut Plan, trees: &StepTrees) {
        plan.add_gaps(trees.gaps.iter().cloned());
        plan.set_subject(trees.subject.clone());
    }

    /// Prints which references are not known, which sources may not fetch the new revision, and the hint for
    /// missing rights.
    pub(super) fn report(&self, session: &mut Session, finished: &FinishedPreview) {
        self.hint_unknown_references(session, &finished.plan);
        let snapshot = self.answerer.builds.snapshot;
        let sources = self.folders.keys().filter_map(|source| matching::source(snapshot, source));
        for obstacle in sources.flat_map(obstacles) {
            session.terminal.warning(&finished.secrets.mask_values(&obstacle.to_string()));
        }
        let is_unproven = finished.plan.owners().iter().any(|row| row.reason.code == ReasonCode::OtherKustomize);
        if let Some(linked) = self.controller.kustomize.filter(|_| is_unproven) {
            session.hint_below(format!(
                "--kustomize names the program that builds: the controller has kustomize {linked}"
            ));
        }
        let Some(rehearsal) = &self.answerer.rehearsal else { return };
        if let Some(hint) = rehearsal.hint() {
            session.hint_below(finished.secrets.mask_values(&hint));
        }
        let reasons = finished.plan.changes().iter().map(|change| &change.reason);
        let refused = reasons.filter(|reason| reason.code == ReasonCode::DeletionRefused);
        let guarded = refused.filter(|reason| guard::is_refusal(&reason.detail)).count();
        if guarded > 0 {
            let deletions = pluralize(guarded, "deletion");
            session.hint_below(format!("the guard refuses {deletions}: --as-approved plans as if they were approved"));
        }
    }
}

impl StepTrees {
    /// Returns true if the sources have the same content as in other trees.
    pub(super) fn equal(&self, other: &Self) -> bool {
        let [own, others] = [self, other].map(|trees| trees.sources.artifacts.values().map(|it| it.digest()));
        own.eq(others)
    }

    fn new(sources: Sources, gaps: Vec<Gap>, subject: Subject) -> Self {
        Self { sources, gaps, subject, by_hand: BTreeSet::new() }
    }

    /// Returns the revision that the sources have with these trees.
    fn revision(&self, step: usize) -> String {
        let branch = self.subject.into.as_deref().unwrap_or("tree");
        let commit = self.subject.revision.as_deref().filter(|_| !self.subject.dirty);
        match commit {
            Some(commit) => format!("{branch}@sha1:{commit}"),
            None => format!("{branch}@step:{step}"),
        }
    }
}

/// Artifacts of planned sources, and the files that they are packed of.
#[derive(Clone, Default)]
struct Sources {
    artifacts: BTreeMap<SourceId, Arc<Artifact>>,
    /// Files as they are in the repository, before source-controller packs them.
    files: BTreeMap<SourceId, Arc<Tree>>,
}

impl Sources {
    fn add(&mut self, id: &SourceId, artifact: Arc<Artifact>, files: Arc<Tree>) {
        self.artifacts.insert(id.clone(), artifact);
        self.files.insert(id.clone(), files);
    }
}

/// Reads the trees of the sources. Also returns what their content lacks.
fn read_trees(
    folders: &BTreeMap<SourceId, PathBuf>,
    states: &BTreeMap<SourceId, WorktreeState>,
    snapshot: &Snapshot,
    shared: &SharedWork,
) -> Result<(Sources, Vec<Gap>)> {
    let (mut found, mut gaps) = (Sources::default(), Vec::new());
    for (id, folder) in folders {
        let state = states.get(id).unwrap_or(&WorktreeState::Worktree);
        let tree = shared.tree(folder, state)?;
        let artifact = shared.artifact(folder, state, sources::options(snapshot, id))?;
        gaps.extend(sources::missing_content(snapshot, id, &tree, &artifact));
        found.add(id, artifact, tree);
    }
    Ok((found, gaps))
}
