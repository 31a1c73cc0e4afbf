//! Services of other owners than Kustomizations that ask for a port or an address which the change gives to another Service. Such
//! an owner is in no order with others, so any of them can come first.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::flux::build::objects::BuiltObject;
use crate::flux::simulation::model::state::State;
use crate::kubernetes::allocations::{Allocation, allocations};
use crate::kubernetes::object::ObjectId;

/// Returns a condition under which the server refuses one of these manifests that an owner sends, for people: another Service, of
/// the same owner or of another one, gets what it asks for. `own` is everything that the owner sends.
pub(crate) fn contest<'m>(
    state: &State<'_>,
    owner: &ObjectId,
    sent: impl Iterator<Item = (&'m ObjectId, &'m Value)>,
    own: &[(&ObjectId, &Value)],
) -> Option<String> {
    let mut wanted: Vec<(&ObjectId, Allocation)> = vec![];
    for (id, manifest) in sent.filter(|(id, _)| id.is_here("", "Service")) {
        wanted.extend(allocations(manifest).into_iter().map(|allocation| (id, allocation)));
    }
    if wanted.is_empty() {
        return None;
    }
    let by_kustomizations = state.nodes.iter().filter_map(|node| node.last_pass()?.applied_objects());
    let others = state.owner_applies().filter(|(other, _)| *other != owner).map(|(_, applies)| &*applies.objects);
    let others = by_kustomizations.chain(others).flat_map(BTreeMap::values);
    let others = others.map(|built: &BuiltObject| (&built.id, &*built.manifest));
    let mut services = others.chain(own.iter().copied()).filter(|(id, _)| id.is_here("", "Service"));
    services.find_map(|(other, manifest)| {
        let held = allocations(manifest);
        let (id, shared) = wanted.iter().find(|(id, allocation)| *id != other && held.contains(allocation))?;
        Some(format!("{other} gets {shared} before {id}, which asks for it too"))
    })
}
