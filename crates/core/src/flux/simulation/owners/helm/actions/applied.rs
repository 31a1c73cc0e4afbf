//! Objects that an install or an upgrade of a release applies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::action::ReleaseAction;
use super::failure::Attempt;
use super::hook_runs::RefusedStep;
use crate::flux::apply::question::HELM_CONTROLLER;
use crate::flux::build::charts::Chart;
use crate::flux::build::objects::{BuiltObject, MaskedObject};
use crate::flux::simulation::model::affected_owner::{LiveChange, OwnerApply};
use crate::flux::simulation::model::node::BuiltObjects;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::comparison::Comparison;
use crate::flux::simulation::owners::helm::render::release_charts::UNKNOWN_REVISION;
use crate::helm::hooks::HookFate;
use crate::helm::rendered::Rendered;
use crate::kubernetes::object::{ObjectId, text_at};
use crate::plan::{Reason, ReasonCode};

impl Attempt<'_> {
    /// Returns the objects that helm-controller applies: what the action needs first, those of the manifest that it renders now, or
    /// of another one, and those of its hooks that stay, with the changes of live ones; `None` if no pass is known that leads to it.
    /// Of a release with values of Secrets only the objects that exist are among them: the names of others could hold such values. Nor
    /// are those that are named by a revision of the source, or whose namespace does not exist.
    pub(crate) fn applies<'r>(
        &self,
        comparison: &Comparison<'_, '_, '_>,
        manifests: impl IntoIterator<Item = &'r Rendered>,
        action: &ReleaseAction,
        is_doubtful: bool,
    ) -> Option<OwnerApply> {
        let (_, trigger) = comparison.state().applied_specs(self.id).last()?;
        let mut objects = self.applied_objects(comparison, manifests, &action.left_hooks());
        let mut live_changes = self.live_changes(comparison, action);
        let is_refused = |id: &ObjectId| self.new.objects.contains(id) && action.never_applies(id);
        objects.retain(|id, _| !is_refused(id));
        live_changes.retain(|id, _| !is_refused(id));
        let objects = Arc::new(objects);
        let (earlier, manager, code) = (vec![], HELM_CONTROLLER, ReasonCode::InChart);
        Some(OwnerApply { trigger, objects, live_changes, earlier, manager, code, is_doubtful, chart: None })
    }

    /// Returns the live object whose change the API server refuses, if the action always fails at it.
    pub(crate) fn refused_update(&self, state: &State<'_>, action: &ReleaseAction) -> Option<(ObjectId, Reason)> {
        let RefusedStep { id, message, .. } = action.refused_object()?;
        let is_changed = !self.old.is_some_and(|old| self.new.has_same(old, id));
        (is_changed && state.is_live(id)).then(|| (id.clone(), Reason::new(ReasonCode::Refused, message.clone())))
    }

    /// Returns what the manifest changes of live objects: what the API server says, or else the difference to the last manifest,
    /// as today's cluster answers what its templates look up.
    fn live_changes(
        &self,
        comparison: &Comparison<'_, '_, '_>,
        action: &ReleaseAction,
    ) -> BTreeMap<ObjectId, LiveChange> {
        let state = comparison.state();
        let is_patched = !self.is_applied_on_server(comparison);
        let removes_unapplied = self.removes_unapplied(comparison);
        let is_private = self.is_private || self.old.is_some_and(|old| old.is_private);
        let first = self.prerequisites(state);
        let staying = self.new.hooks.iter().filter(|(id, _)| {
            let run = action.hooks.get(id);
            run.is_some_and(|run| matches!(run.fate, HookFate::Applied | HookFate::DeletedOnFailure))
        });
        let hooks = staying.map(|(id, hook)| (id, &hook.manifest));
        // A patch of the difference to the last manifest does something else than an apply.
        let is_custom =
            |id: &ObjectId| state.input.snapshot.type_of(id).is_some_and(|kind| state.is_live(&kind.definition()));
        let all = self.new.manifests().iter().chain(&first).chain(hooks);
        let live = all.filter(|(id, _)| state.is_live(id) && !self.gone.contains(*id));
        let known = live.filter_map(|(id, new)| {
            let old = self
                .old
                .and_then(|old| old.manifests().get(id).or_else(|| old.hooks.get(id).map(|hook| &hook.manifest)));
            let answer = action.live_changes.get(id).filter(|_| !(is_patched && is_custom(id)));
            let change = match (answer, old) {
                (Some(None), Some(old)) if removes_unapplied && lacks_fields(new, old) => {
                    LiveChange::of_manifests(old, new, is_private)
                }
                (Some(None), _) => LiveChange::None,
                (Some(Some(update)), old) => {
                    let replaced = old.filter(|old| *old != new);
                    LiveChange::of_answer(update.clone(), id, replaced, is_private)
                }
                (None, Some(old)) => LiveChange::of_manifests(old, new, is_private),
                (None, None) => return None,
            };
            Some((id.clone(), change))
        });
        known.collect()
    }

    /// Returns the manifest of a live object of Flux with the spec that it gets if Helm patches it: of custom resources, only what
    /// differs from the last manifest is changed.
    fn patched(&self, comparison: &Comparison<'_, '_, '_>, id: &ObjectId, new: &Value) -> Option<Value> {
        let live = comparison.state().input.snapshot.resource(id)?;
        let old = self.old?.manifests().get(id).filter(|_| !self.is_applied_on_server(comparison))?;
        let mut spec = live.spec().clone();
        patch(&mut spec, &old["spec"], new.get("spec")?);
        let mut manifest = new.clone();
        manifest["spec"] = spec;
        Some(manifest)
    }

    /// Returns the objects of manifests that helm-controller applies, and `hooks`, those of their hooks that stay.
    pub(crate) fn applied_objects<'r>(
        &self,
        comparison: &Comparison<'_, '_, '_>,
        manifests: impl IntoIterator<Item = &'r Rendered>,
        hooks: &BTreeSet<&ObjectId>,
    ) -> BuiltObjects {
        let state = comparison.state();
        let mut objects = BuiltObjects::new();
        for rendered in manifests {
            let is_private = rendered.is_private;
            let known = rendered.manifests().iter().filter(|(id, _)| shows(rendered, id) || state.is_live(id));
            objects.extend(known.map(|(id, manifest)| {
                let patched = self.patched(comparison, id, manifest);
                (id.clone(), applied_object(id, patched.as_ref().unwrap_or(manifest), is_private))
            }));
            let created = rendered.hooks.iter().filter(|(id, _)| shows(rendered, id) && hooks.contains(id));
            objects.extend(created.map(|(id, hook)| (id.clone(), applied_object(id, &hook.manifest, is_private))));
        }
        // What a chart defines holds no value; the name of a new namespace can be one.
        let first = self.prerequisites(state).into_iter();
        let shown = first.filter(|(id, _)| !(self.is_private && id.is("", "Namespace")));
        objects.extend(shown.map(|(id, manifest)| (id.clone(), applied_object(&id, &manifest, false))));
        objects.retain(|id, _| !self.lacks_namespace(comparison, id));
        objects
    }
}

