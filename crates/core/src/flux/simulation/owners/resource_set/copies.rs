//! Data that the objects of a ResourceSet copy from ConfigMaps and Secrets, or that flux-operator computes of them. No template has it.
//!
//! Source: flux-operator v0.58.1 `internal/controller/resourceset_controller_configs.go`.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::flux::build::Interrupt;
use crate::flux::build::objects::BuiltObject;
use crate::flux::build::objects::data::{DataRef, Lookup};
use crate::flux::simulation::kustomization::variables::data_after_change;
use crate::flux::simulation::model::facts::copied_data::{
    CHECKSUM_FROM, CONVERT_FROM, COPY_FROM, copied_names, has_unknown_copy,
};
use crate::flux::simulation::model::node::BuiltObjects;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::comparison::{Asked, Comparison, Difference, Part};
use crate::kubernetes::object::ObjectId;
use crate::ownership::schemes::flux_operator::CHECKSUM;
use crate::private::PLACEHOLDER;

/// Label with which flux-operator sees at once that a ConfigMap or Secret changes.
const WATCH: (&str, &str) = ("reconcile.fluxcd.io/watch", "Enabled");

/// Returns the objects of a ResourceSet with the data that they copy, before or after the change. Data that is not known, and
/// changes, is a placeholder.
pub(super) fn with_copies(
    comparison: &mut Comparison<'_, '_, '_>,
    objects: Arc<BuiltObjects>,
    is_after: bool,
) -> Asked<Arc<BuiltObjects>> {
    if objects.values().all(|built| copied_names(&built.manifest).is_empty()) {
        return Ok(objects);
    }
    let mut all = BuiltObjects::clone(&objects);
    for built in all.values_mut().filter(|built| !copied_names(&built.manifest).is_empty()) {
        let changes = is_after && !changing_sources(comparison, &built.manifest)?.is_empty();
        if !copies_data(built) {
            if changes {
                let mut manifest = Value::clone(&built.manifest);
                forget_checksums(&mut manifest);
                built.manifest = Arc::new(manifest);
            }
            continue;
        }
        let data = copied_data(comparison, built, is_after)?.map(Value::from);
        let field = if built.id.is("", "Secret") { "stringData" } else { "data" };
        set_field(built, field, data.or_else(|| changes.then(|| json!({"copied": PLACEHOLDER}))));
    }
    Ok(Arc::new(all))
}

/// Returns true if an object has data that the API server cannot be asked about, because it is not known.
pub(super) fn is_unknown(built: &BuiltObject) -> bool {
    let names = copied_names(&built.manifest);
    let has_data = built.manifest.get("data").is_some_and(Value::is_object);
    !names.is_empty() && (source_of(built).is_none() || !has_data || has_unknown_copy(&built.manifest))
}

/// Returns the objects of the change whose data the objects of a ResourceSet copy.
pub(super) fn changing_sources(
    comparison: &mut Comparison<'_, '_, '_>,
    resources: &Value,
) -> Asked<BTreeSet<ObjectId>> {
    let mut found = BTreeSet::new();
    for id in comparison.copied_objects(resources) {
        let difference = comparison.difference(&id, Part::Data(None))?;
        if matches!(difference, Some(Difference::Created | Difference::Changed(_))) {
            found.insert(id);
        }
    }
    Ok(found)
}

/// Returns true if flux-operator sees at once that one of these objects changes, and not only at the next interval of its
/// ResourceSet.
pub(super) fn is_watched(state: &State<'_>, sources: &BTreeSet<ObjectId>) -> bool {
    let (key, value) = WATCH;
    sources.iter().any(|id| {
        let applied = state.applied(id);
        let labels = applied.last().and_then(|applied| applied.built.manifest.pointer("/metadata/labels"));
        match labels {
            Some(labels) => labels[key] == value,
            None => state.live_object(id).is_some_and(|live| live.labels.get(key) == Some(value)),
        }
    })
}

