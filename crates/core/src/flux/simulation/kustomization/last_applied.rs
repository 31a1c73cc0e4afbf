//! Objects that the Kustomizations applied last.

use std::collections::BTreeMap;

use crate::flux::apply::rights::{binds, names_role};
use crate::flux::build::objects::BuiltObject;
use crate::flux::simulation::model::node::BuiltObjects;
use crate::flux::simulation::model::state::State;
use crate::flux::spec::NamespacedName;
use crate::kubernetes::object::ObjectId;

/// Objects of the last applied builds, by identity, each with its Kustomization.
#[derive(Default)]
pub(crate) struct LastApplied(BTreeMap<ObjectId, Vec<(NamespacedName, BuiltObject)>>);

impl LastApplied {
    /// Adds the objects of the last applied build of a Kustomization.
    pub(super) fn add(&mut self, key: &NamespacedName, objects: &BuiltObjects) {
        for (id, built) in objects {
            self.0.entry(id.clone()).or_default().push((key.clone(), built.clone()));
        }
    }

    /// Returns the last manifests of an object.
    pub(crate) fn of(&self, id: &ObjectId) -> &[(NamespacedName, BuiltObject)] {
        self.0.get(id).map_or(&[], Vec::as_slice)
    }

    /// Returns true if an object is created, or a manifest of it is another one than was applied last.
    pub(crate) fn is_changed(&self, state: &State<'_>, id: &ObjectId) -> bool {
        let last = self.of(id);
        let applied = state.applied(id);
        let mut manifests = applied.iter().map(|applied| &applied.built.manifest);
        !state.is_live(id) || manifests.any(|manifest| last.iter().all(|(_, before)| before.manifest != *manifest))
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