/// Returns true if the identity of an object that a release renders is known and holds no value of a Secret.
fn shows(rendered: &Rendered, id: &ObjectId) -> bool {
    !rendered.is_private && !id.name.contains(UNKNOWN_REVISION)
}

/// Changes a live value by the JSON merge patch from one manifest to another.
fn patch(live: &mut Value, old: &Value, new: &Value) {
    let (Some(before), Some(after)) = (old.as_object(), new.as_object()) else {
        if old != new {
            *live = new.clone();
        }
        return;
    };
    if !live.is_object() {
        *live = json!({});
    }
    let Some(fields) = live.as_object_mut() else { return };
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        fields.remove(key);
    }
    for (key, value) in after.iter().filter(|(key, value)| before.get(*key) != Some(*value)) {
        let field = fields.entry(key.clone()).or_insert(Value::Null);
        patch(field, before.get(key).unwrap_or(&Value::Null), value);
    }
}

/// Returns true if a manifest may lack a field of another one.
fn lacks_fields(new: &Value, old: &Value) -> bool {
    match (new, old) {
        (Value::Object(new), Value::Object(old)) => {
            old.iter().any(|(key, old)| new.get(key).is_none_or(|new| lacks_fields(new, old)))
        }
        (Value::Null, old) => !old.is_null(),
        (Value::Array(new), Value::Array(old)) => {
            new.len() < old.len() || new.iter().zip(old).any(|(new, old)| lacks_fields(new, old))
        }
        _ => false,
    }
}

/// Adds the chart of a release to what is applied of it.
pub(crate) fn of_chart(applies: OwnerApply, chart: &Chart) -> OwnerApply {
    OwnerApply { chart: Some((chart.name.clone(), chart.version.clone())), ..applies }
}

pub(crate) fn applied_object(id: &ObjectId, manifest: &Value, is_private: bool) -> BuiltObject {
    let version = text_at(manifest, "/apiVersion").rsplit('/').next().unwrap_or_default().to_owned();
    let masked = is_private.then(|| Box::new(MaskedObject { id: id.shown().into_owned(), manifest: Value::Null }));
    BuiltObject { id: id.clone(), version, manifest: Arc::new(manifest.clone()), undecrypted: None, masked }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_changes_what_differs_between_the_manifests() {
        let live = json!({"path": "./drifted", "suspend": true, "a": {"by-hand": 1, "b": 1}, "list": [1, 2]});
        for (old, new, expected) in [
            (json!({"path": "./a"}), json!({"path": "./a"}), live.clone()),
            (
                json!({"path": "./a"}),
                json!({"path": "./b"}),
                json!({"path": "./b", "suspend": true, "a": {"by-hand": 1, "b": 1}, "list": [1, 2]}),
            ),
            (
                json!({"suspend": true}),
                json!({}),
                json!({"path": "./drifted", "a": {"by-hand": 1, "b": 1}, "list": [1, 2]}),
            ),
            (
                json!({"a": {"b": 1}}),
                json!({"a": {"c": 2}}),
                json!({"path": "./drifted", "suspend": true, "a": {"by-hand": 1, "c": 2}, "list": [1, 2]}),
            ),
            (
                json!({"list": [1]}),
                json!({"list": [3], "new": {"x": 1}}),
                json!({"path": "./drifted", "suspend": true, "a": {"by-hand": 1, "b": 1}, "list": [3], "new": {"x": 1}}),
            ),
        ] {
            let mut patched = live.clone();
            patch(&mut patched, &old, &new);
            assert_eq!(patched, expected, "{old} → {new}");
        }
    }
}
