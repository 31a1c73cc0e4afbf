//! Work that the plans of several clusters share: one tree is read, packed and built once, whatever cluster needs it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};

use tokio::sync::{Mutex, OnceCell};

use super::args::CheckoutOptions;
use super::builds::Builds;
use crate::error::Result;
use crate::tools::git::{Checkout, Divergence, WorktreeState};
use crate::tools::programs::helm::{Helm, user_credentials};
use crate::tools::programs::kustomize::Kustomize;
use crate::tools::worktree;
use gitops_core::flux::build::{Answers, Needs};
use gitops_core::flux::source::artifact::Artifact;
use gitops_core::flux::source::options::SourceOptions;
use gitops_core::flux::source::tree::Tree;
use gitops_core::flux::spec::SourceId;

/// Everything that was read and built so far.
#[derive(Default)]
pub(in crate::commands::prune) struct SharedWork {
    checkouts: Memo<PathBuf, CheckoutFacts>,
    shallow: Memo<PathBuf, Option<bool>>,
    revisions: Memo<(PathBuf, Option<String>, WorktreeState), RevisionFacts>,
    divergences: Memo<(PathBuf, String, String), Divergence>,
    commits: Memo<(PathBuf, String), Option<String>>,
    trees: Memo<(PathBuf, WorktreeState), Arc<Tree>>,
    artifacts: Memo<(PathBuf, WorktreeState, SourceOptions), Arc<Artifact>>,
    kustomize: OnceCell<String>,
    /// By the folders that must not supply it.
    helm: Memo<Vec<PathBuf>, Arc<Helm>>,
    /// Results of the programs, by the kustomize that the controller of a cluster links: it decides what a failure means.
    builds: Mutex<BTreeMap<Option<&'static str>, Answers>>,
    runs: AtomicUsize,
    /// Answers about the trees that the builds of all clusters share.
    trees_of_builds: Answers,
}

/// A checkout, and what its configuration says.
#[derive(Clone)]
pub(in crate::commands::prune) struct CheckoutFacts {
    pub(in crate::commands::prune) checkout: Checkout,
    /// Remotes by name, with their URLs; a name can occur twice.
    pub(in crate::commands::prune) remotes: Vec<(String, String)>,
    /// Branch that is checked out.
    pub(in crate::commands::prune) branch: Option<String>,
}

/// Commit that is planned.
#[derive(Clone)]
pub(super) struct RevisionFacts {
    pub(super) commit: Option<String>,
    /// Branch that is checked out, or the revision as it was named.
    pub(super) branch: Option<String>,
    /// True if the files that are read differ from it.
    pub(super) is_dirty: bool,
    pub(super) is_shallow: bool,
}

impl SharedWork {
    /// Returns the checkout that contains a directory.
    pub(in crate::commands::prune) fn checkout(&self, directory: &Path) -> Result<CheckoutFacts> {
        self.checkouts.get(directory.to_path_buf(), |directory| {
            let checkout = Checkout::find(directory)?;
            Ok(CheckoutFacts { remotes: checkout.remotes()?, branch: checkout.branch(), checkout })
        })
    }

    /// Returns true if the checkout that contains a directory is a shallow clone; `None` if no checkout has its files.
    pub(in crate::commands::prune) fn is_shallow(&self, directory: &Path) -> Result<Option<bool>> {
        self.shallow.get(directory.to_path_buf(), |directory| {
            let checkout = Checkout::containing(directory)?.filter(|checkout| !checkout.ignores(directory));
            Ok(checkout.map(|checkout| checkout.is_shallow()))
        })
    }

    /// Returns the commit that a revision names, or that is checked out.
    pub(super) fn revision(
        &self,
        checkout: &Checkout,
        named: Option<&str>,
        state: &WorktreeState,
    ) -> Result<RevisionFacts> {
        let key = (checkout.top().to_path_buf(), named.map(str::to_owned), state.clone());
        self.revisions.get(key, |_| {
            let commit = named.map_or_else(|| checkout.head(), |named| checkout.commit(named));
            let branch = named.map_or_else(|| checkout.branch(), |named| Some(named.to_owned()));
            let is_dirty = named.is_none() && checkout.is_dirty(state)?;
            Ok(RevisionFacts { commit, branch, is_dirty, is_shallow: checkout.is_shallow() })
        })
    }

