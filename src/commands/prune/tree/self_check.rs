//! Self-check of the builds: the last applied revisions are built again and compared with the controller's own digests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use super::{Answerer, SharedWork};
use crate::commands::prune::sources;
use crate::error::Result;
use crate::tools::git::WorktreeState;
use gitops_core::flux::build::fidelity::RecordedBuild;
use gitops_core::flux::build::{BuildContext, Needs};
use gitops_core::flux::generator::recorded::RecordedArtifacts;
use gitops_core::flux::kinds::EXTERNAL_ARTIFACT;
use gitops_core::flux::kustomize_controller::Features;
use gitops_core::flux::simulation::questions::{Answers, Progress};
use gitops_core::flux::source::artifact::Artifact;
use gitops_core::flux::source::matching;
use gitops_core::flux::spec::{NamespacedName, SourceId};
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::schemes::flux_kustomization;
use gitops_core::plan::Fidelity;

/// Builds of the last applied revisions, as far as git has the commits.
pub(super) struct LastApplied {
    /// Result of comparing each build with the controller's own.
    pub(super) fidelity: BTreeMap<NamespacedName, Fidelity>,
    /// Artifact of each Kustomization's last applied revision.
    pub(super) applied: BTreeMap<NamespacedName, Arc<Artifact>>,
    /// Artifact of each source's present revision, and of each ExternalArtifact that is generated of them.
    pub(super) deployed: BTreeMap<SourceId, Arc<Artifact>>,
    /// ExternalArtifacts that are generated here with another content than source-watcher stores.
    pub(super) differing: BTreeSet<SourceId>,
    /// Sources whose last applied commit is not in their directory.
    pub(super) missing: BTreeSet<SourceId>,
}

/// Earlier commits of the sources.
struct History<'a> {
    snapshot: &'a Snapshot,
    folders: &'a BTreeMap<SourceId, PathBuf>,
    shared: &'a SharedWork,
}

impl History<'_> {
    /// Returns the artifact of a commit. A shallow clone or another history may lack it.
    fn artifact(&self, source: &SourceId, commit: &str) -> Option<Arc<Artifact>> {
        let folder = self.folders.get(source)?;
        let state = WorktreeState::Revision(commit.to_owned());
        self.shared.artifact(folder, &state, sources::options(self.snapshot, source)).ok()
    }
}

/// Builds the last applied revision of each Kustomization and compares it with the controller's own digest. Begins the builds
/// of the planned trees at the same time.
pub(super) async fn verify_last_applied(
    snapshot: &Snapshot,
    folders: &BTreeMap<SourceId, PathBuf>,
    planned: &BTreeMap<SourceId, Arc<Artifact>>,
    features: Features,
    answerer: &mut Answerer<'_>,
) -> Result<LastApplied> {
    let history = History { snapshot, folders, shared: answerer.shared };
    let mut deployed = BTreeMap::new();
    for source in folders.keys() {
        if let Some(commit) = matching::deployed_commit(snapshot, source)
            && let Some(artifact) = history.artifact(source, commit)
        {
            deployed.insert(source.clone(), artifact);
        }
    }
    let generated = RecordedArtifacts::find(snapshot, &deployed);
    deployed.extend(generated.verified);
    let (mut builds, mut missing) = (vec![], BTreeSet::new());
    let kustomizations =
        snapshot.resources.iter().filter(|full| full.object.id.is(flux_kustomization::GROUP, flux_kustomization::KIND));
    for recorded in kustomizations.filter_map(RecordedBuild::read) {
        if let Some(artifact) = deployed.get(&recorded.source).filter(|_| is_deployed_artifact(snapshot, &recorded)) {
            builds.push((recorded, artifact.clone()));
        } else if let Some(commit) = recorded.commit().filter(|_| folders.contains_key(&recorded.source)) {
            match history.artifact(&recorded.source, commit) {
                Some(artifact) => builds.push((recorded, artifact)),
                None => drop(missing.insert(recorded.source)),
            }
        }
    }
    let fidelity = answerer.finish(|answers| verify(&builds, planned, features, answers)).await?;
    let applied = builds.into_iter().map(|(recorded, artifact)| (recorded.owner, artifact)).collect();
    Ok(LastApplied { fidelity, applied, deployed, missing, differing: generated.differing })
}

/// Returns true if the source of a build is an ExternalArtifact that has the same revision now.
fn is_deployed_artifact(snapshot: &Snapshot, recorded: &RecordedBuild) -> bool {
    let source = matching::source(snapshot, &recorded.source);
    recorded.source.kind == EXTERNAL_ARTIFACT
        && source.is_some_and(|source| source.text("/status/artifact/revision") == Some(&recorded.revision))
}

/// Compares each build with the controller's own. What it needs has the builds of the planned trees.
fn verify(
    builds: &[(RecordedBuild, Arc<Artifact>)],
    planned: &BTreeMap<SourceId, Arc<Artifact>>,
    features: Features,
    answers: &Answers,
) -> Progress<BTreeMap<NamespacedName, Fidelity>> {
    let (mut needs, mut fidelity) = (Needs::default(), BTreeMap::new());
    for (recorded, artifact) in builds {
        let mut context = BuildContext::new(features, &answers.builds, &mut needs);
        let verified = recorded.verify(artifact, &mut context);
        if let Some(next) = planned.get(&recorded.source).filter(|_| verified.is_none()) {
            recorded.begin(next, &mut context);
        }
        fidelity.extend(verified.map(|verified| (recorded.owner.clone(), verified)));
    }
    if needs.is_empty() { Progress::Done(fidelity) } else { Progress::of_builds(needs) }
}
