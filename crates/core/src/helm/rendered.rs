//! Objects and hooks of a rendered chart.
//!
//! Source: Helm v4.2.2 `pkg/kube/client.go`, `update`, and `pkg/action/upgrade.go`; helm-controller v1.6.3
//! `internal/inventory` and `internal/postrender`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::hooks::{Hook, HookEvent, HookFate};
use crate::kubernetes::object::{GroupKind, ObjectId, ObjectMetadata, ResourceType, group_of, text_at};
use crate::ownership::schemes::helm::HOOK;
use crate::yaml;

/// Annotation that keeps an object of a chart.
pub(crate) const POLICY: &str = "helm.sh/resource-policy";
/// Its only value that an upgrade and a rollback respect.
const KEEP: &str = "keep";

/// Output of Helm for a chart, before post-renderers.
#[derive(Debug, Default)]
pub(crate) struct ChartManifests {
    /// Definitions in the folders `crds/` of the chart and of those of its dependencies that are on.
    pub(crate) definitions: Vec<Value>,
    /// Everything else in these folders: helm-controller reads it and ignores it.
    pub(crate) beside_definitions: Vec<Value>,
    /// Objects and hooks that its templates render.
    pub(crate) manifests: Vec<Value>,
    /// A key that a mapping of one of them has twice.
    pub(crate) repeated_key: Option<String>,
}

impl ChartManifests {
    /// Reads the output of `helm template --include-crds`.
    ///
    /// Fails with the parser's message if a document is no YAML.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let (mut read, mut is_in_crds) = (Self::default(), false);
        for document in yaml::split(text) {
            // Helm names the file once for all documents of a file in `crds/`.
            if let Some(source) = document.lines().next().and_then(|line| line.strip_prefix("# Source: ")) {
                is_in_crds = is_crds_file(source);
            }
            let value = yaml::document(&document).map_err(|error| error.to_string())?;
            match &value {
                Value::Null => {}
                _ if is_in_crds && text_at(&value, "/kind") != "CustomResourceDefinition" => {
                    read.beside_definitions.push(value);
                }
                _ if is_in_crds => read.definitions.push(value),
                _ => {
                    read.repeated_key = read.repeated_key.take().or_else(|| yaml::repeated_key(&document));
                    read.manifests.push(value);
                }
            }
        }
        Ok(read)
    }
}

/// Returns true for a file in the folder `crds/` of a chart or of a dependency, such as `app/charts/db/crds/a.yaml`.
fn is_crds_file(source: &str) -> bool {
    let mut folders = source.split('/').skip(1);
    loop {
        match folders.next() {
            Some("charts") => _ = folders.next(),
            found => return found == Some("crds"),
        }
    }
}

/// The objects of a rendered chart, without those in `crds/`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rendered {
    /// Objects of the manifest that Helm records.
    pub(crate) objects: BTreeSet<ObjectId>,
    /// Manifests of these objects.
    manifests: BTreeMap<ObjectId, Value>,
    /// Hooks of all events.
    pub(crate) hooks: BTreeMap<ObjectId, Hook>,
    /// Definitions in `crds/`, which helm-controller applies first.
    pub(crate) definitions: Vec<Value>,
    /// Everything else in `crds/`.
    pub(crate) beside_definitions: Vec<Value>,
    /// Reason why Helm cannot use the manifest, whatever is in the cluster, for people.
    pub(crate) failure: Option<String>,
    /// A hook has a `generateName` only. No post-renderer takes it, and Helm creates it only without server-side apply.
    pub(crate) has_unnamed_hook: bool,
    /// API version, kind, namespace and name of everything that is rendered, as written.
    written: BTreeSet<[String; 4]>,
    /// A template looked something up in the cluster.
    pub(crate) depends_on_cluster: bool,
    /// The chart was given values of Secrets, so that no identity is written.
    pub(crate) is_private: bool,
}

fn policy_of(manifest: &Value) -> Option<&Value> {
    manifest.pointer("/metadata/annotations")?.get(POLICY)
}

/// Returns true if an uninstall keeps an object with this manifest: whatever the value of its policy is.
pub(crate) fn has_policy(manifest: &Value) -> bool {
    policy_of(manifest).is_some()
}

/// Returns true if an upgrade and a rollback keep a live object that they would delete.
pub(crate) fn is_kept_live(live: &ObjectMetadata) -> bool {
    live.annotations.get(POLICY) == Some(KEEP)
}

