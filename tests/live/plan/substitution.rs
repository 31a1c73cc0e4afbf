//! Objects whose name is not a string after substitution, compared with the effect of the real controller.

use std::collections::BTreeMap;

use serde_json::Value;
use test_support::cluster::with_kustomize_controller;
use test_support::flux::{applied, settled};
use test_support::folder::folder;
use test_support::shared_cluster;
use test_support::tree_plan::{document, plan};

// The cluster of these tests, with kustomize-controller and an audit log.
shared_cluster!(with_kustomize_controller);

/// Values of the variable that is the name, and whether YAML 1.1 reads a text.
const VALUES: [(&str, bool); 10] = [
    ("yes", false),
    ("off", false),
    ("n", false),
    ("true", false),
    ("null", false),
    ("0123", false),
    ("089", false),
    ("1e3", false),
    ("2020-01-01", true),
    ("web", true),
];

#[test]
fn an_object_whose_name_is_no_text_is_left_out_and_pruned() {
    let (cluster, namespace, tree) = (&cluster(), "names", folder("names"));
    let manifest = |name: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: \"{name}\", namespace: names, labels: {{a: b}}}}\n")
    };
    cluster.kubectl(&["create", "namespace", namespace]).unwrap();
    let mut owners = String::new();
    for (value, _) in VALUES {
        std::fs::create_dir_all(tree.join(value)).unwrap();
        std::fs::write(tree.join(value).join("map.yaml"), manifest(&format!("before-{value}"))).unwrap();
        owners += &format!(
            "---\napiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\n\
             metadata: {{name: of-{value}, namespace: names}}\nspec:\n  interval: 1h\n  prune: true\n  path: ./{value}\n  \
             sourceRef: {{kind: GitRepository, name: src}}\n  postBuild: {{substitute: {{x: '{value}'}}}}\n"
        );
    }
    cluster.publish("GitRepository/names/src", &tree).unwrap();
    cluster.kubectl_stdin(&["apply", "-f", "-"], &owners).unwrap();
    VALUES.iter().for_each(|(value, _)| settled(cluster, namespace, &format!("of-{value}")));

    VALUES.iter().for_each(|(value, _)| std::fs::write(tree.join(value).join("map.yaml"), manifest("${x}")).unwrap());
    let plan = document(&plan(cluster, namespace, &tree, &["--max-percent=100"]));
    let text = |row: &Value, pointer: &str| row.pointer(pointer).unwrap().as_str().unwrap().to_owned();
    let changes = plan["changes"].as_array().unwrap().iter();
    let rows: BTreeMap<String, String> = changes.map(|row| (text(row, "/object/name"), text(row, "/action"))).collect();
    let revision = cluster.publish("GitRepository/names/src", &tree).unwrap();
    VALUES.iter().for_each(|(value, _)| applied(cluster, namespace, &format!("of-{value}"), &revision));
    let names = ["get", "configmaps", "-n", namespace, "-l", "a=b", "-o", "jsonpath={.items[*].metadata.name}"];
    let names = cluster.kubectl(&names).unwrap();
    let names: Vec<&str> = names.split_whitespace().collect();
    assert!(!names.iter().any(|name| name.starts_with("before-")), "{names:?}");
    for (value, is_text) in VALUES {
        assert_eq!(rows.get(&format!("before-{value}")).map(String::as_str), Some("delete"), "{value}: {rows:?}");
        let created = rows.get(value).map(String::as_str) == Some("create");
        assert_eq!((created, names.contains(&value)), (is_text, is_text), "{value}: {rows:?} {names:?}");
    }
}
