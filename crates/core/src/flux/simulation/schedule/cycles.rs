//! Kustomizations that depend on each other.
//!
//! The controller sorts all Kustomizations of a source by their dependencies before it triggers them. A cycle lets the sort
//! fail, so that a new revision triggers none of them, and each waits for its interval. Source:
//! internal/controller/kustomization_indexers.go of kustomize-controller v1.9.5; observed.

use std::collections::{BTreeMap, BTreeSet};

use crate::flux::simulation::model::state::State;
use crate::flux::spec::{KustomizationSpec, NamespacedName, SourceId};
use crate::kubernetes::object::Resource;

/// Returns true if live Kustomizations of a source depend on each other.
pub(crate) fn has_cycle(state: &State<'_>, source: &SourceId) -> bool {
    state.cycles.contains_key(source)
}

/// Sources and dependencies of Kustomizations.
type Dependencies<'a> = BTreeMap<&'a NamespacedName, (SourceId, Vec<NamespacedName>)>;

/// Returns the live Kustomizations that depend on themselves, directly or through others, by their source.
pub(crate) fn find_cycles(live: &BTreeMap<NamespacedName, &Resource>) -> BTreeMap<SourceId, BTreeSet<NamespacedName>> {
    let specs = live.iter().map(|(key, live)| (key, KustomizationSpec::of(live)));
    let with_dependencies = specs.filter_map(|(key, spec)| {
        let dependencies = spec.depends_on(&key.namespace);
        (!dependencies.is_empty()).then(|| (key, (spec.source(&key.namespace), dependencies)))
    });
    let edges: Dependencies<'_> = with_dependencies.collect();
    let mut cycles: BTreeMap<SourceId, BTreeSet<NamespacedName>> = BTreeMap::new();
    for (key, (source, _)) in edges.iter().filter(|(key, (source, _))| reaches_itself(&edges, key, source)) {
        cycles.entry(source.clone()).or_default().insert((*key).clone());
    }
    cycles
}

/// Returns true if a Kustomization of a source depends on itself.
fn reaches_itself(edges: &Dependencies<'_>, start: &NamespacedName, source: &SourceId) -> bool {
    let (mut seen, mut queue) = (BTreeSet::new(), vec![start]);
    while let Some(next) = queue.pop() {
        let of_source = edges.get(next).filter(|(other, _)| other == source);
        for dependency in of_source.into_iter().flat_map(|(_, dependencies)| dependencies) {
            if dependency == start {
                return true;
            }
            if seen.insert(dependency) {
                queue.push(dependency);
            }
        }
    }
    false
}
