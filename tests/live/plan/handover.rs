//! The steps of `handover`, each played beside the real kustomize-controller: no uid changes, and nothing is left over.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;
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

/// ConfigMaps by Kustomization.
type Layout = BTreeMap<String, Vec<String>>;

fn layout(rows: &[(&str, &[&str])]) -> Layout {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    rows.iter().map(|(owner, objects)| ((*owner).to_owned(), names(objects))).collect()
}

/// A Kustomization of the directory with its name, of the source with the name of its namespace.
fn manifest(namespace: &str, name: &str) -> String {
    format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata:\n  name: {name}\n  namespace: \
         {namespace}\nspec:\n  interval: 1h\n  retryInterval: 2s\n  path: ./{name}\n  prune: true\n  sourceRef:\n    kind: \
         GitRepository\n    name: {namespace}\n"
    )
}

/// Writes a root Kustomization's directory with a Kustomization each, and their objects.
fn write(tree: &Path, namespace: &str, layout: &Layout) {
    for entry in std::fs::read_dir(tree).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() && entry.file_name().is_some_and(|name| name != ".git") {
            std::fs::remove_dir_all(entry).unwrap();
        }
    }
    let file = |path: String, text: String| {
        let path = tree.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    for (owner, objects) in layout {
        file(format!("root/{owner}.yaml"), manifest(namespace, owner));
        for object in objects {
            let head =
                format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {object}, namespace: {namespace}}}\n");
            file(format!("{owner}/{object}.yaml"), format!("{head}data: {{a: b}}\n"));
        }
    }
}

/// One move from a layout to another one, on branch `main`, with the change on `feature`.
struct Move<'a> {
    cluster: &'a Cluster,
    namespace: String,
    tree: Folder,
}

impl<'a> Move<'a> {
    fn new(cluster: &'a Cluster, namespace: &str, before: &Layout, after: &Layout) -> Self {
        let tree = Folder::outside_checkouts(namespace);
        let this = Self { cluster, namespace: namespace.to_owned(), tree };
        this.git(&["init", "-q", "-b", "main"]);
        this.git(&["remote", "add", "origin", &format!("https://example.invalid/{namespace}.git")]);
        write(this.tree.path(), namespace, before);
        this.commit();
        this.git(&["checkout", "-q", "-b", "feature"]);
        write(this.tree.path(), namespace, after);
        this.commit();
        this.git(&["checkout", "-q", "main"]);
        cluster.kubectl(&["create", "namespace", namespace]).unwrap();
        let root = manifest(namespace, "root");
        let revision = cluster.publish(&this.source(), this.tree.path()).unwrap();
        cluster.kubectl_stdin(&["apply", "-f", "-"], &root).unwrap();
        this.wait(before.keys(), &revision);
        this
    }

    fn source(&self) -> String {
        format!("GitRepository/{0}/{0}", self.namespace)
    }

    fn git(&self, arguments: &[&str]) -> String {
        self.tree.git(arguments)
    }

