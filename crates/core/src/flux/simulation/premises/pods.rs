//! Checks of the server for Pods that are applied themselves: the security that their namespace enforces, and the objects
//! that they name. Workloads whose Pods are refused are accepted.
//!
//! Source: Kubernetes v1.36.3 `pod-security-admission/admission/admission.go` (`ValidatePod`), and
//! `plugin/pkg/admission/{serviceaccount,priority,runtimeclass}`. Users, namespaces and classes can be exempt, so that no refusal is
//! certain.

use super::event::Event;
use super::world::{Precedence, World};
use crate::flux::apply::AppliedObject;
use crate::kubernetes::object::{KeyValues, ObjectId, text_at};

/// Labels of a namespace with the level of security that it enforces, and the version of that.
const ENFORCE: [&str; 2] = ["pod-security.kubernetes.io/enforce", "pod-security.kubernetes.io/enforce-version"];

/// Returns the events after which the server may refuse a Pod that it accepts now.
pub(super) fn refusing<'w>(world: &'w World<'_, '_>, object: &AppliedObject) -> Vec<&'w Event> {
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
