//! Builds the objects again that the Kustomizations applied last.

use std::collections::BTreeMap;

use super::derivation::Derivation;
use crate::flux::apply::rights::{binds, names_role};
use crate::flux::build::objects::BuiltObject;
use crate::flux::build::{self, BuildContext};
use crate::flux::simulation::model::clusters::in_cluster;
use crate::flux::simulation::model::node::PassOutcome;
use crate::flux::simulation::model::state::State;
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::object::ObjectId;

/// Objects of the last applied builds, by identity, each with its Kustomization.
pub(crate) struct LastApplied(BTreeMap<ObjectId, Vec<(NamespacedName, BuiltObject)>>);

impl LastApplied {
    /// Builds what the Kustomizations applied last. Builds without answers add to the needs.
    pub(crate) fn build(derivation: &mut Derivation<'_, '_>) -> Self {
        let mut last_applied = Self(BTreeMap::new());
        let state = derivation.state;
        for (key, artifact) in &state.input.last_applied {
            let Some(live) = state.live.get(key) else { continue };
            let spec = KustomizationSpec::of(live);
            let mut context = BuildContext::new(state.input.features, derivation.answers, &mut derivation.needs);
            let Ok(built) = build::build(artifact, key, &spec, &mut context) else { continue };
            let Ok(cluster) = state.target_of_live(live) else { continue };
            let built = in_cluster(&built, cluster.as_ref());
            let Ok(built) = derivation.resolve_encrypted(key, built, false) else { continue };
            if let PassOutcome::Applied(objects) = derivation.place(cluster.as_ref(), built, Some(&spec)) {
                for (id, built) in objects.iter() {
                    last_applied.0.entry(id.clone()).or_default().push((key.clone(), built.clone()));
                }
            }
        }
        last_applied
    }

    /// Returns the last manifests of an object.
    pub(crate) fn of(&self, id: &ObjectId) -> &[(NamespacedName, BuiltObject)] {
        self.0.get(id).map_or(&[], Vec::as_slice)
    }

    /// Returns true if an object is created, or a manifest of it is another one than was applied last.
    pub(crate) fn is_changed(&self, state: &State<'_>, id: &ObjectId) -> bool {
        let last = self.of(id);
        let is_new = |built: &BuiltObject| last.iter().all(|(_, before)| before.manifest != built.manifest);
        !state.is_live(id) || state.applied(id).iter().any(|applied| is_new(applied.built))
    }

    /// Returns true if a live role or binding may give one of these accounts rights: its manifest, or a binding that names the role, binds
    /// one of them, or no manifest is known.
    pub(crate) fn may_give_rights(&self, id: &ObjectId, accounts: &[NamespacedName]) -> bool {
        let binds =
            |(id, built): (&ObjectId, &BuiltObject)| accounts.iter().any(|account| binds(id, &built.manifest, account));
        if !id.kind.ends_with("Role") {
            let known = self.of(id);
            return known.is_empty() || known.iter().any(|(_, built)| binds((id, built)));
        }
        let all = self.0.iter().flat_map(|(id, known)| known.iter().map(move |(_, built)| (id, built)));
        let naming: Vec<_> = all.filter(|(binding, built)| names_role(binding, &built.manifest, id)).collect();
        naming.is_empty() || naming.into_iter().any(binds)
    }
}
