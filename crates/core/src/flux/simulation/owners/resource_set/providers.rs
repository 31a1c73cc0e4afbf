//! Inputs of ResourceSets that ResourceSetInputProviders export, before, during and after the change.
//!
//! Source: flux-operator v0.58.1 `internal/controller/resourceset_controller.go`, `getInputs`, and
//! `internal/controller/resourcesetinputprovider_controller.go`, `reconcile`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::pruning::is_off;
use crate::flux::build::Interrupt;
use crate::flux::build::resource_sets::{input_id, provided_by, unknown_value};
use crate::flux::kinds::OPERATOR_SWITCH;
use crate::flux::simulation::owners::behaviour::artifact_inputs::ArtifactChange;
use crate::flux::simulation::owners::behaviour::comparison::{Asked, Comparison, has_other_managers};
use crate::flux::simulation::schedule::outcomes::FinalState;
use crate::kubernetes::object::{ObjectId, Resource, text_at};

/// End of the reason if a provider that is named does not exist.
pub(super) const NO_PROVIDER: &str = "does not exist";

/// Maximum number of combinations of the inputs of providers that change one after the other, if a ResourceSet permutes them.
pub(crate) const MAX_MIXES: usize = 32;

/// Number of inputs that a provider exports at most, if its spec does not say.
const DEFAULT_LIMIT: u64 = 100;

/// Inputs that the providers of a ResourceSet export.
pub(super) type ProviderInputs = BTreeMap<ObjectId, Vec<Value>>;

/// Inputs that each provider of a ResourceSet exports, one after the other, without repetitions.
pub(super) type ProviderStates = BTreeMap<ObjectId, Vec<Vec<Value>>>;

/// Returns true if each combination of the inputs of the providers of a spec is one input.
pub(super) fn permutes(spec: &Value) -> bool {
    text_at(spec, "/inputStrategy/name") == "Permute" && spec.get("inputsFrom").is_some()
}

/// Returns the inputs that the providers of a spec export, before or after the change.
pub(super) fn provider_inputs(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    spec: &Value,
    is_after: bool,
) -> Asked<ProviderInputs> {
    let (inputs, missing) = existing_inputs(comparison, id, spec, is_after)?;
    match missing.first().filter(|_| is_after) {
        Some(missing) => Err(format!("the provider {missing} of its inputs {NO_PROVIDER}").into()),
        None => Ok(inputs),
    }
}

/// Returns the inputs that the existing providers of a spec export, and the names of those that it names and that do not exist.
fn existing_inputs(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    spec: &Value,
    is_after: bool,
) -> Asked<(ProviderInputs, BTreeSet<String>)> {
    let entries: Vec<Value> = spec.get("inputsFrom").and_then(Value::as_array).cloned().unwrap_or_default();
    let (mut inputs, mut missing) = (ProviderInputs::new(), BTreeSet::new());
    for entry in &entries {
        let found = comparison.providers(&id.namespace, entry, is_after);
        if let Some(doubtful) = doubtful_provider(comparison, &found, &id.namespace, entry).filter(|_| is_after) {
            return Err(format!("it is not certain that {doubtful} is no longer one of its providers").into());
        }
        if let Some(hidden) = comparison.hidden_providers(&id.namespace, entry).first().filter(|_| is_after) {
            return Err(format!("the labels of {hidden} are encrypted").into());
        }
        let name = text_at(entry, "/name");
        if found.is_empty() && !name.is_empty() {
            missing.insert(name.to_owned());
        }
        for provider in found {
            let values = exported(comparison, &provider, is_after)?;
            inputs.insert(provider, values);
        }
    }
    if !inputs.is_empty() && spec.to_string().contains("toYaml inputs") {
        return Err("its templates read the provider of an input".to_owned().into());
    }
    let provided = inputs.into_iter().map(|(provider, inputs)| {
        let inputs = provided_by(spec, inputs, &provider);
        (provider, inputs)
    });
    Ok((provided.collect(), missing))
}

