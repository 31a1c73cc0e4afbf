//! The spec of a live Kustomization, and its changes by the applies of its parents.
//!
//! An apply sets the fields of the manifest. Fields of other managers stay, unless the controller takes them over
//! (docs/reference/kustomize-controller.md 4.4), and so do fields that the parent ignores (4.3).

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::flux::apply::managed_fields::{overlay, owned_part};
use crate::flux::apply::question::HELM_CONTROLLER;
use crate::flux::build::objects::BuiltObject;
use crate::flux::controller_flags::ControllerFlags;
use crate::flux::kustomize_controller;
use crate::flux::simulation::model::node::{PassId, PassSpec};
use crate::flux::simulation::model::protection::{is_marked, is_marked_live, is_never_changed};
use crate::flux::spec::KustomizationSpec;
use crate::kubernetes::object::Resource;
use crate::ownership::schemes::flux_kustomization::SSA;
use crate::text::unescape_step;

/// The application of a manifest of a Kustomization by a pass of its parent.
#[derive(Clone, Debug)]
pub(crate) struct SpecChange {
    /// Spec of the manifest, and the pass that applies it.
    pub(crate) applied: PassSpec,
    /// The manifest is not applied to a Kustomization that exists.
    pub(crate) only_if_absent: bool,
    /// The manifest lets the fields of kubectl stay.
    pub(crate) merges: bool,
    /// JSON pointers of the fields that keep their live values.
    pub(crate) ignored: Vec<String>,
    /// Field manager of the controller that applies the manifest.
    pub(crate) manager: &'static str,
}

impl SpecChange {
    /// Returns the application of a manifest by the controller of another owner, which has this field manager.
    pub(crate) fn by_owner(applied: PassSpec, manager: &'static str) -> Self {
        Self { applied, only_if_absent: false, merges: false, ignored: vec![], manager }
    }

    /// Returns the change by a pass with a spec, without the fields that this ignores.
    pub(super) fn by_pass(built: &BuiltObject, trigger: Option<PassId>, spec: &KustomizationSpec) -> Self {
        let written = KustomizationSpec::new(built.manifest.get("spec").unwrap_or(&Value::Null));
        let desired = written.with_secrets(built.is_masked_at("/spec"));
        Self {
            applied: PassSpec::new(desired, trigger),
            only_if_absent: is_marked(built, spec, SSA, "ifnotpresent"),
            merges: is_marked(built, spec, SSA, "merge"),
            ignored: vec![],
            manager: kustomize_controller::NAME,
        }
    }
}

/// A live spec with the fields that survive an apply.
struct LiveSpec {
    spec: KustomizationSpec,
    /// Fields of managers whose fields stay.
    foreign: Value,
    /// Fields that the controller takes over, and that stay only if nothing is taken over.
    taken_over: Value,
}

/// Returns the live spec of a Kustomization, and the different specs after changes by its parents.
pub(crate) fn live_specs(live: &Resource, changes: &[SpecChange], flags: &ControllerFlags) -> Vec<PassSpec> {
    let mut specs = vec![PassSpec::new(KustomizationSpec::of(live), None)];
    // Only kustomize-controller reads the mark.
    let is_unmarked = !is_never_changed(&live.object);
    let changes: Vec<&SpecChange> =
        changes.iter().filter(|change| is_unmarked || change.manager != kustomize_controller::NAME).collect();
    let merges = is_marked_live(&live.object, SSA, "merge");
    let managers: BTreeSet<&str> = changes.iter().map(|change| change.manager).collect();
    let mut current = LiveSpec::of(live, &managers, flags);
    for change in changes.into_iter().filter(|change| !change.only_if_absent) {
        current.apply(change, merges || change.merges);
        let last = specs.len() - 1;
        if current.spec.value() != specs[last].spec.value() {
            specs.push(PassSpec { spec: current.spec.clone(), ..change.applied.clone() });
            continue;
        }
        specs[last].is_optional &= change.applied.is_optional;
        if change.applied.condition.is_none() {
            specs[last].condition = None;
        }
        if current.spec.holds_secrets() {
            specs[last].spec = current.spec.clone();
        }
    }
    specs
}

