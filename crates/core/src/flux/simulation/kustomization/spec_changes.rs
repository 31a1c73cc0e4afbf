//! Changes of the specs of Kustomizations by the passes of their parents, and by other owners.

use std::collections::BTreeMap;

use serde_json::Value;

use super::live_spec::SpecChange;
use crate::flux::apply::AppliedObject;
use crate::flux::apply::ignore_rules::{IgnoreTarget, ignored_paths};
use crate::flux::apply::manifest::manifest_to_apply;
use crate::flux::build::objects::BuiltObject;
use crate::flux::kustomize_controller;
use crate::flux::simulation::model::node::{Node, PassId, PassSpec};
use crate::flux::simulation::model::protection::{is_marked, is_never_applied};
use crate::flux::simulation::model::state::State;
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::object::{ObjectId, list_at};
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND, SSA};

/// Returns for every Kustomization the specs that passes of its parents apply, in order.
pub(crate) fn spec_changes(state: &State<'_>) -> BTreeMap<NamespacedName, Vec<SpecChange>> {
    let mut changes: BTreeMap<NamespacedName, Vec<SpecChange>> = BTreeMap::new();
    for (pass_id, pass) in state.nodes.iter().flat_map(Node::numbered_passes) {
        for (id, built) in pass.applied_objects().into_iter().flatten().filter(|(id, _)| id.is_here(GROUP, KIND)) {
            // Of a manifest that is encrypted as a whole only the live spec is known.
            if !is_never_applied(built, &pass.spec) && built.manifest.is_object() {
                let mut change = spec_change(built, &pass_id, &pass.spec);
                let of_child = changes.entry(NamespacedName::of(id)).or_default();
                for (ignored, is_optional) in ignored_fields(state, built, id, &pass_id, &pass.spec) {
                    change.ignored = ignored;
                    change.applied.is_optional = is_optional;
                    of_child.push(change.clone());
                }
            }
        }
    }
    for (_, applies) in state.owner_applies() {
        let written = applies.steps().enumerate().flat_map(|(step, objects)| objects.iter().map(move |it| (step, it)));
        for (step, (id, built)) in written.filter(|(_, (id, _))| id.is(GROUP, KIND)) {
            let written = KustomizationSpec::new(built.manifest.get("spec").unwrap_or(&Value::Null));
            let spec = written.with_secrets(built.is_masked_at("/spec"));
            let is_optional = step < applies.earlier.len();
            let applied = PassSpec { spec, trigger: Some(applies.trigger.clone()), is_optional };
            changes.entry(NamespacedName::of(id)).or_default().push(SpecChange::by_owner(applied, applies.manager));
        }
    }
    changes
}

/// Returns the change of a child's spec by a pass with a spec.
fn spec_change(built: &BuiltObject, pass: &PassId, spec: &KustomizationSpec) -> SpecChange {
    let written = KustomizationSpec::new(built.manifest.get("spec").unwrap_or(&Value::Null));
    let desired = written.with_secrets(built.is_masked_at("/spec"));
    SpecChange {
        applied: PassSpec { spec: desired, trigger: Some(pass.clone()), is_optional: false },
        only_if_absent: is_marked(built, spec, SSA, "ifnotpresent"),
        merges: is_marked(built, spec, SSA, "merge"),
        ignored: vec![],
        manager: kustomize_controller::NAME,
    }
}

/// Returns the fields of a child that an apply leaves as they are. The rules are matched with what the apply makes of the
/// child, so labels of other managers count too. Who set a live label that the manifest does not have is mostly not known: if the
/// fields depend on it, the second entry has the ones that are left in either case, and it is a race if it counts.
///
/// Source: `hasDriftedWithIgnore` and `computeDriftedPaths` in manager_apply.go of fluxcd/pkg/ssa v0.76.2.
fn ignored_fields(
    state: &State<'_>,
    built: &BuiltObject,
    id: &ObjectId,
    pass: &PassId,
    spec: &KustomizationSpec,
) -> Vec<(Vec<String>, bool)> {
    if !state.input.features.ignores_fields || list_at(spec.value(), "/ignore").is_empty() {
        return vec![(vec![], false)];
    }
    let owner = pass.node.key.clone();
    let (spec, built) = (spec.clone(), built.clone());
    let applied = AppliedObject { owner, spec, id: id.clone(), built, live_is_private: false };
    let manifest = manifest_to_apply(&applied);
    let mut target = IgnoreTarget::new(id, &applied.built.version, &manifest);
    let own = ignored_paths(&applied.spec, &target);
    if let Some(live) = state.live_object(id) {
        target.add(live);
    }
    let mut all = ignored_paths(&applied.spec, &target);
    let mut certain = own.clone();
    certain.retain(|path| all.contains(path));
    all.extend(own.into_iter().filter(|path| !certain.contains(path)));
    let is_open = certain.len() < all.len();
    [(all, false)].into_iter().chain(is_open.then_some((certain, true))).collect()
}
