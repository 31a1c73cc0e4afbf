//! Names that depend on content that is encrypted with SOPS, in the build of a Kustomization.

use super::derivation::Derivation;
use crate::flux::build;
use crate::flux::build::BuildContext;
use crate::flux::build::objects::BuiltObject;
use crate::flux::build::resolve_names::resolve_names;
use crate::flux::simulation::model::clusters::in_cluster;
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::ownership::Members;

impl Derivation<'_, '_> {
    /// Replaces unknown names in a build where the last applied revision tells them; `None` if a need was added.
    pub(crate) fn resolve_names(&mut self, key: &NamespacedName, built: Vec<BuiltObject>) -> Option<Vec<BuiltObject>> {
        if !built.iter().any(BuiltObject::has_unknown_identity) {
            return Some(built);
        }
        let state = self.state;
        let Some(live) = state.live.get(key) else { return Some(resolve_names(built, None, &Default::default())) };
        let last_build = match state.input.last_applied.get(key) {
            Some(artifact) => {
                let mut context = BuildContext::new(state.input.features, self.answers, &mut self.needs);
                let cluster = state.target_of_live(live).unwrap_or_default();
                let built = build::build(artifact, key, &KustomizationSpec::of(live), &mut context)?.ok();
                built.map(|built| in_cluster(&built, cluster.as_ref()))
            }
            None => None,
        };
        let inventory = match state.members(live) {
            Members::Listed(ids) => ids.into_iter().collect(),
            _ => Default::default(),
        };
        Some(resolve_names(built, last_build.as_deref(), &inventory))
    }
}
