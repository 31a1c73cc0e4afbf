//! Rules of the preview on small repositories without any program: joining files stands for kustomize.
//!
//! The same cases, and many more, are compared with the real controller by `cargo xtask oracle`.

mod after;
mod by_hand;
mod changed_rules;
mod classes;
mod conditions;
mod contested_services;
mod controller_flags;
mod deleted_containers;
mod dependents;
mod encrypted;
mod finalizers;
mod generators;
mod image_automation;
mod instances;
mod live_changes;
mod many_owners;
mod owner_doubts;
mod owner_health;
mod owner_quotas;
mod premises;
mod references;
mod refusals;
mod refused_cascades;
mod release_actions;
mod release_charts;
mod release_records;
mod releases;
mod repositories;
mod resource_sets;
mod runs;
mod scaling;
mod secrets;
mod shared_objects;
mod spokes;
mod standing_failures;
mod suspended_owners;
mod unfollowed;
mod unknown_builds;
mod unread_types;
mod upgrades;
mod variables;
mod volumes;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::testing::{answerer, cluster};
use super::*;
use crate::flux::kustomize_controller::Features;
use crate::kubernetes::object::ManagedFieldsEntry;
use crate::ownership::index::Index;
use crate::ownership::schemes::flux_kustomization::{NAME, NAMESPACE};
use crate::plan::filter::restrict_to_owners;
use crate::plan::{Action, Certainty};
use cluster::{Files, NS, TestCluster, annotated, cluster_scoped, cm, in_namespace, ks, rows, set};

fn one_child(more: Value) -> Files {
    vec![
        ("root/k.yaml", vec![ks("k", "./p", more)]),
        ("p/a.yaml", vec![cm("a"), cm("b")]),
        ("root/x.yaml", vec![cm("x")]),
    ]
}

#[test]
fn an_object_that_leaves_the_build_is_deleted_unless_its_live_metadata_protects_it() {
    let before = vec![("root/a.yaml", vec![cm("a"), annotated(cm("b"), "prune", "Disabled"), cm("c")])];
    let after = vec![("root/a.yaml", vec![cm("c")])];
    assert_eq!(rows(&before, &after), set(&["delete a", "keep b"]));
    // Protection that is only in git, in the commit that removes the object, protects nothing.
    let mut cluster = TestCluster::new(&before);
    cluster.object("b").annotations = Default::default();
    assert_eq!(cluster.rows(&after), set(&["delete a", "delete b"]));
}

#[test]
fn ignore_protects_from_1_8_5_on() {
    let before = vec![("root/a.yaml", vec![annotated(cm("a"), "ssa", "Ignore"), cm("c")])];
    let after = vec![("root/a.yaml", vec![cm("c")])];
    let mut cluster = TestCluster::new(&before);
    assert_eq!(cluster.rows(&after), set(&["keep a"]));
    cluster.features = Features::of((1, 6, 0));
    assert_eq!(cluster.rows(&after), set(&["delete a"]));
}

#[test]
fn an_object_with_foreign_labels_is_not_pruned() {
    let before = vec![("root/a.yaml", vec![cm("a"), cm("c")])];
    let mut cluster = TestCluster::new(&before);
    cluster.object("a").labels = [(NAME, "other"), (NAMESPACE, NS)].into_iter().collect();
    assert_eq!(cluster.rows(&vec![("root/a.yaml", vec![cm("c")])]), set(&["keep a"]));
}

#[test]
fn a_removed_child_is_finalized_by_its_live_spec() {
    let cases = [
        (json!({}), "delete"),
        (json!({"suspend": true}), "keep"),
        (json!({"prune": false}), "keep"),
        (json!({"prune": false, "deletionPolicy": "Delete"}), "delete"),
        (json!({"deletionPolicy": "Orphan"}), "keep"),
    ];
    for (spec, action) in cases {
        let expected: Vec<String> = ["a", "b"].iter().map(|name| format!("{action} {name}")).collect();
        let mut expected: BTreeSet<String> = expected.into_iter().collect();
        expected.insert("delete k".to_owned());
        // Removing its directory too changes nothing.
        let after = vec![("root/x.yaml", vec![cm("x")])];
        assert_eq!(rows(&one_child(spec.clone()), &after), expected, "{spec}");
    }
}