/// Returns the spec that the API server makes of a live Kustomization in the dry-run of a change: before the controller takes
/// fields over.
pub(super) fn answer_to_apply(live: &Resource, change: &SpecChange, flags: &ControllerFlags) -> KustomizationSpec {
    let mut spec = LiveSpec::of(live, &BTreeSet::from([change.manager]), flags);
    spec.apply(change, true);
    spec.spec
}

impl LiveSpec {
    /// Reads a live spec. `managers` are the field managers of the controllers that apply it.
    fn of(live: &Resource, managers: &BTreeSet<&str>, flags: &ControllerFlags) -> Self {
        let (mut foreign, mut taken_over) = (Value::Null, Value::Null);
        for entry in live.object.managed_fields.iter().filter(|entry| entry.subresource.is_empty()) {
            // Helm patches the objects of a release that is not applied on the server.
            let is_controller =
                managers.contains(&*entry.manager) && (entry.applies || &*entry.manager == HELM_CONTROLLER);
            if flags.takes_over(&entry.manager, entry.applies) {
                overlay(&mut taken_over, &owned_part(entry, live.spec()));
            } else if !is_controller {
                overlay(&mut foreign, &owned_part(entry, live.spec()));
            }
        }
        Self { spec: KustomizationSpec::of(live), foreign, taken_over }
    }

    fn apply(&mut self, change: &SpecChange, merges: bool) {
        if change.ignored.iter().any(|pointer| matches!(pointer.as_str(), "" | "/spec")) {
            return;
        }
        let mut fields = self.foreign.clone();
        if merges {
            overlay(&mut fields, &self.taken_over);
        } else {
            self.taken_over = Value::Null;
        }
        let desired = change.applied.spec.as_written();
        overlay(&mut fields, &desired);
        for pointer in change.ignored.iter().filter_map(|pointer| pointer.strip_prefix("/spec/")) {
            let steps: Vec<String> = pointer.split('/').map(unescape_step).collect();
            set(&mut fields, &steps, at(self.spec.value(), &steps));
        }
        for part in [&mut self.foreign, &mut self.taken_over] {
            forget_overwritten(part, &desired);
        }
        self.spec = KustomizationSpec::new(&fields).with_secrets(change.applied.spec.holds_secrets());
    }
}

/// Removes the fields to which an apply gives another value: their managers lose them.
fn forget_overwritten(fields: &mut Value, desired: &Value) {
    let (Value::Object(fields), Value::Object(desired)) = (fields, desired) else { return };
    fields.retain(|key, value| match desired.get(key) {
        Some(Value::Object(_)) if value.is_object() => true,
        Some(desired) => desired == value,
        None => true,
    });
    for (key, value) in fields {
        if let Some(desired) = desired.get(key) {
            forget_overwritten(value, desired);
        }
    }
}

fn at<'a>(value: &'a Value, steps: &[String]) -> Option<&'a Value> {
    steps.iter().try_fold(value, |value, step| match value {
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        value => value.get(step),
    })
}

