//! The steps of `retire`, each played beside the real kustomize-controller: only what is meant goes, nothing stays terminating, and
//! nothing is left over. The test plays the controller that serves the finalizers, as long as its Deployment exists.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use test_support::cluster::{LIMIT, with_kustomize_controller};
use test_support::folder::{Folder, folder};
use test_support::gitops::{Run, gitops};
use test_support::random::{Random, number};
use test_support::shared_cluster;
use xtask::cluster::Cluster;
use xtask::controlplane::bin;

use super::applying::Applying;

// The cluster of these tests, with kustomize-controller.
shared_cluster!(with_kustomize_controller);

const FINALIZER: &str = "example.com/cleanup";

/// What a Kustomization of a case applies, by the names of its objects.
type Layout = BTreeMap<String, Vec<Value>>;

/// A cluster in which a root applies Kustomizations of one source, in a namespace of its own.
struct Case<'a> {
    cluster: &'a Cluster,
    namespace: String,
    tree: Folder,
}

fn kustomization(namespace: &str, name: &str, depends_on: &[&str]) -> Value {
    let depends_on: Vec<Value> = depends_on.iter().map(|name| json!({"name": name})).collect();
    json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"interval": "1h", "retryInterval": "2s", "path": format!("./{name}"), "prune": true, "dependsOn": depends_on,
            "sourceRef": {"kind": "GitRepository", "name": namespace}}})
}

/// The group of the custom resources of a namespace: definitions are of the whole cluster.
fn group(namespace: &str) -> String {
    format!("{namespace}.example.com")
}

fn definition(namespace: &str) -> Value {
    let group = group(namespace);
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

fn deployment(namespace: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "operator", "namespace": namespace},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "operator"}}, "template": {
            "metadata": {"labels": {"app": "operator"}},
            "spec": {"containers": [{"name": "operator", "image": "example.invalid/operator"}]}}}})
}

fn widget(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": format!("{}/v1", group(namespace)), "kind": "Widget",
        "metadata": {"name": name, "namespace": namespace, "finalizers": [FINALIZER]}})
}

fn map(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}})
}

impl<'a> Case<'a> {
    /// Deploys Kustomizations below a root. `owners` are their manifests.
    fn new(cluster: &'a Cluster, namespace: &str, owners: &[Value], layout: &Layout) -> Self {
        let tree = Folder::outside_checkouts(namespace);
        let this = Self { cluster, namespace: namespace.to_owned(), tree };
        this.tree.git(&["init", "-q", "-b", "main"]);
        this.tree.git(&["remote", "add", "origin", &format!("https://example.invalid/{namespace}.git")]);
        for owner in owners {
            this.write(&format!("root/{}.yaml", owner["metadata"]["name"].as_str().unwrap()), owner);
        }
        for (owner, objects) in layout {
            for object in objects {
                let name =
                    format!("{}-{}", object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
                this.write(&format!("{owner}/{}.yaml", name.to_lowercase()), object);
            }
        }
        cluster.kubectl(&["create", "namespace", namespace]).unwrap();
        let revision = this.publish();
        cluster.kubectl_stdin(&["apply", "-f", "-"], &kustomization(namespace, "root", &[]).to_string()).unwrap();
        cluster.wait_until_applied(namespace, "root", &revision, LIMIT).unwrap();
        for owner in layout.keys() {
            cluster.wait_until_applied(namespace, owner, &revision, LIMIT).unwrap();
        }
        this
    }

    /// Writes a manifest as YAML in block style, as people do.
    fn write(&self, path: &str, manifest: &Value) {
        let path = self.tree.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, serde_json::to_string_pretty(manifest).unwrap() + "\n").unwrap();
    }

    fn publish(&self) -> String {
        self.tree.git(&["add", "-A"]);
        self.tree.git(&["commit", "-q", "--allow-empty", "-m", "change"]);
        self.cluster.publish(&format!("GitRepository/{0}/{0}", self.namespace), self.tree.path()).unwrap()
    }

    fn retire(&self, owners: &[&str], more: &[&str]) -> Run {
        let kustomize = bin("kustomize");
        let words = ["retire", "--repo", self.tree.path().to_str().unwrap(), "-n", &self.namespace];
        let program = ["--kustomize", kustomize.to_str().unwrap()];
        gitops(self.cluster, &[&words[..], &program, owners, more].concat())
    }

