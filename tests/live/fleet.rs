//! One checkout for a hub, two clusters to which the hub applies, and a cluster with a Flux of its own: one answer of
//! `plan --contexts`, compared by uid in all of them with what the real controllers do.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use test_support::cluster::{LIMIT, up};
use test_support::connection::kubeconfig_of;
use test_support::flux::settled;
use test_support::folder::{Folder, init};
use test_support::gitops::{Run, gitops_as};
use test_support::tree_plan::document;
use xtask::cluster::{Cluster, Flux, Options};
use xtask::controlplane::bin;

/// Namespace of everything; also the name of the sources, which gives them the address of the checkout.
const NS: &str = "fleet";

struct World {
    hub: Cluster,
    ap: Cluster,
    eu: Cluster,
    us: Cluster,
    kubeconfig: PathBuf,
    folder: Folder,
}

fn kustomization(name: &str, path: &str, spoke: Option<&str>) -> String {
    let remote = spoke.map(|name| format!(", kubeConfig: {{secretRef: {{name: {name}}}}}")).unwrap_or_default();
    format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: {name}, namespace: {NS}}}\n\
         spec: {{interval: 1h, retryInterval: 2s, path: {path}, prune: true, \
         sourceRef: {{kind: GitRepository, name: {NS}}}{remote}}}\n"
    )
}

fn config_map(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {NS}}}\n")
}

impl World {
    fn start() -> Self {
        let with_flux = || up(Options { flux: Flux::Kustomize, ..Options::default() });
        let without = || up(Options { flux: Flux::Crds, ..Options::default() });
        let (hub, ap, eu, us) = (with_flux(), with_flux(), without(), without());
        let kubeconfig = kubeconfig_of(&[("hub", &hub), ("ap", &ap), ("eu", &eu), ("us", &us)]);
        let world = Self { hub, ap, eu, us, kubeconfig, folder: Folder::outside_checkouts("fleet") };
        for (_, cluster) in world.clusters() {
            cluster.kubectl(&["create", "namespace", NS]).unwrap();
        }
        world
    }

    fn clusters(&self) -> [(&'static str, &Cluster); 4] {
        [("hub", &self.hub), ("ap", &self.ap), ("eu", &self.eu), ("us", &self.us)]
    }

    fn repo(&self) -> PathBuf {
        self.folder.path().join("repo")
    }

    /// Writes the repository: every cluster has the ConfigMaps `a` and `b`, and `us` one of its own.
    fn write(&self) {
        let write = |path: &str, text: &str| drop(self.folder.write(&format!("repo/{path}"), text));
        for spoke in ["eu", "us"] {
            write(
                &format!("clusters/hub/{spoke}.yaml"),
                &kustomization(spoke, &format!("./clusters/{spoke}"), Some(spoke)),
            );
        }
        write("clusters/eu/kustomization.yaml", "resources: [../../base]\n");
        write("clusters/us/kustomization.yaml", "resources: [../../base, own.yaml]\n");
        write("clusters/us/own.yaml", &config_map("own"));
        write("clusters/ap/kustomization.yaml", "resources: [../../base]\n");
        write("base/kustomization.yaml", "resources: [a.yaml, b.yaml]\n");
        write("base/a.yaml", &config_map("a"));
        write("base/b.yaml", &config_map("b"));
        init(&self.repo());
        xtask::git::run(self.repo(), &["remote", "add", "origin", &format!("https://example.invalid/{NS}.git")])
            .unwrap();
    }

    fn deploy(&self) {
        for (name, spoke) in [("eu", &self.eu), ("us", &self.us)] {
            let config = fs::read_to_string(spoke.kubeconfig()).unwrap();
            let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NS},
                "stringData": {"value": config}});
            self.hub.kubectl_stdin(&["apply", "-f", "-"], &secret.to_string()).unwrap();
        }
        self.publish();
        for (cluster, path) in [(&self.hub, "./clusters/hub"), (&self.ap, "./clusters/ap")] {
            cluster.kubectl_stdin(&["apply", "-f", "-"], &kustomization("root", path, None)).unwrap();
        }
        let all = || Ok(self.uids().len() == 7);
        self.hub.wait_for("the ConfigMaps of all clusters", LIMIT, all).unwrap();
        for (cluster, name) in [(&self.hub, "root"), (&self.hub, "eu"), (&self.hub, "us"), (&self.ap, "root")] {
            settled(cluster, NS, name);
        }
    }

    fn publish(&self) {
        for cluster in [&self.hub, &self.ap] {
            cluster.publish(&format!("GitRepository/{NS}/{NS}"), self.repo()).unwrap();
        }
    }

    /// Uids of the ConfigMaps of all clusters, by `NAME@CLUSTER`.
    fn uids(&self) -> BTreeMap<String, String> {
        let path = "jsonpath={range .items[*]}{.metadata.name} {.metadata.uid}{\"\\n\"}{end}";
        let mut found = BTreeMap::new();
        for (name, cluster) in self.clusters() {
            let list = cluster.kubectl(&["get", "configmaps", "-n", NS, "-o", path]).unwrap();
            let lines = list.lines().filter_map(|line| line.split_once(' '));
            let own = lines.filter(|(object, _)| *object != "kube-root-ca.crt");
            found.extend(own.map(|(object, uid)| (format!("{object}@{name}"), uid.to_owned())));
        }
        found
    }

    fn plan(&self, kubeconfig: &Path, contexts: &str) -> Run {
        let (repo, kustomize) =
            (self.repo().display().to_string(), format!("--kustomize={}", bin("kubectl").display()));
        let spokes = ["--spoke", "fleet/eu=eu", "--spoke", "fleet/us=us"];
        let line = ["plan", &repo, "--contexts", contexts, &kustomize, "-o", "json", "--max-percent=100"];
        gitops_as(kubeconfig, &[&line[..], &spokes].concat())
    }
}

