//! Checks of the server for Pods and claims: LimitRanges that the change creates or changes, and for Pods the security
//! that their namespace enforces, and the objects that they name. Workloads whose Pods are refused are accepted.
//!
//! Source: Kubernetes v1.36.3 `pod-security-admission/admission/admission.go` (`ValidatePod`), and
//! `plugin/pkg/admission/{serviceaccount,priority,runtimeclass}`. Users, namespaces and classes can be exempt, so that
//! no refusal is certain.

use super::event::Event;
use super::world::{Precedence, World};
use crate::flux::apply::AppliedObject;
use crate::kubernetes::deletion::order::apply_order;
use crate::kubernetes::limit_range::bounds;
use crate::kubernetes::object::{KeyValues, ObjectId, text_at};

/// Labels of a namespace with the level of security that it enforces, and the version of that.
const ENFORCE: [&str; 2] = ["pod-security.kubernetes.io/enforce", "pod-security.kubernetes.io/enforce-version"];

/// Returns the LimitRanges and the other events after which the server may refuse a Pod or a claim that it accepts now.
pub(super) fn limiting_events<'w>(world: &'w World<'_, '_>, object: &AppliedObject) -> Vec<&'w Event> {
    let mut events = limiting(world, object);
    events.extend(refusing(world, object));
    events
}

/// Returns the events after which the server may refuse a Pod that it accepts now.
fn refusing<'w>(world: &'w World<'_, '_>, object: &AppliedObject) -> Vec<&'w Event> {
    if !object.id.is_here("", "Pod") {
        return vec![];
    }
    let mut events = securing(world, object);
    if !world.state.is_live(&object.id) {
        let needed = needed_by(object);
        events.extend(world.events.iter().filter(|event| event.is_deleted && needed.contains(&event.id)));
    }
    events.retain(|event| world.precedence(event, &object.owner, &object.id) != Precedence::After);
    events
}

/// Returns the objects that a Pod names and must find when it is created.
fn needed_by(object: &AppliedObject) -> Vec<ObjectId> {
    let manifest = &object.built.manifest;
    let named = [
        ("", "ServiceAccount", &*object.id.namespace, "/spec/serviceAccountName"),
        ("scheduling.k8s.io", "PriorityClass", "", "/spec/priorityClassName"),
        ("node.k8s.io", "RuntimeClass", "", "/spec/runtimeClassName"),
    ];
    named.map(|(group, kind, namespace, at)| ObjectId::new(group, kind, namespace, text_at(manifest, at))).to_vec()
}

/// Returns the changes of a namespace that make it enforce more, or another version.
fn securing<'w>(world: &'w World<'_, '_>, object: &AppliedObject) -> Vec<&'w Event> {
    let Some((before, after, events)) = world.namespace_labels(&object.id) else { return vec![] };
    let version = |labels: &KeyValues| labels.get(ENFORCE[1]).map(str::to_owned);
    let is_weaker = before.as_ref().is_some_and(|before| {
        level(after.get(ENFORCE[0])) <= level(before.get(ENFORCE[0])) && version(before) == version(&after)
    });
    let enforces = level(after.get(ENFORCE[0])) > 0;
    if enforces && !is_weaker { events } else { vec![] }
}

/// Returns how strict a level is. An unknown one counts as the strictest.
fn level(name: Option<&str>) -> u8 {
    match name {
        None | Some("privileged") => 0,
        Some("baseline") => 1,
        Some(_) => 2,
    }
}

/// Returns the LimitRanges after which the server may refuse an object that it accepts now. A run asks about a Pod or a
/// claim before it applies a LimitRange that comes before it in the same stage.
fn limiting<'w>(world: &'w World<'_, '_>, object: &AppliedObject) -> Vec<&'w Event> {
    let (id, is_new) = (&object.id, !world.state.is_live(&object.id));
    let near = world.events.iter().filter(|event| event.id.is("", "LimitRange") && event.id.cluster == id.cluster);
    let bounding = near.filter(|event| {
        let manifest = event.manifest().filter(|_| !event.is_deleted && event.id.namespace == id.namespace);
        manifest.is_some_and(|manifest| bounds(manifest, id, is_new))
    });
    let earlier = bounding.filter(|event| {
        (event.is_of(&object.owner) && apply_order(&event.id, id).is_lt())
            || world.precedence(event, &object.owner, id) != Precedence::After
    });
    earlier.collect()
}
