//! The predicted state after a plan is the one in which the controllers leave the cluster, in everything that plans read.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::cluster::{Files, NS, TestCluster, annotated, cluster_scoped, cm, in_namespace, ks, set};
use super::releases;
use crate::flux::handover::{all_holds, losses, managed_from_roots, set_holds};
use crate::flux::simulation::questions::Progress;
use crate::flux::simulation::{Preview, PreviewInput, StateAfter};
use crate::kubernetes::object::{ObjectId, Resource};
use crate::kubernetes::snapshot::Snapshot;
use crate::plan::mask::SecretMask;

pub(super) fn after(cluster: &TestCluster, files: &Files) -> StateAfter {
    after_input(cluster, cluster.input(files))
}

fn after_input(cluster: &TestCluster, input: PreviewInput<'_>) -> StateAfter {
    let mut preview = Preview::new(input);
    cluster.finish(|answers| match preview.step(answers) {
        Progress::Done(finished) => Progress::Done(preview.after(&finished, answers, 1, "main@sha1:2")),
        Progress::Needs(needs) => Progress::Needs(needs),
    })
}

/// Returns what plans read of each object: its labels and annotations, and its spec and inventory.
fn read(snapshot: &Snapshot) -> BTreeMap<String, Value> {
    let object = |object: &crate::kubernetes::object::ObjectMetadata| {
        let content = snapshot.resource(&object.id).map(|full: &Resource| {
            let entries = full.at("/status/inventory/entries").and_then(Value::as_array).cloned().unwrap_or_default();
            let mut ids: Vec<String> = entries.iter().map(|entry| entry["id"].to_string()).collect();
            ids.sort();
            json!({"spec": full.spec(), "inventory": ids})
        });
        let read = json!({"labels": object.labels, "annotations": object.annotations, "content": content});
        (object.id.to_string(), read)
    };
    snapshot.objects.iter().map(object).collect()
}

/// Checks that the predicted state is that of a cluster with these files, and that a third tree has the same plan in both.
fn check(before: &Files, files: &Files, third: &Files) {
    let cluster = TestCluster::new(before);
    let StateAfter { snapshot, open, .. } = after(&cluster, files);
    assert_eq!(open, []);
    let expected = TestCluster::new(files);
    assert_eq!(read(&snapshot), read(&expected.snapshot));
    let predicted = TestCluster { snapshot, ..TestCluster::new(files) };
    assert_eq!(predicted.rows(third), expected.rows(third));
    assert_eq!(predicted.rows(before), expected.rows(before));
}

#[test]
fn created_deleted_and_changed_objects_are_in_the_state_after() {
    let before = vec![
        ("root/k.yaml", vec![ks("k", "./p", json!({}))]),
        ("p/a.yaml", vec![cm("a"), cm("b"), annotated(cm("c"), "prune", "disabled")]),
    ];
    let after = vec![
        ("root/k.yaml", vec![ks("k", "./p", json!({"deletionPolicy": "Orphan"})), ks("l", "./q", json!({}))]),
        ("p/a.yaml", vec![cm("a"), annotated(cm("n"), "prune", "disabled"), annotated(cm("c"), "prune", "disabled")]),
        ("q/a.yaml", vec![cm("m"), cluster_scoped("Namespace", "shop"), in_namespace(cm("i"), "shop")]),
    ];
    let third =
        vec![("root/k.yaml", vec![ks("l", "./q", json!({"prune": false}))]), ("q/a.yaml", vec![cm("m"), cm("a")])];
    check(&before, &after, &third);
}

#[test]
fn a_deleted_owner_takes_its_objects_and_a_namespace_its_content() {
    let before = vec![
        ("root/k.yaml", vec![ks("k", "./p", json!({})), ks("l", "./q", json!({}))]),
        ("p/a.yaml", vec![cm("a"), cluster_scoped("Namespace", "shop")]),
        ("q/a.yaml", vec![in_namespace(cm("i"), "shop"), cm("x")]),
    ];
    let after = vec![("root/k.yaml", vec![ks("l", "./q", json!({}))]), ("q/a.yaml", vec![cm("x")])];
    check(&before, &after, &vec![("root/k.yaml", vec![cm("z")])]);
}

