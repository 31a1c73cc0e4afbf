//! Values of a release, as helm-controller merges them before and after the change.
//!
//! Source: github.com/fluxcd/pkg/chartutil v1.27.1 `values.go`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::bounds::DATA_SOURCES;
use crate::flux::build::Interrupt;
use crate::flux::build::charts::values::{Values, ValuesSource, values_sources};
use crate::flux::build::objects::data::{DataOverrides, DataRef, Lookup};
use crate::flux::simulation::kustomization::variables::{data_after_change, data_between, differs};
use crate::flux::simulation::model::node::{NodeId, PassId};
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::comparison::{Asked, Comparison};
use crate::kubernetes::object::ObjectId;
use crate::private::{PLACEHOLDER, Private};

/// Values of a release.
pub(crate) enum ReleaseValues {
    Known(Values),
    /// The change removes a part of these values; what, for people. helm-controller does nothing once it is gone.
    Removed(Values, String),
    /// helm-controller does nothing for the release, because this is missing, or not to be read.
    Missing(String),
}

impl ReleaseValues {
    /// Returns the values, unless a part of them goes or is missing.
    pub(crate) fn known(&self) -> Option<&Values> {
        match self {
            Self::Known(values) => Some(values),
            Self::Removed(..) | Self::Missing(_) => None,
        }
    }
}

/// Returns the values of a release with a spec.
///
/// Fails with the reason why they are not known.
pub(crate) fn values(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    spec: &Value,
    is_after: bool,
) -> Asked<ReleaseValues> {
    values_with(comparison, id, spec, is_after, &DataOverrides::new())
}

/// Maximum number of objects in the `valuesFrom` of a release whose changes are followed in every order.
pub(crate) const MAX_CHANGING_VALUES: usize = 4;

/// Returns the values that a release with a spec may have before those after the change, because an object in its
/// `valuesFrom` changes more than once, or several of them one after the other.
pub(crate) fn values_between(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    spec: &Value,
) -> Asked<Vec<Values>> {
    let mut all = vec![];
    for ValuesSource { reference, .. } in values_sources(&id.namespace, spec) {
        let Some(live) = comparison.derivation.answers.data.get(&reference).cloned() else { continue };
        let changed = data_after_change(comparison.derivation, &reference, &live);
        let last = changed.map_or_else(|| live.clone(), |(data, _)| data);
        for data in data_between(comparison.derivation, &reference, &live, &last) {
            let overrides = DataOverrides::from([(reference.clone(), data)]);
            if let ReleaseValues::Known(values) = values_with(comparison, id, spec, true, &overrides)? {
                all.push(values);
            }
        }
    }
    let changing = changing_values(comparison, id, spec);
    if changing.len() > MAX_CHANGING_VALUES {
        return Err(format!("{} objects in its valuesFrom change, one after the other", changing.len()).into());
    }
    // Each bit is an object that still has its old data: neither none of them nor all.
    for old in 1..(1_usize << changing.len()).saturating_sub(1) {
        let is_old =
            |(at, (reference, live, _)): (usize, ChangingValues)| (old & (1 << at) != 0).then_some((reference, live));
        let overrides: DataOverrides = changing.iter().cloned().enumerate().filter_map(is_old).collect();
        if let ReleaseValues::Known(values) = values_with(comparison, id, spec, true, &overrides)? {
            all.push(values);
        }
    }
    Ok(all)
}

/// An object in the `valuesFrom` of a release with its live data, and the pass that changes it.
type ChangingValues = (DataRef, Lookup, Option<PassId>);

/// Returns the objects in the `valuesFrom` of a release that the change changes.
fn changing_values(comparison: &mut Comparison<'_, '_, '_>, id: &ObjectId, spec: &Value) -> Vec<ChangingValues> {
    let references: BTreeSet<DataRef> = values_sources(&id.namespace, spec).map(|source| source.reference).collect();
    let changing = references.into_iter().filter_map(|reference| {
        let live = comparison.derivation.answers.data.get(&reference)?.clone();
        let (new, pass) = data_after_change(comparison.derivation, &reference, &live)?;
        differs(&live, &new).then_some((reference, live, pass))
    });
    changing.collect()
}

/// Returns the values that a new release with a spec has if it is installed before other owners than its own change
/// objects in its `valuesFrom`; `None` if that cannot be, or without them it is not installed.
pub(crate) fn values_before(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    spec: &Value,
) -> Asked<Option<ReleaseValues>> {
    let appliers: BTreeSet<NodeId> = comparison.state().nodes.applying(id).map(|node| node.id.clone()).collect();
    let changing = changing_values(comparison, id, spec).into_iter();
    // What makes the release has applied its own values before it.
    let by_others = changing.filter(|(_, _, pass)| pass.as_ref().is_some_and(|pass| !appliers.contains(&pass.node)));
    let overrides: DataOverrides = by_others.map(|(reference, live, _)| (reference, live)).collect();
    if overrides.is_empty() {
        return Ok(None);
    }
    let values = values_with(comparison, id, spec, true, &overrides)?;
    Ok(Some(values).filter(|values| matches!(values, ReleaseValues::Known(_))))
}

