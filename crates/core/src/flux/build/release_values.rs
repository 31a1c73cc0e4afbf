//! ConfigMaps and Secrets in `spec.valuesFrom` of a HelmRelease.

use serde_json::Value;

use super::data::DataRef;
use crate::kubernetes::object::{flag_at, text_at};

/// Key of the values in an entry without `valuesKey`.
const DEFAULT_KEY: &str = "values.yaml";

/// An entry of `spec.valuesFrom`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ValuesSource<'a> {
    /// ConfigMap or Secret, in the namespace of the HelmRelease.
    pub(crate) reference: DataRef,
    /// Key of the values.
    pub(crate) key: &'a str,
    /// Path of the value to set; empty if the values are merged.
    pub(crate) target_path: &'a str,
    /// The ConfigMap, Secret or key may be missing.
    pub(crate) optional: bool,
}

/// Returns the entries of `spec.valuesFrom` of a HelmRelease in a namespace, in order.
pub(crate) fn values_sources<'a>(namespace: &str, spec: &'a Value) -> impl Iterator<Item = ValuesSource<'a>> {
    let entries = spec.get("valuesFrom").and_then(Value::as_array).into_iter().flatten();
    entries.map(move |entry| ValuesSource {
        reference: DataRef {
            kind: text_at(entry, "/kind").to_owned(),
            namespace: namespace.to_owned(),
            name: text_at(entry, "/name").to_owned(),
        },
        key: Some(text_at(entry, "/valuesKey")).filter(|key| !key.is_empty()).unwrap_or(DEFAULT_KEY),
        target_path: text_at(entry, "/targetPath"),
        optional: flag_at(entry, "/optional"),
    })
}
