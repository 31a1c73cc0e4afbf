//! Values that a snapshot leaves out: a plan that needs them is incomplete and says how to get them.

use std::path::Path;

use kubectl_gitops::tools::snapshot_file;
use serde_json::{Value, json};
use test_support::fake_api::Answer;
use test_support::folder::Folder;
use test_support::gitops::{Run, command, gitops_as, gitops_without_kubeconfig};

use crate::prune::deletion::{CONFIG_MAPS, KUSTOMIZATIONS, cluster};

const FLUX: &str = "/apis/kustomize.toolkit.fluxcd.io/v1";

/// A Kustomization that lists ConfigMap `shop/old` and has more fields in its spec.
fn owner(more: Value) -> Value {
    let mut spec = json!({"prune": true, "path": "./apps", "interval": "1m",
        "sourceRef": {"kind": "GitRepository", "name": "repo"}});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "spec": spec,
        "metadata": {"name": "apps", "namespace": "flux-system", "uid": "o", "resourceVersion": "5", "generation": 1},
        "status": {"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True"}],
            "inventory": {"entries": [{"id": "shop_old__ConfigMap", "v": "v1"}]}}})
}

/// Records a cluster with the owner, and plans a tree with one ConfigMap whose name comes from a variable.
fn plan(folder: &Folder, spec: &Value, flags: &[&str], format: &str) -> Run {
    let api = cluster();
    let list = Answer::list("kustomize.toolkit.fluxcd.io/v1", "Kustomization", vec![owner(spec.clone())]);
    api.on(&format!("GET {FLUX}/kustomizations"), [list]);
    api.on(&format!("GET {FLUX}/namespaces/flux-system/kustomizations/apps"), [Answer::json(owner(spec.clone()))]);
    let source = json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
        "metadata": {"name": "repo", "namespace": "flux-system", "uid": "s", "resourceVersion": "1", "generation": 1},
        "spec": {"url": "https://example.invalid/fleet.git"}});
    let sources = Answer::list("source.toolkit.fluxcd.io/v1", "GitRepository", vec![source]);
    api.on("GET /apis/source.toolkit.fluxcd.io/v1/gitrepositories", [sources]);
    let sources = ("source.toolkit.fluxcd.io/v1", "GitRepository", "gitrepositories", true);
    api.serve_types(&[CONFIG_MAPS, KUSTOMIZATIONS, sources]);
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata":
        {"name": "old", "namespace": "shop", "uid": "u", "resourceVersion": "1", "labels": {
            "kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}}});
    let settings = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "flux-system", "uid": "v", "resourceVersion": "1"}});
    api.on("GET /api/v1/configmaps", [Answer::list("v1", "ConfigMap", vec![object, settings.clone()])]);
    let mut settings = settings;
    settings["data"] = json!({"NAME": "new", "URL": "https://u:p@example.invalid/?a=b"});
    api.on("GET /api/v1/namespaces/flux-system/configmaps/settings", [Answer::json(settings)]);
    let file = folder.path().join("cluster.json").display().to_string();
    let recorded = gitops_as(&api.kubeconfig(folder), &[&["snapshot", &file], flags].concat());
    assert!(recorded.stderr.contains("objects of"), "{recorded}");
    let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"${NAME}\", namespace: shop}\n";
    let tree = folder.write("tree/apps/a.yaml", manifest);
    let version = r#"case "$1" in version) echo '{"kustomizeVersion": "v5.8.1"}'; exit;; esac"#;
    let output = "apiVersion: v1\\nkind: ConfigMap\\nmetadata:\\n  name: ${NAME}\\n  namespace: shop\\n";
    let program = folder.script("kubectl", &format!("{version}; printf '{output}'")).display().to_string();
    let source = format!("--source=GitRepository/flux-system/repo={}", tree.ancestors().nth(2).unwrap().display());
    let words = ["prune", "--plan", "--snapshot", &file, &source, "--kustomize", &program, "--max-percent=100", "-o"];
    gitops_without_kubeconfig(folder.path(), &[&words[..], &[format]].concat())
}

