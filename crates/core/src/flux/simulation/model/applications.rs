//! Specs of objects other than Kustomizations after the change.

use std::collections::BTreeSet;

use serde_json::Value;

use super::node::{Node, NodeId, Pass, PassId, SimulationEvent};
use super::owner_names::owner_id;
use super::protection::{is_marked, is_never_applied, is_never_changed};
use super::state::State;
use crate::flux::apply::managed_fields::{overlay, owned_part};
use crate::flux::build::objects::BuiltObject;
use crate::flux::controller_flags::ControllerFlags;
use crate::flux::kustomize_controller;
use crate::flux::spec::NamespacedName;
use crate::kubernetes::object::{ManagedFieldsEntry, ObjectId, Resource};
use crate::ownership::schemes::flux::is_switched_off;
use crate::ownership::schemes::flux_kustomization::SSA;

/// The application of a manifest that can change an object.
#[derive(Clone, Copy)]
pub(crate) struct Applied<'r> {
    /// Kustomization that applies the object, or the owner that generates it.
    pub(crate) owner: &'r NamespacedName,
    pub(crate) pass: &'r Pass,
    node: &'r NodeId,
    number: usize,
    pub(crate) built: &'r BuiltObject,
    /// Field manager of the controller that applies it.
    manager: &'static str,
    /// The owner that generates it.
    pub(crate) generator: Option<&'r ObjectId>,
}

impl Applied<'_> {
    fn pass_id(&self) -> PassId {
        PassId { node: self.node.clone(), number: self.number }
    }

    /// Returns the spec of the manifest with the fields of the live spec that it lacks and that other managers own.
    fn merged(&self, live: Option<&Resource>, flags: &ControllerFlags) -> Value {
        let desired = self.built.manifest.get("spec").cloned().unwrap_or_default();
        let Some(live) = live.filter(|_| desired.is_object()) else { return desired };
        let entries = live.object.managed_fields.iter();
        let foreign = entries.filter(|entry| &*entry.manager != self.manager && is_foreign(entry, flags));
        let mut spec = Value::Null;
        foreign.for_each(|entry| overlay(&mut spec, &owned_part(entry, live.spec())));
        overlay(&mut spec, &desired);
        spec
    }
}

