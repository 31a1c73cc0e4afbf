//! The patch that the server makes of a manifest with the schema: types, fields and the keys of lists. What does not
//! fit is never tolerated.
//!
//! Source: structured-merge-diff v6 `typed/validate.go`, and `apiextensions-apiserver/pkg/apiserver/schema/objectmeta`.

use serde_json::{Map, Value};

use super::fit::{Fit, child, dotted};
use super::metadata::embedded;
use crate::flux::apply::cause::UNDECLARED_FIELD;
use crate::kubernetes::object::{flag_at, list_at};

const EMBEDDED: &str = "/x-kubernetes-embedded-resource";

/// Checks what a manifest has at a pointer.
pub(super) fn patch(value: &Value, schema: &Value, pointer: &str, is_new: bool) -> Fit {
    let is_scalar = !value.is_object() && !value.is_array();
    if value.is_null() {
        return Fit::Valid;
    }
    let expected = match schema.get("type").and_then(Value::as_str) {
        _ if flag_at(schema, "/x-kubernetes-int-or-string") => "scalar",
        Some(expected) => expected,
        None if keeps_unknown_fields(schema) => return Fit::Valid,
        None => return Fit::unknown(format!("has no type for {}", dotted(pointer)), schema, value),
    };
    match (expected, value) {
        ("object", Value::Object(fields)) => object(value, fields, schema, pointer, is_new),
        ("array", Value::Array(items)) => list(items, schema, pointer, is_new),
        ("string", Value::String(_)) | ("boolean", Value::Bool(_)) => Fit::Valid,
        ("integer" | "number", Value::Number(_)) => Fit::Valid,
        ("scalar", _) if is_scalar => Fit::Valid,
        _ => Fit::no_patch(pointer, &format!("expected {expected}")),
    }
}

fn object(value: &Value, fields: &Map<String, Value>, schema: &Value, pointer: &str, is_new: bool) -> Fit {
    let is_embedded = flag_at(schema, EMBEDDED);
    let mut fit = if is_embedded { embedded(value, schema, pointer, is_new) } else { Fit::Valid };
    for (key, value) in fields {
        let is_judged = is_embedded && matches!(key.as_str(), "apiVersion" | "kind" | "metadata");
        fit = fit.and(|| if is_judged { Fit::Valid } else { field(key, value, schema, pointer, is_new) });
    }
    fit
}

/// Checks a field by the schema of its parent.
pub(super) fn field(key: &str, value: &Value, parent: &Value, pointer: &str, is_new: bool) -> Fit {
    let pointer = child(pointer, key);
    match (field_schema(parent, key), parent.get("additionalProperties")) {
        (Some(schema), _) => patch(value, schema, &pointer, is_new),
        (None, Some(Value::Bool(true))) => Fit::Valid,
        _ if keeps_unknown_fields(parent) => Fit::Valid,
        _ => Fit::no_patch(&pointer, UNDECLARED_FIELD),
    }
}

pub(super) fn field_schema<'s>(parent: &'s Value, key: &str) -> Option<&'s Value> {
    let declared = parent.get("properties").and_then(|properties| properties.get(key));
    declared.or_else(|| parent.get("additionalProperties").filter(|schema| schema.is_object()))
}

fn list(items: &[Value], schema: &Value, pointer: &str, is_new: bool) -> Fit {
    let mut fit = keys(items, schema, pointer);
    let Some(inner) = schema.get("items") else { return fit };
    for (at, item) in items.iter().enumerate() {
        fit = fit.and(|| patch(item, inner, &format!("{pointer}/{at}"), is_new));
    }
    fit
}

/// Checks that no two items have the same key.
fn keys(items: &[Value], schema: &Value, pointer: &str) -> Fit {
    let mut seen: Vec<Value> = vec![];
    for item in items {
        let Some(key) = key_of(item, schema) else { return Fit::Valid };
        if seen.contains(&key) {
            return Fit::no_patch(pointer, &format!("duplicate entries for key {key}"));
        }
        seen.push(key);
    }
    Fit::Valid
}

/// Returns what tells an item of a list from the others; `None` if it is its place.
pub(super) fn key_of(item: &Value, schema: &Value) -> Option<Value> {
    match schema["x-kubernetes-list-type"].as_str()? {
        "set" => Some(item.clone()),
        "map" => {
            let names = list_at(schema, "/x-kubernetes-list-map-keys").iter().filter_map(Value::as_str);
            let keys = names.filter_map(|name| {
                let default = || schema.pointer(&format!("{}/default", child("/items/properties", name)));
                Some((name.to_owned(), item.get(name).or_else(default)?.clone()))
            });
            Some(Value::Object(keys.collect()))
        }
        _ => None,
    }
}

pub(super) fn keeps_unknown_fields(schema: &Value) -> bool {
    flag_at(schema, "/x-kubernetes-preserve-unknown-fields")
}
