//! A commit that changes the source which it is read from: the real source-controller fetches it again by the new spec, and the real
//! kustomize-controller applies what it finds. A plan is compared by uid with what they do.
//!
//! `GIT_SOURCES` selects the cases whose names begin with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::git_charts::{Edit, write};
use super::releases::{objects, objects_after, unplanned};
use super::upgrades::{is_own, planned_deletions, ready};
use test_support::cluster::{LIMIT, with_kustomize_controller};
use test_support::flux::{applied, kustomization, settled};
use test_support::folder::{Folder, commit, folder, init};
use test_support::gitops::gitops;
use test_support::servers;
use test_support::tree_plan::{document, plan, rows};
use xtask::cluster::{Cluster, Flux, Options};
use xtask::controlplane::{bin, ensure};

const GOES: Edit = ("app/goes.yaml", None);
const MAIN: &str = "interval: 2s, url: URL, ref: {branch: main}";

/// A Kustomization of the folder `app`, and the source of both in a namespace and a repository of their own.
struct Case {
    name: &'static str,
    /// The spec of the source before and after the change.
    source: [&'static str; 2],
    edits: &'static [Edit],
    /// A race may stay.
    deletes: &'static [&'static str],
    is_complete: bool,
    /// The source gets another name.
    is_renamed: bool,
    /// The Kustomization has a HelmRelease of a chart in the source.
    has_release: bool,
}

fn cases() -> Vec<Case> {
    let base = Case {
        name: "",
        source: [MAIN; 2],
        edits: &[GOES],
        deletes: &["delete ConfigMap/goes"],
        is_complete: true,
        is_renamed: false,
        has_release: false,
    };
    let unknown = Case { deletes: &["delete? ConfigMap/goes"], is_complete: false, ..base };
    vec![
        Case { name: "so-same", ..base },
        Case { name: "so-interval", source: [MAIN, "interval: 3s, url: URL, ref: {branch: main}"], ..base },
        Case {
            name: "so-timeout",
            source: [MAIN, "interval: 2s, timeout: 30s, url: URL, ref: {branch: main}"],
            ..base
        },
        Case {
            name: "so-suspend",
            source: [MAIN, "interval: 2s, suspend: true, url: URL, ref: {branch: main}"],
            ..base
        },
        Case {
            name: "so-ignore",
            source: [MAIN, "interval: 2s, url: URL, ref: {branch: main}, ignore: app/stays.yaml"],
            deletes: &["delete ConfigMap/goes", "delete ConfigMap/stays"],
            ..base
        },
        Case {
            name: "so-ignore-alone",
            source: [MAIN, "interval: 2s, url: URL, ref: {branch: main}, ignore: app/stays.yaml"],
            edits: &[],
            deletes: &["delete ConfigMap/stays"],
            ..base
        },
        Case {
            name: "so-ignore-goes",
            source: ["interval: 2s, url: URL, ref: {branch: main}, ignore: app/hidden.yaml", MAIN],
            ..base
        },
        Case { name: "so-branch", source: [MAIN, "interval: 2s, url: URL, ref: {branch: release}"], ..unknown },
        Case {
            name: "so-commit",
            source: [MAIN, "interval: 2s, url: URL, ref: {branch: main, commit: FIRST}"],
            ..unknown
        },
        Case {
            name: "so-secret",
            source: [MAIN, "interval: 2s, url: URL, ref: {branch: main}, secretRef: {name: no}"],
            ..unknown
        },
        Case { name: "so-url", source: [MAIN, "interval: 2s, url: URL/, ref: {branch: main}"], ..unknown },
        Case {
            name: "so-sparse",
            source: [MAIN, "interval: 2s, url: URL, ref: {branch: main}, sparseCheckout: [deploy]"],
            deletes: &["delete? ConfigMap/goes"],
            ..base
        },
        Case {
            name: "so-submodules",
            source: [MAIN, "interval: 2s, url: URL, ref: {branch: main}, recurseSubmodules: true"],
            ..unknown
        },
        Case {
            name: "so-gone",
            edits: &[GOES, ("deploy/src.yaml", None)],
            deletes: &["delete GitRepository/src", "delete? ConfigMap/goes"],
            ..base
        },
        Case {
            name: "so-chart",
            edits: &[CHART_BUMP, ("charts/app/templates/goes.yaml", None)],
            deletes: &["delete ConfigMap/chart-goes", "delete GitRepository/src"],
            is_renamed: true,
            has_release: true,
            ..base
        },
        // What the other address has is not known.
        Case {
            name: "so-url-chart",
            source: [MAIN, "interval: 2s, url: URL/, ref: {branch: main}"],
            edits: &[CHART_BUMP, ("charts/app/templates/goes.yaml", None)],
            deletes: &[],
            has_release: true,
            ..unknown
        },
        // The chart is packed of the new revision by the old spec, and not again without another version.
        Case {
            name: "so-ignore-chart",
            source: [MAIN, "interval: 2s, url: URL, ref: {branch: main}, ignore: charts/app/templates/goes.yaml"],
            edits: &[CHART_BUMP],
            deletes: &[],
            has_release: true,
            ..base
        },
        Case {
            name: "so-renamed",
            is_renamed: true,
            deletes: &["delete ConfigMap/goes", "delete GitRepository/src"],
            ..base
        },
    ]
}

