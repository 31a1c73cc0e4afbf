//! Classes of operators, for which a run waits before it applies anything else.

use super::*;
use crate::flux::apply::dry_run::DryRunResult;
use crate::flux::apply::update::Update;
use crate::plan::ReasonCode;
use crate::testing::resource_type;

const GROUP: &str = "nodes.example.com";

fn class(name: &str, size: &str) -> Value {
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": "NodeClass", "metadata": {"name": name}, "spec": {"size": size}})
}

fn files(more: Value, classes: Vec<Value>, objects: Vec<Value>) -> Files {
    vec![("root/k.yaml", vec![ks("k", "./p", more)]), ("p/c.yaml", classes), ("p/a.yaml", objects)]
}

/// Returns a cluster with the class `c` of this status.
fn cluster(more: Value, status: Value) -> TestCluster {
    let mut cluster = TestCluster::new(&files(more, vec![class("c", "small")], vec![cm("a"), cm("b")]));
    cluster.snapshot.types.push(resource_type(GROUP, "NodeClass", "nodeclasses", false));
    cluster.snapshot.normalise();
    let metadata = json!({"name": "c", "generation": 1});
    cluster.content.insert("c".to_owned(), json!({"kind": "NodeClass", "metadata": metadata, "status": status}));
    cluster
}

fn ready(status: &str) -> Value {
    json!({"conditions": [{"type": "Ready", "status": status}]})
}

#[test]
fn nothing_is_pruned_while_a_class_is_not_ready() {
    let checks = |current: &str| {
        let expr = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "NodeClass", "current": current});
        json!({"healthCheckExprs": [expr]})
    };
    let is_open = "status.open == 'yes'";
    for (more, status, row) in [
        (json!({}), json!({}), "delete a"),
        (json!({}), ready("True"), "delete a"),
        (json!({}), ready("False"), "delete? a"),
        (json!({}), ready("Unknown"), "delete? a"),
        (json!({}), json!({"observedGeneration": 1}), "delete a"),
        (json!({}), json!({"observedGeneration": 0}), "delete? a"),
        (json!({}), json!({"conditions": [{"type": "Stalled", "status": "True"}]}), "delete? a"),
        (checks(is_open), json!({"open": "yes"}), "delete a"),
        (checks(is_open), json!({"open": "no"}), "delete? a"),
        (checks("unknown(status)"), json!({"open": "no"}), "delete? a"),
    ] {
        let after = files(more.clone(), vec![class("c", "small")], vec![cm("b")]);
        assert_eq!(cluster(more.clone(), status.clone()).rows(&after), set(&[row]), "{more} {status}");
    }
    let after = files(json!({}), vec![class("c", "small")], vec![cm("b")]);
    let outcome = cluster(json!({}), ready("False")).outcome(&after, "k");
    assert!(outcome.contains("nothing more is applied until nodeclass.nodes.example.com/c, which is not ready now"));
}

#[test]
fn a_new_class_is_created_for_certain_and_may_keep_the_rest_from_being_applied() {
    let definition = |status: Value| {
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": {}, "status": status}}});
        json!({"spec": {"versions": [{"name": "v1", "schema": schema}]}})
    };
    let after = files(json!({}), vec![class("c", "small"), class("d", "small")], vec![cm("b"), cm("e")]);
    for (status, rows) in [
        (json!({"properties": {"byPod": {}}}), ["create d", "create e", "delete a"]),
        (json!({"properties": {"conditions": {}}}), ["create d", "create? e", "delete? a"]),
    ] {
        let mut cluster = cluster(json!({}), ready("True"));
        cluster.content.insert(format!("nodeclasses.{GROUP}"), definition(status));
        assert_eq!(cluster.all_rows(&after), set(&rows));
    }
}

#[test]
fn a_changed_class_may_become_unready() {
    let after = files(json!({}), vec![class("c", "large")], vec![cm("b")]);
    let rows = |status: Value| {
        let mut cluster = cluster(json!({}), status);
        let update = Update { reason: ReasonCode::Changed.into(), diff: String::new(), changes_content: true };
        cluster.results = vec![(|applied| &*applied.id.kind == "NodeClass", DryRunResult::Updated(update))];
        cluster.all_rows(&after)
    };
    assert_eq!(rows(ready("True")), set(&["update? c", "delete? a"]));
    assert_eq!(rows(json!({})), set(&["update c", "delete a"]), "no operator writes its status");
}
