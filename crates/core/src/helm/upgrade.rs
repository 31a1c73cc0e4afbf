//! Objects that an upgrade of a Helm release deletes: those of the old manifest that the new one lacks.
//!
//! Source: Helm v4.2.2 `pkg/kube/client.go`, `update`; helm-controller v1.6.3 `internal/inventory`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::kubernetes::object::{ObjectId, ResourceType, text_at};
use crate::ownership::schemes::helm::{HOOK, HOOK_POLICY};
use crate::yaml;

/// Value of the hook policy, also the default, that deletes an old hook before the new one is created.
const BEFORE_CREATION: &str = "before-hook-creation";

/// The objects of a rendered chart, without those in `crds/`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rendered {
    /// Objects of the manifest that Helm records.
    pub objects: BTreeSet<ObjectId>,
    /// Manifests of these objects.
    manifests: BTreeMap<ObjectId, Value>,
    /// Hooks of an upgrade that delete an older object of the same identity.
    pub upgrade_hooks: BTreeSet<ObjectId>,
    /// An object that is rendered twice, hooks included. helm-controller then fails in its post-renderer.
    pub duplicate: Option<ObjectId>,
    /// API version, kind, namespace and name of everything that is rendered, as written.
    written: BTreeSet<[String; 4]>,
    /// True if a hook runs before the upgrade: if it fails, nothing is upgraded.
    pub has_hook_before: bool,
    /// Hooks that run after an upgrade, whatever their policy.
    pub hooks_after: BTreeSet<ObjectId>,
    /// Tests that delete an older object of the same identity.
    pub tests: BTreeSet<ObjectId>,
    /// The values hold those of Secrets, so that no identity is written.
    is_private: bool,
}

/// Effect of an upgrade on the live objects of a release.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Upgrade {
    /// Objects that the new manifest lacks.
    pub removed: BTreeSet<ObjectId>,
    /// Objects that an intermediate upgrade removes and the last one creates again.
    pub interrupted: BTreeSet<ObjectId>,
    /// Hooks that are deleted and created again.
    pub hooks: BTreeSet<ObjectId>,
    /// Hooks that only an intermediate upgrade deletes and creates again.
    pub interrupted_hooks: BTreeSet<ObjectId>,
    /// Messages of the server about deletions that it refuses.
    pub refused_deletions: BTreeMap<ObjectId, String>,
    /// Condition of the upgrade, for people; `None` if it is certain.
    pub condition: Option<String>,
    /// Helm creates a hook without waiting until the old one is gone.
    pub does_not_wait: bool,
    /// What follows if the upgrade fails after the deletions, for people; `None` if nothing does.
    pub remediation: Option<&'static str>,
    /// Assumption about the chart, for people; `None` if the chart is known.
    pub assumption: Option<String>,
}

impl Rendered {
    /// Reads the output of `helm template` for a release in a namespace of a cluster with these types. `cluster` is its name;
    /// `None` is the cluster that has the HelmRelease. `is_private` is true if the values hold those of Secrets.
    ///
    /// Fails with the parser's message if a document is no YAML.
    pub(crate) fn read(
        text: &str,
        namespace: &str,
        types: &[ResourceType],
        cluster: Option<&Arc<str>>,
        is_private: bool,
    ) -> Result<Self, String> {
        let mut rendered = Self { is_private, ..Self::default() };
        for document in yaml::split(text) {
            let value = yaml::document(&document).map_err(|error| error.to_string())?;
            rendered.add(&value, namespace, types, cluster);
        }
        Ok(rendered)
    }