#[test]
fn a_child_may_be_removed_before_it_reconciles_the_new_revision() {
    let before = |spec: Value, object: Value| {
        vec![("root/k.yaml", vec![ks("k", "./p", spec)]), ("root/x.yaml", vec![cm("x")]), ("p/a.yaml", vec![object])]
    };
    let after = |objects: Vec<Value>| vec![("root/x.yaml", vec![cm("x")]), ("p/a.yaml", objects)];
    let protected = || annotated(cm("a"), "prune", "disabled");
    let orphan = || json!({"deletionPolicy": "Orphan"});
    let cases = [
        // Its reconciliation deletes what its finalizer leaves behind.
        (before(orphan(), cm("a")), after(vec![]), "delete? a"),
        (before(json!({}), cm("a")), after(vec![]), "delete a"),
        // Its reconciliation removes or adds the protection.
        (before(json!({}), protected()), after(vec![cm("a")]), "delete? a"),
        (before(json!({}), cm("a")), after(vec![protected()]), "delete? a"),
        (before(json!({}), protected()), after(vec![protected()]), "keep a"),
    ];
    for (number, (before, after, expected)) in cases.into_iter().enumerate() {
        assert_eq!(rows(&before, &after), set(&["delete k", expected]), "{number}");
    }
    let plan = TestCluster::new(&before(orphan(), cm("a"))).plan(&after(vec![]));
    let row = plan.changes().iter().find(|change| &*change.object.id.name == "a").unwrap();
    assert!(row.reason.text().contains("reconciles the new revision before it is deleted"), "{}", row.reason);
}

#[test]
fn a_spec_that_another_parent_changes_before_or_after_the_deletion_decides_about_its_objects() {
    let files = |parent: &str, policy: Value| -> Files {
        let manifest = ks(parent, "./p", json!({}));
        vec![("root/k.yaml", vec![manifest]), ("p/g.yaml", vec![ks("g", "./q", policy)]), ("q/a.yaml", vec![cm("a")])]
    };
    let orphan = || json!({"deletionPolicy": "Orphan"});
    // The new name may come before or after the old one.
    let renamed = |before: Value, after: Value, name: &str| {
        let plan = TestCluster::new(&files("k", before)).plan(&files(name, after));
        let row = plan.changes().iter().find(|change| &*change.object.id.name == "a").cloned();
        row.map(|row| (row.action, row.certainty == Certainty::Race, row.reason.to_string()))
    };
    let kept = renamed(orphan(), orphan(), "other");
    assert!(matches!(kept, Some((Action::Keep, false, _)) | None), "{kept:?}");
    for name in ["other", "b"] {
        for (before, after, why) in [(orphan(), json!({}), "until"), (json!({}), orphan(), "after")] {
            let (action, is_race, reason) = renamed(before, after, name).expect("the object has a row");
            assert!(action == Action::Recreate && is_race, "{action:?} {reason}");
            let why = format!("it has deletionPolicy: Orphan {why} its spec changes");
            assert!(reason.contains(&why), "{reason}");
        }
    }
}

#[test]
fn a_spec_that_certainly_changes_before_the_deletion_decides_about_its_objects() {
    let files = |spec: Value, namespace: bool| -> Files {
        let mut spec = spec;
        spec["sourceRef"] = json!({"kind": "GitRepository", "name": "repo", "namespace": NS});
        let child = in_namespace(ks("g", "./q", spec), "team");
        let last = if namespace { cluster_scoped("Namespace", "team") } else { cm("x") };
        vec![
            ("root/k.yaml", vec![ks("k", "./p", json!({"dependsOn": [{"name": "root"}]})), child]),
            ("p/n.yaml", vec![last, cm("y")]),
            ("q/a.yaml", vec![cm("a")]),
        ]
    };
    let policies = [(json!({"deletionPolicy": "Orphan"}), json!({})), (json!({}), json!({"deletionPolicy": "Orphan"}))];
    for ((before, after), action) in policies.into_iter().zip(["delete a", "keep a"]) {
        let rows = TestCluster::new(&files(before, true)).rows(&files(after, false));
        assert!(rows.contains(action), "{rows:?}");
    }
}