/// Returns the label with which flux-operator sees a change at once, for people.
pub(super) fn watch_label() -> String {
    let (key, value) = WATCH;
    format!("{key}: {value}")
}

/// Returns the data of the ConfigMap that an object copies; `None` if it is not known.
fn copied_data(
    comparison: &mut Comparison<'_, '_, '_>,
    built: &BuiltObject,
    is_after: bool,
) -> Asked<Option<Map<String, Value>>> {
    let Some(source) = source_of(built) else { return Ok(None) };
    let Some(live) = comparison.derivation.answers.data.get(&source) else {
        comparison.derivation.needs.data.insert(source);
        return Err(Interrupt::Missing);
    };
    let changed = data_after_change(comparison.derivation, &source, live).filter(|_| is_after);
    // Without its source flux-operator fails, and the object stays as it is.
    let changed = changed.map(|(data, _)| data).filter(|data| *data != Lookup::Missing);
    let data = match changed.unwrap_or_else(|| live.clone()) {
        Lookup::Found(data) => data,
        Lookup::Missing | Lookup::Unreadable(_) | Lookup::NotRead => return Ok(None),
    };
    if data.is_secret || data.is_binary || comparison.state().may_hold_secrets_in_data(&source.id(), &data) {
        return Ok(None);
    }
    Ok(Some(data.values.into_iter().map(|(key, text)| (key, text.reveal().as_str().into())).collect()))
}

/// Returns an object whose data flux-operator reads for one of these objects, and that does not exist: it applies none of them then.
pub(super) fn missing_source(state: &State<'_>, objects: &BuiltObjects) -> Option<ObjectId> {
    let mut sources = objects.values().filter(|built| built.masked.is_none()).filter_map(read_object);
    sources.find(|source| state.stays_absent(source))
}

/// Returns the object whose data another one copies.
fn read_object(built: &BuiltObject) -> Option<ObjectId> {
    let annotations = built.manifest.pointer("/metadata/annotations").filter(|_| copies_data(built))?;
    let [copied, converted] = [COPY_FROM, CONVERT_FROM].map(|key| annotations.get(key).and_then(Value::as_str));
    let (kind, text) = match copied {
        Some(text) => (&*built.id.kind, text),
        None => ("Secret", converted?.split(':').next()?),
    };
    let (namespace, name) = text.split_once('/').filter(|(_, name)| !name.contains('/'))?;
    Some(ObjectId::new("", kind, namespace, name))
}

/// Returns the ConfigMap of which an object copies the data, and computes nothing else.
fn source_of(built: &BuiltObject) -> Option<DataRef> {
    let is_only = copied_names(&built.manifest).len() == 1;
    read_object(built).filter(|source| is_only && source.is("", "ConfigMap")).map(|source| DataRef::of(&source))
}

/// Returns true for an object whose data is that of another one, or computed of it.
fn copies_data(built: &BuiltObject) -> bool {
    let annotations = built.manifest.pointer("/metadata/annotations");
    let is_copy = annotations.is_some_and(|all| [COPY_FROM, CONVERT_FROM].iter().any(|key| all.get(*key).is_some()));
    is_copy && (built.id.is("", "ConfigMap") || built.id.is("", "Secret"))
}

/// Sets a field of a manifest, or removes it.
fn set_field(built: &mut BuiltObject, field: &str, value: Option<Value>) {
    let mut manifest = Value::clone(&built.manifest);
    if let Some(fields) = manifest.as_object_mut() {
        match value {
            Some(value) => _ = fields.insert(field.to_owned(), value),
            None => _ = fields.remove(field),
        }
    }
    built.manifest = Arc::new(manifest);
}

/// Adds placeholders to a manifest for the hashes of data that changes.
fn forget_checksums(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.contains_key(CHECKSUM_FROM) {
                fields.insert(CHECKSUM.to_owned(), PLACEHOLDER.into());
            }
            fields.values_mut().for_each(forget_checksums);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_checksums),
        _ => {}
    }
}