    fn commit(&self) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", "change"]);
    }

    fn wait<'n>(&self, owners: impl Iterator<Item = &'n String>, revision: &str) {
        self.cluster.wait_until_applied(&self.namespace, "root", revision, LIMIT).unwrap();
        owners.for_each(|owner| {
            self.cluster.wait_until_applied(&self.namespace, owner, revision, LIMIT).unwrap();
        });
        let owners = || {
            let list = self.cluster.kubectl(&["get", "kustomizations", "-n", &self.namespace, "-o", "json"])?;
            Ok(!list.contains("deletionTimestamp"))
        };
        self.cluster.wait_for("deleted Kustomizations to go", LIMIT, owners).unwrap();
    }

    fn uids(&self) -> BTreeMap<String, String> {
        let list = self.cluster.kubectl(&["get", "configmaps", "-n", &self.namespace, "-o", "json"]).unwrap();
        let list: Value = serde_json::from_str(&list).unwrap();
        let items = list["items"].as_array().unwrap().iter();
        let pair = |item: &Value| {
            let text = |pointer: &str| item.pointer(pointer).and_then(Value::as_str).unwrap().to_owned();
            (text("/metadata/name"), text("/metadata/uid"))
        };
        items.map(pair).filter(|(name, _)| name != "kube-root-ca.crt").collect()
    }

    fn run(&self, more: &[&str]) -> Run {
        let kustomize = bin("kustomize");
        let words = ["handover", "--repo", self.tree.path().to_str().unwrap(), "--to", "feature"];
        let program = ["--kustomize", kustomize.to_str().unwrap()];
        gitops(self.cluster, &[&words[..], &program, more].concat())
    }

    /// Starts `handover --apply`.
    fn apply(&self) -> Applying<'_> {
        let (tree, kustomize) = (self.tree.path().to_str().unwrap(), bin("kustomize"));
        let words = ["handover", "--repo", tree, "--to", "feature", "--kustomize", kustomize.to_str().unwrap()];
        Applying::start(self.cluster, &words, || ())
    }

    /// Commits the change to the deployed branch, or only a patch.
    fn publish(&self, change: bool, patch: Option<&str>) -> String {
        if change {
            self.git(&["rm", "-rqf", "."]);
            self.git(&["checkout", "feature", "--", "."]);
        }
        patch.into_iter().for_each(|patch| drop(self.git(&["apply", patch])));
        self.commit();
        self.cluster.publish(&self.source(), self.tree.path()).unwrap()
    }

    /// Plays every step, and checks that no uid changes that is not meant to go. Returns the number of steps.
    fn play(&self, before: &Layout, after: &Layout) -> usize {
        let patches = folder(&format!("{}-patches", self.namespace));
        let run = self.run(&["-o", "json", "--write", patches.to_str().unwrap()]);
        assert_eq!(run.code, 0, "{run:?}");
        let document: Value = serde_json::from_str(&run.stdout).unwrap();
        let steps = document["steps"].as_array().unwrap();
        let first = self.uids();
        for (at, step) in steps.iter().enumerate() {
            let is_hold = at == 0 && steps.len() > 1;
            let file = patches.join(format!("step-{}.patch", at + 1));
            let known = self.uids();
            // A third step takes back what the second one has set.
            let merges = at == usize::from(steps.len() > 1);
            let revision = self.publish(merges, file.exists().then(|| file.to_str().unwrap()));
            self.wait(if is_hold { before.keys() } else { after.keys() }, &revision);
            let now = self.uids();
            let gone: BTreeSet<&String> =
                known.values().filter(|uid| !now.values().any(|other| other == *uid)).collect();
            let rows = step["plan"]["changes"].as_array().unwrap().iter();
            let planned = rows.filter(|row| row["action"] == "delete" && row["object"]["kind"] == "ConfigMap");
            let planned: BTreeSet<String> =
                planned.map(|row| row["object"]["name"].as_str().unwrap().to_owned()).collect();
            let names: BTreeSet<String> =
                known.iter().filter(|(_, uid)| gone.contains(uid)).map(|(name, _)| name.clone()).collect();
            assert_eq!(names, planned, "step {}: what is gone is what its plan deletes\n{}", at + 1, run.stdout);
        }
        let last = self.uids();
        for object in after.values().flatten().filter(|object| first.contains_key(*object)) {
            assert_eq!(first[object], last[object], "{object} has another uid\n{}", run.stdout);
        }
        let left: BTreeSet<&String> =
            last.keys().filter(|name| !after.values().flatten().any(|own| own == *name)).collect();
        let said = document["leftOver"].as_array().unwrap().iter().map(|id| id["name"].as_str().unwrap().to_owned());
        assert_eq!(left.into_iter().cloned().collect::<BTreeSet<_>>(), said.collect(), "{}", run.stdout);
        steps.len()
    }
}

fn play(namespace: &str, before: &Layout, after: &Layout) -> usize {
    Move::new(&cluster(), namespace, before, after).play(before, after)
}

