//! Objects that an inventory lists in a version that is not served any more, perhaps because the whole kind is gone.
//!
//! The controller reads an object in the version of its inventory entry before it deletes it. The API server then answers
//! that there is none, which counts as deleted, and the object is left behind (observed).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::flux::build::objects::served_versions;
use crate::flux::simulation::model::node::{Node, Pass, Unserved};
use crate::flux::simulation::model::state::State;
use crate::flux::spec::NamespacedName;
use crate::kubernetes::object::{GroupKind, ObjectId, Resource};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::schemes::flux::inventory_versions;

/// A CustomResourceDefinition that a pass applies.
pub(crate) struct Definition<'r> {
    /// Kustomization of the pass.
    owner: &'r NamespacedName,
    /// Name of the cluster that has it; `None` for the cluster itself.
    cluster: &'r Option<Arc<str>>,
    kind: GroupKind,
    /// Versions that are served.
    served: Vec<&'r str>,
}

/// Returns the definitions that the last passes of Kustomizations apply.
pub(crate) fn applied_definitions(nodes: &[Node]) -> Vec<Definition<'_>> {
    let passes = nodes.iter().filter_map(|node| Some((&node.id.key, node.last_pass()?)));
    passes.flat_map(|(owner, pass)| definitions_of(owner, pass)).collect()
}

fn definitions_of<'r>(owner: &'r NamespacedName, pass: &'r Pass) -> impl Iterator<Item = Definition<'r>> {
    let applied = pass.applied_objects().into_iter().flatten();
    let defined = applied.filter_map(|(id, built)| Some((&id.cluster, served_versions(built)?)));
    defined.map(move |(cluster, (kind, served))| Definition { owner, cluster, kind, served })
}

/// Returns the objects that the inventory of a live Kustomization lists in a version that is not served when it prunes
/// or is finalized. `last` is its last pass, which applies definitions before it prunes.
pub(crate) fn unserved_objects(
    state: &State<'_>,
    definitions: &[Definition<'_>],
    key: &NamespacedName,
    live: &Resource,
    last: Option<&Pass>,
) -> BTreeMap<ObjectId, Unserved> {
    let target = state.target_of_live(live);
    let Some(cluster) = target.as_ref().ok().map(Option::as_ref) else { return BTreeMap::new() };
    let Some(snapshot) = state.input.snapshot.of_cluster(cluster) else { return BTreeMap::new() };
    let own: Vec<Definition<'_>> = last.into_iter().flat_map(|pass| definitions_of(key, pass)).collect();
    let others = definitions.iter().filter(|definition| definition.owner != key);
    let all = others.map(|definition| (definition, false)).chain(own.iter().map(|definition| (definition, true)));
    let versions: BTreeMap<&GroupKind, (&[&str], bool)> = all
        .filter(|(definition, _)| definition.cluster.as_ref() == cluster)
        .map(|(definition, is_own)| (&definition.kind, (&*definition.served, is_own)))
        .collect();
    let mut unserved = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for (id, version) in inventory_versions(&live.content) {
        let id = state.in_scope(id.in_cluster(cluster));
        // Of several entries of one object, the controller reads the version of the first.
        if !seen.insert(id.clone()) {
            continue;
        }
        let kind = id.group_kind();
        let is_served_now = snapshot.serves(&kind, version);
        let is_certain = match (is_served_now, versions.get(&kind)) {
            (Some(false), None) => true,
            (None, None) if is_unknown_kind(snapshot, &kind) => true,
            (_, Some((served, is_own))) if !served.contains(&version) => *is_own || is_served_now == Some(false),
            _ => continue,
        };
        unserved.insert(id, Unserved { version: version.to_owned(), is_certain });
    }
    unserved
}

/// Returns true if the API server has no such kind.
fn is_unknown_kind(snapshot: &Snapshot, kind: &GroupKind) -> bool {
    snapshot.resource_type(kind).is_none() && snapshot.gaps_hiding(kind).next().is_none()
}
