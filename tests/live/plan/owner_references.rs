//! Owner references of every kind: the dependents of a plan, compared with those that the real garbage collector deletes.

use std::collections::BTreeMap;

use serde_json::Value;
use test_support::cluster::{LIMIT, with_kustomize_controller};
use test_support::flux::{deploy, publish};
use test_support::folder::folder;
use test_support::shared_cluster;
use test_support::tree_plan::{document, plan};

// The cluster of these tests, with kustomize-controller and an audit log.
shared_cluster!(with_kustomize_controller);

const NAMESPACE: &str = "garbage";

/// `kind/name` to uid of what depends on something.
fn dependents() -> BTreeMap<String, String> {
    let list =
        cluster().kubectl(&["get", "configmaps,clusterroles", "-A", "-l", "dependent=yes", "-o", "json"]).unwrap();
    let list: Value = serde_json::from_str(&list).unwrap();
    let text = |item: &Value, pointer: &str| item.pointer(pointer).and_then(Value::as_str).unwrap().to_owned();
    let row = |item: &Value| {
        let name = format!("{}/{}", text(item, "/kind"), text(item, "/metadata/name"));
        (name, text(item, "/metadata/uid"))
    };
    list["items"].as_array().unwrap().iter().map(row).collect()
}

/// Makes an object that names its owners, as kind, name and uid.
fn depend(kind: &str, namespace: &str, name: &str, owners: &[(&str, &str, String)]) {
    let version = if kind == "ClusterRole" { "rbac.authorization.k8s.io/v1" } else { "v1" };
    let reference = |(kind, name, uid): &(&str, &str, String)| {
        let version = if *kind == "ClusterRole" { "rbac.authorization.k8s.io/v1" } else { "v1" };
        serde_json::json!({"apiVersion": version, "kind": kind, "name": name, "uid": uid})
    };
    let references: Vec<Value> = owners.iter().map(reference).collect();
    let mut manifest = serde_json::json!({"apiVersion": version, "kind": kind,
        "metadata": {"name": name, "labels": {"dependent": "yes"}, "ownerReferences": references}});
    if !namespace.is_empty() {
        manifest["metadata"]["namespace"] = namespace.into();
    }
    cluster().kubectl_stdin(&["create", "-f", "-"], &manifest.to_string()).unwrap();
}

fn uid(kind: &str, namespace: &str, name: &str) -> String {
    cluster().kubectl(&["get", kind, name, "-n", namespace, "-o", "jsonpath={.metadata.uid}"]).unwrap()
}

#[test]
fn dependents_of_pruned_objects_go_as_the_garbage_collector_decides() {
    let _cluster = cluster();
    let tree = folder("garbage");
    let write = |name: &str, content: &str| std::fs::write(tree.join(name), content).unwrap();
    write("owner.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: owner}\n");
    write("stays.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: stays}\n");
    write(
        "role.yaml",
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: garbage-owner}\n",
    );
    deploy(&cluster(), NAMESPACE, &tree);
    cluster().kubectl(&["create", "namespace", "garbage-elsewhere"]).unwrap();
    let owner = || ("ConfigMap", "owner", uid("configmap", NAMESPACE, "owner"));
    let stays = || ("ConfigMap", "stays", uid("configmap", NAMESPACE, "stays"));
    let role = || ("ClusterRole", "garbage-owner", uid("clusterrole", "", "garbage-owner"));
    depend("ConfigMap", NAMESPACE, "of-owner", &[owner()]);
    depend("ConfigMap", NAMESPACE, "of-both", &[owner(), stays()]);
    depend("ConfigMap", NAMESPACE, "of-role", &[role()]);
    depend("ClusterRole", "", "garbage-of-role", &[role()]);
    depend("ClusterRole", "", "garbage-of-owner", &[owner()]);
    depend(
        "ConfigMap",
        NAMESPACE,
        "of-of-owner",
        &[("ConfigMap", "of-owner", uid("configmap", NAMESPACE, "of-owner"))],
    );
    // An owner in another namespace is none: what names only such a one is gone before anything is planned.
    depend("ConfigMap", "garbage-elsewhere", "of-elsewhere", &[owner()]);
    let collected = || Ok(!dependents().contains_key("ConfigMap/of-elsewhere"));
    cluster().wait_for("the dependent of an owner elsewhere to be collected", LIMIT, collected).unwrap();

    std::fs::remove_file(tree.join("owner.yaml")).unwrap();
    std::fs::remove_file(tree.join("role.yaml")).unwrap();
    let plan = document(&plan(&cluster(), NAMESPACE, &tree, &["--max-percent=100"]));
    let text = |row: &Value, pointer: &str| row.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let before = dependents();
    let going = plan["changes"].as_array().unwrap().iter().filter(|row| text(row, "/by") == "garbage-collector");
    let going: BTreeMap<String, String> = going
        .map(|row| (format!("{}/{}", text(row, "/object/kind"), text(row, "/object/name")), text(row, "/object/uid")))
        .collect();
    let names: Vec<&str> = going.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["ClusterRole/garbage-of-role", "ConfigMap/of-of-owner", "ConfigMap/of-owner", "ConfigMap/of-role"]
    );

    publish(&cluster(), NAMESPACE, &tree);
    let gone = || -> BTreeMap<String, String> {
        let after = dependents();
        before.iter().filter(|(name, _)| !after.contains_key(*name)).map(|(a, b)| (a.clone(), b.clone())).collect()
    };
    cluster().wait_for("what the plan says to be collected", LIMIT, || Ok(gone().len() >= going.len())).unwrap();
    // Long enough for the collector to look at what it leaves.
    std::thread::sleep(std::time::Duration::from_secs(5));
    assert_eq!(gone(), going);
}
