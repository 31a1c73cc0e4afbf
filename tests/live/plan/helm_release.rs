//! Deletions with an owner that is not a plain Kustomization: a HelmRelease that leaves the tree, compared with the
//! real helm-controller; and a Kustomization whose inventory cannot be read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use test_support::cluster::LIMIT;
use test_support::flux::{applied, deploy, settled};
use test_support::folder::{Folder, folder};
use test_support::gitops::{Run, gitops};
use xtask::cluster::{Cluster, Flux, Options};
use xtask::controlplane::bin;

fn plan(cluster: &Cluster, namespace: &str, tree: &Path) -> Run {
    let source = format!("--source=GitRepository/{namespace}/src={}", tree.display());
    let kustomize = format!("--kustomize={}", bin("kustomize").display());
    gitops(cluster, &["prune", "--plan", "-o", "json", &source, &kustomize])
}

/// A chart with a definition in `crds/`, two ConfigMaps of which one is kept, a Deployment and an object outside of its
/// namespace.
fn chart() -> PathBuf {
    let files = [
        ("Chart.yaml", "apiVersion: v2\nname: web\nversion: 0.1.0\n"),
        (
            "crds/cogs.yaml",
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: cogs.release.example.com}\n\
             spec:\n  group: release.example.com\n  scope: Namespaced\n  names: {kind: Cog, plural: cogs, singular: cog, listKind: CogList}\n  \
             versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]\n",
        ),
        ("templates/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"),
        (
            "templates/kept.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept, annotations: {helm.sh/resource-policy: keep}}\n",
        ),
        (
            "templates/role.yaml",
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: release-web}\nrules: []\n",
        ),
        (
            "templates/web.yaml",
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 0\n  \
             selector: {matchLabels: {a: web}}\n  template:\n    metadata: {labels: {a: web}}\n    \
             spec: {containers: [{name: c, image: i}]}\n",
        ),
    ];
    packed("web", &files)
}

/// The archive of a chart.
pub(super) fn packed(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder = folder(&format!("chart-{name}"));
    for (path, content) in files {
        let path = folder.join(name).join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let file = folder.join(format!("{name}-0.1.0.tgz"));
    let packed = Command::new("tar").arg("-C").arg(&folder).arg("-czf").arg(&file).arg(name).status().unwrap();
    assert!(packed.success());
    file
}

/// Everything with its uid, but Events.
fn uids(cluster: &Cluster) -> BTreeMap<String, String> {
    let types = cluster.kubectl(&["api-resources", "--verbs=list,delete", "-o", "name"]).unwrap();
    let types: Vec<&str> = types.lines().filter(|name| !name.starts_with("events")).collect();
    let list = cluster.kubectl(&["get", &types.join(","), "-A", "-o", "json"]).unwrap();
    let list: Value = serde_json::from_str(&list).unwrap();
    let text = |item: &Value, key: &str| item["metadata"][key].as_str().unwrap_or_default().to_owned();
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|item| (text(item, "uid"), format!("{}/{}", item["kind"].as_str().unwrap(), text(item, "name"))))
        .collect()
}

fn cluster() -> Cluster {
    Cluster::up(Options { flux: Flux::All, ..Options::default() }).expect("the test cluster comes up")
}

