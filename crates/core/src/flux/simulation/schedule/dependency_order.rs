//! Kustomizations that apply a new revision only after others.
//!
//! Source: `checkDependencies` of kustomize-controller v1.9.5: a dependency of the same source must have applied the
//! revision, and one of another source only has to be ready.

use std::collections::BTreeSet;

use crate::flux::simulation::model::state::State;
use crate::flux::spec::{KustomizationSpec, NamespacedName};

impl State<'_> {
    /// Returns true if a Kustomization with this spec waits until `other` has applied the new revision, directly or through
    /// its dependencies.
    pub(crate) fn waits_for(&self, key: &NamespacedName, spec: &KustomizationSpec, other: &NamespacedName) -> bool {
        let mut seen = BTreeSet::new();
        let mut queue = self.waited_for(key, spec);
        while let Some(next) = queue.pop() {
            if next == *other {
                return true;
            }
            if seen.insert(next.clone()) {
                queue.extend(self.last_spec(&next).into_iter().flat_map(|spec| self.waited_for(&next, &spec)));
            }
        }
        false
    }

    /// Returns the dependencies whose new revision a Kustomization waits for.
    fn waited_for(&self, key: &NamespacedName, spec: &KustomizationSpec) -> Vec<NamespacedName> {
        let mut waited = spec.waits_for(&key.namespace, self.input.features.additive_ready_expr);
        waited.retain(|other| !self.live.contains_key(other) || self.has_same_source(key, spec, other));
        waited
    }

    /// Returns true unless a dependency of a Kustomization with this spec has another source.
    pub(crate) fn has_same_source(
        &self,
        key: &NamespacedName,
        spec: &KustomizationSpec,
        dependency: &NamespacedName,
    ) -> bool {
        let other = self.last_spec(dependency);
        other.is_none_or(|other| other.source(&dependency.namespace) == spec.source(&key.namespace))
    }

    /// Returns the spec of a Kustomization after the change.
    fn last_spec(&self, key: &NamespacedName) -> Option<KustomizationSpec> {
        let last_pass = self.nodes.iter().rfind(|node| node.id.key == *key).and_then(|node| node.last_pass());
        match last_pass {
            Some(pass) => Some(pass.spec.clone()),
            None => self.live.get(key).map(|live| KustomizationSpec::of(live)),
        }
    }
}
