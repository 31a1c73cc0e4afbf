//! Releases that are uninstalled or replaced, compared by uid with what the real helm-controller does.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use test_support::chart::chart;
use test_support::cluster::LIMIT;
use test_support::flux::{self, applied, settled};
use test_support::folder::folder;
use test_support::tree_plan::{document, plan};
use xtask::cluster::{Cluster, Flux, Options};

/// Templates of every scenario: objects with a fixed name and with the name of the release, with and without a
/// namespace, a kept one, a Deployment, a hook, an object of the cluster, and a definition.
const TEMPLATES: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: fixed}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}-named", namespace: "{{ .Release.Namespace }}"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: kept, annotations: {helm.sh/resource-policy: keep}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: by-hand}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: hook, annotations: {helm.sh/hook: post-install}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "{{ .Values.prefix }}-role"}
rules: []
---
apiVersion: v1
kind: Namespace
metadata: {name: "{{ .Values.prefix }}-made"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: inside, namespace: "{{ .Values.prefix }}-made"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {a: web}}
  template:
    metadata: {labels: {a: web}}
    spec: {containers: [{name: c, image: i}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: "cogs.{{ .Values.prefix }}.example.com"}
spec:
  group: "{{ .Values.prefix }}.example.com"
  scope: Namespaced
  names: {kind: Cog, plural: cogs, singular: cog, listKind: CogList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
"#;

/// One HelmRelease in a namespace of its own.
struct Case {
    /// Namespace, and prefix of the objects of the cluster.
    name: &'static str,
    /// Fields of the spec before the change.
    before: &'static str,
    /// Fields of the spec after it; `None` if the HelmRelease is removed.
    after: Option<&'static str>,
    /// Rows that are not certain, as `ACTION KIND/NAME`.
    open: &'static [&'static str],
    /// Nothing but the HelmRelease may go.
    stays: bool,
}

impl Case {
    const fn new(name: &'static str, before: &'static str, after: Option<&'static str>) -> Self {
        // A hook and an annotation that a person set are never certain.
        Self { name, before, after, open: &["delete ConfigMap/by-hand", "recreate ConfigMap/hook"], stays: false }
    }

    fn manifest(&self, spec: &str) -> String {
        format!(
            "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: app, namespace: {0}}}\nspec:\n  \
             interval: 1h\n  timeout: 20s\n  chartRef: {{kind: OCIRepository, name: web}}\n  values: {{prefix: {0}}}\n  \
             install: {{disableWait: true}}\n{spec}",
            self.name
        )
    }
}

const DELETED: [&str; 1] = ["delete ConfigMap/by-hand"];

fn cases() -> Vec<Case> {
    let removed = |name, before| Case { open: &DELETED, ..Case::new(name, before, None) };
    let unchanged = |case| Case { open: &[], stays: true, ..case };
    vec![
        Case::new("rt-name", "", Some("  releaseName: other\n")),
        Case::new("rt-storage", "", Some("  storageNamespace: rt-elsewhere\n")),
        Case {
            open: &[
                "recreate ConfigMap/hook",
                "unknown ConfigMap/app-named",
                "unknown ConfigMap/by-hand",
                "unknown ConfigMap/fixed",
                "unknown Deployment/web",
            ],
            ..Case::new("rt-target", "", Some("  targetNamespace: rt-elsewhere\n  releaseName: app\n"))
        },
        Case::new("rt-orphan", "", Some("  releaseName: other\n  uninstall: {deletionPropagation: orphan}\n")),
        Case::new("rt-history", "", Some("  releaseName: other\n  uninstall: {keepHistory: true}\n")),
        unchanged(Case::new("rt-paused", "", Some("  releaseName: other\n  suspend: true\n"))),
        Case::new("rt-resumed", "  suspend: true\n", Some("  releaseName: other\n")),
        removed("rt-removed", ""),
        removed("rt-foreground", "  uninstall: {deletionPropagation: foreground}\n"),
        removed("rt-leaving", "  uninstall: {deletionPropagation: orphan, keepHistory: true}\n"),
        unchanged(removed("rt-account", "  serviceAccountName: ghost\n")),
        unchanged(removed("rt-unrecorded", "")),
        unchanged(removed("rt-suspended", "  suspend: true\n")),
    ]
}

/// Returns everything but Events, and APIServices, which the API server makes for definitions, by uid, as
/// `KIND/NAMESPACE/NAME`. An object whose deletion has begun is left out: no controller of the test removes the finalizer of
/// a claim.
pub(super) fn objects(cluster: &Cluster) -> BTreeMap<String, String> {
    let types = cluster.kubectl(&["api-resources", "--verbs=list,delete", "-o", "name"]).unwrap();
    let types: Vec<&str> =
        types.lines().filter(|name| !name.starts_with("events") && !name.starts_with("apiservices")).collect();
    let list = cluster.kubectl(&["get", &types.join(","), "-A", "-o", "json"]).unwrap();
    let list: Value = serde_json::from_str(&list).unwrap();
    let text = |item: &Value, key: &str| item["metadata"][key].as_str().unwrap_or_default().to_owned();
    let items = list["items"].as_array().unwrap().iter();
    items
        .filter(|item| text(item, "deletionTimestamp").is_empty())
        .map(|item| {
            let kind = item["kind"].as_str().unwrap();
            (text(item, "uid"), format!("{kind}/{}/{}", text(item, "namespace"), text(item, "name")))
        })
        .collect()
}

/// Returns what is there once the objects with these uids are gone, or once that takes too long, and some seconds later: what
/// should stay has had the time to go.
pub(super) fn objects_after<'a>(
    cluster: &Cluster,
    deletions: impl IntoIterator<Item = &'a String>,
    more: Duration,
) -> BTreeMap<String, String> {
    let deletions: BTreeSet<&String> = deletions.into_iter().collect();
    let are_gone = || Ok(objects(cluster).keys().all(|uid| !deletions.contains(uid)));
    let _ = cluster.wait_for("the planned deletions", LIMIT, are_gone);
    std::thread::sleep(more);
    objects(cluster)
}

