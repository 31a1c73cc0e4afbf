//! Random handovers and removals, played beside the real kustomize- and helm-controller and flux-operator: no object is another one that is
//! not meant to be, nothing stays terminating, nothing is left over that is not said, and what stays is ready.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::{Value, json};
use test_support::cluster::LIMIT;
use test_support::folder::folder;
use test_support::gitops::gitops;
use test_support::random::{Random, number};
use test_support::shared_cluster;
use xtask::cluster::{Cluster, Options};
use xtask::controlplane::bin;

use super::handover_owners::{Files, Story, kustomization, map, release, set, start_with};

// The cluster of these tests, with all controllers of Flux, flux-operator, and those of claims.
shared_cluster!(start);

fn start() -> Cluster {
    start_with(Options { workloads: true, ..Options::default() })
}

const FINALIZER: &str = "example.com/cleanup";

/// Kinds that a play looks at, as kubectl names them.
const KINDS: [&str; 7] = [
    "configmaps",
    "services",
    "persistentvolumeclaims",
    "deployments.apps",
    "kustomizations.kustomize.toolkit.fluxcd.io",
    "helmreleases.helm.toolkit.fluxcd.io",
    "resourcesets.fluxcd.controlplane.io",
];

/// Kind of an owner of the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Kustomization,
    Release,
    Set,
}

/// Owners with the names of their ConfigMaps. One that begins with `g` is generated, if its owner is a Kustomization.
type Layout = BTreeMap<String, (Kind, Vec<String>)>;

fn kind(random: &mut Random) -> Kind {
    [Kind::Kustomization, Kind::Kustomization, Kind::Release, Kind::Set][random.below(4)]
}

/// Writes the files of a layout. Each Kustomization depends on the one before it, if `depends` is set.
fn written(layout: &Layout, depends: bool) -> Files {
    let (mut files, mut last) = (Files::new(), None::<&str>);
    for (name, (kind, objects)) in layout {
        let names: Vec<&str> = objects.iter().map(String::as_str).collect();
        match kind {
            Kind::Release => files.push(release(name, &names, "")),
            Kind::Set => files.push(set(name, &names)),
            Kind::Kustomization => {
                let (path, mut text) = kustomization(name);
                if let Some(last) = last.filter(|_| depends) {
                    text += &format!("  dependsOn: [{{name: {last}}}]\n");
                }
                last = Some(name);
                files.push((path, text));
                let (generated, plain): (Vec<&str>, Vec<&str>) = names.iter().partition(|name| name.starts_with('g'));
                files.extend(plain.iter().map(|object| map(name, object)));
                if !generated.is_empty() {
                    let resources: Vec<String> = plain.iter().map(|object| format!("{object}.yaml")).collect();
                    let maps: String =
                        generated.iter().map(|it| format!("- name: {it}\n  literals: [a=b]\n")).collect();
                    let text =
                        format!("namespace: NS\nresources: [{}]\nconfigMapGenerator:\n{maps}", resources.join(", "));
                    files.push((format!("{name}/kustomization.yaml"), text));
                }
            }
        }
    }
    files
}

/// Returns a layout and one after a random change: owners renamed, dropped, joined, of another kind, and objects that move.
fn random_layouts(random: &mut Random) -> (Layout, Layout) {
    let mut before = Layout::new();
    for name in ["one", "two", "three"].into_iter().take(2 + random.below(2)) {
        before.insert(name.to_owned(), (kind(random), vec![format!("own-{name}")]));
    }
    let owners: Vec<String> = before.keys().cloned().collect();
    for object in ["a", "b", "c", "g1"] {
        before.get_mut(&owners[random.below(owners.len())]).unwrap().1.push(object.to_owned());
    }
    let mut after = before.clone();
    for _ in 0..1 + random.below(2) {
        let names: Vec<String> = after.keys().cloned().collect();
        let (from, to) = (&names[random.below(names.len())], &names[random.below(names.len())]);
        match random.below(6) {
            0 | 1 => {
                let owner = after.remove(from).unwrap();
                after.insert(format!("{from}-v2"), owner);
            }
            2 => after.get_mut(from).unwrap().0 = kind(random),
            3 if from != to && names.len() > 1 => {
                let (_, objects) = after.remove(from).unwrap();
                after.get_mut(to).unwrap().1.extend(objects);
            }
            4 => {
                let objects = &mut after.get_mut(from).unwrap().1;
                let given: Vec<String> = objects.drain(objects.len().min(1)..).collect();
                after.insert("more".to_owned(), (kind(random), given));
            }
            _ => {
                let objects = &mut after.get_mut(from).unwrap().1;
                if let Some(object) = objects.pop() {
                    after.get_mut(to).unwrap().1.push(object);
                }
            }
        }
    }
    after.retain(|_, (_, objects)| !objects.is_empty());
    if after == before
        && let Some(owner) = after.remove("one")
    {
        after.insert("one-v2".to_owned(), owner);
    }
    (before, after)
}

