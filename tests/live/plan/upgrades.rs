//! Upgrades of releases whose chart is in the tree, compared by uid with what the real helm-controller does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::releases::{objects, objects_after};
use serde_json::Value;
use test_support::cluster::LIMIT;
use test_support::flux::{self, applied, settled};
use test_support::folder::{commit, folder, init};
use test_support::tree_plan::{document, plan, rows};
use xtask::cluster::{Cluster, Flux, Options};
use xtask::controlplane::{bin, ensure};

/// Files of the chart of every scenario, in which `NS` stands for the namespace.
const CHART: [(&str, &str); 23] = [
    (
        "Chart.yaml",
        "apiVersion: v2\nname: app\nversion: 1.0.0\ndependencies: [{name: sub, version: 1.0.0, condition: sub.enabled}]\n",
    ),
    (
        "values.yaml",
        "extra: true\nname: plain\nsecret: true\nsecond: true\nhelper: helped\nmode: 'on'\nitems: [a, b]\nelsewhere: true\n",
    ),
    ("templates/stays.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: stays}\n"),
    ("templates/goes.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: goes}\n"),
    (
        "templates/kept.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept, annotations: {helm.sh/resource-policy: keep}}\n",
    ),
    (
        "templates/extra.yaml",
        "{{ if .Values.extra }}\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec:\n  \
         accessModes: [ReadWriteOnce]\n  resources: {requests: {storage: 1Mi}}\n{{ end }}\n",
    ),
    ("templates/named.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Values.name }}\"}\n"),
    (
        "templates/space.yaml",
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: NS-made}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: inside, \
         namespace: NS-made}\n",
    ),
    (
        "templates/web.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 1\n  selector: {matchLabels: {a: web}}\n  \
         template:\n    metadata: {labels: {a: web}}\n    spec: {containers: [{name: c, image: i}]}\n",
    ),
    (
        "templates/hook.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hook, annotations: {helm.sh/hook: 'post-install,post-upgrade'}}\n",
    ),
    (
        "templates/done.yaml",
        "{{ if .Values.done }}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: done, annotations: {helm.sh/hook: pre-upgrade, \
         helm.sh/hook-delete-policy: hook-succeeded}}\n{{ end }}\n",
    ),
    (
        "templates/frozen.yaml",
        "{{ with .Values.frozen }}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: frozen}\nimmutable: true\ndata: {v: {{ . }}}\n\
         {{ end }}\n",
    ),
    ("charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 1.0.0\n"),
    ("charts/sub/templates/of-sub.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: of-sub}\n"),
    (
        "templates/role.yaml",
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: NS-role}\nrules: []\n",
    ),
    (
        "templates/secret.yaml",
        "{{ if .Values.secret }}\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: b}\n{{ end }}\n",
    ),
    (
        "templates/list.yaml",
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: first}}\n\
         {{- if .Values.second }}\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: second}}\n{{- end }}\n",
    ),
    ("templates/_helpers.tpl", "{{ define \"app.helper\" }}{{ tpl \"{{ .Values.helper }}\" . }}{{ end }}\n"),
    ("templates/helped.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ include \"app.helper\" . }}}\n"),
    (
        "templates/capability.yaml",
        "{{ if and (.Capabilities.APIVersions.Has \"apps/v1\") (eq .Values.mode \"on\") }}\napiVersion: v1\nkind: ConfigMap\n\
         metadata: {name: capable}\n{{ end }}\n",
    ),
    (
        "templates/range.yaml",
        "{{ range .Values.items }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: item-{{ . }}}\n{{ end }}\n",
    ),
    (
        "templates/elsewhere.yaml",
        "{{ if .Values.elsewhere }}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: NS-else, namespace: default}\n{{ end }}\n",
    ),
    (
        "crds/cogs.yaml",
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: cogs.NS.example.com}\n\
         spec:\n  group: NS.example.com\n  scope: Namespaced\n  names: {kind: Cog, plural: cogs, singular: cog, listKind: CogList}\n  \
         versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]\n",
    ),
];

