//! Names of Kustomizations and sources, and the fields of a Kustomization's spec that decide what happens to objects.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::kinds::{EXTERNAL_ARTIFACT, SOURCE_GROUP};
use crate::kubernetes::object::{ObjectId, Resource, group_of, list_at, text_at, value_at};

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

    /// Returns the user that a service account of this name is.
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }

    /// Returns the groups of the user that a service account of this name is.
    pub fn groups(&self) -> [String; 3] {
        let own = format!("system:serviceaccounts:{}", self.namespace);
        ["system:serviceaccounts".to_owned(), own, "system:authenticated".to_owned()]
    }
}

/// Returns the name of the service account that the spec of an owner names.
pub(crate) fn named_account(spec: &Value) -> Option<&str> {
    Some(text_at(spec, "/serviceAccountName")).filter(|account| !account.is_empty())
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
        let [kind, namespace, name] = [("kind", kind), ("namespace", namespace), ("name", "")]
            .map(|(key, default)| entry_text(reference, key).unwrap_or(default).to_owned());
        Self { kind, namespace, name }
    }

    /// Reads the source in the spec of a HelmChart or of the chart of a HelmRelease, which is in `namespace`.
    pub(crate) fn of_chart(chart: &Value, namespace: &str) -> Self {
        Self::read(&chart["sourceRef"], "HelmRepository", namespace)
    }

    /// Reads the source of the chart in the spec of a HelmRelease, which is in `namespace`.
    pub(crate) fn of_release(spec: &Value, namespace: &str) -> Option<Self> {
        match spec.pointer("/chart/spec") {
            Some(chart) => Some(Self::of_chart(chart, namespace)),
            None => Some(Self::read(spec.get("chartRef")?, "", namespace)),
        }
    }

    /// Returns the identity of an ExternalArtifact.
    pub(crate) fn external_artifact(namespace: &str, name: &str) -> Self {
        Self { kind: EXTERNAL_ARTIFACT.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// Returns the source as an object.
    pub(crate) fn object(&self) -> ObjectId {
        ObjectId::new(SOURCE_GROUP, &self.kind, &self.namespace, &self.name)
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

/// An entry of `spec.dependsOn`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    pub key: NamespacedName,
    /// Expression that decides if the dependency is ready, in place of its status.
    pub ready_expr: Option<String>,
}

/// The spec of a Kustomization: the live one, or the one that a parent applies.
#[derive(Clone, Debug)]
pub struct KustomizationSpec {
    fields: Arc<Value>,
    /// Fields that are written with the value that they have by default. They change nothing but the owner of the field.
    written_defaults: Map<String, Value>,
    /// A field holds a value of a Secret, so that no message may show a part of the spec.
    holds_secrets: bool,
}

impl PartialEq for KustomizationSpec {
    /// Compares the effect of two specs.
    fn eq(&self, other: &Self) -> bool {
        (&self.fields, self.holds_secrets) == (&other.fields, other.holds_secrets)
    }
}

impl KustomizationSpec {
    /// Wraps `.spec`. Empty values and the API's defaults are dropped, so that specs of the same effect are equal.
    pub fn new(spec: &Value) -> Self {
        let mut fields = spec.as_object().cloned().unwrap_or_default();
        fields.retain(|_, value| !value.is_null());
        let sources = fields.get_mut("postBuild").and_then(|build| build.get_mut("substituteFrom"));
        for source in sources.and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut) {
            source.retain(|key, value| key != "optional" || *value != Value::Bool(false));
        }
        let mut written_defaults = Map::new();
        for key in ["force", "suspend", "wait", "ignoreMissingComponents"] {
            if fields.get(key) == Some(&Value::Bool(false)) {
                written_defaults.extend(fields.remove_entry(key));
            }
        }
        Self { fields: Value::Object(fields).into(), written_defaults, holds_secrets: false }
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

    /// Returns the spec as a JSON object, without fields that have their default value.
    pub fn value(&self) -> &Value {
        &self.fields
    }

    /// Returns the spec as it is written.
    pub(crate) fn as_written(&self) -> Value {
        let mut fields = self.fields.as_object().cloned().unwrap_or_default();
        fields.extend(self.written_defaults.clone());
        Value::Object(fields)
    }

    fn text(&self, pointer: &str) -> Option<&str> {
        value_at(&self.fields, pointer)?.as_str().filter(|text| !text.is_empty())
    }

    fn flag(&self, key: &str) -> bool {
        self.fields.get(key).and_then(Value::as_bool).unwrap_or_default()
    }

    pub(crate) fn is_suspended(&self) -> bool {
        self.flag("suspend")
    }

    pub fn prunes(&self) -> bool {
        self.flag("prune")
    }

    pub fn forces(&self) -> bool {
        self.flag("force")
    }

    /// Returns `spec.path` as written.
    pub fn path(&self) -> &str {
        self.text("/path").unwrap_or_default()
    }

    /// Returns true if the objects are in another cluster.
    pub(crate) fn is_remote(&self) -> bool {
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
    pub(crate) fn depends_on(&self, namespace: &str) -> Vec<NamespacedName> {
        self.dependencies(namespace).map(|dependency| dependency.key).collect()
    }

    /// Returns the fields on which the answer of the API server to an apply depends, besides the manifest.
    pub(crate) fn apply_fields(&self) -> [Option<&Value>; 5] {
        ["force", "ignore", "commonMetadata", "serviceAccountName", "kubeConfig"].map(|field| self.fields.get(field))
    }

    /// Returns the entries of `spec.dependsOn`; `namespace` is the Kustomization's own.
    pub fn dependencies(&self, namespace: &str) -> impl Iterator<Item = Dependency> {
        let entries = list_at(&self.fields, "/dependsOn").iter();
        entries.map(move |entry| Dependency {
            key: NamespacedName {
                namespace: entry_text(entry, "namespace").unwrap_or(namespace).to_owned(),
                name: entry_text(entry, "name").unwrap_or_default().to_owned(),
            },
            ready_expr: entry_text(entry, "readyExpr").map(str::to_owned),
        })
    }

    /// Returns the Kustomizations that must be ready and, with the same source, have applied the new revision.
    pub(crate) fn waits_for(&self, namespace: &str, additive_ready_expr: bool) -> Vec<NamespacedName> {
        let entries = self.dependencies(namespace);
        let waiting = entries.filter(|entry| additive_ready_expr || entry.ready_expr.is_none());
        waiting.map(|entry| entry.key).collect()
    }

    /// Returns the objects of `spec.healthChecks`; none with `spec.wait`, which replaces them. One without an `apiVersion` is of
    /// `apps/v1` (kustomize-controller v1.9.5 inventory.go: `ReferenceToObjMetadataSet`).
    pub(crate) fn health_checks(&self) -> Vec<ObjectId> {
        let checks = self.fields.get("healthChecks").and_then(Value::as_array).filter(|_| !self.flag("wait"));
        let ids = checks.into_iter().flatten().map(|check| {
            let [kind, namespace, name] =
                ["kind", "namespace", "name"].map(|key| entry_text(check, key).unwrap_or_default());
            let version = entry_text(check, "apiVersion").unwrap_or("apps/v1");
            ObjectId::new(group_of(version), kind, namespace, name)
        });
        ids.collect()
    }

    /// Returns true if the controller waits until objects are healthy.
    pub(crate) fn checks_health(&self) -> bool {
        self.flag("wait") || !self.health_checks().is_empty()
    }

    /// Returns the Secret with the keys for decryption, by its name in the Kustomization's namespace.
    pub(crate) fn keys_secret(&self) -> Option<&str> {
        self.text("/decryption/secretRef/name").filter(|_| self.decrypts())
    }

    /// Returns the service account with which the controller asks for the keys for decryption.
    pub(crate) fn decryption_account(&self) -> Option<&str> {
        self.text("/decryption/serviceAccountName")
    }

    /// Returns a label of `commonMetadata`; it is written after the owner labels and can overwrite them.
    pub(crate) fn common_label(&self, key: &str) -> Option<&str> {
        self.common_metadata("labels", key)
    }

    /// Returns a value of `labels` or `annotations` of `commonMetadata`, which overwrites that of the manifest.
    pub(crate) fn common_metadata(&self, field: &str, key: &str) -> Option<&str> {
        self.fields.get("commonMetadata")?.get(field)?.get(key)?.as_str()
    }

    /// Checks by the rules of docs/reference/kustomize-controller.md 6 that the finalizer of a Kustomization with this spec
    /// deletes the objects of its inventory.
    /// The error is the reason why the objects are left behind, as a predicate: `has prune: false`.
    pub(crate) fn finalizer_deletes(&self, honours_policy: bool) -> Result<(), String> {
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
    fn specs_that_act_alike_are_equal() {
        assert_eq!(
            KustomizationSpec::new(&json!({"path": "a", "force": false})),
            KustomizationSpec::new(&json!({"path": "a", "wait": null}))
        );
        let from = |source: Value| KustomizationSpec::new(&json!({"postBuild": {"substituteFrom": [source]}}));
        let written = from(json!({"kind": "ConfigMap", "name": "vars"}));
        assert_eq!(written, from(json!({"kind": "ConfigMap", "name": "vars", "optional": false})), "a live spec");
        assert_ne!(written, from(json!({"kind": "ConfigMap", "name": "vars", "optional": true})));
        let written = json!({"path": "a", "suspend": false});
        assert_eq!(KustomizationSpec::new(&written).as_written(), written);
    }

    #[test]
    fn a_source_is_written_and_parsed_alike() {
        let id = SourceId::parse("GitRepository/flux-system/apps").unwrap();
        assert_eq!(id.to_string(), "GitRepository/flux-system/apps");
        assert_eq!(SourceId::parse("GitRepository/apps"), None);
    }
}
