//! Removal of content that may hold secrets, before a snapshot leaves the process.
//!
//! A value that a build needs is replaced by a mark, so that a plan from the snapshot knows what it does not know.

use crate::kubernetes::object::list_at;
use serde_json::{Map, Value, json};

use super::redact::redact_urls;
use super::snapshot::Snapshot;

/// API groups whose objects only `get` reads, and the fields of `spec` that it reads.
const GET_ONLY_GROUPS: [&str; 3] =
    ["image.toolkit.fluxcd.io", "notification.toolkit.fluxcd.io", "fluxcd.controlplane.io"];
const GET_FIELDS: [&str; 6] = ["suspend", "timeout", "type", "sourceRef", "imageRepositoryRef", "providerRef"];

/// Fields of a Helm release that hold values or patches.
const HELM_RELEASE_FIELDS: [&str; 2] = ["values", "postRenderers"];

/// Fields of a ResourceSet that hold manifests and their inputs.
const RESOURCE_SET_FIELDS: [&str; 4] = ["inputs", "resources", "resourcesTemplate", "steps"];

/// Fields of an Argo CD source that are no parameters of its build.
const SOURCE_FIELDS: [&str; 5] = ["repoURL", "path", "targetRevision", "chart", "ref"];

/// Fields of a container that a plan reads, as far as their values are recorded.
const CONTAINER_FIELDS: [&str; 6] = ["name", "image", "command", "args", "env", "envFrom"];

/// Beginnings of the arguments of a container that a plan reads: a fluxd names its source in them.
const ARGUMENTS: [&str; 2] = ["--git-", "--k8s-"];

/// Values of each kind, which are recorded as they are or not at all: a part of a value would be another value.
const VALUES: [(&str, &str, &[&str]); 6] = [
    ("Kustomization", "spec", &["postBuild", "patches"]),
    ("Kustomization", "spec", &PATCH_FIELDS),
    ("HelmRelease", "spec", &HELM_RELEASE_FIELDS),
    ("ResourceSet", "spec", &RESOURCE_SET_FIELDS),
    ("ResourceSetInputProvider", "spec", &["defaultValues"]),
    ("ResourceSetInputProvider", "status", &["exportedInputs"]),
];

/// Fields of a Kustomization with patches as text.
const PATCH_FIELDS: [&str; 2] = ["patchesStrategicMerge", "patchesJson6902"];

/// Key of the mark in the place of a value that is not recorded.
const MARK: &str = "notRecorded";

impl Snapshot {
    /// Removes content that may hold secrets: parameters of Argo CD and Config Sync sources, what a container has beside its
    /// image and the source of a fluxd, data of inventories that is not read, settings of volume types, passwords in URLs,
    /// paths of webhooks, and fields of Flux objects that only `get` reads. Unless `keep_values` is set, also
    /// variables and patches of Kustomizations, values and post-renderers of HelmReleases, manifests and inputs of
    /// ResourceSets, and messages of conditions, which can quote all of these.
    pub fn redact(&mut self, keep_values: bool) {
        for full in &mut self.resources {
            let id = &full.object.id;
            let is_set = id.is("fluxcd.controlplane.io", "ResourceSet");
            let is_provider = id.is("fluxcd.controlplane.io", "ResourceSetInputProvider");
            let get_only = GET_ONLY_GROUPS.contains(&&*id.group) && !((is_set || is_provider) && keep_values);
            let (is_volume, is_release) = (id.is("", "PersistentVolume"), &*id.kind == "HelmRelease");
            let is_kustomization = id.is("kustomize.toolkit.fluxcd.io", "Kustomization");
            let is_argo = &*id.group == "argoproj.io";
            if let Some(spec) = full.content.get_mut("spec").and_then(Value::as_object_mut) {
                let kept: &[&str] = if is_set { &RESOURCE_SET_FIELDS } else { &[] };
                spec.retain(|key, _| !get_only || GET_FIELDS.contains(&&**key) || kept.contains(&&**key));
                if is_release && !keep_values {
                    hide_fields(spec, &HELM_RELEASE_FIELDS);
                }
                if is_set && !keep_values {
                    hide_fields(spec, &RESOURCE_SET_FIELDS);
                }
                if is_volume {
                    redact_volume(spec);
                }
                if is_kustomization && !keep_values {
                    hide_values(spec);
                }
                if let Some(helm) = spec.get_mut("helm").filter(|_| &*id.group == "configsync.gke.io") {
                    redact_each(helm, |key| key != "values");
                }
                if let Some(pods) = spec.get_mut("template").filter(|_| id.is("apps", "Deployment")) {
                    redact_pods(pods);
                }
            }
            if id.is("", "ConfigMap") {
                redact_inventory(&mut full.content);
            }
            if let Some(status) = full.content.get_mut("status").filter(|_| get_only) {
                // The path of a webhook is made of a token, and is one.
                redact_each(status, |key| !["webhookPath", "url"].contains(&key));
            }
            if let Some(status) = full.content.get_mut("status").and_then(Value::as_object_mut)
                && !keep_values
            {
                if is_provider {
                    status.remove("exportedInputs");
                }
                status.values_mut().for_each(drop_messages);
            }
            let own = VALUES.iter().filter(|(kind, ..)| keep_values && *full.object.id.kind == **kind);
            let fields = own.flat_map(|(_, part, fields)| fields.iter().map(move |field| (*part, *field)));
            let values: Vec<(&str, &str, Value)> = fields
                .filter_map(|(part, field)| Some((part, field, full.content.get_mut(part)?.get_mut(field)?.take())))
                .collect();
            redact_nested(&mut full.content, is_argo);
            for (part, field, value) in values {
                full.content[part][field] = value;
            }
        }
        for gap in &mut self.gaps {
            gap.message = redact_urls(&gap.message);
        }
    }

