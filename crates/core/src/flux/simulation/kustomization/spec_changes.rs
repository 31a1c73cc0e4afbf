//! Changes of the specs of Kustomizations by the passes of their parents, and by other owners.

use std::collections::BTreeMap;

use serde_json::Value;

use super::ignored_fields::{IgnoredFields, ignored_fields};
use super::live_spec::SpecChange;
use crate::flux::simulation::model::node::{Node, PassSpec};
use crate::flux::simulation::model::protection::is_never_applied;
use crate::flux::simulation::model::state::State;
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};
use crate::plan::{Reason, ReasonCode};

/// Returns for every Kustomization the specs that passes of its parents apply, in order.
pub(crate) fn spec_changes(state: &State<'_>) -> BTreeMap<NamespacedName, Vec<SpecChange>> {
    let mut changes: BTreeMap<NamespacedName, Vec<SpecChange>> = BTreeMap::new();
    for (pass_id, pass) in state.nodes.iter().flat_map(Node::numbered_passes) {
        for (id, built) in pass.applied_objects().into_iter().flatten().filter(|(id, _)| id.is_here(GROUP, KIND)) {
            // Of a manifest that is encrypted as a whole only the live spec is known.
            if !is_never_applied(built, &pass.spec) && built.manifest.is_object() {
                let change = SpecChange::by_pass(built, Some(pass_id.clone()), &pass.spec);
                let IgnoredFields { all, certain } = ignored_fields(state, &pass_id.node.key, &pass.spec, built, id);
                let of_child = changes.entry(NamespacedName::of(id)).or_default();
                let perhaps = (certain.len() < all.len()).then(|| {
                    let applied = PassSpec { is_optional: true, ..change.applied.clone() };
                    SpecChange { applied, ignored: certain, ..change.clone() }
                });
                of_child.push(SpecChange { ignored: all, ..change });
                of_child.extend(perhaps);
            }
        }
    }
    for (owner, effect) in state.owner_effects() {
        let Some(applies) = &effect.applies else { continue };
        let condition = effect.condition.as_ref().map(|_| {
            Reason::new(ReasonCode::DependencyNotReady, format!("it depends on whether {owner} is reconciled"))
        });
        let written = applies.steps().enumerate().flat_map(|(step, objects)| objects.iter().map(move |it| (step, it)));
        for (step, (id, built)) in written.filter(|(_, (id, _))| id.is(GROUP, KIND)) {
            let written = KustomizationSpec::new(built.manifest.get("spec").unwrap_or(&Value::Null));
            let spec = written.with_secrets(built.is_masked_at("/spec"));
            let is_optional = step < applies.earlier.len();
            let (trigger, condition) = (Some(applies.trigger.clone()), condition.clone());
            let applied = PassSpec { is_optional, condition, ..PassSpec::new(spec, trigger) };
            changes.entry(NamespacedName::of(id)).or_default().push(SpecChange::by_owner(applied, applies.manager));
        }
    }
    changes
}