#[test]
fn the_order_of_objects_in_a_snapshot_changes_no_answer() {
    let folder = Folder::outside_checkouts("order");
    let example = "examples/shop.json.gz";
    let recorded = snapshot_file::read(Path::new(example)).unwrap();
    let mut edited = serde_json::to_value(&recorded).unwrap();
    for list in ["types", "objects", "full"] {
        edited[list].as_array_mut().unwrap().reverse();
    }
    let file = folder.write("edited.json", edited.to_string()).display().to_string();
    for words in [&["prune", "--plan", "-o", "json"][..], &["inventory", "-o", "json"], &["get", "-A", "-o", "json"]] {
        let ask = |file: &str| Run::of(&mut command(&[words, &["--snapshot", file]].concat()));
        let (whole, other) = (ask(example), ask(&file));
        assert_eq!((other.code, other.stdout), (whole.code, whole.stdout), "{words:?}: {}", other.stderr);
    }
}

/// Reads variables from a ConfigMap or Secret.
fn variables_from(kind: &str, name: &str) -> Value {
    json!({"postBuild": {"substituteFrom": [{"kind": kind, "name": name}]}})
}

#[test]
fn a_recording_says_which_data_does_not_exist_and_which_it_does_not_hold() {
    let unheld = "cannot be read: the snapshot does not hold it: plan with the cluster, or record with --with-values";
    for (flags, kind, name, code, outcome, detail) in [
        (&["--with-values"][..], "ConfigMap", "none", 6, "blocked", "does not exist"),
        (&[], "ConfigMap", "settings", 5, "unknown", unheld),
        (
            &["--with-values"],
            "Secret",
            "settings",
            5,
            "unknown",
            "cannot be read: a snapshot holds no data of Secrets: plan with the cluster",
        ),
    ] {
        let folder = Folder::outside_checkouts("snapshot-variables");
        let json = plan(&folder, &variables_from(kind, name), flags, "json");
        let document: Value = serde_json::from_str(&json.stdout).unwrap();
        assert_eq!((json.code, &document["owners"][0]["outcome"]), (code, &json!(outcome)), "{json}");
        let expected = format!("substituteFrom {kind}/{name} {detail}");
        assert!(document["owners"][0]["reason"]["detail"].as_str().unwrap().starts_with(&expected), "{json}");
    }
}

#[test]
fn a_plan_from_a_snapshot_without_the_values_it_needs_is_incomplete() {
    let patch =
        json!([{"patch": "[{op: replace, path: /metadata/name, value: new}]", "target": {"kind": "ConfigMap"}}]);
    for (field, spec) in [
        ("postBuild.substitute", json!({"postBuild": {"substitute": {"NAME": "new"}}})),
        ("patches", json!({"patches": patch})),
    ] {
        let folder = Folder::outside_checkouts("snapshot-values");
        let json = plan(&folder, &spec, &[], "json");
        assert_eq!(json.code, 5, "{field}: {json}");
        let document: Value = serde_json::from_str(&json.stdout).unwrap();
        assert_eq!(document["complete"], false, "{field}: {json}");
        let reason = &document["owners"][0]["reason"];
        assert_eq!(reason["code"], "spec-not-recorded", "{field}: {json}");
        let detail = reason["detail"].as_str().unwrap();
        assert!(detail.starts_with(&format!("the snapshot has no value of spec.{field}")), "{field}: {json}");
        assert!(detail.contains("plan with the cluster, or record it with --with-values"), "{field}: {json}");
        assert_eq!(document["owners"][0]["outcome"], "unknown", "{field}: {json}");
        assert_eq!(document["summary"]["delete"], 0, "{field}: {json}");
        for format in ["table", "markdown", "yaml"] {
            let run = plan(&folder, &spec, &[], format);
            assert!(run.code == 5 && run.stdout.contains("spec-not-recorded"), "{field} {format}: {run}");
        }
        let run = plan(&folder, &spec, &["--with-values"], "json");
        assert!(!run.stdout.contains("spec-not-recorded"), "{field}: {run}");
    }
}

#[test]
fn a_plan_from_a_snapshot_with_the_values_shows_the_deletion() {
    for spec in [json!({"postBuild": {"substitute": {"NAME": "new"}}}), variables_from("ConfigMap", "settings")] {
        let folder = Folder::outside_checkouts("snapshot-values");
        let run = plan(&folder, &spec, &["--with-values"], "json");
        let document: Value = serde_json::from_str(&run.stdout).unwrap();
        let rows = document["changes"].as_array().unwrap();
        let mut rows: Vec<_> = rows.iter().map(|row| (row["action"].clone(), row["object"]["name"].clone())).collect();
        rows.sort_by_key(|(_, name)| name.to_string());
        assert_eq!(rows, [(json!("create"), json!("new")), (json!("delete"), json!("old"))], "{spec}: {run}");
    }
}
