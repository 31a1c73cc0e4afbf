//! Kustomizations that apply a new revision only after others.
//!
//! Source: `checkDependencies` of kustomize-controller v1.9.5: a dependency of the same source must have applied the
//! revision, and one of another source only has to be ready.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::flux::simulation::model::state::State;
use crate::flux::simulation::model::wait_graph::WaitGraph;
use crate::flux::spec::{KustomizationSpec, NamespacedName};

/// Returns true if a Kustomization with this spec waits until `other` has applied the new revision, directly or through
/// its dependencies.
pub(crate) fn waits_for(
    state: &State<'_>,
    key: &NamespacedName,
    spec: &KustomizationSpec,
    other: &NamespacedName,
) -> bool {
    wait_graph(state).reaches(&waited_for(state, key, spec), other)
}

/// Returns true if a Kustomization with this spec waits for itself.
pub(crate) fn waits_for_itself(state: &State<'_>, key: &NamespacedName, spec: &KustomizationSpec) -> bool {
    let (graph, waited) = (wait_graph(state), waited_for(state, key, spec));
    let is_known = graph.waited(key) == waited;
    (!is_known || graph.may_be_in_circle(key)) && graph.reaches(&waited, key)
}

/// Returns the length of the longest chain of dependencies.
pub(crate) fn longest_chain(state: &State<'_>) -> usize {
    wait_graph(state).longest_chain()
}

/// Returns the dependencies of all Kustomizations with their last specs.
fn wait_graph<'s>(state: &'s State<'_>) -> &'s WaitGraph {
    state.nodes.wait_graph(|| {
        let keys: BTreeSet<_> = state.live.keys().chain(state.nodes.iter().map(|node| &node.id.key)).collect();
        let waited = keys.into_iter().filter_map(|key| {
            let spec = last_spec(state, key)?;
            Some((key.clone(), waited_for(state, key, &spec)))
        });
        WaitGraph::new(waited)
    })
}

/// Returns the dependencies whose new revision a Kustomization waits for.
fn waited_for(state: &State<'_>, key: &NamespacedName, spec: &KustomizationSpec) -> Vec<NamespacedName> {
    let mut waited = spec.waits_for(&key.namespace, state.input.features.additive_ready_expr);
    waited.retain(|other| !state.live.contains_key(other) || has_same_source(state, key, spec, other));
    waited
}

/// Returns true unless a dependency of a Kustomization with this spec has another source.
pub(crate) fn has_same_source(
    state: &State<'_>,
    key: &NamespacedName,
    spec: &KustomizationSpec,
    dependency: &NamespacedName,
) -> bool {
    let other = last_spec(state, dependency);
    other.is_none_or(|other| other.source(&dependency.namespace) == spec.source(&key.namespace))
}

/// Returns the spec of a Kustomization after the change.
fn last_spec<'s>(state: &'s State<'_>, key: &NamespacedName) -> Option<Cow<'s, KustomizationSpec>> {
    match state.last_pass(key) {
        Some(pass) => Some(Cow::Borrowed(&pass.spec)),
        None => state.live.get(key).map(|live| Cow::Owned(KustomizationSpec::of(live))),
    }
}
