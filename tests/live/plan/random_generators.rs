//! Random repositories and copy rules: plans of their changes, compared by uid with what the real source-watcher and
//! kustomize-controller do. `RANDOM_GENERATORS` sets the number of generators, and `SEED` the first one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use test_support::flux::{applied, settled};
use test_support::folder::{commit, folder, init};
use test_support::random::{Random, number};
use test_support::tree_plan::{document, plan};
use xtask::cluster::Cluster;

use super::generators::{deploy, remove_file, start};
use super::releases::objects;

const DIRECTORIES: [&str; 8] = ["apps", "apps/web", "apps/web/test", "apps/db", "base", "base/web", "x-y", "."];
const NAMES: [&str; 6] = ["a", "b", "web", "db", "test", "c-d"];
const FROM: [&str; 22] = [
    "apps",
    "apps/",
    "apps/web",
    "apps/web/",
    "base",
    ".",
    "",
    "apps/*",
    "apps/**",
    "**",
    "*",
    "apps/**/*.yaml",
    "*/web/*",
    "b*",
    "[a-b]*/web",
    "apps/?eb",
    "base/web/**",
    "apps/web/a.yaml",
    "base/a.yaml",
    "none",
    "apps/*/",
    "./base/*",
];
const TO: [&str; 6] = ["", "", "", "out/", "out", "apps/web/"];
const EXCLUDE: [&str; 12] = [
    "*.md",
    "a.yaml",
    "**/test/**",
    "test",
    "web/**",
    "apps/db",
    "{a,b}.yaml",
    "**/[ab].yaml",
    "we?",
    "*",
    "**/c-d*",
    "base",
];

/// Returns the rules of a generator, as a flow list of copy operations.
fn rules(random: &mut Random) -> String {
    let operations = (0..1 + usize::from(random.one_in(4))).map(|_| {
        let (from, to) = (random.pick(&FROM), random.pick(&TO));
        let mut exclude: Vec<String> = (0..random.below(3)).map(|_| format!("'{}'", random.pick(&EXCLUDE))).collect();
        // The generator and the Kustomization must not be in the artifact.
        exclude.push("'root/**'".to_owned());
        format!("{{from: '@repo/{from}', to: '@artifact/{to}', exclude: [{}]}}", exclude.join(", "))
    });
    operations.collect::<Vec<_>>().join(", ")
}

/// Returns the paths of random files.
fn files(random: &mut Random) -> BTreeSet<String> {
    let path = |random: &mut Random| {
        let extension = if random.one_in(6) { "md" } else { "yaml" };
        let (directory, name) = (random.pick(&DIRECTORIES), random.pick(&NAMES));
        format!("{directory}/{name}.{extension}").trim_start_matches("./").to_owned()
    };
    (0..8 + random.below(10)).map(|_| path(random)).collect()
}

/// Writes an object whose name is that of its file.
fn write_file(tree: &Path, at: &str) {
    let file = tree.join(at);
    let name = at.trim_end_matches(".yaml").replace(['/', '.'], "-");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n")).unwrap();
}

/// Writes the generator, and a Kustomization that lists every manifest of the artifact once.
fn write_root(tree: &Path, namespace: &str, rules: &str) {
    let text = format!(
        "apiVersion: source.extensions.fluxcd.io/v1beta1\nkind: ArtifactGenerator\nmetadata: {{name: gen, namespace: {namespace}}}\nspec:\n  \
         sources: [{{alias: repo, kind: GitRepository, name: src}}]\n  artifacts: [{{name: app, copy: [{rules}]}}]\n---\n\
         apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: fed, namespace: {namespace}}}\n\
         spec: {{interval: 1h, retryInterval: 2s, path: ./, prune: true, targetNamespace: {namespace}, \
         sourceRef: {{kind: ExternalArtifact, name: app}}}}\n"
    );
    fs::create_dir_all(tree.join("root")).unwrap();
    fs::write(tree.join("root/all.yaml"), text).unwrap();
}

/// A generator in a namespace of its own.
struct Sample {
    namespace: String,
    tree: PathBuf,
    random: Random,
    rules: String,
    files: BTreeSet<String>,
}