/// Returns the certain deletions of ConfigMaps as `NAME@CLUSTER`.
fn deleted(answer: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for row in answer["changes"].as_array().unwrap() {
        if row["action"] != "delete" || row["certainty"] != "certain" || row["object"]["kind"] != "ConfigMap" {
            continue;
        }
        let name = row["object"]["name"].as_str().unwrap();
        match row["object"]["cluster"].as_str() {
            Some(cluster) => drop(found.insert(format!("{name}@{cluster}"))),
            None => found.extend(
                row["clusters"].as_array().unwrap().iter().map(|own| format!("{name}@{}", own.as_str().unwrap())),
            ),
        }
    }
    found
}

fn states(answer: &Value) -> Vec<(&str, &str)> {
    answer["clusters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["name"].as_str().unwrap(), row["state"].as_str().unwrap()))
        .collect()
}

#[test]
fn a_hub_its_clusters_and_one_of_its_own_have_one_answer_that_comes_true() {
    let world = World::start();
    world.write();
    world.deploy();
    let before = world.uids();
    xtask::git::run(world.repo(), &["checkout", "-q", "-b", "feature"]).unwrap();
    world.folder.write("repo/base/kustomization.yaml", "resources: [a.yaml]\n");
    world.folder.write("repo/clusters/us/kustomization.yaml", "resources: [../../base]\n");
    let repo = world.repo();
    xtask::git::run(&repo, &["commit", "-qam", "Remove what nobody reads"]).unwrap();

    let run = world.plan(&world.kubeconfig, "hub,ap,eu,us");
    let answer = document(&run);
    assert_eq!((run.code, &answer["complete"], &answer["rehearsed"]), (0, &json!(true), &json!(true)), "{run}");
    let expected = [("hub", "planned"), ("ap", "planned"), ("eu", "unaffected"), ("us", "unaffected")];
    assert_eq!(states(&answer), expected, "{run}");
    let planned = deleted(&answer);
    assert_eq!(planned, ["b@ap", "b@eu", "b@us", "own@us"].map(str::to_owned).into(), "{run}");

    // One that cannot be reached is a gap, and the others are answered.
    let mut config: Value = serde_json::from_slice(&fs::read(&world.kubeconfig).unwrap()).unwrap();
    for entry in config["clusters"].as_array_mut().unwrap().iter_mut().filter(|entry| entry["name"] == "ap") {
        entry["cluster"] = json!({"server": "http://127.0.0.1:1"});
    }
    let broken = world.folder.write("broken", config.to_string());
    let run = world.plan(&broken, "hub,ap,eu");
    let answer = document(&run);
    assert_eq!((run.code, &answer["complete"]), (5, &json!(false)), "{run}");
    assert_eq!(states(&answer), [("hub", "planned"), ("ap", "failed"), ("eu", "unaffected")], "{run}");
    assert_eq!(answer["gaps"][0]["context"], "ap", "{run}");
    assert_eq!(deleted(&answer), ["b@eu", "b@us", "own@us"].map(str::to_owned).into(), "{run}");

    xtask::git::run(&repo, &["checkout", "-q", "main"]).unwrap();
    xtask::git::run(&repo, &["merge", "-q", "feature"]).unwrap();
    world.publish();
    let gone = |after: &BTreeMap<String, String>| -> BTreeSet<String> {
        before
            .iter()
            .filter(|(object, uid)| after.get(*object) != Some(*uid))
            .map(|(object, _)| object.clone())
            .collect()
    };
    world.hub.wait_for("the deletions", LIMIT, || Ok(gone(&world.uids()).len() >= planned.len())).unwrap();
    for (cluster, name) in [(&world.hub, "eu"), (&world.hub, "us"), (&world.ap, "root")] {
        settled(cluster, NS, name);
    }
    assert_eq!(gone(&world.uids()), planned);
}
