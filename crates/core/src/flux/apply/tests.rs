use std::sync::Arc;

use serde_json::{Value, json};

use super::dry_run::DryRunResult;
use super::manifest::{manifest_to_apply, remove_unknown_fields};
use super::question::Question;
use super::update::{compare_applied, is_applied_already};
use super::*;
use crate::flux::controller_flags::ControllerFlags;
use crate::flux::kustomize_controller::{self, KustomizeController};
use crate::kubernetes::object::{ManagedFieldsEntry, ObjectId, text_at};
use crate::kubernetes::snapshot::{OtherVersion, Snapshot};

fn applied_object(manifest: Value, spec: &Value) -> AppliedObject {
    let version = text_at(&manifest, "/apiVersion");
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let (namespace, name) = (text_at(&manifest, "/metadata/namespace"), text_at(&manifest, "/metadata/name"));
    let id = ObjectId::new(group, text_at(&manifest, "/kind"), namespace, name);
    let built = BuiltObject {
        id: id.clone(),
        version: version.to_owned(),
        manifest: manifest.into(),
        undecrypted: None,
        masked: None,
    };
    let owner = NamespacedName { namespace: "flux".to_owned(), name: "apps".to_owned() };
    AppliedObject { owner, spec: KustomizationSpec::new(spec), id, built, live_is_private: false }
}

/// Compares an apply by a controller without flags, of an object that it did not see before.
fn compare(applied: &AppliedObject, live: &Value, merged: &Value) -> Option<super::update::Update> {
    super::update::compare(applied, None, &ControllerFlags::default(), live, merged)
}

fn config_map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"}, "data": data})
}

fn with_fields(mut object: Value, entries: &[(&str, &str, Value)]) -> Value {
    let entries = entries
        .iter()
        .map(|(manager, operation, fields)| json!({"manager": manager, "operation": operation, "fieldsV1": fields}));
    object["metadata"]["managedFields"] = entries.collect();
    object
}

fn data(keys: &[&str]) -> Value {
    json!({"f:data": keys.iter().map(|key| (format!("f:{key}"), json!({}))).collect::<serde_json::Map<_, _>>()})
}

#[test]
fn no_diff_has_the_hash_of_a_secret() {
    let object = |hash: Option<&str>, image: &str| {
        let mut annotations = json!({"fluxcd.controlplane.io/checksumFrom": "Secret/n/vars"});
        if let Some(hash) = hash {
            annotations["fluxcd.controlplane.io/checksum"] = hash.into();
        }
        let template = json!({"metadata": {"annotations": annotations}, "spec": {"containers": [{"image": image}]}});
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": template},
            "metadata": {"name": "a", "namespace": "n", "annotations": annotations}})
    };
    let id = ObjectId::new("apps", "Deployment", "n", "a");
    let live = object(Some("sha256:1234"), "a");
    let by_operator = |merged: &Value| compare_applied(&id, "flux-operator", false, &live, merged);
    for hash in [None, Some("sha256:1234"), Some("sha256:5678")] {
        let merged = object(hash, "b");
        let by_operator = by_operator(&merged).unwrap().diff;
        let by_kustomization = compare(&applied_object(merged.clone(), &Value::Null), &live, &merged).unwrap().diff;
        for diff in [by_operator, by_kustomization] {
            assert!(diff.contains("image: b") && !diff.contains("sha256"), "{diff}");
            assert_eq!(diff.contains("*** (after)"), hash == Some("sha256:5678"), "{diff}");
        }
    }
    assert!(by_operator(&object(None, "a")).is_none(), "no manifest has the hash");
    assert!(by_operator(&object(Some("sha256:5678"), "a")).is_some(), "it changes");
}