/// One HelmRelease in a namespace of its own.
struct Case {
    name: &'static str,
    /// Fields of the spec of its chart before and after the change.
    chart: [&'static str; 2],
    /// Fields of the spec before and after the change.
    specs: [&'static str; 2],
    /// Files that the change writes, or removes if there is no text; relative to the root of the tree.
    files: &'static [(&'static str, Option<&'static str>)],
    /// Objects that the change deletes, as `ACTION KIND/NAME`, without dependents and content of namespaces.
    deletes: &'static [&'static str],
}

const VERSION_2: (&str, Option<&str>) = (
    "chart/Chart.yaml",
    Some(
        "apiVersion: v2\nname: app\ndependencies: [{name: sub, version: 1.0.0, condition: sub.enabled}]\nversion: 2.0.0\n",
    ),
);
/// The hook of each upgrade.
const HOOK: &str = "recreate ConfigMap/hook";

fn cases() -> Vec<Case> {
    let case = |name, specs, files, deletes| Case { name, chart: ["", ""], specs, files, deletes };
    vec![
        case(
            "up-vanished",
            ["", ""],
            &[VERSION_2, ("chart/templates/goes.yaml", None)],
            &[HOOK, "delete ConfigMap/goes"],
        ),
        case("up-if", ["", "  values: {extra: false}\n"], &[], &[HOOK, "delete PersistentVolumeClaim/data"]),
        case("up-renamed", ["", "  values: {name: other}\n"], &[], &[HOOK, "delete ConfigMap/plain"]),
        case("up-kept", ["", ""], &[VERSION_2, ("chart/templates/kept.yaml", None)], &[HOOK]),
        case(
            "up-namespace",
            ["", ""],
            &[VERSION_2, ("chart/templates/space.yaml", None)],
            &[HOOK, "delete Namespace/up-namespace-made", "delete ConfigMap/inside"],
        ),
        case(
            "up-workload",
            ["", ""],
            &[VERSION_2, ("chart/templates/web.yaml", None)],
            &[HOOK, "delete Deployment/web"],
        ),
        case("up-image", ["", "  values: {image: new}\n"], &[], &[HOOK]),
        case("up-interval", ["", "  maxHistory: 3\n"], &[], &[]),
        case(
            "up-moved",
            ["", ""],
            &[
                VERSION_2,
                ("chart/templates/goes.yaml", None),
                (
                    "chart/charts/sub/templates/goes.yaml",
                    Some("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: goes}\n"),
                ),
            ],
            &[HOOK],
        ),
        case("up-secret", ["", "  values: {secret: false}\n"], &[], &[HOOK, "delete Secret/s"]),
        case("up-list", ["", "  values: {second: false}\n"], &[], &[HOOK, "delete ConfigMap/second"]),
        case("up-helper", ["", "  values: {helper: other}\n"], &[], &[HOOK, "delete ConfigMap/helped"]),
        case("up-capability", ["", "  values: {mode: 'off'}\n"], &[], &[HOOK, "delete ConfigMap/capable"]),
        case("up-range", ["", "  values: {items: [a]}\n"], &[], &[HOOK, "delete ConfigMap/item-b"]),
        case("up-range-renamed", ["", "  values: {items: [c, a]}\n"], &[], &[HOOK, "delete ConfigMap/item-b"]),
        case(
            "up-null",
            ["", "  values: {items: null}\n"],
            &[],
            &[HOOK, "delete ConfigMap/item-a", "delete ConfigMap/item-b"],
        ),
        case(
            "up-elsewhere",
            ["", "  values: {elsewhere: false}\n"],
            &[],
            &[HOOK, "delete ConfigMap/up-elsewhere-else"],
        ),
        case(
            "up-role",
            ["", ""],
            &[VERSION_2, ("chart/templates/role.yaml", None)],
            &[HOOK, "delete ClusterRole/up-role-role"],
        ),
        // Helm never deletes the definitions of a chart.
        case("up-definition", ["", ""], &[VERSION_2, ("chart/crds/cogs.yaml", None)], &[HOOK]),
        case("up-condition", ["", "  values: {sub: {enabled: false}}\n"], &[], &[HOOK, "delete ConfigMap/of-sub"]),
        case(
            "up-subchart",
            ["", ""],
            &[VERSION_2, ("chart/charts/sub/templates/of-sub.yaml", None)],
            &[HOOK, "delete ConfigMap/of-sub"],
        ),
        case("up-labels", ["", "  commonMetadata: {labels: {team: a}}\n"], &[], &[HOOK]),
        case(
            "up-cleanup",
            ["", "  values: {secret: false}\n  upgrade: {cleanupOnFail: true}\n"],
            &[],
            &[HOOK, "delete Secret/s"],
        ),
        case(
            "up-several",
            ["", "  values: {secret: false, items: [b], helper: plain-2}\n"],
            &[],
            &[HOOK, "delete ConfigMap/helped", "delete ConfigMap/item-a", "delete Secret/s"],
        ),
        case(
            "up-no-hooks",
            ["", "  values: {name: other}\n  upgrade: {disableHooks: true}\n"],
            &[],
            &["delete ConfigMap/plain"],
        ),
        // A hook is applied to an object of its name, and deleted once it has succeeded.
        case("up-hook-done", ["", "  values: {done: true}\n"], &[], &[HOOK, "delete ConfigMap/done"]),
        // The server refuses the change of an immutable object; the remedy uninstalls, and an installation follows.
        case(REMEDIED, [REMEDY_BEFORE, REMEDY_AFTER], &[], &REMEDIED_OBJECTS),
        // The record of the release is gone, so the new chart is installed and nothing is deleted.
        case(UNRECORDED, ["", ""], &[VERSION_2, ("chart/templates/goes.yaml", None)], &[HOOK]),
        Case {
            chart: [", reconcileStrategy: Revision", ", reconcileStrategy: Revision"],
            ..case(REVISED, ["", ""], &[("elsewhere.txt", Some("any commit\n"))], &[HOOK])
        },
        // Another chart of the same version is packed and not installed.
        Case {
            chart: ["", ", ignoreMissingValuesFiles: true"],
            ..case(SAME, ["", ""], &[("chart/templates/goes.yaml", None)], &[])
        },
        case(TAKEN_OVER, ["", ""], &[], &[HOOK]),
        case(
            FAILED,
            ["", "  values: {frozen: a}\n"],
            &[],
            &["recreate ConfigMap/frozen", "recreate ConfigMap/hook", "recreate ConfigMap/stays"],
        ),
        case(
            "up-values-from",
            ["  valuesFrom: [{kind: ConfigMap, name: values}]\n", "  valuesFrom: [{kind: ConfigMap, name: values}]\n"],
            &[("values.yaml", Some(VALUES_AFTER))],
            &[HOOK, "delete PersistentVolumeClaim/data"],
        ),
        case(
            "up-target-path",
            [TARGET_PATH, TARGET_PATH],
            &[("values.yaml", Some(VALUES_AFTER))],
            &[HOOK, "delete PersistentVolumeClaim/data"],
        ),
    ]
}

const REMEDIED: &str = "up-remedied";
const REMEDY_BEFORE: &str =
    "  values: {frozen: a, extra: false}\n  upgrade: {remediation: {retries: 1, strategy: uninstall}}\n";
const REMEDY_AFTER: &str =
    "  values: {frozen: b, extra: false}\n  upgrade: {remediation: {retries: 1, strategy: uninstall}}\n";
/// Everything that the remedy deletes and the installation creates again.
const REMEDIED_OBJECTS: [&str; 19] = [
    HOOK,
    "recreate ClusterRole/up-remedied-role",
    "recreate ConfigMap/capable",
    "recreate ConfigMap/first",
    "recreate ConfigMap/frozen",
    "recreate ConfigMap/goes",
    "recreate ConfigMap/helped",
    "recreate ConfigMap/inside",
    "recreate ConfigMap/item-a",
    "recreate ConfigMap/item-b",
    "recreate ConfigMap/of-sub",
    "recreate ConfigMap/plain",
    "recreate ConfigMap/second",
    "recreate ConfigMap/stays",
    "recreate ConfigMap/up-remedied-else",
    "recreate Deployment/web",
    "recreate Namespace/up-remedied-made",
    "recreate Secret/s",
    "recreate Secret/sh.helm.release.v1.app.v1",
];
const UNRECORDED: &str = "up-unrecorded";
const REVISED: &str = "up-revised";
const SAME: &str = "up-same-version";
/// Cases in which the HelmRelease is new, and objects of its names exist.
const TAKEN_OVER: &str = "up-taken-over";
const FAILED: &str = "up-failed";

impl Case {
    fn is_new(&self) -> bool {
        [TAKEN_OVER, FAILED].contains(&self.name)
    }