    /// Number of owners with values that the snapshot does not have. A plan of a working tree needs them.
    pub fn owners_without_values(&self) -> usize {
        let specs = self.resources.iter().filter_map(|full| full.content.get("spec"));
        specs.filter(|spec| missing_value(spec).is_some() || missing_field(spec).is_some()).count()
    }
}

/// Returns the field of a Kustomization's spec that a snapshot does not have, if there is one.
pub(crate) fn missing_value(spec: &Value) -> Option<String> {
    let variables = spec.pointer("/postBuild/substitute").and_then(Value::as_object).into_iter().flatten();
    let variable =
        variables.filter(|(_, value)| is_missing(value)).map(|(key, _)| format!("postBuild.substitute.{key}"));
    let patches = list_at(spec, "/patches").iter();
    let patch = patches.filter(|patch| patch.get("patch").is_some_and(is_missing)).map(|_| "patches".to_owned());
    let text =
        PATCH_FIELDS.iter().filter(|field| spec.get(**field).is_some_and(is_missing)).map(|field| (*field).to_owned());
    variable.chain(patch).chain(text).next()
}

fn is_missing(value: &Value) -> bool {
    value.get(MARK).is_some()
}

/// Fails if a snapshot lacks a field of the spec of a HelmRelease or ResourceSet.
pub(crate) fn check_recorded(spec: &Value) -> Result<(), String> {
    match missing_field(spec) {
        Some(field) => Err(format!(
            "the snapshot has no value of spec.{field}: plan with the cluster, or record it with --with-values"
        )),
        None => Ok(()),
    }
}

fn missing_field(spec: &Value) -> Option<&'static str> {
    let fields = HELM_RELEASE_FIELDS.into_iter().chain(RESOURCE_SET_FIELDS);
    fields.into_iter().find(|field| spec.get(field).is_some_and(is_missing))
}

fn mark() -> Value {
    json!({ MARK: true })
}

/// Replaces fields that a spec has by the mark.
fn hide_fields(spec: &mut Map<String, Value>, fields: &[&str]) {
    spec.iter_mut().filter(|(key, _)| fields.contains(&key.as_str())).for_each(|(_, value)| *value = mark());
}

/// Replaces variables and patches by the mark.
fn hide_values(spec: &mut Map<String, Value>) {
    let variables =
        spec.get_mut("postBuild").and_then(|build| build.get_mut("substitute")).and_then(Value::as_object_mut);
    variables.into_iter().flat_map(Map::values_mut).for_each(|value| *value = mark());
    let patches = spec.get_mut("patches").and_then(Value::as_array_mut).into_iter().flatten();
    patches.filter_map(|patch| patch.get_mut("patch")).for_each(|text| *text = mark());
    for field in PATCH_FIELDS {
        if let Some(value) = spec.get_mut(field) {
            *value = mark();
        }
    }
}