#[test]
fn the_manifest_has_owner_labels_common_metadata_and_no_status() {
    let mut manifest = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "n",
        "creationTimestamp": null, "labels": null}, "stringData": {"k": "v"}, "status": {}});
    let spec = json!({"commonMetadata": {"labels": {"team": "x"}, "annotations": {"note": "y"}}});
    let expected = json!({"apiVersion": "v1", "kind": "Secret", "data": {"k": "dg=="},
        "metadata": {"name": "a", "namespace": "n", "annotations": {"note": "y"},
        "labels": {"kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "flux", "team": "x"}}});
    assert_eq!(manifest_to_apply(&applied_object(manifest.clone(), &spec)), expected);
    manifest["kind"] = json!("ClusterRole");
    let mut clustered = applied_object(manifest, &spec);
    clustered.id = ObjectId::new("rbac.authorization.k8s.io", "ClusterRole", "", "a");
    assert!(manifest_to_apply(&clustered)["metadata"].get("namespace").is_none());
}

#[test]
fn labels_that_are_not_all_text_are_replaced() {
    let labels = |labels: Value| {
        let mut manifest = config_map(json!({}));
        manifest["metadata"]["labels"] = labels;
        manifest_to_apply(&applied_object(manifest, &json!({})))["metadata"]["labels"].clone()
    };
    let owner = json!({"kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "flux"});
    assert_eq!(labels(json!({"x": true, "kustomize.toolkit.fluxcd.io/ssa": "Ignore"})), owner);
    let mut with_empty = owner;
    with_empty["x"] = "".into();
    assert_eq!(labels(json!({ "x": null })), with_empty);
}

#[test]
fn unknown_fields_that_the_server_names_are_removed() {
    let mut manifest =
        json!({"spec": {"replcas": 1, "template": {"spec": {"containers": [{"name": "c", "imge": "x"}]}}}});
    let message = "failed to create typed patch object (n/a; apps/v1, Kind=Deployment): errors:\n  \
        .spec.replcas: field not declared in schema\n  \
        .spec.template.spec.containers[name=\"c\"].imge: field not declared in schema";
    assert!(remove_unknown_fields(&mut manifest, message));
    assert_eq!(manifest, json!({"spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}}));
    assert!(!remove_unknown_fields(&mut manifest, message));
    assert!(!remove_unknown_fields(&mut manifest, "something else is wrong"));
    // An object quotes itself, and would be valid without its invalid label.
    let mut quoting = json!({"metadata": {"labels": {"a": "x .metadata.labels: field not declared in schema"}}});
    let invalid = "ConfigMap \"a\" is invalid: metadata.labels: Invalid value: \"x .metadata.labels: field not declared in schema\": no";
    let typed = "failed to create typed patch object (n/a; v1, Kind=ConfigMap): errors:\n  \
        .data.a: expected string, got .metadata.labels: field not declared in schema\n  .x: field not declared in schema";
    for message in [invalid, typed] {
        assert!(!remove_unknown_fields(&mut quoting, message), "{message}");
    }
}

fn entries_of_three_managers(ours: &[&str]) -> [(&'static str, &'static str, Value); 3] {
    [
        (kustomize_controller::NAME, "Apply", data(ours)),
        ("kubectl-edit", "Update", data(&["kubectl", "both", "a"])),
        ("operator", "Update", data(&["both", "other"])),
    ]
}

#[test]
fn fields_of_kubectl_that_nobody_else_owns_are_taken_over_and_removed() {
    let live = config_map(json!({"a": "1", "kubectl": "x", "both": "y", "other": "z"}));
    let applied = with_fields(live.clone(), &entries_of_three_managers(&["a"]));
    let plain = applied_object(config_map(json!({"a": "1"})), &json!({}));
    let found = compare(&plain, &live, &applied).unwrap();
    assert_eq!(found.reason.to_string(), "taken-over: data.kubectl is removed, it was set by kubectl-edit");
    let changed = found.diff.lines().skip(2).filter(|line| line.starts_with(['+', '-']));
    let changed: Vec<&str> = changed.collect();
    assert_eq!(changed, ["-  kubectl: x"]);
    let mut merging = plain.clone();
    Arc::make_mut(&mut merging.built.manifest)["metadata"]["annotations"] =
        json!({"kustomize.toolkit.fluxcd.io/ssa": "Merge"});
    assert_eq!(compare(&merging, &live, &applied), None);
    assert_eq!(compare(&plain, &live, &with_fields(live.clone(), &entries_of_three_managers(&["a", "kubectl"]))), None);
}

#[test]
fn annotations_of_kubectl_itself_are_no_change() {
    let last = "kubectl.kubernetes.io/last-applied-configuration";
    let mut live = config_map(json!({"a": "1"}));
    live["metadata"]["annotations"] = json!({last: "{}"});
    let marks = json!({"f:metadata": {"f:annotations": {".": {}, format!("f:{last}"): {}}}, "f:data": {"f:a": {}}});
    let entries = [(kustomize_controller::NAME, "Apply", data(&["a"])), ("kubectl-client-side-apply", "Update", marks)];
    let plain = applied_object(config_map(json!({})), &json!({}));
    assert_eq!(compare(&plain, &live, &with_fields(live.clone(), &entries)), None);
    let mut after = with_fields(live.clone(), &entries);
    after["data"]["a"] = json!("2");
    assert_eq!(compare(&plain, &live, &after).unwrap().reason.to_string(), "changed");
}

#[test]
fn a_list_item_is_removed_as_a_whole() {
    let containers = json!({"f:spec": {"f:containers": {
        "k:{\"name\":\"c\"}": {".": {}, "f:name": {}, "f:image": {}}, "k:{\"name\":\"d\"}": {".": {}, "f:name": {}}}}});
    let ours = json!({"f:spec": {"f:containers": {"k:{\"name\":\"d\"}": {".": {}, "f:name": {}}}}});
    let object = json!({"kind": "X", "spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d"}]}});
    let applied =
        with_fields(object.clone(), &[(kustomize_controller::NAME, "Apply", ours), ("kubectl", "Update", containers)]);
    let found = compare(&applied_object(config_map(json!({})), &json!({})), &object, &applied).unwrap();
    assert!(found.reason.detail.contains("spec.containers[name=c] is removed"), "{}", found.reason);
    assert!(
        found.diff.contains("-  - image: i\n-    name: c\n") && !found.diff.contains("-  - name: d"),
        "{}",
        found.diff
    );
}

#[test]
fn a_value_of_another_manager_is_drift_and_a_new_value_is_a_change() {
    let before = with_fields(
        config_map(json!({"a": "1", "b": "1"})),
        &[(kustomize_controller::NAME, "Apply", data(&["a"])), ("operator", "Update", data(&["b"]))],
    );
    let after =
        |values: Value| with_fields(config_map(values), &[(kustomize_controller::NAME, "Apply", data(&["a", "b"]))]);
    let plain = applied_object(config_map(json!({})), &json!({}));
    let drift = compare(&plain, &before, &after(json!({"a": "1", "b": "2"}))).unwrap();
    assert_eq!(drift.reason.to_string(), "drift: data.b was set by operator");
    assert_eq!(compare(&plain, &before, &after(json!({"a": "2", "b": "1"}))).unwrap().reason.to_string(), "changed");
    let mut private = plain.clone();
    private.live_is_private = true;
    let unnamed = compare(&private, &before, &after(json!({"a": "1", "b": "2"}))).unwrap();
    assert_eq!(unnamed.reason.to_string(), "drift", "the key of an item can be a value of a Secret");
    let ignoring = applied_object(config_map(json!({})), &json!({"ignore": [{"paths": ["/data/b"]}]}));
    assert_eq!(compare(&ignoring, &before, &after(json!({"a": "1", "b": "2"}))), None);
}

#[test]
fn metadata_that_the_controller_never_applies_is_no_change() {
    let mut live = config_map(json!({"a": "1"}));
    let applied = live.clone();
    live["metadata"]["finalizers"] = json!(["x/y"]);
    live["metadata"]["ownerReferences"] = json!([{"name": "x"}]);
    live["metadata"]["resourceVersion"] = json!("1");
    live["status"] = json!({"x": 1});
    assert_eq!(compare(&applied_object(config_map(json!({})), &json!({})), &live, &applied), None);
}

fn secret_last_applied_as(data: Value, last: &str) -> Value {
    let mut secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "n"}, "data": data});
    secret["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": last, "b": "c"});
    secret
}

#[test]
fn no_value_of_a_secret_is_in_the_diff() {
    let live = secret_last_applied_as(json!({"same": "U0VDUkVU", "changed": "T0xE", "gone": "R09ORQ=="}), "SECRET");
    let applied = secret_last_applied_as(json!({"same": "U0VDUkVU", "changed": "TkVX", "new": "TkVX"}), "SECRET2");
    let found = compare(&applied_object(live.clone(), &json!({})), &live, &applied).unwrap();
    for value in ["U0VDUkVU", "T0xE", "TkVX", "R09ORQ", "SECRET"] {
        assert!(!found.diff.contains(value), "{}", found.diff);
    }
    for line in
        ["-  changed: '*** (before)'", "+  changed: '*** (after)'", "-  gone: '***'", "+  new: '***'", "   same: '***'"]
    {
        assert!(found.diff.contains(line), "{line}\n{}", found.diff);
    }
}

#[test]
fn a_diff_of_a_live_object_with_values_of_secrets_shows_what_the_tree_writes() {
    let mut live =
        config_map(json!({"url": "http://u:HUNTER2@db", "old-HUNTER2": "x", "same": "s", "list": ["HUNTER2", "a"]}));
    live["metadata"]["annotations"] = json!({"of-somebody": "HUNTER2"});
    let manifest = config_map(json!({"url": "open", "same": "s", "new": "n", "list": ["a"]}));
    let mut merged = manifest.clone();
    merged["metadata"]["annotations"] = live["metadata"]["annotations"].clone();
    let mut applied = applied_object(manifest, &json!({}));
    assert!(compare(&applied, &live, &merged).unwrap().diff.contains("HUNTER2"), "the control");
    applied.live_is_private = true;
    let diff = compare(&applied, &live, &merged).unwrap().diff;
    assert!(!diff.contains("HUNTER2"), "{diff}");
    for line in ["-  url: '*** (before)'", "+  url: open", "   same: s", "+  new: n", "-  '***': '*** (before)'"] {
        assert!(diff.contains(line), "{line}\n{diff}");
    }
    // What does not change is hidden too.
    assert!(diff.contains("   '***': '***'\n"), "{diff}");
    assert_eq!(compare(&applied, &live, &live), None);
}

#[test]
fn a_copy_of_a_secret_in_an_annotation_is_not_in_the_diff() {
    let secret = |data: &str, copy: &str| {
        let metadata = json!({"name": "s", "namespace": "n", "annotations": {"kapp.k14s.io/original": copy, "b": "c"}});
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"a": data}})
    };
    let (live, merged) = (secret("T0xE", "{T0xE}"), secret("TkVX", "{TkVX}"));
    let mut manifest = merged.clone();
    manifest["metadata"]["annotations"] = json!({"b": "c"});
    let diff = compare(&applied_object(manifest, &json!({})), &live, &merged).unwrap().diff;
    assert!(!diff.contains("T0xE") && !diff.contains("TkVX"), "{diff}");
    assert!(diff.contains("'***': '*** (before)'") && diff.contains("     b: c"), "{diff}");
}