    /// Returns true if source-controller packs the chart again.
    fn is_packed_again(&self) -> bool {
        self.is_new() || [REVISED, SAME].contains(&self.name) || self.files.contains(&VERSION_2)
    }

    /// Returns the revision of the release after the change.
    fn revision(&self) -> &'static str {
        let stays = [REMEDIED, UNRECORDED, SAME].contains(&self.name) || self.is_new() || self.deletes.is_empty();
        if stays { "1" } else { "2" }
    }

    /// Returns the version of the chart after the change; `None` if it is that of Chart.yaml.
    fn version(&self, at: usize) -> Option<&'static str> {
        (self.name == REVISED).then_some(["1.0.0+aaaaaaaaaaaa", "1.0.0+bbbbbbbbbbbb"][at])
    }
}

const TARGET_PATH: &str = "  valuesFrom: [{kind: ConfigMap, name: values, valuesKey: switch, targetPath: extra}]\n";
const VALUES_BEFORE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: values}\ndata:\n  values.yaml: 'extra: true'\n  switch: 'true'\n";
const VALUES_AFTER: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: values}\ndata:\n  values.yaml: 'extra: false'\n  switch: 'false'\n";

fn write_release(tree: &Path, case: &Case, at: usize) {
    let (chart, spec) = (case.chart[at], case.specs[at]);
    let install =
        if case.name == FAILED { "disableWait: true, remediation: {retries: 1}" } else { "disableWait: true" };
    let text = format!(
        "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: app, namespace: {}}}\nspec:\n  interval: 1h\n  \
         timeout: 20s\n  chart: {{spec: {{chart: ./chart, interval: 1h, sourceRef: {{kind: GitRepository, name: src}}{chart}}}}}\n  \
         install: {{{install}}}\n{spec}",
        case.name
    );
    let text = match spec.contains("  upgrade: {") {
        true => text.replace("upgrade: {", "upgrade: {disableWait: true, "),
        false => text + "  upgrade: {disableWait: true}\n",
    };
    fs::write(tree.join("app.yaml"), text).unwrap();
}

