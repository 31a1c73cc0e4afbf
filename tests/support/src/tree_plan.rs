//! Plans of a tree that is the source `src` of a namespace, with the kustomize that Flux links.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use xtask::cluster::Cluster;
use xtask::controlplane::bin;

use crate::gitops::{Run, gitops};

/// The command line, with more flags at its end.
pub fn arguments(namespace: &str, tree: &Path, more: &[&str]) -> Vec<String> {
    let source = format!("--source=GitRepository/{namespace}/src={}", tree.display());
    let kustomize = format!("--kustomize={}", bin("kustomize").display());
    let fixed = ["prune", "--plan", "-n", namespace, &source, &kustomize, "-o", "json"];
    fixed.iter().chain(more).map(|word| (*word).to_owned()).collect()
}

pub fn plan(cluster: &Cluster, namespace: &str, tree: &Path, more: &[&str]) -> Run {
    let words = arguments(namespace, tree, more);
    gitops(cluster, &words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The plan as JSON.
pub fn document(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"))
}

/// The reason of an owner or a row: `code`, or `code: detail`.
pub fn reason(row: &Value) -> String {
    let text = |pointer: &str| row.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    match (text("/reason/code"), text("/reason/detail")) {
        (code, "") => code.to_owned(),
        (code, detail) => format!("{code}: {detail}"),
    }
}

/// `ACTION KIND/NAME` to reason; an action that is a race has a question mark.
pub fn rows(run: &Run) -> BTreeMap<String, String> {
    let text = |row: &Value, pointer: &str| row.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let row = |row: &Value| {
        let race = if row["certainty"] == "race" { "?" } else { "" };
        let (action, kind) = (text(row, "/action"), text(row, "/object/kind"));
        (format!("{action}{race} {kind}/{}", text(row, "/object/name")), reason(row))
    };
    document(run)["changes"].as_array().unwrap().iter().map(row).collect()
}