#[test]
fn a_deletion_reaches_grandchildren_and_stops_at_a_suspended_one() {
    let before = |suspend: bool| {
        vec![
            ("root/k.yaml", vec![ks("k", "./p", json!({}))]),
            ("root/x.yaml", vec![cm("x")]),
            ("p/g.yaml", vec![ks("g", "./q", json!({"suspend": suspend})), cm("a")]),
            ("q/b.yaml", vec![cm("b")]),
        ]
    };
    let after = vec![("root/x.yaml", vec![cm("x")])];
    assert_eq!(rows(&before(false), &after), set(&["delete k", "delete g", "delete a", "delete b"]));
    assert_eq!(rows(&before(true), &after), set(&["delete k", "delete g", "delete a", "keep b"]));
}

#[test]
fn a_missing_path_or_a_failed_build_blocks_the_kustomization() {
    let mut after = one_child(json!({}));
    after.remove(1);
    assert_eq!(rows(&one_child(json!({})), &after), set(&[]));
    let cluster = TestCluster::new(&one_child(json!({})));
    assert_eq!(cluster.outcome(&after, "k"), "Blocked: path-not-found: path \"p\" is not in the artifact");
    after.push(("p/b.yaml", vec![cm("broken")]));
    assert_eq!(cluster.rows(&after), set(&[]));
    assert!(cluster.outcome(&after, "k").contains("broken manifest"));
}

#[test]
fn a_path_without_manifests_prunes_everything() {
    let mut after = one_child(json!({}));
    after[1] = ("p/README.md", vec![]);
    assert_eq!(rows(&one_child(json!({})), &after), set(&["delete a", "delete b"]));
    let plan = TestCluster::new(&one_child(json!({}))).plan(&after);
    assert!(
        plan.changes()
            .iter()
            .all(|change| change.reason.to_string() == "not-in-build: its path ./p contains no manifests")
    );
}

#[test]
fn the_new_revision_is_reconciled_with_the_old_spec_first() {
    let before = vec![
        ("root/k.yaml", vec![ks("k", "./p", json!({}))]),
        ("p/a.yaml", vec![cm("a"), cm("b")]),
        ("q/z.yaml", vec![cm("z")]),
    ];
    let stays = vec![
        ("root/k.yaml", vec![ks("k", "./q", json!({}))]),
        ("p/a.yaml", vec![cm("b")]),
        ("q/z.yaml", vec![cm("a"), cm("b")]),
    ];
    assert_eq!(rows(&before, &stays), set(&["recreate a"]));
    // Without the old directory the old spec cannot build, so nothing is pruned in between.
    let gone = vec![stays[0].clone(), ("q/z.yaml", vec![cm("a"), cm("b")])];
    assert_eq!(rows(&before, &gone), set(&[]));
    // With more Kustomizations than workers the parent may be faster.
    let mut cluster = TestCluster::new(&before);
    cluster.workers = 1;
    assert_eq!(cluster.rows(&stays), set(&["recreate? a"]));
    // A Kustomization that waits for health in vain takes a worker away.
    let mut cluster = TestCluster::new(&before);
    cluster.workers = 2;
    let other = ks("slow", "./slow", json!({"wait": true, "sourceRef": {"kind": "GitRepository", "name": "other"}}));
    cluster.apply(&other, None, &cluster::artifact(&vec![("slow/s.yaml", vec![cm("s")])]));
    assert_eq!(cluster.rows(&stays), set(&["recreate a"]));
    cluster.kustomization("slow").content["status"]["conditions"] =
        json!([{"type": "Ready", "status": "False", "reason": "HealthCheckFailed"}]);
    assert_eq!(cluster.rows(&stays), set(&["recreate? a"]));
}

#[test]
fn an_object_that_only_the_last_spec_builds_is_created_for_certain() {
    let mut after = one_child(json!({"namePrefix": "new-"}));
    after[1] = ("p/a.yaml", vec![cm("new-a")]);
    let mut cluster = TestCluster::new(&one_child(json!({"prune": false})));
    cluster.workers = 1;
    let plan = cluster.plan(&after);
    let created: Vec<_> = plan.changes().iter().filter(|change| change.action == Action::Create).collect();
    assert!(created.iter().all(|change| change.certainty == Certainty::Certain), "{created:?}");
    assert_eq!(created.len(), 1);
}

