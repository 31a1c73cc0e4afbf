//! Objects that the tools themselves list as theirs, beside the table of truth.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;
use test_support::suspension::read;

use super::truth::Row;
use super::{cluster, tools};

/// Asks every real tool for its objects.
pub(crate) fn compare(truth: &[Row]) {
    let of = |owner: &str| -> BTreeSet<String> {
        let own = truth.iter().filter(|row| ["managed", "conflict"].contains(&row.status.as_str()));
        let own = own.filter(|row| row.owners.iter().any(|other| other == owner));
        own.map(|row| format!("{} {}", row.namespace, row.name)).collect()
    };
    let without = |mut all: BTreeSet<String>, these: &[&str]| {
        for row in these {
            assert!(all.remove(*row), "{row} is not in {all:?}");
        }
        all
    };
    assert_eq!(inventory("kustomization", "flux", "apps"), of("flux:flux/Kustomization/apps"));
    assert_eq!(inventory("kustomization", "shared", "shared"), of("flux:shared/Kustomization/shared"));
    assert_eq!(inventory("hr", "flux", "nested"), of("flux:flux/HelmRelease/nested"));
    // Hooks are in no record.
    let web = without(of("flux:release/HelmRelease/web"), &["release ConfigMap/hook"]);
    assert_eq!(inventory("hr", "release", "web"), web);
    // Its record is not read, so what is not in it is not seen.
    let plain = without(of("helm:helm/Release/plain"), &["helm ConfigMap/kept", "helm ConfigMap/twin"]);
    assert_eq!(manifest("helm", "plain"), plain);
    assert_eq!(manifest("release", "freed"), of("helm:release/Release/freed"));
    assert_eq!(kapp(), of("kapp:kapp/App/shop"));
    // listed is what the set is applied with. Both tools go by the labels alone, so they delete copies, too.
    let set = without(of("applyset:applyset/Secret/set"), &["applyset ConfigMap/listed"]);
    assert_eq!(without(tools::pruned_by_applyset(), &["applyset ConfigMap/twin"]), set);
    let copies = ["ConfigMap/child", "ConfigMap/twin", "Secret/child"].map(|name| format!("qbec {name}"));
    let copies: Vec<&str> = copies.iter().map(String::as_str).collect();
    assert_eq!(without(tools::deleted_by_qbec(), &copies), of("qbec:-/App/qbec/dev"));
}

/// `status.inventory` of one of Flux's objects.
fn inventory(kind: &str, namespace: &str, name: &str) -> BTreeSet<String> {
    let object = read(&cluster(), kind, namespace, name);
    let entries = object["status"]["inventory"]["entries"].as_array().unwrap().iter();
    let entry = |entry: &Value| {
        let words: Vec<&str> = entry["id"].as_str().unwrap().split('_').collect();
        format!("{} {}/{}", words[0], words[3], words[1])
    };
    entries.map(entry).collect()
}

/// Objects that Helm lists in its record of a release.
fn manifest(namespace: &str, release: &str) -> BTreeSet<String> {
    let text = tools::run("helm", &format!("get manifest {release} -n {namespace}"));
    let documents = serde_yaml::Deserializer::from_str(&text).map(|document| Value::deserialize(document).unwrap());
    let documents = documents.filter(|document| !document.is_null());
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    documents.map(|one| format!("{namespace} {}/{}", word(&one["kind"]), word(&one["metadata"]["name"]))).collect()
}

/// Objects that `kapp inspect` lists as owned by kapp; objects of controllers are owned by the cluster there.
fn kapp() -> BTreeSet<String> {
    let answer: Value = serde_json::from_str(&tools::run("kapp", "inspect -a shop -n kapp --json")).unwrap();
    let rows = answer["Tables"][0]["Rows"].as_array().unwrap().iter().filter(|row| row["owner"] == "kapp");
    let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
    rows.map(|row| format!("{} {}/{}", text(row, "namespace"), text(row, "kind"), text(row, "name"))).collect()
}
