//! The JSON Schemas of the documents: committed, of the types, and compatible with what programs rely on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::{Value, json};
use test_support::schemas;

/// What a schema says of the values at one path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Place {
    /// Types of the values; empty for any.
    types: BTreeSet<String>,
    /// The value is in every object that has room for it.
    required: bool,
}

/// Places by path: fields are separated by `/`, items of a list are `[]`, and values of a map are `{}`.
type Places = BTreeMap<String, Place>;

/// Returns all places of a schema.
fn places(schema: &Value) -> Places {
    let mut found = Places::new();
    collect(schema, schema, "", true, &mut vec![], &mut found);
    found
}

fn collect(root: &Value, schema: &Value, path: &str, required: bool, open: &mut Vec<String>, found: &mut Places) {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = root.pointer(reference.trim_start_matches('#')).unwrap_or_else(|| panic!("no {reference}"));
        if !open.iter().any(|known| known == reference) {
            open.push(reference.to_owned());
            collect(root, target, path, required, open, found);
            open.pop();
        }
    }
    let place = found.entry(path.to_owned()).or_insert_with(|| Place { required, ..Place::default() });
    match &schema["type"] {
        Value::String(kind) => drop(place.types.insert(kind.clone())),
        Value::Array(kinds) => place.types.extend(kinds.iter().filter_map(Value::as_str).map(str::to_owned)),
        _ => {}
    }
    let is_required =
        |name: &str| schema["required"].as_array().is_some_and(|names| names.iter().any(|one| one == name));
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        collect(root, field, &format!("{path}/{name}"), is_required(name), open, found);
    }
    for (key, step) in [("items", "[]"), ("additionalProperties", "{}")] {
        if schema[key].is_object() {
            collect(root, &schema[key], &format!("{path}/{step}"), false, open, found);
        }
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        for branch in schema[key].as_array().into_iter().flatten() {
            let mut own = Places::new();
            collect(root, branch, path, required, open, &mut own);
            for (path, place) in own {
                let is_alternative = key != "allOf";
                let known = found
                    .entry(path)
                    .or_insert_with(|| Place { required: !is_alternative && place.required, ..place.clone() });
                known.types.extend(place.types);
                known.required &= place.required || !is_alternative;
            }
        }
    }
}

/// Returns the changes that break a program which relies on the old schema: for a document that we write, one that reads
/// it; for a document that we read, one that writes it.
fn incompatible(old: &Value, new: &Value, is_input: bool) -> Vec<String> {
    let (old, new) = (places(old), places(new));
    let mut found = vec![];
    for (path, before) in &old {
        let Some(after) = new.get(path) else {
            found.push(format!("{path} is gone"));
            continue;
        };
        let (narrow, broad) = if is_input { (before, after) } else { (after, before) };
        let is_narrower = broad.types.is_empty() || (!narrow.types.is_empty() && narrow.types.is_subset(&broad.types));
        if !is_narrower {
            found.push(format!("{path} changes its type from {:?} to {:?}", before.types, after.types));
        }
        if before.required != after.required && after.required == is_input {
            found.push(format!("{path} is {} required", if is_input { "newly" } else { "no longer" }));
        }
    }
    let added = new.iter().filter(|(path, place)| is_input && place.required && !old.contains_key(*path));
    // A new optional object may have required fields.
    let is_in_old = |path: &str| path.rsplit_once('/').is_some_and(|(parent, _)| old.contains_key(parent));
    found.extend(added.filter(|(path, _)| is_in_old(path)).map(|(path, _)| format!("{path} is newly required")));
    found
}

/// Returns a committed schema; `None` for one that is not committed yet.
fn committed(file: &str) -> Option<Value> {
    let text = fs::read_to_string(schemas::directory().join(file)).ok()?;
    Some(serde_json::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}")))
}

#[track_caller]
fn assert_compatible(of: &kubectl_gitops::schema::DocumentSchema) {
    let changes = committed(&of.file).map(|old| incompatible(&old, &of.schema, of.is_input)).unwrap_or_default();
    assert!(changes.is_empty(), "{} breaks the contract; use a schema v2:\n{}", of.file, changes.join("\n"));
}