impl Case {
    /// A new artifact of the same revision does not wake kustomize-controller, so the interval is short.
    fn kustomization(&self, name: &str, path: &str, source: &str) -> String {
        let text = kustomization(self.name, name, path, &format!(", targetNamespace: {}", self.name));
        text.replace("interval: 1h", "interval: 5s").replace("name: src", &format!("name: {source}"))
    }

    fn release(&self, source: &str) -> String {
        format!(
            "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: app}}\nspec:\n  interval: 1h\n  \
             upgrade: {{disableWait: true}}\n  chart: {{spec: {{chart: ./charts/app, interval: 1h, \
             sourceRef: {{kind: GitRepository, name: {source}}}}}}}\n"
        )
    }

    fn source(&self, at: usize, port: u16, name: &str, first: &str) -> String {
        let url = format!("http://127.0.0.1:{port}/{}/.git", self.name);
        let spec = self.source[at].replace("URL", &url).replace("FIRST", first);
        format!(
            "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {{name: {name}, namespace: {}}}\nspec: {{{spec}}}\n",
            self.name
        )
    }
}

const CHART_BUMP: Edit = ("charts/app/Chart.yaml", Some("apiVersion: v2\nname: app\nversion: 2.0.0\n"));

const BASE: [(&str, &str); 6] = [
    ("charts/app/Chart.yaml", "apiVersion: v2\nname: app\nversion: 1.0.0\n"),
    ("charts/app/templates/goes.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: chart-goes}\n"),
    ("charts/app/templates/stays.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: chart-stays}\n"),
    ("app/stays.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: stays}\n"),
    ("app/goes.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: goes}\n"),
    ("app/hidden.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hidden}\n"),
];