impl Rendered {
    /// Reads the manifests of a release in a namespace of a cluster with these types. `cluster` is its name; `None` is the
    /// cluster that has the HelmRelease. `is_private` is true if the chart was given values of Secrets.
    pub(crate) fn new(
        manifests: &[Value],
        namespace: &str,
        types: &[ResourceType],
        cluster: Option<&Arc<str>>,
        is_private: bool,
    ) -> Self {
        let mut rendered = Self { is_private, ..Self::default() };
        manifests.iter().for_each(|manifest| rendered.add(manifest, namespace, types, cluster));
        rendered
    }

    /// Returns a manifest of which nothing but the objects is known.
    pub(crate) fn of_objects(objects: BTreeSet<ObjectId>) -> Self {
        Self { objects, ..Self::default() }
    }

    #[cfg(test)]
    pub(crate) fn read(
        text: &str,
        namespace: &str,
        types: &[ResourceType],
        cluster: Option<&Arc<str>>,
        is_private: bool,
    ) -> Result<Self, String> {
        let read = ChartManifests::read(text)?;
        let rendered = Self::new(&read.manifests, namespace, types, cluster, is_private);
        Ok(Self { definitions: read.definitions, ..rendered })
    }

    fn add(&mut self, manifest: &Value, namespace: &str, types: &[ResourceType], cluster: Option<&Arc<str>>) {
        if text_at(manifest, "/kind").ends_with("List")
            && let Some(Value::Array(items)) = manifest.get("items")
        {
            items.iter().for_each(|item| self.add(item, namespace, types, cluster));
            return;
        }
        let (kind, name) = (text_at(manifest, "/kind"), text_at(manifest, "/metadata/name"));
        let annotations = manifest.pointer("/metadata/annotations").unwrap_or(&Value::Null);
        let generates_name = !text_at(manifest, "/metadata/generateName").is_empty();
        if kind.is_empty() || name.is_empty() {
            let is_object = manifest.as_object().is_some_and(|fields| !fields.is_empty());
            if generates_name && annotations.get(HOOK).is_some() {
                self.has_unnamed_hook = true;
            } else if is_object {
                let what = if kind.is_empty() { "kind" } else { "name" };
                self.failure.get_or_insert_with(|| format!("the chart renders a manifest without a {what}"));
            }
            return;
        }
        if let Some(what) = odd_metadata(&manifest["metadata"]) {
            self.failure.get_or_insert_with(|| format!("the chart renders a manifest whose metadata.{what}"));
        }
        let group = group_of(text_at(manifest, "/apiVersion"));
        let written = text_at(manifest, "/metadata/namespace");
        let namespace = if written.is_empty() { namespace } else { written };
        let mut id = in_scope(ObjectId::new(group, kind, namespace, name).in_cluster(cluster), types);
        if self.is_private {
            let is_served = types.iter().any(|kind| kind.is(&id.group, &id.kind));
            id = id.hidden(is_served);
        }
        let key = [text_at(manifest, "/apiVersion"), kind, written, name].map(str::to_owned);
        // helm-controller then fails in its post-renderer.
        if !self.written.insert(key) {
            self.failure = Some(format!("the chart renders {id} twice"));
        }
        if !annotations.get(HOOK).is_some_and(Value::is_string) {
            if generates_name {
                self.failure.get_or_insert_with(|| format!("the chart renders {id} with a name and a generateName"));
            }
            self.manifests.insert(id.clone(), manifest.clone());
            self.objects.insert(id);
            return;
        }
        let hook = Hook::new(kind, |key| annotations.get(key).and_then(Value::as_str), manifest.clone());
        self.hooks.extend(hook.map(|hook| (id, hook)));
    }

    /// Returns the manifests of the objects that Helm records.
    pub(crate) fn manifests(&self) -> &BTreeMap<ObjectId, Value> {
        &self.manifests
    }

    /// Returns true if an uninstall keeps an object of this manifest.
    pub(crate) fn is_kept(&self, id: &ObjectId) -> bool {
        self.manifests.get(id).is_some_and(has_policy)
    }

    /// Returns true if an upgrade or a rollback keeps an object that has been applied from this manifest.
    pub(crate) fn is_kept_once_applied(&self, id: &ObjectId) -> bool {
        self.manifests.get(id).and_then(policy_of).is_some_and(|policy| policy == KEEP)
    }

