//! Validation of values by the keywords of a schema. A value that stays as it is may be invalid.
//!
//! Source: `kube-openapi/pkg/validation/validate`, and
//! `apiextensions-apiserver/pkg/apiserver/validation/ratcheting.go`.

use serde_json::{Map, Value, json};

use super::fit::{Fit, child, dotted};
use super::scalars::{number_fit, text_fit, type_fit};
use super::typed::{field_schema, key_of};

/// Keywords that are judged here, or by the rules and the patch, or that say nothing about a value.
const JUDGED: [&str; 37] = [
    "$schema",
    "additionalProperties",
    "allOf",
    "anyOf",
    "default",
    "description",
    "enum",
    "example",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "externalDocs",
    "format",
    "id",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "nullable",
    "oneOf",
    "pattern",
    "properties",
    "required",
    "title",
    "type",
    "uniqueItems",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-preserve-unknown-fields",
];
/// Keywords that are judged only where a schema says what there is, and not in a condition about it.
const STRUCTURAL: [&str; 2] = ["x-kubernetes-map-type", "x-kubernetes-validations"];
/// Keywords with conditions about a value.
const LOGIC: [&str; 4] = ["allOf", "anyOf", "oneOf", "not"];

/// How values are validated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values {
    /// The object is validated as it will be, and not a part of it.
    pub(super) is_whole: bool,
    /// The schema is a condition.
    is_condition: bool,
}

impl Values {
    pub(super) fn new(is_whole: bool) -> Self {
        Self { is_whole, is_condition: false }
    }

    /// Validates a value in place of an old one.
    pub(super) fn value(self, value: &Value, old: Option<&Value>, schema: &Value, pointer: &str) -> Fit {
        if old == Some(value) {
            return Fit::Valid;
        }
        if value.is_null() {
            let is_allowed = schema["nullable"] == true && schema.get("enum").is_none();
            let reason = format!("decides about the null at {}", dotted(pointer));
            return if is_allowed { Fit::Valid } else { Fit::unknown(reason, schema, value) };
        }
        let listed_fit = type_fit(value, schema, pointer).and(|| listed(value, schema, pointer));
        let fit = listed_fit.and(|| match value {
            Value::Object(fields) => self.object(fields, value, old, schema, pointer),
            Value::Array(items) => self.list(items, old, schema, pointer),
            Value::String(text) => text_fit(text, value, schema, pointer),
            Value::Number(number) => number_fit(number, schema, pointer),
            Value::Bool(_) | Value::Null => Fit::Valid,
        });
        fit.and(|| self.logic(value, old, schema, pointer)).and(|| self.unjudged(value, schema, pointer))
    }

    /// Validates an object itself by the schema of its kind.
    pub(super) fn root(self, object: &Value, fields: &Map<String, Value>, old: Option<&Value>, schema: &Value) -> Fit {
        self.required(fields, schema, "")
            .and(|| self.logic(object, old, schema, ""))
            .and(|| self.unjudged(object, schema, ""))
    }

    /// Returns what is not known because of keywords that nothing judges.
    fn unjudged(self, value: &Value, schema: &Value, pointer: &str) -> Fit {
        let mut fit = Fit::Valid;
        for (key, part) in schema.as_object().into_iter().flatten() {
            let key = key.as_str();
            if !JUDGED.contains(&key) && (self.is_condition || !STRUCTURAL.contains(&key)) {
                fit = fit.and(|| Fit::unknown(format!("has {key} for {}", dotted(pointer)), part, value));
            }
        }
        fit
    }

    /// Validates a value by the conditions of a schema.
    fn logic(self, value: &Value, old: Option<&Value>, schema: &Value, pointer: &str) -> Fit {
        let mut fit = Fit::Valid;
        for key in LOGIC {
            let Some(part) = schema.get(key) else { continue };
            let reason = || format!("has {key} for {}", dotted(pointer));
            if !self.is_whole && (value.is_object() || value.is_array()) {
                return Fit::unknown(reason(), part, value);
            }
            let conditions = part.as_array().map_or(std::slice::from_ref(part), Vec::as_slice);
            let walk = Self { is_condition: true, ..self };
            let fits: Vec<Fit> =
                conditions.iter().map(|condition| walk.value(value, old, condition, pointer)).collect();
            let is_open = |fit: &&Fit| matches!(fit, Fit::Unknown(_));
            let (met, open) =
                (fits.iter().filter(|fit| **fit == Fit::Valid).count(), fits.iter().filter(is_open).count());
            let bounds = match key {
                "allOf" => fits.len()..=fits.len(),
                "anyOf" => 1..=fits.len(),
                "oneOf" => 1..=1,
                _ => 0..=0,
            };
            // As many are met as `met`, and at most as many more as are open.
            fit = fit.and(|| {
                if met > *bounds.end() || met + open < *bounds.start() {
                    Fit::invalid(pointer, format!("{}: Invalid value: must validate {key}", dotted(pointer)))
                } else if bounds.contains(&met) && met + open <= *bounds.end() {
                    Fit::Valid
                } else {
                    Fit::unknown(reason(), part, value)
                }
            });
        }
        fit
    }