/// Content of the kustomization.yaml with a release.
const RESOURCES: &str = "resources: [app.yaml, values.yaml]\n";

fn prepare(case: &Case) -> PathBuf {
    let tree = folder(&format!("tree-{}", case.name));
    for (at, text) in CHART {
        let file = tree.join("chart").join(at);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text.replace("NS", case.name)).unwrap();
    }
    fs::create_dir_all(tree.join("chart/charts/sub/templates")).unwrap();
    fs::write(tree.join("values.yaml"), VALUES_BEFORE).unwrap();
    let resources = if case.is_new() { "resources: [values.yaml]\n" } else { RESOURCES };
    fs::write(tree.join("kustomization.yaml"), resources).unwrap();
    if !case.is_new() {
        write_release(&tree, case, 0);
    }
    init(&tree);
    tree
}

/// Gives the HelmChart of the release the chart of the tree, as source-controller does.
pub(super) fn publish_chart(cluster: &Cluster, namespace: &str, tree: &Path) {
    let about = fs::read_to_string(tree.join("chart/Chart.yaml")).unwrap();
    let version = about.lines().find_map(|line| line.strip_prefix("version: ")).unwrap().to_owned();
    publish_version(cluster, namespace, tree, version);
}

/// Gives the HelmChart of the release a chart with this version.
fn publish_version(cluster: &Cluster, namespace: &str, tree: &Path, version: String) {
    let about = tree.join("chart/Chart.yaml");
    let written = fs::read_to_string(&about).unwrap();
    let line =
        |line: &str| if line.starts_with("version: ") { format!("version: {version}\n") } else { format!("{line}\n") };
    fs::write(&about, written.lines().map(line).collect::<String>()).unwrap();
    let archive = folder(&format!("archive-{namespace}")).join(format!("app-{version}.tgz"));
    let packed = Command::new("tar").arg("-C").arg(tree).arg("-czf").arg(&archive).arg("chart").status().unwrap();
    assert!(packed.success());
    fs::write(&about, written).unwrap();
    cluster.publish(&format!("OCIRepository/{namespace}/chart"), &archive).unwrap();
    let path = "jsonpath={.status.artifact}";
    let artifact = cluster.kubectl(&["get", "ocirepository", "chart", "-n", namespace, "-o", path]).unwrap();
    let mut artifact: Value = serde_json::from_str(&artifact).unwrap();
    artifact["revision"] = version.into();
    let name = format!("{namespace}-app");
    let get = ["get", "helmchart", &name, "-n", namespace, "-o", "jsonpath={.metadata.generation}"];
    cluster.wait_for(&name, LIMIT, || Ok(cluster.kubectl(&get).is_ok())).unwrap();
    let generation: i64 = cluster.kubectl(&get).unwrap().parse().unwrap();
    let ready = serde_json::json!({"type": "Ready", "status": "True", "reason": "Succeeded", "message": "packed",
        "lastTransitionTime": artifact["lastUpdateTime"], "observedGeneration": generation});
    let status =
        serde_json::json!({"status": {"observedGeneration": generation, "artifact": artifact, "conditions": [ready]}});
    let status = status.to_string();
    let patch = ["patch", "helmchart", &name, "-n", namespace, "--subresource=status", "--type=merge", "-p", &status];
    cluster.kubectl(&patch).unwrap();
}