    fn add(&mut self, manifest: &Value, namespace: &str, types: &[ResourceType], cluster: Option<&Arc<str>>) {
        if text_at(manifest, "/kind").ends_with("List")
            && let Some(Value::Array(items)) = manifest.get("items")
        {
            items.iter().for_each(|item| self.add(item, namespace, types, cluster));
            return;
        }
        let (kind, name) = (text_at(manifest, "/kind"), text_at(manifest, "/metadata/name"));
        if kind.is_empty() || name.is_empty() {
            return;
        }
        let (group, _) = text_at(manifest, "/apiVersion").split_once('/').unwrap_or_default();
        let written = text_at(manifest, "/metadata/namespace");
        let namespace = if written.is_empty() { namespace } else { written };
        let mut id = in_scope(ObjectId::new(group, kind, namespace, name).in_cluster(cluster), types);
        if self.is_private {
            let is_served = types.iter().any(|kind| kind.is(&id.group, &id.kind));
            id = id.hidden(is_served);
        }
        let key = [text_at(manifest, "/apiVersion"), kind, written, name].map(str::to_owned);
        if !self.written.insert(key) {
            self.duplicate = Some(id.clone());
        }
        let annotations = manifest.pointer("/metadata/annotations").unwrap_or(&Value::Null);
        let Some(events) = annotations.get(HOOK).and_then(Value::as_str) else {
            self.manifests.insert(id.clone(), manifest.clone());
            self.objects.insert(id);
            return;
        };
        self.has_hook_before |= has_any(events, &["pre-upgrade"]);
        if has_any(events, &["post-upgrade"]) {
            self.hooks_after.insert(id.clone());
        }
        let policy = annotations.get(HOOK_POLICY).and_then(Value::as_str).unwrap_or(BEFORE_CREATION);
        // Helm never deletes a definition that is a hook (`pkg/action/hooks.go`).
        if !has_any(policy, &[BEFORE_CREATION]) || kind == "CustomResourceDefinition" {
            return;
        }
        if has_any(events, &["test", "test-success"]) {
            self.tests.insert(id.clone());
        }
        if has_any(events, &["pre-upgrade", "post-upgrade"]) {
            self.upgrade_hooks.insert(id);
        }
    }

    /// Returns the manifests that an upgrade from `old` creates, or of which it changes more than labels and annotations. The
    /// API server can refuse one of them, and Helm then deletes nothing. `exists` tells if an object is live: Helm creates
    /// one that somebody deleted.
    pub(crate) fn changed_from(&self, old: &Self, exists: impl Fn(&ObjectId) -> bool) -> BTreeMap<ObjectId, Value> {
        let changed = self.manifests.iter().filter(|(id, manifest)| {
            let is_same = old.manifests.get(id).is_some_and(|old| unmarked(old) == unmarked(manifest));
            !(is_same && exists(id))
        });
        changed.map(|(id, manifest)| (id.clone(), manifest.clone())).collect()
    }

    /// Returns the hooks of an upgrade from `old` that are deleted and created again. An object that becomes a hook after the
    /// upgrade is deleted by the upgrade; one that becomes a hook before it is created before it is deleted, and so is none.
    pub(crate) fn recreated_hooks(&self, old: &Self) -> BTreeSet<ObjectId> {
        let hooks = self.upgrade_hooks.iter();
        let recreated = hooks.filter(|id| !old.objects.contains(id) || self.hooks_after.contains(id));
        let becoming = self.hooks_after.intersection(&old.objects);
        recreated.chain(becoming).cloned().collect()
    }

    /// Returns an object that only one of this manifest and the inventory of the release has; `None` if they agree. The
    /// inventory also has the definitions in `crds/`.
    pub(crate) fn difference_from(&self, inventory: &[ObjectId], types: &[ResourceType]) -> Option<ObjectId> {
        let recorded: BTreeSet<ObjectId> = inventory.iter().map(|id| in_scope(id.clone(), types)).collect();
        let mut unrendered = recorded.difference(&self.objects);
        let missing = self.objects.difference(&recorded).next();
        missing.or_else(|| unrendered.find(|id| !id.is("apiextensions.k8s.io", "CustomResourceDefinition"))).cloned()
    }
}

/// Returns true if a list that commas separate has one of these words.
fn has_any(list: &str, wanted: &[&str]) -> bool {
    list.split(',').any(|word| wanted.contains(&word.trim()))
}

/// Returns a manifest without its labels and annotations.
fn unmarked(manifest: &Value) -> Value {
    let mut content = manifest.clone();
    if let Some(metadata) = content.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|key, _| !["labels", "annotations"].contains(&key.as_str()));
    }
    content
}

