//! Search for the owners that a change affects and whose effect is not computed.

use std::collections::BTreeSet;

use serde_json::Value;

use super::comparison::Comparison;
use super::model::Pass;
use super::passes::Derivation;
use super::scope::Scopes;
use super::unfollowed::Unfollowed;
use super::{Consequences, Preview};
use crate::flux::build::{Answers, Needs};
use crate::flux::controller_flags::ControllerFlags;
use crate::flux::kustomize_controller;
use crate::kubernetes::object::{ObjectId, ObjectMetadata};

impl<'a> Preview<'a> {
    /// Returns the affected owners whose effect is not computed, and the answers that are missing.
    pub(super) fn find_unfollowed(
        &self,
        consequences: &Consequences<'a>,
        answers: &Answers,
    ) -> (Vec<Unfollowed>, Needs) {
        let scopes = Scopes::new(self.input.snapshot, &self.nodes, &self.input.flags.custom_stage_kinds);
        let mut derivation = Derivation { preview: self, consequences, scopes, answers, needs: Needs::default() };
        let mut comparison = Comparison::new(&mut derivation);
        let mut unfollowed = comparison.affected_owners();
        unfollowed.extend(comparison.affected_kustomizations());
        (unfollowed, derivation.needs)
    }
}

impl Comparison<'_, '_, '_> {
    /// Returns the objects of a kind, live ones and those that a pass applies.
    pub(super) fn ids_of(&self, group: &str, kind: &str) -> BTreeSet<ObjectId> {
        let preview = self.preview();
        let live = preview.input.snapshot.objects.iter().map(|object| &object.id);
        let passes = preview.nodes.iter().flat_map(|node| &node.passes);
        let applied = passes.filter_map(Pass::applied_objects).flat_map(|objects| objects.keys());
        live.chain(applied).filter(|id| id.is(group, kind)).cloned().collect()
    }

    /// Returns the specs that an object has after the change: those that passes apply, or the live one.
    pub(super) fn specs_after(&self, id: &ObjectId) -> Vec<Value> {
        let applied = self.applied(id);
        let specs: Vec<Value> = applied.iter().filter_map(|(_, built)| built.manifest.get("spec").cloned()).collect();
        if !applied.is_empty() {
            return specs;
        }
        self.preview().input.snapshot.resource(id).map(|live| live.spec().clone()).into_iter().collect()
    }

    /// Returns true if `spec.suspend` is true after the change.
    pub(super) fn is_suspended_after(&self, id: &ObjectId) -> bool {
        let snapshot = self.preview().input.snapshot;
        let live = snapshot.resource(id).filter(|live| live.flag("/spec/suspend"));
        let is_foreign = live.is_some_and(|live| has_foreign_suspend(&live.object, &self.preview().input.flags));
        let applied = self.applied(id);
        if applied.is_empty() {
            return live.is_some();
        }
        applied.iter().all(|(_, built)| match built.manifest.pointer("/spec/suspend") {
            Some(suspend) => *suspend == Value::Bool(true),
            None => is_foreign,
        })
    }

    /// Returns true if `spec.suspend` is true before the change and not after it.
    pub(super) fn is_resumed(&self, id: &ObjectId) -> bool {
        let live = self.preview().input.snapshot.resource(id);
        live.is_some_and(|live| live.flag("/spec/suspend")) && !self.is_suspended_after(id)
    }
}

/// Returns true if a manager whose fields stay set `spec.suspend`.
fn has_foreign_suspend(object: &ObjectMetadata, flags: &ControllerFlags) -> bool {
    object.managed_fields.iter().any(|entry| {
        let is_controller = &*entry.manager == kustomize_controller::NAME;
        entry.suspend && !is_controller && !flags.takes_over(&entry.manager, entry.applies)
    })
}
