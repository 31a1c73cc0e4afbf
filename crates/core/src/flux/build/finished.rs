//! Builds that are finished. A preview repeats its steps until nothing changes, and most builds are the same each time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::failure::BuildFailure;
use super::needs::{BuildContext, DataOverrides};
use super::objects::BuiltObject;
use crate::flux::kustomize_controller::Features;
use crate::flux::source::artifact::Artifact;
use crate::flux::spec::{KustomizationSpec, NamespacedName};

/// Objects of a build, or the reason why there are none.
pub(super) type BuildResult = Result<Arc<[BuiltObject]>, BuildFailure>;

/// Results of builds, by Kustomization. An answer never changes, so a build that lacked none never changes either.
#[derive(Debug, Default)]
pub(super) struct FinishedBuilds(Mutex<HashMap<NamespacedName, Vec<FinishedBuild>>>);

#[derive(Debug)]
struct FinishedBuild {
    artifact: Arc<Artifact>,
    spec: KustomizationSpec,
    features: Features,
    overrides: DataOverrides,
    result: BuildResult,
}

impl FinishedBuilds {
    /// Returns the result of a build; `None` if it is not finished.
    pub(super) fn find(
        &self,
        artifact: &Arc<Artifact>,
        owner: &NamespacedName,
        spec: &KustomizationSpec,
        context: &BuildContext<'_>,
    ) -> Option<BuildResult> {
        let builds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = builds.get(owner)?.iter().find(|build| {
            Arc::ptr_eq(&build.artifact, artifact)
                && build.spec == *spec
                && build.features == context.features
                && build.overrides == *context.overrides
        });
        found.map(|build| build.result.clone())
    }

    /// Records the result of a build.
    pub(super) fn record(
        &self,
        artifact: &Arc<Artifact>,
        owner: &NamespacedName,
        spec: &KustomizationSpec,
        context: &BuildContext<'_>,
        result: BuildResult,
    ) {
        let (artifact, spec, overrides) = (artifact.clone(), spec.clone(), context.overrides.clone());
        let build = FinishedBuild { artifact, spec, features: context.features, overrides, result };
        let mut builds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        builds.entry(owner.clone()).or_default().push(build);
    }
}
