//! Variables that the change itself changes.

use super::*;

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

fn creations(lab: &Lab, files: &Files) -> BTreeSet<String> {
    let plan = lab.plan(files);
    let created = plan.changes().iter().filter(|change| change.action == Action::Create);
    created.map(|change| change.object.id.name.to_string()).collect()
}

#[test]
fn a_value_that_changes_renames_what_is_named_by_it() {
    let (before, after) = (repository("x"), repository("y"));
    assert_eq!(rows(&before, &after), set(&["delete a-x"]));
    assert_eq!(creations(&Lab::new(&before), &after), set(&["a-y"]));
}

#[test]
fn what_only_a_build_with_the_old_value_wants_goes_again() {
    let mut after = repository("y");
    after[2] = ("p/a.yaml", vec![cm("a-${v}"), marked(cm("c-${v}"), "prune", "disabled")]);
    // Whether `c-x` was there for a while and stays, as it is guarded, nobody can know.
    let plan = Lab::new(&repository("x")).plan(&after);
    let row = plan.changes().iter().find(|change| &*change.object.id.name == "c-x").unwrap();
    assert_eq!(row.certainty, crate::plan::Certainty::Race);
    // Who waits for the new value builds with it only.
    let waiting = json!({"dependsOn": [{"name": "v"}], "postBuild": from()["postBuild"]});
    let files = |value: &str, more: Vec<Value>| {
        vec![
            ("root/k.yaml", vec![ks("v", "./v", json!({})), ks("k", "./p", waiting.clone())]),
            ("v/v.yaml", vec![vars(value)]),
            ("p/a.yaml", more),
        ]
    };
    let after = files("y", vec![cm("a-${v}"), marked(cm("c-${v}"), "prune", "disabled")]);
    let lab = Lab::new(&files("x", vec![cm("a-${v}")]));
    assert_eq!(creations(&lab, &after), set(&["a-y", "c-y"]));
}

#[test]
fn variables_and_their_user_may_come_together() {
    let before = vec![("root/x.yaml", vec![cm("x")])];
    let after = [repository("x"), before.clone()].concat();
    assert_eq!(creations(&Lab::new(&before), &after), set(&["vars", "k", "a-x", "b"]));
}

#[test]
fn variables_that_go_stop_their_user_for_good() {
    let mut after = repository("x");
    after[0] = ("root/a.yaml", vec![cm("x")]);
    after[2] = ("p/a.yaml", vec![cm("a-${v}")]);
    let lab = Lab::new(&repository("x"));
    // A run with the old value may still come first.
    assert_eq!(lab.rows(&after), set(&["delete vars", "delete? b"]));
    assert_eq!(lab.outcome(&after, "k"), "Blocked: build-failed: substituteFrom ConfigMap/vars does not exist");
}

#[test]
fn a_spec_that_changes_together_with_its_variables_may_meet_the_new_ones() {
    let mut after = repository("y");
    after[1] = ("root/k.yaml", vec![ks("k", "./p", json!({}))]);
    // Without variables the name is refused, so nothing more is pruned; what came before is a race.
    let lab = Lab::new(&repository("x"));
    assert_eq!(lab.rows(&after), set(&["delete? a-x"]));
    let plan = lab.plan(&after);
    let created = plan.changes().iter().find(|change| &*change.object.id.name == "a-y").unwrap();
    assert_eq!((created.action, created.certainty), (Action::Create, crate::plan::Certainty::Race));
}

#[test]
fn a_kustomization_that_makes_its_own_variables_builds_twice() {
    let files = |value: &str, names: Vec<Value>| {
        vec![("root/k.yaml", vec![ks("k", "./p", from())]), ("p/v.yaml", vec![vars(value)]), ("p/a.yaml", names)]
    };
    let mut lab = Lab::new(&vec![("root/k.yaml", vec![ks("k", "./p", from())])]);
    for manifest in [vars("x"), cm("a-x")] {
        let id = lab.add(&manifest, Some("k"));
        let entry = json!({"id": crate::ownership::schemes::inventory_id::format(&id), "v": "v1"});
        let status = &mut lab.kustomization("k").content["status"]["inventory"]["entries"];
        status.as_array_mut().unwrap().push(entry);
    }
    lab.snapshot.normalise();
    assert_eq!(lab.rows(&files("y", vec![cm("a-${v}")])), set(&["delete a-x"]));
    assert_eq!(creations(&lab, &files("y", vec![cm("a-${v}")])), set(&["a-y"]));
}

#[test]
fn a_snapshot_knows_no_values_but_the_tree_may() {
    let mut lab = Lab::new(&repository("x"));
    lab.data.clear();
    assert_eq!(lab.rows(&repository("x")), set(&[]));
}
