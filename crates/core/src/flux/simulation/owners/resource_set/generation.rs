//! Objects that flux-operator generates of a spec of a ResourceSet and its inputs.
//!
//! Source: flux-operator v0.58.1 `internal/builder/resourceset.go`.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::copies::with_copies;
use super::dependencies::is_waiting;
use super::providers::{ProviderInputs, permutes, provider_inputs};
use super::pruning::is_off;
use crate::flux::build::Interrupt;
use crate::flux::build::objects::BuiltObject;
use crate::flux::build::resource_sets::{
    SetRun, UNKNOWN_VALUE, generated_objects, has_nameless, permuted, reading_providers, with_common_labels,
    with_unknown_values, with_values,
};
use crate::flux::simulation::model::node::{BuiltObjects, PassOutcome};
use crate::flux::simulation::owners::behaviour::comparison::{Asked, Comparison};
use crate::kubernetes::object::{ObjectId, Resource};
use crate::kubernetes::recording::check_recorded;
use crate::ownership::Members;
use crate::ownership::schemes::flux::inventory_members;

/// Objects of a ResourceSet.
#[derive(Default)]
pub(super) struct Generated {
    pub(super) objects: Arc<BuiltObjects>,
    /// Reason why flux-operator cannot apply all of them, for people.
    pub(super) failure: Option<String>,
    /// flux-operator applies none of them, because one has no name.
    pub(super) is_refused: bool,
}

/// Returns the objects that flux-operator generated last.
///
/// Fails if they are not those in its inventory.
pub(super) fn verified(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    live: &Resource,
) -> Asked<Arc<BuiltObjects>> {
    let inventory = match inventory_members(&live.content) {
        Members::Listed(inventory) => inventory,
        // flux-operator prunes nothing that it did not record.
        Members::Unrecorded if live.condition("Ready").is_some_and(|ready| ready.status != "Unknown") => vec![],
        _ => {
            let ObjectId { name, namespace, .. } = id;
            let wait = format!("kubectl wait resourceset/{name} -n {namespace} --for=condition=Ready");
            return Err(format!("it records no inventory yet: plan again after {wait}").into());
        }
    };
    if is_off(live) || is_waiting(live) {
        // Its spec may have changed since it was switched off, or had to wait.
        return Ok(Arc::new(inventory.into_iter().map(|id| (id.clone(), unknown(id))).collect()));
    }
    if inventory.is_empty() {
        return Ok(Arc::default());
    }
    let Generated { objects: old, .. } = generated(comparison, id, live.spec(), false)?;
    let recorded: BTreeSet<&ObjectId> = inventory.iter().collect();
    let generated: BTreeSet<&ObjectId> = old.keys().collect();
    match recorded.symmetric_difference(&generated).next() {
        Some(differing) => {
            let why = format!("it generates other objects here than its inventory lists: {differing}");
            Err(why.into())
        }
        None => Ok(old),
    }
}

/// Returns the objects that flux-operator generates of a spec, before or after the change.
pub(super) fn generated(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    spec: &Value,
    is_after: bool,
) -> Asked<Generated> {
    let providers = provider_inputs(comparison, id, spec, is_after)?;
    generated_with(comparison, id, spec, &providers, is_after)
}

/// Returns the objects that flux-operator generates of a spec with these inputs of its providers.
pub(super) fn generated_with(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    spec: &Value,
    providers: &ProviderInputs,
    is_after: bool,
) -> Asked<Generated> {
    let generated = combined(comparison, id, spec, providers)?;
    let objects = with_copies(comparison, generated.objects, is_after)?;
    Ok(Generated { objects, ..generated })
}

/// Returns the objects that flux-operator generates of a spec with these inputs of its providers, without the data that they copy.
fn combined(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    spec: &Value,
    providers: &ProviderInputs,
) -> Asked<Generated> {
    if !permutes(spec) {
        return generated_of(comparison, id, spec, providers.values().flatten());
    }
    let inputs = permuted(id, spec, providers)?;
    let mut flat = spec.clone();
    if let Some(fields) = flat.as_object_mut() {
        fields.remove("inputStrategy");
        fields.remove("inputs");
    }
    generated_of(comparison, id, &flat, &inputs)
}

