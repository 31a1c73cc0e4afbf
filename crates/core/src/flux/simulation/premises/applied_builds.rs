//! Builds of the last applied revisions, to compare with: only what changes is asked about.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::flux::build::objects::BuiltObject;
use crate::flux::build::{self, BuildContext};
use crate::flux::simulation::model::state::State;
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::plan::Fidelity;

/// Objects of the last applied revisions, for the Kustomizations whose build was verified.
#[derive(Debug, Default)]
pub(in crate::flux::simulation) struct AppliedBuilds(BTreeMap<NamespacedName, AppliedBuild>);

/// Objects of the last applied revision of one Kustomization.
#[derive(Debug)]
struct AppliedBuild {
    spec: KustomizationSpec,
    /// Manifests by kind and name.
    manifests: BTreeMap<(String, String), Vec<Arc<Value>>>,
}

impl AppliedBuilds {
    /// Builds the last applied revisions of Kustomizations that were verified. Their builds are known once there is a
    /// plan.
    pub(in crate::flux::simulation) fn of(
        state: &State<'_>,
        answers: &build::Answers,
        is_needed: impl Fn(&NamespacedName) -> bool,
    ) -> Self {
        let mut builds = BTreeMap::new();
        for (key, artifact) in state.input.last_applied.iter().filter(|(key, _)| is_needed(key)) {
            let is_verified = state.input.fidelity.get(key) == Some(&Fidelity::Verified);
            let Some(live) = state.live.get(key).filter(|_| is_verified && state.is_ready(key)) else { continue };
            let (spec, mut needs) = (KustomizationSpec::of(live), build::Needs::default());
            let mut context = BuildContext::new(state.input.features, answers, &mut needs);
            let Ok(built) = build::build(artifact, key, &spec, &mut context) else { continue };
            let mut manifests: BTreeMap<_, Vec<Arc<Value>>> = BTreeMap::new();
            for built in built.iter() {
                manifests.entry(kind_and_name(built)).or_default().push(built.manifest.clone());
            }
            builds.insert(key.clone(), AppliedBuild { spec, manifests });
        }
        Self(builds)
    }

    /// Returns true if the Kustomization has applied this very manifest, as the same user.
    pub(in crate::flux::simulation) fn contains(
        &self,
        owner: &NamespacedName,
        spec: &KustomizationSpec,
        built: &BuiltObject,
    ) -> bool {
        let Some(build) = self.0.get(owner) else { return false };
        let mut fields = ["/commonMetadata", "/serviceAccountName", "/kubeConfig"].into_iter();
        let is_applied_alike =
            fields.all(|pointer| build.spec.value().pointer(pointer) == spec.value().pointer(pointer));
        let manifests = build.manifests.get(&kind_and_name(built));
        is_applied_alike && manifests.is_some_and(|manifests| manifests.contains(&built.manifest))
    }

    /// Returns the value that the Kustomization applied last at a pointer of a manifest, null if there was none; `None` if
    /// it is not known.
    pub(in crate::flux::simulation) fn value(
        &self,
        owner: &NamespacedName,
        built: &BuiltObject,
        pointer: &str,
    ) -> Option<&Value> {
        let manifests = self.0.get(owner)?.manifests.get(&kind_and_name(built))?;
        let namespace = built.manifest.pointer("/metadata/namespace");
        let same = manifests.iter().find(|manifest| manifest.pointer("/metadata/namespace") == namespace)?;
        Some(same.pointer(pointer).unwrap_or(&Value::Null))
    }
}

fn kind_and_name(built: &BuiltObject) -> (String, String) {
    (built.id.kind.to_string(), built.id.name.to_string())
}
