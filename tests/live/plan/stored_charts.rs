//! Upgrades of releases whose chart is in a repository, compared by uid with what the real source-controller and
//! helm-controller do. The plan reads the deployed charts from source-controller, through the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::releases::{objects, objects_after, unplanned};
use super::upgrades::{is_own, planned_deletions, ready};
use test_support::chart::chart;
use test_support::cluster::LIMIT;
use test_support::flux::{applied, deploy};
use test_support::folder::{commit, folder, init};
use test_support::gitops::{Run, command, gitops};
use test_support::tree_plan::{arguments, document, plan, reason, rows};
use xtask::cluster::{Cluster, Flux, Options};
use xtask::controlplane::{bin, ensure};

/// Templates of version 1 of the chart.
const TEMPLATES: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: stays}
data: {version: "{{ .Capabilities.KubeVersion.Version }}", image: "{{ .Values.image }}"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Values.name }}"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: kept, annotations: {helm.sh/resource-policy: keep}}
---
{{ if .Values.extra }}
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
{{ end }}
---
{{ if .Values.frozen }}
apiVersion: v1
kind: ConfigMap
metadata: {name: frozen}
immutable: true
data: {image: "{{ .Values.image }}"}
{{ end }}
---
{{ if .Values.numbered }}
apiVersion: v1
kind: ConfigMap
metadata: {name: "job-{{ .Release.Revision }}"}
{{ end }}
---
{{ if .Capabilities.APIVersions.Has "extensions/v1beta1" }}
apiVersion: v1
kind: ConfigMap
metadata: {name: of-another-cluster}
{{ end }}
---
{{ if and .Values.looks (lookup "v1" "ConfigMap" .Release.Namespace "stays") }}
apiVersion: v1
kind: ConfigMap
metadata: {name: found}
{{ end }}
"#;

/// Values of the chart.
const VALUES: &str = "{extra: true, name: plain, numbered: false, looks: false, frozen: false, image: a}\n";

/// The case whose upgrade the API server refuses.
const REFUSED: &str = "sc-refused";

