//! Validation of a custom resource by the schema of a definition that the change brings: the API server has it only
//! later, so a dry-run cannot tell.
//!
//! Source: Kubernetes v1.36.3 `apiextensions-apiserver/pkg/apiserver/schema` (`defaulting`, `cel`) and `validation`. A value
//! that stays as it is may be invalid, except for a rule that compares it with itself. What is not decided here is unknown and
//! never an error.

use std::cell::Cell;

use cel::Value as CelValue;
use serde_json::{Map, Value};

use super::cause::{NO_TYPED_PATCH, UNDECLARED_FIELD, is_of_schema};
use crate::bounds::compile_pattern;
use crate::expression::{self, MAX_STEPS};
use crate::kubernetes::object::{flag_at, list_at, merge};
use crate::text::unescape_step;

/// Result of a validation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// The schema accepts the manifest.
    Valid,
    /// The schema refuses a value.
    Invalid(Misfit),
    /// It is not known; the reason, as a predicate of the definition.
    Unknown(String),
}

/// A value that a schema refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misfit {
    /// JSON pointer of the value.
    pub(crate) pointer: String,
    pub(crate) message: String,
}

impl Misfit {
    /// Returns true if the API server refuses the manifest whatever the live object has.
    pub(crate) fn is_never_ratcheted(&self) -> bool {
        is_of_schema(&self.message) || self.pointer.is_empty()
    }
}

impl Fit {
    /// Returns the worse result of two.
    fn and(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Valid => other(),
            Self::Invalid(_) => self,
            Self::Unknown(_) => match other() {
                Self::Invalid(misfit) => Self::Invalid(misfit),
                _ => self,
            },
        }
    }

    fn invalid(pointer: &str, message: impl Into<String>) -> Self {
        Self::Invalid(Misfit { pointer: pointer.to_owned(), message: message.into() })
    }
}

/// The live object that an apply merges a manifest with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Live<'v> {
    /// There is none.
    Absent,
    /// It is not known, and can have fields that the manifest lacks.
    Unread,
    Read(&'v Value),
}