#[test]
fn a_source_that_the_commit_changes_is_followed() {
    ensure(&["helm"]).unwrap();
    let repositories = folder("git-sources");
    let port = servers::git(&repositories);
    let options = Options { flux: Flux::All, source_service: true, ..Options::default() };
    let cluster = &Cluster::up(options).expect("the test cluster comes up");
    let mut cases = cases();
    if let Ok(start) = std::env::var("GIT_SOURCES") {
        cases.retain(|case| case.name.starts_with(&start));
    }
    for case in &cases {
        let tree = &repositories.join(case.name);
        BASE.iter().for_each(|(at, content)| write(tree, (at, Some(content))));
        fs::create_dir_all(tree.join("deploy")).unwrap();
        fs::write(tree.join("deploy/app.yaml"), case.kustomization("app", "./app", "src")).unwrap();
        if case.has_release {
            fs::write(tree.join("app/release.yaml"), case.release("src")).unwrap();
        }
        fs::write(tree.join("deploy/src.yaml"), case.source(0, port, "src", "")).unwrap();
        init(tree);
        xtask::git::run(tree, &["branch", "release"]).unwrap();
        cluster.kubectl(&["create", "namespace", case.name]).unwrap();
        let apps = case.kustomization("apps", "./deploy", "src");
        cluster
            .kubectl_stdin(&["apply", "-f", "-"], &format!("{}\n---\n{apps}", case.source(0, port, "src", "")))
            .unwrap();
    }
    for case in &cases {
        settled(cluster, case.name, "apps");
        settled(cluster, case.name, "app");
    }
    cases.iter().filter(|case| case.has_release).for_each(|case| ready(cluster, case.name, "1"));
    let before = objects(cluster);
    let helm = format!("--helm={}", bin("helm").display());
    let (mut planned, mut wrong) = (BTreeMap::new(), vec![]);
    let mut open = BTreeSet::new();
    for case in &cases {
        let tree = &repositories.join(case.name);
        let first = xtask::git::run(tree, &["rev-parse", "HEAD"]).unwrap();
        if case.source[0] != case.source[1] {
            fs::write(tree.join("deploy/src.yaml"), case.source(1, port, "src", first.trim())).unwrap();
        }
        if case.is_renamed {
            fs::write(tree.join("deploy/src.yaml"), case.source(1, port, "other", "")).unwrap();
            fs::write(tree.join("deploy/app.yaml"), case.kustomization("app", "./app", "other")).unwrap();
        }
        if case.is_renamed && case.has_release {
            fs::write(tree.join("app/release.yaml"), case.release("other")).unwrap();
        }
        case.edits.iter().for_each(|edit| write(tree, *edit));
        let run = plan(cluster, case.name, tree, &[&helm]);
        let document = document(&run);
        if case.name == "so-url" {
            find_out(&document, case);
        }
        let found: BTreeSet<String> = rows(&run).into_keys().filter(|row| is_own(row)).collect();
        let expected: BTreeSet<String> = case.deletes.iter().map(|row| (*row).to_owned()).collect();
        if document["complete"] != case.is_complete || found != expected {
            wrong.push(format!("{}: {found:?} {} {}", case.name, document["owners"], document["gaps"]));
        }
        let deletions = planned_deletions(&document);
        // What a release may delete of whose chart nothing is known has no row.
        if case.has_release && !case.is_complete {
            let owners = document["owners"].as_array().unwrap().iter();
            let mut releases = owners.filter(|owner| owner["kind"] == "HelmRelease").map(|owner| &owner["outcome"]);
            assert!(releases.all(|outcome| outcome == "unknown"), "{}", document["owners"]);
            let its = format!("ConfigMap/{}/chart-", case.name);
            let held = before.iter().filter(|(_, what)| what.starts_with(&its)).map(|(uid, _)| uid.clone());
            for uid in held {
                planned.insert(uid.clone(), "unknown".to_owned());
                open.insert(uid);
            }
        }
        open.extend(deletions.iter().filter(|(_, action)| action.ends_with('?')).map(|(uid, _)| uid.clone()));
        planned.extend(deletions);
    }
    for case in &cases {
        commit(&repositories.join(case.name));
    }
    if let Some(case) = cases.iter().find(|case| case.name == "so-same") {
        let head = xtask::git::run(repositories.join(case.name), &["rev-parse", "HEAD"]).unwrap();
        applied(cluster, case.name, "apps", &format!("main@sha1:{}", head.trim()));
    }
    let certain = planned.keys().filter(|uid| !open.contains(*uid));
    let after = objects_after(cluster, certain, Duration::from_secs(30));
    planned.retain(|uid, _| !(open.contains(uid) && after.contains_key(uid)));
    wrong.extend(unplanned(&before, &after, &planned));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Runs the command that shows what a plan does not know of the Kustomization of a case, up to the one that asks the cluster.
fn find_out(document: &Value, case: &Case) {
    let owners = document["owners"].as_array().unwrap();
    let remarks = owners.iter().flat_map(|owner| owner["reason"]["remarks"].as_array()).flatten();
    let command = remarks.filter_map(|remark| remark.as_str()?.strip_prefix("to find out: ")).next().unwrap();
    let (fetch, compare) = command.rsplit_once("; ").unwrap_or_else(|| panic!("{command}"));
    assert_eq!(compare, format!("flux diff kustomization app -n {} --path ./src/app", case.name));
    let folder = folder("git_sources-find-out");
    let status = Command::new("sh").args(["-c", fetch]).current_dir(&folder).status().unwrap();
    assert!(status.success() && folder.join("src/app/stays.yaml").exists(), "{command}");
}

#[test]
fn later_steps_know_a_source_that_an_earlier_one_renames() {
    let cluster = with_kustomize_controller();
    let ns = "so-steps";
    let tree = Folder::outside_checkouts(ns);
    let source = |name: &str, more: &str| {
        format!(
            "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {{name: {name}, namespace: {ns}}}\n\
             spec: {{interval: 1h, url: 'https://example.invalid/so-steps.git', ref: {{branch: main}}{more}}}\n"
        )
    };
    let owner = |name: &str, path: &str, source: &str| {
        kustomization(ns, name, path, &format!(", targetNamespace: {ns}"))
            .replace("name: src", &format!("name: {source}"))
    };
    let commit_of = |name: &str, more: &str, maps: &[&str]| {
        tree.git(&["rm", "-rqf", "--ignore-unmatch", "."]);
        tree.write("deploy/src.yaml", source(name, more));
        tree.write("deploy/root.yaml", owner("root", "./deploy", name));
        tree.write("deploy/app.yaml", owner("app", "./app", name));
        for map in maps {
            let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {map}}}\n");
            tree.write(&format!("app/{map}.yaml"), text);
        }
        tree.git(&["add", "-A"]);
        tree.git(&["commit", "-qm", name]);
    };
    tree.git(&["init", "-qb", "main"]);
    commit_of("src", "", &["a", "b"]);
    tree.git(&["remote", "add", "origin", "https://example.invalid/so-steps.git"]);
    cluster.kubectl(&["create", "namespace", ns]).unwrap();
    let manifests = ["src.yaml", "root.yaml", "app.yaml"].map(|file| tree.path().join("deploy").join(file));
    manifests.iter().for_each(|file| drop(cluster.kubectl(&["apply", "-f", file.to_str().unwrap()]).unwrap()));
    let revision = cluster.publish(&format!("GitRepository/{ns}/src"), tree.path()).unwrap();
    ["root", "app"].iter().for_each(|name| cluster.wait_until_applied(ns, name, &revision, LIMIT).unwrap());

    tree.git(&["checkout", "-qb", "renamed"]);
    commit_of("other", ", ignore: /app/a.yaml", &["a", "b"]);
    tree.git(&["checkout", "-qb", "next"]);
    commit_of("other", "", &["a"]);
    tree.git(&["checkout", "-q", "renamed"]);
    let kustomize = format!("--kustomize={}", bin("kustomize").display());
    let words = ["plan", tree.path().to_str().unwrap(), "-n", ns, &kustomize, "-o", "json"];
    let run = gitops(&cluster, &[&words[..], &["--then", "next"]].concat());
    let document: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(document["complete"], true, "{run:?}");
    let rows = |step: usize| -> BTreeSet<String> {
        let changes = document["steps"][step]["plan"]["changes"].as_array().unwrap().iter();
        let shown = changes.map(|row| format!("{} {}", row["action"], row["object"]["name"]).replace('"', ""));
        shown.filter(|row| !row.starts_with("update")).collect()
    };
    assert_eq!(rows(0), ["create other", "delete a", "delete src"].map(str::to_owned).into(), "{}", run.stdout);
    assert_eq!(rows(1), ["create a", "delete b"].map(str::to_owned).into(), "{}", run.stdout);
}
