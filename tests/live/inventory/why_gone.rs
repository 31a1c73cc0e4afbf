//! `inventory --why-gone`, compared with what really deleted objects: the audit log of the API server, for random commits
//! that the real kustomize-controller applies.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use test_support::cluster::{LIMIT, with_kustomize_controller};
use test_support::folder::Folder;
use test_support::gitops::{Run, gitops};
use test_support::random::{Random, number};
use test_support::shared_cluster;
use xtask::cluster::Cluster;
use xtask::controlplane::bin;

// The cluster of these tests, with kustomize-controller.
shared_cluster!(with_kustomize_controller);

/// Number of random commits that take something out; `WHY_GONE_CASES` in the environment sets another one.
const CASES: usize = 12;

/// Object in each namespace of a commit that no commit has.
const BY_HAND: &str = "by-hand";

const AUTHORS: [&str; 3] = ["Ada", "Grace", "Edsger"];

/// A Kustomization and what is in its directory.
#[derive(Clone, Default)]
struct Owner {
    objects: BTreeSet<String>,
    /// Namespaces, each with a ConfigMap of the same name.
    namespaces: BTreeSet<String>,
    keeps: bool,
    /// Variable in the names of some objects.
    variable: usize,
}

/// An object that is gone, and who deleted it.
struct Gone {
    namespace: String,
    name: String,
    /// Owner, commit and author; `None` if a person deleted it.
    by: Option<(String, String, String)>,
    deleter: &'static str,
}

struct World<'a> {
    cluster: &'a Cluster,
    namespace: String,
    tree: Folder,
    owners: BTreeMap<String, Owner>,
    count: usize,
    /// Objects that exist, with their namespaces.
    live: BTreeSet<(String, String)>,
    gone: Vec<Gone>,
}

impl<'a> World<'a> {
    fn new(cluster: &'a Cluster, namespace: &str) -> Self {
        let tree = Folder::outside_checkouts(namespace);
        tree.git(&["init", "-q", "-b", "main"]);
        tree.git(&["remote", "add", "origin", &format!("https://example.invalid/{namespace}.git")]);
        cluster.kubectl(&["create", "namespace", namespace]).unwrap();
        let (owners, live, gone) = (BTreeMap::new(), BTreeSet::new(), vec![]);
        let mut world = Self { cluster, namespace: namespace.to_owned(), tree, owners, count: 0, live, gone };
        for _ in 0..3 {
            world.add_owner();
        }
        world.commit("Begin", AUTHORS[0]);
        world.cluster.publish(&world.source(), world.tree.path()).unwrap();
        world.cluster.kubectl_stdin(&["apply", "-f", "-"], &world.manifest("root", None)).unwrap();
        world.publish();
        world
    }

    fn source(&self) -> String {
        format!("GitRepository/{0}/{0}", self.namespace)
    }

    fn next(&mut self, prefix: &str) -> String {
        self.count += 1;
        format!("{prefix}-{}", self.count)
    }

    fn add_owner(&mut self) {
        let name = self.next("own");
        let objects = (0..3).map(|_| self.next("cm")).collect();
        self.owners.insert(name, Owner { objects, ..Owner::default() });
    }

    fn manifest(&self, name: &str, owner: Option<&Owner>) -> String {
        let namespace = &self.namespace;
        let keeps = owner.is_some_and(|owner| owner.keeps);
        let variable = owner.map(|owner| owner.variable).unwrap_or_default();
        format!(
            "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: {name}, namespace: \
             {namespace}}}\nspec:\n  interval: 1h\n  retryInterval: 2s\n  path: ./{name}\n  prune: {}\n  postBuild: \
             {{substitute: {{n: \"{variable}\"}}}}\n  sourceRef: {{kind: GitRepository, name: {namespace}}}\n",
            !keeps
        )
    }

