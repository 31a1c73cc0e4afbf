//! Deletions by hand, and the reactions of the controllers.

use std::collections::BTreeSet;

use serde_json::json;

use super::cluster::{Files, NS, TestCluster, cluster_scoped, cm, in_namespace, ks, set};
use crate::flux::simulation::PreviewInput;
use crate::kubernetes::object::ObjectId;
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};
use crate::plan::Action;

fn files() -> Files {
    vec![
        ("root/k.yaml", vec![ks("k", "./p", json!({})), ks("held", "./q", json!({"deletionPolicy": "Orphan"}))]),
        ("p/a.yaml", vec![cm("a")]),
        ("q/b.yaml", vec![cm("b")]),
    ]
}

fn rows(cluster: &TestCluster, ids: &[ObjectId]) -> BTreeSet<String> {
    let files = files();
    let input = PreviewInput { by_hand: ids.iter().cloned().collect(), ..cluster.input(&files) };
    let plan = cluster.finish_preview(input).plan;
    plan.changes().iter().map(|change| format!("{} {} {}", change.action, change.object.id.name, change.by)).collect()
}

#[test]
fn what_git_has_comes_back_and_what_nobody_applies_does_not() {
    let cluster = TestCluster::new(&files());
    let kustomization = |name: &str| ObjectId::new(GROUP, KIND, NS, name);
    assert_eq!(rows(&cluster, &[ObjectId::new("", "ConfigMap", NS, "a")]), set(&["recreate a user"]));
    let recreated = set(&["recreate k user", "recreate a kustomize-controller"]);
    assert_eq!(rows(&cluster, &[kustomization("k")]), recreated, "its finalizer prunes, and its parent makes it again");
    let deleted = ["delete root user", "delete k kustomize-controller", "delete held kustomize-controller"];
    let deleted = [&deleted[..], &["delete a kustomize-controller", "keep b kustomize-controller"]].concat();
    assert_eq!(rows(&cluster, &[kustomization("root")]), set(&deleted));
}

#[test]
fn a_kustomization_that_is_made_again_takes_back_what_it_left_behind() {
    let (cluster, files) = (TestCluster::new(&files()), files());
    let by_hand = BTreeSet::from([ObjectId::new(GROUP, KIND, NS, "held")]);
    let plan = cluster.finish_preview(PreviewInput { by_hand, ..cluster.input(&files) }).plan;
    let row = plan.changes().iter().find(|change| &*change.object.id.name == "b").unwrap();
    let reason = format!("handed-over: kustomization/held -n {NS} is created again, and applies it");
    assert_eq!((row.action, row.reason.to_string()), (Action::Keep, reason));
}

#[test]
fn a_namespace_takes_its_content_along() {
    let mut cluster = TestCluster::new(&files());
    cluster.add(&cluster_scoped("Namespace", "shop"), None);
    cluster.add(&in_namespace(cm("x"), "shop"), None);
    cluster.snapshot.normalise();
    let deleted = set(&["delete shop user", "delete x namespace-controller"]);
    assert_eq!(rows(&cluster, &[ObjectId::new("", "Namespace", "", "shop")]), deleted);
}
