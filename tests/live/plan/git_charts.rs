//! Charts in a git repository, from the commit to the release: the real source-controller decides whether it packs a chart again, and
//! the real helm-controller whether it upgrades. A plan is compared by uid with what they do.
//!
//! `GIT_CHARTS` selects the cases whose names begin with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use super::releases::{objects, objects_after, unplanned};
use super::upgrades::{is_own, planned_deletions, ready};
use test_support::cluster::LIMIT;
use test_support::flux::{applied, kustomization};
use test_support::folder::{commit, folder, init};
use test_support::servers;
use test_support::tree_plan::{document, plan, rows};
use xtask::cluster::{Cluster, Flux, Options};
use xtask::controlplane::{bin, ensure};

/// A file of the repository, and its content, or the folder of a chart that is packed there; `None` removes it.
pub(super) type Edit = (&'static str, Option<&'static str>);

/// A version of the chart of a release.
macro_rules! version {
    ($version:literal) => {
        ("charts/app/Chart.yaml", Some(concat!("apiVersion: v2\nname: app\nversion: ", $version, "\n")))
    };
}

const V1: &str = "apiVersion: v2\nname: app\nversion: 1.0.0\n";
const V2: &str = "apiVersion: v2\nname: app\nversion: 2.0.0\n";
const STAYS: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: stays}\n";
const GOES: &str = "{{ if .Values.extra }}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: goes}\n{{ end }}\n";
const LIBRARY: &str = "apiVersion: v2\nname: lib\nversion: 1.0.0\n";
const OF_LIBRARY: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: of-lib}\n";
const WITH_LIBRARY_1: &str = "apiVersion: v2\nname: app\nversion: 1.0.0\ndependencies: [{name: lib, version: 1.0.0, repository: 'file://../lib'}]\n";
const WITH_LIBRARY_2: &str = "apiVersion: v2\nname: app\nversion: 2.0.0\ndependencies: [{name: lib, version: 1.0.0, repository: 'file://../lib'}]\n";

const BASE: [(&str, &str); 5] = [
    ("charts/app/Chart.yaml", V1),
    ("charts/app/values.yaml", "extra: true\n"),
    ("charts/app/small.yaml", "extra: false\n"),
    ("charts/app/templates/stays.yaml", STAYS),
    ("charts/app/templates/goes.yaml", GOES),
];
/// A chart beside that of the release, on which it depends.
const DEPENDENCY: [Edit; 3] = [
    ("charts/app/Chart.yaml", Some(WITH_LIBRARY_1)),
    ("charts/lib/Chart.yaml", Some(LIBRARY)),
    ("charts/lib/templates/a.yaml", Some(OF_LIBRARY)),
];
const EXTRA: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\n";
/// A chart in the folder of the release's.
const VENDORED: [Edit; 2] =
    [("charts/app/charts/lib/Chart.yaml", Some(LIBRARY)), ("charts/app/charts/lib/templates/a.yaml", Some(OF_LIBRARY))];
const DEFINITION: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.gs.example.com}
spec:
  group: gs.example.com
  scope: Namespaced
  names: {kind: Thing, plural: things, singular: thing, listKind: ThingList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object}}
";
const HOOK: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hook, annotations: {helm.sh/hook: pre-upgrade}}\n";
const POST_RENDERED: &str = "\
upgrade: {disableWait: true}
  postRenderers:
  - kustomize:
      patches:
      - patch: '{$patch: delete, apiVersion: v1, kind: ConfigMap, metadata: {name: more}}'
        target: {kind: ConfigMap, name: more}";
/// A ConfigMap that no upgrade to another version can change.
const FROZEN: Edit = (
    "charts/app/templates/frozen.yaml",
    Some(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: frozen}\nimmutable: true\ndata: {a: {{ .Chart.Version | quote }}}\n",
    ),
);
const ARCHIVE: Edit = ("charts/app.tgz", Some("charts/app"));
const WITHOUT: Edit = ("charts/app/templates/goes.yaml", None);
const BUMP: Edit = ("charts/app/Chart.yaml", Some(V2));

