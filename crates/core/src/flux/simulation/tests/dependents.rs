//! Objects that the garbage collector deletes with their owners.

use serde_json::json;

use super::cluster::{Files, TestCluster, cm, ks, set};
use crate::kubernetes::object::{ManagedFieldsEntry, OwnerReference};
use crate::testing;

fn files(first: &[&str], second: &[&str]) -> Files {
    let objects = |names: &[&str]| names.iter().map(|name| cm(name)).collect();
    vec![
        ("root/k.yaml", vec![ks("k1", "./p1", json!({})), ks("k2", "./p2", json!({}))]),
        ("p1/a.yaml", objects(first)),
        ("p2/a.yaml", objects(second)),
    ]
}

/// Returns a cluster in which the first Kustomization applied two owners, with dependents that refer to these owners.
fn cluster(dependents: &[(&str, &[&str])]) -> TestCluster {
    let mut cluster = TestCluster::new(&files(&["a", "b", "stay"], &["other"]));
    cluster.snapshot.types.push(testing::resource_type("", "ConfigMap", "configmaps", true));
    for (name, owners) in dependents {
        cluster.add(&cm(name), None);
        let reference = |owner: &&str| OwnerReference {
            group: "".into(),
            kind: "ConfigMap".into(),
            name: (*owner).into(),
            uid: format!("configmap/{owner} -n flux-system").into(),
            controller: false,
            block_owner_deletion: false,
        };
        cluster.object(name).owner_references = owners.iter().map(reference).collect();
    }
    cluster
}

#[test]
fn a_dependent_waits_for_each_of_its_owners() {
    let both = || cluster(&[("child", &["a", "b"]), ("grandchild", &["child"])]);
    let rows = |mut cluster: TestCluster, first: &[&str], second: &[&str]| {
        cluster.snapshot.normalise();
        cluster.rows(&files(first, second))
    };
    let gone = set(&["delete a", "delete b", "delete child", "delete grandchild"]);
    assert_eq!(rows(both(), &["stay"], &["other"]), gone);
    assert_eq!(rows(both(), &["b", "stay"], &["other"]), set(&["delete a"]), "one owner stays");
    let raced = set(&["delete a", "recreate? b", "delete? child", "delete? grandchild"]);
    assert_eq!(rows(both(), &["stay"], &["b", "other"]), raced, "one owner is handed over or recreated");
    let mut held = both();
    held.object("b").finalizers = vec!["example.com/hold".into()];
    let raced = set(&["delete a", "delete b", "delete? child", "delete? grandchild"]);
    assert_eq!(rows(held, &["stay"], &["other"]), raced, "a finalizer keeps one owner");
}

#[test]
fn a_dependent_waits_for_an_owner_that_is_being_deleted_already() {
    let mut cluster = cluster(&[("dead", &[]), ("child", &["a", "dead"]), ("grandchild", &["child"])]);
    let rows = |cluster: &mut TestCluster| {
        cluster.snapshot.normalise();
        cluster.rows(&files(&["b", "stay"], &["other"]))
    };
    assert_eq!(rows(&mut cluster), set(&["delete a"]), "one owner stays");
    cluster.object("dead").deletion_timestamp = Some(chrono::DateTime::UNIX_EPOCH);
    cluster.object("dead").finalizers = vec!["foregroundDeletion".into()];
    assert_eq!(rows(&mut cluster), set(&["delete a", "delete child", "delete grandchild"]));
    cluster.object("dead").finalizers = vec!["example.com/hold".into()];
    assert_eq!(rows(&mut cluster), set(&["delete a", "delete? child", "delete? grandchild"]));
    let plan = cluster.plan(&files(&["b", "stay"], &["other"]));
    let child = plan.changes().iter().find(|change| &*change.object.id.name == "child").unwrap();
    let condition = "it stays until the finalizer example.com/hold of configmap/dead -n flux-system is removed";
    assert_eq!(child.reason.conditions, [condition]);
}

#[test]
fn a_dependent_with_an_owner_of_a_kind_that_is_not_served_stays() {
    let mut cluster = cluster(&[("child", &["a", "gone"])]);
    assert_eq!(cluster.rows(&files(&["b", "stay"], &["other"])), set(&["delete a", "delete child"]));
    cluster.object("child").owner_references[1].group = "gone.example.com".into();
    assert_eq!(cluster.rows(&files(&["b", "stay"], &["other"])), set(&["delete a"]));
}

#[test]
fn endpoints_that_a_kustomization_applies_go_with_their_service_and_come_back() {
    let of_kind = |kind: &str| {
        let mut manifest = cm("db");
        manifest["kind"] = kind.into();
        manifest
    };
    let files = |kinds: &[&str]| {
        let objects = kinds.iter().map(|kind| of_kind(kind)).chain([cm("stay")]).collect();
        vec![("root/a.yaml", objects)]
    };
    let before: Files = files(&["Service", "Endpoints"]);
    let mut cluster = TestCluster::new(&before);
    let types = [("Service", "services"), ("Endpoints", "endpoints")];
    cluster.snapshot.types.extend(types.map(|(kind, plural)| testing::resource_type("", kind, plural, true)));
    let endpoints = cluster.snapshot.objects.iter_mut().find(|object| object.id.is("", "Endpoints")).unwrap();
    endpoints.managed_fields =
        vec![ManagedFieldsEntry { manager: "kustomize-controller".into(), applies: true, ..Default::default() }];
    let plan = cluster.plan(&files(&["Endpoints"]));
    let rows = plan.deletions().map(|row| format!("{} {} {}", row.action, row.object.id, row.by));
    assert_eq!(
        rows.collect::<Vec<_>>(),
        [
            "recreate endpoints/db -n flux-system endpoints-controller",
            "delete service/db -n flux-system kustomize-controller"
        ]
    );
}
