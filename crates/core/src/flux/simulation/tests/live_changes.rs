//! Live objects that an upgrade changes; the answers of the API server are given.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::cluster::{Files, TestCluster, set};
use super::upgrades::{deployed_from, spec, templates, tree};
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