/// Validates a manifest by the definition of its kind, in a version.
pub(crate) fn validate(manifest: &Value, definition: &Value, version: &str, live: Live<'_>) -> Fit {
    let found = list_at(definition, "/spec/versions").iter().find(|found| found["name"] == version);
    if found.is_none_or(|found| found["served"] == false) {
        return Fit::invalid("", format!("version {version} is not served"));
    }
    let Some(schema) = found.and_then(|found| found.pointer("/schema/openAPIV3Schema")) else {
        return Fit::Unknown(format!("has no schema for version {version}"));
    };
    match live {
        Live::Absent => Validation::new(live).whole(&with_defaults(manifest, schema), None, schema),
        Live::Unread => Validation::new(live).whole(manifest, None, schema),
        Live::Read(object) => {
            let [old, desired] = [object, manifest].map(|value| with_defaults(value, schema));
            // What others write stays, what the controller drops goes: the object is between these two.
            let mut merged = old.clone();
            merge(&mut merged, manifest);
            let declared = Validation { keeps_undeclared: true, ..Validation::new(live) };
            let results = [
                Validation::new(live).whole(&desired, Some(&old), schema),
                declared.whole(&merged, Some(&old), schema),
            ];
            match results {
                [Fit::Invalid(misfit), _] if misfit.is_never_ratcheted() => Fit::Invalid(misfit),
                [Fit::Invalid(misfit), Fit::Invalid(_)] => Fit::Invalid(misfit),
                [Fit::Valid, Fit::Valid] => Fit::Valid,
                _ => Fit::Unknown("depends on fields of others".to_owned()),
            }
        }
    }
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

struct Validation {
    /// There is a live object.
    is_update: bool,
    /// The object is validated as it will be, and not a part of it.
    is_whole: bool,
    /// Fields that the schema lacks are those of others, and the server drops them.
    keeps_undeclared: bool,
    /// Steps that are left for the rules of the whole manifest.
    steps: Cell<u64>,
}

impl Validation {
    fn new(live: Live<'_>) -> Self {
        let (is_update, is_whole) = (!matches!(live, Live::Absent), !matches!(live, Live::Unread));
        Self { is_update, is_whole, keeps_undeclared: false, steps: Cell::new(MAX_STEPS) }
    }

    /// Validates an object in place of an old one.
    fn whole(&self, object: &Value, old: Option<&Value>, schema: &Value) -> Fit {
        let Some(fields) = object.as_object() else { return Fit::Unknown("has another format".to_owned()) };
        let mut fit = self.required(fields, old, schema, "");
        for (key, value) in fields {
            if !matches!(key.as_str(), "apiVersion" | "kind" | "metadata" | "status") {
                let old = old.and_then(|old| old.get(key));
                fit = fit.and(|| self.field(value, old, schema, &format!("/{key}"), key));
            }
        }
        fit.and(|| self.rules(object, old, schema, ""))
    }

    /// Validates the value of a field by the schema of its parent.
    fn field(&self, value: &Value, old: Option<&Value>, parent: &Value, pointer: &str, key: &str) -> Fit {
        if let Some(schema) = parent.get("properties").and_then(|properties| properties.get(key)) {
            return self.value(value, old, schema, pointer);
        }
        match parent.get("additionalProperties") {
            Some(schema @ Value::Object(_)) => self.value(value, old, schema, pointer),
            Some(Value::Bool(true)) => Fit::Valid,
            _ if keeps_unknown_fields(parent) || self.keeps_undeclared => Fit::Valid,
            _ => Fit::invalid(pointer, format!("{NO_TYPED_PATCH}: {}: {UNDECLARED_FIELD}", dotted(pointer))),
        }
    }

    fn value(&self, value: &Value, old: Option<&Value>, schema: &Value, pointer: &str) -> Fit {
        if flag_at(schema, "/x-kubernetes-int-or-string") {
            let fits = value.is_string() || value.is_i64() || value.is_u64();
            return if fits { Fit::Valid } else { wrong_type(pointer, "integer or string") };
        }
        if value.is_null() {
            return Fit::Unknown(format!("decides about the null at {}", dotted(pointer)));
        }
        let fit = match value {
            Value::Object(fields) => self.object(fields, old, schema, pointer),
            Value::Array(items) => self.list(items, old, schema, pointer),
            scalar => scalar_fit(scalar, old == Some(scalar), schema, pointer),
        };
        let fit = if old == Some(value) { fit } else { fit.and(|| is_listed(value, schema, pointer)) };
        fit.and(|| self.rules(value, old, schema, pointer))
    }

    /// Evaluates the rules of a schema in CEL. Of an object that is merged with an unknown one, only single values are known.
    fn rules(&self, value: &Value, old: Option<&Value>, schema: &Value, pointer: &str) -> Fit {
        if let Some(key) = ["oneOf", "anyOf", "allOf", "not"].into_iter().find(|key| schema.get(key).is_some()) {
            return Fit::Unknown(format!("has {key}"));
        }
        let is_known = self.is_whole || !(value.is_object() || value.is_array());
        let mut fit = Fit::Valid;
        for rule in list_at(schema, "/x-kubernetes-validations") {
            let Some(text) = rule["rule"].as_str() else { continue };
            let is_optional = rule["optionalOldSelf"] == true;
            let compares = text.contains("oldSelf");
            let has_no_old_value = !self.is_update || (self.is_whole && old.is_none());
            // Such a rule is asked only about a value that replaces another one, and each other rule only about a new value.
            if compares && has_no_old_value && !is_optional || !compares && old == Some(value) {
                continue;
            }
            let is_decidable = is_known && !(compares && (is_optional || old.is_none()));
            fit = fit.and(|| match is_decidable.then(|| self.evaluate(text, value, old)).flatten() {
                Some(true) => Fit::Valid,
                Some(false) => {
                    let message =
                        rule["message"].as_str().map_or_else(|| format!("failed rule: {text}"), str::to_owned);
                    Fit::invalid(pointer, format!("{}: Invalid value: {message}", dotted(pointer)))
                }
                None => Fit::Unknown(format!("has a rule for {}", dotted(pointer))),
            });
        }
        fit
    }

    /// Returns the result of a rule; `None` if it cannot be evaluated here.
    fn evaluate(&self, text: &str, value: &Value, old: Option<&Value>) -> Option<bool> {
        let mut left = self.steps.get().saturating_sub(text.len() as u64);
        if left == 0 {
            return None;
        }
        let parsed = expression::parse(text).ok()?;
        let mut context = expression::context();
        context.add_variable("self", value).ok()?;
        if let Some(old) = old {
            context.add_variable("oldSelf", old).ok()?;
        }
        let result = expression::with_stack(|| parsed.evaluate(&context, &mut left));
        self.steps.set(left);
        match result {
            Ok(CelValue::Bool(result)) => Some(result),
            _ => None,
        }
    }

    fn object(&self, fields: &Map<String, Value>, old: Option<&Value>, schema: &Value, pointer: &str) -> Fit {
        if !has_type(schema, "object") {
            return wrong_type(pointer, schema["type"].as_str().unwrap_or_default());
        }
        if flag_at(schema, "/x-kubernetes-embedded-resource") {
            return Fit::Unknown(format!("has an embedded resource at {}", dotted(pointer)));
        }
        let mut fit = self.required(fields, old, schema, pointer);
        if self.is_whole && old.and_then(Value::as_object) != Some(fields) {
            fit = fit.and(|| size_fit(fields.len(), schema, ["minProperties", "maxProperties"], pointer));
        }
        for (key, value) in fields {
            let old = old.and_then(|old| old.get(key));
            fit = fit.and(|| self.field(value, old, schema, &format!("{pointer}/{}", escape(key)), key));
        }
        fit
    }

    /// Checks the required fields. A default fills a missing one in, and so can the live object.
    fn required(&self, fields: &Map<String, Value>, old: Option<&Value>, schema: &Value, pointer: &str) -> Fit {
        if old.and_then(Value::as_object) == Some(fields) {
            return Fit::Valid;
        }
        let mut names = list_at(schema, "/required").iter().filter_map(Value::as_str);
        let missing = names.find(|name| {
            let property = schema.get("properties").and_then(|properties| properties.get(*name));
            !fields.contains_key(*name) && property.is_none_or(|property| property.get("default").is_none())
        });
        match missing {
            None => Fit::Valid,
            Some(name) if self.is_whole => Fit::invalid(
                &format!("{pointer}/{}", escape(name)),
                format!("{}.{name}: Required value", dotted(pointer)),
            ),
            Some(name) => Fit::Unknown(format!("requires {}.{name}", dotted(pointer))),
        }
    }

    /// Validates a list. Its items replace those of an old list with the same keys, or none.
    fn list(&self, items: &[Value], old: Option<&Value>, schema: &Value, pointer: &str) -> Fit {
        if !has_type(schema, "array") {
            return wrong_type(pointer, schema["type"].as_str().unwrap_or_default());
        }
        let old = old.and_then(Value::as_array);
        let stays = old.is_some_and(|old| old.as_slice() == items);
        let mut fit = if stays { Fit::Valid } else { size_fit(items.len(), schema, ["minItems", "maxItems"], pointer) };
        let Some(inner) = schema.get("items") else { return fit };
        let has_keys = old.is_some() && !stays && schema["x-kubernetes-list-type"] == "map";
        for (at, item) in items.iter().enumerate() {
            let old = old.filter(|_| stays).and_then(|old| old.get(at));
            fit = fit.and(|| match self.value(item, old, inner, &format!("{pointer}/{at}")) {
                Fit::Invalid(misfit) if has_keys && !misfit.is_never_ratcheted() => {
                    Fit::Unknown(format!("has rules for items of {}", dotted(pointer)))
                }
                fit => fit,
            });
        }
        fit
    }
}

fn scalar_fit(value: &Value, stays: bool, schema: &Value, pointer: &str) -> Fit {
    let expected = schema["type"].as_str().unwrap_or_default();
    let fits = match expected {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "" => keeps_unknown_fields(schema),
        _ => false,
    };
    if !fits {
        return wrong_type(pointer, expected);
    }
    match value {
        _ if stays => Fit::Valid,
        Value::String(text) => text_fit(text, schema, pointer),
        Value::Number(_) => number_fit(value.as_f64().unwrap_or_default(), schema, pointer),
        _ => Fit::Valid,
    }
}

fn text_fit(text: &str, schema: &Value, pointer: &str) -> Fit {
    let length = text.chars().count() as u64;
    let [least, most] = ["minLength", "maxLength"].map(|key| schema.get(key).and_then(Value::as_u64));
    if most.is_some_and(|most| length > most) || least.is_some_and(|least| length < least) {
        return Fit::invalid(pointer, format!("{}: Invalid length", dotted(pointer)));
    }
    if schema.get("format").is_some() {
        return Fit::Unknown(format!("checks the format of {}", dotted(pointer)));
    }
    let Some(pattern) = schema.get("pattern").and_then(Value::as_str) else { return Fit::Valid };
    match compile_pattern(pattern) {
        Ok(pattern) if pattern.is_match(text) => Fit::Valid,
        Ok(_) => Fit::invalid(pointer, format!("{}: should match '{pattern}'", dotted(pointer))),
        Err(_) => Fit::Unknown(format!("checks the pattern of {}", dotted(pointer))),
    }
}

fn number_fit(number: f64, schema: &Value, pointer: &str) -> Fit {
    let [least, most] = ["minimum", "maximum"].map(|key| schema.get(key).and_then(Value::as_f64));
    let [above, below] = ["/exclusiveMinimum", "/exclusiveMaximum"].map(|key| flag_at(schema, key));
    if most.is_some_and(|most| number > most || (below && number == most))
        || least.is_some_and(|least| number < least || (above && number == least))
    {
        return Fit::invalid(pointer, format!("{}: is out of range", dotted(pointer)));
    }
    Fit::Valid
}

/// Checks the number of items or fields.
fn size_fit(size: usize, schema: &Value, bounds: [&str; 2], pointer: &str) -> Fit {
    let [least, most] = bounds.map(|bound| schema.get(bound).and_then(Value::as_u64));
    let size = size as u64;
    match (least, most) {
        (Some(least), _) if size < least => {
            Fit::invalid(pointer, format!("{}: must have at least {least} items", dotted(pointer)))
        }
        (_, Some(most)) if size > most => {
            Fit::invalid(pointer, format!("{}: must have at most {most} items", dotted(pointer)))
        }
        _ => Fit::Valid,
    }
}

fn is_listed(value: &Value, schema: &Value, pointer: &str) -> Fit {
    match schema.get("enum").and_then(Value::as_array) {
        Some(values) if !values.contains(value) => {
            let supported = values.iter().map(Value::to_string).collect::<Vec<_>>().join(", ");
            let message = format!("{}: Unsupported value: {value}: supported values: {supported}", dotted(pointer));
            Fit::invalid(pointer, message)
        }
        _ => Fit::Valid,
    }
}

fn has_type(schema: &Value, expected: &str) -> bool {
    schema.get("type").map_or_else(|| keeps_unknown_fields(schema), |found| found == expected)
}

fn keeps_unknown_fields(schema: &Value) -> bool {
    flag_at(schema, "/x-kubernetes-preserve-unknown-fields")
}

fn wrong_type(pointer: &str, expected: &str) -> Fit {
    Fit::invalid(pointer, format!("{NO_TYPED_PATCH}: {}: expected {expected}", dotted(pointer)))
}

/// Returns a JSON pointer as the API server writes a path.
fn dotted(pointer: &str) -> String {
    unescape_step(&pointer.trim_start_matches('/').replace('/', "."))
}

fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(spec: &Value) -> Value {
        let schema = json!({"type": "object", "properties": {"spec": spec, "status": {"type": "object"}}});
        json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}})
    }

    fn fit(schema: &Value, spec: &Value) -> Fit {
        let manifest = json!({"apiVersion": "e.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec});
        validate(&manifest, &definition(schema), "v1", Live::Absent)
    }

    #[test]
    fn values_fit_a_structural_schema_or_not() {
        let schema = json!({"type": "object", "required": ["size"], "properties": {
            "size": {"type": "string", "enum": ["a", "b"]}, "count": {"type": "integer", "minimum": 1, "maximum": 5},
            "port": {"x-kubernetes-int-or-string": true}, "name": {"type": "string", "pattern": "^x", "maxLength": 3},
            "tags": {"type": "array", "minItems": 1, "maxItems": 1, "items": {"type": "string"}},
            "share": {"type": "number", "minimum": 0, "exclusiveMinimum": true},
            "map": {"type": "object", "maxProperties": 1, "additionalProperties": {"type": "boolean"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
        for spec in [
            json!({"size": "a", "count": 3, "port": "http", "name": "xy", "tags": ["t"], "map": {"a/b": true}}),
            json!({"size": "b", "port": 80, "free": {"any": {"thing": 1}}}),
        ] {
            assert_eq!(fit(&schema, &spec), Fit::Valid, "{spec}");
        }
        for (spec, pointer) in [
            (json!({"size": "c"}), "/spec/size"),
            (json!({"size": 1}), "/spec/size"),
            (json!({}), "/spec/size"),
            (json!({"size": "a", "typo": 1}), "/spec/typo"),
            (json!({"size": "a", "count": 6}), "/spec/count"),
            (json!({"size": "a", "port": true}), "/spec/port"),
            (json!({"size": "a", "name": "y"}), "/spec/name"),
            (json!({"size": "a", "name": "xxxx"}), "/spec/name"),
            (json!({"size": "a", "tags": ["s", "t"]}), "/spec/tags"),
            (json!({"size": "a", "tags": []}), "/spec/tags"),
            (json!({"size": "a", "tags": {}}), "/spec/tags"),
            (json!({"size": "a", "share": 0}), "/spec/share"),
            (json!({"size": "a", "map": {"a": true, "b": true}}), "/spec/map"),
            (json!({"size": "a", "map": {"a/b": 1}}), "/spec/map/a~1b"),
        ] {
            let found = fit(&schema, &spec);
            assert!(matches!(&found, Fit::Invalid(misfit) if misfit.pointer == pointer), "{spec}: {found:?}");
        }
    }

    #[test]
    fn what_is_not_evaluated_is_unknown_unless_another_value_is_invalid() {
        let rules = json!({"type": "object", "x-kubernetes-validations": [{"rule": "quantity(self.size) > 1"}],
            "properties": {"size": {"type": "string"}, "time": {"type": "string", "format": "date-time"}}});
        assert!(matches!(fit(&rules, &json!({"size": "a"})), Fit::Unknown(_)));
        assert!(matches!(fit(&rules, &json!({"time": "now", "typo": 1})), Fit::Invalid(_)));
        assert!(matches!(fit(&rules, &json!({"size": null})), Fit::Unknown(_)));
        let other = validate(&json!({"spec": {}}), &definition(&rules), "v2", Live::Absent);
        assert!(
            matches!(other, Fit::Invalid(misfit) if misfit.is_never_ratcheted()),
            "a version that it does not have"
        );
    }

    #[test]
    fn rules_are_evaluated_after_defaults_where_the_whole_value_is_known() {
        let schema = json!({"type": "object", "properties": {
            "size": {"type": "string", "x-kubernetes-validations": [
                {"rule": "self.startsWith('x')", "message": "size must start with x"}, {"rule": "self == oldSelf"}]},
            "least": {"type": "integer", "default": 3}, "most": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": "!has(self.most) || self.least <= self.most"}]});
        for spec in [json!({"size": "xa"}), json!({"most": 3}), json!({"least": 1, "most": 2})] {
            assert_eq!(fit(&schema, &spec), Fit::Valid, "{spec}");
        }
        for (spec, pointer) in [(json!({"size": "a"}), "/spec/size"), (json!({"most": 2}), "/spec")] {
            let found = fit(&schema, &spec);
            assert!(matches!(&found, Fit::Invalid(misfit) if misfit.pointer == pointer), "{spec}: {found:?}");
        }
        let merged = |spec: Value| validate(&json!({"spec": spec}), &definition(&schema), "v1", Live::Unread);
        assert!(matches!(merged(json!({"size": "a"})), Fit::Invalid(_)), "a single value is known");
        assert!(matches!(merged(json!({"most": 2})), Fit::Unknown(_)), "the live object may have the other field");
        assert!(matches!(merged(json!({"size": "xa"})), Fit::Unknown(_)), "the old value is not read");
    }

    #[test]
    fn a_required_field_can_be_in_the_live_object_or_have_a_default() {
        let schema = json!({"type": "object", "required": ["size"], "properties": {"size": {"type": "string"}}});
        let manifest = json!({"spec": {}});
        assert!(matches!(validate(&manifest, &definition(&schema), "v1", Live::Unread), Fit::Unknown(_)));
        let schema = json!({"type": "object", "required": ["size"],
            "properties": {"size": {"type": "string", "default": "a"}}});
        assert_eq!(fit(&schema, &json!({})), Fit::Valid);
    }

    /// Returns how a spec fits a schema in place of a live one, as `valid`, `unknown` or the pointer of an invalid value.
    fn replacing(schema: &Value, live: &Value, spec: &Value) -> String {
        let [live, manifest] = [live, spec].map(|spec| json!({"metadata": {"name": "w"}, "spec": spec}));
        match validate(&manifest, &definition(schema), "v1", Live::Read(&live)) {
            Fit::Valid => "valid".to_owned(),
            Fit::Unknown(_) => "unknown".to_owned(),
            Fit::Invalid(misfit) => misfit.pointer,
        }
    }

    #[test]
    fn a_rule_compares_with_the_live_value() {
        let schema = json!({"type": "object", "properties": {"color": {"type": "string"},
            "size": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}});
        let live = json!({"size": "a"});
        assert_eq!(replacing(&schema, &live, &json!({"size": "b"})), "/spec/size");
        assert_eq!(replacing(&schema, &live, &json!({"size": "a", "color": "red"})), "valid");
        assert_eq!(replacing(&schema, &json!({"color": "red"}), &json!({"size": "b"})), "valid", "it replaces nothing");
    }

    #[test]
    fn what_stays_as_it_is_may_be_invalid_beside_a_change() {
        let schema = json!({"type": "object", "required": ["color"], "properties": {"color": {"type": "string"},
            "size": {"type": "string", "enum": ["b", "c"]}, "list": {"type": "array", "maxItems": 1,
            "items": {"type": "string", "x-kubernetes-validations": [{"rule": "self != 'x'"}]}}}});
        let live = json!({"size": "a", "list": ["x", "y"]});
        assert_eq!(replacing(&schema, &live, &live), "valid");
        assert_eq!(replacing(&schema, &live, &json!({"size": "b", "list": ["x", "y"]})), "/spec/color");
        let coloured = |size: &str, list: Value| json!({"size": size, "list": list, "color": "red"});
        assert_eq!(replacing(&schema, &live, &coloured("a", json!(["x", "y"]))), "valid");
        assert_eq!(replacing(&schema, &live, &coloured("d", json!(["x", "y"]))), "/spec/size");
        assert_eq!(replacing(&schema, &live, &coloured("a", json!(["x"]))), "/spec/list/0");
        let foreign = json!({"size": "a", "color": "red"});
        assert_eq!(replacing(&schema, &foreign, &json!({"size": "b"})), "unknown", "another manager may have set it");
    }

    #[test]
    fn what_the_schema_does_not_declare_is_dropped_from_the_live_object_and_refused_in_the_manifest() {
        let schema = json!({"type": "object", "properties": {"size": {"type": "string"}}});
        let live = json!({"size": "a", "old": "x"});
        assert_eq!(replacing(&schema, &live, &json!({"size": "b"})), "valid");
        assert_eq!(replacing(&schema, &live, &live), "/spec/old");
    }
}
