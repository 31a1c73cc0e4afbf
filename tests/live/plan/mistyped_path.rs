//! The disaster that this project starts from, on the real control plane: one mistyped path over six nested
//! applications with namespaces of their own. The plan of the commit raises the alarm and lists everything; then the
//! commit is merged for real, and exactly the uids of the plan are gone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use test_support::cluster::with_kustomize_controller;
use test_support::folder::{folder, reports};
use test_support::gitops::{Run, gitops};
use test_support::shared_cluster;
use xtask::cluster::Cluster;
use xtask::controlplane::bin;

// The cluster of these tests, with kustomize-controller and an audit log.
shared_cluster!(with_kustomize_controller);

const APPLICATIONS: [&str; 6] = ["billing", "cart", "checkout", "mail", "search", "web"];

/// Time without a change after which the cluster counts as settled.
const QUIET: Duration = Duration::from_secs(8);

fn kustomization(name: &str, path: &str) -> String {
    format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: {name}, namespace: fleet}}\n\
         spec:\n  interval: 10m\n  retryInterval: 2s\n  path: {path}\n  prune: true\n  \
         sourceRef: {{kind: GitRepository, name: fleet}}\n"
    )
}

/// Manifests of one application: its namespace and the objects in it, and an object in another namespace.
fn application(name: &str) -> String {
    let meta = format!("metadata: {{name: {name}, namespace: {name}}}");
    [
        format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n"),
        format!("apiVersion: v1\nkind: ConfigMap\n{meta}\ndata: {{a: b}}\n"),
        format!("apiVersion: v1\nkind: Secret\n{meta}\nstringData: {{token: x}}\n"),
        format!("apiVersion: v1\nkind: ServiceAccount\n{meta}\n"),
        format!("apiVersion: v1\nkind: Service\n{meta}\nspec: {{clusterIP: None, ports: [{{port: 80}}]}}\n"),
        format!(
            "apiVersion: apps/v1\nkind: Deployment\n{meta}\nspec:\n  replicas: 2\n  selector: {{matchLabels: {{a: {name}}}}}\n  \
             template:\n    metadata: {{labels: {{a: {name}}}}}\n    spec: {{containers: [{{name: c, image: i}}]}}\n"
        ),
        format!("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {{name: fleet-{name}}}\nrules: []\n"),
    ]
    .join("---\n")
}

