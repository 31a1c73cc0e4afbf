//! Objects that hold what another one needs, until the change takes it from them: ports and addresses of Services.

use std::collections::BTreeSet;

use serde_json::Value;

use super::event::Event;
use super::world::World;
use crate::flux::apply::AppliedObject;
use crate::kubernetes::allocations::{Allocation, allocations, keeps_ports};
use crate::kubernetes::object::{ObjectId, list_at, text_at};

/// Returns the events after which the ports of a Service are free: none if a Service keeps one. `None` if that is not known, or if
/// several Services ask for the same port.
pub(super) fn freeing<'w>(world: &'w World<'_, '_>, object: &AppliedObject) -> Option<Vec<&'w Event>> {
    let wanted = allocations(&object.built.manifest);
    let wanted: BTreeSet<Allocation> = wanted.into_iter().filter(|it| it.is_found_by_dry_runs()).collect();
    let facts = world.facts("v1", &["Service"])?;
    let others = facts.iter().filter(|fact| fact.id != object.id);
    let has = |service: Option<&Value>| service.is_some_and(|it| !wanted.is_disjoint(&allocations(it)));
    let mut freeing = vec![];
    for other in others {
        if has(other.before) && other.after.is_some_and(|after| other.before != Some(after) && keeps_ports(after)) {
            return None;
        }
        match (has(other.before), has(other.after)) {
            (true, true) => return Some(vec![]),
            (false, true) => return None,
            (true, false) => freeing.extend(&other.events),
            (false, false) => {}
        }
    }
    (!freeing.is_empty()).then_some(freeing)
}

/// Returns a Service that holds an address which another one asks for anew, what frees the address, and the address; `None` if there
/// is none, or if that is not known. `is_anew` is true if the other one is created, also after its deletion.
pub(super) fn address_holder<'w>(
    world: &'w World<'_, '_>,
    object: &AppliedObject,
    is_anew: bool,
) -> Option<(ObjectId, Vec<&'w Event>, Allocation)> {
    let mut wanted = allocations(&object.built.manifest);
    wanted.retain(|allocation| !allocation.is_found_by_dry_runs());
    if wanted.is_empty() || !object.id.is_here("", "Service") {
        return None;
    }
    let wanted = begun(world, &object.id, wanted, is_anew)?;
    let (holder, address) =
        live_services(world)?.into_iter().filter(|(id, _)| *id != object.id).find_map(|(id, held)| {
            let shared = wanted.intersection(&held).next().copied();
            Some(id).zip(shared)
        })?;
    let (deletions, applies): (Vec<&Event>, Vec<&Event>) =
        world.events.iter().filter(|event| event.id == holder).partition(|event| event.is_deleted);
    // What is deleted by force and created again has given its address up by then.
    let is_remade = !deletions.is_empty() && !applies.is_empty();
    // Nothing but its deletion frees an address.
    (!is_remade).then_some((holder, deletions, address))
}

/// Returns what a Service begins to hold of what it asks for: all of it if it is created, also after its deletion (`is_anew`). `None`
/// if that is not known yet.
pub(super) fn begun(
    world: &World<'_, '_>,
    id: &ObjectId,
    mut wanted: BTreeSet<Allocation>,
    is_anew: bool,
) -> Option<BTreeSet<Allocation>> {
    if !is_anew && !wanted.is_empty() && world.state.is_live(id) {
        let live = live_services(world)?;
        live.iter().filter(|(other, _)| other == id).for_each(|(_, held)| wanted.retain(|it| !held.contains(it)));
    }
    Some(wanted)
}

/// Returns the live Services with what they hold; `None` if they are not known yet.
fn live_services(world: &World<'_, '_>) -> Option<Vec<(ObjectId, BTreeSet<Allocation>)>> {
    let list = world.read("v1", "Service", "", "")??;
    let services = list_at(list, "/items").iter().map(|service| {
        let [namespace, name] = ["/metadata/namespace", "/metadata/name"].map(|at| text_at(service, at));
        (ObjectId::new("", "Service", namespace, name), allocations(service))
    });
    Some(services.collect())
}