/// Returns the condition of the creation of a ConfigMap.
fn creation_race(before: &Files, after: &Files, name: &str) -> String {
    let plan = TestCluster::new(before).plan(after);
    let row = plan.changes().iter().find(|change| &*change.object.id.name == name).unwrap();
    assert_eq!((row.action, row.certainty), (Action::Create, Certainty::Race));
    row.reason.to_string()
}

#[test]
fn what_a_deleted_child_creates_at_last_may_stay() {
    let parent = |name: &str, variable: &str| ks(name, "./p", json!({"postBuild": {"substitute": {"v": variable}}}));
    let before = vec![
        ("root/k.yaml", vec![parent("k", "old")]),
        ("p/c.yaml", vec![ks("c", "./q/${v}", json!({}))]),
        ("q/old/a.yaml", vec![cm("a")]),
        ("q/new/b.yaml", vec![cm("b")]),
    ];
    let mut after = before.clone();
    after[0].1 = vec![parent("renamed", "new")];
    after[2].1.push(cm("late"));
    // The renamed parent creates the child again, and does not change the one that is deleted.
    let reason = creation_race(&before, &after, "late");
    assert!(
        reason.contains("it stays if kustomization/c -n flux-system is deleted before its inventory lists it"),
        "{reason}"
    );
}

#[test]
fn what_only_the_old_spec_creates_may_stay() {
    let mut before = one_child(json!({}));
    before.push(("q/a.yaml", vec![cm("a"), cm("b")]));
    let mut after = before.clone();
    after[0].1 = vec![ks("k", "./q", json!({}))];
    after[1].1.push(cm("late"));
    let reason = creation_race(&before, &after, "late");
    assert!(
        reason.ends_with(
            "it stays if kustomization/k -n flux-system reconciles its new spec before its inventory lists it"
        ),
        "{reason}"
    );
}

#[test]
fn a_suspension_may_come_before_the_new_revision() {
    let before = vec![("root/k.yaml", vec![ks("k", "./p", json!({}))]), ("p/a.yaml", vec![cm("a"), cm("b")])];
    let after =
        vec![("root/k.yaml", vec![ks("k", "./p", json!({"suspend": true}))]), ("p/a.yaml", vec![cm("b"), cm("c")])];
    let plan = TestCluster::new(&before).plan(&after);
    for (name, action) in [("a", Action::Delete), ("c", Action::Create)] {
        let row = plan.changes().iter().find(|change| &*change.object.id.name == name).expect(name);
        assert_eq!((row.action, row.certainty), (action, Certainty::Race), "{name}");
        assert!(row.reason.text().contains("before it is suspended"), "{}", row.reason);
    }
}

#[test]
fn moves_are_races_unless_their_order_is_known() {
    let two = |a: Value, b: Value, in_a: Vec<Value>, in_b: Vec<Value>| {
        let children = vec![ks("a", "./a", a), ks("b", "./b", b)];
        vec![("root/k.yaml", children), ("a/a.yaml", in_a), ("b/b.yaml", in_b)]
    };
    let depends = |name: &str| json!({"dependsOn": [{"name": name}]});
    let moved = |a: Value, b: Value| {
        let before = two(a.clone(), b.clone(), vec![cm("x"), cm("m")], vec![cm("y")]);
        rows(&before, &two(a, b, vec![cm("x")], vec![cm("y"), cm("m")]))
    };
    assert_eq!(moved(json!({}), json!({})), set(&["recreate? m"]));
    assert_eq!(moved(depends("b"), json!({})), set(&["keep m"]));
    assert_eq!(moved(json!({}), depends("a")), set(&["recreate m"]));
}

