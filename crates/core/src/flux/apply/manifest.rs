//! The manifest that the controller sends, made of what was built.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::Application;
use crate::ownership::schemes::flux_kustomization::{NAME, NAMESPACE};

/// What the controller sends: with its labels, without status, Secrets with `data` alone; common metadata comes last and
/// overwrites.
pub fn to_send(application: &Application) -> Value {
    let Application { owner, spec, id, built } = application;
    let mut manifest = built.manifest.clone();
    let Some(fields) = manifest.as_object_mut() else { return manifest };
    if !id.is("apiextensions.k8s.io", "CustomResourceDefinition") {
        fields.remove("status");
    }
    if id.is("", "Secret") {
        encode(fields);
    }
    let metadata = part(fields, "metadata");
    metadata.remove("creationTimestamp");
    if id.namespace.is_empty() {
        metadata.remove("namespace");
    }
    let labels = part(metadata, "labels");
    labels.insert(NAME.to_owned(), json!(owner.name));
    labels.insert(NAMESPACE.to_owned(), json!(owner.namespace));
    for kind in ["labels", "annotations"] {
        let common = spec.value().pointer(&format!("/commonMetadata/{kind}")).and_then(Value::as_object);
        if let Some(common) = common.filter(|common| !common.is_empty()) {
            part(metadata, kind).extend(common.clone());
        }
    }
    manifest
}

/// A map inside of a map, made where it is missing.
fn part<'a>(fields: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let value = fields.entry(key).or_insert(Value::Null);
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("it was made one")
}

fn encode(secret: &mut Map<String, Value>) {
    let Some(Value::Object(plain)) = secret.remove("stringData") else { return };
    let data = part(secret, "data");
    for (key, value) in plain {
        data.insert(key, json!(STANDARD.encode(value.as_str().unwrap_or_default())));
    }
}

/// Removes the fields that a built-in kind does not know, as the controller does without a word; the server names them
/// as `.spec.replcas: field not declared in schema`. `false` when it named none that is there.
pub fn drop_unknown(manifest: &mut Value, message: &str) -> bool {
    let mut dropped = false;
    for (before, _) in
        message.match_indices(": field not declared in schema").map(|(at, found)| (&message[..at], found))
    {
        let path = before.rsplit(|c: char| c.is_whitespace()).next().unwrap_or_default();
        dropped |= remove(manifest, path);
    }
    dropped
}

/// Removes the value at `.spec.containers[name="c"].imge`.
fn remove(value: &mut Value, path: &str) -> bool {
    let Some(path) = path.strip_prefix('.') else {
        let Some((condition, rest)) = path.strip_prefix('[').and_then(|path| path.split_once(']')) else {
            return false;
        };
        let wanted: Vec<(&str, &str)> = condition.split(',').filter_map(|pair| pair.split_once('=')).collect();
        let parsed = |wanted: &str| serde_json::from_str::<Value>(wanted).ok();
        // A key that the server filled in by default is not in the manifest.
        let fits = |item: &Value| {
            wanted.iter().all(|(key, wanted)| item.get(key).is_none_or(|value| parsed(wanted).as_ref() == Some(value)))
        };
        let at = condition.parse::<usize>().ok();
        let items = value.as_array_mut().into_iter().flatten().enumerate();
        let mut fitting = items.filter(|(number, item)| at.map_or_else(|| fits(item), |at| at == *number));
        return fitting.next().is_some_and(|(_, item)| remove(item, rest));
    };
    let end = path.find(['.', '[']).unwrap_or(path.len());
    let (key, rest) = path.split_at(end);
    let Some(fields) = value.as_object_mut() else { return false };
    if rest.is_empty() {
        return fields.remove(key).is_some();
    }
    fields.get_mut(key).is_some_and(|inner| remove(inner, rest))
}