/// Returns what the providers of a spec export, from before the change until after it. Once a provider is gone that the spec
/// names, flux-operator generates nothing of it.
pub(super) fn provider_states(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    spec: &Value,
) -> Asked<ProviderStates> {
    let before = provider_inputs(comparison, id, spec, false)?;
    let (after, missing) = existing_inputs(comparison, id, spec, true)?;
    let all: BTreeSet<&ObjectId> = before.keys().chain(after.keys()).collect();
    let mut found = ProviderStates::new();
    for provider in all {
        let [first, last] = [&before, &after].map(|inputs| inputs.get(provider).cloned().unwrap_or_default());
        let mut states = vec![first];
        if after.contains_key(provider) {
            let between = exported_between(comparison, provider)?.into_iter();
            states.extend(between.map(|inputs| provided_by(spec, inputs, provider)));
        }
        states.extend((!missing.contains(&*provider.name)).then_some(last));
        states.dedup();
        found.insert(provider.clone(), states);
    }
    Ok(found)
}

/// Returns the inputs of a ResourceSet at the times at which its providers have changed in part. If it does not permute them, what
/// it generates of one provider does not depend on the others, so that each is varied alone.
///
/// Fails if there are too many.
pub(super) fn mixes(states: &ProviderStates, permutes: bool) -> Result<Vec<ProviderInputs>, String> {
    let last = inputs_at(states, <[_]>::last);
    let mut found = vec![inputs_at(states, <[_]>::first)];
    if !permutes {
        for (provider, states) in states {
            let middle = states.iter().skip(1).take(states.len().saturating_sub(2));
            found.extend(middle.map(|inputs| {
                let mut mixed = last.clone();
                mixed.insert(provider.clone(), inputs.clone());
                mixed
            }));
        }
        found.push(last);
        return Ok(found);
    }
    let number = states.values().fold(1_usize, |number, states| number.saturating_mul(states.len()));
    if number > MAX_MIXES {
        return Err(format!("its inputs are permuted, and change in {number} ways, one after the other"));
    }
    let mut all = vec![ProviderInputs::new()];
    for (provider, states) in states {
        let mixed = all.iter().flat_map(|mixed| states.iter().map(move |inputs| (mixed, inputs)));
        let extended = mixed.map(|(mixed, inputs)| {
            let own = (!inputs.is_empty()).then(|| (provider.clone(), inputs.clone()));
            mixed.clone().into_iter().chain(own).collect()
        });
        all = extended.collect();
    }
    Ok(all)
}

/// Returns the inputs of each provider in one of its states, without those that export none.
fn inputs_at(states: &ProviderStates, state: fn(&[Vec<Value>]) -> Option<&Vec<Value>>) -> ProviderInputs {
    let inputs = states.iter().filter_map(|(provider, states)| Some((provider.clone(), state(states)?.clone())));
    inputs.filter(|(_, inputs)| !inputs.is_empty()).collect()
}

/// Returns a live provider of an entry that may be one of its providers at the end. `found` are those that it selects for certain.
fn doubtful_provider(
    comparison: &Comparison<'_, '_, '_>,
    found: &[ObjectId],
    namespace: &str,
    entry: &Value,
) -> Option<ObjectId> {
    let (state, consequences) = (comparison.state(), comparison.derivation.consequences);
    let mut live = comparison.providers(namespace, entry, false).into_iter().filter(|id| !found.contains(id));
    live.find(|id| match consequences.outcomes.get(id) {
        Some(outcomes) if outcomes.may_be_deleted() => {
            !outcomes.is_deleted() || outcomes.may_end_as(FinalState::Recreated)
        }
        // One that is not deleted has other labels, unless others than its Kustomization set those that it has.
        _ => {
            let live = state.live_object(id).filter(|live| has_other_managers(live, &state.input.flags));
            live.is_some() && !consequences.may_be_deleted(id)
        }
    })
}