/// One HelmRelease in a namespace and a repository of its own.
struct Case {
    name: &'static str,
    /// Fields of the spec of the chart before and after the change, beside its source.
    chart: [&'static str; 2],
    /// More fields of the spec of the release before and after the change.
    spec: [&'static str; 2],
    /// Files beside those of every case.
    more: &'static [Edit],
    edits: &'static [Edit],
    deletes: &'static [&'static str],
    /// `None` if that depends on whether the new chart comes first.
    is_upgraded: Option<bool>,
}

fn cases() -> Vec<Case> {
    let base = Case {
        name: "",
        chart: ["chart: ./charts/app", "chart: ./charts/app"],
        spec: ["upgrade: {disableWait: true}"; 2],
        more: &[],
        edits: &[],
        deletes: &[],
        is_upgraded: Some(false),
    };
    let upgraded = Case { deletes: &["delete ConfigMap/goes"], is_upgraded: Some(true), ..base };
    let upgraded_extra = Case { deletes: &["delete ConfigMap/more"], ..upgraded };
    let open = Case { edits: &[WITHOUT, BUMP], deletes: &["delete? ConfigMap/goes"], is_upgraded: None, ..base };
    let suspended = "upgrade: {disableWait: true}\n  suspend: true";
    let every_revision = "chart: ./charts/app, reconcileStrategy: Revision";
    vec![
        Case { name: "gc-same-version", edits: &[WITHOUT], ..base },
        Case { name: "gc-bump", edits: &[WITHOUT, BUMP], ..upgraded },
        Case { name: "gc-downgrade", edits: &[WITHOUT, version!("0.9.0")], ..upgraded },
        Case { name: "gc-revision", chart: [every_revision; 2], edits: &[WITHOUT], ..upgraded },
        Case {
            name: "gc-elsewhere",
            chart: [every_revision; 2],
            edits: &[("README.md", Some("x\n"))],
            deletes: &[],
            ..upgraded
        },
        Case { name: "gc-strategy", chart: [base.chart[0], every_revision], edits: &[WITHOUT], ..upgraded },
        Case {
            name: "gc-values-file",
            chart: ["chart: ./charts/app, valuesFiles: [charts/app/values.yaml]"; 2],
            edits: &[("charts/app/values.yaml", Some("extra: false\n"))],
            ..base
        },
        Case {
            name: "gc-values-bump",
            chart: ["chart: ./charts/app, valuesFiles: [charts/app/values.yaml]"; 2],
            edits: &[("charts/app/values.yaml", Some("extra: false\n")), BUMP],
            ..upgraded
        },
        Case {
            name: "gc-values-list",
            chart: [
                "chart: ./charts/app",
                "chart: ./charts/app, valuesFiles: [charts/app/values.yaml, charts/app/small.yaml]",
            ],
            ..upgraded
        },
        Case {
            name: "gc-values-bump-list",
            chart: [
                "chart: ./charts/app",
                "chart: ./charts/app, valuesFiles: [charts/app/values.yaml, charts/app/small.yaml]",
            ],
            edits: &[BUMP],
            ..upgraded
        },
        Case {
            name: "gc-moved",
            chart: ["chart: ./charts/app", "chart: ./charts/other"],
            edits: &[("charts/other/Chart.yaml", Some(V1)), ("charts/other/templates/stays.yaml", Some(STAYS))],
            ..base
        },
        Case {
            name: "gc-moved-bump",
            chart: ["chart: ./charts/app", "chart: ./charts/other"],
            edits: &[("charts/other/Chart.yaml", Some(V2)), ("charts/other/templates/stays.yaml", Some(STAYS))],
            ..upgraded
        },
        Case {
            name: "gc-helmignore",
            edits: &[("charts/app/.helmignore", Some("templates/goes.yaml\n")), BUMP],
            ..upgraded
        },
        Case {
            name: "gc-sourceignore",
            edits: &[(".sourceignore", Some("charts/app/templates/goes.yaml\n")), BUMP],
            ..upgraded
        },
        Case {
            name: "gc-dependency",
            more: &DEPENDENCY,
            edits: &[("charts/lib/templates/a.yaml", None), ("charts/lib/templates/b.yaml", Some(""))],
            ..base
        },
        Case {
            name: "gc-dependency-bump",
            more: &DEPENDENCY,
            edits: &[
                ("charts/app/Chart.yaml", Some(WITH_LIBRARY_2)),
                ("charts/lib/templates/a.yaml", None),
                ("charts/lib/templates/b.yaml", Some("")),
            ],
            deletes: &["delete ConfigMap/of-lib"],
            ..upgraded
        },
        Case { name: "gc-broken", edits: &[WITHOUT, ("charts/app/Chart.yaml", Some("name: [\n"))], ..base },
        Case { name: "gc-gone", edits: &[("charts/app/Chart.yaml", None)], ..base },
        Case { name: "gc-no-version", edits: &[WITHOUT, version!("not-a-version")], ..base },
        Case {
            name: "gc-ignored-by-glob",
            edits: &[("charts/app/.helmignore", Some("# comment\n\ngo*.yaml\n")), BUMP],
            ..upgraded
        },
        // Helm reads a negated pattern as one of all other files.
        Case { name: "gc-ignored-all", edits: &[("charts/app/.helmignore", Some("!goes.yaml\n")), BUMP], ..base },
        Case { name: "gc-ignored-alone", edits: &[("charts/app/.helmignore", Some("templates/goes.yaml\n"))], ..base },
        Case {
            name: "gc-ignored-outside",
            edits: &[("charts/.helmignore", Some("app/templates/goes.yaml\n")), BUMP],
            deletes: &[],
            ..upgraded
        },
        Case {
            name: "gc-other-suffix",
            more: &[("charts/app/templates/more.txt", Some(EXTRA))],
            edits: &[("charts/app/templates/more.txt", None), BUMP],
            ..upgraded_extra
        },
        Case {
            name: "gc-vendored-library",
            more: &VENDORED,
            edits: &[("charts/app/charts/lib/templates/a.yaml", None), BUMP],
            deletes: &["delete ConfigMap/of-lib"],
            ..upgraded
        },
        Case {
            name: "gc-vendored-leaves",
            more: &VENDORED,
            edits: &[
                ("charts/app/charts/lib/templates/a.yaml", None),
                ("charts/app/charts/lib/Chart.yaml", None),
                BUMP,
            ],
            deletes: &["delete ConfigMap/of-lib"],
            ..upgraded
        },
        Case {
            name: "gc-library-outside",
            edits: &[
                WITHOUT,
                (
                    "charts/app/Chart.yaml",
                    Some(
                        "apiVersion: v2\nname: app\nversion: 2.0.0\ndependencies: [{name: lib, version: 1.0.0, repository: 'file://../../../lib'}]\n",
                    ),
                ),
            ],
            ..base
        },
        Case {
            name: "gc-values-file-missing-is-ignored",
            chart: [
                "chart: ./charts/app",
                "chart: ./charts/app, valuesFiles: [charts/app/none.yaml, charts/app/small.yaml], ignoreMissingValuesFiles: true",
            ],
            edits: &[BUMP],
            ..upgraded
        },
        Case {
            name: "gc-values-file-outside",
            chart: ["chart: ./charts/app", "chart: ./charts/app, valuesFiles: [../small.yaml]"],
            more: &[("small.yaml", Some("extra: false\n"))],
            edits: &[BUMP],
            ..upgraded
        },
        Case {
            name: "gc-version-is-ignored",
            chart: ["chart: ./charts/app", "chart: ./charts/app, version: 9.9.9"],
            edits: &[WITHOUT, BUMP],
            ..upgraded
        },
        Case {
            name: "gc-first-version-of-the-api",
            more: &[("charts/app/Chart.yaml", Some("apiVersion: v1\nname: app\nversion: 1.0.0\n"))],
            edits: &[WITHOUT, ("charts/app/Chart.yaml", Some("apiVersion: v1\nname: app\nversion: 1.1.0\n"))],
            ..upgraded
        },
        Case {
            name: "gc-name-of-another-folder",
            more: &[("charts/app/Chart.yaml", Some("apiVersion: v2\nname: other\nversion: 1.0.0\n"))],
            edits: &[WITHOUT, ("charts/app/Chart.yaml", Some("apiVersion: v2\nname: other\nversion: 1.1.0\n"))],
            ..upgraded
        },
        Case { name: "gc-version-with-v", edits: &[WITHOUT, version!("v2.0.0")], ..upgraded },
        Case { name: "gc-pre-release", edits: &[WITHOUT, version!("2.0.0-rc.1")], ..upgraded },
        Case { name: "gc-short-version", edits: &[WITHOUT, version!("'2'")], ..upgraded },
        Case { name: "gc-metadata-of-the-version", edits: &[WITHOUT, version!("1.0.0+7")], ..upgraded },
        Case {
            name: "gc-key-twice",
            edits: &[BUMP, ("charts/app/values.yaml", Some("extra: true\nextra: false\n"))],
            ..upgraded
        },
        Case {
            name: "gc-values-file-missing",
            chart: ["chart: ./charts/app", "chart: ./charts/app, valuesFiles: [charts/app/none.yaml]"],
            edits: &[WITHOUT],
            ..base
        },
        Case {
            name: "gc-archive",
            chart: ["chart: ./charts/app.tgz"; 2],
            more: &[ARCHIVE],
            edits: &[WITHOUT, BUMP, ARCHIVE],
            ..upgraded
        },
        Case {
            name: "gc-archive-beside",
            chart: ["chart: ./charts/app.tgz"; 2],
            more: &[ARCHIVE],
            edits: &[WITHOUT, BUMP],
            ..base
        },
        Case {
            name: "gc-archive-with-values",
            chart: ["chart: ./charts/app.tgz", "chart: ./charts/app.tgz, valuesFiles: [charts/app/small.yaml]"],
            more: &[ARCHIVE],
            ..upgraded
        },
        Case {
            name: "gc-moved-while-the-old-one-changes",
            chart: ["chart: ./charts/app", "chart: ./charts/other"],
            edits: &[
                WITHOUT,
                BUMP,
                ("charts/other/Chart.yaml", Some("apiVersion: v2\nname: app\nversion: 1.5.0\n")),
                ("charts/other/values.yaml", Some("extra: true\n")),
                ("charts/other/templates/stays.yaml", Some(STAYS)),
                ("charts/other/templates/goes.yaml", Some(GOES)),
            ],
            deletes: &["recreate? ConfigMap/goes"],
            ..upgraded
        },
        Case {
            name: "gc-library-of-another-version",
            more: &DEPENDENCY,
            edits: &[
                WITHOUT,
                ("charts/app/Chart.yaml", Some(WITH_LIBRARY_2)),
                ("charts/lib/Chart.yaml", Some("apiVersion: v2\nname: lib\nversion: 1.1.0\n")),
            ],
            ..base
        },
        Case {
            name: "gc-library-is-gone",
            more: &DEPENDENCY,
            edits: &[
                WITHOUT,
                ("charts/app/Chart.yaml", Some(WITH_LIBRARY_2)),
                ("charts/lib/Chart.yaml", None),
                ("charts/lib/templates/a.yaml", None),
            ],
            ..base
        },
        Case {
            name: "gc-path-above-the-root",
            chart: ["chart: ./charts/app", "chart: ../../charts/app"],
            edits: &[WITHOUT, BUMP],
            ..upgraded
        },
        Case {
            name: "gc-unknown-field",
            edits: &[
                WITHOUT,
                ("charts/app/Chart.yaml", Some("apiVersion: v2\nname: app\nversion: 2.0.0\nowner: me\n")),
            ],
            ..upgraded
        },
        Case {
            name: "gc-without-a-name",
            edits: &[WITHOUT, ("charts/app/Chart.yaml", Some("apiVersion: v2\nversion: 2.0.0\n"))],
            ..base
        },
        Case {
            name: "gc-without-an-api",
            edits: &[WITHOUT, ("charts/app/Chart.yaml", Some("name: app\nversion: 2.0.0\n"))],
            ..upgraded
        },
        Case {
            name: "gc-values-no-yaml",
            edits: &[WITHOUT, BUMP, ("charts/app/values.yaml", Some("extra: [\n"))],
            ..base
        },
        Case {
            name: "gc-values-a-list",
            edits: &[WITHOUT, BUMP, ("charts/app/values.yaml", Some("- extra\n"))],
            ..base
        },
        Case { name: "gc-empty-values", edits: &[BUMP, ("charts/app/values.yaml", Some(""))], ..upgraded },
        Case {
            name: "gc-byte-order-mark",
            edits: &[BUMP, ("charts/app/values.yaml", Some("\u{feff}extra: false\n"))],
            ..upgraded
        },
        // The new chart mostly comes before the HelmRelease changes.
        Case { name: "gs-suspended", spec: [base.spec[0], suspended], ..open },
        Case {
            name: "gs-definitions",
            spec: [base.spec[0], "upgrade: {disableWait: true, crds: Skip}"],
            edits: &[
                WITHOUT,
                BUMP,
                ("charts/app/crds/d.yaml", Some(DEFINITION)),
                (
                    "charts/app/templates/t.yaml",
                    Some("apiVersion: gs.example.com/v1\nkind: Thing\nmetadata: {name: t}\n"),
                ),
            ],
            ..open
        },
        Case {
            name: "gs-renamed",
            spec: [base.spec[0], "upgrade: {disableWait: true}\n  releaseName: other"],
            edits: &[WITHOUT, BUMP],
            deletes: &["delete ConfigMap/goes", "recreate ConfigMap/stays", "delete Secret/sh.helm.release.v1.app.v1"],
            ..base
        },
        Case {
            name: "gs-account",
            spec: [base.spec[0], "upgrade: {disableWait: true}\n  serviceAccountName: nobody"],
            ..open
        },
        Case {
            name: "gs-hooks",
            spec: [base.spec[0], "upgrade: {disableWait: true, disableHooks: true}"],
            more: &[(
                "deploy/hook.yaml",
                Some("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hook, namespace: gs-hooks}\n"),
            )],
            edits: &[BUMP, ("charts/app/templates/hook.yaml", Some(HOOK))],
            deletes: &["recreate? ConfigMap/hook"],
            ..open
        },
        Case {
            name: "gs-post-renderers",
            spec: [POST_RENDERED, base.spec[0]],
            edits: &[WITHOUT, BUMP, ("charts/app/templates/more.yaml", Some(EXTRA))],
            ..upgraded
        },
        Case {
            name: "gs-depends",
            spec: [base.spec[0], "upgrade: {disableWait: true}\n  dependsOn: [{name: nobody}]"],
            ..open
        },
        // What is not in the manifest that fails stays when the remedy uninstalls it.
        Case {
            name: "gs-remedy",
            spec: ["upgrade: {disableWait: true, remediation: {retries: 1, strategy: uninstall}}", base.spec[0]],
            more: &[FROZEN],
            deletes: &[
                "recreate? ConfigMap/frozen",
                "recreate? ConfigMap/stays",
                "recreate? Secret/sh.helm.release.v1.app.v1",
            ],
            ..open
        },
        Case {
            name: "gs-elsewhere",
            spec: [base.spec[0], "upgrade: {disableWait: true}\n  targetNamespace: default"],
            deletes: &["delete? ConfigMap/goes", "delete Secret/sh.helm.release.v1.app.v1"],
            ..open
        },
    ]
}

impl Case {
    fn release(&self, at: usize) -> String {
        let source = "sourceRef: {kind: GitRepository, name: src}";
        format!(
            "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: app, namespace: {}}}\nspec:\n  interval: 1h\n  \
             timeout: 20s\n  chart: {{spec: {{{}, interval: 1h, {source}}}}}\n  install: {{disableWait: true}}\n  {}\n",
            self.name, self.chart[at], self.spec[at]
        )
    }