    fn object(
        self,
        fields: &Map<String, Value>,
        value: &Value,
        old: Option<&Value>,
        schema: &Value,
        pointer: &str,
    ) -> Fit {
        let mut fit = self.required(fields, schema, pointer);
        fit = fit.and(|| self.size(fields.len(), value, schema, ["minProperties", "maxProperties"], pointer));
        for (key, value) in fields {
            let old = old.and_then(|old| old.get(key));
            fit = fit.and(|| self.field(value, old, schema, &child(pointer, key), key));
        }
        fit
    }

    /// Validates the value of a field by the schema of its parent.
    pub(super) fn field(self, value: &Value, old: Option<&Value>, parent: &Value, pointer: &str, key: &str) -> Fit {
        match field_schema(parent, key) {
            Some(schema) => self.value(value, old, schema, pointer),
            None if parent["additionalProperties"] == false => {
                Fit::invalid(pointer, format!("{}: forbidden property", dotted(pointer)))
            }
            None => Fit::Valid,
        }
    }

    /// Checks the required fields. A default fills a missing one in, and so can the live object.
    fn required(self, fields: &Map<String, Value>, schema: &Value, pointer: &str) -> Fit {
        let names = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let mut missing = names.filter(|name| {
            let property = schema.get("properties").and_then(|properties| properties.get(*name));
            !fields.contains_key(*name) && property.is_none_or(|property| property.get("default").is_none())
        });
        match missing.next() {
            None => Fit::Valid,
            Some(name) if self.is_whole => {
                Fit::invalid(&child(pointer, name), format!("{}.{name}: Required value", dotted(pointer)))
            }
            Some(name) => {
                Fit::unknown(format!("requires {}.{name}", dotted(pointer)), &json!("required"), &Value::Null)
            }
        }
    }

    /// Validates a list. An item with a key replaces the old one with the same key, and any other none.
    fn list(self, items: &[Value], old: Option<&Value>, schema: &Value, pointer: &str) -> Fit {
        let value = || Value::Array(items.to_vec());
        // Items of other managers stay beside those of a manifest.
        let is_whole = self.is_whole || matches!(schema["x-kubernetes-list-type"].as_str(), None | Some("atomic"));
        let mut fit = Self { is_whole, ..self }.size(items.len(), &value(), schema, ["minItems", "maxItems"], pointer);
        if schema["uniqueItems"] == true && items.iter().enumerate().any(|(at, item)| items[..at].contains(item)) {
            fit = fit.and(|| Fit::invalid(pointer, format!("{}: shouldn't contain duplicates", dotted(pointer))));
        }
        let Some(inner) = schema.get("items") else { return fit };
        for (at, item) in items.iter().enumerate() {
            let old = old_item(item, old, schema);
            fit = fit.and(|| self.value(item, old, inner, &format!("{pointer}/{at}")));
        }
        fit
    }

    /// Checks the number of items or fields.
    fn size(self, size: usize, value: &Value, schema: &Value, bounds: [&str; 2], pointer: &str) -> Fit {
        let [least, most] = bounds.map(|bound| schema.get(bound).and_then(Value::as_u64));
        let size = size as u64;
        match (least, most) {
            (_, Some(most)) if size > most => {
                Fit::invalid(pointer, format!("{}: must have at most {most} items", dotted(pointer)))
            }
            (Some(least), _) if size < least && self.is_whole => {
                Fit::invalid(pointer, format!("{}: must have at least {least} items", dotted(pointer)))
            }
            (Some(least), _) if size < least => {
                Fit::unknown(format!("has {} for {}", bounds[0], dotted(pointer)), &json!(least), value)
            }
            (_, Some(most)) if !self.is_whole => {
                Fit::unknown(format!("has {} for {}", bounds[1], dotted(pointer)), &json!(most), value)
            }
            _ => Fit::Valid,
        }
    }
}

/// Returns the old item that one with the same keys replaces.
pub(super) fn old_item<'o>(item: &Value, old: Option<&'o Value>, schema: &Value) -> Option<&'o Value> {
    if schema["x-kubernetes-list-type"] != "map" {
        return None;
    }
    let key = key_of(item, schema)?;
    old?.as_array()?.iter().find(|old| key_of(old, schema).as_ref() == Some(&key))
}

fn listed(value: &Value, schema: &Value, pointer: &str) -> Fit {
    let is_same = |listed: &Value| match (listed.as_f64(), value.as_f64()) {
        (Some(listed), Some(value)) => listed == value,
        _ => listed == value,
    };
    match schema.get("enum").and_then(Value::as_array) {
        Some(values) if !values.is_empty() && !values.iter().any(is_same) => {
            let supported = values.iter().map(Value::to_string).collect::<Vec<_>>().join(", ");
            let message = format!("{}: Unsupported value: {value}: supported values: {supported}", dotted(pointer));
            Fit::invalid(pointer, message)
        }
        _ => Fit::Valid,
    }
}
