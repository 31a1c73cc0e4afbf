//! Names of Kustomizations and sources, and the fields of a Kustomization's spec that decide what happens to objects.

use std::fmt;

use serde_json::{Map, Value};

use crate::kubernetes::object::{ObjectId, Resource};

/// Namespace and name of a Kustomization.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespacedName {
    pub namespace: String,
    pub name: String,
}

impl NamespacedName {
    pub fn of(id: &ObjectId) -> Self {
        Self { namespace: id.namespace.to_string(), name: id.name.to_string() }
    }
}

/// Kind, namespace and name of a source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId {
    /// `GitRepository`, `OCIRepository`, `Bucket`, …
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

impl SourceId {
    pub fn of(id: &ObjectId) -> Self {
        Self { kind: id.kind.to_string(), namespace: id.namespace.to_string(), name: id.name.to_string() }
    }

    /// Reads a reference. Without a kind it is `kind`, without a namespace that of the referring object, `namespace`.
    pub(crate) fn read(reference: &Value, kind: &str, namespace: &str) -> Self {
        let field = |key: &str, default: &str| entry_text(reference, key).unwrap_or(default).to_owned();
        Self { kind: field("kind", kind), namespace: field("namespace", namespace), name: field("name", "") }
    }

    /// Parses an identity of the form `KIND/NAMESPACE/NAME`.
    pub fn parse(text: &str) -> Option<Self> {
        let [kind, namespace, name] = text.split('/').collect::<Vec<_>>()[..] else { return None };
        Some(Self { kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

impl fmt::Display for SourceId {
    /// Writes the form that [`SourceId::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.kind, self.namespace, self.name)
    }
}

/// The spec of a Kustomization: the live one, or the one that a parent applies.
#[derive(Clone, Debug, PartialEq)]
pub struct KustomizationSpec {
    fields: Value,
    /// A field holds a value of a Secret, so that no message may show a part of the spec.
    holds_secrets: bool,
}

impl KustomizationSpec {
    /// Wraps `.spec`. Empty values and the API's defaults are dropped, so that specs of the same effect are equal.
    pub fn new(spec: &Value) -> Self {
        let mut fields = spec.as_object().cloned().unwrap_or_default();
        fields.retain(|key, value| {
            let is_false_by_default = matches!(key.as_str(), "force" | "suspend" | "wait" | "ignoreMissingComponents");
            !(value.is_null() || (is_false_by_default && *value == Value::Bool(false)))
        });
        Self { fields: Value::Object(fields), holds_secrets: false }
    }

    /// Marks the spec as one that holds a value of a Secret if the condition is true.
    #[must_use]
    pub(crate) fn with_secrets(self, holds_secrets: bool) -> Self {
        Self { holds_secrets: self.holds_secrets || holds_secrets, ..self }
    }

    /// Returns true if a field holds a value of a Secret.
    pub(crate) fn holds_secrets(&self) -> bool {
        self.holds_secrets
    }

    pub fn of(kustomization: &Resource) -> Self {
        Self::new(kustomization.spec())
    }

    /// Returns the spec as a JSON object.
    pub fn value(&self) -> &Value {
        &self.fields
    }

    fn text(&self, pointer: &str) -> Option<&str> {
        self.fields.pointer(pointer)?.as_str().filter(|text| !text.is_empty())
    }

    fn flag(&self, key: &str) -> bool {
        self.fields.get(key).and_then(Value::as_bool).unwrap_or_default()
    }

    pub fn is_suspended(&self) -> bool {
        self.flag("suspend")
    }

    pub fn prunes(&self) -> bool {
        self.flag("prune")
    }

    pub fn forces(&self) -> bool {
        self.flag("force")
    }

    /// Returns the JSON pointers of `spec.ignore` that the controller does not compare in an object.
    ///
    /// The fields of a target are regular expressions. One that is more than a word matches nothing here, so that its
    /// paths are compared. Source: docs/reference/kustomize-controller.md 4.3.
    pub fn ignored_paths(&self, id: &ObjectId, version: &str) -> Vec<String> {
        let rules = self.fields.get("ignore").and_then(Value::as_array).into_iter().flatten();
        let matching = rules.filter(|rule| match rule.get("target").and_then(Value::as_object) {
            Some(target) => is_target(target, id, version),
            None => true,
        });
        let paths = matching.filter_map(|rule| rule.get("paths")?.as_array()).flatten();
        paths.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// Returns `spec.path` as written.
    pub fn path(&self) -> &str {
        self.text("/path").unwrap_or_default()
    }

    /// Returns true if the objects are in another cluster.
    pub fn is_remote(&self) -> bool {
        self.fields.get("kubeConfig").is_some()
    }

    /// Returns `spec.serviceAccountName`, which the controller impersonates.
    pub fn service_account(&self) -> Option<&str> {
        self.text("/serviceAccountName")
    }

    /// Returns true if encrypted manifests are decrypted.
    pub fn decrypts(&self) -> bool {
        self.text("/decryption/provider").is_some()
    }

    /// Returns the source. A reference without a namespace means the Kustomization's own, `namespace`.
    pub fn source(&self, namespace: &str) -> SourceId {
        SourceId {
            kind: self.text("/sourceRef/kind").unwrap_or_default().to_owned(),
            namespace: self.text("/sourceRef/namespace").unwrap_or(namespace).to_owned(),
            name: self.text("/sourceRef/name").unwrap_or_default().to_owned(),
        }
    }

    /// Returns the Kustomizations that must be ready first; `namespace` is the Kustomization's own.
    pub fn depends_on(&self, namespace: &str) -> Vec<NamespacedName> {
        let entries = self.fields.get("dependsOn").and_then(Value::as_array).into_iter().flatten();
        let names = entries.map(|entry| NamespacedName {
            namespace: entry_text(entry, "namespace").unwrap_or(namespace).to_owned(),
            name: entry_text(entry, "name").unwrap_or_default().to_owned(),
        });
        names.collect()
    }

    /// Returns a label of `commonMetadata`; it is written after the owner labels and can overwrite them.
    pub fn common_label(&self, key: &str) -> Option<&str> {
        self.fields.get("commonMetadata")?.get("labels")?.get(key)?.as_str()
    }

    /// Returns a label or else an annotation of `commonMetadata`.
    pub fn common_label_or_annotation(&self, key: &str) -> Option<&str> {
        self.common_label(key).or_else(|| self.fields.get("commonMetadata")?.get("annotations")?.get(key)?.as_str())
    }

    /// Checks by the rules of docs/reference/kustomize-controller.md 6 that the finalizer of a Kustomization with this spec
    /// deletes the objects of its inventory.
    /// The error is the reason why the objects are left behind, as a predicate: `has prune: false`.
    pub fn finalizer_deletes(&self, honours_policy: bool) -> Result<(), String> {
        if self.is_suspended() {
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

    /// Returns the live spec after a parent applies `desired` (docs/reference/kustomize-controller.md 4.4): the fields of
    /// `desired`, and of the live spec only a suspension, if `foreign_suspend` says that a manager other than kubectl or
    /// the controller set it.
    #[must_use]
    pub fn after_apply(&self, desired: &Self, foreign_suspend: bool) -> Self {
        let mut fields: Map<String, Value> = desired.fields.as_object().cloned().unwrap_or_default();
        if let Some(suspend) = self.fields.get("suspend").filter(|_| foreign_suspend) {
            fields.entry("suspend").or_insert_with(|| suspend.clone());
        }
        Self { fields: Value::Object(fields), holds_secrets: desired.holds_secrets }
    }
}

fn is_target(target: &Map<String, Value>, id: &ObjectId, version: &str) -> bool {
    target.iter().all(|(key, wanted)| match key.as_str() {
        "group" => wanted == &*id.group,
        "version" => wanted == version,
        "kind" => wanted == &*id.kind,
        "name" => wanted == &*id.name,
        "namespace" => wanted == &*id.namespace,
        _ => false,
    })
}

fn entry_text<'a>(entry: &'a Value, key: &str) -> Option<&'a str> {
    entry.get(key)?.as_str().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_finalizer_follows_suspend_deletion_policy_and_prune() {
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
        assert!(live.after_apply(&desired, true).is_suspended());
        assert_eq!(live.after_apply(&desired, false), desired);
    }

    #[test]
    fn specs_that_act_alike_are_equal() {
        assert_eq!(
            KustomizationSpec::new(&json!({"path": "a", "force": false})),
            KustomizationSpec::new(&json!({"path": "a", "wait": null}))
        );
    }

    #[test]
    fn a_source_is_written_and_parsed_alike() {
        let id = SourceId::parse("GitRepository/flux-system/apps").unwrap();
        assert_eq!(id.to_string(), "GitRepository/flux-system/apps");
        assert_eq!(SourceId::parse("GitRepository/apps"), None);
    }

    #[test]
    fn ignore_rules_apply_to_the_objects_of_their_target() {
        let spec = KustomizationSpec::new(&json!({"ignore": [
            {"paths": ["/spec/a"]},
            {"target": {"kind": "Deployment", "version": "v1"}, "paths": ["/spec/b"]},
            {"target": {"kind": "Deploy.*"}, "paths": ["/spec/c"]},
            {"target": {"labelSelector": "x"}, "paths": ["/spec/d"]},
        ]}));
        let paths = |kind: &str| spec.ignored_paths(&ObjectId::new("apps", kind, "n", "a"), "v1");
        assert_eq!(paths("Deployment"), ["/spec/a", "/spec/b"]);
        assert_eq!(paths("StatefulSet"), ["/spec/a"]);
    }
}
