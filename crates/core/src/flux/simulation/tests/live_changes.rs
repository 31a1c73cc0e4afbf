//! Live objects that an upgrade changes; the answers of the API server are given.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::cluster::{Files, NS, TestCluster, cm, set};
use super::unfollowed::release;
use super::upgrades::{deployed_from, spec, templates, tree, without};
use crate::flux::apply::dry_run::DryRunResult;
use crate::flux::apply::update::Update;
use crate::kubernetes::object::ManagedFieldsEntry;
use crate::plan::{Action, Reason, ReasonCode};

/// Returns the files of a chart whose object `web` has this annotation.
fn files(version: &str, annotation: &Value) -> Files {
    let mut all = templates();
    all[0].2 = json!({"example.com/a": annotation});
    tree(version, &all, spec(json!({})))
}

/// Returns a cluster with the release, whose objects Helm applied on the server or patched.
fn cluster(applies: bool) -> TestCluster {
    let mut cluster = deployed_from(&files("1", &json!("1")));
    for name in ["web", "kept", "extra"] {
        let entry = ManagedFieldsEntry { manager: "helm-controller".into(), applies, ..Default::default() };
        cluster.object(name).managed_fields = vec![entry];
    }
    cluster.snapshot.normalise();
    cluster.upgrades = Some(BTreeMap::new());
    cluster
}

/// Returns the names of the objects that a plan updates.
fn updates(cluster: &TestCluster, files: &Files) -> BTreeSet<String> {
    let plan = cluster.plan(files);
    let updates = plan.changes().iter().filter(|change| change.action == Action::Update);
    updates.map(|change| change.object.id.name.to_string()).filter(|name| name != "app").collect()
}

fn drift() -> DryRunResult {
    let reason = Reason::new(ReasonCode::Drift, "data.k was set by kubectl-edit");
    DryRunResult::Updated(Update { reason, diff: "-a\n+b\n".to_owned(), changes_content: true })
}

#[test]
fn an_upgrade_updates_what_the_server_says_it_changes() {
    let (mut cluster, changed) = (cluster(true), files("2", &json!("2")));
    assert_eq!(updates(&cluster, &changed), set(&["web"]), "by the manifests");
    cluster.live_changes.insert("web", DryRunResult::Unchanged);
    assert_eq!(updates(&cluster, &changed), set(&[]), "the manifest differs, and the object does not change");
    cluster.live_changes.insert("extra", drift());
    assert_eq!(updates(&cluster, &changed), set(&["extra"]), "the manifest is the same, and the object changes");
    let plan = cluster.plan(&changed);
    let row = plan.changes().iter().find(|row| &*row.object.id.name == "extra").unwrap();
    assert_eq!(row.reason.to_string(), "drift: data.k was set by kubectl-edit");
}

#[test]
fn a_patch_removes_what_only_the_last_manifest_has() {
    let (mut cluster, dropped) = (cluster(false), files("2", &Value::Null));
    cluster.live_changes.insert("web", DryRunResult::Unchanged);
    assert_eq!(updates(&cluster, &dropped), set(&["web"]));
    cluster.live_changes.insert("extra", drift());
    assert_eq!(updates(&cluster, &dropped), set(&["extra", "web"]));
    assert_eq!(updates(&cluster, &files("2", &json!("2"))), set(&["extra"]), "nothing is removed");
}

#[test]
fn an_apply_after_a_patch_removes_what_only_the_last_manifest_has() {
    let enabled = |applies: bool| {
        let mut cluster = cluster(applies);
        cluster.live_changes.insert("web", DryRunResult::Unchanged);
        let mut after = files("2", &Value::Null);
        after[1].1[0]["spec"]["upgrade"] = json!({"serverSideApply": "enabled"});
        updates(&cluster, &after)
    };
    assert_eq!(enabled(false), set(&["web"]), "Helm first takes over the fields that it patched");
    assert_eq!(enabled(true), set(&[]));
}