/// Returns the inputs that a provider exports. One that is switched off exports what it did last. A Static provider exports its
/// values, also if the recorded ones are older.
fn exported(comparison: &mut Comparison<'_, '_, '_>, id: &ObjectId, is_after: bool) -> Asked<Vec<Value>> {
    let state = comparison.state();
    let live = state.input.snapshot.resource(id);
    let stays_off = state.is_switched_off_after(id, OPERATOR_SWITCH);
    if !is_after || (stays_off && live.is_some()) {
        return recorded_inputs(id, live);
    }
    if stays_off {
        return Err(format!("it is not known which inputs {id} will export").into());
    }
    let (spec, _) = state.successive_specs(id).map_err(|why| format!("{id}: {why}"))?;
    if !is_static(&spec) && live.is_some_and(|live| !is_off(live) && state.keeps_spec(live)) {
        return inputs_of_artifacts(comparison, id, &spec, recorded_inputs(id, live)?);
    }
    exported_of(id, live, &spec)
}

/// Returns the inputs that a provider exports after the change of the ExternalArtifacts that it selects, `recorded` as they are.
///
/// Fails if an artifact may become an input.
fn inputs_of_artifacts(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    spec: &Value,
    mut inputs: Vec<Value>,
) -> Asked<Vec<Value>> {
    let recorded = inputs.len();
    let limit = spec.pointer("/filter/limit").and_then(Value::as_u64).unwrap_or(DEFAULT_LIMIT);
    // Others take the place of an artifact that goes.
    let is_limited = u64::try_from(recorded).is_ok_and(|number| number >= limit);
    for (artifact, change) in comparison.artifact_changes(id, spec)? {
        match (change, inputs.iter_mut().find(|input| is_input_of(&artifact, input))) {
            (ArtifactChange::Gone, None) => {}
            (ArtifactChange::Gone, Some(_)) if !is_limited => inputs.retain(|input| !is_input_of(&artifact, input)),
            (ArtifactChange::Revision, Some(input)) => input["revision"] = unknown_value(&artifact),
            _ => return Err(format!("it is not known which input {id} will export for {artifact}").into()),
        }
    }
    Ok(inputs)
}

/// Returns true if a provider exports an input for an artifact.
fn is_input_of(artifact: &ObjectId, input: &Value) -> bool {
    text_at(input, "/name") == &*artifact.name && text_at(input, "/namespace") == &*artifact.namespace
}

/// Returns the inputs that a provider exports with this spec.
fn exported_of(id: &ObjectId, live: Option<&Resource>, spec: &Value) -> Asked<Vec<Value>> {
    if !is_static(spec) {
        return Err(format!("it is not known which inputs {id} will export").into());
    }
    let mut input = spec.get("defaultValues").and_then(Value::as_object).cloned().unwrap_or_default();
    let input_id = match live {
        None => unknown_value(id),
        Some(live) => {
            let recorded = recorded_inputs(id, Some(live))?;
            let known = recorded.first().and_then(|first| first.get("id").cloned()).filter(|_| is_static(live.spec()));
            known.unwrap_or_else(|| input_id(&live.object.uid).into())
        }
    };
    input.insert("id".to_owned(), input_id);
    Ok(vec![Value::Object(input)])
}

/// Returns true if a provider exports the values of its spec, as one input.
pub(super) fn is_static(spec: &Value) -> bool {
    text_at(spec, "/type") == "Static"
}

/// Returns the inputs that a live provider exports now.
fn recorded_inputs(id: &ObjectId, live: Option<&Resource>) -> Asked<Vec<Value>> {
    let exported = live.and_then(|live| live.at("/status/exportedInputs")?.as_array());
    exported.cloned().ok_or_else(|| Interrupt::Failed(format!("{id} exports no inputs")))
}

/// Returns the inputs that a provider exports with the specs that it has before the last one.
fn exported_between(comparison: &Comparison<'_, '_, '_>, id: &ObjectId) -> Asked<Vec<Vec<Value>>> {
    let state = comparison.state();
    let live = state.input.snapshot.resource(id);
    let Ok((_, earlier)) = state.successive_specs(id) else { return Ok(vec![]) };
    let specs = earlier.iter().filter(|spec| live.is_none_or(|live| live.spec() != *spec));
    specs.map(|spec| exported_of(id, live, spec)).collect()
}