    /// Writes the whole tree.
    fn write(&self) {
        for entry in std::fs::read_dir(self.tree.path()).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() && entry.file_name().is_some_and(|name| name != ".git") {
                std::fs::remove_dir_all(entry).unwrap();
            }
        }
        self.tree.write("root/kustomization.yaml", {
            let files: Vec<String> = self.owners.keys().map(|owner| format!("- {owner}.yaml\n")).collect();
            format!("resources: {}\n{}", if files.is_empty() { "[]" } else { "" }, files.concat())
        });
        for (name, owner) in &self.owners {
            self.tree.write(&format!("root/{name}.yaml"), self.manifest(name, Some(owner)));
            let map = |namespace: &str, name: &str| {
                format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: \"{name}\", namespace: {namespace}}}\n")
            };
            self.tree.write(&format!("{name}/var.yaml"), map(&self.namespace, &format!("{name}-v${{n}}")));
            for object in &owner.objects {
                self.tree.write(&format!("{name}/{object}.yaml"), map(&self.namespace, object));
            }
            for inner in &owner.namespaces {
                let namespace = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {inner}}}\n---\n");
                self.tree.write(&format!("{name}/{inner}.yaml"), namespace + &map(inner, inner));
            }
        }
    }

    fn commit(&self, subject: &str, author: &str) -> String {
        self.write();
        self.tree.git(&["add", "-A"]);
        let author = format!("--author={author} <{author}@example.invalid>");
        self.tree.git(&["commit", "-q", "--allow-empty", "-m", subject, &author]);
        self.tree.git(&["rev-parse", "HEAD"])
    }

    fn publish(&mut self) {
        let revision = self.cluster.publish(&self.source(), self.tree.path()).unwrap();
        self.cluster.wait_until_applied(&self.namespace, "root", &revision, LIMIT).unwrap();
        for owner in self.owners.keys() {
            self.cluster.wait_until_applied(&self.namespace, owner, &revision, LIMIT).unwrap();
        }
        let settled = || {
            let owners = self.cluster.kubectl(&["get", "kustomizations", "-n", &self.namespace, "-o", "json"])?;
            let namespaces = self.cluster.kubectl(&["get", "namespaces", "-o", "json"])?;
            Ok(!owners.contains("deletionTimestamp") && !namespaces.contains("deletionTimestamp"))
        };
        self.cluster.wait_for("what is deleted to go", LIMIT, settled).unwrap();
        for (name, owner) in &self.owners {
            self.live.insert((self.namespace.clone(), format!("{name}-v{}", owner.variable)));
            self.live.extend(owner.objects.iter().map(|object| (self.namespace.clone(), object.clone())));
            for inner in &owner.namespaces {
                if self.live.insert((inner.clone(), inner.clone())) {
                    // No commit has it.
                    self.cluster.kubectl(&["create", "configmap", BY_HAND, "-n", inner]).unwrap();
                    self.live.insert((inner.clone(), BY_HAND.to_owned()));
                }
            }
        }
    }

    fn delete_by_commit(&mut self, namespace: &str, name: &str, owner: &str, author: &str) {
        if !self.live.remove(&(namespace.to_owned(), name.to_owned())) {
            return;
        }
        let deleter = if name == BY_HAND { "kube-controller-manager" } else { "kustomize-controller" };
        // The commit is not made yet.
        let by = Some((owner.to_owned(), String::new(), author.to_owned()));
        self.gone.push(Gone { namespace: namespace.to_owned(), name: name.to_owned(), by, deleter });
    }

    /// Takes something out at random, and commits it. Returns the number of objects that are gone by it.
    fn change(&mut self, random: &mut Random, author: &str) -> usize {
        let before = self.gone.len();
        let namespace = self.namespace.clone();
        let names: Vec<String> = self.owners.keys().cloned().collect();
        let name = names[random.below(names.len())].clone();
        let objects: Vec<String> = self.owners[&name].objects.iter().cloned().collect();
        let kind = random.below(6);
        let subject = match kind {
            0 if names.len() > 2 => {
                let owner = self.owners.remove(&name).unwrap();
                self.delete_by_commit(&namespace, &format!("{name}-v{}", owner.variable), &name, author);
                for object in &owner.objects {
                    self.delete_by_commit(&namespace, object, &name, author);
                }
                for inner in &owner.namespaces {
                    self.delete_by_commit(inner, inner, &name, author);
                    self.delete_by_commit(inner, BY_HAND, &name, author);
                }
                "Remove an owner"
            }
            1 => {
                let old = self.owners[&name].variable;
                self.owners.get_mut(&name).unwrap().variable += 1;
                self.delete_by_commit(&namespace, &format!("{name}-v{old}"), &name, author);
                "Change a variable"
            }
            2 => {
                let inner: Vec<String> = self.owners[&name].namespaces.iter().cloned().collect();
                match inner.first() {
                    Some(inner) => {
                        self.owners.get_mut(&name).unwrap().namespaces.remove(inner);
                        self.delete_by_commit(inner, inner, &name, author);
                        self.delete_by_commit(inner, BY_HAND, &name, author);
                        "Remove a namespace"
                    }
                    None => {
                        let inner = self.next(&format!("{namespace}-in"));
                        self.owners.get_mut(&name).unwrap().namespaces.insert(inner);
                        "Add a namespace"
                    }
                }
            }
            3 if !objects.is_empty() => {
                // A rename is a removal and a new object.
                let (old, new) = (&objects[random.below(objects.len())], self.next("renamed"));
                let owner = self.owners.get_mut(&name).unwrap();
                owner.objects.remove(old);
                owner.objects.insert(new);
                self.delete_by_commit(&namespace, old, &name, author);
                "Rename an object"
            }
            4 if !objects.is_empty() => {
                let old = &objects[random.below(objects.len())];
                self.owners.get_mut(&name).unwrap().objects.remove(old);
                self.delete_by_commit(&namespace, old, &name, author);
                "Remove an object"
            }
            _ => {
                self.add_owner();
                "Add an owner"
            }
        };
        let commit = self.commit(subject, author);
        for gone in &mut self.gone[before..] {
            gone.by.as_mut().unwrap().1.clone_from(&commit);
        }
        self.gone.len() - before
    }

    fn ask(&self, namespace: &str, name: &str, more: &[&str]) -> Run {
        let kustomize = bin("kustomize");
        let tree = self.tree.path().to_str().unwrap();
        let words = ["inventory", "-n", namespace, "--why-gone", &format!("configmap/{name}"), "--repo", tree];
        gitops(self.cluster, &[&words[..], &["--kustomize", kustomize.to_str().unwrap()], more].concat())
    }

    fn document(&self, namespace: &str, name: &str) -> Value {
        let run = self.ask(namespace, name, &["-o", "json"]);
        assert_eq!(run.code, 0, "{run:?}");
        serde_json::from_str(&run.stdout).unwrap()
    }

    /// Checks the answer about an object, and that the audit log agrees on who deleted it. Returns true if an Event says it.
    fn check(&self, gone: &Gone) -> bool {
        let Gone { namespace, name, by, deleter } = gone;
        let answer = self.document(namespace, name);
        assert_eq!(answer["state"]["presence"], "gone", "{name}: {answer:#}");
        let place = format!("/api/v1/namespaces/{namespace}/configmaps");
        let requests = self.cluster.requests_of_program(deleter).unwrap().into_iter();
        let deletions = requests.filter(|request| request.verb.starts_with("delete") && request.code < 300);
        let found = deletions.filter(|request| {
            let path = request.uri.split('?').next().unwrap();
            path == format!("{place}/{name}") || (path == place && request.verb == "deletecollection")
        });
        assert!(found.count() > 0, "the audit log does not say that {deleter} deleted {name}");
        let Some((owner, commit, author)) = by else {
            assert_eq!(answer["verdict"], "declared", "{name}: {answer:#}");
            return false;
        };
        assert_eq!(answer["verdict"], "deleted-by-commit", "{name}: {answer:#}");
        let removal = &answer["removal"];
        assert_eq!(removal["commit"]["sha"], **commit, "{name}: {answer:#}");
        assert_eq!(removal["commit"]["author"], **author, "{name}: {answer:#}");
        assert_eq!(removal["owner"]["name"], **owner, "{name}: {answer:#}");
        let by = if *deleter == "kustomize-controller" { "kustomize-controller" } else { "namespace-controller" };
        assert_eq!(removal["by"], by, "{name}: {answer:#}");
        // A controller sends 25 Events about one owner, and then one in five minutes.
        let events = answer["events"].as_array().unwrap();
        let of_owner = |event: &Value| event["by"] == *deleter && event["owner"]["name"] == **owner;
        assert!(events.iter().all(of_owner), "{name}: {answer:#}");
        !events.is_empty()
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "the figures are the result")]
fn the_commit_and_the_owner_of_random_deletions_are_found() {
    let cases = number("WHY_GONE_CASES", CASES);
    let running = cluster();
    let mut world = World::new(&running, "why-gone");
    let mut random = Random::new(7);
    let mut commits = 0;
    while commits < cases {
        let author = random.pick(&AUTHORS).to_owned();
        let is_merged = random.one_in(4);
        if is_merged {
            let branch = world.next("feature");
            world.tree.git(&["checkout", "-q", "-b", &branch]);
            world.commit("Prepare", AUTHORS[0]);
        }
        if world.change(&mut random, &author) > 0 {
            commits += 1;
        }
        if is_merged {
            world.tree.git(&["checkout", "-q", "main"]);
            world.tree.git(&["merge", "-q", "--no-ff", "-m", "Merge a branch", "@{-1}"]);
        }
        // Two commits can be one revision.
        if !random.one_in(4) {
            world.publish();
        }
    }
    world.publish();
    let deleted = world.gone.iter().map(|gone| &gone.by.as_ref().unwrap().1).collect::<BTreeSet<_>>().len();
    let told = world.gone.iter().filter(|gone| world.check(gone)).count();
    assert!(told > 0, "no Event is found");
    let all = world.gone.len();
    println!("{deleted} commits and {all} objects: each answer is right, {told} with an Event");
}

