//! Kustomizations of ExternalArtifacts, compared by uid with what the real source-watcher and kustomize-controller do.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use test_support::flux::{applied, kustomization, settled};
use test_support::folder::{commit, folder, init};
use test_support::tree_plan::{document, plan, rows};
use xtask::cluster::{Cluster, Flux, Options};

use super::releases::{objects, objects_after, unplanned};
use super::upgrades::planned_deletions;

/// Files of every repository. ConfigMaps have the name of their file.
const FILES: [&str; 7] = [
    "apps/web/web.yaml",
    "apps/web/extra.yaml",
    "apps/web/test/testing.yaml",
    "apps/db/db.yaml",
    "overlay/web/late.yaml",
    "more/more.yaml",
    "README.md",
];

/// A generator with one artifact, or with the artifacts `app` and `other`.
struct Rules {
    copy: &'static str,
    /// The second artifact; empty if there is none.
    other: &'static str,
    /// Further fields of the spec.
    more: &'static str,
    /// Value of the annotation that switches the generator off; empty without it.
    switch: &'static str,
    /// The generator does not exist.
    is_absent: bool,
}

const COPY: Rules =
    Rules { copy: "{from: '@repo/apps/web', to: '@artifact/'}", other: "", more: "", switch: "", is_absent: false };

/// One generator in a namespace of its own, and what a change of its repository does.
struct Case {
    name: &'static str,
    rules: [Rules; 2],
    /// `spec.path` of the Kustomization of the artifact `app`, before and after.
    paths: [&'static str; 2],
    /// Files that the change removes.
    removed: &'static [&'static str],
    /// Files that the change adds.
    added: &'static [&'static str],
    /// Rows of the plan that are no creation and no update.
    rows: &'static [&'static str],
    /// Outcomes of the generator and of the Kustomization, each with the code of its reason.
    owners: [&'static str; 2],
}

const UNCHANGED: Case = Case {
    name: "",
    rules: [COPY, COPY],
    paths: ["./web", "./web"],
    removed: &[],
    added: &[],
    rows: &[],
    owners: ["applies artifacts-generated", "applies new-revision"],
};

fn cases() -> Vec<Case> {
    let rules = |copy| Rules { copy, ..COPY };
    let both = |copy| [rules(copy), rules(copy)];
    vec![
        Case {
            name: "gen-removed-file",
            removed: &["apps/web/extra.yaml"],
            rows: &["delete ConfigMap/extra"],
            ..UNCHANGED
        },
        Case {
            name: "gen-excluded",
            rules: both("{from: '@repo/apps/**', to: '@artifact/', exclude: ['**/test/**', 'db']}"),
            removed: &["apps/web/test/testing.yaml", "apps/db/db.yaml"],
            added: &["apps/web/test/new.yaml"],
            owners: ["none", "unchanged other-source"],
            ..UNCHANGED
        },
        Case {
            name: "gen-changed-exclusion",
            rules: [
                rules("{from: '@repo/apps/**', to: '@artifact/'}"),
                rules("{from: '@repo/apps/**', to: '@artifact/', exclude: ['*tra.yaml', 'web/te?t']}"),
            ],
            rows: &["delete ConfigMap/extra", "delete ConfigMap/testing"],
            ..UNCHANGED
        },
        Case {
            name: "gen-merged",
            rules: both(
                "{from: '@repo/apps/web', to: '@artifact/'}, {from: '@repo/apps/db/db.yaml', to: '@artifact/web/web.yaml', \
                 strategy: Merge}",
            ),
            paths: ["./web", "./web"],
            removed: &["apps/db/db.yaml"],
            owners: ["blocked build-failed", "unchanged other-source"],
            ..UNCHANGED
        },
        Case {
            name: "gen-merge-renames",
            rules: [
                rules("{from: '@repo/apps/web', to: '@artifact/'}"),
                rules(
                    "{from: '@repo/apps/web', to: '@artifact/'}, {from: '@repo/overlay/web/late.yaml', to: '@artifact/web/web.yaml', \
                     strategy: Merge}",
                ),
            ],
            rows: &["delete ConfigMap/web"],
            ..UNCHANGED
        },
        Case {
            name: "gen-moved-directory",
            rules: [
                rules("{from: '@repo/apps/web', to: '@artifact/'}"),
                rules("{from: '@repo/shop/front', to: '@artifact/'}"),
            ],
            paths: ["./web", "./front"],
            removed: &["apps/web/web.yaml", "apps/web/extra.yaml", "apps/web/test/testing.yaml"],
            added: &["shop/front/web.yaml", "shop/front/testing.yaml"],
            rows: &["delete ConfigMap/extra"],
            ..UNCHANGED
        },
        Case {
            name: "gen-artifact-removed",
            rules: [
                Rules { other: "{from: '@repo/more', to: '@artifact/'}", ..COPY },
                Rules { copy: "", other: "{from: '@repo/more', to: '@artifact/'}", ..COPY },
            ],
            rows: &["delete ExternalArtifact/app"],
            owners: ["applies artifacts-generated", "blocked source-missing"],
            ..UNCHANGED
        },
        Case {
            name: "gen-deleted",
            rules: [COPY, Rules { is_absent: true, ..COPY }],
            rows: &["delete ArtifactGenerator/gen", "delete ExternalArtifact/app"],
            owners: ["none", "blocked source-missing"],
            ..UNCHANGED
        },
        Case {
            name: "gen-matches-nothing",
            rules: both("{from: '@repo/apps/web/*.yaml', to: '@artifact/'}"),
            paths: ["./", "./"],
            removed: &["apps/web/web.yaml", "apps/web/extra.yaml", "apps/web/test/testing.yaml"],
            owners: ["blocked build-failed", "unchanged other-source"],
            ..UNCHANGED
        },
        Case {
            name: "gen-disabled",
            rules: [Rules { switch: "enabled", ..COPY }, Rules { switch: "enabled", ..COPY }],
            removed: &["apps/web/extra.yaml"],
            rows: &["delete ConfigMap/extra"],
            ..UNCHANGED
        },
        Case {
            name: "gen-changed-rule",
            rules: [COPY, rules("{from: '@repo/apps/web/web.yaml', to: '@artifact/web/'}")],
            rows: &["delete ConfigMap/extra", "delete ConfigMap/testing"],
            ..UNCHANGED
        },
        Case {
            name: "gen-overlaid",
            rules: both("{from: '@repo/apps/web', to: '@artifact/'}, {from: '@repo/overlay/**', to: '@artifact/'}"),
            removed: &["overlay/web/late.yaml"],
            added: &["overlay/web/other.yaml"],
            rows: &["delete ConfigMap/late"],
            ..UNCHANGED
        },
        Case {
            name: "gen-pattern",
            rules: [
                Rules {
                    copy: "{from: '@repo/apps/{app}/**', to: '@artifact/web/'}",
                    more: "pathPattern: '@repo/apps/{app}'",
                    ..COPY
                },
                Rules {
                    copy: "{from: '@repo/apps/{app}/**', to: '@artifact/web/'}",
                    more: "pathPattern: '@repo/apps/{app}'",
                    ..COPY
                },
            ],
            removed: &["apps/db/db.yaml", "apps/web/extra.yaml"],
            rows: &["delete ConfigMap/extra", "delete ExternalArtifact/app-db"],
            ..UNCHANGED
        },
        Case {
            name: "gen-leads-out",
            rules: [COPY, rules("{from: '@repo/apps/web', to: '@artifact/../web/'}")],
            removed: &["README.md"],
            owners: ["blocked build-failed", "unchanged other-source"],
            ..UNCHANGED
        },
    ]
}

