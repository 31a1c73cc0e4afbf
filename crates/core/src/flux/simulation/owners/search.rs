//! Search for the owners that a change affects and whose effect is not computed.

use std::collections::BTreeSet;

use serde_json::Value;

use super::comparison::Comparison;
use crate::flux::simulation::kustomization::derivation::Derivation;
use crate::flux::simulation::model::affected_owner::{RemoteOwner, Unfollowed};
use crate::flux::simulation::model::node::Pass;
use crate::flux::simulation::model::questions::{Answers, Needs};
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::kubernetes::object::ObjectId;

impl<'a> State<'a> {
    /// Returns the affected owners whose effect is not computed, those of Flux in other clusters, and the answers that are
    /// missing. The dry-runs among them include those that were answered.
    pub(crate) fn find_unfollowed(
        &self,
        consequences: &Consequences<'a>,
        answers: &Answers,
    ) -> (Vec<Unfollowed>, Vec<RemoteOwner>, Needs) {
        let mut derivation = Derivation::new(self, consequences, answers);
        let mut comparison = Comparison::new(&mut derivation);
        let mut unfollowed = comparison.affected_owners();
        unfollowed.extend(comparison.affected_kustomizations());
        let remote_owners = comparison.remote_owners();
        let needs = Needs { builds: derivation.needs, dry_runs: derivation.questions };
        (unfollowed, remote_owners, needs)
    }
}

impl Comparison<'_, '_, '_> {
    /// Returns the objects of a kind, live ones and those that a pass applies or a ResourceSet generates.
    pub(crate) fn ids_of(&self, group: &str, kind: &str) -> BTreeSet<ObjectId> {
        let state = self.state();
        let live = state.input.snapshot.objects.iter().map(|object| &object.id);
        let passes = state.nodes.iter().flat_map(|node| &node.passes);
        let applied = passes.filter_map(Pass::applied_objects).flat_map(|objects| objects.keys());
        let generated = state.expansions().flat_map(|(_, expansion)| expansion.objects.keys());
        live.chain(applied).chain(generated).filter(|id| id.is_here(group, kind)).cloned().collect()
    }

    /// Returns the specs that an object has after the change: those that passes apply, or the live one.
    pub(crate) fn specs_after(&self, id: &ObjectId) -> Vec<Value> {
        self.state().specs_after(id)
    }

    /// Returns true if `spec.suspend` is true after the change.
    pub(crate) fn is_suspended_after(&self, id: &ObjectId) -> bool {
        self.state().is_suspended_after(id)
    }

    /// Returns true if `spec.suspend` is true before the change and not after it.
    pub(crate) fn is_resumed(&self, id: &ObjectId) -> bool {
        let live = self.state().input.snapshot.resource(id);
        live.is_some_and(|live| live.flag("/spec/suspend")) && !self.is_suspended_after(id)
    }
}