#[test]
fn a_diff_of_too_many_lines_names_the_limit() {
    let text = |word: &str| (0..30_000).map(|line| format!("{word}{line}\n")).collect::<String>();
    let (live, merged) = (config_map(json!({"a": text("x")})), config_map(json!({"a": text("y")})));
    let found = compare(&applied_object(merged.clone(), &json!({})), &live, &merged).unwrap();
    assert_eq!(found.diff, "configmap/a -n n has more than 50000 lines (limit diff-lines): no diff\n");
}

#[test]
fn up_to_1_9_an_ignored_field_that_the_manifest_drops_fails_the_apply() {
    let spec = json!({"ignore": [{"paths": ["/data/mine"]}]});
    let result = |manifest: Value, live: Value, merged: Value, version: (u32, u32, u32)| {
        let snapshot = crate::testing::snapshot(vec![], vec![]);
        let controller = KustomizeController::of(version);
        DryRunResult::of_accepted(&applied_object(manifest, &spec), &snapshot, &controller, Some(&live), &merged)
    };
    let owned = |data_of: Value, by: &[(&str, &str, Value)]| with_fields(config_map(data_of), by);
    let flux = (kustomize_controller::NAME, "Apply", data(&["mine", "other"]));
    let live = owned(json!({"mine": "1", "other": "1"}), std::slice::from_ref(&flux));
    let (dropped, changed) = (config_map(json!({"other": "2"})), config_map(json!({"mine": "2", "other": "2"})));
    let refused = result(dropped.clone(), live.clone(), dropped.clone(), (1, 9, 5));
    assert!(matches!(&refused, DryRunResult::Refused(why) if why.contains("/data/mine")), "{refused:?}");
    let is_updated = |result: DryRunResult| matches!(result, DryRunResult::Updated(_));
    assert!(is_updated(result(dropped.clone(), live.clone(), dropped.clone(), (1, 10, 0))));
    assert!(is_updated(result(changed.clone(), live.clone(), changed.clone(), (1, 9, 5))), "the manifest has it");
    let invalid = json!({"ignore": [{"paths": ["data/mine"]}]});
    let (applied, snapshot) = (applied_object(changed.clone(), &invalid), crate::testing::snapshot(vec![], vec![]));
    let controller = KustomizeController::of((1, 9, 5));
    let refused = DryRunResult::of_accepted(&applied, &snapshot, &controller, Some(&live), &changed);
    assert!(matches!(&refused, DryRunResult::Refused(why) if why.contains("no path of a field")), "{refused:?}");
    // Without another change nothing is applied.
    let same = config_map(json!({"other": "1"}));
    assert_eq!(result(same.clone(), live, same, (1, 9, 5)), DryRunResult::Unchanged);
    let shared = owned(json!({"mine": "1", "other": "1"}), &[flux, ("scaler", "Apply", data(&["mine"]))]);
    assert!(is_updated(result(dropped.clone(), shared, dropped, (1, 9, 5))), "it is left out of the manifest");
}