/// Returns an object of which only the identity is known.
fn unknown(id: ObjectId) -> BuiltObject {
    BuiltObject { version: String::new(), manifest: Arc::new(Value::Null), undecrypted: None, masked: None, id }
}

/// Returns the objects that flux-operator generates of a spec with these inputs of its providers. A spec with providers
/// and without inputs generates nothing.
pub(super) fn generated_of<'i>(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    spec: &Value,
    provided: impl IntoIterator<Item = &'i Value>,
) -> Asked<Generated> {
    check_recorded(spec)?;
    if !["resources", "resourcesTemplate", "steps"].iter().any(|field| spec.get(field).is_some()) {
        return Err("its templates are not known".to_owned().into());
    }
    // The providers are read before their inputs take the place of their names.
    let is_private = comparison.set_is_private(id, spec);
    let mut with_inputs = reading_providers(id, spec);
    if let Some(fields) = with_inputs.as_object_mut().filter(|fields| fields.contains_key("inputsFrom")) {
        let mut inputs: Vec<Value> = fields.get("inputs").and_then(Value::as_array).cloned().unwrap_or_default();
        inputs.extend(provided.into_iter().cloned());
        if inputs.is_empty() {
            return Ok(Generated::default());
        }
        fields.remove("inputsFrom");
        fields.insert("inputs".to_owned(), inputs.into());
    }
    let Some(outputs) = outputs(comparison, id, &with_inputs, is_private) else { return Err(Interrupt::Missing) };
    let text = match outputs[..] {
        [Ok(text), Ok(_)] | [Ok(text)] => text,
        [Err(why), Err(other)] if why == other => return Err(why.clone().into()),
        [Err(why)] => return Err(why.clone().into()),
        _ => return Err(UNKNOWN_VALUE.to_owned().into()),
    };
    let is_refused = has_nameless(text);
    let mut objects = read_output(text)?;
    if let Some(Ok(other)) = outputs.get(1) {
        objects = with_unknown_values(objects, &read_output(other)?)?;
    }
    objects = with_common_labels(objects, spec);
    if is_private {
        let snapshot = comparison.state().input.snapshot;
        for object in &mut objects {
            let is_served = snapshot.resource_type(&object.id.group_kind()).is_some();
            object.hide(is_served);
        }
    }
    match comparison.derivation.place(None, objects, None) {
        PassOutcome::Applied(objects) => Ok(Generated { objects, failure: None, is_refused }),
        PassOutcome::Partial { desired, reason, .. } => {
            Ok(Generated { objects: desired, failure: Some(reason.detail), is_refused })
        }
        PassOutcome::Blocked(reason) | PassOutcome::Unknown(reason) => {
            Err(format!("its resources cannot be applied: {}", reason.detail).into())
        }
    }
}

/// Reads the objects in the output of flux-operator, which may hold values of Secrets, and so does the error of the reader.
fn read_output(text: &str) -> Result<Vec<BuiltObject>, String> {
    generated_objects(text).map_err(|_| "the output of flux-operator for it cannot be read".to_owned())
}

/// Returns the outputs of flux-operator for a spec with all its inputs: several if values are made up for them. Answers that are
/// missing are added to the needs, and there is no result.
fn outputs<'r>(
    comparison: &mut Comparison<'_, 'r, '_>,
    id: &ObjectId,
    spec: &Value,
    is_private: bool,
) -> Option<Vec<&'r Result<String, String>>> {
    let answers = comparison.derivation.answers;
    let mut outputs = vec![];
    for inputs in with_values(&spec["inputs"]) {
        let mut complete = spec.clone();
        if let Some(fields) = complete.as_object_mut().filter(|fields| fields.contains_key("inputs")) {
            fields.insert("inputs".to_owned(), inputs);
        }
        let run = SetRun::new(id, &complete, is_private);
        match answers.resource_sets.get(&run.key) {
            Some(output) => outputs.push(Some(output)),
            None => {
                outputs.push(None);
                comparison.derivation.needs.resource_sets.insert(run.key.clone(), run);
            }
        }
    }
    outputs.into_iter().collect()
}
