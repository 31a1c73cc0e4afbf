//! Builds that are finished. A preview repeats its steps until nothing changes, and most builds are the same each time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::failure::BuildFailure;
use super::objects::BuiltObject;
use super::objects::data::DataOverrides;
use crate::flux::kustomize_controller::Features;
use crate::flux::source::artifact::Artifact;
use crate::flux::spec::{KustomizationSpec, NamespacedName};

/// Objects of a build, or the reason why there are none.
pub(super) type BuildResult = Result<Arc<[BuiltObject]>, BuildFailure>;

/// Results of builds, by Kustomization. An answer never changes, so a build that lacked none never changes either.
#[derive(Debug, Default)]
pub(super) struct FinishedBuilds(Mutex<HashMap<NamespacedName, Vec<(BuildInput, BuildResult)>>>);

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

impl FinishedBuilds {
    /// Returns the result of a build; `None` if it is not finished.
    pub(super) fn find(&self, owner: &NamespacedName, input: &BuildInput) -> Option<BuildResult> {
        let builds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, result) = builds.get(owner)?.iter().find(|(finished, _)| finished == input)?;
        Some(result.clone())
    }

    /// Records the result of a build.
    pub(super) fn record(&self, owner: &NamespacedName, input: BuildInput, result: BuildResult) {
        let mut builds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        builds.entry(owner.clone()).or_default().push((input, result));
    }
}
