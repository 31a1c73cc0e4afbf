//! ConfigMaps and Secrets of variables that the change itself creates, changes or deletes.
//!
//! The controller reads them at every build. A Kustomization may therefore be built once more with the old data; at its
//! next interval at the latest it is built with the new data (docs/reference/kustomize-controller.md 3.7; observed by the
//! oracle).

use std::collections::BTreeMap;

use super::derivation::Derivation;
use crate::flux::build::DataOverrides;
use crate::flux::build::objects::BuiltObject;
use crate::flux::build::objects::data::{Data, DataRef, Lookup};
use crate::flux::build::substitute::variable_sources;
use crate::flux::simulation::model::facts::copied_data::{copied_names, has_unknown_copy};
use crate::flux::simulation::model::node::PassId;
use crate::flux::simulation::model::protection::{is_marked, is_never_applied};
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::schedule::dependency_order::waits_for;
use crate::flux::spec::{KustomizationSpec, NamespacedName};
use crate::kubernetes::object::ObjectId;
use crate::ownership::schemes::flux_kustomization::SSA;
use crate::private::Private;

/// Reason why data that the change writes is not known.
const ENCRYPTED: &str = "it is encrypted, and not known to be what was applied last";

/// Reason why data that the change lets a ResourceSet copy is not known.
const COPIED: &str = "a ResourceSet copies it from an object that changes, and the new data is not known";

/// Change of the variables of one Kustomization.
#[derive(Default)]
pub(crate) struct VariableUpdate {
    /// ConfigMaps and Secrets after the change, where they differ from the live ones.
    pub(crate) data: DataOverrides,
    /// The same at times in between at which a build is possible.
    pub(crate) between: Vec<DataOverrides>,
    /// Data that may be the last, because a pass that may not come applies it.
    pub(crate) perhaps: Vec<DataOverrides>,
    /// The pass of another Kustomization that applies the new data.
    pub(crate) applied_by: Option<PassId>,
    /// A build with the old data comes first: true, false, or `None` if that is a race.
    pub(crate) old_first: Option<bool>,
}

/// Returns the change of the variables that a spec reads; `None` if they do not change or are not known yet.
pub(crate) fn variable_update(
    derivation: &mut Derivation<'_, '_>,
    key: &NamespacedName,
    spec: &KustomizationSpec,
) -> Option<VariableUpdate> {
    let mut update = VariableUpdate::default();
    let mut builds_with_old_data = true;
    let mut waits_for_new_data = false;
    for source in variable_sources(spec.value()) {
        let reference = source.reference(&key.namespace);
        let live = derivation.answers.data.get(&reference)?;
        let changed = data_after_change(derivation, &reference, live);
        let last = changed.as_ref().map_or(live, |(new, _)| new);
        let times = if changed.is_some() { &mut update.between } else { &mut update.perhaps };
        let between = data_between(derivation, &reference, live, last);
        times.extend(between.into_iter().map(|data| DataOverrides::from([(reference.clone(), data)])));
        let Some((new, applied_by)) = changed else { continue };
        if generation_condition(derivation.state, &reference.id()).is_some() {
            update.perhaps.push(DataOverrides::from([(reference, new)]));
            continue;
        }
        if !differs(live, &new) {
            continue;
        }
        builds_with_old_data &= match live {
            Lookup::Found(_) => true,
            Lookup::Missing => source.optional,
            Lookup::Unreadable(_) | Lookup::NotRead => false,
        };
        match applied_by {
            Some(pass) if pass.node.key == *key => update.old_first = Some(true),
            Some(pass) => {
                waits_for_new_data |= waits_for(derivation.state, key, spec, &pass.node.key);
                update.applied_by = Some(pass);
            }
            None => {}
        }
        update.data.insert(reference, new);
    }
    if !builds_with_old_data || waits_for_new_data {
        update.old_first = Some(false);
    }
    for between in update.between.iter_mut().chain(&mut update.perhaps) {
        let others: Vec<_> = update
            .data
            .iter()
            .filter(|(reference, _)| !between.contains_key(*reference))
            .map(|(reference, data)| (reference.clone(), data.clone()))
            .collect();
        between.extend(others);
    }
    let is_unchanged = update.data.is_empty() && update.between.is_empty() && update.perhaps.is_empty();
    (!is_unchanged).then_some(update)
}