#[test]
fn what_owners_apply_to_a_namespace_that_is_deleted_by_hand_is_gone() {
    let files = vec![
        ("root/k.yaml", vec![ks("k", "./p", json!({}))]),
        ("p/a.yaml", vec![in_namespace(cm("i"), "shop"), cm("a")]),
    ];
    let mut cluster = TestCluster::new(&files);
    let shop = cluster.add(&cluster_scoped("Namespace", "shop"), None);
    cluster.snapshot.normalise();
    let input = PreviewInput { by_hand: BTreeSet::from([shop.clone()]), ..cluster.input(&files) };
    let StateAfter { snapshot, open, .. } = after_input(&cluster, input);
    assert_eq!(open, []);
    let inside = ObjectId::new("", "ConfigMap", "shop", "i");
    assert_eq!([shop, inside].map(|id| snapshot.object(&id).is_some()), [false, false]);
}

#[test]
fn a_rename_in_two_commits_keeps_the_objects() {
    let old = |more| vec![("root/k.yaml", vec![ks("k", "./p", more)]), ("p/a.yaml", vec![cm("a"), cm("b")])];
    let renamed = vec![("root/k.yaml", vec![ks("new", "./p", json!({}))]), ("p/a.yaml", vec![cm("a"), cm("b")])];
    let cluster = TestCluster::new(&old(json!({})));
    assert!(cluster.rows(&renamed).iter().any(|row| row.starts_with("recreate")), "in one commit they are lost");
    let StateAfter { snapshot, open, .. } = after(&cluster, &old(json!({"deletionPolicy": "Orphan"})));
    assert_eq!(open, []);
    let second = TestCluster { snapshot, ..TestCluster::new(&old(json!({}))) };
    assert_eq!(second.rows(&renamed), set(&["delete k", "keep a", "keep b"]));
    let StateAfter { snapshot, open, .. } = after(&second, &renamed);
    assert_eq!((open, read(&snapshot)), (vec![], read(&TestCluster::new(&renamed).snapshot)));
}

#[test]
fn an_object_that_is_created_again_has_nothing_of_the_old_one() {
    let tree = |name: &str| {
        let built = annotated(cm("a"), "ssa", "IfNotPresent");
        vec![("root/k.yaml", vec![ks(name, "./p", json!({}))]), ("p/a.yaml", vec![built, cm("b")])]
    };
    let mut cluster = TestCluster::new(&tree("k"));
    // The mark that somebody has set by hand is lost.
    for object in cluster.snapshot.objects.iter_mut().filter(|object| &*object.id.name == "b") {
        object.annotations = [("example.com/by-hand", "yes")].into_iter().collect();
    }
    let StateAfter { snapshot, open, .. } = after(&cluster, &tree("new"));
    assert_eq!(open, []);
    assert_eq!(read(&snapshot), read(&TestCluster::new(&tree("new")).snapshot));
    let second = TestCluster { snapshot, ..TestCluster::new(&tree("new")) };
    assert_eq!(
        second.rows(&tree("k")),
        cluster.rows(&tree("new")).iter().map(|row| row.replace(" k", " new")).collect()
    );
}

#[test]
fn a_race_stays_open() {
    let before = vec![
        ("root/k.yaml", vec![ks("k", "./p", json!({})), ks("l", "./q", json!({}))]),
        ("p/a.yaml", vec![cm("a")]),
        ("q/b.yaml", vec![cm("b")]),
    ];
    let moved = vec![
        ("root/k.yaml", vec![ks("k", "./p", json!({})), ks("l", "./q", json!({}))]),
        ("p/c.yaml", vec![cm("c")]),
        ("q/b.yaml", vec![cm("a"), cm("b")]),
    ];
    let StateAfter { open, snapshot, .. } = after(&TestCluster::new(&before), &moved);
    let open: Vec<String> = open.iter().map(|gap| format!("{}: {}", gap.subject, gap.message)).collect();
    assert_eq!(
        open,
        [
            "state of configmap/a -n flux-system after step 1: it is a race: it is deleted and created again, or it stays"
        ]
    );
    assert!(snapshot.objects.iter().any(|object| &*object.id.name == "a"));
}

