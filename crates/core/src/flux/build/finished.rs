//! Builds that are finished, and runs that are prepared. A preview repeats its steps until nothing changes, and most builds are
//! the same each time; many clusters have the same Kustomizations.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::failure::BuildFailure;
use super::generator::GeneratedFile;
use super::objects::BuiltObject;
use super::objects::data::DataOverrides;
use super::references::Inputs;
use crate::flux::kustomize_controller::Features;
use crate::flux::source::artifact::Artifact;
use crate::flux::spec::{KustomizationSpec, NamespacedName};

/// Objects of a build, or the reason why there are none.
pub(super) type BuildResult = Result<Arc<[BuiltObject]>, BuildFailure>;

/// A run of kustomize, before it is known whether it has an output.
#[derive(Debug)]
pub(super) struct PreparedRun {
    pub(super) generated: GeneratedFile,
    pub(super) inputs: Inputs,
    pub(super) key: String,
}

/// A prepared run, or the reason why kustomize must not run.
pub(super) type PreparedResult = Result<Arc<PreparedRun>, BuildFailure>;

/// Results of builds. An answer never changes, so a build that lacked none never changes either.
pub(super) type FinishedBuilds = Finished<BuildResult>;

/// Work that the plans of several clusters share, by everything that it depends on.
#[derive(Debug, Default)]
pub(super) struct SharedBuilds {
    /// Prepared runs, which depend on the tree alone.
    pub(super) prepared: Finished<PreparedResult>,
    /// Objects of builds that succeeded: what a failure means depends on the cluster.
    pub(super) objects: Finished<Arc<[BuiltObject]>>,
    /// Digests of the texts of builds.
    pub(super) digests: Finished<String>,
}

/// Results of one kind of work for each Kustomization, with the input that led to each.
#[derive(Debug)]
pub(super) struct Finished<R>(Mutex<HashMap<NamespacedName, Vec<(BuildInput, R)>>>);

/// Everything that decides on the result of a build of a Kustomization, besides answers.
#[derive(Clone, Debug)]
pub(super) struct BuildInput {
    pub(super) artifact: Arc<Artifact>,
    pub(super) spec: KustomizationSpec,
    pub(super) features: Features,
    pub(super) overrides: DataOverrides,
}

impl PartialEq for BuildInput {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.artifact, &other.artifact)
            && self.spec == other.spec
            && self.features == other.features
            && self.overrides == other.overrides
    }
}

impl<R> Default for Finished<R> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<R: Clone> Finished<R> {
    /// Returns the result for an input; `None` if it is not finished.
    pub(super) fn find(&self, owner: &NamespacedName, input: &BuildInput) -> Option<R> {
        let builds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, result) = builds.get(owner)?.iter().find(|(finished, _)| finished == input)?;
        Some(result.clone())
    }

    pub(super) fn record(&self, owner: &NamespacedName, input: BuildInput, result: R) {
        let mut builds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        builds.entry(owner.clone()).or_default().push((input, result));
    }
}
