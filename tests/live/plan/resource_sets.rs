//! ResourceSets, compared by uid with what the real flux-operator and kustomize-controller do.
//!
//! `RANDOM_SETS` sets the number of random changes, and `SEED` the first seed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use test_support::cluster::LIMIT;
use test_support::flux::{applied, settled};
use test_support::folder::{commit, folder, init};
use test_support::random::{Random, number};
use test_support::tree_plan::{document, plan, rows};
use xtask::cluster::{Cluster, Flux, Options};
use xtask::controlplane::{bin, ensure};
use xtask::say;

use super::generators::{assert_effect, deploy};
use super::releases::{objects, objects_after};

/// Templates of ConfigMaps, each a part of the YAML list `spec.resources`. `NS` stands for the namespace of the case.
const CONFIG_MAP: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: << inputs.app >>, namespace: NS}}";
const NAMESPACE: &str = "{apiVersion: v1, kind: Namespace, metadata: {name: NS-<< inputs.app >>}}, \
     {apiVersion: v1, kind: ConfigMap, metadata: {name: inside, namespace: NS-<< inputs.app >>}}";
const KUSTOMIZATION: &str = "{apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, \
     metadata: {name: << inputs.app >>, namespace: NS}, spec: {interval: 1h, retryInterval: 2s, path: ./apps/<< inputs.app >>, \
     prune: true, targetNamespace: NS, sourceRef: {kind: GitRepository, name: src}}}";

/// A manifest of a ResourceSet, and the objects beside it.
#[derive(Clone)]
struct Set {
    /// Fields of the spec.
    spec: String,
    /// Annotations, as YAML.
    annotations: &'static str,
    /// Further manifests.
    beside: String,
    is_absent: bool,
}

/// One ResourceSet in a namespace of its own, and what a change of it does.
struct Case {
    name: String,
    sets: [Set; 2],
    /// Arguments of kubectl before the change, such as `annotate configmap b a=b`; empty for none.
    before: &'static str,
    /// Rows of the plan that are no creation and no update; `None` if only the effect is compared.
    rows: Option<&'static [&'static str]>,
    /// Code of the reason of the ResourceSet.
    owner: &'static str,
}

fn set(resources: &str, inputs: &[&str]) -> Set {
    let inputs: Vec<String> = inputs.iter().map(|app| format!("{{app: {app}}}")).collect();
    let spec = format!("inputs: [{}]\n  resources: [{resources}]", inputs.join(", "));
    Set { spec, annotations: "", beside: String::new(), is_absent: false }
}

fn with_spec(spec: &str) -> Set {
    Set { spec: spec.to_owned(), ..set("", &[]) }
}

fn case(name: &str, before: Set, after: Set, rows: &'static [&'static str]) -> Case {
    Case { name: name.to_owned(), sets: [before, after], before: "", rows: Some(rows), owner: "resources-generated" }
}

fn provider(name: &str, app: &str) -> String {
    format!(
        "---\napiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSetInputProvider\n\
         metadata: {{name: {name}, namespace: NS, labels: {{team: x}}}}\n\
         spec: {{type: Static, defaultValues: {{app: {app}}}}}\n"
    )
}