#[test]
fn all_kustomizations_of_a_root_are_renamed() {
    let before = layout(&[("cart", &["cart-a", "cart-b"]), ("web", &["web-a"])]);
    let after = layout(&[("cart-v2", &["cart-a", "cart-b"]), ("web-v2", &["web-a"])]);
    assert_eq!(play("handover-rename", &before, &after), 2);
}

#[test]
fn a_kustomization_is_split_and_objects_move_between_those_that_stay() {
    let before = layout(&[("apps", &["a", "b", "c"]), ("infra", &["x"])]);
    let after = layout(&[("apps", &["a"]), ("infra", &["x", "b"]), ("more", &["c"])]);
    assert_eq!(play("handover-split", &before, &after), 3);
}

#[test]
fn an_object_moves_to_the_root_of_its_owner() {
    let before = layout(&[("apps", &["to-root-a", "to-root-b"]), ("root", &[])]);
    let after = layout(&[("apps", &["to-root-a"]), ("root", &["to-root-b"])]);
    assert_eq!(play("handover-to-root", &before, &after), 2);
}

#[test]
fn a_root_gives_an_object_away_while_a_kustomization_is_renamed() {
    let before = layout(&[("infra", &["given-i"]), ("old", &["given-a"]), ("root", &["given-x"])]);
    let after = layout(&[("infra", &["given-i", "given-x"]), ("new", &["given-a"]), ("root", &[])]);
    let cluster = cluster();
    let moving = Move::new(&cluster, "handover-given", &before, &after);
    assert_eq!(moving.play(&before, &after), 2);
    let annotations = ["get", "configmap/given-x", "-n", "handover-given", "-o", "jsonpath={.metadata.annotations}"];
    assert!(!cluster.kubectl(&annotations).unwrap().contains("prune"), "the new owner takes the mark away");
}

#[test]
fn a_kustomization_that_is_renamed_and_suspended_keeps_its_objects() {
    let cluster = cluster();
    let (before, after) = (layout(&[("old", &["asleep-a"])]), layout(&[("new", &["asleep-a"])]));
    let moving = Move::new(&cluster, "handover-asleep", &before, &after);
    moving.git(&["checkout", "-q", "feature"]);
    let suspended = manifest("handover-asleep", "new").replace("spec:\n", "spec:\n  suspend: true\n");
    std::fs::write(moving.tree.path().join("root/new.yaml"), suspended).unwrap();
    moving.commit();
    moving.git(&["checkout", "-q", "main"]);
    let run = moving.run(&["-o", "json"]);
    let document: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"));
    let steps = document["steps"].as_array().unwrap();
    assert_eq!((steps.len(), &document["leftOver"]), (2, &serde_json::json!([])), "{run:?}");
    let note = "nothing manages configmap/asleep-a -n handover-asleep before it is resumed";
    assert!(steps[1]["notes"].to_string().contains(note), "{run:?}");
}

#[test]
fn paths_one_level_deeper_are_one_step() {
    let cluster = cluster();
    let owners = layout(&[("cart", &["deep-a"]), ("web", &["deep-b"])]);
    let deeper = Move::new(&cluster, "handover-deeper", &owners, &owners);
    deeper.git(&["checkout", "-q", "feature"]);
    std::fs::create_dir(deeper.tree.path().join("deep")).unwrap();
    for owner in owners.keys() {
        deeper.git(&["mv", owner, &format!("deep/{owner}")]);
        let manifest = manifest("handover-deeper", owner).replace("path: ./", "path: ./deep/");
        std::fs::write(deeper.tree.path().join(format!("root/{owner}.yaml")), manifest).unwrap();
    }
    deeper.commit();
    deeper.git(&["checkout", "-q", "main"]);
    assert_eq!(deeper.play(&owners, &owners), 1);
}

