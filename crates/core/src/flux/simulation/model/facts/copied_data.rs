//! ConfigMaps and Secrets that the resources of a ResourceSet copy.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::private::PLACEHOLDER;

/// Annotation of a ConfigMap or Secret whose data is that of another one.
pub(crate) const COPY_FROM: &str = "fluxcd.controlplane.io/copyFrom";

/// Annotation of a ConfigMap with data that is computed of a kubeconfig in a Secret.
pub(crate) const CONVERT_FROM: &str = "fluxcd.controlplane.io/convertKubeConfigFrom";
/// Annotation that names data of which flux-operator writes the hash.
pub(crate) const CHECKSUM_FROM: &str = "fluxcd.controlplane.io/checksumFrom";

/// Annotations of the resources of a ResourceSet that name a ConfigMap or Secret to read.
const COPYING: [&str; 3] = [COPY_FROM, CHECKSUM_FROM, CONVERT_FROM];

/// Returns the names in the annotations of the resources of a ResourceSet that copy data, as `NAMESPACE/NAME`.
pub(crate) fn copied_names(spec: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    collect_copied(spec, &mut names);
    names
}

/// Returns true if an object copies data that changes and is not known: it has a placeholder.
pub(crate) fn has_unknown_copy(manifest: &Value) -> bool {
    let data = ["data", "stringData"].iter().filter_map(|field| manifest.get(*field)?.as_object());
    data.flat_map(|data| data.values()).any(|value| *value == PLACEHOLDER)
}

fn collect_copied(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect_copied(item, names)),
        Value::Object(fields) => {
            for (key, value) in fields {
                match value.as_str() {
                    Some(text) if COPYING.contains(&key.as_str()) => add_names(text, names),
                    _ => collect_copied(value, names),
                }
            }
        }
        Value::String(template) => {
            for line in template.lines() {
                let found = COPYING.iter().find_map(|key| line.split_once(&format!("{key}:")));
                if let Some((_, text)) = found {
                    add_names(text.trim().trim_matches(['"', '\'']), names);
                }
            }
        }
        _ => {}
    }
}

/// Adds the names in `NAMESPACE/NAME`, `NAMESPACE/NAME:KEY` or `KIND/NAMESPACE/NAME`, separated by commas.
fn add_names(text: &str, names: &mut BTreeSet<String>) {
    for entry in text.split(',') {
        let object = entry.split(':').next().unwrap_or_default();
        let mut segments = object.trim().rsplit('/');
        if let (Some(name), Some(namespace)) = (segments.next(), segments.next()) {
            names.insert(format!("{namespace}/{name}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_read_without_their_kinds_and_keys() {
        let annotations = json!({
            "fluxcd.controlplane.io/copyFrom": "shop/a",
            "fluxcd.controlplane.io/checksumFrom": "ConfigMap/shop/b, Secret/shop/c",
            "fluxcd.controlplane.io/convertKubeConfigFrom": "shop/d:value",
        });
        let names = copied_names(&json!({"resources": [{"metadata": {"annotations": annotations}}]}));
        assert_eq!(names, ["shop/a", "shop/b", "shop/c", "shop/d"].map(str::to_owned).into());
    }
}
