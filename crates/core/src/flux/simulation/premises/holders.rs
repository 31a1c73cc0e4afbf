//! Objects that hold what another one needs, until the change takes it from them: node ports and addresses of Services.

use std::collections::BTreeSet;

use serde_json::Value;

use super::event::Event;
use super::world::World;
use crate::flux::apply::AppliedObject;
use crate::kubernetes::object::{ObjectId, list_at, text_at};

/// Returns the events after which the node ports of a Service are free: none if a Service keeps one. `None` if that is not
/// known, or if several new Services ask for the same port.
pub(super) fn freeing<'w>(world: &'w World<'_, '_>, object: &AppliedObject) -> Option<Vec<&'w Event>> {
    let wanted = node_ports(&object.built.manifest);
    let facts = world.facts("v1", &["Service"])?;
    let others = facts.iter().filter(|fact| fact.id != object.id);
    let has = |service: Option<&Value>| service.is_some_and(|it| !wanted.is_disjoint(&node_ports(it)));
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

/// Returns a Service that holds an address which a new Service asks for, and what frees the address; `None` if there is none, or
/// if that is not known. A dry-run accepts an address that another Service has: Kubernetes v1.36.3
/// `pkg/registry/core/service/ipallocator` allocates nothing for it.
pub(super) fn address_holder<'w>(
    world: &'w World<'_, '_>,
    object: &AppliedObject,
) -> Option<(ObjectId, Vec<&'w Event>)> {
    let wanted = addresses(&object.built.manifest);
    if wanted.is_empty() || !object.id.is("", "Service") || object.id.cluster.is_some() {
        return None;
    }
    let list = world.read("v1", "Service", "", "")??;
    let mut holders = list_at(list, "/items").iter().filter(|service| !wanted.is_disjoint(&addresses(service)));
    let holder = holders.find_map(|service| {
        let [namespace, name] = ["/metadata/namespace", "/metadata/name"].map(|at| text_at(service, at));
        Some(ObjectId::new("", "Service", namespace, name)).filter(|id| *id != object.id)
    })?;
    let (deletions, applies): (Vec<&Event>, Vec<&Event>) =
        world.events.iter().filter(|event| event.id == holder).partition(|event| event.is_deleted);
    // What is deleted by force and created again has given its address up by then.
    let is_remade = !deletions.is_empty() && !applies.is_empty();
    // Nothing but its deletion frees an address.
    (!is_remade).then_some((holder, deletions))
}

/// Returns the addresses of a Service that no other one can have.
fn addresses(service: &Value) -> BTreeSet<&str> {
    let all = list_at(service, "/spec/clusterIPs")
        .iter()
        .filter_map(Value::as_str)
        .chain([text_at(service, "/spec/clusterIP")]);
    all.filter(|address| !["", "None"].contains(address)).collect()
}

/// Returns true if a Service keeps a node port that its manifest does not name.
fn keeps_ports(manifest: &Value) -> bool {
    let has_node_ports = matches!(text_at(manifest, "/spec/type"), "NodePort" | "LoadBalancer");
    has_node_ports && list_at(manifest, "/spec/ports").iter().any(|port| port.get("nodePort").is_none())
}

/// Returns the node ports of a Service.
fn node_ports(service: &Value) -> BTreeSet<i64> {
    let ports = list_at(service, "/spec/ports").iter();
    ports.filter_map(|port| port.get("nodePort")?.as_i64()).filter(|port| *port > 0).collect()
}