/// Sets the value at a path, or removes it if there is none.
fn set(target: &mut Value, steps: &[String], value: Option<&Value>) {
    let Some((first, rest)) = steps.split_first() else { return };
    match (target, rest.is_empty(), value) {
        (Value::Object(fields), true, None) => {
            fields.remove(first);
        }
        (Value::Object(fields), true, Some(value)) => {
            fields.insert(first.clone(), value.clone());
        }
        (Value::Object(fields), false, value) => {
            if value.is_some() {
                fields.entry(first.clone()).or_insert_with(|| Value::Object(Map::new()));
            }
            if let Some(inner) = fields.get_mut(first) {
                set(inner, rest, value);
            }
        }
        (Value::Array(items), is_last, value) => {
            let Some(item) = first.parse::<usize>().ok().and_then(|at| items.get_mut(at)) else { return };
            match (is_last, value) {
                (true, Some(value)) => *item = value.clone(),
                (true, None) => {}
                (false, value) => set(item, rest, value),
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kubernetes::object::ManagedFieldsEntry;
    use crate::ownership::schemes::flux_operator;
    use crate::testing::object;

    fn live(spec: &Value, managers: &[(&str, Value)]) -> Resource {
        let mut object = object("", "", "", "");
        object.managed_fields = managers
            .iter()
            .map(|(manager, fields)| ManagedFieldsEntry {
                manager: (*manager).into(),
                applies: *manager == kustomize_controller::NAME,
                spec: Some(Box::new(fields.clone())),
                ..Default::default()
            })
            .collect();
        Resource { object, content: json!({"spec": spec}) }
    }

    fn change(spec: &Value) -> SpecChange {
        let applied = PassSpec::new(KustomizationSpec::new(spec), None);
        SpecChange {
            applied,
            only_if_absent: false,
            merges: false,
            ignored: vec![],
            manager: kustomize_controller::NAME,
        }
    }

    fn last(live: &Resource, changes: &[SpecChange]) -> Value {
        live_specs(live, changes, &ControllerFlags::default()).last().unwrap().spec.value().clone()
    }

    #[test]
    fn fields_of_other_managers_survive_an_apply() {
        let spec = json!({"path": "a", "suspend": true, "timeout": "1m",
            "postBuild": {"substitute": {"a": "1", "b": "2"}}});
        let managers = [
            ("flux", json!({"f:suspend": {}, "f:postBuild": {"f:substitute": {"f:b": {}}}})),
            ("kubectl-edit", json!({"f:timeout": {}})),
            (
                kustomize_controller::NAME,
                json!({"f:path": {}, "f:postBuild": {".": {}, "f:substitute": {".": {}, "f:a": {}}}}),
            ),
        ];
        let live = live(&spec, &managers);
        let after = last(&live, &[change(&json!({"path": "b"}))]);
        assert_eq!(after, json!({"path": "b", "suspend": true, "postBuild": {"substitute": {"b": "2"}}}));
        let merged = SpecChange { merges: true, ..change(&json!({"path": "b"})) };
        assert_eq!(last(&live, &[merged])["timeout"], "1m");
    }

    #[test]
    fn a_value_in_the_manifest_wins_even_if_it_is_the_default() {
        let live = live(&json!({"path": "a", "suspend": true}), &[("flux", json!({"f:suspend": {}}))]);
        let written = change(&json!({"path": "a", "suspend": false}));
        assert_eq!(last(&live, std::slice::from_ref(&written)), json!({"path": "a"}));
        let dropped = change(&json!({"path": "a"}));
        assert_eq!(last(&live, &[written, dropped.clone()]), json!({"path": "a"}), "the other manager lost it");
        assert_eq!(last(&live, &[dropped])["suspend"], true);
    }

    #[test]
    fn a_manifest_that_is_applied_only_if_absent_changes_nothing() {
        let live = live(&json!({"path": "a"}), &[]);
        let skipped = SpecChange { only_if_absent: true, ..change(&json!({"path": "b"})) };
        assert_eq!(last(&live, &[skipped]), json!({"path": "a"}));
    }

    #[test]
    fn the_mark_that_keeps_kustomize_controller_away_does_not_stop_flux_operator() {
        let mut live = live(&json!({"path": "a"}), &[]);
        live.object.annotations = [("kustomize.toolkit.fluxcd.io/ssa", "Ignore")].into_iter().collect();
        let changed = change(&json!({"path": "b"}));
        assert_eq!(last(&live, std::slice::from_ref(&changed))["path"], "a");
        assert_eq!(last(&live, &[SpecChange { manager: flux_operator::NAME, ..changed }])["path"], "b");
    }

    #[test]
    fn ignored_fields_keep_their_live_values() {
        let live = live(&json!({"path": "a", "images": [{"name": "x", "newTag": "1"}]}), &[]);
        let pointers = ["/spec/path", "/spec/images/0/newTag", "/spec/postBuild/substitute/v", "/spec/targetNamespace"];
        let manifest = json!({"path": "b", "images": [{"name": "x", "newTag": "2"}], "targetNamespace": "t", "prune": true,
            "postBuild": {"substitute": {"v": "1", "w": "2"}}});
        let changed = SpecChange { ignored: pointers.map(str::to_owned).to_vec(), ..change(&manifest) };
        let expected = json!({"path": "a", "images": [{"name": "x", "newTag": "1"}], "prune": true,
            "postBuild": {"substitute": {"w": "2"}}});
        assert_eq!(last(&live, &[changed]), expected);
        let whole = SpecChange { ignored: vec!["/spec".to_owned()], ..change(&manifest) };
        assert_eq!(last(&live, &[whole]), *live.spec());
    }
}