#[test]
fn the_key_of_a_question_names_the_run_that_makes_the_change() {
    let flags = ControllerFlags::default();
    let key = |value: &str, spec: Value| {
        let applied = applied_object(config_map(json!({"a": value})), &spec);
        Question::of_apply(applied, &flags).key().clone()
    };
    let (plain, account) = (json!({}), json!({"serviceAccountName": "team"}));
    assert_eq!(key("1", plain.clone()), key("1", plain.clone()));
    for (name, other) in [
        ("manifest", key("2", plain.clone())),
        ("force", key("1", json!({"force": true}))),
        ("account", key("1", account.clone())),
    ] {
        assert_ne!(key("1", plain.clone()), other, "{name}");
    }
    let deletion = |owner: &str, spec: &Value| {
        let owner = NamespacedName { namespace: "flux".to_owned(), name: owner.to_owned() };
        let id = ObjectId::new("", "ConfigMap", "n", "a");
        Question::of_deletion(&owner, &KustomizationSpec::new(spec), &id, &flags).key().clone()
    };
    assert_eq!(deletion("apps", &plain), deletion("apps", &json!({"force": true})), "only the account matters");
    assert_ne!(deletion("apps", &plain), deletion("apps", &account));
    assert_ne!(deletion("apps", &plain), deletion("infra", &plain));
    assert_ne!(deletion("apps", &plain), key("1", plain));
}

