//! Kustomizations whose objects at the new revision, or with their changed spec, are not known.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::flux::simulation::model::node::{Node, PassOutcome};
use crate::flux::simulation::model::state::State;
use crate::flux::spec::KustomizationSpec;
use crate::plan::{Reason, ReasonCode};

/// Fields of a spec that change no object by themselves.
const NEUTRAL: [&str; 9] = [
    "interval",
    "timeout",
    "retryInterval",
    "suspend",
    "wait",
    "healthChecks",
    "healthCheckExprs",
    "dependsOn",
    "deletionPolicy",
];

/// Returns the reason why the objects of a Kustomization at the new revision or with its changed spec are not known.
pub(crate) fn unknown_reason(state: &State<'_>, node: &Node) -> Option<Reason> {
    let is_changed = match (node.passes.first(), node.passes.last()) {
        (Some(first), Some(last)) if !node.id.is_new => !changed_fields(&first.spec, &last.spec).is_empty(),
        _ => false,
    };
    let mut reasons = node.passes.iter().enumerate().filter_map(|(number, pass)| {
        let PassOutcome::Unknown(reason) = &pass.outcome else { return None };
        let is_last_change = is_changed && number + 1 == node.passes.len();
        let is_elsewhere = state.is_elsewhere(&node.id.key, &pass.spec) || follows_another_tree(reason);
        (is_last_change || !is_elsewhere).then_some(reason)
    });
    reasons.next().cloned()
}

pub(crate) fn follows_another_tree(reason: &Reason) -> bool {
    matches!(reason.code, ReasonCode::OtherSource | ReasonCode::OtherCluster)
}

/// Returns the changed fields of a spec that can change objects.
pub(crate) fn changed_fields(before: &KustomizationSpec, after: &KustomizationSpec) -> Vec<String> {
    let specs = [before, after].into_iter().filter_map(|spec| spec.value().as_object());
    let fields: BTreeSet<&String> = specs.flat_map(|fields| fields.keys()).collect();
    let changed = fields.into_iter().filter(|field| {
        !NEUTRAL.contains(&field.as_str()) && field_or_default(before, field) != field_or_default(after, field)
    });
    changed.map(|field| format!("spec.{field} changes")).collect()
}

/// Returns the value of a field. One that is absent is as if it were false.
fn field_or_default(spec: &KustomizationSpec, field: &str) -> Value {
    spec.value().get(field).cloned().unwrap_or(Value::Bool(false))
}