/// Returns true if a value of a Secret is in the name of an object in the `valuesFrom` of a release: a request shows
/// the name.
fn is_named_by_secret(state: &State<'_>, id: &ObjectId, reference: &DataRef) -> bool {
    let live = state.input.snapshot.resource(id);
    let is_live = live.is_some_and(|live| is_named(live.spec(), &id.namespace, reference));
    let applied = state.applied(id);
    let mut masked = applied.iter().filter_map(|applied| applied.built.masked.as_ref());
    !is_live && masked.any(|masked| !is_named(&masked.manifest["spec"], &id.namespace, reference))
}

/// Returns true if an object is in the `valuesFrom` of the spec of a release in a namespace.
fn is_named(spec: &Value, namespace: &str, reference: &DataRef) -> bool {
    values_sources(namespace, spec).any(|source| source.reference == *reference)
}

/// Returns the values of a release with a spec, some of them of other data than the live ones and those after the
/// change.
fn values_with(
    comparison: &mut Comparison<'_, '_, '_>,
    id: &ObjectId,
    spec: &Value,
    is_after: bool,
    overrides: &DataOverrides,
) -> Asked<ReleaseValues> {
    let state = comparison.state();
    let is_private = state.is_private(id) || (!is_after && state.has_unread_spec(id));
    let mut values = Values { is_private, ..Values::default() };
    let number = values_sources(&id.namespace, spec).count();
    DATA_SOURCES.check(number).map_err(|exceeded| format!("its valuesFrom has {exceeded}"))?;
    let (mut texts, mut open, mut removed) = (vec![], vec![], None);
    for source in values_sources(&id.namespace, spec) {
        source.names()?;
        let ValuesSource { reference, key, optional, .. } = source.clone();
        let data_id = reference.id();
        let Some(found) = comparison.derivation.answers.data.get(&reference).cloned() else {
            if is_named_by_secret(comparison.state(), id, &reference) {
                return Err("its valuesFrom names an object by a value of a Secret, and it is not read"
                    .to_owned()
                    .into());
            }
            comparison.derivation.needs.data.insert(reference);
            return Err(Interrupt::Missing);
        };
        let changed = overrides.get(&reference).cloned().or_else(|| {
            let (after, _) = data_after_change(comparison.derivation, &reference, &found).filter(|_| is_after)?;
            Some(after)
        });
        let before = match &found {
            Lookup::Found(data) => data.values.get(key).cloned(),
            _ => None,
        };
        match changed.unwrap_or(found) {
            Lookup::Found(data) => {
                let holds_secrets = comparison.state().may_hold_secrets_in_data(&data_id, &data);
                let is_private = data.is_secret || reference.is_secret() || holds_secrets;
                values.is_private |= is_private;
                match data.values.get(key) {
                    Some(text) => {
                        if let Some(why) = source.refusal(text) {
                            return Ok(ReleaseValues::Missing(format!("{why}: {key} of {data_id}")));
                        }
                        open.extend(without_secrets(&source, text, is_private));
                        texts.push((source, text.clone()));
                    }
                    None if optional => {}
                    None => {
                        let what = format!("{data_id} in its valuesFrom has no key {key}");
                        let Some(text) = before else { return Ok(ReleaseValues::Missing(what)) };
                        open.extend(without_secrets(&source, &text, is_private));
                        texts.push((source, text));
                        removed = Some(what);
                    }
                }
            }
            Lookup::Missing if optional => {}
            Lookup::Missing => {
                let Some(text) = before else {
                    return Ok(ReleaseValues::Missing(format!("{data_id} in its valuesFrom does not exist")));
                };
                // What was deleted may have held values of Secrets.
                open.extend(without_secrets(&source, &text, true));
                values.is_private |= reference.is_secret();
                texts.push((source, text));
                removed = Some(format!("{data_id} in its valuesFrom is deleted"));
            }
            Lookup::Unreadable(why) => {
                return Err(format!("{data_id} in its valuesFrom cannot be read: {why}").into());
            }
            Lookup::NotRead => {
                return Err(format!("{data_id} in its valuesFrom is not read, because it is new").into());
            }
        }
    }
    values.add_all(&texts, spec.get("values"))?;
    if values.is_private {
        let mut shown = Values::default();
        shown.add_all(&open, spec.get("values").filter(|_| !is_private))?;
        values.open = Some(Box::new(shown));
    }
    Ok(match removed {
        Some(what) => ReleaseValues::Removed(values, what),
        None => ReleaseValues::Known(values),
    })
}

/// Returns a source with a text that holds no values of Secrets; `None` if it has none.
fn without_secrets<'s>(
    source: &ValuesSource<'s>,
    text: &Private<String>,
    is_private: bool,
) -> Option<(ValuesSource<'s>, Private<String>)> {
    if !is_private {
        return Some((source.clone(), text.clone()));
    }
    // The spec names the path, and the Secret what is at it.
    (!source.target_path.is_empty()).then(|| (source.clone(), Private::new(PLACEHOLDER.to_owned())))
}