#[test]
fn committed_schemas_are_those_of_the_types() {
    let all = kubectl_gitops::schema::all();
    all.iter().for_each(assert_compatible);
    for of in &all {
        assert_eq!(committed(&of.file), Some(of.schema.clone()), "{} is stale: run `cargo xtask schemas`", of.file);
    }
    let files: BTreeSet<String> = all.into_iter().map(|of| of.file).collect();
    let present = fs::read_dir(schemas::directory()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(present.map(|name| name.into_string().unwrap()).collect::<BTreeSet<_>>(), files);
}

#[test]
#[ignore = "writes docs/schemas: run `cargo xtask schemas`"]
fn write_schemas() {
    fs::create_dir_all(schemas::directory()).unwrap();
    for of in kubectl_gitops::schema::all() {
        assert_compatible(&of);
        let text = serde_json::to_string_pretty(&of.schema).unwrap() + "\n";
        fs::write(schemas::directory().join(&of.file), text).unwrap();
    }
}

#[test]
fn changes_that_break_a_program_are_found() {
    let object =
        |fields: Value, required: &[&str]| json!({"type": "object", "properties": fields, "required": required});
    let text = json!({"type": "string"});
    let old = object(
        json!({"a": text, "b": {"type": ["string", "null"]}, "c": {"type": "array", "items": text}}),
        &["a", "c"],
    );
    let changed = |path: &str, value: Value| {
        let mut new = old.clone();
        *new.pointer_mut(path).unwrap() = value;
        new
    };
    let mut more = old.clone();
    more["properties"]["d"] = text.clone();
    let mut more_required = more.clone();
    more_required["required"] = json!(["a", "c", "d"]);
    let mut less = old.clone();
    less["properties"].as_object_mut().unwrap().remove("b");
    let wide = json!({"type": ["string", "null"]});
    for (name, new, breaks_output, breaks_input) in [
        ("nothing", old.clone(), false, false),
        ("a new field", more, false, false),
        ("a new required field", more_required, false, true),
        ("a removed field", less, true, true),
        ("another type", changed("/properties/a", json!({"type": "integer"})), true, true),
        ("another type of items", changed("/properties/c/items", json!({"type": "integer"})), true, true),
        ("also null", changed("/properties/a", wide.clone()), true, false),
        ("never null", changed("/properties/b", text.clone()), false, true),
        ("optional now", changed("/required", json!(["a"])), true, false),
        ("in alternatives", changed("/properties/a", json!({"anyOf": [text, {"type": "null"}]})), true, false),
    ] {
        for (is_input, expected) in [(false, breaks_output), (true, breaks_input)] {
            let changes = incompatible(&old, &new, is_input);
            assert_eq!(!changes.is_empty(), expected, "{name}, input: {is_input}: {changes:?}");
        }
    }
    let referenced = json!({"$ref": "#/$defs/a", "$defs": {"a": old}});
    assert!(incompatible(&old, &referenced, false).is_empty());
}

#[test]
fn recorded_clusters_and_their_answers_are_valid() {
    let file = fs::File::open("examples/shop.json.gz").unwrap();
    let recorded: Value = serde_json::from_reader(flate2::read::GzDecoder::new(file)).unwrap();
    schemas::check(&recorded);
    for line in ["get -A", "inventory", "inventory --leaked", "inventory kustomization/web", "prune --plan"] {
        for format in ["json", "yaml"] {
            let words: Vec<&str> = line.split(' ').collect();
            let run = test_support::gitops::Run::of(test_support::gitops::command(&words).args([
                "--snapshot",
                "examples/shop.json.gz",
                "-o",
                format,
            ]));
            assert!(run.stdout.contains("kubectl-gitops/"), "{line}: {run}");
        }
    }
    let unsound = std::panic::catch_unwind(|| schemas::check(&json!({"schema": "kubectl-gitops/get/v1"})));
    assert!(unsound.is_err(), "a document without its fields is not valid");
}