#[test]
fn a_new_or_renamed_child_applies_only_after_the_deletion() {
    let before = vec![("root/a.yaml", vec![cm("a"), cm("x")])];
    let after = vec![("root/k.yaml", vec![ks("k", "./p", json!({})), cm("x")]), ("p/a.yaml", vec![cm("a")])];
    assert_eq!(rows(&before, &after), set(&["recreate a"]));
    let mut renamed = one_child(json!({}));
    renamed[0] = ("root/k.yaml", vec![ks("renamed", "./p", json!({}))]);
    assert_eq!(rows(&one_child(json!({})), &renamed), set(&["delete k", "recreate a", "recreate b"]));
}

#[test]
fn a_suspended_parent_changes_no_spec_but_its_child_follows_the_revision() {
    let mut cluster = TestCluster::new(&one_child(json!({})));
    cluster.kustomization("root").content["spec"]["suspend"] = true.into();
    let after =
        vec![("root/k.yaml", vec![ks("k", "./q", json!({}))]), ("p/a.yaml", vec![cm("b")]), ("q/z.yaml", vec![])];
    assert_eq!(cluster.rows(&after), set(&["delete a"]));
}

#[test]
fn a_parent_undoes_a_suspension_by_kubectl_but_not_by_flux() {
    let after = vec![
        ("root/k.yaml", vec![ks("k", "./p", json!({}))]),
        ("p/a.yaml", vec![cm("b")]),
        ("root/x.yaml", vec![cm("x")]),
    ];
    for (manager, expected) in [("flux", set(&[])), ("kubectl-patch", set(&["delete a"]))] {
        let mut cluster = TestCluster::new(&one_child(json!({})));
        let full = cluster.kustomization("k");
        full.content["spec"]["suspend"] = true.into();
        full.object.managed_fields =
            vec![ManagedFieldsEntry { manager: manager.into(), suspend: true, ..Default::default() }];
        assert_eq!(cluster.rows(&after), expected, "{manager}");
    }
}

#[test]
fn a_deleted_dependency_blocks_its_dependant() {
    let before = vec![
        ("root/d.yaml", vec![ks("d", "./d", json!({}))]),
        ("root/k.yaml", vec![ks("k", "./p", json!({"dependsOn": [{"name": "d"}]}))]),
        ("d/x.yaml", vec![cm("x")]),
        ("p/a.yaml", vec![cm("a"), cm("b")]),
    ];
    let after = vec![before[1].clone(), ("p/a.yaml", vec![cm("b")])];
    assert_eq!(rows(&before, &after), set(&["delete d", "delete x"]));
    assert!(
        TestCluster::new(&before)
            .outcome(&after, "k")
            .starts_with("Blocked: dependency-deleted: it depends on kustomization/d")
    );
}

#[test]
fn a_deleted_namespace_deletes_its_content_and_a_kustomization_in_it_prunes_other_namespaces() {
    let mut child = ks("k", "./p", json!({"sourceRef": {"kind": "GitRepository", "name": "repo", "namespace": NS}}));
    child["metadata"]["namespace"] = "team".into();
    let before = vec![
        ("root/ns.yaml", vec![cluster_scoped("Namespace", "team")]),
        ("root/k.yaml", vec![child]),
        ("root/x.yaml", vec![cm("x")]),
        ("p/a.yaml", vec![in_namespace(cm("in"), "team"), cm("out")]),
    ];
    let mut cluster = TestCluster::new(&before);
    // The test cluster labels with its own namespace, the controller with the Kustomization's.
    for name in ["in", "out"] {
        cluster.object(name).labels = [(NAME, "k"), (NAMESPACE, "team")].into_iter().collect();
    }
    let after = vec![("root/x.yaml", vec![cm("x")])];
    assert_eq!(cluster.rows(&after), set(&["delete team", "delete k", "delete in", "delete out"]));
    // Only the namespace leaves git: its content cannot be created again.
    let after = vec![before[1].clone(), before[2].clone(), before[3].clone()];
    assert_eq!(cluster.rows(&after), set(&["delete team", "delete k", "delete in", "delete out"]));
}

#[test]
fn cluster_roles_with_two_underscores_are_left_behind() {
    let roles = vec![cluster_scoped("ClusterRole", "a:b"), cluster_scoped("ClusterRole", "a__c")];
    let before = vec![("root/a.yaml", roles), ("root/x.yaml", vec![cm("x")])];
    assert_eq!(rows(&before, &vec![("root/x.yaml", vec![cm("x")])]), set(&["delete a:b", "keep a__c"]));
}