/// Runs a command of a step as it is printed, and returns what it prints; `None` if it fails.
fn shell(story: &Story<'_>, command: &str) -> Option<String> {
    let programs = bin("kubectl").parent().unwrap().to_owned();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-ec", command]).env("PATH", path).env("KUBECONFIG", story.cluster.kubeconfig()).env("KUBERC", "off");
    shell.env("KUBECACHEDIR", story.tree.path().parent().unwrap().join("cache"));
    let output = shell.output().unwrap();
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the objects of the story by kind and name, in its namespaces, with uid and whether they are being deleted.
fn objects(story: &Story<'_>) -> BTreeMap<String, (String, bool)> {
    let mut found = BTreeMap::new();
    let widgets = format!("widgets.{}.example.com", story.namespace);
    for kind in KINDS.into_iter().chain([&*widgets]) {
        for namespace in [story.namespace.clone(), format!("{}-x", story.namespace)] {
            // The definition can be gone.
            let Ok(list) = story.cluster.kubectl(&["get", kind, "-n", &namespace, "-o", "json"]) else { continue };
            let list: Value = serde_json::from_str(&list).unwrap();
            for item in list["items"].as_array().unwrap() {
                let text = |pointer: &str| item.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
                let name = format!("{}/{namespace}/{}", text("/kind"), text("/metadata/name"));
                found.insert(name, (text("/metadata/uid"), !item["metadata"]["deletionTimestamp"].is_null()));
            }
        }
    }
    found.retain(|name, _| !name.ends_with("/kube-root-ca.crt"));
    found
}

fn shown(id: &Value) -> String {
    let text = |key: &str| id[key].as_str().unwrap_or_default();
    format!("{}/{}/{}", text("kind"), text("namespace"), text("name"))
}

/// Checks that the objects which are gone are those that the plan of a step deletes.
fn check_step(
    before: &BTreeMap<String, (String, bool)>,
    after: &BTreeMap<String, (String, bool)>,
    step: &Value,
    all: &str,
) {
    let gone = before.iter().filter(|(_, (uid, _))| !after.values().any(|(other, _)| other == uid));
    let gone: BTreeSet<String> = gone.map(|(name, _)| name.clone()).collect();
    let rows = step["plan"]["changes"].as_array().unwrap().iter();
    let deleted = rows.filter(|row| ["delete", "recreate"].contains(&row["action"].as_str().unwrap()));
    let deleted: BTreeSet<String> =
        deleted.map(|row| shown(&row["object"])).filter(|it| before.contains_key(it)).collect();
    assert_eq!(gone, deleted, "step {}\n{all}", step["number"]);
    let stuck: Vec<&String> = after.iter().filter(|(_, (_, stuck))| *stuck).map(|(name, _)| name).collect();
    assert!(stuck.is_empty(), "{stuck:?} after step {}\n{all}", step["number"]);
}

fn lines(step: &Value, field: &str) -> Vec<String> {
    step[field].as_array().unwrap().iter().map(|line| line.as_str().unwrap().to_owned()).collect()
}

/// Takes out of the cluster what the next case must not meet.
fn clean(story: &Story<'_>) {
    let kubectl = |words: &[&str]| drop(story.cluster.kubectl(words));
    let ns = &*story.namespace;
    for kind in ["kustomizations", "helmreleases", "resourcesets"] {
        kubectl(&["delete", kind, "--all", "-n", ns, "--wait=false"]);
    }
}

/// Plays the steps of a handover. Returns their number; `None` if there is no list, with the reason.
fn hand_over(story: &Story<'_>, case: &str, after: &Layout) -> Result<usize, String> {
    let patches = folder(&format!("{}-patches", story.namespace));
    let run = story.handover(&["-o", "json", "--write", patches.to_str().unwrap()]);
    if run.code == 6 {
        return Err(run.stderr);
    }
    let document: Value = serde_json::from_str(&run.stdout).unwrap();
    let all = format!("{case}\n{}\n{}", run.stdout, run.stderr);
    let steps = document["steps"].as_array().unwrap();
    let first = objects(story);
    // No dry-run can be made of a later step, so that what a new ResourceSet creates may be refused.
    let is_new_set = |(name, (kind, _)): (&String, &(Kind, Vec<String>))| {
        *kind == Kind::Set && !first.contains_key(&format!("ResourceSet/{}/{name}", story.namespace))
    };
    let open = "it is a race: it is created, or it does not exist";
    let mut gaps = steps.iter().flat_map(|step| step["plan"]["gaps"].as_array().unwrap());
    let is_open = after.iter().any(is_new_set) && gaps.all(|gap| gap["message"] == open);
    assert!(run.code == 0 || run.code == 5 && is_open, "{all}");
    for (at, step) in steps.iter().enumerate() {
        let before = objects(story);
        // A third step takes back what the second one has set.
        if at == usize::from(steps.len() > 1) {
            story.tree.git(&["rm", "-rqf", "."]);
            story.tree.git(&["checkout", "feature", "--", "."]);
        }
        let patch = patches.join(format!("step-{}.patch", at + 1));
        if patch.exists() {
            story.tree.git(&["apply", patch.to_str().unwrap()]);
        }
        story.commit();
        story.wait(&story.publish());
        for command in lines(step, "commands") {
            shell(story, &command).unwrap_or_else(|| panic!("{command}\n{all}"));
        }
        check_step(&before, &objects(story), step, &all);
    }
    let last = objects(story);
    let is_map = |name: &&String| name.starts_with("ConfigMap/");
    for name in first.keys().filter(is_map).filter(|name| last.contains_key(*name)) {
        assert_eq!(first[name], last[name], "{name} is another object\n{all}");
    }
    let owned: Vec<(Kind, &str)> =
        after.values().flat_map(|(kind, objects)| objects.iter().map(|object| (*kind, object.as_str()))).collect();
    let is_wanted = |name: &&String| {
        let name = name.rsplit('/').next().unwrap();
        // The generator of a Kustomization adds a hash to the name.
        let is_of = |(kind, object): &(Kind, &str)| match (kind, object.starts_with('g')) {
            (Kind::Kustomization, true) => name.starts_with(&format!("{object}-")),
            _ => name == *object,
        };
        owned.iter().any(is_of) || name == "always"
    };
    let found = last.keys().filter(is_map).filter(|name| !is_wanted(name));
    let found: BTreeSet<String> = found.cloned().collect();
    let said = document["leftOver"].as_array().unwrap().iter().filter(|id| id["kind"] == "ConfigMap");
    assert_eq!(found, said.map(shown).collect(), "what is left over\n{all}");
    ensure_nothing_lost(story, &document, &all);
    Ok(steps.len())
}

/// Checks that `inventory` finds nothing leaked or orphaned that the document does not name.
fn ensure_nothing_lost(story: &Story<'_>, document: &Value, all: &str) {
    let inventory = gitops(story.cluster, &["inventory", "--leaked", "--orphaned", "-o", "name"]);
    let said: BTreeSet<&str> =
        document["leftOver"].as_array().unwrap().iter().filter_map(|id| id["name"].as_str()).collect();
    let place = format!("-n {}", story.namespace);
    let lost = inventory.stdout.lines().filter(|line| line.contains(&place));
    let lost: Vec<&str> = lost.filter(|line| !said.iter().any(|name| line.contains(&format!("/{name} ")))).collect();
    assert!(lost.is_empty(), "{lost:?}\n{all}");
}

/// Figures of random cases.
#[derive(Default)]
struct Figures {
    /// Number of steps of each case that has a list.
    steps: Vec<usize>,
    refused: usize,
}

#[expect(clippy::print_stdout, reason = "the figures are the result")]
impl Figures {
    /// Adds the number of steps of a case, or why it is refused.
    fn add(&mut self, case: Result<usize, String>) {
        match case {
            Ok(number) => self.steps.push(number),
            Err(why) => {
                println!("  refused: {}", why.trim_end());
                self.refused += 1;
            }
        }
    }

    fn print(mut self, cases: &str) {
        self.steps.sort_unstable();
        let median = self.steps.get(self.steps.len() / 2);
        println!("{cases}, {} refused, {median:?} steps in the median", self.refused);
    }
}

/// Number of random moves; `HANDOVER_CASES` in the environment sets another one, and `HANDOVER_SEED` the first seed.
const MOVES: u64 = 4;

#[test]
#[expect(clippy::print_stdout, reason = "the figures are the result")]
fn random_moves_between_all_owners_keep_every_uid() {
    let (cases, seed) = (number("HANDOVER_CASES", MOVES), number("HANDOVER_SEED", 0));
    let cluster = cluster();
    let mut figures = Figures::default();
    for at in seed..seed + cases {
        let mut random = Random::new(at);
        let (before, after) = random_layouts(&mut random);
        let depends = random.one_in(3);
        let case = format!("seed {at}: {before:?} -> {after:?}, depends: {depends}");
        println!("{case}");
        let story = Story::new(&cluster, &format!("moves-{at}"), written(&before, depends), written(&after, depends));
        figures.add(hand_over(&story, &case, &after));
        clean(&story);
    }
    figures.print(&format!("{cases} random moves"));
}

/// A Kustomization of a tree of them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Nested {
    name: String,
    path: String,
    /// The one that applies it; the root for `None`.
    above: Option<usize>,
    objects: Vec<String>,
}