#[test]
fn a_claim_that_moves_to_another_namespace_is_a_copy() {
    let cluster = cluster();
    let owners = layout(&[("apps", &["claim-a"])]);
    let moving = Move::new(&cluster, "handover-claim", &owners, &owners);
    let claim = |branch: &str, namespace: &str| {
        moving.git(&["checkout", "-q", branch]);
        let spec = "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}";
        let text = format!(
            "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: data, namespace: {namespace}}}\n{spec}\n"
        );
        std::fs::write(moving.tree.path().join("apps/claim.yaml"), text).unwrap();
        moving.commit();
    };
    claim("feature", "default");
    claim("main", "handover-claim");
    let revision = cluster.publish(&moving.source(), moving.tree.path()).unwrap();
    moving.wait(owners.keys(), &revision);
    let run = moving.run(&["-o", "json"]);
    let document: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"));
    let copies = document["claimsToCopy"].as_array().unwrap();
    let namespaces = [&copies[0]["from"]["namespace"], &copies[0]["to"]["namespace"]];
    assert_eq!((namespaces, copies.len()), ([&"handover-claim".into(), &"default".into()], 1), "{run:?}");
}

#[test]
fn steps_that_are_carried_out_keep_every_uid() {
    let cluster = cluster();
    let before = layout(&[("apps", &["carried-a", "carried-b", "carried-c"]), ("infra", &["carried-x"])]);
    let after = layout(&[("apps", &["carried-a"]), ("infra", &["carried-x", "carried-b"]), ("more", &["carried-c"])]);
    let moving = Move::new(&cluster, "handover-apply", &before, &after);
    let first = moving.uids();
    let mut run = moving.apply();
    run.wait_for("step 1 of 3: commit this to the branch that is deployed");
    run.wait_for("waiting for Flux: commit the patch of root/apps.yaml, and push it");
    run.wait_for("waiting for gitrepository.source.toolkit.fluxcd.io/handover-apply -n handover-apply to have the files of this step");
    run.wait_for("is the commit before it");
    // A commit of somebody else is not this step.
    std::fs::write(moving.tree.path().join("notes.txt"), "notes").unwrap();
    moving.publish(false, None);
    run.wait_for("has another notes.txt, root/apps.yaml");
    std::fs::remove_file(moving.tree.path().join("notes.txt")).unwrap();
    moving.publish(false, Some(&run.patch(1)));
    run.wait_for("step 2 of 3: merge the change together with this");
    moving.publish(true, Some(&run.patch(2)));
    run.wait_for(
        "step 3 of 3: commit this to the branch that is deployed: it takes back what the steps before have changed",
    );
    moving.publish(true, None);
    let (code, said) = run.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.ends_with("the change is merged, and 6 objects kept; nothing is left over\n"), "{said}");
    assert_eq!(moving.uids(), first, "{said}");
}

#[test]
fn a_handover_that_is_interrupted_goes_on_with_what_is_left() {
    let cluster = cluster();
    let (before, after) = (layout(&[("old", &["stopped-a"])]), layout(&[("new", &["stopped-a"])]));
    let moving = Move::new(&cluster, "handover-stopped", &before, &after);
    let first = moving.uids();
    let mut run = moving.apply();
    run.wait_for("to have the files of this step");
    let patch = run.patch(1);
    moving.publish(false, Some(&patch));
    run.wait_for("step 2 of 2: merge the change");
    run.wait_for("is the commit before it");
    run.interrupt();
    let (code, said) = run.end();
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("step 2 of 2: interrupted while waiting for gitrepository"), "{said}");
    assert!(said.contains("1 step before it done"), "{said}");
    let change = moving.git(&["rev-parse", "feature"]);
    let (tree, kustomize) = (moving.tree.path().display(), bin("kustomize"));
    let goes_on = format!(
        "`kubectl gitops handover --to {} --repo {tree} --kustomize {} --apply` goes on with what is left",
        change.trim(),
        kustomize.display()
    );
    assert!(said.contains(&goes_on), "{said}");
    assert_eq!(moving.uids(), first, "nothing but the first step happened");

    let mut run = moving.apply();
    run.wait_for("step 1 of 1: merge the change");
    moving.publish(true, None);
    let (code, said) = run.end();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(moving.uids(), first, "{said}");
}