/// Replaces the messages of a status, at any depth, by the reasons beside them. No rule of a plan reads a message.
fn drop_messages(status: &mut Value) {
    match status {
        Value::Array(items) => items.iter_mut().for_each(drop_messages),
        Value::Object(fields) => {
            if fields.get("message").is_some_and(Value::is_string) {
                let reason = fields.get("reason").cloned();
                fields.insert("message".to_owned(), reason.unwrap_or_else(|| "".into()));
            }
            fields.values_mut().for_each(drop_messages);
        }
        _ => {}
    }
}

/// Keeps the keys of an inventory, and the record of a kapp app.
fn redact_inventory(content: &mut Value) {
    redact_each(content, |key| key != "binaryData");
    let data = content.get_mut("data").and_then(Value::as_object_mut).into_iter().flatten();
    data.filter(|(key, _)| *key != "spec").for_each(|(_, value)| *value = "".into());
}

/// Removes what no plan reads from the template of Pods. The values of variables are not recorded, and count as not known.
fn redact_pods(template: &mut Value) {
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        let containers = template.pointer_mut(&format!("/spec/{list}")).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            container.retain(|key, _| CONTAINER_FIELDS.contains(&key.as_str()));
            for (_, list) in container.iter_mut().filter(|(key, _)| ["command", "args"].contains(&key.as_str())) {
                *list = list.as_array().map(|words| kept_arguments(words)).unwrap_or_default().into();
            }
            if let Some(variables) = container.get_mut("env") {
                redact_each(variables, |key| key == "name");
                for variable in variables.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
                    variable.insert("valueFrom".to_owned(), mark());
                }
            }
            if let Some(from) = container.get_mut("envFrom") {
                redact_each(from, |_| false);
            }
        }
    }
}

/// Returns the arguments that a plan reads, with their values.
fn kept_arguments(words: &[Value]) -> Vec<Value> {
    let flags =
        words.iter().map(|word| word.as_str().filter(|word| ARGUMENTS.iter().any(|kept| word.starts_with(kept))));
    let before = std::iter::once(None).chain(flags.clone());
    let kept = words
        .iter()
        .zip(flags.zip(before))
        .filter(|(_, (flag, before))| flag.is_some() || before.is_some_and(|flag| !flag.contains('=')));
    kept.map(|(word, _)| word.clone()).collect()
}

/// Removes parameters of Argo CD sources and passwords in URLs, at any depth.
fn redact_nested(value: &mut Value, is_argo: bool) {
    match value {
        Value::String(text) => *text = redact_urls(text),
        Value::Array(items) => items.iter_mut().for_each(|item| redact_nested(item, is_argo)),
        Value::Object(fields) => {
            for (key, value) in fields.iter_mut() {
                if is_argo && ["source", "sources", "drySource"].contains(&key.as_str()) {
                    redact_each(value, |key| SOURCE_FIELDS.contains(&key));
                }
                redact_nested(value, is_argo);
            }
        }
        _ => {}
    }
}

/// Keeps some fields of an object, or of each object of a list.
fn redact_each(value: &mut Value, keep: fn(&str) -> bool) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| redact_each(item, keep)),
        Value::Object(fields) => fields.retain(|key, _| keep(key)),
        _ => {}
    }
}