fn written_nested(owners: &[Nested]) -> Files {
    let directory = |above: Option<usize>| above.map_or("root", |at| &*owners[at].path);
    let files = owners.iter().flat_map(|owner| {
        let Nested { name, path, above, objects } = owner;
        let text = kustomization(name).1.replace(&format!("path: ./{name}\n"), &format!("path: ./{path}\n"));
        let manifest = (format!("{}/{name}.yaml", directory(*above)), text);
        objects.iter().map(move |object| map(path, object)).chain([manifest])
    });
    files.collect()
}

/// Returns a tree of Kustomizations and one after a random change: some get other names, other paths, another place or
/// other objects.
fn random_nested(random: &mut Random) -> (Vec<Nested>, Vec<Nested>) {
    let number = 3 + random.below(2);
    let mut before: Vec<Nested> = vec![];
    for at in 0..number {
        let above = (at > 0 && !random.one_in(4)).then(|| random.below(at));
        let (name, objects) = (format!("k{at}"), vec![format!("own-{at}"), format!("other-{at}")]);
        before.push(Nested { path: name.clone(), name, above, objects });
    }
    let mut after = before.clone();
    for owner in &mut after {
        if !random.one_in(3) {
            owner.name += "-v2";
            owner.path += if random.one_in(4) { "-deep" } else { "" };
        }
    }
    if random.one_in(3) {
        let object = after[random.below(number)].objects.pop();
        after[random.below(number)].objects.extend(object);
    }
    if random.one_in(3) {
        let at = random.below(number);
        after[at].above = (at > 0).then(|| random.below(at));
    }
    if after == before {
        after[0].name += "-v2";
    }
    (before, after)
}