#[test]
fn a_change_that_is_merged_as_its_note_says_keeps_every_uid() {
    let cluster = cluster();
    let (before, after) = (layout(&[("old", &["merged-a"])]), layout(&[("new", &["merged-a"])]));
    let moving = Move::new(&cluster, "handover-merged", &before, &after);
    let first = moving.uids();
    let shown = moving.run(&[]);
    let note =
        "Note: a merge of Git would keep what step 1 set in root/old.yaml: before it, run `git merge -s ours main`";
    assert!(shown.stdout.contains(note), "{shown:?}");
    let mut run = moving.apply();
    run.wait_for("to have the files of this step");
    moving.publish(false, Some(&run.patch(1)));
    run.wait_for("step 2 of 2: merge the change");
    moving.git(&["checkout", "-q", "feature"]);
    moving.git(&["merge", "-q", "-s", "ours", "main"]);
    let again = moving.run(&[]);
    assert!(again.code == 0 && !again.stderr.contains("warning: "), "the first step is no loss: {again:?}");
    moving.git(&["checkout", "-q", "main"]);
    moving.git(&["merge", "-q", "feature"]);
    moving.publish(false, None);
    let (code, said) = run.end();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(moving.uids(), first, "{said}");
}

#[test]
fn a_handover_on_a_cluster_that_moved_on_stops() {
    let cluster = cluster();
    let before = layout(&[("old", &["late-a"]), ("other", &["late-x", "late-y"])]);
    let after = layout(&[("new", &["late-a"]), ("other", &["late-x"])]);
    let moving = Move::new(&cluster, "handover-late", &before, &after);
    let mut run = moving.apply();
    run.wait_for("to have the files of this step");
    let suspend = r#"{"spec": {"suspend": true}}"#;
    let kubectl = |words: &[&str]| cluster.kubectl(&[words, &["-n", "handover-late"]].concat()).unwrap();
    kubectl(&["patch", "kustomization/other", "--type=merge", "--field-manager=someone", "-p", suspend]);
    kubectl(&["delete", "configmap/late-y"]);
    moving.publish(false, Some(&run.patch(1)));
    let (code, said) = run.end();
    assert_eq!(code, Some(6), "{said}");
    let refusal = "step 2 no longer holds, because the cluster has changed: it no longer deletes configmap/late-y";
    assert!(said.contains(refusal), "{said}");

    let mut run = moving.apply();
    run.wait_for("step 1 of 1: merge the change");
    kubectl(&["delete", "configmap/late-a"]);
    moving.publish(true, None);
    let (code, said) = run.end();
    assert_eq!(code, Some(1), "{said}");
    let lost = "after the last step, these are not the objects that they were: configmap/late-a -n handover-late";
    assert!(said.contains(lost), "{said}");
}

/// Number of random moves; `HANDOVER_CASES` in the environment sets another one.
const CASES: u64 = 6;

#[test]
#[expect(clippy::print_stdout, reason = "the figures are the result")]
fn random_moves_keep_every_uid() {
    let cases = number("HANDOVER_CASES", CASES);
    let mut steps = vec![];
    for case in 0..cases {
        let mut random = Random::new(number("HANDOVER_SEED", 0) + case);
        let mut random_layout = |owners: &[&str]| {
            let mut layout: Layout =
                owners.iter().map(|owner| ((*owner).to_owned(), vec![format!("own-{owner}")])).collect();
            for object in ["a", "b", "c", "d"] {
                let at = random.below(owners.len());
                layout.get_mut(owners[at]).unwrap().push(object.to_owned());
            }
            layout
        };
        let before = random_layout(&["one", "two"]);
        let after =
            random_layout([&["one", "two"][..], &["one", "three"], &["three", "four"], &["one"]][case as usize % 4]);
        steps.push(play(&format!("handover-{case}"), &before, &after));
    }
    steps.sort_unstable();
    println!("{cases} random moves, {} steps in the median", steps[steps.len() / 2]);
}
