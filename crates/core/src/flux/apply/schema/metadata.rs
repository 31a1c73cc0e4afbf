//! Metadata of custom resources and of the resources inside of them, which the server validates whatever the schema
//! says.
//!
//! Source: `apimachinery/pkg/api/validation/objectmeta.go`, and
//! `apiextensions-apiserver/pkg/apiserver/schema/objectmeta`.

use serde_json::{Value, json};

use super::fit::{Fit, child, dotted};
use crate::flux::apply::cause::UNDECLARED_FIELD;
use crate::kubernetes::object::{list_at, text_at};
use crate::kubernetes::selector::{is_key, is_name, is_subdomain};

/// Most bytes of all annotations.
const ANNOTATIONS_SIZE: usize = 256 << 10;
/// Fields that the server fills in or that are judged by other rules.
const OTHERS: [&str; 9] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Checks the metadata of a resource that is created.
pub(super) fn created(manifest: &Value) -> Fit {
    let name = text_at(manifest, "/metadata/name");
    if !is_subdomain(name) {
        return Fit::invalid("/metadata/name", format!("metadata.name: Invalid value: {name:?}"));
    }
    fields(&manifest["metadata"], "/metadata")
}

/// Checks a resource inside of another one.
pub(super) fn embedded(resource: &Value, schema: &Value, pointer: &str, is_new: bool) -> Fit {
    for key in ["apiVersion", "kind"] {
        let place = child(pointer, key);
        match &resource[key] {
            Value::String(text) if !text.is_empty() => {}
            Value::Null if is_new => return Fit::invalid(&place, format!("{}: Required value", dotted(&place))),
            Value::Null => return Fit::unknown(format!("requires {}", dotted(&place)), schema, resource),
            _ => return Fit::invalid(&place, format!("{}: must be a string that is not empty", dotted(&place))),
        }
    }
    let name = text_at(resource, "/metadata/name");
    let is_segment = !matches!(name, "." | "..") && !name.contains(['/', '%']);
    let [kind, version] = ["kind", "apiVersion"].map(|key| resource[key].as_str().unwrap_or_default());
    let is_kind = kind.starts_with(|c: char| c.is_ascii_alphabetic()) && is_subdomain(&kind.to_lowercase());
    if !is_segment || !is_kind || kind.contains('.') || version.matches('/').count() > 1 {
        return Fit::invalid(pointer, format!("{}: Invalid value: no resource", dotted(pointer)));
    }
    fields(&resource["metadata"], &child(pointer, "metadata"))
}

/// Checks the fields of metadata, without the name.
fn fields(metadata: &Value, pointer: &str) -> Fit {
    let mut fit = Fit::Valid;
    for (key, value) in metadata.as_object().into_iter().flatten() {
        let place = child(pointer, key);
        fit = fit.and(|| match key.as_str() {
            "labels" => texts(value, &place, |key, value| is_key(key) && (value.is_empty() || is_name(value))),
            "annotations" => annotations(value, &place),
            "finalizers" => finalizers(value, &place),
            "name" | "namespace" | "generateName" => Fit::Valid,
            key if OTHERS.contains(&key) => {
                Fit::unknown(format!("has the field {}", dotted(&place)), &json!("metadata"), value)
            }
            _ => Fit::no_patch(&place, UNDECLARED_FIELD),
        });
    }
    fit
}

fn texts(value: &Value, pointer: &str, is_valid: impl Fn(&str, &str) -> bool) -> Fit {
    let Some(texts) = value.as_object() else { return nothing_or_wrong(value, pointer) };
    for (key, value) in texts {
        let Some(text) = value.as_str() else { return nothing_or_wrong(value, &child(pointer, key)) };
        if !is_valid(key, text) {
            let shown = if is_key(&key.to_lowercase()) { text } else { key };
            return Fit::invalid(pointer, format!("{}: Invalid value: {shown:?}", dotted(pointer)));
        }
    }
    Fit::Valid
}

fn annotations(value: &Value, pointer: &str) -> Fit {
    let texts_of = value.as_object().into_iter().flatten();
    let size: usize = texts_of.map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if size > ANNOTATIONS_SIZE {
        return Fit::invalid(pointer, format!("{}: Too long: may not be more than 262144 bytes", dotted(pointer)));
    }
    texts(value, pointer, |key, _| is_key(&key.to_lowercase()))
}

fn finalizers(value: &Value, pointer: &str) -> Fit {
    match list_at(value, "").iter().find(|name| !name.as_str().is_some_and(is_key)) {
        Some(name) => Fit::invalid(pointer, format!("{}: Invalid value: {name}", dotted(pointer))),
        None => Fit::Valid,
    }
}

fn nothing_or_wrong(value: &Value, pointer: &str) -> Fit {
    if value.is_null() { Fit::Valid } else { Fit::no_patch(pointer, "expected string") }
}
