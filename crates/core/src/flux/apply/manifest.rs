//! Manifest that kustomize-controller sends for a built object.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::AppliedObject;
use super::cause::{NO_TYPED_PATCH, UNDECLARED_FIELD};
use super::normalize::normalize;
use crate::flux::build::objects::are_readable;
use crate::ownership::schemes::flux_kustomization::{NAME, NAMESPACE};

/// Returns the manifest with owner labels, normalized, without status, and with `data` alone in a Secret. Common metadata overwrites
/// the labels and annotations of the manifest. Labels or annotations that are not all text are dropped, once the controller
/// adds one.
pub fn manifest_to_apply(applied: &AppliedObject) -> Value {
    let AppliedObject { owner, spec, id, built, .. } = applied;
    let mut manifest = Value::clone(&built.manifest);
    normalize(id, &mut manifest);
    let Some(fields) = manifest.as_object_mut() else { return manifest };
    if !id.is_definition() {
        fields.remove("status");
    }
    if id.is("", "Secret") {
        encode_string_data(fields);
    }
    let metadata = map_entry(fields, "metadata");
    metadata.remove("creationTimestamp");
    if id.namespace.is_empty() {
        metadata.remove("namespace");
    }
    let labels = text_entry(metadata, "labels");
    labels.insert(NAME.to_owned(), json!(owner.name));
    labels.insert(NAMESPACE.to_owned(), json!(owner.namespace));
    for kind in ["labels", "annotations"] {
        let common = spec.value().pointer(&format!("/commonMetadata/{kind}")).and_then(Value::as_object);
        if let Some(common) = common.filter(|common| !common.is_empty()) {
            text_entry(metadata, kind).extend(common.clone());
        }
    }
    manifest
}

/// Returns the labels or annotations that the controller can read.
fn text_entry<'a>(metadata: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let pairs = map_entry(metadata, key);
    if !are_readable(pairs) {
        pairs.clear();
    }
    pairs.values_mut().filter(|value| value.is_null()).for_each(|value| *value = json!(""));
    pairs
}

/// Returns the map under a key; anything else there is replaced by an empty map.
fn map_entry<'a>(fields: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let value = fields.entry(key).or_insert(Value::Null);
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("the value was made a map")
}

fn encode_string_data(secret: &mut Map<String, Value>) {
    let Some(Value::Object(plain)) = secret.remove("stringData") else { return };
    let data = map_entry(secret, "data");
    for (key, value) in plain {
        data.insert(key, json!(STANDARD.encode(value.as_str().unwrap_or_default())));
    }
}

/// Removes the fields that a message of the API server names as `.spec.replcas: field not declared in schema`, if it says nothing
/// else: it quotes the values of other fields, and these can hold such words. Returns true if the manifest had one of them.
pub(crate) fn remove_unknown_fields(manifest: &mut Value, message: &str) -> bool {
    let paths = unknown_fields(message).unwrap_or_default();
    let mut has_removed = false;
    for path in paths {
        has_removed |= remove_path(manifest, path);
    }
    has_removed
}

/// Returns the paths of fields that a kind does not have; `None` if the message is about anything else too.
fn unknown_fields(message: &str) -> Option<Vec<&str>> {
    let about = match message.strip_prefix(NO_TYPED_PATCH) {
        Some(about) => about.split_once("): ")?.1,
        None => message,
    };
    let errors = about.strip_prefix("errors:\n").unwrap_or(about);
    errors.lines().map(|line| line.trim_start().strip_suffix(UNDECLARED_FIELD)?.strip_suffix(": ")).collect()
}

/// Removes the value at a path such as `.spec.containers[name="c"].imge`.
fn remove_path(value: &mut Value, path: &str) -> bool {
    let Some(path) = path.strip_prefix('.') else {
        let Some((selector, rest)) = path.strip_prefix('[').and_then(|path| path.split_once(']')) else {
            return false;
        };
        let items = value.as_array_mut().into_iter().flatten().enumerate();
        let mut selected = items.filter(|(at, item)| selects(selector, *at, item));
        return selected.next().is_some_and(|(_, item)| remove_path(item, rest));
    };
    let end = path.find(['.', '[']).unwrap_or(path.len());
    let (key, rest) = path.split_at(end);
    let Some(fields) = value.as_object_mut() else { return false };
    if rest.is_empty() {
        return fields.remove(key).is_some();
    }
    fields.get_mut(key).is_some_and(|inner| remove_path(inner, rest))
}

/// Returns true if `0` or `name="c",port=80` selects this list item. A key that the manifest leaves out matches, because
/// the server may have added its default.
fn selects(selector: &str, at: usize, item: &Value) -> bool {
    if let Ok(index) = selector.parse::<usize>() {
        return index == at;
    }
    selector.split(',').filter_map(|pair| pair.split_once('=')).all(|(key, wanted)| {
        item.get(key).is_none_or(|value| serde_json::from_str::<Value>(wanted).is_ok_and(|wanted| wanted == *value))
    })
}
