//! Charts whose render depends on the cluster, on chance or on the types of values, or fails: compared by uid with what the real
//! helm-controller does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::releases::{objects, objects_after, unplanned};
use super::upgrades::{is_own, planned_deletions, publish_chart, ready};
use test_support::cluster::LIMIT;
use test_support::flux::{self, applied, settled};
use test_support::folder::{commit, folder, init};
use test_support::tree_plan::{document, plan, rows};
use xtask::cluster::{Cluster, Flux, Options};
use xtask::controlplane::{bin, ensure};

const ABOUT: &str = "apiVersion: v2\nname: app\nversion: ";
/// An object that every upgrade updates.
const STAYS: (&str, &str) = (
    "templates/stays.yaml",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: stays, labels: {chart: \"{{ .Chart.Version }}\"}}\n",
);
const GOES: (&str, &str) = ("templates/goes.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: goes}\n");
/// An object that a chart renders as long as another one does not exist.
const LOOKUP: &str = "{{- if not (lookup \"v1\" \"ConfigMap\" .Release.Namespace \"flag\") }}\napiVersion: v1\nkind: ConfigMap\n\
                      metadata: {name: made}\n{{- end }}\n";
const NUMBER: &str = "{{- if eq .Values.n 3 }}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: three}\n{{- end }}\n";
const RANDOM: &str =
    "{{- $p := randAlphaNum 8 }}\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {p: \"{{ $p }}\"}\n";
const SCHEMA: &str = "{\"type\": \"object\", \"required\": [\"port\"]}";
const VALUES_FROM: &str = "  valuesFrom: [{kind: ConfigMap, name: values, valuesKey: n, targetPath: n}]\n";

/// One HelmRelease in a namespace of its own, whose chart gets version 2.0.0.
struct Case {
    name: &'static str,
    spec: &'static str,
    /// Files of the chart before the change, beside one that stays and one that the change removes.
    before: &'static [(&'static str, &'static str)],
    /// Fields of the Chart.yaml after the change.
    about: &'static str,
    /// Files of the chart that the change adds.
    added: &'static [(&'static str, &'static str)],
    /// The object that exists when the change arrives.
    flag: bool,
    /// Value of `n` after the change.
    number: &'static str,
    outcome: &'static str,
    deletes: &'static [&'static str],
}

fn cases() -> Vec<Case> {
    let base = Case {
        name: "",
        spec: "",
        before: &[],
        about: "",
        added: &[],
        flag: false,
        number: "3",
        outcome: "applies",
        deletes: &["delete ConfigMap/goes"],
    };
    let blocked = Case { outcome: "blocked", deletes: &[], ..base };
    vec![
        Case { name: "cr-fails", added: &[("templates/f.yaml", "{{ fail \"no\" }}")], ..blocked },
        Case { name: "cr-nil", added: &[("templates/f.yaml", "a: {{ .Values.a.b }}")], ..blocked },
        Case { name: "cr-schema", added: &[("values.schema.json", SCHEMA)], ..blocked },
        Case { name: "cr-kube", about: "kubeVersion: '>=1.99.0'\n", ..blocked },
        Case { name: "cr-twice", added: &[("templates/again.yaml", STAYS.1)], ..blocked },
        Case {
            name: "cr-skips",
            spec: "  upgrade: {disableSchemaValidation: true, disableWait: true}\n",
            added: &[("values.schema.json", SCHEMA)],
            ..base
        },
        Case {
            name: "cr-library",
            about: "type: library\n",
            deletes: &["delete ConfigMap/goes", "delete ConfigMap/stays"],
            ..base
        },
        Case {
            name: "cr-lookup",
            before: &[("templates/made.yaml", LOOKUP)],
            flag: true,
            deletes: &["delete ConfigMap/goes", "delete ConfigMap/made"],
            ..base
        },
        Case { name: "cr-lookup-none", before: &[("templates/made.yaml", LOOKUP)], ..base },
        Case { name: "cr-number", spec: VALUES_FROM, before: &[("templates/three.yaml", NUMBER)], ..base },
        Case { name: "cr-random", before: &[("templates/s.yaml", RANDOM)], ..base },
    ]
}

fn write(tree: &Path, case: &Case, is_after: bool) {
    let chart = tree.join("chart");
    let (version, about) = if is_after { ("2.0.0", case.about) } else { ("1.0.0", "") };
    let file = |at: &str, text: &str| {
        let path = chart.join(at);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    file("Chart.yaml", &format!("{ABOUT}{version}\n{about}"));
    file(STAYS.0, STAYS.1);
    case.before.iter().for_each(|(at, text)| file(at, text));
    if is_after {
        fs::remove_file(chart.join(GOES.0)).unwrap();
        case.added.iter().for_each(|(at, text)| file(at, text));
    } else {
        file(GOES.0, GOES.1);
    }
    let number = if is_after { case.number } else { "3" };
    let values = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: values}}\ndata: {{n: '{number}'}}\n");
    fs::write(tree.join("values.yaml"), values).unwrap();
    fs::write(tree.join("kustomization.yaml"), "resources: [app.yaml, values.yaml]\n").unwrap();
    let wait = if case.spec.contains("upgrade") { "" } else { "  upgrade: {disableWait: true}\n" };
    let release = format!(
        "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: app, namespace: {}}}\nspec:\n  interval: 1h\n  \
         timeout: 20s\n  chart: {{spec: {{chart: ./chart, interval: 1h, sourceRef: {{kind: GitRepository, name: src}}}}}}\n  \
         install: {{disableWait: true}}\n{wait}{}",
        case.name, case.spec
    );
    fs::write(tree.join("app.yaml"), release).unwrap();
}