/// Returns the data of a ConfigMap or Secret at times before the last apply: others than the live data and the last.
pub(crate) fn data_between(
    derivation: &Derivation<'_, '_>,
    reference: &DataRef,
    live: &Lookup,
    last: &Lookup,
) -> Vec<Lookup> {
    let none = Data::default();
    let old = match live {
        Lookup::Found(data) => data,
        Lookup::Missing => &none,
        Lookup::Unreadable(_) | Lookup::NotRead => return vec![],
    };
    let mut all: Vec<Lookup> = vec![];
    for applied in derivation.state.applications(&reference.id()) {
        let built = applied.built;
        if built.undecrypted.is_some() || copies_unchanged(built) || has_unknown_copy(&built.manifest) {
            continue;
        }
        let data = applied_data(old, built);
        if all.iter().chain([live, last]).all(|known| data_values(known) != data_values(&data)) {
            all.push(data);
        }
    }
    all
}

/// Returns the data of a ConfigMap or Secret after an apply.
fn applied_data(old: &Data, built: &BuiltObject) -> Lookup {
    let mut data = old.after_apply(&built.manifest);
    data.is_secret |= built.masked.is_some();
    Lookup::Found(data)
}

/// Returns a ConfigMap or Secret after the change and the pass that applies it; `None` if nothing changes it. Data with another
/// encrypted text than was applied last is not known.
pub(crate) fn data_after_change(
    derivation: &mut Derivation<'_, '_>,
    reference: &DataRef,
    live: &Lookup,
) -> Option<(Lookup, Option<PassId>)> {
    let id = reference.id();
    let (state, consequences) = (derivation.state, derivation.consequences);
    let exists = state.is_live(&id);
    for node in state.nodes.iter().filter(|node| node.may_stay()) {
        let Some((number, built)) = node.last_applied(&id) else { continue };
        let spec = &node.passes[number].spec;
        let is_skipped = is_never_applied(built, spec) || (exists && is_marked(built, spec, SSA, "ifnotpresent"));
        if is_skipped {
            return None;
        }
        let pass = PassId { node: node.id.clone(), number };
        if built.undecrypted.is_some() {
            // The live data is the decrypted one if the text was applied last.
            let is_kept = match live {
                Lookup::Found(_) => derivation.is_applied_text(&node.id.key, built),
                Lookup::Missing => false,
                Lookup::Unreadable(_) | Lookup::NotRead => true,
            };
            return (!is_kept).then(|| (Lookup::Unreadable(ENCRYPTED.to_owned()), Some(pass)));
        }
        let old = match live {
            Lookup::Found(data) => data,
            // The live Secret may have more keys than the manifest.
            Lookup::NotRead if exists => return None,
            Lookup::Missing | Lookup::Unreadable(_) | Lookup::NotRead => &Data::default(),
        };
        return Some((applied_data(old, built), Some(pass)));
    }
    let mut generated = state.owner_applies().filter(|(_, applies)| state.pass(&applies.trigger).is_some());
    if let Some((applies, built)) = generated.find_map(|(_, applies)| Some((applies, applies.objects.get(&id)?))) {
        if copies_unchanged(built) {
            return None;
        }
        let trigger = Some(applies.trigger.clone());
        if has_unknown_copy(&built.manifest) {
            return Some((Lookup::Unreadable(COPIED.to_owned()), trigger));
        }
        let old = match live {
            Lookup::Found(data) => data,
            Lookup::Missing => &Data::default(),
            Lookup::Unreadable(_) | Lookup::NotRead => return None,
        };
        return Some((applied_data(old, built), trigger));
    }
    let is_deleted = consequences.is_gone(&id) || consequences.cascaded.contains_key(&id);
    (exists && is_deleted).then_some((Lookup::Missing, None))
}

/// Returns the condition under which an owner that may wait generates an object anew, and changes it.
pub(crate) fn generation_condition<'s>(state: &'s State<'_>, id: &ObjectId) -> Option<&'s String> {
    let mut effects = state.owner_effects().map(|(_, effect)| effect);
    let changing = effects.find(|effect| effect.applies.as_ref().is_some_and(|applies| applies.changes(id)))?;
    changing.condition.as_ref()
}

/// Returns true if an object copies data that is not in its manifest, because nothing changes it.
fn copies_unchanged(built: &BuiltObject) -> bool {
    let has_data = ["data", "stringData"].iter().any(|field| built.manifest.get(*field).is_some());
    !has_data && !copied_names(&built.manifest).is_empty()
}

/// Returns true if a ConfigMap or Secret is another one after the change, or it is not known.
pub(crate) fn differs(live: &Lookup, new: &Lookup) -> bool {
    matches!(new, Lookup::Unreadable(_)) || data_values(live) != data_values(new)
}

fn data_values(lookup: &Lookup) -> Option<&BTreeMap<String, Private<String>>> {
    match lookup {
        Lookup::Found(data) => Some(&data.values),
        Lookup::Missing | Lookup::Unreadable(_) | Lookup::NotRead => None,
    }
}