#[test]
fn a_failed_apply_creates_its_first_stage_and_prunes_nothing() {
    let mut after = one_child(json!({}));
    after[1] = ("p/a.yaml", vec![cm("b"), in_namespace(cm("c"), "nowhere"), cluster_scoped("ClusterRole", "early")]);
    let cluster = TestCluster::new(&one_child(json!({})));
    // An object that left the build has a row, although it stays for now.
    assert_eq!(cluster.rows(&after), set(&["keep a"]));
    assert_eq!(cluster.outcome(&after, "k"), "Blocked: apply-refused: namespace nowhere does not exist");
    let plan = cluster.plan(&after);
    let changes = plan.changes();
    let created = changes.iter().filter(|change| change.action == Action::Create);
    assert_eq!(created.map(|change| change.object.id.name.to_string()).collect::<Vec<_>>(), ["early"]);
}

#[test]
fn a_finalizer_without_its_service_account_leaves_the_objects_behind() {
    let before = one_child(json!({"serviceAccountName": "s"}));
    let after = vec![("root/x.yaml", vec![cm("x")])];
    assert_eq!(rows(&before, &after), set(&["delete k", "keep a", "keep b"]));
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s", "namespace": NS}});
    let with = vec![before[0].clone(), before[1].clone(), ("root/x.yaml", vec![cm("x"), account])];
    assert_eq!(rows(&with, &after), set(&["delete k", "delete s", "delete? a", "delete? b"]));
}

#[test]
fn a_finalizer_asks_for_its_service_account_before_its_kubeconfig() {
    let after = vec![("root/x.yaml", vec![cm("x")])];
    let outcome = |account: &str| {
        let spec = json!({"serviceAccountName": account, "kubeConfig": {"secretRef": {"name": "gone"}}});
        let mut cluster = TestCluster::new(&one_child(spec));
        cluster.add(
            &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s", "namespace": NS}}),
            None,
        );
        cluster.snapshot.normalise();
        cluster.outcome(&after, "k")
    };
    let (missing, existing) = (outcome("missing"), outcome("s"));
    assert!(missing.contains("needs serviceaccount/missing"), "{missing}");
    assert!(existing.contains("it stays Terminating until"), "{existing}");
}

#[test]
fn a_pinned_source_changes_nothing() {
    let mut cluster = TestCluster::new(&one_child(json!({})));
    cluster.pinned = true;
    assert_eq!(cluster.rows(&vec![]), set(&[]));
    assert!(cluster.outcome(&vec![], "root").contains("not deployed from this ref but from tag v1"));
}

#[test]
fn the_objects_of_a_remote_kustomization_are_not_in_this_cluster() {
    let before = one_child(json!({"kubeConfig": {"secretRef": {"name": "c"}}}));
    let after = vec![("root/x.yaml", vec![cm("x")])];
    assert_eq!(rows(&before, &after), set(&["delete k"]));
}

#[test]
fn a_self_managed_root_that_leaves_git_deletes_everything() {
    let root = || ks("root", "./root", json!({}));
    let before = vec![
        ("root/self.yaml", vec![root()]),
        ("root/a.yaml", vec![cm("a"), ks("k", "./p", json!({}))]),
        ("p/b.yaml", vec![cm("b")]),
    ];
    let mut cluster = TestCluster::new(&before);
    for object in cluster.snapshot.objects.iter_mut().filter(|object| &*object.id.name == "root") {
        object.labels = [(NAME, "root"), (NAMESPACE, NS)].into_iter().collect();
    }
    cluster.snapshot.normalise();
    assert_eq!(cluster.rows(&before[1..].to_vec()), set(&["delete root", "delete a", "delete k", "delete b"]));
}

#[test]
fn an_object_dropped_without_prune_stays_and_enabling_prune_in_the_same_commit_is_a_race() {
    let before = one_child(json!({"prune": false}));
    let mut after = one_child(json!({"prune": false}));
    after[1] = ("p/a.yaml", vec![cm("b")]);
    assert_eq!(rows(&before, &after), set(&["keep a"]));
    after[0] = ("root/k.yaml", vec![ks("k", "./p", json!({}))]);
    assert_eq!(rows(&before, &after), set(&["delete? a"]));
}