#[test]
#[expect(clippy::print_stdout, reason = "the figures are the result")]
fn random_moves_on_several_levels_keep_every_uid() {
    let (cases, seed) = (number("HANDOVER_CASES", MOVES), number("HANDOVER_SEED", 0));
    let cluster = cluster();
    let mut figures = Figures::default();
    for at in seed..seed + cases {
        let (before, after) = random_nested(&mut Random::new(at));
        let case = format!("seed {at}: {before:?} -> {after:?}");
        println!("{case}");
        let story = Story::new(&cluster, &format!("levels-{at}"), written_nested(&before), written_nested(&after));
        let layout = after.into_iter().map(|owner| (owner.name, (Kind::Kustomization, owner.objects))).collect();
        figures.add(hand_over(&story, &case, &layout));
        clean(&story);
    }
    figures.print(&format!("{cases} random moves on several levels"));
}

/// Parts of a random installation, each in a Kustomization.
fn parts(random: &mut Random) -> Files {
    let names = ["one", "two", "three", "four"];
    let mut files = Files::new();
    let mut put = |owner: &str, object: Value| {
        let name = format!("{}-{}", object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
        files.push((
            format!("{owner}/{}.yaml", name.to_lowercase()),
            serde_json::to_string_pretty(&object).unwrap() + "\n",
        ));
    };
    let owned = |kind: &str, api: &str, name: &str, namespace: &str, more: Value| {
        let mut object = json!({"apiVersion": api, "kind": kind, "metadata": {"name": name}});
        if !namespace.is_empty() {
            object["metadata"]["namespace"] = namespace.into();
        }
        more.as_object().unwrap().iter().for_each(|(key, value)| object[key] = value.clone());
        object
    };
    for name in names {
        put(name, owned("ConfigMap", "v1", &format!("own-{name}"), "NS", json!({})));
    }
    let template = json!({"metadata": {"labels": {"app": "operator"}},
        "spec": {"containers": [{"name": "operator", "image": "example.invalid/operator"}]}});
    let operator = json!({"spec": {"selector": {"matchLabels": {"app": "operator"}}, "template": template}});
    let definition = json!({"spec": {"group": "NS.example.com", "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    let at = random.below(2);
    put(
        names[at],
        owned("CustomResourceDefinition", "apiextensions.k8s.io/v1", "widgets.NS.example.com", "", definition),
    );
    put(names[at + random.below(2)], owned("Deployment", "apps/v1", "operator", "NS", operator));
    for name in ["w", "x"] {
        let finalizers = if random.one_in(3) { json!([]) } else { json!([FINALIZER]) };
        let mut widget = owned("Widget", "NS.example.com/v1", name, "NS", json!({}));
        widget["metadata"]["finalizers"] = finalizers;
        // No Kustomization depends on what comes after it.
        put(names[at + random.below(4 - at)], widget);
    }
    if random.one_in(2) {
        let at = random.below(4);
        put(names[at], owned("Namespace", "v1", "NS-x", "", json!({})));
        for name in ["in-x", "in-y"] {
            put(names[at + random.below(4 - at)], owned("ConfigMap", "v1", name, "NS-x", json!({})));
        }
    }
    if random.one_in(2) {
        let service = json!({"spec": {"ports": [{"port": 443}], "selector": {"app": "operator"}}});
        put(names[random.below(4)], owned("Service", "v1", "hook", "NS", service));
        let webhook = json!({"webhooks": [{"name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {"name": "hook", "namespace": "NS"}},
            "rules": [{"apiGroups": ["none.example.com"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["nones"]}]}]});
        let api = "admissionregistration.k8s.io/v1";
        put(names[random.below(4)], owned("ValidatingWebhookConfiguration", api, "NS-hook", "", webhook));
    }
    if random.one_in(2) {
        let claim = json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
        put(names[random.below(4)], owned("PersistentVolumeClaim", "v1", "data", "NS", claim));
    }
    for (at, name) in names.iter().enumerate() {
        let (path, mut text) = kustomization(name);
        if at > 0 && random.one_in(2) {
            text += &format!("  dependsOn: [{{name: {}}}]\n", names[random.below(at)]);
        }
        if random.one_in(4) {
            text += "  deletionPolicy: Orphan\n";
        }
        if random.one_in(5) {
            text = text.replace("prune: true", "prune: false");
        }
        files.push((path, text));
    }
    files.extend([release("helm", &["h1", "h2"], ""), set("generated", &["s1"])]);
    files
}

/// Removes the finalizers of deleted widgets, if the controller runs.
fn serve(story: &Story<'_>) {
    let ns = &*story.namespace;
    let kind = format!("widgets.{ns}.example.com");
    let get = |kind: &str| story.cluster.kubectl(&["get", kind, "-n", ns, "-o", "json"]);
    let (Ok(_), Ok(list)) = (get("deployment/operator"), get(&kind)) else { return };
    let list: Value = serde_json::from_str(&list).unwrap();
    for widget in list["items"].as_array().unwrap().iter().filter(|it| !it["metadata"]["deletionTimestamp"].is_null()) {
        let name = format!("{kind}/{}", widget["metadata"]["name"].as_str().unwrap());
        let patch = "{\"metadata\":{\"finalizers\":null}}";
        drop(story.cluster.kubectl(&["patch", &name, "-n", ns, "--type", "merge", "-p", patch]));
    }
}

/// Plays the steps of a removal. Returns their number; `None` if there is no order, with the reason.
fn retire(story: &Story<'_>, case: &str, targets: &[&str]) -> Result<usize, String> {
    let patches = folder(&format!("{}-patches", story.namespace));
    let program = |name: &str| format!("--{name}={}", bin(name).display());
    let programs = ["kustomize", "helm", "flux-operator"].map(program);
    let words = ["retire", "--repo", story.tree.path().to_str().unwrap(), "-n", &story.namespace];
    let more = ["-o", "json", "--write", patches.to_str().unwrap(), "--allow", "volumes,namespaces,crds"];
    let programs = programs.each_ref().map(String::as_str);
    let run = gitops(story.cluster, &[&words[..], &programs, targets, &more].concat());
    if run.code == 6 {
        return Err(run.stderr);
    }
    assert_eq!(run.code, 0, "{case}\n{run:?}");
    let document: Value = serde_json::from_str(&run.stdout).unwrap();
    let all = format!("{case}\n{}\n{}", run.stdout, run.stderr);
    let steps = document["steps"].as_array().unwrap();
    for step in steps {
        let before = objects(story);
        let patch = patches.join(format!("step-{}.patch", step["number"]));
        if patch.exists() {
            story.tree.git(&["apply", patch.to_str().unwrap()]);
            story.commit();
            story.publish();
        }
        for command in lines(step, "commands") {
            shell(story, &format!("{command}{}", if command.contains(" delete ") { " --wait=false" } else { "" }))
                .unwrap_or_else(|| panic!("{command}\n{all}"));
        }
        for command in lines(step, "doneWhen") {
            let expected = command.split_once(" # ").map(|(_, expected)| expected.to_owned());
            let is_done = || {
                serve(story);
                story.serve_charts();
                let shown = shell(story, &command.replace("--timeout=10m", "--timeout=1s"));
                Ok(shown.is_some_and(|shown| expected.as_ref().is_none_or(|expected| *expected == shown)))
            };
            let waited = story.cluster.wait_for(&command, LIMIT, is_done);
            waited.unwrap_or_else(|error| panic!("{error}\n{:#?}\n{all}", objects(story)));
        }
        check_step(&before, &objects(story), step, &all);
    }
    ensure_nothing_lost(story, &document, &all);
    for namespace in ["", "-x"].map(|suffix| format!("{}{suffix}", story.namespace)) {
        let phase =
            story.cluster.kubectl(&["get", "namespace", &namespace, "--ignore-not-found", "-o", "json"]).unwrap();
        assert!(!phase.contains("Terminating"), "{phase}\n{all}");
    }
    // What stays reconciles.
    let revision = story.publish();
    if objects(story).contains_key(&format!("Kustomization/{0}/root", story.namespace)) {
        story.wait(&revision);
    }
    Ok(steps.len())
}

/// Number of random removals; `RETIRE_CASES` in the environment sets another one, and `RETIRE_SEED` the first seed.
const REMOVALS: u64 = 3;

#[test]
#[expect(clippy::print_stdout, reason = "the figures are the result")]
fn random_removals_of_all_owners_leave_nothing() {
    let (cases, seed) = (number("RETIRE_CASES", REMOVALS), number("RETIRE_SEED", 0));
    let cluster = cluster();
    let mut figures = Figures::default();
    for at in seed..seed + cases {
        let mut random = Random::new(at);
        let files = parts(&mut random);
        let ns = format!("removal-{at}");
        let other = format!("namespace/{ns}-x");
        let all = ["kustomization/one", "kustomization/two", "kustomization/three", "kustomization/four"];
        let targets: Vec<&str> = match random.below(6) {
            0 | 1 => vec!["kustomization/root"],
            2 => all.to_vec(),
            3 => all[1 + random.below(3)..].to_vec(),
            4 => vec!["helmrelease/helm", "resourceset/generated"],
            _ if files.iter().any(|(_, text)| text.contains("NS-x")) => vec![&other],
            _ => vec![all[3]],
        };
        let case = format!("seed {at}: {targets:?} of {files:#?}");
        println!("seed {at}: {targets:?}");
        let story = Story::new(&cluster, &ns, files.clone(), files);
        figures.add(retire(&story, &case, &targets));
        clean(&story);
    }
    figures.print(&format!("{cases} random removals"));
}