/// Returns an identity without a namespace if its kind is cluster-scoped.
fn in_scope(id: ObjectId, types: &[ResourceType]) -> ObjectId {
    let kind = types.iter().find(|kind| kind.is(&id.group, &id.kind));
    if kind.is_some_and(|kind| !kind.namespaced) { ObjectId { namespace: "".into(), ..id } } else { id }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::resource_type;

    fn types() -> Vec<ResourceType> {
        vec![resource_type("", "ConfigMap", "configmaps", true), resource_type("", "Namespace", "namespaces", false)]
    }

    const TEXT: &str = "---\n# Source: app/templates/a.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n\
        apiVersion: v1\nkind: Namespace\nmetadata: {name: made}\n---\n# empty\n---\napiVersion: v1\nkind: List\nitems:\n\
        - {apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: made}}\n---\napiVersion: batch/v1\nkind: Job\n\
        metadata: {name: migrate, annotations: {helm.sh/hook: 'pre-install, pre-upgrade'}}\n---\napiVersion: v1\n\
        kind: Pod\nmetadata: {name: test, annotations: {helm.sh/hook: test}}\n---\napiVersion: v1\nkind: ConfigMap\n\
        metadata: {name: late, annotations: {helm.sh/hook: post-upgrade, helm.sh/hook-delete-policy: hook-failed}}\n";

    #[test]
    fn objects_and_hooks_get_the_namespace_of_the_release() {
        let rendered = Rendered::read(TEXT, "shop", &types(), None, false).unwrap();
        let names: Vec<String> = rendered.objects.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["configmap/b -n made", "configmap/a -n shop", "namespace/made"]);
        let hooks: Vec<String> = rendered.upgrade_hooks.iter().map(ToString::to_string).collect();
        assert_eq!(hooks, ["job.batch/migrate -n shop"]);
        assert_eq!(rendered.tests.iter().map(ToString::to_string).collect::<Vec<_>>(), ["pod/test -n shop"]);
        assert!(Rendered::read("a: [", "shop", &types(), None, false).is_err());
    }

    #[test]
    fn an_object_that_becomes_a_hook_is_created_after_the_upgrade_or_deleted_by_it() {
        let read = |text: &str| Rendered::read(text, "shop", &types(), None, false).unwrap();
        let old = read("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n");
        let hooks = |annotations: &str| {
            let text =
                format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a, annotations: {{{annotations}}}}}\n");
            read(&text).recreated_hooks(&old).len()
        };
        assert_eq!(hooks("helm.sh/hook: post-upgrade"), 1);
        assert_eq!(hooks("helm.sh/hook: post-upgrade, helm.sh/hook-delete-policy: hook-failed"), 1);
        assert_eq!(hooks("helm.sh/hook: pre-upgrade"), 0);
        assert_eq!(hooks("helm.sh/hook: post-install"), 0);
    }

    #[test]
    fn an_object_that_is_rendered_twice_is_named() {
        let hook = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {helm.sh/hook: post-upgrade}}\n";
        let twice =
            |more: &str| Rendered::read(&format!("{hook}---\n{more}"), "shop", &types(), None, false).unwrap().duplicate;
        let named = |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
        assert_eq!(twice(&named("a")).map(|id| id.to_string()).as_deref(), Some("configmap/a -n shop"));
        assert_eq!(twice(&named("b")), None);
    }

    #[test]
    fn what_an_upgrade_creates_or_changes_can_be_refused() {
        let read = |text: &str| Rendered::read(text, "shop", &types(), None, false).unwrap();
        let old = read("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {chart: '1'}}\ndata: {k: v}\n");
        let changed = |new: &Rendered, exists: bool| -> Vec<String> {
            new.changed_from(&old, |_| exists).keys().map(ToString::to_string).collect()
        };
        assert!(changed(&read(""), true).is_empty());
        let relabelled = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {chart: '2'}}\ndata: {k: v}\n";
        assert!(changed(&read(relabelled), true).is_empty());
        assert_eq!(changed(&read(relabelled), false), ["configmap/a -n shop"], "it is created again");
        assert_eq!(changed(&read(&relabelled.replace("k: v", "k: w")), true), ["configmap/a -n shop"]);
        assert_eq!(changed(&read(TEXT), true).len(), 3);
    }

    #[test]
    fn a_manifest_that_differs_from_the_inventory_is_named() {
        let rendered = Rendered::read(TEXT, "shop", &types(), None, false).unwrap();
        let mut inventory: Vec<ObjectId> = rendered.objects.iter().cloned().collect();
        let definition = ObjectId::new("apiextensions.k8s.io", "CustomResourceDefinition", "", "cogs.example.com");
        inventory.push(definition);
        assert_eq!(rendered.difference_from(&inventory, &types()), None);
        let more = ObjectId::new("", "ConfigMap", "shop", "more");
        let longer = [inventory.clone(), vec![more.clone()]].concat();
        assert_eq!(rendered.difference_from(&longer, &types()), Some(more));
        assert!(rendered.difference_from(&inventory[1..], &types()).is_some());
    }

    #[test]
    fn an_identity_that_derives_from_a_secret_is_not_written() {
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: d-hunter2}\n---\n\
            apiVersion: hunter2.io/v1\nkind: Hunter2\nmetadata: {name: a}\n";
        let read = |is_private| Rendered::read(text, "hunter2", &types(), None, is_private).unwrap();
        let private = read(true);
        assert!(!format!("{:?} {:?}", private.objects, private.duplicate).to_lowercase().contains("hunter2"));
        assert_eq!(private.objects, read(false).objects, "they are compared as they are");
    }
}
