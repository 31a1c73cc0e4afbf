//! YAML.

use gitops_core::bounds::YAML_DEPTH;
use gitops_core::yaml;
use serde_json::Value;

/// A document that is read is no deeper than the limit, and is written so that it is read again to the same value.
pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(documents) = yaml::documents::<Value>(text) else { return };
    for value in documents {
        assert!(depth(&value) <= YAML_DEPTH.limit);
        let written = serde_yaml::to_string(&value).expect("JSON can be written as YAML");
        assert_eq!(yaml::documents::<Value>(&written).as_deref(), Ok(&[value][..]), "{written}");
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}
