//! Changes of the variables of a Kustomization.

use super::*;
use crate::plan::{Certainty, Change};

fn vars(value: &str) -> Value {
    let mut manifest = cm("vars");
    manifest["data"]["v"] = value.into();
    manifest
}

fn from() -> Value {
    json!({"postBuild": {"substituteFrom": [{"kind": "ConfigMap", "name": "vars"}]}})
}

fn repository(value: &str) -> Files {
    vec![
        ("root/a.yaml", vec![vars(value)]),
        ("root/k.yaml", vec![ks("k", "./p", from())]),
        ("p/a.yaml", vec![cm("a-${v}"), cm("b")]),
    ]
}

/// Returns the names of the objects that are created, with `?` for a race.
fn creations(cluster: &TestCluster, files: &Files) -> BTreeSet<String> {
    let plan = cluster.plan(files);
    let created = plan.changes().iter().filter(|change| change.action == Action::Create);
    let race = |change: &Change| if change.certainty == Certainty::Race { "?" } else { "" };
    created.map(|change| format!("{}{}", change.object.id.name, race(change))).collect()
}

#[test]
fn a_changed_value_renames_an_object_that_is_named_after_it() {
    let (before, after) = (repository("x"), repository("y"));
    assert_eq!(rows(&before, &after), set(&["delete a-x"]));
    assert_eq!(creations(&TestCluster::new(&before), &after), set(&["a-y"]));
}

#[test]
fn an_object_that_only_the_old_value_builds_is_a_race() {
    let mut after = repository("y");
    after[2] = ("p/a.yaml", vec![cm("a-${v}"), annotated(cm("c-${v}"), "prune", "disabled")]);
    // `c-x` may be created for a while, and then stays because it is protected.
    let plan = TestCluster::new(&repository("x")).plan(&after);
    let row = plan.changes().iter().find(|change| &*change.object.id.name == "c-x").unwrap();
    assert_eq!(row.certainty, crate::plan::Certainty::Race);
    // A dependant of the new value builds only with it, unless an expression lets it go on at once.
    let created = |dependency: Value| {
        let waiting = json!({"dependsOn": [dependency], "postBuild": from()["postBuild"]});
        let files = |value: &str, more: Vec<Value>| {
            vec![
                ("root/k.yaml", vec![ks("v", "./v", json!({})), ks("k", "./p", waiting.clone())]),
                ("v/v.yaml", vec![vars(value)]),
                ("p/a.yaml", more),
            ]
        };
        let after = files("y", vec![cm("a-${v}"), annotated(cm("c-${v}"), "prune", "disabled")]);
        creations(&TestCluster::new(&files("x", vec![cm("a-${v}"), cm("b")])), &after)
    };
    assert_eq!(created(json!({"name": "v"})), set(&["a-y", "c-y"]));
    assert_eq!(created(json!({"name": "v", "readyExpr": "dep.spec.prune == true"})), set(&["a-y", "c-x?", "c-y"]));
}

#[test]
fn a_value_that_its_owner_changes_before_it_is_blocked_counts() {
    let files = |value: &str, owner: Value| {
        vec![
            ("root/k.yaml", vec![ks("v", "./v", owner), ks("k", "./p", from())]),
            ("v/v.yaml", vec![vars(value)]),
            ("p/a.yaml", vec![cm("a-${v}"), cm("b")]),
        ]
    };
    let mut cluster = TestCluster::new(&files("x", json!({})));
    let blocked = files("y", json!({"path": "./none"}));
    assert_eq!(cluster.rows(&blocked), set(&["delete a-x"]));
    assert_eq!(creations(&cluster, &blocked), set(&["a-y"]));
    // It may be blocked before that while the workers are busy.
    cluster.workers = 1;
    assert_eq!(cluster.rows(&blocked), set(&["delete? a-x"]));
    assert_eq!(creations(&cluster, &blocked), set(&["a-y?"]));
}

#[test]
fn the_old_spec_and_the_new_value_may_come_in_any_order() {
    let files = |value: &str, interval: &str, names: Vec<Value>| {
        let user = ks("k", "./p", json!({"interval": interval, "postBuild": from()["postBuild"]}));
        vec![
            ("root/k.yaml", vec![ks("v", "./v", json!({})), user]),
            ("v/v.yaml", vec![vars(value)]),
            ("p/a.yaml", names),
        ]
    };
    let cluster = TestCluster::new(&files("x", "1m", vec![cm("a-${v}"), cm("b")]));
    let after = files("y", "2m", vec![cm("a-${v}"), annotated(cm("c-${v}"), "prune", "disabled")]);
    assert_eq!(creations(&cluster, &after), set(&["a-y", "c-x?", "c-y"]));
    assert_eq!(cluster.rows(&after), set(&["delete a-x", "delete b"]));
}

#[test]
fn variables_and_their_user_may_be_created_together() {
    let before = vec![("root/x.yaml", vec![cm("x")])];
    let after = [repository("x"), before.clone()].concat();
    assert_eq!(creations(&TestCluster::new(&before), &after), set(&["vars", "k", "a-x", "b"]));
}

#[test]
fn deleted_variables_block_their_user() {
    let mut after = repository("x");
    after[0] = ("root/a.yaml", vec![cm("x")]);
    after[2] = ("p/a.yaml", vec![cm("a-${v}")]);
    let cluster = TestCluster::new(&repository("x"));
    // A run with the old value may still come first.
    assert_eq!(cluster.rows(&after), set(&["delete vars", "delete? b"]));
    assert_eq!(cluster.outcome(&after, "k"), "Blocked: build-failed: substituteFrom ConfigMap/vars does not exist");
}

#[test]
fn the_old_spec_may_be_reconciled_with_new_variables() {
    let mut after = repository("y");
    after[1] = ("root/k.yaml", vec![ks("k", "./p", json!({}))]);
    // Without variables the name is refused, so nothing more is pruned; an earlier build is a race.
    let cluster = TestCluster::new(&repository("x"));
    assert_eq!(cluster.rows(&after), set(&["delete? a-x"]));
    let plan = cluster.plan(&after);
    let created = plan.changes().iter().find(|change| &*change.object.id.name == "a-y").unwrap();
    assert_eq!((created.action, created.certainty), (Action::Create, crate::plan::Certainty::Race));
}

#[test]
fn a_kustomization_that_applies_its_own_variables_builds_twice() {
    let files = |value: &str, names: Vec<Value>| {
        vec![("root/k.yaml", vec![ks("k", "./p", from())]), ("p/v.yaml", vec![vars(value)]), ("p/a.yaml", names)]
    };
    let mut cluster = TestCluster::new(&vec![("root/k.yaml", vec![ks("k", "./p", from())])]);
    for manifest in [vars("x"), cm("a-x")] {
        let id = cluster.add(&manifest, Some("k"));
        let entry = json!({"id": crate::ownership::schemes::inventory_id::format(&id), "v": "v1"});
        let status = &mut cluster.kustomization("k").content["status"]["inventory"]["entries"];
        status.as_array_mut().unwrap().push(entry);
    }
    cluster.snapshot.normalise();
    assert_eq!(cluster.rows(&files("y", vec![cm("a-${v}")])), set(&["delete a-x"]));
    assert_eq!(creations(&cluster, &files("y", vec![cm("a-${v}")])), set(&["a-y"]));
}

#[test]
fn the_tree_may_hold_values_that_a_snapshot_does_not() {
    let mut cluster = TestCluster::new(&repository("x"));
    cluster.data.clear();
    assert_eq!(cluster.rows(&repository("x")), set(&[]));
}
