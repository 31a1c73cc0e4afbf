//! Kustomizations that apply a new revision only after others.
//!
//! Source: `checkDependencies` of kustomize-controller v1.9.5: a dependency of the same source must have applied the
//! revision, and one of another source only has to be ready.

use std::collections::BTreeSet;

use crate::flux::simulation::model::node::{Node, NodeId};
use crate::flux::simulation::model::state::State;
use crate::flux::spec::{KustomizationSpec, NamespacedName};

/// Returns true if a Kustomization with this spec waits until `other` has applied the new revision, directly or through
/// its dependencies.
pub(crate) fn waits_for(
    state: &State<'_>,
    key: &NamespacedName,
    spec: &KustomizationSpec,
    other: &NamespacedName,
) -> bool {
    let mut seen = BTreeSet::new();
    let mut queue = waited_for(state, key, spec);
    while let Some(next) = queue.pop() {
        if next == *other {
            return true;
        }
        if seen.insert(next.clone()) {
            queue.extend(last_spec(state, &next).into_iter().flat_map(|spec| waited_for(state, &next, &spec)));
        }
    }
    false
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
fn last_spec(state: &State<'_>, key: &NamespacedName) -> Option<KustomizationSpec> {
    let node = state.node(&NodeId::new(key)).or_else(|| state.node(&NodeId::live(key)));
    match node.and_then(Node::last_pass) {
        Some(pass) => Some(pass.spec.clone()),
        None => state.live.get(key).map(|live| KustomizationSpec::of(live)),
    }
}