fn cases() -> Vec<Case> {
    let both = set(CONFIG_MAP, &["a", "b"]);
    let only_a = set(CONFIG_MAP, &["a"]);
    let of_providers = |entry: &str, providers: &[(&str, &str)]| {
        let mut found = with_spec(&format!("inputsFrom: [{entry}]\n  resources: [{CONFIG_MAP}]"));
        found.beside = providers.iter().map(|(name, app)| provider(name, app)).collect();
        found
    };
    let selector = "{selector: {matchLabels: {team: x}}}";
    let templated = |condition: &str| {
        with_spec(&format!(
            "inputs: [{{app: a, size: 1}}, {{app: b, size: 2}}]\n  resourcesTemplate: |\n    <<- if {condition} >>\n    \
             apiVersion: v1\n    kind: ConfigMap\n    metadata: {{name: << inputs.app | quote >>, namespace: NS}}\n    <<- end >>\n    \
             ---\n    apiVersion: v1\n    kind: Secret\n    metadata: {{name: << slugify inputs.app >>, namespace: NS}}\n"
        ))
    };
    let step = |name: &str, app: &str| {
        format!("{{name: {name}, resources: [{}]}}", CONFIG_MAP.replace("<< inputs.app >>", app))
    };
    let account = |found: Set| {
        Set {
        spec: format!("{}\n  serviceAccountName: limited", found.spec),
        beside: "---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: limited, namespace: NS}\n\
                 ---\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: limited, namespace: NS}\n\
                 rules: [{apiGroups: [''], resources: [configmaps], verbs: [get, list, watch, create, patch, update]}]\n\
                 ---\napiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: limited, namespace: NS}\n\
                 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: limited}\n\
                 subjects: [{kind: ServiceAccount, name: limited, namespace: NS}]\n"
            .to_owned(),
        ..found
    }
    };
    let excluded = |value: &str| {
        let annotated = CONFIG_MAP.replace(
            "namespace: NS",
            &format!("namespace: NS, annotations: {{fluxcd.controlplane.io/reconcile: {value}}}"),
        );
        set(&annotated, &["a", "b"])
    };
    vec![
        case("rs-removed-input", both.clone(), only_a.clone(), &["delete ConfigMap/b"]),
        case("rs-renamed", both.clone(), set(CONFIG_MAP, &["a", "c"]), &["delete ConfigMap/b"]),
        case(
            "rs-dropped-template",
            set(
                &format!(
                    "{CONFIG_MAP}, {{apiVersion: v1, kind: Secret, metadata: {{name: s-<< inputs.app >>, namespace: NS}}}}"
                ),
                &["a"],
            ),
            only_a.clone(),
            &["delete Secret/s-a"],
        ),
        case(
            "rs-namespace",
            set(NAMESPACE, &["a", "b"]),
            set(NAMESPACE, &["a"]),
            &["delete ConfigMap/inside", "delete Namespace/rs-namespace-b", "delete ServiceAccount/default"],
        ),
        Case {
            before: "annotate configmap b fluxcd.controlplane.io/prune=disabled",
            ..case("rs-protected", both.clone(), only_a.clone(), &["keep ConfigMap/b"])
        },
        Case {
            before: "label configmap b resourceset.fluxcd.controlplane.io/name-",
            ..case("rs-relabelled", both.clone(), only_a.clone(), &["keep ConfigMap/b"])
        },
        case(
            "rs-kustomization",
            set(KUSTOMIZATION, &["a", "b"]),
            set(KUSTOMIZATION, &["a"]),
            &["delete ConfigMap/of-b", "delete Kustomization/b"],
        ),
        case(
            "rs-path",
            set(KUSTOMIZATION, &["a"]),
            set(&KUSTOMIZATION.replace("./apps/<<", "./other/<<"), &["a"]),
            &["delete ConfigMap/of-a"],
        ),
        case("rs-new-kustomization", set(KUSTOMIZATION, &["a"]), set(KUSTOMIZATION, &["a", "b"]), &[]),
        case("rs-refused", both.clone(), set(CONFIG_MAP, &["a", "Bad_Name"]), &["delete? ConfigMap/b"]),
        Case {
            owner: "none",
            ..case(
                "rs-same",
                only_a.clone(),
                with_spec(&format!("inputs: [{{app: a, unused: 1}}]\n  resources: [{CONFIG_MAP}]")),
                &[],
            )
        },
        case(
            "rs-provider",
            of_providers("{name: p}", &[("p", "b")]),
            of_providers("{name: p}", &[("p", "c")]),
            &["delete ConfigMap/b"],
        ),
        case(
            "rs-selected",
            of_providers(selector, &[("p", "a"), ("q", "b")]),
            of_providers(selector, &[("p", "a")]),
            &["delete ConfigMap/b", "delete ResourceSetInputProvider/q"],
        ),
        case(
            "rs-last-provider",
            of_providers(selector, &[("q", "b")]),
            of_providers(selector, &[]),
            &["delete ConfigMap/b", "delete ResourceSetInputProvider/q"],
        ),
        Case {
            owner: "none",
            ..case(
                "rs-deleted",
                both.clone(),
                Set { is_absent: true, ..both.clone() },
                &["delete ConfigMap/a", "delete ConfigMap/b", "delete ResourceSet/apps"],
            )
        },
        case("rs-template", templated("eq 1 1"), templated("lt 1 (int inputs.size)"), &["delete ConfigMap/a"]),
        case("rs-account", account(both.clone()), account(only_a.clone()), &["delete? ConfigMap/b"]),
        Case {
            owner: "build-failed",
            ..case("rs-failing", both.clone(), set(&CONFIG_MAP.replace("inputs.app", "inputs.other"), &["a"]), &[])
        },
        Case {
            owner: "suspended",
            ..case(
                "rs-disabled",
                both.clone(),
                Set { annotations: "{fluxcd.controlplane.io/reconcile: disabled}", ..only_a.clone() },
                &[],
            )
        },
        case(
            "rs-moved",
            both.clone(),
            Set {
                beside: "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: NS}\n".to_owned(),
                ..only_a.clone()
            },
            &["recreate ConfigMap/b"],
        ),
        case(
            "rs-steps",
            with_spec(&format!("steps: [{}, {}, {}]", step("one", "a"), step("two", "b"), step("three", "c"))),
            with_spec(&format!("steps: [{}, {}]", step("one", "a"), step("three", "c"))),
            &["delete ConfigMap/b"],
        ),
        case("rs-excluded", excluded("enabled"), excluded("disabled"), &["delete ConfigMap/a", "delete ConfigMap/b"]),
    ]
}