    /// Starts `retire --apply` for an owner.
    fn apply(&self, owner: &str) -> Applying<'_> {
        let (tree, kustomize) = (self.tree.path().to_str().unwrap(), bin("kustomize"));
        let words =
            ["retire", owner, "-n", &self.namespace, "--repo", tree, "--kustomize", kustomize.to_str().unwrap()];
        Applying::start(self.cluster, &words, || self.serve())
    }

    /// Commits a patch.
    fn commit(&self, patch: &str) {
        self.tree.git(&["apply", patch]);
        self.publish();
    }

    /// Returns the uids of everything of the case, by kind and name.
    fn uids(&self) -> BTreeMap<String, String> {
        let mut uids = BTreeMap::new();
        for kind in ["configmaps", "deployments.apps", "kustomizations", &format!("widgets.{}", group(&self.namespace))]
        {
            // The definition can be gone.
            let Ok(list) = self.cluster.kubectl(&["get", kind, "-n", &self.namespace, "-o", "json"]) else { continue };
            let list: Value = serde_json::from_str(&list).unwrap();
            for item in list["items"].as_array().unwrap() {
                let text = |pointer: &str| item.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
                uids.insert(format!("{}/{}", text("/kind"), text("/metadata/name")), text("/metadata/uid"));
            }
        }
        uids.remove("ConfigMap/kube-root-ca.crt");
        uids
    }

    /// Removes the finalizers of deleted widgets, if the controller runs.
    fn serve(&self) {
        let get = |kind: &str| self.cluster.kubectl(&["get", kind, "-n", &self.namespace, "-o", "json"]);
        let kind = format!("widgets.{}", group(&self.namespace));
        let (Ok(_), Ok(list)) = (get("deployment/operator"), get(&kind)) else { return };
        let list: Value = serde_json::from_str(&list).unwrap();
        let deleted =
            list["items"].as_array().unwrap().iter().filter(|it| !it["metadata"]["deletionTimestamp"].is_null());
        for widget in deleted {
            let name = format!("{kind}/{}", widget["metadata"]["name"].as_str().unwrap());
            let patch = "{\"metadata\":{\"finalizers\":null}}";
            let words = ["patch", &name, "-n", &self.namespace, "--type", "merge", "-p", patch];
            self.cluster.kubectl(&words).unwrap();
        }
    }

    /// Plays every step, and checks that exactly what its plan deletes is gone. Returns what each step removes.
    fn play(&self, owners: &[&str]) -> Vec<BTreeSet<String>> {
        let patches = folder(&format!("{}-patches", self.namespace));
        let run = self.retire(owners, &["-o", "json", "--write", patches.to_str().unwrap()]);
        assert_eq!(run.code, 0, "{run:?}");
        let document: Value = serde_json::from_str(&run.stdout).unwrap();
        let mut gone_in_steps = vec![];
        for step in document["steps"].as_array().unwrap() {
            let before = self.uids();
            let file = patches.join(format!("step-{}.patch", step["number"]));
            if file.exists() {
                self.tree.git(&["apply", file.to_str().unwrap()]);
                self.publish();
            }
            let lines = |field: &str| -> Vec<String> {
                step[field].as_array().unwrap().iter().map(|line| line.as_str().unwrap().to_owned()).collect()
            };
            for command in lines("commands") {
                let words: Vec<&str> = command.split_whitespace().skip(1).chain(["--wait=false"]).collect();
                self.cluster.kubectl(&words).unwrap();
            }
            for command in lines("doneWhen") {
                let words: Vec<&str> =
                    command.split_whitespace().skip(1).filter(|word| !word.starts_with("--timeout")).collect();
                let is_done = || {
                    self.serve();
                    Ok(self.cluster.kubectl(&[&words[..], &["--timeout=1s"]].concat()).is_ok())
                };
                self.cluster.wait_for(&command, LIMIT, is_done).unwrap();
            }
            let after = self.uids();
            let gone: BTreeSet<String> = before
                .iter()
                .filter(|(_, uid)| !after.values().any(|other| other == *uid))
                .map(|(name, _)| name.clone())
                .collect();
            let rows = step["plan"]["changes"].as_array().unwrap().iter().filter(|row| row["action"] == "delete");
            let planned = rows.map(|row| {
                format!("{}/{}", row["object"]["kind"].as_str().unwrap(), row["object"]["name"].as_str().unwrap())
            });
            let planned: BTreeSet<String> = planned.filter(|name| before.contains_key(name)).collect();
            assert_eq!(gone, planned, "step {}\n{}", step["number"], run.stdout);
            gone_in_steps.push(gone);
        }
        assert_eq!(document["leftOver"], json!([]), "{}", run.stdout);
        let leaked = gitops(self.cluster, &["inventory", "--leaked", "--orphaned", "-o", "name"]);
        let prefix = format!("-n {}", self.namespace);
        assert!(!leaked.stdout.contains(&prefix), "{leaked:?}");
        gone_in_steps
    }
}

