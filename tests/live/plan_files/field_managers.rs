//! Entries of `managedFields` on the real API server: which of them prove that kustomize-controller wrote the labels of an
//! object (docs/reference/ownership.md 1.1). Everyone who may update an object can write such entries.

use serde_json::{Value, json};
use test_support::gitops::gitops;
use xtask::cluster::Cluster;

use super::{applied, apply, reconcile, with_leaks};

const NAMESPACE: &str = "written";

/// A ConfigMap, the change of its entry, and its row in a plan; empty if nothing deletes it.
type Case = (&'static str, fn(&mut Value), &'static str);

/// Changes an entry of `managedFields` of a ConfigMap by an update. The server ignores an update of a time alone, so the
/// data changes too.
fn forge(cluster: &Cluster, name: &str, change: fn(&mut Value)) {
    let get = ["get", "configmap", name, "-n", NAMESPACE, "-o", "json", "--show-managed-fields"];
    let mut object: Value = serde_json::from_str(&cluster.kubectl(&get).unwrap()).unwrap();
    change(&mut object["metadata"]["managedFields"][0]);
    object["data"] = json!({"changed": "yes"});
    cluster.kubectl_stdin(&["replace", "-f", "-"], &object.to_string()).unwrap();
}

/// Rows of the ConfigMaps `cm-…` in a plan, such as `delete leaked`.
fn rows(cluster: &Cluster) -> Vec<(String, String)> {
    let run = gitops(cluster, &["prune", "--plan", "-n", NAMESPACE, "--max-percent=100", "-o", "json"]);
    assert_eq!(run.code, 0, "{run}");
    let plan: Value = serde_json::from_str(&run.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rows = plan["changes"].as_array().unwrap().iter();
    rows.map(|row| (text(&row["object"]["name"]), format!("{} {}", text(&row["action"]), text(&row["reason"]["code"]))))
        .collect()
}

#[test]
fn an_entry_proves_who_wrote_a_label_only_if_its_operation_subresource_and_time_fit() {
    let cluster = &with_leaks(NAMESPACE, 0);
    let cases: [Case; 6] = [
        ("cm-real", |_| (), "delete leaked"),
        ("cm-manager", |entry| entry["manager"] = json!("some-operator"), ""),
        ("cm-update", |entry| entry["operation"] = json!("Update"), ""),
        ("cm-status", |entry| entry["subresource"] = json!("status"), ""),
        ("cm-old", |entry| entry["time"] = json!("2020-01-01T00:00:00Z"), ""),
        ("cm-new", |entry| entry["time"] = json!("2099-01-01T00:00:00Z"), "keep owner-untrusted"),
    ];
    apply(cluster, cases.map(|(name, ..)| applied(NAMESPACE, "v1", "ConfigMap", NAMESPACE, name)).to_vec());
    reconcile(cluster, NAMESPACE, &["stays"]);
    let before = rows(cluster);
    assert_eq!(before.iter().filter(|(_, row)| row == "delete leaked").count(), cases.len(), "{before:?}");
    for (name, change, _) in cases {
        forge(cluster, name, change);
    }
    let after = rows(cluster);
    for (name, _, expected) in cases {
        let row = after.iter().find(|(known, _)| known == name).map(|(_, row)| &**row).unwrap_or_default();
        xtask::say(format!("{name:12} {row}"));
        assert!(row == expected || (expected.is_empty() && !row.starts_with("delete")), "{name}: {row}: {after:?}");
    }
}
