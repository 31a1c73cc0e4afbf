//! Validation of a custom resource by the schema of a definition that the change brings: the API server has it only
//! later, so a dry-run cannot tell.
//!
//! Source: Kubernetes v1.36.3 `apiextensions-apiserver/pkg/registry/customresource/strategy.go`, and
//! `pkg/apiserver/schema/defaulting`. A value that stays as it is may be invalid, except for a rule that compares it
//! with itself. What is not decided here, also each keyword that nothing here knows, is unknown and never accepted.

mod fit;
mod formats;
mod metadata;
mod rules;
mod scalars;
#[cfg(test)]
mod tests;
mod typed;
mod values;

use serde_json::Value;

use self::fit::child;
pub(crate) use self::fit::{Doubt, Fit, Misfit};
use self::rules::Rules;
use self::values::Values;
use crate::kubernetes::object::{list_at, merge};

/// The live object that an apply merges a manifest with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Live<'v> {
    /// There is none.
    Absent,
    /// It is not known, and can have fields that the manifest lacks.
    Unread,
    Read(&'v Value),
}

impl Misfit {
    /// Returns true if the API server refuses the manifest whatever the live object has.
    pub(crate) fn stays(&self) -> bool {
        self.is_never_ratcheted || self.pointer.is_empty()
    }
}

/// Validates a manifest by the definition of its kind, in a version.
pub(crate) fn validate(manifest: &Value, definition: &Value, version: &str, live: Live<'_>) -> Fit {
    let found = list_at(definition, "/spec/versions").iter().find(|found| found["name"] == version);
    if found.is_none_or(|found| found["served"] == false) {
        return Fit::invalid("", format!("version {version} is not served"));
    }
    let Some(schema) = found.and_then(|found| found.pointer("/schema/openAPIV3Schema")) else {
        return Fit::unknown(format!("has no schema for version {version}"), &Value::Null, manifest);
    };
    let is_new = matches!(live, Live::Absent);
    let named = if is_new { metadata::created(manifest) } else { Fit::Valid };
    let replicas = found.and_then(|found| found.pointer("/subresources/scale/specReplicasPath")?.as_str());
    let fit =
        named.and(|| patch(manifest, schema, is_new)).and(|| replicas_fit(manifest, replicas.unwrap_or_default()));
    fit.and(|| match live {
        Live::Absent => whole(&with_defaults(manifest, schema), None, schema, live),
        Live::Unread => whole(manifest, None, schema, live),
        Live::Read(object) => {
            let [old, desired] = [object, manifest].map(|value| with_defaults(value, schema));
            // What others write stays, what the controller drops goes: the object is between these two.
            let mut merged = old.clone();
            merge(&mut merged, manifest);
            match [&desired, &merged].map(|object| whole(object, Some(&old), schema, live)) {
                [Fit::Invalid(misfit), Fit::Invalid(_)] => Fit::Invalid(misfit),
                [Fit::Valid, Fit::Valid] => Fit::Valid,
                [Fit::Unknown(doubts), Fit::Valid] | [Fit::Valid, Fit::Unknown(doubts)] => Fit::Unknown(doubts),
                [Fit::Unknown(doubts), Fit::Unknown(more)] => Fit::Unknown(&doubts | &more),
                _ => Fit::unknown("depends on fields of others", schema, &merged),
            }
        }
    })
}

/// Returns the fields of an object that its schema decides about.
fn judged_fields(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let fields = object.as_object().into_iter().flatten();
    fields.filter(|(key, _)| !matches!(key.as_str(), "apiVersion" | "kind" | "metadata" | "status"))
}

/// Checks the patch that the server makes of a manifest.
fn patch(manifest: &Value, schema: &Value, is_new: bool) -> Fit {
    let mut fit = Fit::Valid;
    for (key, value) in judged_fields(manifest) {
        fit = fit.and(|| typed::field(key, value, schema, "", is_new));
    }
    fit
}

/// Checks the number of replicas of a kind that can be scaled.
fn replicas_fit(manifest: &Value, path: &str) -> Fit {
    let pointer = path.replace('.', "/");
    let replicas = manifest.pointer(&pointer).filter(|_| !path.is_empty());
    match replicas {
        Some(replicas) if !replicas.as_i64().is_some_and(|number| (0..=i64::from(i32::MAX)).contains(&number)) => {
            Fit::invalid(&pointer, format!("{path}: Invalid value: {replicas}: should be a non-negative integer"))
        }
        _ => Fit::Valid,
    }
}

/// Validates an object in place of an old one.
fn whole(object: &Value, old: Option<&Value>, schema: &Value, live: Live<'_>) -> Fit {
    let is_whole = !matches!(live, Live::Unread);
    let Some(fields) = object.as_object() else { return Fit::unknown("has another format", schema, object) };
    let (values, rules) = (Values::new(is_whole), Rules::new(!matches!(live, Live::Absent), is_whole));
    let mut fit = if old == Some(object) { Fit::Valid } else { values.root(object, fields, old, schema) };
    for (key, value) in judged_fields(object) {
        let old = old.and_then(|old| old.get(key));
        fit = fit.and(|| values.field(value, old, schema, &child("", key), key));
    }
    fit.and(|| rules.value(object, old, schema, "", false))
}

/// Returns a value with the defaults of absent fields.
fn with_defaults(value: &Value, schema: &Value) -> Value {
    let mut filled = value.clone();
    fill_defaults(&mut filled, schema);
    filled
}

/// Adds the defaults of absent fields, as the API server does before it validates.
fn fill_defaults(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(fields) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            for (key, property) in properties.into_iter().flatten() {
                if let Some(default) = property.get("default") {
                    fields.entry(key.clone()).or_insert_with(|| default.clone());
                }
                if let Some(value) = fields.get_mut(key) {
                    fill_defaults(value, property);
                }
            }
            if let Some(schema) = schema.get("additionalProperties") {
                let others =
                    fields.iter_mut().filter(|(key, _)| properties.is_none_or(|known| !known.contains_key(*key)));
                others.for_each(|(_, value)| fill_defaults(value, schema));
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                items.iter_mut().for_each(|item| fill_defaults(item, schema));
            }
        }
        _ => {}
    }
}