    /// Returns an object that this manifest and another one treat differently: only one of them has it, runs it as such a
    /// hook, or keeps it when the release is uninstalled.
    pub(crate) fn used_otherwise<'r>(&'r self, other: &'r Self) -> Option<&'r ObjectId> {
        let uses = |rendered: &'r Self, id: &ObjectId| {
            let hook = rendered.hooks.get(id).map(Hook::settings);
            (rendered.objects.contains(id), rendered.is_kept(id), hook)
        };
        let ids = |rendered: &'r Self| rendered.objects.iter().chain(rendered.hooks.keys());
        ids(self).chain(ids(other)).find(|id| uses(self, id) != uses(other, id))
    }

    /// Returns the objects that none of some other manifests has, and that a later one therefore deletes.
    pub(crate) fn passing(&self, others: &[&Self]) -> BTreeSet<ObjectId> {
        let own = self.objects.iter().filter(|id| !others.iter().any(|other| other.objects.contains(*id)));
        own.filter(|id| !self.is_kept(id)).cloned().collect()
    }

    /// Returns the kinds of the objects in the manifest.
    pub(crate) fn kinds(&self) -> BTreeSet<GroupKind> {
        self.objects.iter().map(ObjectId::group_kind).collect()
    }

    /// Returns true if an upgrade from `old` does not change the manifest of an object.
    pub(crate) fn has_same(&self, old: &Self, id: &ObjectId) -> bool {
        self.manifests.contains_key(id) && self.manifests.get(id) == old.manifests.get(id)
    }

    /// Returns the hooks that these events run.
    pub(crate) fn hooks_at<const N: usize>(&self, events: [HookEvent; N]) -> impl Iterator<Item = (&ObjectId, &Hook)> {
        self.hooks.iter().filter(move |(_, hook)| hook.runs_at(&events))
    }

    /// Returns what becomes of the objects with the identities of hooks that run before and after an action. `old` is the
    /// manifest that the action replaces. It deletes an object that becomes a hook: one that runs before the action is
    /// created before it is deleted, and so is none. An object that this manifest has too, which is possible if hooks are
    /// post-rendered apart from it, is there again after the action.
    pub(crate) fn hook_fates(
        &self,
        old: Option<&Self>,
        [before, after]: [HookEvent; 2],
    ) -> BTreeMap<ObjectId, HookFate> {
        let mut fates = BTreeMap::new();
        for (id, hook) in self.hooks_at([before, after]) {
            let (stays, runs_last) = (self.objects.contains(id), hook.runs_at(&[after]));
            let becomes_hook = !stays && old.is_some_and(|old| old.objects.contains(id));
            let fate = match hook.fate() {
                HookFate::Deleted if stays && !runs_last => HookFate::Recreated,
                _ if becomes_hook && !runs_last => continue,
                HookFate::Deleted => HookFate::Deleted,
                _ if becomes_hook => HookFate::Recreated,
                fate => fate,
            };
            fates.insert(id.clone(), fate);
        }
        fates
    }

    /// Returns true for an object that a file in `crds/` has beside definitions, and no template. helm-controller adds it to the
    /// inventory, and never applies it.
    ///
    /// Source: helm-controller v1.6.3 `internal/inventory/inventory.go`, `AddCRDs`, and `internal/action/crds.go`.
    fn is_beside_definitions(&self, id: &ObjectId) -> bool {
        !self.objects.contains(id)
            && self.beside_definitions.iter().any(|manifest| {
                let [version, kind, namespace, name] =
                    ["/apiVersion", "/kind", "/metadata/namespace", "/metadata/name"]
                        .map(|field| text_at(manifest, field));
                id.is(group_of(version), kind) && (&*id.namespace, &*id.name) == (namespace, name)
            })
    }

    /// Returns the manifest with the objects in the inventory of the release. The inventory also has everything in `crds/`:
    /// definitions count only if they are rendered, and the rest never does.
    pub(crate) fn with_recorded(self, inventory: &[ObjectId], types: &[ResourceType]) -> Self {
        let recorded = inventory.iter().map(|id| in_scope(id.clone(), types));
        let is_counted =
            |id: &ObjectId| self.objects.contains(id) || !(id.is_definition() || self.is_beside_definitions(id));
        let objects = recorded.filter(is_counted).collect();
        Self { objects, ..self }
    }

    /// Returns an object that only one of this manifest and the inventory of the release has; `None` if they agree. The
    /// inventory also has everything in `crds/`.
    pub(crate) fn difference_from(&self, inventory: &[ObjectId], types: &[ResourceType]) -> Option<ObjectId> {
        let recorded: BTreeSet<ObjectId> = inventory.iter().map(|id| in_scope(id.clone(), types)).collect();
        let unrendered = recorded.difference(&self.objects);
        let missing = self.objects.difference(&recorded).next();
        let mut others = unrendered.filter(|id| !id.is_definition() && !self.is_beside_definitions(id));
        missing.or_else(|| others.next()).cloned()
    }
}

