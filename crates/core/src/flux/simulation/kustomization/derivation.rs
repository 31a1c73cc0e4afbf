//! One computation of all Kustomizations from their last state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::scope::Scopes;
use super::unserved_versions::{Definition, applied_definitions};
use crate::flux::build::{Answers, Needs};
use crate::flux::simulation::model::node::{Node, Pass};
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::schedule::consequences::Consequences;
use crate::flux::spec::NamespacedName;
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};

/// One computation of all Kustomizations from their last state.
pub(crate) struct Derivation<'r, 'a> {
    pub(crate) state: &'r State<'a>,
    /// Consequences of the last state.
    pub(crate) consequences: &'r Consequences<'a>,
    /// Scopes of kinds in each cluster.
    pub(crate) scopes: BTreeMap<Option<Arc<str>>, Scopes<'r>>,
    /// Definitions that passes of the last state apply.
    pub(crate) definitions: Vec<Definition<'r>>,
    pub(crate) answers: &'r Answers,
    /// Answers that are missing.
    pub(crate) needs: Needs,
}

impl<'r, 'a> Derivation<'r, 'a> {
    /// Creates a computation without needs.
    pub(crate) fn new(state: &'r State<'a>, consequences: &'r Consequences<'a>, answers: &'r Answers) -> Self {
        let custom = &state.input.flags.custom_stage_kinds;
        let clusters = state.input.snapshot.clusters();
        let scopes =
            clusters.map(|(name, cluster)| (name.cloned(), Scopes::new(name, cluster, &state.nodes, custom))).collect();
        let definitions = applied_definitions(&state.nodes);
        Self { state, consequences, scopes, definitions, answers, needs: Needs::default() }
    }
}

impl<'a> State<'a> {
    /// Returns the Kustomizations as they follow from the last state, and the answers that are missing.
    pub(crate) fn derive_nodes(&self, consequences: &Consequences<'_>, answers: &Answers) -> (Vec<Node>, Needs) {
        let mut derivation = Derivation::new(self, consequences, answers);
        let mut keys: BTreeSet<NamespacedName> = self.live.keys().cloned().collect();
        let passes = self.nodes.iter().flat_map(|node| &node.passes);
        let applied = passes.filter_map(Pass::applied_objects).flat_map(BTreeMap::keys);
        let generated = self.owner_applies().flat_map(|(_, applies)| applies.objects.keys());
        keys.extend(applied.chain(generated).filter(|id| id.is_here(GROUP, KIND)).map(NamespacedName::of));
        let spec_changes = self.spec_changes();
        let mut nodes = Vec::new();
        for key in keys {
            let changes = spec_changes.get(&key).map_or(&[][..], Vec::as_slice);
            if let Some(live) = self.live.get(&key) {
                nodes.push(derivation.live_node(&key, live, changes));
            }
            nodes.extend(derivation.new_node(&key, changes));
        }
        (nodes, derivation.needs)
    }
}