/// Returns a random ResourceSet, and the same one after a random change.
fn random_case(number: usize, random: &mut Random) -> Case {
    let templates = [CONFIG_MAP, NAMESPACE, KUSTOMIZATION];
    let secret = "{apiVersion: v1, kind: Secret, metadata: {name: s-<< inputs.app >>, namespace: NS}}";
    let mut one = |used: &[bool]| {
        let mut resources: Vec<&str> =
            templates.iter().chain([&secret]).zip(used).filter(|(_, used)| **used).map(|(text, _)| *text).collect();
        if resources.is_empty() {
            resources.push(secret);
        }
        let apps: Vec<&str> = ["a", "b", "c"].into_iter().filter(|_| !random.one_in(3)).collect();
        let own = apps.iter().take(1);
        let mut found = set(&resources.join(", "), if random.one_in(2) { &apps } else { &[] });
        if !found.spec.contains("app: ") {
            found = set(&resources.join(", "), &own.copied().collect::<Vec<_>>());
            found.spec.push_str("\n  inputsFrom: [{selector: {matchLabels: {team: x}}}]");
            found.beside = apps.iter().skip(1).map(|app| provider(app, app)).collect();
        }
        found
    };
    let mut pick = Random::new(number as u64 * 7 + 3);
    let mut used: Vec<bool> = (0..4).map(|_| pick.one_in(2)).collect();
    let before = one(&used);
    if pick.one_in(2) {
        let at = pick.below(4);
        used[at] = !used[at];
    }
    let after = one(&used);
    Case { name: format!("rs-random-{number}"), sets: [before, after], before: "", rows: None, owner: "" }
}

impl Case {
    /// Writes the manifests before or after the change.
    fn write(&self, tree: &Path, time: usize) {
        let Set { spec, annotations, beside, is_absent } = &self.sets[time];
        let annotations = if annotations.is_empty() { "{}" } else { annotations };
        let mut text = format!(
            "apiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSet\n\
             metadata: {{name: apps, namespace: NS, annotations: {annotations}}}\nspec:\n  {spec}\n"
        );
        if *is_absent {
            text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: instead, namespace: NS}\n".to_owned();
        }
        text.push_str(beside);
        let text = text.replace("NS", &self.name);
        fs::create_dir_all(tree.join("root")).unwrap();
        fs::write(tree.join("root/all.yaml"), text).unwrap();
        // A commit must change something.
        fs::write(tree.join("README.md"), time.to_string()).unwrap();
    }

    fn prepare(&self) -> PathBuf {
        let tree = folder(&format!("tree-{}", self.name));
        for app in ["a", "b", "c"] {
            for (directory, name) in [("apps", format!("of-{app}")), ("other", format!("other-{app}"))] {
                let directory = tree.join(directory).join(app);
                fs::create_dir_all(&directory).unwrap();
                let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
                fs::write(directory.join("cm.yaml"), text).unwrap();
            }
        }
        self.write(&tree, 0);
        init(&tree);
        tree
    }
}

fn start() -> Cluster {
    ensure(&["flux-operator", "flux-operator-controller", "kustomize"]).unwrap();
    let flags = ["--requeue-dependency=1s"].map(str::to_owned);
    let options = Options { flux: Flux::All, kustomize_controller_flags: flags.into(), ..Options::default() };
    let cluster = Cluster::up(options).expect("the test cluster comes up");
    cluster.stop("helm-controller").unwrap();
    cluster.start("flux-operator-controller").unwrap();
    cluster
}

/// Waits until every ResourceSet and everything that it generates is ready.
fn all_ready(cluster: &Cluster) {
    let kinds = "resourcesets,resourcesetinputproviders,kustomizations";
    let path = "jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name} \
                {.status.conditions[?(@.type==\"Ready\")].status}{\"\\n\"}{end}";
    let probe = || {
        let found = cluster.kubectl(&["get", kinds, "-A", "-o", path])?;
        Ok(found.lines().all(|line| line.ends_with(" True")))
    };
    cluster.wait_for("all ResourceSets and Kustomizations to be ready", LIMIT, probe).unwrap();
}