/// Returns the field of a metadata that has no value of its type, and what it is not.
fn odd_metadata(metadata: &Value) -> Option<&'static str> {
    if metadata.get("namespace").is_some_and(|namespace| !namespace.is_null() && !namespace.is_string()) {
        return Some("namespace is no text");
    }
    let mut maps = [("labels", "labels are no map"), ("annotations", "annotations are no map")].into_iter();
    let odd = maps.find(|(field, _)| metadata.get(field).is_some_and(|value| !value.is_null() && !value.is_object()));
    odd.map(|(_, what)| what)
}

/// Returns an identity without a namespace if its kind is cluster-scoped.
pub(crate) fn in_scope(id: ObjectId, types: &[ResourceType]) -> ObjectId {
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
        let hooks =
            |event: HookEvent| -> Vec<String> { rendered.hooks_at([event]).map(|(id, _)| id.to_string()).collect() };
        assert_eq!(hooks(HookEvent::PreUpgrade), ["job.batch/migrate -n shop"]);
        assert_eq!(hooks(HookEvent::PostUpgrade), ["configmap/late -n shop"]);
        assert_eq!(hooks(HookEvent::Test), ["pod/test -n shop"]);
        assert!(Rendered::read("a: [", "shop", &types(), None, false).is_err());
    }

    #[test]
    fn definitions_in_crds_are_no_objects_of_the_release() {
        let text = "---\n# Source: app/crds/a.yaml\nkind: CustomResourceDefinition\nmetadata: {name: a}\n---\n\
            # more\nkind: CustomResourceDefinition\nmetadata: {name: b}\n---\n# Source: app/charts/db/crds/c.yaml\n\
            kind: Other\n---\n# Source: app/templates/crds/d.yaml\nkind: CustomResourceDefinition\nmetadata: {name: d}\n";
        let read = ChartManifests::read(text).unwrap();
        let names = |found: &[Value]| found.iter().map(|one| text_at(one, "/metadata/name").to_owned()).collect();
        let found: [Vec<String>; 2] = [names(&read.definitions), names(&read.manifests)];
        assert_eq!(found, [vec!["a", "b"], vec!["d"]]);
    }

    #[test]
    fn an_object_that_becomes_a_hook_is_created_after_the_upgrade_or_deleted_by_it() {
        let read = |text: &str| Rendered::read(text, "shop", &types(), None, false).unwrap();
        let old = read("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n");
        let fate = |annotations: &str| {
            let text =
                format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a, annotations: {{{annotations}}}}}\n");
            let fates = read(&text).hook_fates(Some(&old), [HookEvent::PreUpgrade, HookEvent::PostUpgrade]);
            fates.into_values().next()
        };
        assert_eq!(fate("helm.sh/hook: post-upgrade"), Some(HookFate::Recreated));
        let failed = "helm.sh/hook: post-upgrade, helm.sh/hook-delete-policy: hook-failed";
        assert_eq!(fate(failed), Some(HookFate::Recreated));
        let succeeded = "helm.sh/hook: post-upgrade, helm.sh/hook-delete-policy: hook-succeeded";
        assert_eq!(fate(succeeded), Some(HookFate::Deleted));
        assert_eq!(fate("helm.sh/hook: pre-upgrade"), None);
        assert_eq!(fate("helm.sh/hook: post-install"), None);
    }

    #[test]
    fn an_object_that_is_rendered_twice_is_named() {
        let hook = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {helm.sh/hook: post-upgrade}}\n";
        let twice =
            |more: &str| Rendered::read(&format!("{hook}---\n{more}"), "shop", &types(), None, false).unwrap().failure;
        let named = |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
        assert_eq!(twice(&named("a")).as_deref(), Some("the chart renders configmap/a -n shop twice"));
        assert_eq!(twice(&named("b")), None);
    }

    #[test]
    fn a_key_that_is_there_twice_is_found_outside_of_crds_only() {
        let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {app: x, app: x}}\n";
        let read = |source: &str| {
            let text = format!("---\n# Source: {source}\n{map}");
            ChartManifests::read(&text).unwrap().repeated_key
        };
        assert_eq!(read("app/templates/a.yaml").as_deref(), Some("app"));
        assert_eq!(read("app/crds/a.yaml"), None);
    }

    #[test]
    fn a_manifest_without_a_name_or_a_kind_is_named() {
        let failure = |text: &str| Rendered::read(text, "shop", &types(), None, false).unwrap().failure;
        assert_eq!(failure("# nothing\n---\n{}\n"), None);
        assert_eq!(
            failure("apiVersion: v1\nkind: ConfigMap\nmetadata: {labels: {a: b}}\n").as_deref(),
            Some("the chart renders a manifest without a name")
        );
        assert_eq!(failure("metadata: {name: a}\n").as_deref(), Some("the chart renders a manifest without a kind"));
        let pod = |metadata: &str| failure(&format!("apiVersion: v1\nkind: Pod\nmetadata: {metadata}\n")).unwrap();
        assert_eq!(pod("{generateName: a-}"), "the chart renders a manifest without a name");
        assert_eq!(
            pod("{generateName: a-, name: a}"),
            "the chart renders pod/a -n shop with a name and a generateName"
        );
        assert_eq!(pod("{name: a, namespace: 1}"), "the chart renders a manifest whose metadata.namespace is no text");
        assert_eq!(pod("{name: a, labels: [b]}"), "the chart renders a manifest whose metadata.labels are no map");
    }

    #[test]
    fn labels_are_part_of_a_manifest() {
        let read = |text: &str| Rendered::read(text, "shop", &types(), None, false).unwrap();
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {chart: '1'}}\ndata: {k: v}\n";
        let (old, id) = (read(text), ObjectId::new("", "ConfigMap", "shop", "a"));
        assert!(read(text).has_same(&old, &id));
        assert!(!read(&text.replace("'1'", "'2'")).has_same(&old, &id));
        assert!(!read("").has_same(&old, &id));
        let kept = text.replace("labels", "annotations: {helm.sh/resource-policy: delete}, labels");
        assert!(read(&kept).is_kept(&id) && !old.is_kept(&id));
        assert!(!read(&kept).is_kept_once_applied(&id) && !old.is_kept_once_applied(&id));
        assert!(read(&kept.replace("delete", "keep")).is_kept_once_applied(&id));
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
        assert_eq!(rendered.difference_from(&longer, &types()), Some(more.clone()));
        let manifest = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "more", "namespace": "shop"}});
        let beside = Rendered { beside_definitions: vec![manifest], ..rendered.clone() };
        assert_eq!(beside.difference_from(&longer, &types()), None, "it is in crds/");
        assert!(!beside.with_recorded(&longer, &types()).objects.contains(&more));
        assert!(rendered.difference_from(&inventory[1..], &types()).is_some());
    }

    #[test]
    fn an_identity_that_derives_from_a_secret_is_not_written() {
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: d-hunter2}\n---\n\
            apiVersion: v1\nkind: ConfigMap\nmetadata: {name: d-hunter2}\n---\n\
            apiVersion: hunter2.io/v1\nkind: Hunter2\nmetadata: {name: a}\n";
        let read = |is_private| Rendered::read(text, "hunter2", &types(), None, is_private).unwrap();
        let private = read(true);
        assert!(!format!("{:?} {:?}", private.objects, private.failure).to_lowercase().contains("hunter2"));
        assert_eq!(private.objects, read(false).objects, "they are compared as they are");
    }

    #[test]
    fn a_hook_beside_an_object_of_its_name_leaves_the_object() {
        let fate = |event: &str, policy: &str, has_object: bool| {
            let hook = format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a, annotations: {{helm.sh/hook: {event}, \
                 helm.sh/hook-delete-policy: {policy}}}}}\n"
            );
            let object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
            let read = |text: &str| Rendered::read(text, "shop", &types(), None, false).unwrap();
            let new = if has_object { read(&format!("{object}---\n{hook}")) } else { read(&hook) };
            let fates = new.hook_fates(Some(&read(object)), [HookEvent::PreUpgrade, HookEvent::PostUpgrade]);
            fates.into_values().next()
        };
        assert_eq!(fate("pre-upgrade", "before-hook-creation", true), Some(HookFate::Recreated));
        assert_eq!(
            fate("pre-upgrade", "hook-succeeded", true),
            Some(HookFate::Recreated),
            "the upgrade creates it again"
        );
        assert_eq!(fate("post-upgrade", "hook-succeeded", true), Some(HookFate::Deleted));
        assert_eq!(fate("pre-upgrade", "hook-failed", true), Some(HookFate::Applied));
        assert_eq!(fate("pre-upgrade", "before-hook-creation", false), None, "the upgrade deletes it");
        assert_eq!(fate("post-upgrade", "hook-failed", false), Some(HookFate::Recreated));
    }
}