#[test]
fn a_release_whose_drift_is_corrected_creates_again_what_a_hook_deletes() {
    let rows = |drift: Value, annotations: Value| {
        let mut all = templates();
        all[2].2 = annotations;
        let mut before = spec(json!({}));
        before["driftDetection"] = drift;
        let cluster = deployed_from(&tree("1", &all, before.clone()));
        let hook = json!({"helm.sh/hook": "post-upgrade", "helm.sh/hook-delete-policy": "hook-succeeded"});
        let added = vec![("charts/app/templates/hook.yaml", "extra", hook)];
        let mut after = tree("2", &[all, added].concat(), before);
        // helm-controller refuses two manifests of one identity, and these differ in the namespace that is written.
        let metadata = after.last_mut().and_then(|(_, objects)| objects[0]["metadata"].as_object_mut());
        metadata.unwrap().remove("namespace");
        cluster.rows(&after)
    };
    let enabled = json!({"mode": "enabled"});
    assert_eq!(rows(enabled.clone(), json!({})), set(&["recreate extra"]));
    assert_eq!(rows(json!({"mode": "warn"}), json!({})), set(&["delete extra"]));
    let overlooked = json!({"helm.toolkit.fluxcd.io/driftDetection": "disabled"});
    assert_eq!(rows(enabled, overlooked), set(&["delete extra"]));
    let ignored = json!({"mode": "enabled", "ignore": [{"paths": [""], "target": {"name": "ext.*"}}]});
    assert_eq!(rows(ignored, json!({})), set(&["delete extra"]));
}

#[test]
fn a_hook_that_exists_fails_an_upgrade_without_server_side_apply() {
    let rows = |applies: bool, event: &str, policy: &str| {
        let mut cluster = cluster(applies);
        cluster.add(&cm("hook"), None);
        cluster.snapshot.normalise();
        let hook = json!({"helm.sh/hook": event, "helm.sh/hook-delete-policy": policy});
        let mut all = [without("extra"), vec![("charts/app/templates/hook.yaml", "hook", hook)]].concat();
        all[0].2 = json!({"example.com/a": "1"});
        cluster.rows(&tree("2", &all, spec(json!({}))))
    };
    assert_eq!(rows(false, "pre-upgrade", "hook-succeeded"), set(&["keep extra"]));
    assert_eq!(rows(false, "post-upgrade", "hook-succeeded"), set(&["delete extra"]));
    assert_eq!(rows(false, "post-upgrade", "before-hook-creation"), set(&["delete extra", "recreate hook"]));
    assert_eq!(rows(true, "pre-upgrade", "hook-succeeded"), set(&["delete extra", "delete hook"]));
}

#[test]
fn another_release_creates_again_what_a_hook_deletes_if_it_corrects_its_drift() {
    let row = |mode: &str| {
        let mut other = release(json!({"driftDetection": {"mode": mode}}));
        other["metadata"]["name"] = "other".into();
        let with = |mut files: Files| {
            files.push(("root/other.yaml", vec![other.clone()]));
            files
        };
        let mut cluster = deployed_from(&with(tree("1", &templates(), spec(json!({})))));
        cluster.add(&cm("shared"), None);
        let entries = json!([{"id": format!("{NS}_shared__ConfigMap"), "v": "v1"}]);
        cluster.kustomization("other").content["status"]["inventory"]["entries"] = entries;
        cluster.snapshot.normalise();
        let hook = json!({"helm.sh/hook": "pre-upgrade", "helm.sh/hook-delete-policy": "hook-succeeded"});
        let added = vec![("charts/app/templates/hook.yaml", "shared", hook)];
        cluster.rows(&with(tree("2", &[templates(), added].concat(), spec(json!({})))))
    };
    assert_eq!(row("enabled"), set(&["recreate shared"]));
    assert_eq!(row("warn"), set(&["delete shared"]));
}