    fn source(&self, port: u16) -> String {
        let url = format!("http://127.0.0.1:{port}/{}/.git", self.name);
        let spec = json!({"interval": "2s", "url": url, "ref": {"branch": "main"}});
        let metadata = json!({"name": "src", "namespace": self.name});
        json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "metadata": metadata, "spec": spec}).to_string()
    }
}

/// Makes an edit in a tree.
pub(super) fn write(tree: &Path, (at, content): Edit) {
    let path = tree.join(at);
    match content {
        Some(folder) if at.ends_with(".tgz") => {
            let packed = test_support::folder::folder("packed");
            let helm = Command::new(bin("helm"))
                .arg("package")
                .arg(tree.join(folder))
                .arg("-d")
                .arg(&packed)
                .output()
                .unwrap();
            assert!(helm.status.success(), "{helm:?}");
            let archive = fs::read_dir(&packed).unwrap().next().unwrap().unwrap().path();
            fs::copy(archive, path).unwrap();
        }
        Some(content) => {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        None => fs::remove_file(path).unwrap(),
    }
}

#[test]
fn charts_of_a_git_repository_are_packed_and_upgraded_as_planned() {
    ensure(&["helm"]).unwrap();
    let repositories = folder("git-charts");
    let port = servers::git(&repositories);
    let options = Options { flux: Flux::All, source_service: true, ..Options::default() };
    let cluster = &Cluster::up(options).expect("the test cluster comes up");
    let mut cases = cases();
    if let Ok(start) = std::env::var("GIT_CHARTS") {
        cases.retain(|case| case.name.starts_with(&start));
    }
    let trees: Vec<PathBuf> = cases.iter().map(|case| repositories.join(case.name)).collect();
    for (case, tree) in cases.iter().zip(&trees) {
        BASE.iter().for_each(|(at, content)| write(tree, (at, Some(content))));
        case.more.iter().for_each(|edit| write(tree, *edit));
        fs::create_dir_all(tree.join("deploy")).unwrap();
        fs::write(tree.join("deploy/app.yaml"), case.release(0)).unwrap();
        init(tree);
        cluster.kubectl(&["create", "namespace", case.name]).unwrap();
        let apps = kustomization(case.name, "apps", "./deploy", "");
        cluster.kubectl_stdin(&["apply", "-f", "-"], &format!("{}\n---\n{apps}", case.source(port))).unwrap();
    }
    cases.iter().for_each(|case| ready(cluster, case.name, "1"));
    let before = objects(cluster);
    let helm = format!("--helm={}", bin("helm").display());
    // Those that may stay, because their order is open.
    let mut open = BTreeSet::new();
    let (mut planned, mut wrong) = (BTreeMap::new(), vec![]);
    for (case, tree) in cases.iter().zip(&trees) {
        case.edits.iter().for_each(|edit| write(tree, *edit));
        fs::write(tree.join("deploy/app.yaml"), case.release(1)).unwrap();
        let run = plan(cluster, case.name, tree, &[&helm]);
        let document = document(&run);
        let found: BTreeSet<String> = rows(&run).into_keys().filter(|row| is_own(row)).collect();
        let expected: BTreeSet<String> = case.deletes.iter().map(|row| (*row).to_owned()).collect();
        if document["complete"] != true || found != expected {
            wrong.push(format!("{}: {found:?} {} {}", case.name, document["owners"], document["gaps"]));
        }
        let deletions = planned_deletions(&document);
        let races = deletions.iter().filter(|(_, action)| case.is_upgraded.is_none() && action.ends_with('?'));
        open.extend(races.map(|(uid, _)| uid.clone()));
        planned.extend(deletions);
    }
    for (case, tree) in cases.iter().zip(&trees) {
        commit(tree);
        let head = xtask::git::run(tree, &["rev-parse", "HEAD"]).unwrap();
        applied(cluster, case.name, "apps", &format!("main@sha1:{}", head.trim()));
    }
    for case in cases.iter().filter(|case| case.is_upgraded == Some(true)) {
        let is_done = || Ok(upgraded(cluster).contains(case.name));
        let done = cluster.wait_for(&format!("the upgrade in {}", case.name), LIMIT, is_done);
        done.unwrap_or_else(|error| wrong.push(error.to_string()));
    }
    let certain = planned.keys().filter(|uid| !open.contains(*uid));
    let after = objects_after(cluster, certain, Duration::from_secs(10));
    let upgraded = upgraded(cluster);
    for case in cases.iter().filter(|case| case.is_upgraded == Some(!upgraded.contains(case.name))) {
        wrong.push(format!("{}: upgraded: {}", case.name, upgraded.contains(case.name)));
    }
    planned.retain(|uid, _| !(open.contains(uid) && after.contains_key(uid)));
    wrong.extend(unplanned(&before, &after, &planned));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the namespaces whose release has another revision than the first.
fn upgraded(cluster: &Cluster) -> BTreeSet<String> {
    let columns = "jsonpath={range .items[*]}{.metadata.namespace} {.status.history[0].version}{\"\\n\"}{end}";
    let releases = cluster.kubectl(&["get", "helmrelease", "-A", "-o", columns]).unwrap();
    let later = releases.lines().filter_map(|line| line.split_once(' ')).filter(|(_, revision)| *revision != "1");
    later.map(|(namespace, _)| namespace.to_owned()).collect()
}