/// Waits until the release is Ready at its newest generation and has this revision.
pub(super) fn ready(cluster: &Cluster, namespace: &str, revision: &str) {
    let path = "jsonpath={.metadata.generation} {.status.observedGeneration} {.status.conditions[?(@.type==\"Ready\")].status} \
                {.status.history[0].version}";
    let probe = || {
        let found = cluster.kubectl(&["get", "helmrelease", "app", "-n", namespace, "-o", path])?;
        let words: Vec<&str> = found.split_whitespace().collect();
        Ok(words.len() == 4 && words[0] == words[1] && words[2] == "True" && words[3] == revision)
    };
    cluster.wait_for(&format!("the release in {namespace}"), LIMIT, probe).unwrap();
}

/// Objects of nobody with names of objects and hooks of the chart. One of them cannot be changed.
const FOREIGN: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: stays}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: hook}\n\
                       ---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: done}\n---\napiVersion: v1\nkind: ConfigMap\n\
                       metadata: {name: frozen}\nimmutable: true\ndata: {v: x}\n";

#[test]
fn upgrades_delete_what_was_planned() {
    ensure(&["helm"]).unwrap();
    let cluster = &Cluster::up(Options { flux: Flux::All, ..Options::default() }).expect("the test cluster comes up");
    // The test gives HelmCharts their artifacts.
    cluster.stop("source-controller").unwrap();
    let cases = cases();
    let trees: Vec<PathBuf> = cases.iter().map(prepare).collect();
    for (case, tree) in cases.iter().zip(&trees) {
        let namespace = case.name;
        cluster.kubectl(&["create", "namespace", namespace]).unwrap();
        if case.is_new() || case.name == "up-hook-done" {
            cluster.kubectl_stdin(&["apply", "-n", namespace, "-f", "-"], FOREIGN).unwrap();
        }
        flux::begin(cluster, namespace, tree);
    }
    for (case, tree) in cases.iter().zip(&trees) {
        settled(cluster, case.name, "apps");
        match case.version(0) {
            Some(version) => publish_version(cluster, case.name, tree, version.to_owned()),
            None if case.is_new() => {}
            None => publish_chart(cluster, case.name, tree),
        }
    }
    cases.iter().filter(|case| !case.is_new()).for_each(|case| ready(cluster, case.name, "1"));
    cluster.kubectl(&["delete", "secret", "sh.helm.release.v1.app.v1", "-n", UNRECORDED]).unwrap();
    std::thread::sleep(Duration::from_secs(3));
    let before = objects(cluster);
    let helm = format!("--helm={}", bin("helm").display());
    let mut planned: BTreeMap<String, String> = BTreeMap::new();
    for (case, tree) in cases.iter().zip(&trees) {
        for (at, text) in case.files {
            match text {
                Some(text) => fs::write(tree.join(at), text).unwrap(),
                None => fs::remove_file(tree.join(at)).unwrap(),
            }
        }
        write_release(tree, case, 1);
        fs::write(tree.join("kustomization.yaml"), RESOURCES).unwrap();
        let run = plan(cluster, case.name, tree, &[&helm]);
        let document = document(&run);
        assert_eq!(document["complete"], true, "{}: {} {}", case.name, document["gaps"], run.stderr);
        let found: BTreeSet<String> = rows(&run).into_keys().filter(|row| is_own(row)).collect();
        let expected: BTreeSet<String> = case.deletes.iter().map(|row| (*row).to_owned()).collect();
        assert_eq!(found, expected, "{}: {}", case.name, run.stdout);
        planned.extend(planned_deletions(&document));
    }
    for (case, tree) in cases.iter().zip(&trees) {
        commit(tree);
        let revision = cluster.publish(&format!("GitRepository/{}/src", case.name), tree).unwrap();
        applied(cluster, case.name, "apps", &revision);
    }
    for (case, tree) in cases.iter().zip(&trees).filter(|(case, _)| case.is_packed_again()) {
        match case.version(1) {
            Some(version) => publish_version(cluster, case.name, tree, version.to_owned()),
            None => publish_chart(cluster, case.name, tree),
        }
    }
    // helm-controller reads a changed ConfigMap at its next interval, or when it is asked.
    let requested = "reconcile.fluxcd.io/requestedAt=now";
    for namespace in ["up-values-from", "up-target-path"] {
        cluster.kubectl(&["annotate", "helmrelease", "app", "-n", namespace, requested]).unwrap();
    }
    cases.iter().for_each(|case| ready(cluster, case.name, case.revision()));
    let after = objects_after(cluster, planned.keys(), Duration::from_secs(8));
    let identities: BTreeSet<&String> = after.values().collect();
    let mut wrong = vec![];
    for (uid, what) in &before {
        let is_gone = !after.contains_key(uid);
        match planned.get(uid).map(String::as_str) {
            None if is_gone => wrong.push(format!("{what} is gone and was not planned")),
            Some(action) if !is_gone => wrong.push(format!("{what} is there although planned: {action}")),
            Some("recreate") if !identities.contains(what) => wrong.push(format!("{what} was not created again")),
            Some("delete") if identities.contains(what) && !is_made_by_kubernetes(what) => {
                wrong.push(format!("{what} was created again"))
            }
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns true for what Kubernetes makes again, with another uid, for a namespace or a Deployment that is created again.
fn is_made_by_kubernetes(what: &str) -> bool {
    what.ends_with("/default") || what.starts_with("ReplicaSet/")
}

/// Returns the actions of the objects that a plan deletes, by uid; with a question mark for a race.
pub(super) fn planned_deletions(document: &Value) -> BTreeMap<String, String> {
    let rows = document["changes"].as_array().unwrap().iter().map(|row| {
        let text = |pointer: &str| row.pointer(pointer).unwrap().as_str().unwrap().to_owned();
        let open = if text("/certainty") == "race" { "?" } else { "" };
        (text("/object/uid"), format!("{}{open}", text("/action")))
    });
    rows.filter(|(_, action)| ["delete", "recreate"].contains(&action.trim_end_matches('?'))).collect()
}

/// Returns true for rows of deletions, without dependents and what Kubernetes creates in a namespace.
pub(super) fn is_own(row: &str) -> bool {
    let deletes = row.starts_with("delete") || row.starts_with("recreate");
    let others = ["ReplicaSet/", "Pod/", "ServiceAccount/default", "ConfigMap/kube-root-ca.crt"];
    deletes && !others.iter().any(|other| row.contains(other))
}
