//! Names of a plan that hold values of Secrets.

use crate::flux::build::objects::undecrypted::UNKNOWN;
use crate::flux::simulation::model::node::Pass;
use crate::flux::simulation::model::state::State;
use crate::kubernetes::object::ObjectId;
use crate::plan::mask::SecretMask;

/// Returns the names that hold values of Secrets: those of objects that are built or generated, and those of live objects
/// that an earlier build may have named so.
pub(crate) fn secret_mask(state: &State<'_>) -> SecretMask {
    let mut mask = SecretMask::default();
    let passes = state.nodes.iter().flat_map(|node| &node.passes);
    let built = passes.filter_map(Pass::desired_objects).flat_map(|objects| objects.values());
    let generated = state.owner_applies().flat_map(|(_, applies)| applies.objects.values());
    for object in built.chain(generated).filter(|object| object.masked.is_some()) {
        // The server gives a cluster-scoped object no namespace.
        add_identity(&mut mask, &object.id, object.shown_id());
    }
    // What an earlier step made has its name from there.
    for object in state.input.snapshot.objects.iter().filter(|object| object.id.is_private()) {
        add_identity(&mut mask, &object.id, &object.id.shown());
    }
    for value in state.secrets.iter() {
        mask.add_value(value);
        let inventories = state.nodes.iter().flat_map(|node| &node.inventory);
        let passes = state.nodes.iter().flat_map(|node| &node.passes);
        let built = passes.filter_map(Pass::desired_objects).flat_map(|objects| objects.keys());
        for id in inventories.chain(built).filter(|id| id.name.contains(value.reveal().as_str())) {
            mask.add_word(&id.name, &id.name.replace(value.reveal().as_str(), UNKNOWN));
        }
    }
    mask
}

fn add_identity(mask: &mut SecretMask, id: &ObjectId, shown: &ObjectId) {
    mask.add_word(&id.group, &shown.group);
    mask.add_word(&id.kind, &shown.kind);
    mask.add_word(&id.name, &shown.name);
    if !id.namespace.is_empty() {
        mask.add_word(&id.namespace, &shown.namespace);
    }
}
