//! Objects of a ResourceSet between the change of its spec and those of its inputs: these do not change at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::generation::{Generated, generated, generated_of, generated_with};
use super::providers::{mixes, permutes, provider_states};
use super::pruning::{is_off, is_protected};
use crate::flux::build::Interrupt;
use crate::flux::simulation::model::node::BuiltObjects;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::comparison::{Asked, Comparison};
use crate::kubernetes::object::{ObjectId, ObjectMetadata, Resource};

/// Returns the objects that flux-operator may generate before the last spec and the last inputs: of the specs that come first,
/// and of the live and the last spec with the inputs that there are meanwhile.
pub(super) fn earlier_objects(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    live: Option<&Resource>,
    earlier: &[Value],
    last: &Value,
) -> Asked<Vec<Arc<BuiltObjects>>> {
    if live.is_some_and(is_off) {
        return Ok(vec![]);
    }
    let mut found = vec![];
    for spec in earlier {
        found.push(generated(comparison, id, spec, true));
    }
    let live_spec = live.map(Resource::spec).filter(|spec| *spec != last);
    for spec in live_spec.into_iter().chain([last]) {
        let states = provider_states(comparison, id, spec);
        match states {
            Ok(states) => {
                for inputs in mixes(&states, permutes(spec))? {
                    found.push(generated_with(comparison, id, spec, &inputs, true));
                }
            }
            Err(Interrupt::Missing) => return Err(Interrupt::Missing),
            // One that fails changes nothing.
            Err(Interrupt::Failed(_)) => {}
        }
    }
    // All of them are asked for first, so that their answers come together.
    let mut all = vec![];
    for generated in found {
        match generated {
            Ok(generated) if !generated.is_refused => all.push(generated.objects),
            Err(Interrupt::Missing) => return Err(Interrupt::Missing),
            _ => {}
        }
    }
    Ok(all)
}

/// Returns the live objects that the set generates only in between: flux-operator takes them over, and then deletes them.
pub(super) fn passing<'s, 'a>(
    state: &'s State<'a>,
    earlier: &'s [Arc<BuiltObjects>],
    [old, new]: [&'s BuiltObjects; 2],
) -> impl Iterator<Item = &'a ObjectMetadata> {
    let ids =
        earlier.iter().flat_map(|objects| objects.keys()).filter(|id| !old.contains_key(*id) && !new.contains_key(*id));
    ids.filter_map(|id| state.live_object(id)).filter(|object| !is_protected(object))
}

/// Returns the objects that are generated before and after the change, but not at every moment in between: the spec and
/// the inputs of each provider do not change at once.
pub(super) fn between(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    [old_spec, new_spec]: [&Value; 2],
    [old, new]: [&BuiltObjects; 2],
) -> Asked<BTreeSet<ObjectId>> {
    let mut interrupted = BTreeSet::new();
    let is_changed = old_spec != new_spec;
    for spec in [new_spec, old_spec].into_iter().take(if is_changed { 2 } else { 1 }) {
        let states = provider_states(comparison, id, spec)?;
        let (changing, stable): (Vec<&Vec<_>>, Vec<&Vec<_>>) = states.values().partition(|states| states.len() > 1);
        let changes: usize = changing.iter().map(|states| states.len() - 1).sum();
        // Of inputs that are permuted each combination is generated.
        if changes + usize::from(is_changed) < 2 || permutes(spec) {
            continue;
        }
        let always = generated_of(comparison, id, spec, stable.into_iter().flatten().flatten())?;
        let mut safe: BTreeSet<ObjectId> = always.objects.keys().cloned().collect();
        for states in changing {
            let mut common: Option<BTreeSet<ObjectId>> = None;
            for inputs in states {
                let own: BTreeSet<ObjectId> =
                    generated_alone(comparison, id, spec, inputs)?.objects.keys().cloned().collect();
                common = Some(common.map_or_else(|| own.clone(), |common| &common & &own));
            }
            safe.extend(common.unwrap_or_default());
        }
        interrupted.extend(old.keys().filter(|id| new.contains_key(*id) && !safe.contains(*id)).cloned());
    }
    Ok(interrupted)
}

/// Returns the objects that are generated of the inputs of one provider.
fn generated_alone(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    spec: &Value,
    inputs: &[Value],
) -> Asked<Generated> {
    let mut alone = spec.clone();
    if let Some(fields) = alone.as_object_mut() {
        fields.remove("inputs");
    }
    generated_of(comparison, id, &alone, inputs)
}
