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

/// Returns how a value at `spec.v` fits its schema, as `valid`, `unknown` or `invalid`.
fn verdict(schema: Value, value: Value) -> &'static str {
    match fit(&json!({"type": "object", "properties": {"v": schema}}), &json!({"v": value})) {
        Fit::Valid => "valid",
        Fit::Unknown(_) => "unknown",
        Fit::Invalid(_) => "invalid",
    }
}

#[test]
fn every_keyword_decides_about_a_value_or_makes_it_unknown() {
    let number = |key: &str, bound: Value| json!({"type": "number", key: bound});
    let integer = |key: &str, bound: Value| json!({"type": "integer", key: bound});
    let text = |key: &str, bound: Value| json!({"type": "string", key: bound});
    let quantity = json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true,
        "pattern": "^[0-9]+(Ki|Mi|Gi)?$"});
    let one = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
    let embedded = json!({"type": "object", "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true});
    for (schema, value, expected) in [
        (integer("multipleOf", json!(2)), json!(4), "valid"),
        (integer("multipleOf", json!(2)), json!(3), "invalid"),
        (number("multipleOf", json!(0.1)), json!(0.3), "valid"),
        (number("multipleOf", json!(0.1)), json!(0.35), "invalid"),
        (integer("minimum", json!(1.5)), json!(3), "invalid"),
        (integer("format", json!("int32")), json!(3_000_000_000_i64), "invalid"),
        (integer("format", json!("int64")), json!(3_000_000_000_i64), "valid"),
        (integer("format", json!("int32")), json!(1.0), "valid"),
        (integer("title", json!("t")), json!(1.5), "invalid"),
        (number("format", json!("float")), json!(1e300), "invalid"),
        (quantity.clone(), json!("10Gi"), "valid"),
        (quantity.clone(), json!(10), "valid"),
        (quantity.clone(), json!("10GiB"), "invalid"),
        (quantity, json!(true), "invalid"),
        (text("maxLength", json!(2)), json!("éé"), "valid"),
        (text("format", json!("uuid")), json!("x"), "invalid"),
        (text("format", json!("date-time")), json!("2024-01-02T03:04:05Z"), "valid"),
        (text("format", json!("date-time")), json!("now"), "invalid"),
        (text("format", json!("ipv4")), json!("10.0.0.1"), "valid"),
        (text("format", json!("email")), json!("a@b"), "unknown"),
        (text("format", json!("colour")), json!("red"), "valid"),
        (text("pattern", json!("^[[a]$")), json!("a"), "unknown"),
        (text("pattern", json!("^\\w$")), json!("é"), "unknown"),
        (text("x-kubernetes-new", json!(true)), json!("a"), "unknown"),
        (json!({"type": "string", "nullable": true}), Value::Null, "valid"),
        (one.clone(), json!({"a": 1}), "valid"),
        (one.clone(), json!({"a": 1, "b": 1}), "invalid"),
        (one, json!({}), "invalid"),
        (json!({"type": "string", "not": {"enum": ["a"]}}), json!("a"), "invalid"),
        (json!({"type": "string", "allOf": [{"minLength": 2}, {"maxLength": 3}]}), json!("abcd"), "invalid"),
        (json!({"type": "string", "anyOf": [{"format": "email"}, {"maxLength": 1}]}), json!("ab"), "unknown"),
        (json!({"type": "string", "anyOf": [{"format": "email"}, {"maxLength": 2}]}), json!("ab"), "valid"),
        (embedded.clone(), json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {}}), "valid"),
        (embedded.clone(), json!({"kind": "ConfigMap"}), "invalid"),
        (embedded, json!({"apiVersion": "v1", "kind": "K", "metadata": {"labels": {"a": "b!"}}}), "invalid"),
    ] {
        assert_eq!(verdict(schema.clone(), value.clone()), expected, "{schema} {value}");
    }
}