/// Plans all cases, makes the changes, and compares what is gone with the plans. Returns the number of rows that are races or
/// unknown, and of all.
fn play(cluster: &Cluster, cases: &[Case]) -> [usize; 2] {
    let trees: Vec<PathBuf> = cases.iter().map(Case::prepare).collect();
    cases.iter().zip(&trees).for_each(|(case, tree)| deploy(cluster, &case.name, tree));
    cases.iter().for_each(|case| settled(cluster, &case.name, "root"));
    std::thread::sleep(Duration::from_secs(2));
    all_ready(cluster);
    for case in cases.iter().filter(|case| !case.before.is_empty()) {
        let words: Vec<&str> = case.before.split(' ').chain(["-n", &case.name]).collect();
        cluster.kubectl(&words).unwrap();
    }
    let before = objects(cluster);
    let (mut planned, mut open, mut counts) = (BTreeMap::new(), BTreeSet::new(), [0, 0]);
    let operator = format!("--flux-operator={}", bin("flux-operator").display());
    for (case, tree) in cases.iter().zip(&trees) {
        case.write(tree, 1);
        let run = plan(cluster, &case.name, tree, &[&operator]);
        let document = document(&run);
        assert_eq!(document["complete"], true, "{}: {} {}", case.name, document["gaps"], run.stderr);
        let found = rows(&run);
        if let Some(expected) = case.rows {
            let is_shown = |row: &&String| !row.starts_with("create") && !row.starts_with("update");
            let found: BTreeSet<&str> = found.keys().filter(is_shown).map(String::as_str).collect();
            assert_eq!(found, expected.iter().copied().collect(), "{}: {}", case.name, run.stdout);
            assert_eq!(code(&document), case.owner, "{}: {}", case.name, document["owners"]);
        }
        for row in document["changes"].as_array().unwrap() {
            let uid = row["object"]["uid"].as_str().unwrap().to_owned();
            let is_deletion = ["delete", "recreate"].contains(&row["action"].as_str().unwrap());
            counts[1] += usize::from(is_deletion);
            if is_deletion && row["certainty"] == "race" {
                counts[0] += 1;
                open.insert(uid);
            } else if is_deletion {
                planned.insert(uid, String::new());
            }
        }
    }
    for (case, tree) in cases.iter().zip(&trees) {
        commit(tree);
        let revision = cluster.publish(&format!("GitRepository/{}/src", case.name), tree).unwrap();
        applied(cluster, &case.name, "root", &revision);
    }
    let after = objects_after(cluster, planned.keys(), Duration::from_secs(8));
    let is_certain = |(uid, _): &(&String, &String)| !open.contains(*uid);
    let certain = before.iter().filter(is_certain).map(|(uid, what)| (uid.clone(), what.clone())).collect();
    assert_effect(&certain, &after, &planned);
    counts
}

/// Returns the code of the reason of the ResourceSet in a plan.
fn code(document: &Value) -> &str {
    let row = document["owners"].as_array().unwrap().iter().find(|row| row["kind"] == "ResourceSet");
    row.and_then(|row| row["reason"]["code"].as_str()).unwrap_or("none")
}

#[test]
fn resource_sets_delete_what_was_planned() {
    let cluster = &start();
    play(cluster, &cases());
}

#[test]
fn random_changes_of_resource_sets_delete_what_was_planned() {
    let seed = number("SEED", 1);
    let cluster = &start();
    let mut random = Random::new(seed as u64);
    let cases: Vec<Case> = (0..number("RANDOM_SETS", 8)).map(|case| random_case(case, &mut random)).collect();
    let [races, all] = play(cluster, &cases);
    say(format!("{} random ResourceSets, seed {seed}: {all} deletions, {races} races", cases.len()));
}

#[test]
fn without_the_program_a_changed_set_is_unknown() {
    let cluster = &start();
    let case = case("rs-no-program", set(CONFIG_MAP, &["a", "b"]), set(CONFIG_MAP, &["a"]), &[]);
    let tree = case.prepare();
    deploy(cluster, &case.name, &tree);
    settled(cluster, &case.name, "root");
    all_ready(cluster);
    case.write(&tree, 1);
    let run = plan(cluster, &case.name, &tree, &["--flux-operator=/nonexistent/flux-operator"]);
    assert_eq!(run.code, 5, "{run:?}");
    let found = rows(&run);
    let reason = &found["unknown ResourceSet/apps"];
    assert!(reason.contains("--flux-operator"), "{reason}");
}