/// One HelmRelease in a namespace of its own.
struct Case {
    name: &'static str,
    /// Fields of the spec of the chart, and of the release, before and after the change.
    chart: [&'static str; 2],
    spec: [&'static str; 2],
    /// Objects that the change deletes, as `ACTION KIND/NAME`.
    deletes: &'static [&'static str],
    /// The effect is not known, for this reason.
    unknown: Option<&'static str>,
    /// The repository may have a version that the folder of `--charts` lacks.
    assumes: bool,
}

fn cases() -> Vec<Case> {
    let case = |name, spec, deletes| Case {
        name,
        chart: ["version: 1.0.0", "version: 1.0.0"],
        spec,
        deletes,
        unknown: None,
        assumes: false,
    };
    vec![
        case("sc-values", ["", "values: {extra: false}"], &["delete PersistentVolumeClaim/data"]),
        case("sc-renamed", ["", "values: {name: other}"], &["delete ConfigMap/plain"]),
        case("sc-image", ["", "values: {image: b}"], &[]),
        case("sc-interval", ["", "maxHistory: 3"], &[]),
        case(
            "sc-revision",
            ["values: {numbered: true}", "values: {numbered: true, image: b}"],
            &["delete ConfigMap/job-1"],
        ),
        // The server refuses the change of an immutable object, so that Helm deletes nothing.
        case(REFUSED, ["values: {frozen: true}", "values: {frozen: true, image: b, extra: false}"], &[]),
        case(
            "sc-lookup",
            ["values: {looks: false}", "values: {looks: true, extra: false}"],
            &["delete PersistentVolumeClaim/data"],
        ),
        Case {
            chart: ["version: 1.0.0", "version: 1.0.0, valuesFiles: [values.yaml, values-small.yaml]"],
            ..case("sc-values-files", ["", ""], &["delete PersistentVolumeClaim/data"])
        },
        case("sc-range", ["", "values: {extra: false}"], &["delete PersistentVolumeClaim/data"]),
        Case {
            chart: ["version: 1.0.0", "version: 2.0.0"],
            ..case("sc-bump", ["", ""], &["delete PersistentVolumeClaim/data"])
        },
        Case {
            chart: ["version: 1.x", "version: 2.x"],
            assumes: true,
            ..case("sc-bump-range", ["", ""], &["delete? PersistentVolumeClaim/data"])
        },
        Case {
            chart: ["version: 1.0.0", "version: 3.0.0"],
            unknown: Some("no version matches 3.0.0 of app"),
            ..case("sc-absent", ["", ""], &[])
        },
        case("sc-repository", ["", ""], &["delete HelmRepository/charts"]),
        Case {
            chart: ["version: 1.0.0", "version: 2.0.0"],
            ..case(
                "sc-repository-bump",
                ["", ""],
                &["delete HelmRepository/charts", "delete PersistentVolumeClaim/data"],
            )
        },
        case("sc-oci", ["", "values: {extra: false}"], &["delete PersistentVolumeClaim/data"]),
        case("sc-chart", ["", "values: {extra: false}"], &["delete PersistentVolumeClaim/data"]),
    ]
}

impl Case {
    /// Returns the manifests before (0) or after (1) the change.
    fn manifests(&self, at: usize, url: &str) -> String {
        let version = if self.name == "sc-range" { "version: 1.x" } else { self.chart[at] };
        // A HelmChart has its source in its own namespace.
        let renames = self.name.starts_with("sc-repository");
        let elsewhere = if self.name == "sc-chart" || renames { "" } else { ", namespace: flux-system" };
        let name = if renames && at == 1 { "other" } else { "charts" };
        let reference = format!("{{kind: HelmRepository, name: {name}{elsewhere}}}");
        let chart = format!("chart: app, interval: 1h, {version}, sourceRef: {reference}");
        let (chart, more) = match self.name {
            "sc-oci" => ("chartRef: {kind: OCIRepository, name: app}".to_owned(), String::new()),
            "sc-chart" => (
                "chartRef: {kind: HelmChart, name: shared}".to_owned(),
                repository(self.name, url)
                    + &format!(
                        "---\napiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmChart\nmetadata: {{name: shared, namespace: {}}}\n\
                         spec: {{{chart}}}\n",
                        self.name
                    ),
            ),
            _ => {
                let own = repository(self.name, url).replace("name: charts", &format!("name: {name}"));
                (format!("chart: {{spec: {{{chart}}}}}"), if renames { own } else { String::new() })
            }
        };
        format!(
            "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: app, namespace: {}}}\nspec:\n  interval: 1h\n  \
             timeout: 20s\n  {chart}\n  install: {{disableWait: true}}\n  upgrade: {{disableWait: true}}\n  {}\n{more}",
            self.name, self.spec[at]
        )
    }

    fn write(&self, tree: &Path, at: usize, url: &str) {
        fs::write(tree.join("app.yaml"), self.manifests(at, url)).unwrap();
        fs::write(tree.join("kustomization.yaml"), "resources: [app.yaml]\n").unwrap();
    }

    fn revision(&self) -> &'static str {
        if self.spec[0] == self.spec[1] && self.chart[0] == self.chart[1] || self.name == "sc-interval" {
            "1"
        } else {
            "2"
        }
    }
}

/// Returns a chart repository.
fn repository(namespace: &str, url: &str) -> String {
    format!(
        "---\napiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository\nmetadata: {{name: charts, namespace: {namespace}}}\n\
         spec: {{interval: 1h, url: \"{url}\"}}\n"
    )
}

/// Returns a packed version of the chart.
fn packed(version: &str, templates: &str) -> PathBuf {
    let archive = chart("app", version, templates);
    let directory = archive.parent().unwrap();
    fs::write(directory.join("app/values.yaml"), VALUES).unwrap();
    fs::write(directory.join("app/values-small.yaml"), "extra: false\n").unwrap();
    let status = Command::new("tar").arg("-C").arg(directory).arg("-czf").arg(&archive).arg("app").status().unwrap();
    assert!(status.success());
    archive
}