    /// Returns the commit that a revision names; `None` if the checkout does not have it.
    pub(super) fn commit(&self, checkout: &Checkout, revision: &str) -> Result<Option<String>> {
        let key = (checkout.top().to_path_buf(), revision.to_owned());
        self.commits.get(key, |(_, revision)| Ok(checkout.commit(revision)))
    }

    /// Compares two commits.
    pub(super) fn divergence(&self, checkout: &Checkout, commit: &str, deployed: &str) -> Result<Divergence> {
        let key = (checkout.top().to_path_buf(), commit.to_owned(), deployed.to_owned());
        self.divergences.get(key, |(_, commit, deployed)| checkout.divergence(commit, deployed))
    }

    /// Returns the files of a directory.
    pub(super) fn tree(&self, folder: &Path, state: &WorktreeState) -> Result<Arc<Tree>> {
        let key = (folder.to_path_buf(), state.clone());
        self.trees.get(key, |(folder, state)| worktree::read(folder, state).map(Arc::new))
    }

    /// Packs the files of a directory as source-controller does for a source with these options.
    pub(super) fn artifact(
        &self,
        folder: &Path,
        state: &WorktreeState,
        options: SourceOptions,
    ) -> Result<Arc<Artifact>> {
        let key = (folder.to_path_buf(), state.clone(), options);
        self.artifacts
            .get(key, |(folder, state, options)| Ok(Arc::new(Artifact::pack(&*self.tree(folder, state)?, options))))
    }

    pub(super) async fn kustomize_version(&self, kustomize: &Kustomize) -> Result<String> {
        self.kustomize.get_or_try_init(|| kustomize.version()).await.cloned()
    }

    /// Returns helm, which says its version once.
    pub(super) fn helm(&self, options: &CheckoutOptions, folders: &BTreeMap<SourceId, PathBuf>) -> Result<Arc<Helm>> {
        self.helm.get(folders.values().cloned().collect(), |folders| {
            let mut helm = Helm::new(options.helm.as_deref(), folders.iter().cloned());
            if options.chart_credentials {
                helm.credentials = user_credentials();
            }
            Ok(Arc::new(helm))
        })
    }

    /// Answers what builds need. A program whose input is that of an earlier run, for whatever cluster, does not run again;
    /// the programs of one cluster run at a time, each on all processors.
    pub(super) async fn answer(&self, builds: &Builds<'_>, mut needs: Needs, answers: &mut Answers) -> Result<()> {
        if needs.run_keys().is_empty() {
            return builds.answer(needs, answers).await;
        }
        let mut builds_by_version = self.builds.lock().await;
        let known = builds_by_version.entry(builds.versions.linked).or_default();
        answers.take_runs(&mut needs, known);
        let keys = needs.run_keys();
        builds.answer(needs, answers).await?;
        answers.share_runs(&keys, known);
        self.runs.fetch_add(keys.len(), Ordering::Relaxed);
        Ok(())
    }

    /// Returns the answers that are known before a cluster is planned for, whose controller links this version of kustomize.
    pub(super) async fn known_answers(&self, linked: Option<&'static str>) -> Answers {
        let mut answers = self.trees_of_builds.of_same_trees();
        if let Some(known) = self.builds.lock().await.get(&linked) {
            answers.take_runs(&mut Needs::default(), known);
        }
        answers
    }

    /// Number of builds, charts and ResourceSets with different inputs.
    pub(in crate::commands::prune) fn runs(&self) -> usize {
        self.runs.load(Ordering::Relaxed)
    }
}

/// Results by what they depend on.
struct Memo<K, V>(std::sync::Mutex<Entries<K, V>>);

type Entries<K, V> = Vec<(K, Arc<OnceLock<Result<V>>>)>;

impl<K, V> Default for Memo<K, V> {
    fn default() -> Self {
        Self(std::sync::Mutex::default())
    }
}

impl<K: PartialEq + Clone, V: Clone> Memo<K, V> {
    /// Returns the result for a key, which may be a failure. The first call with the key makes it, and others wait for it.
    fn get(&self, key: K, make: impl FnOnce(&K) -> Result<V>) -> Result<V> {
        let entry = {
            let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match entries.iter().find(|(known, _)| *known == key) {
                Some((_, entry)) => entry.clone(),
                None => {
                    let entry = Arc::default();
                    entries.push((key.clone(), Arc::clone(&entry)));
                    entry
                }
            }
        };
        entry.get_or_init(|| make(&key)).clone()
    }
}