impl<'a> State<'a> {
    /// Returns the manifests of an object that passes apply, except those that change nothing of the live object.
    pub(crate) fn applied(&self, id: &ObjectId) -> Vec<Applied<'_>> {
        let mut applied: Vec<Applied<'_>> = self.applications(id).collect();
        applied.dedup_by(|next, earlier| next.built.manifest == earlier.built.manifest);
        applied
    }

    /// Returns the events that apply an object.
    pub(crate) fn applying_events(&self, id: &ObjectId) -> BTreeSet<SimulationEvent> {
        let passes = self.nodes.applying(id).flat_map(Node::numbered_passes);
        passes.filter(|(_, pass)| pass.applies(id)).map(|(number, _)| SimulationEvent::Apply(number)).collect()
    }

    /// Returns the applications of an object that can change it: those by passes, in order, and those by other owners.
    pub(crate) fn applications(&self, id: &ObjectId) -> impl Iterator<Item = Applied<'_>> {
        let live = self.live_object(id);
        let is_changed = !live.is_some_and(is_never_changed);
        let nodes = self.nodes.applying(id).filter(move |_| is_changed);
        let by_passes = nodes.flat_map(move |node: &Node| {
            node.passes.iter().enumerate().filter_map(move |(number, pass)| {
                let built = changed_by(pass, id, live.is_some())?;
                let manager = kustomize_controller::NAME;
                Some(Applied { owner: &node.id.key, pass, node: &node.id, number, built, manager, generator: None })
            })
        });
        by_passes.chain(self.owner_applies().flat_map(move |(generator, applies)| {
            let PassId { node, number } = &applies.trigger;
            let steps =
                self.pass(&applies.trigger).into_iter().flat_map(|pass| applies.steps().map(move |it| (pass, it)));
            steps.filter_map(move |(pass, objects)| {
                let (built, manager) = (objects.get(id)?, applies.manager);
                let generator = Some(generator);
                Some(Applied { owner: &node.key, pass, node, number: *number, built, manager, generator })
            })
        }))
    }

    /// Returns true if a manifest of an object holds values of Secrets, or its live content does.
    pub(crate) fn is_private(&self, id: &ObjectId) -> bool {
        self.applied(id).iter().any(|applied| applied.built.masked.is_some()) || self.live_holds_secrets(id)
    }

    /// Fails if an object has a spec after the change with values that are encrypted and that no live object tells.
    pub(crate) fn check_decrypted(&self, id: &ObjectId) -> Result<(), String> {
        if self.applied(id).iter().any(|applied| applied.built.has_encrypted_spec()) {
            return Err("its spec has encrypted values that were not applied before".to_owned());
        }
        Ok(())
    }

    /// Returns the specs of an object after each application, with the fields of other managers.
    pub(crate) fn applied_specs(&self, id: &ObjectId) -> impl Iterator<Item = (Value, PassId)> {
        let live = self.input.snapshot.resource(id);
        self.applications(id).map(move |applied| (applied.merged(live, &self.input.flags), applied.pass_id()))
    }

    /// Returns the pass of the last application of an object.
    pub(crate) fn last_application(&self, id: &ObjectId) -> Option<PassId> {
        self.applications(id).last().map(|applied| applied.pass_id())
    }

    /// Returns true if an annotation switches an object off after the change.
    pub(crate) fn is_switched_off_after(&self, id: &ObjectId, switch: &str) -> bool {
        let applied = self.applied(id);
        let live = self.live_object(id).and_then(|live| live.annotations.get(switch));
        // A manifest that does not have the annotation keeps it, if somebody else set it.
        let is_considered = live.is_some_and(is_switched_off) || !applied.is_empty();
        is_considered && applied.iter().all(|applied| switches_off(applied.built, switch))
    }

    /// Returns the specs that an object has after the change: those that passes apply, with the fields of other managers,
    /// or the live one.
    pub(crate) fn specs_after(&self, id: &ObjectId) -> Vec<Value> {
        let live = self.input.snapshot.resource(id);
        let applied = self.applied(id);
        let mut specs: Vec<Value> = applied
            .iter()
            .filter(|applied| applied.built.manifest.get("spec").is_some())
            .map(|applied| applied.merged(live, &self.input.flags))
            .collect();
        if !applied.is_empty() {
            specs.dedup();
            return specs;
        }
        live.map(|live| live.spec().clone()).into_iter().collect()
    }

    /// Returns true if no application changes the spec of a live object.
    pub(crate) fn keeps_spec(&self, live: &Resource) -> bool {
        self.specs_after(&live.object.id).iter().all(|after| after == live.spec())
    }

    /// Returns the Kustomizations that apply an object, or owners that they apply and that generate it.
    pub(crate) fn appliers(&self, id: &ObjectId) -> BTreeSet<&NamespacedName> {
        self.applied(id).iter().map(|applied| applied.owner).collect()
    }

    /// Returns the last spec of an object after the change, and those that it has before, in order.
    ///
    /// Fails with the reason why it is not known which one is the last.
    pub(crate) fn successive_specs(&self, id: &ObjectId) -> Result<(Value, Vec<Value>), String> {
        let owners = self.appliers(id);
        if owners.len() > 1 {
            let names: Vec<String> = owners.into_iter().map(|owner| owner_id(owner).to_string()).collect();
            if self.specs_after(id).len() > 1 {
                return Err(format!("{} apply different specs of it", names.join(" and ")));
            }
        }
        self.check_decrypted(id)?;
        let mut specs = self.specs_after(id);
        let last = specs.pop().ok_or_else(|| "its manifest has no spec".to_owned())?;
        Ok((last, specs))
    }

    /// Returns true if `spec.suspend` is true after the change.
    pub(crate) fn is_suspended_after(&self, id: &ObjectId) -> bool {
        let live = self.input.snapshot.resource(id).filter(|live| live.flag("/spec/suspend"));
        let flags = &self.input.flags;
        let is_foreign = live.is_some_and(|live| {
            live.object.managed_fields.iter().any(|entry| entry.suspend && is_foreign(entry, flags))
        });
        let applied = self.applied(id);
        if applied.is_empty() {
            return live.is_some();
        }
        applied.iter().all(|applied| match applied.built.manifest.pointer("/spec/suspend") {
            Some(suspend) => *suspend == Value::Bool(true),
            None => is_foreign,
        })
    }
}

/// Returns the manifest of an object that a pass applies and that can change it.
fn changed_by<'p>(pass: &'p Pass, id: &ObjectId, exists: bool) -> Option<&'p BuiltObject> {
    let built = pass.applied(id)?;
    let is_skipped = exists && is_marked(built, &pass.spec, SSA, "ifnotpresent");
    (!is_skipped && !is_never_applied(built, &pass.spec)).then_some(built)
}

/// Returns what kustomize-controller applied of a live spec. Of a recording without the owners of fields, that is all of it.
pub(crate) fn applied_spec(live: &Resource) -> Value {
    let mut own = live
        .object
        .managed_fields
        .iter()
        .filter(|entry| entry.applies && entry.subresource.is_empty() && &*entry.manager == kustomize_controller::NAME)
        .filter(|entry| entry.spec.is_some())
        .peekable();
    if own.peek().is_none() {
        return live.spec().clone();
    }
    let mut applied = Value::Null;
    own.for_each(|entry| overlay(&mut applied, &owned_part(entry, live.spec())));
    applied
}

/// Returns true if the fields of a manager stay when kustomize-controller applies an object.
pub(crate) fn is_foreign(entry: &ManagedFieldsEntry, flags: &ControllerFlags) -> bool {
    entry.subresource.is_empty()
        && &*entry.manager != kustomize_controller::NAME
        && !flags.takes_over(&entry.manager, entry.applies)
}

/// Returns true if the annotation of a manifest switches its object off.
fn switches_off(built: &BuiltObject, switch: &str) -> bool {
    let annotation = built.manifest.pointer("/metadata/annotations").and_then(|all| all.get(switch)?.as_str());
    annotation.is_some_and(is_switched_off)
}