impl Sample {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let namespace = format!("random-{seed}");
        let tree = folder(&format!("tree-{namespace}"));
        let (rules, files) = (rules(&mut random), files(&mut random));
        files.iter().for_each(|at| write_file(&tree, at));
        write_root(&tree, &namespace, &rules);
        init(&tree);
        Self { namespace, tree, random, rules, files }
    }

    /// Changes files, rules, or both.
    fn change(&mut self) {
        let random = &mut self.random;
        if !random.one_in(5) {
            let new = files(random);
            let kept: BTreeSet<String> = self.files.iter().filter(|_| !random.one_in(3)).cloned().collect();
            self.files.difference(&kept).for_each(|at| remove_file(&self.tree, at));
            let added: Vec<&String> = new.iter().take(random.below(4)).filter(|at| !kept.contains(*at)).collect();
            added.iter().for_each(|at| write_file(&self.tree, at));
        }
        if random.one_in(3) {
            self.rules = rules(random);
        }
        write_root(&self.tree, &self.namespace, &self.rules);
        // The source has a new revision only if a file differs.
        fs::write(self.tree.join("root/changed.txt"), "").unwrap();
    }
}

/// Waits until generators and Kustomizations have nothing more to do: nothing changes for some seconds.
fn calm(cluster: &Cluster) -> BTreeMap<String, String> {
    let mut last = objects(cluster);
    for _ in 0..30 {
        std::thread::sleep(Duration::from_secs(5));
        let now = objects(cluster);
        if now == last {
            return now;
        }
        last = now;
    }
    last
}

#[test]
fn random_changes_of_generators_delete_what_was_planned() {
    let cluster = &start();
    let first = number("SEED", 1);
    let mut samples: Vec<Sample> = (first..first + number("RANDOM_GENERATORS", 20)).map(Sample::new).collect();
    samples.iter().for_each(|sample| deploy(cluster, &sample.namespace, &sample.tree));
    samples.iter().for_each(|sample| settled(cluster, &sample.namespace, "root"));
    let before = calm(cluster);
    let (mut certain, mut races, mut unknown) = (BTreeMap::new(), BTreeSet::new(), vec![]);
    let mut seen = BTreeMap::new();
    for sample in &mut samples {
        let rules = sample.rules.clone();
        sample.change();
        let document = document(&plan(cluster, &sample.namespace, &sample.tree, &[]));
        if document["complete"] != true {
            unknown.push(format!("{}: {}", sample.namespace, document["gaps"]));
        }
        for row in document["changes"].as_array().unwrap() {
            let text = |pointer: &str| row.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
            match (&*text("/action"), &*text("/certainty")) {
                ("delete" | "recreate", "certain") => drop(certain.insert(text("/object/uid"), text("/action"))),
                ("delete" | "recreate", _) => drop(races.insert(text("/object/uid"))),
                _ => {}
            }
        }
        let owners: Vec<String> = document["owners"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| format!("{} {} {}", row["name"], row["outcome"], row["reason"]["detail"]))
            .collect();
        seen.insert(sample.namespace.clone(), format!("{rules} -> {}\n{}", sample.rules, owners.join("\n")));
    }
    for sample in &samples {
        commit(&sample.tree);
        let revision = cluster.publish(&format!("GitRepository/{}/src", sample.namespace), &sample.tree).unwrap();
        applied(cluster, &sample.namespace, "root", &revision);
    }
    let after = calm(cluster);
    let mut wrong = vec![];
    for (uid, what) in &before {
        let is_gone = !after.contains_key(uid);
        let namespace = what.split('/').nth(1).unwrap_or_default();
        if races.contains(uid)
            || unknown.iter().any(|other| other.starts_with(&format!("{namespace}:")))
            || is_gone == certain.contains_key(uid)
        {
            continue;
        }
        let about = seen.get(namespace).cloned().unwrap_or_default();
        wrong.push(format!("{what} is {}: {about}", if is_gone { "gone" } else { "there" }));
    }
    let names = |uids: &mut dyn Iterator<Item = &String>| uids.filter(|uid| before.contains_key(*uid)).count();
    xtask::say(format!(
        "{} generators: {} certain deletions, {} races, {} unknown",
        samples.len(),
        names(&mut certain.keys()),
        names(&mut races.iter()),
        unknown.len()
    ));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(unknown.is_empty(), "{unknown:?}");
    assert!(names(&mut certain.keys()) >= samples.len() / 4, "too few deletions");
}