/// Deploys a root with a controller, and a Kustomization that depends on it and has a resource of the controller.
fn root_with_controller<'a>(cluster: &'a Cluster, ns: &str) -> Case<'a> {
    let owners = [kustomization(ns, "operator", &[]), kustomization(ns, "apps", &["operator"])];
    let layout = Layout::from([
        ("operator".to_owned(), vec![definition(ns), deployment(ns)]),
        ("apps".to_owned(), vec![widget(ns, "w"), map(ns, "a")]),
    ]);
    Case::new(cluster, ns, &owners, &layout)
}

/// Returns the text of a run while a Kustomization is still there.
fn awaits(namespace: &str, name: &str) -> String {
    format!("waiting for kustomization.kustomize.toolkit.fluxcd.io/{name} -n {namespace} to be deleted")
}

fn names(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn a_root_with_a_controller_and_its_resources_goes_in_an_order_that_hangs_nowhere() {
    let cluster = cluster();
    let ns = "retire-root";
    let case = root_with_controller(&cluster, ns);
    let refused = case.retire(&["kustomization/operator"], &[]);
    assert_eq!(refused.code, 6, "{refused:?}");
    assert!(
        refused.stderr.contains("/w -n retire-root: kustomization/apps -n retire-root, which stays"),
        "{refused:?}"
    );
    let steps = case.play(&["kustomization/root"]);
    let expected = [
        names(&["Kustomization/apps", "Widget/w", "ConfigMap/a"]),
        names(&["Kustomization/operator", "Deployment/operator"]),
        names(&["Kustomization/root"]),
    ];
    assert_eq!(steps, expected);
}

#[test]
fn an_owner_on_which_others_depend_is_retired_with_them_only() {
    let cluster = cluster();
    let ns = "retire-depended";
    let owners = [kustomization(ns, "base", &[]), kustomization(ns, "apps", &["base"])];
    let layout = Layout::from([("base".to_owned(), vec![map(ns, "b")]), ("apps".to_owned(), vec![map(ns, "a")])]);
    let case = Case::new(&cluster, ns, &owners, &layout);
    let refused = case.retire(&["kustomization/base"], &[]);
    assert_eq!(refused.code, 6, "{refused:?}");
    let rule = "/apps -n retire-depended: it stays, and the step blocks it: dependency-deleted";
    assert!(refused.stderr.contains(rule), "{refused:?}");
    let expected = [names(&["Kustomization/apps", "ConfigMap/a"]), names(&["Kustomization/base", "ConfigMap/b"])];
    assert_eq!(case.play(&["kustomization/base", "kustomization/apps"]), expected);
}

#[test]
fn resources_beside_their_controller_leave_git_a_step_earlier() {
    let cluster = cluster();
    let ns = "retire-early";
    let owners = [kustomization(ns, "crds", &[]), kustomization(ns, "all", &["crds"]), kustomization(ns, "other", &[])];
    let layout = Layout::from([
        ("crds".to_owned(), vec![definition(ns)]),
        ("all".to_owned(), vec![deployment(ns), widget(ns, "w"), map(ns, "a")]),
        ("other".to_owned(), vec![map(ns, "stays")]),
    ]);
    let case = Case::new(&cluster, ns, &owners, &layout);
    let steps = case.play(&["kustomization/all", "kustomization/crds"]);
    let expected = [
        names(&["Widget/w"]),
        names(&["Kustomization/all", "Deployment/operator", "ConfigMap/a"]),
        names(&["Kustomization/crds"]),
    ];
    assert_eq!(steps, expected);
    assert!(case.uids().contains_key("ConfigMap/stays"));
}

#[test]
fn a_step_is_done_once_its_namespace_is_gone() {
    let cluster = cluster();
    let (ns, inner) = ("retire-namespace", "retire-namespace-x");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": inner}});
    let layout = Layout::from([("apps".to_owned(), vec![namespace, map(inner, "a")])]);
    let case = Case::new(&cluster, ns, &[kustomization(ns, "apps", &[])], &layout);
    let steps = case.play(&["kustomization/apps"]);
    assert_eq!(steps, [names(&["Kustomization/apps"])]);
    let found = cluster.kubectl(&["get", "namespace", inner, "--ignore-not-found", "-o", "name"]).unwrap();
    assert_eq!(found, "");
}

#[test]
fn steps_that_are_carried_out_remove_everything() {
    let cluster = cluster();
    let ns = "retire-apply";
    let case = root_with_controller(&cluster, ns);
    let orphan = json!({"spec": {"deletionPolicy": "Orphan"}}).to_string();
    cluster.kubectl(&["patch", "kustomization/root", "-n", ns, "--type=merge", "-p", &orphan]).unwrap();
    let mut run = case.apply("kustomization/root");
    for step in [2, 3] {
        run.wait_for(&format!("step {step} of 4: "));
        run.wait_for(&awaits(ns, ["apps", "operator"][step - 2]));
        case.commit(&run.patch(step));
    }
    let (code, said) = run.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("kubectl delete kustomization.kustomize.toolkit.fluxcd.io/root"), "{said}");
    assert!(said.ends_with("everything is removed\n"), "{said}");
    assert_eq!(case.uids(), BTreeMap::new(), "{said}");
}

