//! The fields of a Kustomization's spec that decide what happens to objects.

use serde_json::{Map, Value};

use super::source::matching::SourceId;
use crate::kubernetes::object::ObjectId;

/// Namespace and name of a Kustomization.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespacedName {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// A Kustomization's spec, as live or as a parent would make it.
#[derive(Clone, Debug, PartialEq)]
pub struct KustomizationSpec(Value);

impl KustomizationSpec {
    /// Wraps `.spec`; empty values and those that equal the API's defaults are dropped, so that two specs that act
    /// alike compare equal.
    pub fn new(spec: &Value) -> Self {
        let mut fields = spec.as_object().cloned().unwrap_or_default();
        fields.retain(|key, value| {
            let default = matches!(key.as_str(), "force" | "suspend" | "wait" | "ignoreMissingComponents");
            let unset = value.is_null() || (default && *value == Value::Bool(false));
            !unset
        });
        Self(Value::Object(fields))
    }

    /// The spec as a JSON object.
    pub fn value(&self) -> &Value {
        &self.0
    }

    fn text(&self, pointer: &str) -> Option<&str> {
        self.0.pointer(pointer)?.as_str().filter(|text| !text.is_empty())
    }

    fn flag(&self, key: &str) -> bool {
        self.0.get(key).and_then(Value::as_bool).unwrap_or_default()
    }

    /// `spec.suspend`.
    pub fn suspended(&self) -> bool {
        self.flag("suspend")
    }

    /// `spec.prune`.
    pub fn prunes(&self) -> bool {
        self.flag("prune")
    }

    /// `spec.force`.
    pub fn forces(&self) -> bool {
        self.flag("force")
    }

    /// JSON pointers of `spec.ignore` that the controller does not compare in an object (reference 4.3). Targets are
    /// regular expressions; one that is more than a word is not judged, and its paths are compared.
    pub fn ignored_paths(&self, id: &ObjectId, version: &str) -> Vec<String> {
        let rules = self.0.get("ignore").and_then(Value::as_array).into_iter().flatten();
        let fits = |rule: &&Value| {
            let Some(target) = rule.get("target").and_then(Value::as_object) else { return true };
            target.iter().all(|(key, wanted)| match key.as_str() {
                "group" => wanted == &*id.group,
                "version" => wanted == version,
                "kind" => wanted == &*id.kind,
                "name" => wanted == &*id.name,
                "namespace" => wanted == &*id.namespace,
                _ => false,
            })
        };
        let paths = rules.filter(fits).filter_map(|rule| rule.get("paths")?.as_array()).flatten();
        paths.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// `spec.path` as written.
    pub fn path(&self) -> &str {
        self.text("/path").unwrap_or_default()
    }

    /// Whether the objects live in another cluster.
    pub fn is_remote(&self) -> bool {
        self.0.get("kubeConfig").is_some()
    }

    /// `spec.serviceAccountName`.
    pub fn service_account(&self) -> Option<&str> {
        self.text("/serviceAccountName")
    }

    /// Whether encrypted manifests are decrypted.
    pub fn decrypts(&self) -> bool {
        self.text("/decryption/provider").is_some()
    }

    /// The source, with the Kustomization's namespace where none is written.
    pub fn source(&self, namespace: &str) -> SourceId {
        SourceId {
            kind: self.text("/sourceRef/kind").unwrap_or_default().to_owned(),
            namespace: self.text("/sourceRef/namespace").unwrap_or(namespace).to_owned(),
            name: self.text("/sourceRef/name").unwrap_or_default().to_owned(),
        }
    }

    /// The Kustomizations that must be ready first.
    pub fn depends_on(&self, namespace: &str) -> Vec<NamespacedName> {
        let entries = self.0.get("dependsOn").and_then(Value::as_array).into_iter().flatten();
        let text = |entry: &Value, key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
        let keys = entries.map(|entry| NamespacedName {
            namespace: text(entry, "namespace").filter(|name| !name.is_empty()).unwrap_or_else(|| namespace.to_owned()),
            name: text(entry, "name").unwrap_or_default(),
        });
        keys.collect()
    }

    /// A label that `commonMetadata` sets; it is written after the owner labels and can overwrite them.
    pub fn common_label(&self, key: &str) -> Option<&str> {
        self.0.get("commonMetadata")?.get("labels")?.get(key)?.as_str()
    }

    /// A label or else an annotation that `commonMetadata` sets.
    pub fn common_mark(&self, key: &str) -> Option<&str> {
        let common = self.0.get("commonMetadata")?;
        let of = |part: &str| common.get(part).and_then(|marks| marks.get(key)).and_then(Value::as_str);
        of("labels").or_else(|| of("annotations"))
    }

    /// Whether a Kustomization with this spec deletes its inventory when it is deleted (reference 1.6); the error says
    /// why not.
    pub fn finalizer_deletes(&self, honours_policy: bool) -> Result<(), String> {
        if self.suspended() {
            return Err("is suspended".to_owned());
        }
        let policy = self.text("/deletionPolicy").filter(|_| honours_policy).unwrap_or("MirrorPrune");
        match policy {
            "MirrorPrune" if self.prunes() => Ok(()),
            "MirrorPrune" => Err("has prune: false".to_owned()),
            "Delete" | "WaitForTermination" => Ok(()),
            other => Err(format!("has deletionPolicy: {other}")),
        }
    }

    /// What a live spec becomes when a parent applies `desired`: its fields, and of the live ones only a suspension
    /// that somebody other than kubectl or the controller wrote (reference 4.2).
    #[must_use]
    pub fn merged(&self, desired: &Self, foreign_suspend: bool) -> Self {
        let mut fields: Map<String, Value> = desired.0.as_object().cloned().unwrap_or_default();
        if let Some(suspend) = self.0.get("suspend").filter(|_| foreign_suspend) {
            fields.entry("suspend").or_insert_with(|| suspend.clone());
        }
        Self(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn finalization_follows_suspend_policy_and_prune() {
        let rows = [
            ("prune", json!({"prune": true}), true),
            ("no prune", json!({"prune": false}), false),
            ("suspended", json!({"prune": true, "suspend": true}), false),
            ("suspended with Delete", json!({"deletionPolicy": "Delete", "suspend": true}), false),
            ("Delete without prune", json!({"prune": false, "deletionPolicy": "Delete"}), true),
            ("WaitForTermination", json!({"deletionPolicy": "WaitForTermination"}), true),
            ("Orphan with prune", json!({"prune": true, "deletionPolicy": "Orphan"}), false),
            ("MirrorPrune", json!({"prune": true, "deletionPolicy": "MirrorPrune"}), true),
        ];
        for (name, spec, deletes) in rows {
            assert_eq!(KustomizationSpec::new(&spec).finalizer_deletes(true).is_ok(), deletes, "{name}");
        }
        let old = KustomizationSpec::new(&json!({"prune": true, "deletionPolicy": "Orphan"}));
        assert!(old.finalizer_deletes(false).is_ok());
    }

    #[test]
    fn only_a_foreign_suspension_survives_the_parent() {
        let live = KustomizationSpec::new(&json!({"path": "a", "suspend": true, "timeout": "1m"}));
        let desired = KustomizationSpec::new(&json!({"path": "b"}));
        assert!(live.merged(&desired, true).suspended());
        assert_eq!(live.merged(&desired, false), desired);
    }

    #[test]
    fn specs_that_act_alike_are_equal() {
        assert_eq!(
            KustomizationSpec::new(&json!({"path": "a", "force": false})),
            KustomizationSpec::new(&json!({"path": "a", "wait": null}))
        );
    }
}
