//! ConfigMaps and Secrets as `substituteFrom` reads them.
//!
//! Source: reference kustomize-controller 3.5, and 4.2 for what an application leaves alone.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::flux::apply::MANAGER;

/// The data of a ConfigMap or Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Data {
    /// Keys and values, decoded.
    pub values: BTreeMap<String, String>,
    /// Keys that only others than the controller and kubectl set: an application without them leaves them.
    pub foreign: BTreeSet<String>,
}

impl Data {
    /// Reads a live object or a manifest of kind `ConfigMap` or `Secret`; values that are no text are left out.
    pub fn read(object: &Value) -> Self {
        let part = |name: &str| object.get(name).and_then(Value::as_object).into_iter().flatten();
        let plain = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
        let decoded = |(key, value): (&String, &Value)| {
            let bytes = STANDARD.decode(value.as_str()?).ok()?;
            Some((key.clone(), String::from_utf8_lossy(&bytes).into_owned()))
        };
        let values = if object.get("kind").and_then(Value::as_str) == Some("Secret") {
            part("data").filter_map(decoded).chain(part("stringData").filter_map(plain)).collect()
        } else {
            part("data").filter_map(plain).collect()
        };
        Self { values, foreign: foreign(object) }
    }

    /// What is there once a manifest was applied over this.
    #[must_use]
    pub fn applied(&self, manifest: &Value) -> Self {
        let stays = |(key, _): &(&String, &String)| self.foreign.contains(*key);
        let mut values: BTreeMap<String, String> =
            self.values.iter().filter(stays).map(|(key, value)| (key.clone(), value.clone())).collect();
        values.extend(Self::read(manifest).values);
        Self { values, foreign: self.foreign.clone() }
    }
}

fn foreign(object: &Value) -> BTreeSet<String> {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten();
    let (mut ours, mut theirs) = (BTreeSet::new(), BTreeSet::new());
    for entry in entries {
        let manager = entry.get("manager").and_then(Value::as_str).unwrap_or_default();
        let keys = entry.pointer("/fieldsV1/f:data").and_then(Value::as_object).into_iter().flatten();
        let keys = keys.filter_map(|(key, _)| key.strip_prefix("f:").map(str::to_owned));
        let taken_over = manager == MANAGER || manager.starts_with("kubectl");
        if taken_over { &mut ours } else { &mut theirs }.extend(keys);
    }
    theirs.difference(&ours).cloned().collect()
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
    fn an_application_removes_what_it_no_longer_has_and_leaves_what_others_set() {
        let fields = [manager(MANAGER, &["a", "b"]), manager("kubectl-edit", &["c"]), manager("operator", &["b", "d"])];
        let live = json!({"kind": "ConfigMap", "data": {"a": "1", "b": "2", "c": "3", "d": "4"},
            "metadata": {"managedFields": fields}});
        let after = Data::read(&live).applied(&json!({"kind": "ConfigMap", "data": {"a": "9"}}));
        let values: Vec<_> = after.values.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(values, ["a=9", "d=4"]);
    }

    #[test]
    fn secrets_are_decoded_and_string_data_wins() {
        let secret = json!({"kind": "Secret", "data": {"a": "MQ==", "b": "no base64"}, "stringData": {"a": "2"}});
        assert_eq!(Data::read(&secret).values, [("a".to_owned(), "2".to_owned())].into());
    }
}