impl Case {
    /// Name of the artifact that the Kustomization uses.
    fn artifact(&self) -> &'static str {
        if self.rules[0].more.is_empty() { "app" } else { "app-web" }
    }

    /// Writes the manifests of the generator and of the Kustomization.
    fn write(&self, tree: &Path, time: usize) {
        let (rules, path) = (&self.rules[time], self.paths[time]);
        let name = if rules.more.is_empty() { "app" } else { "'app-{app}'" };
        let mut artifacts = vec![];
        for (name, copy) in
            [(name, rules.copy), ("other", rules.other)].into_iter().filter(|(_, copy)| !copy.is_empty())
        {
            artifacts.push(format!("{{name: {name}, copy: [{copy}]}}"));
        }
        let switch = match rules.switch {
            "" => String::new(),
            value => format!(", annotations: {{source.extensions.fluxcd.io/reconcile: {value}}}"),
        };
        let (namespace, more, artifacts) = (self.name, rules.more, artifacts.join(", "));
        let generator = format!(
            "apiVersion: source.extensions.fluxcd.io/v1beta1\nkind: ArtifactGenerator\n\
             metadata: {{name: gen, namespace: {namespace}{switch}}}\nspec:\n  \
             sources: [{{alias: repo, kind: GitRepository, name: src}}]\n  artifacts: [{artifacts}]\n  {more}\n"
        );
        let artifact = self.artifact();
        let kustomization = format!(
            "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: fed, namespace: {namespace}}}\n\
             spec: {{interval: 1h, retryInterval: 2s, path: {path}, prune: true, targetNamespace: {namespace}, \
             sourceRef: {{kind: ExternalArtifact, name: {artifact}}}}}\n"
        );
        let manifests = match rules.is_absent {
            true => kustomization,
            false => format!("{generator}---\n{kustomization}"),
        };
        fs::create_dir_all(tree.join("root")).unwrap();
        fs::write(tree.join("root/all.yaml"), manifests).unwrap();
    }

    fn prepare(&self) -> PathBuf {
        let tree = folder(&format!("tree-{}", self.name));
        FILES.iter().for_each(|at| write_file(&tree, at));
        self.write(&tree, 0);
        init(&tree);
        tree
    }

    fn change(&self, tree: &Path) {
        self.removed.iter().for_each(|at| remove_file(tree, at));
        self.added.iter().for_each(|at| write_file(tree, at));
        self.write(tree, 1);
    }
}

fn write_file(tree: &Path, at: &str) {
    let file = tree.join(at);
    let name = file.file_stem().unwrap().to_str().unwrap().to_lowercase();
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n")).unwrap();
}

