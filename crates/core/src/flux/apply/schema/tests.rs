//! How manifests fit schemas.

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
    assert!(matches!(other, Fit::Invalid(misfit) if misfit.stays()), "a version that it does not have");
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