#[test]
fn a_release_that_leaves_the_tree_deletes_what_was_planned() {
    let (cluster, namespace, tree) = (&cluster(), "releases", folder("release-tree"));
    cluster.kubectl(&["create", "namespace", namespace]).unwrap();
    cluster.publish(&format!("OCIRepository/{namespace}/web"), chart()).unwrap();
    std::fs::write(tree.join("other.yaml"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n").unwrap();
    std::fs::write(
        tree.join("release.yaml"),
        "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: web}\n\
         spec: {interval: 1h, chartRef: {kind: OCIRepository, name: web}}\n",
    )
    .unwrap();
    // A second release from a chart repository, whose HelmChart helm-controller makes and removes.
    let index = cluster.dir().join("artifacts/charts/index.yaml");
    std::fs::create_dir_all(index.parent().unwrap()).unwrap();
    let direct = [
        ("Chart.yaml", "apiVersion: v2\nname: direct\nversion: 0.1.0\n"),
        ("templates/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: direct}\n"),
    ];
    std::fs::copy(packed("direct", &direct), index.with_file_name("direct-0.1.0.tgz")).unwrap();
    let entries = "direct: [{apiVersion: v2, name: direct, version: 0.1.0, urls: [direct-0.1.0.tgz]}]";
    let text = format!("apiVersion: v1\nentries: {{{entries}}}\ngenerated: \"2026-01-01T00:00:00Z\"\n");
    std::fs::write(&index, text).unwrap();
    let path = "jsonpath={.status.artifact.url}";
    let url = cluster.kubectl(&["get", "ocirepository", "web", "-n", namespace, "-o", path]).unwrap();
    let url = format!("{}charts/", url.split_inclusive("/artifacts/").next().unwrap());
    let repository = format!(
        "apiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository\nmetadata: {{name: charts, namespace: {namespace}}}\n\
         spec: {{interval: 1h, url: '{url}'}}\n"
    );
    cluster.kubectl_stdin(&["apply", "-f", "-"], &repository).unwrap();
    std::fs::write(
        tree.join("direct.yaml"),
        "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: direct}\n\
         spec: {interval: 1h, uninstall: {keepHistory: true}, \
         chart: {spec: {chart: direct, sourceRef: {kind: HelmRepository, name: charts}}}}\n",
    )
    .unwrap();
    deploy(cluster, namespace, &tree);
    let path = "jsonpath={.items[*].status.conditions[?(@.type==\"Ready\")].status}";
    let ready = || Ok(cluster.kubectl(&["get", "helmreleases", "-n", namespace, "-o", path])? == "True True");
    cluster.wait_for("the releases to be installed", LIMIT, ready).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let before = uids(cluster);

    std::fs::remove_file(tree.join("release.yaml")).unwrap();
    std::fs::remove_file(tree.join("direct.yaml")).unwrap();
    let run = plan(cluster, namespace, &tree);
    let document: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"));
    let rows = |action: &str| -> BTreeMap<String, String> {
        let rows = document["changes"].as_array().unwrap().iter().filter(|row| row["action"] == action);
        let text = |row: &Value, pointer: &str| row.pointer(pointer).unwrap().as_str().unwrap().to_owned();
        rows.map(|row| {
            (text(row, "/object/uid"), format!("{}/{}", text(row, "/object/kind"), text(row, "/object/name")))
        })
        .collect()
    };
    let revision = cluster.publish(&format!("GitRepository/{namespace}/src"), &tree).unwrap();
    applied(cluster, namespace, "apps", &revision);
    let gone = || Ok(cluster.kubectl(&["get", "helmreleases", "-A", "-o", "name"])?.is_empty());
    cluster.wait_for("the releases to be uninstalled", LIMIT, gone).unwrap();
    std::thread::sleep(Duration::from_secs(5));
    let after = uids(cluster);
    let went: BTreeMap<String, String> = before.into_iter().filter(|(uid, _)| !after.contains_key(uid)).collect();
    assert_eq!(rows("delete"), went, "{}", run.stderr);
    let names: Vec<&str> = went.values().map(String::as_str).collect();
    for expected in [
        "HelmRelease/web",
        "ConfigMap/a",
        "Deployment/web",
        "ClusterRole/release-web",
        "Secret/sh.helm.release.v1.web.v1",
        "HelmChart/releases-direct",
        "ConfigMap/direct",
    ] {
        assert!(names.contains(&expected), "{expected} did not go: {names:?}");
    }
    assert_eq!(rows("unknown").len(), 0);
    let kept: Vec<String> = rows("keep").into_values().collect();
    for expected in ["CustomResourceDefinition/cogs.release.example.com", "ConfigMap/kept"] {
        assert!(kept.iter().any(|name| name == expected), "{expected}: {kept:?}");
    }
}

#[test]
fn an_unreadable_inventory_is_named_and_nothing_of_it_is_deleted() {
    let cluster =
        Cluster::up(Options { flux: Flux::Kustomize, ..Options::default() }).expect("the test cluster comes up");
    let (namespace, tree) = ("unreadable", folder("release-unreadable"));
    cluster.kubectl(&["create", "namespace", namespace]).unwrap();
    for name in ["a", "b"] {
        let manifest = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
        std::fs::write(tree.join(format!("{name}.yaml")), manifest).unwrap();
    }
    deploy(&cluster, namespace, &tree);
    let entries =
        r#"{"status":{"inventory":{"entries":[{"id":"unreadable_a__ConfigMap","v":"v1"},{"id":"broken","v":"v1"}]}}}"#;
    let patch =
        ["patch", "kustomization", "apps", "-n", namespace, "--subresource=status", "--type=merge", "-p", entries];
    cluster.kubectl(&patch).unwrap();
    std::fs::remove_file(tree.join("a.yaml")).unwrap();
    let run = plan(&cluster, namespace, &tree);
    let document: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"));
    let owner = &document["owners"][0];
    assert_eq!(owner["outcome"], "blocked");
    assert!(owner["reason"]["detail"].as_str().unwrap().starts_with("its inventory is unreadable: "), "{owner}");
    assert_eq!(document["summary"]["delete"], 0);
    let revision = cluster.publish(&format!("GitRepository/{namespace}/src"), &tree).unwrap();
    let path = "jsonpath={.status.lastAttemptedRevision} {.status.conditions[?(@.type==\"Ready\")]}";
    let failed = || {
        let found = cluster.kubectl(&["get", "kustomization", "apps", "-n", namespace, "-o", path])?;
        Ok(found.contains(revision.trim()) && found.contains("\"status\":\"False\""))
    };
    cluster.wait_for("the controller to fail", LIMIT, failed).unwrap();
    settled(&cluster, namespace, "apps");
    let left = cluster.kubectl(&["get", "configmaps", "-n", namespace, "-o", "name"]).unwrap();
    assert!(left.contains("configmap/a") && left.contains("configmap/b"), "{left}");
    // The next run has forgotten what only the broken record listed.
    let path = "jsonpath={.status.inventory.entries[*].id}";
    let listed = cluster.kubectl(&["get", "kustomization", "apps", "-n", namespace, "-o", path]).unwrap();
    assert_eq!(listed, "unreadable_b__ConfigMap");
}

#[test]
fn a_handover_from_a_release_to_a_kustomization_keeps_every_uid() {
    let (cluster, namespace, tree) = (&cluster(), "helm-to-ks", Folder::outside_checkouts("helm-to-ks"));
    cluster.kubectl(&["create", "namespace", namespace]).unwrap();
    let files = [
        ("Chart.yaml", "apiVersion: v2\nname: moved\nversion: 0.1.0\n"),
        ("templates/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: moved}\ndata: {a: b}\n"),
    ];
    cluster.publish(&format!("OCIRepository/{namespace}/moved"), packed("moved", &files)).unwrap();
    let write = |path: &str, text: &str| std::fs::write(tree.path().join(path), text).unwrap();
    tree.git(&["init", "-q", "-b", "main"]);
    tree.git(&["remote", "add", "origin", &format!("https://example.invalid/{namespace}.git")]);
    std::fs::create_dir(tree.path().join("root")).unwrap();
    let release = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata:\n  name: moved\n  namespace: helm-to-ks\n\
                   spec:\n  interval: 1h\n  chartRef:\n    kind: OCIRepository\n    name: moved\n";
    write("root/release.yaml", release);
    write("root/other.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other, namespace: helm-to-ks}\n");
    let commit = || {
        tree.git(&["add", "-A"]);
        tree.git(&["commit", "-q", "--allow-empty", "-m", "change"]);
    };
    let publish = || cluster.publish(&format!("GitRepository/{namespace}/{namespace}"), tree.path()).unwrap();
    commit();
    let root = format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: root, namespace: {namespace}}}\n\
         spec: {{interval: 1h, path: ./root, prune: true, sourceRef: {{kind: GitRepository, name: {namespace}}}}}\n"
    );
    let revision = publish();
    cluster.kubectl_stdin(&["apply", "-f", "-"], &root).unwrap();
    cluster.wait_until_applied(namespace, "root", &revision, LIMIT).unwrap();
    let uid = || cluster.kubectl(&["get", "configmap", "moved", "-n", namespace, "-o", "jsonpath={.metadata.uid}"]);
    cluster.wait_for("the release", LIMIT, || Ok(uid().is_ok())).unwrap();
    let ready = ["wait", "--for=condition=Ready", "helmrelease/moved", "-n", namespace, "--timeout=60s"];
    cluster.kubectl(&ready).unwrap();
    let first = uid().unwrap();
    tree.git(&["checkout", "-q", "-b", "feature"]);
    tree.git(&["rm", "-q", "root/release.yaml"]);
    write(
        "root/moved.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: moved, namespace: helm-to-ks}\ndata: {a: b}\n",
    );
    commit();
    tree.git(&["checkout", "-q", "main"]);
    let (kustomize, patches) = (bin("kustomize"), folder("helm-to-ks-patches"));
    let words = ["handover", "--repo", tree.path().to_str().unwrap(), "--to", "feature", "-o", "json"];
    let more = ["--kustomize", kustomize.to_str().unwrap(), "--write", patches.to_str().unwrap()];
    let run = gitops(cluster, &[&words[..], &more].concat());
    assert_eq!(run.code, 0, "{run:?}");
    let document: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(document["steps"].as_array().unwrap().len(), 2, "{run:?}");
    tree.git(&["apply", patches.join("step-1.patch").to_str().unwrap()]);
    commit();
    cluster.wait_until_applied(namespace, "root", &publish(), LIMIT).unwrap();
    tree.git(&["rm", "-rqf", "."]);
    tree.git(&["checkout", "feature", "--", "."]);
    commit();
    cluster.wait_until_applied(namespace, "root", &publish(), LIMIT).unwrap();
    let gone = || Ok(cluster.kubectl(&["get", "helmrelease", "moved", "-n", namespace]).is_err());
    cluster.wait_for("the HelmRelease to go", LIMIT, gone).unwrap();
    assert_eq!(uid().unwrap(), first, "{run:?}");
}