/// Removes a file, and the directories above it that are empty then: a Git repository has none.
pub(super) fn remove_file(tree: &Path, at: &str) {
    fs::remove_file(tree.join(at)).unwrap();
    let directories = Path::new(at).ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
    for directory in directories {
        if fs::remove_dir(tree.join(directory)).is_err() {
            return;
        }
    }
}

/// Creates a namespace with the tree as a source, and the Kustomization of `root`.
pub(super) fn deploy(cluster: &Cluster, namespace: &str, tree: &Path) {
    cluster.kubectl(&["create", "namespace", namespace]).unwrap();
    cluster.publish(&format!("GitRepository/{namespace}/src"), tree).unwrap();
    let manifest = kustomization(namespace, "root", "./root", "");
    cluster.kubectl_stdin(&["apply", "-f", "-"], &manifest).unwrap();
}

pub(super) fn start() -> Cluster {
    let flags = ["--feature-gates=ExternalArtifact=true", "--requeue-dependency=1s"].map(str::to_owned);
    let options = Options { flux: Flux::All, kustomize_controller_flags: flags.into(), ..Options::default() };
    let cluster = Cluster::up(options).expect("the test cluster comes up");
    cluster.stop("helm-controller").unwrap();
    cluster.start("source-watcher").unwrap();
    cluster
}

/// Returns the outcome of an owner with the code of its reason.
fn outcome(document: &Value, name: &str) -> String {
    let row = document["owners"].as_array().unwrap().iter().find(|row| row["name"] == name);
    let text = |row: &Value, pointer: &str| row.pointer(pointer).unwrap().as_str().unwrap().to_owned();
    row.map_or_else(|| "none".to_owned(), |row| format!("{} {}", text(row, "/outcome"), text(row, "/reason/code")))
}

/// Fails unless the objects with these uids, and no others, are gone.
pub(super) fn assert_effect(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
    planned: &BTreeMap<String, String>,
) {
    let wrong = unplanned(before, after, planned);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn kustomizations_of_generated_artifacts_delete_what_was_planned() {
    let cluster = &start();
    let cases = cases();
    let trees: Vec<PathBuf> = cases.iter().map(Case::prepare).collect();
    cases.iter().zip(&trees).for_each(|(case, tree)| deploy(cluster, case.name, tree));
    for case in &cases {
        settled(cluster, case.name, "root");
        settled(cluster, case.name, "fed");
    }
    std::thread::sleep(Duration::from_secs(3));
    let before = objects(cluster);
    let mut planned: BTreeMap<String, String> = BTreeMap::new();
    for (case, tree) in cases.iter().zip(&trees) {
        case.change(tree);
        let run = plan(cluster, case.name, tree, &[]);
        let document = document(&run);
        assert_eq!(document["complete"], true, "{}: {} {}", case.name, document["gaps"], run.stderr);
        let is_shown = |row: &String| !row.starts_with("create") && !row.starts_with("update");
        let found: BTreeSet<String> = rows(&run).into_keys().filter(is_shown).collect();
        let expected: BTreeSet<String> = case.rows.iter().map(|row| (*row).to_owned()).collect();
        assert_eq!(found, expected, "{}: {}", case.name, run.stdout);
        let owners = ["gen", "fed"].map(|name| outcome(&document, name));
        assert_eq!(owners, case.owners, "{}: {}", case.name, document["owners"]);
        planned.extend(planned_deletions(&document));
    }
    for (case, tree) in cases.iter().zip(&trees) {
        commit(tree);
        let revision = cluster.publish(&format!("GitRepository/{}/src", case.name), tree).unwrap();
        applied(cluster, case.name, "root", &revision);
    }
    assert_effect(&before, &objects_after(cluster, planned.keys(), Duration::from_secs(8)), &planned);
}

#[test]
fn a_disabled_generator_changes_nothing() {
    let cluster = &start();
    let switched = |switch| Rules { switch, ..COPY };
    let case = Case { name: "gen-off", rules: [switched("enabled"), switched("disabled")], removed: &[], ..UNCHANGED };
    let tree = case.prepare();
    deploy(cluster, case.name, &tree);
    settled(cluster, case.name, "fed");
    case.change(&tree);
    commit(&tree);
    let revision = cluster.publish("GitRepository/gen-off/src", &tree).unwrap();
    applied(cluster, case.name, "root", &revision);
    settled(cluster, case.name, "fed");
    let before = objects(cluster);
    remove_file(&tree, "apps/web/extra.yaml");
    let run = plan(cluster, case.name, &tree, &[]);
    let document = document(&run);
    assert_eq!((&document["complete"], planned_deletions(&document).len()), (&true.into(), 0), "{}", run.stdout);
    assert_eq!(outcome(&document, "fed"), "unchanged other-source");
    commit(&tree);
    let revision = cluster.publish("GitRepository/gen-off/src", &tree).unwrap();
    applied(cluster, case.name, "root", &revision);
    std::thread::sleep(Duration::from_secs(5));
    assert_effect(&before, &objects(cluster), &BTreeMap::new());
}