#[test]
fn two_previews_of_one_cluster_are_equal() {
    let after = vec![("root/x.yaml", vec![cm("x")])];
    let cluster = TestCluster::new(&one_child(json!({})));
    let text = || serde_json::to_string(&cluster.plan(&after)).unwrap();
    assert_eq!(text(), text());
}

#[test]
fn a_child_applied_by_a_parent_that_is_deleted_is_a_race_with_everything_it_creates() {
    let before = one_child(json!({}));
    let guarded = annotated(cm("guarded"), "prune", "disabled");
    let after = vec![
        ("root/x.yaml", vec![cm("x")]),
        ("p/c.yaml", vec![ks("c", "./q", json!({}))]),
        ("q/d.yaml", vec![guarded, cm("plain")]),
    ];
    let plan = TestCluster::new(&before).plan(&after);
    let created = plan.changes().iter().filter(|change| change.action == Action::Create);
    let created: Vec<_> = created.map(|change| (&*change.object.id.name, change.certainty)).collect();
    // Its parent's finalizer may also read an inventory that does not list it yet: then it stays.
    let race = crate::plan::Certainty::Race;
    assert_eq!(created, [("guarded", race), ("plain", race), ("c", race)]);
    assert!(plan.owners().iter().all(|row| row.owner.name != "c"), "{:?}", plan.owners());
}

#[test]
fn an_object_of_two_kustomizations_is_contested_unless_one_of_them_ignores_it() {
    let files = |shared: Value| {
        vec![
            ("root/k.yaml", vec![ks("a", "./a", json!({})), ks("b", "./b", json!({}))]),
            ("a/a.yaml", vec![cm("a"), cm("m")]),
            ("b/b.yaml", vec![cm("b"), shared]),
        ]
    };
    let contested = |files: &Files| -> Vec<String> {
        let plan = TestCluster::new(files).plan(files);
        let line = |contested: &crate::plan::Contested| {
            let owners: Vec<_> = contested.owners.iter().map(|owner| owner.name.as_str()).collect();
            format!("{} by {}", contested.object.name, owners.join(","))
        };
        plan.contested().iter().map(line).collect()
    };
    assert_eq!(contested(&files(cm("m"))), ["m by a,b"]);
    assert!(contested(&files(annotated(cm("m"), "ssa", "Ignore"))).is_empty());
    assert!(contested(&files(cm("n"))).is_empty());
}

/// Returns true if all rows stay in a plan that is restricted to the root.
fn root_has_all_rows(cluster: &TestCluster, after: &Files) -> bool {
    let plan = cluster.plan(after);
    let mut restricted = plan.clone();
    restrict_to_owners(&mut restricted, &|owner| owner.name == "root", &Index::build(&cluster.snapshot));
    assert!(!plan.changes().is_empty());
    restricted == plan
}

#[test]
fn a_parent_has_the_children_that_it_creates_or_adopts_and_those_without_labels() {
    let with_child = one_child(json!({}));
    let without_child = vec![("root/x.yaml", vec![cm("x")])];
    assert!(root_has_all_rows(&TestCluster::new(&without_child), &with_child));
    let mut dropped = with_child.clone();
    dropped[1] = ("p/a.yaml", vec![cm("b")]);
    let mut unlabelled = TestCluster::new(&with_child);
    unlabelled.object("k").labels = Default::default();
    unlabelled.kustomization("k").object.labels = Default::default();
    assert!(root_has_all_rows(&unlabelled, &dropped));
    // The child is live and in no inventory.
    let entries = &mut unlabelled.kustomization("root").content["status"]["inventory"]["entries"];
    entries.as_array_mut().unwrap().retain(|entry| !entry["id"].as_str().unwrap().contains("_k_"));
    assert!(root_has_all_rows(&unlabelled, &dropped));
    // A child that is created and deleted by the same change.
    let transient =
        vec![without_child[0].clone(), ("p/c.yaml", vec![ks("c", "./q", json!({}))]), ("q/d.yaml", vec![cm("d")])];
    assert!(root_has_all_rows(&TestCluster::new(&with_child), &transient));
}