#[test]
fn what_no_commit_deleted_is_said() {
    let running = cluster();
    let mut world = World::new(&running, "why-not");
    let names: Vec<String> = world.owners.keys().cloned().collect();
    let object = |world: &World<'_>, at: usize| world.owners[&names[at]].objects.first().unwrap().clone();
    // A person deletes an object that the deployed commit declares.
    let by_hand = object(&world, 0);
    let namespace = world.namespace.clone();
    running.kubectl(&["delete", "configmap", &by_hand, "-n", &namespace]).unwrap();
    world.check(&Gone { namespace: namespace.clone(), name: by_hand.clone(), by: None, deleter: "kubectl" });
    // Its owner does not prune, so the object stays.
    let kept = object(&world, 1);
    world.owners.get_mut(&names[1]).unwrap().keeps = true;
    world.commit("Keep everything", "Ada");
    world.publish();
    world.owners.get_mut(&names[1]).unwrap().objects.remove(&kept);
    let commit = world.commit("Remove what is kept", "Grace");
    world.publish();
    let answer = world.document(&namespace, &kept);
    assert_eq!(
        (&answer["state"]["presence"], &answer["verdict"]),
        (&"exists".into(), &"left-behind".into()),
        "{answer:#}"
    );
    assert_eq!(answer["removal"]["commit"]["sha"], *commit, "{answer:#}");
    // A person deletes it later: Flux did not.
    running.kubectl(&["delete", "configmap", &kept, "-n", &namespace]).unwrap();
    let answer = world.document(&namespace, &kept);
    assert_eq!(
        (&answer["state"]["presence"], &answer["verdict"]),
        (&"gone".into(), &"left-behind".into()),
        "{answer:#}"
    );
    // A commit that is not applied, because the owner is suspended.
    let waiting = object(&world, 2);
    let owner = format!("kustomization/{}", names[2]);
    // The controller undoes what a manager whose name begins with kubectl writes.
    let patch = ["--field-manager=person", "--type=merge", "-p", r#"{"spec":{"suspend":true}}"#];
    running.kubectl(&[&["patch", &owner, "-n", &namespace], &patch[..]].concat()).unwrap();
    world.owners.get_mut(&names[2]).unwrap().objects.remove(&waiting);
    let commit = world.commit("Remove what is suspended", "Edsger");
    let revision = running.publish(&world.source(), world.tree.path()).unwrap();
    running.wait_until_applied(&namespace, "root", &revision, LIMIT).unwrap();
    running.kubectl(&["delete", "configmap", &waiting, "-n", &namespace]).unwrap();
    let answer = world.document(&namespace, &waiting);
    assert_eq!(answer["verdict"], "not-applied", "{answer:#}");
    assert_eq!(answer["removal"]["commit"]["sha"], *commit, "{answer:#}");
    // No commit has it.
    let answer = world.document(&namespace, "never");
    assert_eq!((&answer["verdict"], &answer["searched"]["whole"]), (&"not-found".into(), &true.into()), "{answer:#}");
    // Only a part of the history is searched.
    let run = world.ask(&namespace, "never", &["--max-commits", "1"]);
    assert_eq!(run.code, 5, "{run:?}");
    assert!(run.stderr.contains("older commits could not be read"), "{run:?}");
    // The history is rewritten: the deployed commit is on no branch, and then the checkout does not have it.
    world.tree.git(&["checkout", "-q", "--orphan", "new"]);
    world.commit("Begin anew", "Ada");
    for word in
        [&["branch", "-D", "main"][..], &["reflog", "expire", "--expire=now", "--all"], &["gc", "-q", "--prune=now"]]
    {
        world.tree.git(word);
    }
    let run = world.ask(&namespace, &waiting, &[]);
    assert_eq!(run.code, 5, "{run:?}");
    assert!(run.stderr.contains("its history was rewritten, or it is not fetched"), "{run:?}");
    assert!(run.stdout.contains("no commit that was searched declares it"), "{run:?}");
}
