//! ConfigMaps and Secrets as `substituteFrom` reads them.
//!
//! Source: docs/reference/kustomize-controller.md 3.5, and 4.4 for the keys that an apply keeps.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::flux::kustomize_controller;
use crate::kubernetes::object::{ObjectId, list_at};
use crate::private::Private;

/// Reference to a ConfigMap or Secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataRef {
    /// Kind: `ConfigMap` or `Secret`.
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

impl DataRef {
    /// Returns the reference to an object of kind `ConfigMap` or `Secret`.
    pub(crate) fn of(id: &ObjectId) -> Self {
        Self { kind: id.kind.to_string(), namespace: id.namespace.to_string(), name: id.name.to_string() }
    }

    /// Returns the identity of the ConfigMap or Secret.
    pub fn id(&self) -> ObjectId {
        ObjectId::new("", &self.kind, &self.namespace, &self.name)
    }

    pub fn is_secret(&self) -> bool {
        self.kind == "Secret"
    }
}

/// Data of ConfigMaps and Secrets after a change, in place of the recorded data.
pub type DataOverrides = BTreeMap<DataRef, Lookup>;

/// Result of reading a ConfigMap or Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    Found(Data),
    Missing,
    /// It could not be read; the reason. The controller may be able to read it.
    Unreadable(String),
    /// A Secret that the tree names and no live Kustomization: it is not read.
    NotRead,
}

/// The data of a ConfigMap or Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Data {
    /// Keys and values, decoded.
    pub values: BTreeMap<String, Private<String>>,
    /// Keys that only managers other than the controller and kubectl set: an apply without them keeps them.
    pub foreign_keys: BTreeSet<String>,
    /// The values are those of a Secret, so that they must not be shown.
    pub is_secret: bool,
    /// It has `binaryData`, too, which is not among the values.
    pub is_binary: bool,
}

impl Data {
    /// Reads a live object or a manifest of kind `ConfigMap` or `Secret`; values that are not text are dropped.
    pub fn read(object: &Value) -> Self {
        let is_secret = object.get("kind").and_then(Value::as_str) == Some("Secret");
        let mut values = BTreeMap::new();
        for (key, value) in fields(object.get("data")) {
            let text = if is_secret { decode(value) } else { value.as_str().map(str::to_owned) };
            values.extend(text.map(|text| (key.clone(), Private::new(text))));
        }
        for (key, value) in fields(object.get("stringData").filter(|_| is_secret)) {
            values.extend(value.as_str().map(|text| (key.clone(), Private::new(text.to_owned()))));
        }
        let is_binary = fields(object.get("binaryData")).next().is_some();
        Self { values, foreign_keys: foreign_keys(object), is_secret, is_binary }
    }

    /// Returns the data after a manifest is applied.
    #[must_use]
    pub(crate) fn after_apply(&self, manifest: &Value) -> Self {
        let mut values = self.values.clone();
        values.retain(|key, _| self.foreign_keys.contains(key));
        let applied = Self::read(manifest);
        values.extend(applied.values);
        let (is_secret, is_binary) = (self.is_secret || applied.is_secret, self.is_binary || applied.is_binary);
        Self { values, foreign_keys: self.foreign_keys.clone(), is_secret, is_binary }
    }
}

fn fields(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten()
}

fn decode(value: &Value) -> Option<String> {
    let bytes = STANDARD.decode(value.as_str()?).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn foreign_keys(object: &Value) -> BTreeSet<String> {
    let (mut own, mut foreign) = (BTreeSet::new(), BTreeSet::new());
    let entries = list_at(object, "/metadata/managedFields").iter();
    for entry in entries {
        let manager = entry.get("manager").and_then(Value::as_str).unwrap_or_default();
        let is_own = manager == kustomize_controller::NAME || manager.starts_with("kubectl");
        let keys = if is_own { &mut own } else { &mut foreign };
        keys.extend(fields(entry.pointer("/fieldsV1/f:data")).filter_map(|(key, _)| key.strip_prefix("f:")));
    }
    foreign.difference(&own).map(|key: &&str| (*key).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn manager(name: &str, keys: &[&str]) -> Value {
        let keys: serde_json::Map<String, Value> = keys.iter().map(|key| (format!("f:{key}"), json!({}))).collect();
        json!({"manager": name, "operation": "Apply", "fieldsV1": {"f:data": keys}})
    }

    #[test]
    fn an_apply_removes_dropped_keys_and_keeps_those_of_other_managers() {
        let fields = [
            manager(kustomize_controller::NAME, &["a", "b"]),
            manager("kubectl-edit", &["c"]),
            manager("operator", &["b", "d"]),
        ];
        let live = json!({"kind": "ConfigMap", "data": {"a": "1", "b": "2", "c": "3", "d": "4"},
            "metadata": {"managedFields": fields}});
        let after = Data::read(&live).after_apply(&json!({"kind": "ConfigMap", "data": {"a": "9"}}));
        let values: Vec<_> = after.values.iter().map(|(key, value)| format!("{key}={}", value.reveal())).collect();
        assert_eq!(values, ["a=9", "d=4"]);
    }

    #[test]
    fn secrets_are_decoded_and_string_data_overrides_data() {
        let secret = json!({"kind": "Secret", "data": {"a": "MQ==", "b": "no base64"}, "stringData": {"a": "2"}});
        assert_eq!(Data::read(&secret).values, [("a".to_owned(), Private::new("2".to_owned()))].into());
    }
}