#[test]
fn a_version_that_a_definition_of_the_same_change_begins_to_serve_is_not_asked_about() {
    let mut snapshot = crate::testing::snapshot(vec![], vec![]);
    snapshot.types = vec![crate::testing::resource_type("e.com", "Widget", "widgets", true)];
    let what = snapshot.types[0].group_kind();
    let result = |version: &str, snapshot: &Snapshot| {
        let manifest = json!({"apiVersion": format!("e.com/{version}"), "kind": "Widget",
            "metadata": {"name": "w", "namespace": "n"}});
        DryRunResult::without_request(&applied_object(manifest, &json!({})), snapshot)
    };
    assert_eq!(result("v2", &snapshot), None, "the versions were not read");
    snapshot.other_versions = vec![OtherVersion { what, version: "v1beta1".into() }];
    assert_eq!(result("v1beta1", &snapshot), None);
    assert_eq!(result("v2", &snapshot), Some(DryRunResult::NotValidated("its version is new".to_owned())));
    snapshot.types[0].namespaced = false;
    assert_eq!(result("v1", &snapshot), Some(DryRunResult::NotValidated("its kind gets another scope".to_owned())));
}

#[test]
fn an_apply_that_changes_nothing_keeps_the_time_of_its_manager() {
    let mut live = crate::testing::object("", "ConfigMap", "n", "a");
    let entry = |manager: &str, applies, time: &str| ManagedFieldsEntry {
        manager: manager.into(),
        applies,
        time: time.parse().ok(),
        ..Default::default()
    };
    let merged = |time: &str| {
        let entry = json!({"manager": "helm-controller", "operation": "Apply", "time": time});
        json!({"metadata": {"managedFields": [entry]}})
    };
    let (earlier, now) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
    for (entries, time, expected) in [
        (vec![entry("helm-controller", true, earlier)], earlier, true),
        (vec![entry("helm-controller", true, earlier)], now, false),
        (vec![entry("helm-controller", false, earlier)], earlier, false),
        (vec![entry("kubectl", true, earlier)], earlier, false),
        (vec![], earlier, false),
    ] {
        live.managed_fields = entries;
        assert_eq!(is_applied_already("helm-controller", &live, &merged(time)), expected, "{:?}", live.managed_fields);
    }
}