#[test]
fn a_step_that_no_longer_holds_is_not_taken() {
    let cluster = cluster();
    let ns = "retire-moved-on";
    let owners = [kustomization(ns, "base", &[]), kustomization(ns, "apps", &["base"])];
    let layout = Layout::from([("base".to_owned(), vec![map(ns, "b")]), ("apps".to_owned(), vec![map(ns, "a")])]);
    let case = Case::new(&cluster, ns, &owners, &layout);
    let awaited = awaits(ns, "apps");
    let mut interrupted = case.apply("kustomization/root");
    interrupted.wait_for(&awaited);
    interrupted.interrupt();
    let (code, said) = interrupted.end();
    assert_eq!(code, Some(130), "{said}");
    assert!(
        said.contains("step 1 of 3: interrupted while waiting for kustomization.kustomize.toolkit.fluxcd.io/apps"),
        "{said}"
    );
    let (tree, kustomize) = (case.tree.path().display(), bin("kustomize"));
    let goes_on = format!(
        "`kubectl gitops retire --apply --repo {tree} --kustomize {} {ns}/kustomization/root` goes on",
        kustomize.display()
    );
    assert!(said.contains(&goes_on), "{said}");

    let mut run = case.apply("kustomization/root");
    run.wait_for(&awaited);
    case.write("base/late.yaml", &map(ns, "late"));
    let revision = case.publish();
    cluster.wait_until_applied(ns, "base", &revision, LIMIT).unwrap();
    case.commit(&run.patch(1));
    let (code, said) = run.end();
    assert_eq!(code, Some(6), "{said}");
    let refusal = "step 2 no longer holds, because the cluster has changed: it would also delete configmap/late";
    assert!(said.contains(refusal), "{said}");
    assert_eq!(
        case.uids().into_keys().collect::<BTreeSet<_>>(),
        names(&["ConfigMap/b", "ConfigMap/late", "Kustomization/base", "Kustomization/root"])
    );
}

/// Number of random removals; `RETIRE_CASES` in the environment sets another one, and `RETIRE_SEED` the first seed.
const CASES: u64 = 4;

#[test]
#[expect(clippy::print_stdout, reason = "the figures are the result")]
fn random_removals_leave_nothing() {
    let cases = number("RETIRE_CASES", CASES);
    let mut steps = vec![];
    let cluster = cluster();
    for case in 0..cases {
        let mut random = Random::new(number("RETIRE_SEED", 0) + case);
        let ns = format!("retire-{case}");
        let names = ["one", "two", "three"];
        let mut layout: Layout =
            names.iter().map(|name| ((*name).to_owned(), vec![map(&ns, &format!("own-{name}"))])).collect();
        layout.get_mut("one").unwrap().push(definition(&ns));
        layout.get_mut(names[random.below(2)]).unwrap().push(deployment(&ns));
        for name in ["w", "x"] {
            let at = names[1 + random.below(2)];
            layout.get_mut(at).unwrap().push(widget(&ns, name));
        }
        let owners = [
            kustomization(&ns, "one", &[]),
            kustomization(&ns, "two", &["one"]),
            kustomization(&ns, "three", &["two"]),
        ];
        let deployed = Case::new(&cluster, &ns, &owners, &layout);
        let targets: &[&str] = [
            &["kustomization/root"][..],
            &["kustomization/one", "kustomization/two", "kustomization/three"],
            &["kustomization/three"],
        ][random.below(3)];
        steps.push(deployed.play(targets).len());
    }
    steps.sort_unstable();
    println!("{cases} random removals, {} steps in the median", steps[steps.len() / 2]);
}