fn write(tree: &Path, path: &str, content: &str) {
    let path = tree.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

fn git(tree: &Path, arguments: &[&str]) {
    xtask::git::run(tree, arguments).unwrap();
}

fn commit(cluster: &Cluster, tree: &Path) {
    test_support::folder::commit(tree);
    cluster.publish("GitRepository/fleet/fleet", tree).unwrap();
}

/// Every object of the cluster by uid, as kubectl sees it, and a text that moves while something is going on. Events
/// come and go by themselves.
fn read(cluster: &Cluster) -> (BTreeMap<String, String>, String) {
    let types = cluster.kubectl(&["api-resources", "--verbs=list,delete", "-o", "name"]).unwrap();
    let types: Vec<&str> = types.lines().filter(|name| !name.starts_with("events")).collect();
    let list = cluster.kubectl(&["get", &types.join(","), "-A", "-o", "json"]).unwrap();
    let list: Value = serde_json::from_str(&list).unwrap();
    let (mut objects, mut moving) = (BTreeMap::new(), String::new());
    for item in list["items"].as_array().unwrap() {
        let text = |pointer: &str| item.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let id = format!("{}/{} -n {}", text("/kind"), text("/metadata/name"), text("/metadata/namespace"));
        if !text("/metadata/deletionTimestamp").is_empty()
            || item.pointer("/status/conditions/0/reason") == Some(&"Progressing".into())
        {
            moving += &id;
        }
        moving += text("/status/lastAppliedRevision");
        objects.insert(text("/metadata/uid").to_owned(), id);
    }
    (objects, moving)
}

/// Waits until nothing has changed for a while and gives what is there.
fn settled(cluster: &Cluster) -> BTreeMap<String, String> {
    let end = Instant::now() + Duration::from_secs(180);
    let (mut last, mut since) = (read(cluster), Instant::now());
    while since.elapsed() < QUIET {
        assert!(Instant::now() < end, "the cluster did not come to rest within 180 s");
        std::thread::sleep(Duration::from_millis(500));
        let now = read(cluster);
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    last.0
}

fn plan(cluster: &Cluster, tree: &Path, more: &[&str]) -> Run {
    let kustomize = bin("kustomize");
    let mut args =
        vec!["prune", "--plan", "--repo", tree.to_str().unwrap(), "--kustomize", kustomize.to_str().unwrap()];
    args.extend(more);
    gitops(cluster, &args)
}

/// Uids that a plan says will go, with what they are.
fn planned(run: &Run) -> BTreeMap<String, String> {
    let plan: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"));
    assert_eq!(plan["complete"], true, "{}", run.stderr);
    let going = plan["changes"].as_array().unwrap().iter().filter(|row| row["action"] == "delete");
    let row = |row: &Value| {
        let text = |pointer: &str| row.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        assert_eq!(row["certainty"], "certain", "{row}");
        let id = format!("{}/{} -n {}", text("/object/kind"), text("/object/name"), text("/object/namespace"));
        (text("/object/uid"), id)
    };
    going.map(row).collect()
}

#[test]
fn a_mistyped_path_deletes_exactly_what_was_planned() {
    let cluster = &cluster();
    let tree = folder("disaster");
    git(&tree, &["init", "-q", "-b", "main"]);
    git(&tree, &["remote", "add", "origin", "git@example.invalid:fleet.git"]);
    write(&tree, "clusters/prod/applications.yaml", &kustomization("applications", "./apps"));
    write(&tree, "aps/README.md", "notes on the applications\n");
    for name in APPLICATIONS {
        write(&tree, &format!("apps/{name}.yaml"), &kustomization(name, &format!("./deploy/{name}")));
        write(&tree, &format!("deploy/{name}/all.yaml"), &application(name));
    }
    cluster.kubectl(&["create", "namespace", "fleet"]).unwrap();
    commit(cluster, &tree);
    cluster.kubectl_stdin(&["apply", "-f", "-"], &kustomization("root", "./clusters/prod")).unwrap();
    cluster
        .wait_for("six applications with two pods each", Duration::from_secs(120), || {
            Ok(cluster.kubectl(&["get", "pods", "-A", "-o", "name"])?.lines().count() == 2 * APPLICATIONS.len())
        })
        .unwrap();
    let before = settled(cluster);

    // What is merged is what is there: nothing would change.
    let quiet = plan(cluster, &tree, &[]);
    let lines: Vec<&str> = quiet.stderr.lines().collect();
    assert!(lines.len() == 2 && lines[0].starts_with("planning "), "{lines:?}");
    assert_eq!((quiet.code, lines[1]), (0, "no changes"), "{}", quiet.stdout);

    write(&tree, "clusters/prod/applications.yaml", &kustomization("applications", "./aps"));
    let alarm = plan(cluster, &tree, &[]);
    assert_eq!(alarm.code, 6, "{alarm:?}");
    let words =
        "error: this deletes 100 % of kustomization/applications -n fleet: its path ./aps contains no manifests";
    let said: Vec<&str> = alarm.stderr.lines().skip_while(|line| !line.starts_with("error: ")).collect();
    assert_eq!(said[0], words, "{}", alarm.stderr);
    let along = APPLICATIONS.map(|name| format!("kustomization/{name} -n fleet")).join(", ");
    assert_eq!(said[1].trim(), format!("this deletes 6 owners and their objects: {along}"));
    assert!(alarm.stderr.contains("hint: "), "{}", alarm.stderr);
    let run = plan(cluster, &tree, &["-o", "json"]);
    assert_eq!(run.code, 6);
    let expected = planned(&run);
    for name in APPLICATIONS {
        let of = format!("-n {name}");
        let inside = expected.values().filter(|id| id.ends_with(&of)).count();
        // ConfigMap, Secret, ServiceAccount and `default`, Service, Deployment, ReplicaSet and its two Pods.
        assert!(inside >= 9, "{name}: {inside}");
        for id in [
            format!("Kustomization/{name} -n fleet"),
            format!("Namespace/{name} -n "),
            format!("ClusterRole/fleet-{name} -n "),
        ] {
            assert!(expected.values().any(|found| *found == id), "{id} is not in the plan");
        }
    }

    let comment = plan(cluster, &tree, &["-o", "markdown"]);
    let first = comment.stdout.lines().next().unwrap_or_default();
    assert!(first.starts_with("🛑 **Alarm:** `this deletes 100 %"), "{first}");
    assert!(comment.code == 6 && comment.stdout.len() < 60_000, "{comment:?}");

    commit(cluster, &tree);
    let namespaces = || Ok(!cluster.kubectl(&["get", "namespaces", "-o", "name"])?.contains("namespace/web"));
    cluster.wait_for("the namespaces to go", Duration::from_secs(120), namespaces).unwrap();
    let after = settled(cluster);
    let gone: BTreeMap<_, _> = before.iter().filter(|(uid, _)| !after.contains_key(*uid)).collect();
    let uids = |map: &BTreeMap<String, String>| map.keys().cloned().collect::<BTreeSet<_>>();
    let gone_uids: BTreeSet<String> = gone.keys().map(|uid| (*uid).clone()).collect();
    let unexpected: Vec<_> = gone.iter().filter(|(uid, _)| !expected.contains_key(**uid)).collect();
    let survived: Vec<_> = expected.iter().filter(|(uid, _)| after.contains_key(*uid)).collect();
    assert!(unexpected.is_empty(), "gone and not in the plan: {unexpected:#?}");
    assert!(survived.is_empty(), "in the plan and still there: {survived:#?}");
    assert_eq!(gone_uids, uids(&expected), "the plan names what never was");
    let report =
        format!("{} objects of {} planned, {} gone\n{}", expected.len(), before.len(), gone.len(), alarm.stderr);
    std::fs::write(reports().join("disaster.md"), report + &comment.stdout).unwrap();
}