/// Removes credentials, share names and volume handles. The name of the volume type remains, and the path of `hostPath`,
/// which decides whether the data is deleted.
fn redact_volume(spec: &mut Map<String, Value>) {
    for (key, value) in spec.iter_mut().filter(|(key, _)| *key != "claimRef") {
        if let Some(fields) = value.as_object_mut() {
            fields.retain(|field, _| key == "hostPath" && field == "path");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::snapshot::ClusterIdentity;
    use crate::ownership::schemes::flux_v1;
    use crate::testing::{Build, flux_object, object};
    use chrono::DateTime;

    fn recorded(keep_values: bool) -> Snapshot {
        let source = json!({"repoURL": "https://u:SECRET@e.com/r", "path": "apps", "helm": {"values": "SECRET",
            "valuesObject": {"a": "SECRET"}, "parameters": [{"name": "p", "value": "SECRET"}]},
            "kustomize": {"patches": [{"patch": "SECRET"}]}, "plugin": {"env": [{"name": "e", "value": "SECRET"}]}});
        let probe = json!({"httpGet": {"httpHeaders": [{"name": "Authorization", "value": "SECRET"}]}});
        let container = json!({"name": "c", "command": ["sh", "-c", "SECRET"],
            "args": ["--git-url=https://u:SECRET@e.com/r", "--token=SECRET", "--git-branch", "main", "--token", "SECRET"],
            "env": [{"name": "PASSWORD", "value": "SECRET"}], "envFrom": [{"prefix": "SECRET"}],
            "readinessProbe": probe, "startupProbe": {"exec": {"command": ["curl", "SECRET"]}}});
        let flux = |kind: &str, spec: Value| flux_object(kind, json!({ "spec": spec }), &[]);
        let mut snapshot = Snapshot::new(DateTime::UNIX_EPOCH, ClusterIdentity::default());
        snapshot.resources = vec![
            flux(
                "Provider",
                json!({"suspend": true, "address": "https://example.invalid/hook/SECRET", "proxy": "SECRET"}),
            ),
            flux(
                "ResourceSet",
                json!({"suspend": true, "inputs": [{"password": "VALUE"}], "resourcesTemplate": "VALUE", "a": "b",
                "resources": [{"kind": "Secret", "stringData": {"a": "VALUE"}}]}),
            ),
            flux(
                "HelmRelease",
                json!({"suspend": true, "values": {"password": "VALUE"}, "releaseName": "kept",
                "postRenderers": [{"kustomize": {"patches": [{"patch": "VALUE"}]}}]}),
            ),
            flux("GitRepository", json!({"suspend": true, "url": "https://user:SECRET@e.com/repo?token=SECRET"})),
            flux("Bucket", json!({"suspend": true, "endpoint": "http://u:SECRET@minio:9000"})),
            flux("HelmRepository", json!({"suspend": true, "url": "https://SECRET@charts.e.com"})),
            flux_object(
                "GitRepository",
                json!({"spec": {"suspend": true}, "status": {"conditions": [
                {"message": "unable to clone 'https://u:SECRET@e.com/r': denied"}]}}),
                &[],
            ),
            flux_object(
                "HelmRelease",
                json!({"spec": {"suspend": true}, "status": {"conditions": [{"type": "Ready", "status": "False",
                "reason": "UpgradeFailed", "message": "upgrade failed: Deployment in version \"v1\": VALUE"}]}}),
                &[],
            ),
            object("argoproj.io", "Application", "argocd", "shop").with_content(json!({
                "spec": {"suspend": true, "source": source, "sources": [source], "sourceHydrator": {"drySource": source}},
                "operation": {"sync": {"source": source}},
                "status": {"history": [{"source": source}], "sync": {"comparedTo": {"source": source}},
                    "operationState": {"operation": {"sync": {"sources": [source]}}}}})),
            object("apps", "Deployment", "flux", "flux").with_content(json!({"spec": {"suspend": true,
                "template": {"spec": {"containers": [container], "initContainers": [container],
                    "ephemeralContainers": [container]}}}})),
            object("configsync.gke.io", "RootSync", "config-management-system", "root-sync").with_content(json!({
                "spec": {"suspend": true, "helm": {"chart": "c", "values": {"a": "SECRET"}}}})),
            object("", "ConfigMap", "shop", "inventory").with_content(json!({"spec": {"suspend": true},
                "data": {"shop_web_apps_Deployment": "SECRET", "spec": "{\"labelKey\":\"kapp.k14s.io/app\"}"},
                "binaryData": {"a": "SECRET"}})),
            flux_object(
                "Receiver",
                json!({"spec": {"suspend": true}, "status": {"webhookPath": "/hook/SECRET", "url": "/hook/SECRET",
                "observedGeneration": 1}}),
                &[],
            ),
        ];
        snapshot.resources.push(flux(
            "Kustomization",
            json!({"suspend": true, "path": "./apps",
            "patches": [{"patch": "VALUE", "target": {"kind": "Secret"}}], "patchesJson6902": [{"patch": "VALUE"}],
            "postBuild": {"substitute": {"password": "VALUE"}, "substituteFrom": [{"kind": "Secret", "name": "s"}]}}),
        ));
        snapshot.redact(keep_values);
        snapshot
    }

    #[test]
    fn redacting_removes_secrets() {
        let snapshot = recorded(false);
        let text = serde_json::to_string(&snapshot).unwrap();
        assert!(!text.contains("SECRET") && !text.contains("VALUE"), "{text}");
        assert!(snapshot.resources.iter().all(|full| full.flag("/spec/suspend")));
        for kept in [
            "releaseName",
            "https://REDACTED@e.com/r",
            "--git-url=",
            "substituteFrom",
            "./apps",
            "minio:9000",
            "\"--git-branch\",\"main\"",
            "\"name\":\"PASSWORD\"",
            "shop_web_apps_Deployment",
            "kapp.k14s.io/app",
            "\"observedGeneration\":1",
            "\"message\":\"UpgradeFailed\"",
        ] {
            assert!(text.contains(kept), "{kept}: {text}");
        }
    }

    #[test]
    fn what_a_build_needs_is_marked_as_missing_or_kept_on_request() {
        let missing = |keep_values| missing_value(recorded(keep_values).resources.last().unwrap().spec());
        assert_eq!(missing(false).as_deref(), Some("postBuild.substitute.password"));
        assert_eq!(missing(true), None);
        assert_eq!([false, true].map(|keep_values| recorded(keep_values).owners_without_values()), [3, 0]);
        for (kind, field) in [("HelmRelease", "values"), ("ResourceSet", "inputs")] {
            let missing = |keep_values| {
                let snapshot = recorded(keep_values);
                let found = snapshot.resources.iter().find(|full| &*full.object.id.kind == kind).unwrap();
                missing_field(found.spec())
            };
            assert_eq!((missing(false), missing(true)), (Some(field), None));
        }
        let rows = [
            (json!({"patches": [{"patch": {"notRecorded": true}}]}), Some("patches")),
            (json!({"patchesJson6902": {"notRecorded": true}}), Some("patchesJson6902")),
            (json!({"patches": [{"patch": "text"}], "postBuild": {"substitute": {"a": "b"}}}), None),
        ];
        for (spec, expected) in rows {
            assert_eq!(missing_value(&spec).as_deref(), expected, "{spec}");
        }
        let kept = serde_json::to_string(&recorded(true)).unwrap();
        assert!(kept.contains("VALUE") && !kept.contains("SECRET"), "{kept}");
    }

    #[test]
    fn a_fluxd_whose_variables_are_not_recorded_has_no_known_source() {
        for (variables, more) in
            [("env", json!([{"name": "BRANCH", "value": "main"}])), ("envFrom", json!([{"prefix": "a"}]))]
        {
            let container =
                json!({"name": "flux", "args": ["--git-url=git@e.com:r", "--git-branch=$(BRANCH)"], variables: more});
            let content = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
            let mut snapshot = Snapshot::new(DateTime::UNIX_EPOCH, ClusterIdentity::default());
            snapshot.resources = vec![object("apps", "Deployment", "flux", "flux").with_content(content)];
            snapshot.redact(true);
            let fluxd = &snapshot.resources[0];
            let record = (flux_v1::SCHEME.owner)(&fluxd.object, &fluxd.content).unwrap();
            assert!(record.verification_key.is_none() && record.is_unresolvable, "{variables}: {record:?}");
        }
    }

    #[test]
    fn recorded_values_are_those_of_the_cluster() {
        let value = json!({"url": "https://u:p@e.com/?a=b", "containers": [{"env": [{"name": "A", "value": "B"}]}]});
        for (group, kind, path) in [
            ("kustomize.toolkit.fluxcd.io", "Kustomization", "/spec/postBuild"),
            ("helm.toolkit.fluxcd.io", "HelmRelease", "/spec/values"),
            ("fluxcd.controlplane.io", "ResourceSet", "/spec/inputs"),
            ("fluxcd.controlplane.io", "ResourceSetInputProvider", "/status/exportedInputs"),
        ] {
            let fields = path.rsplit('/').filter(|field| !field.is_empty());
            let content = fields.fold(value.clone(), |inner, field| json!({ field: inner }));
            let mut snapshot = Snapshot::new(DateTime::UNIX_EPOCH, ClusterIdentity::default());
            snapshot.resources = vec![object(group, kind, "shop", "web").with_content(content)];
            snapshot.redact(true);
            assert_eq!(snapshot.resources[0].at(path), Some(&value), "{kind}");
        }
    }
}