/// Returns what the plan of a case says of the object that stays, if it is not that its labels change in an upgrade.
fn wrong_update(case: &Case, plan: &Value) -> Option<String> {
    let is_kept = case.outcome == "applies" && case.name != "cr-library";
    let of_it = |row: &&Value| row["object"]["name"] == "stays" && row["action"] != "delete";
    let rows: Vec<&Value> = plan["changes"].as_array().unwrap().iter().filter(of_it).collect();
    let diffs: Vec<&Value> = plan["diffs"].as_array().unwrap().iter().filter(|row| of_it(row)).collect();
    let is_updated = |row: &&Value| row["action"] == "update" && row["certainty"] == "certain";
    let shows_it = |diff: &&Value| diff["text"].as_str().unwrap().contains("-    chart: 1.0.0\n+    chart: 2.0.0\n");
    let is_right = rows.iter().all(is_updated) && diffs.iter().all(shows_it);
    let numbers = [rows.len(), diffs.len()];
    (!is_right || numbers != [usize::from(is_kept); 2]).then(|| format!("{}: {rows:?} {diffs:?}", case.name))
}

/// Waits until helm-controller has tried an upgrade that fails.
fn failed(cluster: &Cluster, namespace: &str) {
    let path = "jsonpath={.status.conditions[?(@.type==\"Released\")].reason}";
    let get = ["get", "helmrelease", "app", "-n", namespace, "-o", path];
    cluster.wait_for(namespace, LIMIT, || Ok(cluster.kubectl(&get)? == "UpgradeFailed")).unwrap();
}

#[test]
fn renders_are_those_of_the_controller() {
    ensure(&["helm"]).unwrap();
    let cluster = &Cluster::up(Options { flux: Flux::All, ..Options::default() }).expect("the test cluster comes up");
    // The test gives HelmCharts their artifacts.
    cluster.stop("source-controller").unwrap();
    let cases = cases();
    let trees: Vec<PathBuf> = cases.iter().map(|case| folder(&format!("tree-{}", case.name))).collect();
    for (case, tree) in cases.iter().zip(&trees) {
        write(tree, case, false);
        init(tree);
        cluster.kubectl(&["create", "namespace", case.name]).unwrap();
        flux::begin(cluster, case.name, tree);
    }
    for (case, tree) in cases.iter().zip(&trees) {
        settled(cluster, case.name, "apps");
        publish_chart(cluster, case.name, tree);
    }
    cases.iter().for_each(|case| ready(cluster, case.name, "1"));
    for case in cases.iter().filter(|case| case.flag) {
        cluster.kubectl(&["create", "configmap", "flag", "-n", case.name]).unwrap();
    }
    std::thread::sleep(Duration::from_secs(3));
    let before = objects(cluster);
    let helm = format!("--helm={}", bin("helm").display());
    let mut planned: BTreeMap<String, String> = BTreeMap::new();
    let mut wrong = vec![];
    for (case, tree) in cases.iter().zip(&trees) {
        write(tree, case, true);
        let run = plan(cluster, case.name, tree, &[&helm, "--diff"]);
        let document = document(&run);
        let release =
            document["owners"].as_array().unwrap().iter().find(|owner| owner["kind"] == "HelmRelease").cloned();
        let outcome = release.as_ref().map_or("none", |owner| owner["outcome"].as_str().unwrap());
        let found: BTreeSet<String> = rows(&run).into_keys().filter(|row| is_own(row)).collect();
        let expected: BTreeSet<String> = case.deletes.iter().map(|row| (*row).to_owned()).collect();
        if (document["complete"] != true) || outcome != case.outcome || found != expected {
            wrong.push(format!("{}: {found:?} {:?} {}", case.name, release, document["gaps"]));
        }
        wrong.extend(wrong_update(case, &document));
        planned.extend(planned_deletions(&document));
    }
    for (case, tree) in cases.iter().zip(&trees) {
        commit(tree);
        let revision = cluster.publish(&format!("GitRepository/{}/src", case.name), tree).unwrap();
        applied(cluster, case.name, "apps", &revision);
        publish_chart(cluster, case.name, tree);
    }
    for case in &cases {
        if case.outcome == "blocked" { failed(cluster, case.name) } else { ready(cluster, case.name, "2") }
    }
    let after = objects_after(cluster, planned.keys(), Duration::from_secs(8));
    for case in cases.iter().filter(|case| case.outcome == "applies" && case.name != "cr-library") {
        let label = ["get", "configmap", "stays", "-n", case.name, "-o", "jsonpath={.metadata.labels.chart}"];
        assert_eq!(cluster.kubectl(&label).unwrap(), "2.0.0", "{}", case.name);
    }
    wrong.extend(unplanned(&before, &after, &planned));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
