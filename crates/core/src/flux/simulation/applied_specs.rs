//! Specs of objects other than Kustomizations after the change.

use serde_json::Value;

use super::Preview;
use super::model::Pass;
use super::protection::{is_marked, is_never_applied, is_never_changed};
use crate::flux::build::objects::BuiltObject;
use crate::flux::controller_flags::ControllerFlags;
use crate::flux::kustomize_controller;
use crate::flux::spec::NamespacedName;
use crate::kubernetes::object::{ManagedFieldsEntry, ObjectId, Resource};
use crate::ownership::schemes::flux_kustomization::SSA;

/// A built object, and the Kustomization that applies it.
pub(super) type Applied<'r> = (&'r NamespacedName, &'r BuiltObject);

impl<'a> Preview<'a> {
    /// Returns the manifests of an object that passes apply, except those that change nothing of the live object.
    pub(super) fn applied(&self, id: &ObjectId) -> Vec<Applied<'_>> {
        let mut applied: Vec<Applied<'_>> = self.applying_passes(id).map(|(owner, _, built)| (owner, built)).collect();
        applied.dedup_by(|next, earlier| next.1.manifest == earlier.1.manifest);
        applied
    }

    /// Returns the passes that apply an object and can change it, with their Kustomizations and manifests.
    pub(super) fn applying_passes(
        &self,
        id: &ObjectId,
    ) -> impl Iterator<Item = (&NamespacedName, &Pass, &BuiltObject)> {
        let live = self.live_object(id);
        let nodes = self.nodes.iter().filter(move |_| !live.is_some_and(is_never_changed));
        let passes = nodes.flat_map(|node| node.passes.iter().map(|pass| (&node.id.key, pass)));
        passes.filter_map(move |(owner, pass)| {
            let built = pass.applied_objects()?.get(id)?;
            let is_skipped = live.is_some() && is_marked(built, &pass.spec, SSA, "ifnotpresent");
            (!is_skipped && !is_never_applied(built, &pass.spec)).then_some((owner, pass, built))
        })
    }

    /// Returns the specs that an object has after the change: those that passes apply, with the fields of other managers,
    /// or the live one.
    pub(super) fn specs_after(&self, id: &ObjectId) -> Vec<Value> {
        let live = self.input.snapshot.resource(id);
        let applied = self.applied(id);
        let specs: Vec<Value> = applied
            .iter()
            .filter_map(|(_, built)| Some(merged(built.manifest.get("spec")?, live, &self.input.flags)))
            .collect();
        if !applied.is_empty() {
            return specs;
        }
        live.map(|live| live.spec().clone()).into_iter().collect()
    }

    /// Returns true if `spec.suspend` is true after the change.
    pub(super) fn is_suspended_after(&self, id: &ObjectId) -> bool {
        let live = self.input.snapshot.resource(id).filter(|live| live.flag("/spec/suspend"));
        let flags = &self.input.flags;
        let is_foreign = live.is_some_and(|live| {
            live.object.managed_fields.iter().any(|entry| entry.suspend && is_foreign(entry, flags))
        });
        let applied = self.applied(id);
        if applied.is_empty() {
            return live.is_some();
        }
        applied.iter().all(|(_, built)| match built.manifest.pointer("/spec/suspend") {
            Some(suspend) => *suspend == Value::Bool(true),
            None => is_foreign,
        })
    }
}

/// Returns the spec of a manifest with the fields of the live spec that it lacks and that other managers own.
fn merged(manifest: &Value, live: Option<&Resource>, flags: &ControllerFlags) -> Value {
    let mut spec = manifest.clone();
    let (Some(fields), Some(live)) = (spec.as_object_mut(), live) else { return spec };
    let foreign = live.object.managed_fields.iter().filter(|entry| is_foreign(entry, flags));
    for (key, _) in foreign.filter_map(|entry| entry.spec.as_ref()?.as_object()).flatten() {
        let Some(name) = key.strip_prefix("f:") else { continue };
        if let (false, Some(value)) = (fields.contains_key(name), live.spec().get(name)) {
            fields.insert(name.to_owned(), value.clone());
        }
    }
    spec
}

/// Returns true if the fields of a manager stay when kustomize-controller applies an object.
fn is_foreign(entry: &ManagedFieldsEntry, flags: &ControllerFlags) -> bool {
    entry.subresource.is_empty()
        && &*entry.manager != kustomize_controller::NAME
        && !flags.takes_over(&entry.manager, entry.applies)
}