/// Returns the objects, by uid, that are gone and were not planned to go, and those that are there although they were.
pub(super) fn unplanned(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
    planned: &BTreeMap<String, String>,
) -> Vec<String> {
    let wrong = before.iter().filter_map(|(uid, what)| match (planned.get(uid), after.contains_key(uid)) {
        (None, false) => Some(format!("{what} is gone and was not planned")),
        (Some(action), true) => Some(format!("{what} is there although planned: {action}")),
        _ => None,
    });
    wrong.collect()
}

fn ready(cluster: &Cluster, namespace: &str, history: &str) {
    let path = "jsonpath={.status.history[0].name} {.status.storageNamespace} {.status.history[0].namespace} \
                {.status.conditions[?(@.type==\"Ready\")].status}";
    let probe = || {
        let found = cluster.kubectl(&["get", "helmrelease", "app", "-n", namespace, "-o", path])?;
        Ok(found.ends_with(" True") && found.starts_with(history))
    };
    cluster.wait_for(&format!("the release in {namespace}"), LIMIT, probe).unwrap();
}

fn write(tree: &Path, case: &Case, spec: Option<&str>) {
    std::fs::write(tree.join("x.yaml"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n").unwrap();
    match spec {
        Some(spec) => std::fs::write(tree.join("app.yaml"), case.manifest(spec)).unwrap(),
        None => std::fs::remove_file(tree.join("app.yaml")).unwrap(),
    }
}

#[test]
fn uninstalled_and_replaced_releases_delete_what_was_planned() {
    let cluster = &Cluster::up(Options { flux: Flux::All, ..Options::default() }).expect("the test cluster comes up");
    let (cases, archive) = (cases(), chart("web", "0.1.0", TEMPLATES));
    cluster.kubectl(&["create", "namespace", "rt-elsewhere"]).unwrap();
    // Objects of nobody, with names of objects of the release that moves here.
    for name in ["fixed", "app-named", "kept", "foreign"] {
        cluster.kubectl(&["create", "configmap", name, "-n", "rt-elsewhere"]).unwrap();
    }
    // The impersonated user has all rights, although its account does not exist.
    let user = "--user=system:serviceaccount:rt-account:ghost";
    cluster.kubectl(&["create", "clusterrolebinding", "ghost", "--clusterrole=cluster-admin", user]).unwrap();
    let trees: Vec<PathBuf> = cases.iter().map(|case| folder(&format!("tree-{}", case.name))).collect();
    for (case, tree) in cases.iter().zip(&trees) {
        let namespace = case.name;
        cluster.kubectl(&["create", "namespace", namespace]).unwrap();
        cluster.publish(&format!("OCIRepository/{namespace}/web"), &archive).unwrap();
        // A release is installed before it can be suspended.
        write(tree, case, Some(&case.before.replace("suspend: true", "suspend: false")));
        flux::begin(cluster, namespace, tree);
    }
    for (case, tree) in cases.iter().zip(&trees) {
        let namespace = case.name;
        settled(cluster, namespace, "apps");
        ready(cluster, namespace, "app ");
        cluster
            .kubectl(&["annotate", "configmap", "by-hand", "helm.sh/resource-policy=keep", "-n", namespace])
            .unwrap();
        if case.before.contains("suspend: true") {
            write(tree, case, Some(case.before));
            let revision = cluster.publish(&format!("GitRepository/{namespace}/src"), tree).unwrap();
            applied(cluster, namespace, "apps", &revision);
        }
    }
    cluster.kubectl(&["delete", "secret", "sh.helm.release.v1.app.v1", "-n", "rt-unrecorded"]).unwrap();
    std::thread::sleep(Duration::from_secs(3));

    let before = objects(cluster);
    let mut planned: BTreeMap<String, (String, bool)> = BTreeMap::new();
    for (case, tree) in cases.iter().zip(&trees) {
        write(tree, case, case.after);
        let run = plan(cluster, case.name, tree, &[]);
        let document = document(&run);
        let mut open = BTreeSet::new();
        for row in document["changes"].as_array().unwrap() {
            let text = |pointer: &str| row.pointer(pointer).unwrap().as_str().unwrap().to_owned();
            let (action, what) = (text("/action"), format!("{}/{}", text("/object/kind"), text("/object/name")));
            let is_certain = text("/certainty") == "certain" && action != "unknown";
            if !is_certain && !["HelmRelease/app"].contains(&&*what) {
                open.insert(format!("{action} {what}"));
            }
            if ["delete", "recreate"].contains(&&*action) || !is_certain {
                planned.insert(text("/object/uid"), (action, is_certain));
            }
        }
        let expected: BTreeSet<String> = case.open.iter().map(|row| (*row).to_owned()).collect();
        let dependents = |row: &String| !row.contains("ReplicaSet/") && !row.contains("Pod/");
        let open: BTreeSet<String> = open.into_iter().filter(dependents).collect();
        assert_eq!(open, expected, "{}: {}", case.name, run.stdout);
        let is_complete = !case.open.iter().any(|row| row.starts_with("unknown"));
        assert_eq!(document["complete"], is_complete, "{}: {}", case.name, document["gaps"]);
    }
    for (case, tree) in cases.iter().zip(&trees) {
        let revision = cluster.publish(&format!("GitRepository/{}/src", case.name), tree).unwrap();
        applied(cluster, case.name, "apps", &revision);
    }
    for case in &cases {
        match case.after {
            None => {
                let gone = || Ok(cluster.kubectl(&["get", "helmreleases", "-n", case.name, "-o", "name"])?.is_empty());
                cluster.wait_for(&format!("the release in {} to go", case.name), LIMIT, gone).unwrap();
            }
            Some(_) if case.stays => {}
            Some(after) if after.contains("releaseName: other") => ready(cluster, case.name, "other "),
            Some(_) => {
                let history =
                    if case.name == "rt-storage" { "app rt-elsewhere " } else { "app rt-target rt-elsewhere " };
                ready(cluster, case.name, history);
            }
        }
    }
    let certain = planned.iter().filter(|(_, (_, is_certain))| *is_certain).map(|(uid, _)| uid);
    let after = objects_after(cluster, certain, Duration::from_secs(8));
    let identities: BTreeSet<&String> = after.values().collect();
    let mut wrong = vec![];
    for (uid, what) in &before {
        let is_gone = !after.contains_key(uid);
        match planned.get(uid) {
            None if is_gone => wrong.push(format!("{what} is gone and was not planned")),
            Some((action, true)) if !is_gone => wrong.push(format!("{what} is there although planned: {action}")),
            Some((action, true)) if action == "recreate" && !identities.contains(what) => {
                wrong.push(format!("{what} was not created again"));
            }
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // What was left open: helm-controller looks in the new namespace for objects without a namespace in their template.
    for (name, stays) in [("fixed", true), ("app-named", false)] {
        let uid = before.iter().find(|(_, what)| **what == format!("ConfigMap/rt-target/{name}")).unwrap().0;
        assert_eq!(after.contains_key(uid), stays, "{name}");
    }
    for (name, stays) in [("fixed", false), ("app-named", true), ("kept", true), ("foreign", true)] {
        let what = format!("ConfigMap/rt-elsewhere/{name}");
        let uid = before.iter().find(|(_, found)| **found == what).unwrap().0;
        assert_eq!(after.contains_key(uid), stays, "{what}");
    }
    for case in cases.iter().filter(|case| !case.stays) {
        let by_hand = format!("ConfigMap/{}/by-hand", case.name);
        let uid = before.iter().find(|(_, what)| **what == by_hand).unwrap().0;
        let stays = case.name == "rt-target";
        assert_eq!(after.contains_key(uid), stays, "{by_hand}");
    }
}