#[test]
fn a_blocked_owner_keeps_its_inventory_and_its_revision() {
    let before = vec![("root/k.yaml", vec![ks("k", "./p", json!({}))]), ("p/a.yaml", vec![cm("a")])];
    let broken = vec![("root/k.yaml", vec![ks("k", "./nowhere", json!({}))]), ("p/a.yaml", vec![cm("a")])];
    let StateAfter { snapshot, open, .. } = after(&TestCluster::new(&before), &broken);
    let k = snapshot.resources.iter().find(|full| &*full.object.id.name == "k").unwrap();
    assert_eq!(
        (open.len(), k.text("/spec/path"), k.condition("Ready").unwrap().status),
        (0, Some("./nowhere"), "False")
    );
    assert_eq!(k.at("/status/inventory/entries/0/id"), Some(&json!("flux-system_a__ConfigMap")));
    assert_eq!(k.text("/status/lastAppliedRevision"), None);
}

#[test]
fn fields_of_other_managers_stay_and_dropped_marks_go() {
    let marked = vec![("root/a.yaml", vec![annotated(cm("a"), "prune", "disabled"), cm("b")])];
    let plain = vec![("root/a.yaml", vec![cm("a"), cm("b")])];
    let gone = vec![("root/a.yaml", vec![cm("b")])];
    let first = after(&TestCluster::new(&plain), &marked).snapshot;
    let first = TestCluster { snapshot: first, ..TestCluster::new(&marked) };
    assert_eq!(first.rows(&gone), set(&["keep a"]));
    let second = after(&first, &plain).snapshot;
    let second = TestCluster { snapshot: second, ..TestCluster::new(&plain) };
    assert_eq!(second.rows(&gone), set(&["delete a"]));
}

#[test]
fn a_release_that_is_suspended_first_gives_its_objects_to_a_kustomization() {
    let cluster = releases::installed(json!({}));
    let moved = vec![("root/x.yaml", vec![cm("x"), cm("web")])];
    assert!(cluster.rows(&moved).iter().any(|row| row.ends_with(" web")), "at once it is deleted");
    let StateAfter { snapshot, open, .. } = after(&cluster, &releases::tree(json!({"suspend": true})));
    assert_eq!(open, [], "a suspended release does nothing");
    let second = TestCluster { snapshot, ..releases::installed(json!({})) };
    let rows = second.rows(&moved);
    assert!(rows.contains("delete app") && !rows.iter().any(|row| row.starts_with("delete web")), "{rows:?}");
}

/// The old Kustomization deletes the namespace of the new one, unless it is held.
#[test]
fn a_kustomization_that_moves_into_its_own_namespace_wants_its_objects() {
    let files = |namespace: &str, more: Value| {
        let source = json!({"kind": "GitRepository", "name": "repo", "namespace": NS});
        let mut owner = in_namespace(ks("k", "./p", more), namespace);
        owner["spec"]["sourceRef"] = source;
        vec![
            ("root/k.yaml", vec![owner]),
            ("p/a.yaml", vec![cluster_scoped("Namespace", "shop"), in_namespace(cm("a"), "shop")]),
        ]
    };
    let (before, moved) = (files(NS, json!({})), files("shop", json!({})));
    let cluster = TestCluster::new(&before);
    let at_once = cluster.plan(&moved);
    let (secrets, last) = (SecretMask::default(), after(&cluster, &moved).snapshot);
    let lost = |wanted: &BTreeSet<ObjectId>| -> Vec<String> {
        losses([(&at_once, &secrets)], &last, wanted).iter().map(|loss| loss.object.name.to_string()).collect()
    };
    assert_eq!(lost(&BTreeSet::new()), [""; 0], "nothing manages them in the end");

    let holds = all_holds(&at_once, &cluster.snapshot);
    let held = holds.iter().map(|(id, hold)| format!("{} {}", id.name, hold.field())).collect::<Vec<_>>();
    assert_eq!(held, ["k deletionPolicy: Orphan", "root prune: false"]);
    let mut first = TestCluster::new(&before);
    set_holds(&holds, &mut first.snapshot);
    let wanted = managed_from_roots(&cluster.snapshot, &after(&first, &moved).snapshot);
    assert_eq!(lost(&wanted), ["a", "shop"]);
}