#[test]
fn a_list_has_each_key_once() {
    let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
    let map = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"],
        "items": {"type": "object", "properties": {"n": {"type": "string", "default": "a"}, "v": {"type": "string"}}}});
    assert_eq!(verdict(set.clone(), json!(["a", "b"])), "valid");
    assert_eq!(verdict(set, json!(["a", "a"])), "invalid");
    assert_eq!(verdict(map.clone(), json!([{"n": "a"}, {"n": "b"}])), "valid");
    assert_eq!(verdict(map.clone(), json!([{"n": "a"}, {"n": "a", "v": "x"}])), "invalid");
    assert_eq!(verdict(map, json!([{"n": "a"}, {"v": "x"}])), "invalid", "the default is its key");
}

#[test]
fn rules_see_names_and_types_as_the_server_does() {
    let object = |rule: &str, fields: Value| json!({"type": "object", "properties": fields, "x-kubernetes-validations": [{"rule": rule}]});
    let list = |rule: &str| {
        json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"},
            "x-kubernetes-validations": [{"rule": rule}]})
    };
    let text = json!({"type": "string"});
    for (schema, value, expected) in [
        (object("!has(self.max__dash__size)", json!({"max-size": text})), json!({"max-size": "a"}), "invalid"),
        (object("self.__namespace__ == 'a'", json!({"namespace": text})), json!({"namespace": "a"}), "valid"),
        (object("has(self.a__slash__b__dot__c)", json!({"a/b.c": text})), json!({"a/b.c": ""}), "valid"),
        (object("has(self.a__underscores__b)", json!({"a__b": text})), json!({"a__b": ""}), "valid"),
        (object("self.n / 2.0 == 1.5", json!({"n": {"type": "number"}})), json!({"n": 3}), "valid"),
        (
            object("self.t < 'x'", json!({"t": {"type": "string", "format": "date-time"}})),
            json!({"t": "2024-01-02T03:04:05Z"}),
            "unknown",
        ),
        (list("self == ['b', 'a']"), json!(["a", "b"]), "unknown"),
        (list("size(self) == 2 && 'a' in self"), json!(["a", "b"]), "valid"),
        (list("self.exists(i, i == 'a')"), json!(["a", "b"]), "valid"),
        (list("self == ['a']"), json!(["a"]), "valid"),
    ] {
        assert_eq!(verdict(schema.clone(), value.clone()), expected, "{schema} {value}");
    }
}

#[test]
fn metadata_of_a_new_resource_is_validated() {
    let of = |metadata: Value| {
        let manifest = json!({"apiVersion": "e.com/v1", "kind": "Widget", "metadata": metadata, "spec": {}});
        validate(&manifest, &definition(&json!({"type": "object"})), "v1", Live::Absent)
    };
    assert_eq!(of(json!({"name": "w", "labels": {"a/b": "", "c": "d"}, "annotations": {"a/B": "y!"}})), Fit::Valid);
    for metadata in [
        json!({"name": "W"}),
        json!({"name": "w", "labels": {"x": "y!"}}),
        json!({"name": "w", "labels": {"x y": "y"}}),
        json!({"name": "w", "annotations": {"x y": "y"}}),
        json!({"name": "w", "annotations": {"x": "y".repeat(300_000)}}),
        json!({"name": "w", "finalizers": ["a b"]}),
        json!({"name": "w", "label": {}}),
    ] {
        assert!(matches!(of(metadata.clone()), Fit::Invalid(_)), "{metadata}");
    }
    assert!(matches!(of(json!({"name": "w", "ownerReferences": [{}]})), Fit::Unknown(_)));
}

#[test]
fn an_item_replaces_the_one_with_its_key() {
    let schema = json!({"type": "object", "properties": {"list": {"type": "array", "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["n"], "items": {"type": "object", "required": ["n"], "properties": {
            "n": {"type": "string"}, "v": {"type": "string", "enum": ["x"],
            "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}}}}});
    let live = json!({"list": [{"n": "a", "v": "old"}, {"n": "b", "v": "x"}]});
    let with = |items: Value| replacing(&schema, &live, &json!({"list": items}));
    assert_eq!(with(json!([{"n": "c", "v": "x"}, {"n": "a", "v": "old"}])), "valid", "what stays may be invalid");
    assert_eq!(with(json!([{"n": "c", "v": "y"}])), "/spec/list/0/v");
    assert_eq!(with(json!([{"n": "a", "v": "x"}])), "/spec/list/0/v", "it must not change");
}