/// Serves charts as a repository that source-controller reads.
fn serve(cluster: &Cluster, archives: &[&Path]) {
    let directory = cluster.dir().join("artifacts/charts");
    fs::create_dir_all(&directory).unwrap();
    for archive in archives {
        fs::copy(archive, directory.join(archive.file_name().unwrap())).unwrap();
    }
    let indexed = Command::new(bin("helm")).args(["repo", "index"]).arg(&directory).status().unwrap();
    assert!(indexed.success());
}

#[test]
fn upgrades_of_stored_charts_delete_what_was_planned() {
    ensure(&["helm"]).unwrap();
    let options = Options { flux: Flux::All, source_service: true, ..Options::default() };
    let cluster = &Cluster::up(options).expect("the test cluster comes up");
    let archive = packed("1.0.0", TEMPLATES);
    let next = packed("2.0.0", &TEMPLATES.replace("if .Values.extra", "if .Values.more"));
    serve(cluster, &[&archive, &next]);
    let url = &format!("{}charts", cluster.artifacts_url());
    cluster.kubectl_stdin(&["apply", "-f", "-"], &repository("flux-system", url)).unwrap();
    let cases = cases();
    let trees: Vec<PathBuf> = cases.iter().map(|case| folder(&format!("tree-{}", case.name))).collect();
    for (case, tree) in cases.iter().zip(&trees) {
        case.write(tree, 0, url);
        init(tree);
        deploy(cluster, case.name, tree);
    }
    cluster.publish("OCIRepository/sc-oci/app", &archive).unwrap();
    cases.iter().for_each(|case| ready(cluster, case.name, "1"));
    std::thread::sleep(Duration::from_secs(3));
    let before = objects(cluster);
    let helm = format!("--helm={}", bin("helm").display());
    let charts = format!("--charts={}", next.parent().unwrap().display());
    let mut planned: BTreeMap<String, String> = BTreeMap::new();
    for (case, tree) in cases.iter().zip(&trees) {
        case.write(tree, 1, url);
        let run = plan(cluster, case.name, tree, &[&helm, &charts]);
        let document = document(&run);
        let unknown = document["owners"].as_array().unwrap().iter().find(|row| row["outcome"] == "unknown").map(reason);
        match (case.unknown, unknown) {
            (None, None) => assert_eq!(document["complete"], !case.assumes, "{}: {}", case.name, document["gaps"]),
            (Some(expected), Some(found)) if found.contains(expected) => {}
            (_, found) => panic!("{}: {found:?} {}", case.name, run.stderr),
        }
        let found: BTreeSet<String> = rows(&run).into_keys().filter(|row| is_own(row)).collect();
        let expected: BTreeSet<String> = case.deletes.iter().map(|row| (*row).to_owned()).collect();
        assert_eq!(found, expected, "{}: {}", case.name, run.stdout);
        if ["sc-bump", "sc-bump-range", "sc-absent", "sc-repository-bump"].contains(&case.name) {
            fetched(cluster, case, tree, &helm, &expected);
        }
        if case.name == REFUSED {
            assert!(run.stdout.contains("refuses the upgrade, as it does now: configmap/frozen"), "{}", run.stdout);
            continue;
        }
        planned.extend(planned_deletions(&document));
    }
    refused(cluster, "sc-values", &trees[0], &helm);
    recorded(cluster, &cases, &trees, &[&helm, &charts]);
    for (case, tree) in cases.iter().zip(&trees) {
        commit(tree);
        let revision = cluster.publish(&format!("GitRepository/{}/src", case.name), tree).unwrap();
        applied(cluster, case.name, "apps", &revision);
    }
    let upgraded = cases.iter().filter(|case| ![REFUSED, "sc-absent"].contains(&case.name));
    upgraded.for_each(|case| ready(cluster, case.name, case.revision()));
    let after = objects_after(cluster, planned.keys(), Duration::from_secs(8));
    let wrong = unplanned(&before, &after, &planned);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Without a folder of charts, they are fetched from the repository.
fn fetched(cluster: &Cluster, case: &Case, tree: &Path, helm: &str, expected: &BTreeSet<String>) {
    let run = plan(cluster, case.name, tree, &[helm, "--allow-network"]);
    let found: BTreeSet<String> = rows(&run).into_keys().filter(|row| is_own(row)).collect();
    assert_eq!(&found, expected, "{}: {}", case.name, run.stdout);
    let document = document(&run);
    assert_eq!(document["complete"], case.name.ends_with("-bump"), "{}: {}", case.name, document["gaps"]);
    if case.name == "sc-absent" {
        assert!(
            run.stdout.contains("cannot be fetched: chart \\\"app\\\" version \\\"3.0.0\\\" not found"),
            "{}",
            run.stdout
        );
    }
}

/// Plans from a snapshot with charts and values have the same rows, as far as no dry-run decides.
fn recorded(cluster: &Cluster, cases: &[Case], trees: &[PathBuf], flags: &[&str]) {
    let directory = folder("recorded-charts");
    let record = |name: &str, more: &[&str]| {
        let file = directory.join(name).display().to_string();
        let run = gitops(cluster, &[&["snapshot", &file], more].concat());
        assert_eq!(run.code, 0, "{run:?}");
        file
    };
    let whole = record("whole.json.gz", &["--with-charts", "--with-values"]);
    let plain = record("plain.json.gz", &[]);
    for (case, tree) in cases.iter().zip(trees) {
        let rows_of = |snapshot: &str| {
            let run = plan(cluster, case.name, tree, &[flags, &["--snapshot", snapshot]].concat());
            let rows = rows(&run).into_keys().map(|row| row.replace('?', ""));
            (rows.collect::<BTreeSet<String>>(), run)
        };
        let (found, run) = rows_of(&whole);
        let found: BTreeSet<String> = found.into_iter().filter(|row| is_own(row)).collect();
        let mut expected: BTreeSet<String> = case.deletes.iter().map(|row| row.replace('?', "")).collect();
        // A recording has no answers to lookups.
        if case.name == "sc-lookup" {
            expected.clear();
            assert!(run.code == 5 && run.stdout.contains("its chart looks up"), "{}", run.stdout);
        }
        // No dry-run shows the refusal.
        expected.extend((case.name == REFUSED).then(|| "delete PersistentVolumeClaim/data".to_owned()));
        assert_eq!(found, expected, "{}: {}", case.name, run.stdout);
        let (found, run) = rows_of(&plain);
        let is_unknown = found.contains("unknown HelmRelease/app");
        assert_eq!(is_unknown, case.name != "sc-interval", "{}: {}", case.name, run.stdout);
    }
}

/// A user without the right to the proxy gets a row that names it.
fn refused(cluster: &Cluster, namespace: &str, tree: &Path, helm: &str) {
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: reads}\nrules:\n\
                - {apiGroups: ['*'], resources: ['*'], verbs: [list]}\n- {apiGroups: [''], resources: [configmaps], verbs: [get]}\n";
    cluster.kubectl_stdin(&["apply", "-f", "-"], role).unwrap();
    cluster.kubectl(&["create", "clusterrolebinding", "reads", "--clusterrole=reads", "--user=alice"]).unwrap();
    let words = arguments(namespace, tree, &[helm, "--offline"]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut found = String::new();
    cluster
        .wait_for("the rights of alice", LIMIT, || {
            // The charts that others read before are in their cache.
            let cache = tree.with_extension("cache");
            let mut command = command(&words);
            command.env("KUBECONFIG", cluster.kubeconfig_for("alice")).env("XDG_CACHE_HOME", cache);
            found = Run::of(&mut command).stdout;
            Ok(found.contains("its chart cannot be read"))
        })
        .unwrap_or_else(|error| panic!("{error}: {found}"));
    assert!(found.contains("cannot get resource \\\"services/proxy\\\""), "{found}");
}
