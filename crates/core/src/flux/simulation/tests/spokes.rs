//! Kustomizations with `spec.kubeConfig` whose cluster was read.

use serde_json::{Value, json};

use super::*;
use crate::plan::{Action, Plan, ReasonCode};

/// A Kustomization `k` that applies to another cluster, with fields of its spec.
fn remote(more: Value) -> Value {
    let mut spec = json!({"kubeConfig": {"secretRef": {"name": "spoke"}}});
    more.as_object().unwrap().iter().for_each(|(key, value)| spec[key] = value.clone());
    ks("k", "./k", spec)
}

fn secret(value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "spoke", "namespace": NS}, "data": {"value": value}})
}

/// A repository with `k`, which applies these objects to the other cluster, and more objects for the cluster itself.
fn files(k: Option<Value>, objects: Vec<Value>, more: Vec<Value>) -> Files {
    let root = [vec![secret("eA==")], k.into_iter().collect(), more].concat();
    vec![("root/a.yaml", root), ("k/a.yaml", objects)]
}

/// The cluster and the other one after these files were applied.
fn clusters(before: &Files) -> TestCluster {
    let mut cluster = TestCluster::new(before);
    cluster.move_to_spoke("k");
    cluster.history = Some(before.clone());
    cluster
}

/// Returns the rows of objects that are not certainly created or updated, as `ACTION OBJECT`.
fn rows_of(plan: &Plan) -> Vec<String> {
    let rows = plan.changes().iter().filter(|row| !matches!(row.action, Action::Create | Action::Update));
    rows.map(|row| format!("{} {}", row.action, row.object.id)).collect()
}

fn plan(before: &Files, after: &Files) -> Plan {
    clusters(before).plan(after)
}

#[test]
fn objects_of_another_cluster_are_pruned_there_and_those_of_the_same_name_here_stay() {
    let before = files(Some(remote(json!({}))), vec![cm("a"), cm("b")], vec![cm("b")]);
    let mut found = clusters(&before);
    found.add(&cm("b"), Some("root"));
    found.snapshot.normalise();
    let plan = found.plan(&files(Some(remote(json!({}))), vec![cm("a")], vec![cm("b")]));
    assert_eq!(rows_of(&plan), ["delete configmap/b -n flux-system in cluster edge"]);
    assert!(plan.is_complete(), "{:?}", plan.gaps());
    assert_eq!(plan.contested(), []);
    let row = plan.deletions().next().unwrap();
    assert_eq!((&*row.object.uid, row.owner.as_ref().unwrap().name.as_str()), ("configmap/b -n flux-system", "k"));
}

#[test]
fn a_deleted_kustomization_deletes_its_objects_in_the_other_cluster() {
    let before = files(Some(remote(json!({}))), vec![cm("a")], vec![]);
    let plan = plan(&before, &files(None, vec![cm("a")], vec![]));
    let expected = [
        "delete kustomization.kustomize.toolkit.fluxcd.io/k -n flux-system",
        "delete configmap/a -n flux-system in cluster edge",
    ];
    assert_eq!(rows_of(&plan), expected);
    assert!(plan.is_complete(), "{:?}", plan.gaps());
}

#[test]
fn a_namespace_takes_along_what_is_in_it_in_its_own_cluster() {
    let space = cluster_scoped("Namespace", "shop");
    let before = files(Some(remote(json!({}))), vec![space.clone()], vec![]);
    let mut found = clusters(&before);
    found.add(&in_namespace(cm("here"), "shop"), None);
    let mut there = found.snapshot.objects.pop().unwrap();
    found.snapshot.objects.push(there.clone());
    there.id = ObjectId::new("", "ConfigMap", "shop", "there");
    there.uid = "there".into();
    let mut spoke = found.snapshot.spokes.remove("edge").unwrap();
    spoke.objects.push(there);
    found.snapshot.add_spoke("edge", spoke);
    for cluster in found.snapshot.spokes.values_mut() {
        cluster.normalise();
    }
    found.snapshot.normalise();
    let plan = found.plan(&files(Some(remote(json!({}))), vec![], vec![]));
    assert_eq!(
        rows_of(&plan),
        ["delete configmap/there -n shop in cluster edge", "delete namespace/shop in cluster edge"]
    );
}

#[test]
fn without_a_reading_of_its_cluster_a_kustomization_is_unknown() {
    let before = files(Some(remote(json!({}))), vec![cm("a")], vec![]);
    let after = files(Some(remote(json!({}))), vec![], vec![]);
    let unread = |change: &dyn Fn(&mut TestCluster)| {
        let mut cluster = clusters(&before);
        change(&mut cluster);
        let plan = cluster.plan(&after);
        assert!(!plan.is_complete());
        rows_of(&plan)
    };
    let unknown = ["unknown kustomization.kustomize.toolkit.fluxcd.io/k -n flux-system"];
    assert_eq!(unread(&|cluster| drop(std::mem::take(&mut cluster.snapshot.kube_configs))), unknown);
    assert_eq!(unread(&|cluster| drop(std::mem::take(&mut cluster.snapshot.spokes))), unknown);
    let other_key = |cluster: &mut TestCluster| {
        let config = &mut cluster.kustomization("k").content["spec"]["kubeConfig"]["secretRef"];
        config["key"] = "admin".into();
    };
    assert_eq!(unread(&other_key), unknown, "the Secret may hold several kubeconfigs");
}

#[test]
fn a_cluster_that_a_config_map_reaches_is_followed_once_it_is_named() {
    let by_map = json!({"kubeConfig": {"configMapRef": {"name": "spoke"}}});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "spoke", "namespace": NS},
        "data": {"provider": "generic", "address": "https://edge.example.com"}});
    let tree = |objects: Vec<Value>| -> Files {
        vec![("root/a.yaml", vec![map.clone(), ks("k", "./k", by_map.clone())]), ("k/a.yaml", objects)]
    };
    let mut cluster = clusters(&tree(vec![cm("a"), cm("b")]));
    let unnamed = cluster.plan(&tree(vec![cm("a")]));
    assert_eq!(rows_of(&unnamed), ["unknown kustomization.kustomize.toolkit.fluxcd.io/k -n flux-system"]);
    let why = "--spoke ConfigMap/flux-system/spoke=CONTEXT names the one that configmap/spoke -n flux-system reaches";
    assert!(unnamed.changes().iter().any(|row| row.reason.text().contains(why)), "{:?}", unnamed.changes());
    let config = ObjectId::new("", "ConfigMap", NS, "spoke");
    cluster.snapshot.kube_configs.insert((config, None), "edge".into());
    let named = cluster.plan(&tree(vec![cm("a")]));
    assert_eq!(rows_of(&named), ["delete configmap/b -n flux-system in cluster edge"]);
    assert!(named.is_complete(), "{:?}", named.gaps());
}

#[test]
fn a_kustomization_that_moves_to_another_cluster_is_unknown() {
    let before = files(Some(remote(json!({}))), vec![cm("a")], vec![]);
    for k in [ks("k", "./k", json!({})), remote(json!({"kubeConfig": {"secretRef": {"name": "other"}}}))] {
        let other = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "other", "namespace": NS}});
        let plan = plan(&before, &files(Some(k), vec![cm("a")], vec![other]));
        assert_eq!(rows_of(&plan), ["unknown kustomization.kustomize.toolkit.fluxcd.io/k -n flux-system"]);
        assert!(plan.changes().iter().any(|row| row.reason.text().contains("spec.kubeConfig changes")));
    }
}

#[test]
fn a_changed_kubeconfig_may_reach_another_cluster() {
    let before = files(Some(remote(json!({}))), vec![cm("a")], vec![]);
    let mut after = files(Some(remote(json!({}))), vec![cm("a")], vec![]);
    after[0].1[0] = secret("eQ==");
    let plan = plan(&before, &after);
    assert_eq!(rows_of(&plan), ["unknown kustomization.kustomize.toolkit.fluxcd.io/k -n flux-system"]);
    let detail = "secret/spoke -n flux-system changes; it may apply to another cluster then";
    assert!(plan.gaps()[0].message.starts_with(detail), "{:?}", plan.gaps());
}

#[test]
fn a_kustomization_without_its_kubeconfig_is_blocked() {
    let before = files(Some(remote(json!({}))), vec![cm("a")], vec![]);
    let mut found = clusters(&before);
    found.snapshot.objects.retain(|object| &*object.id.name != "spoke");
    let mut after = files(Some(remote(json!({}))), vec![], vec![]);
    after[0].1.remove(0);
    let plan = found.plan(&after);
    let row = plan.owners().iter().find(|row| row.owner.name == "k").unwrap();
    assert_eq!(row.reason.code, ReasonCode::KubeConfigMissing);
    assert_eq!(rows_of(&plan), [""; 0]);
    // Its finalizer needs the kubeconfig too.
    let mut after = files(None, vec![], vec![]);
    after[0].1.remove(0);
    let race = found.plan(&after);
    let row = race.changes().iter().find(|row| &*row.object.id.name == "a").unwrap();
    assert!(row.certainty == crate::plan::Certainty::Race && row.object.id.cluster.is_some(), "{row:?}");
}

#[test]
fn what_flux_in_the_other_cluster_does_is_a_gap() {
    let inner = |path: &str| ks("inner", path, json!({}));
    let before = files(Some(remote(json!({}))), vec![inner("./a")], vec![]);
    let mut found = clusters(&before);
    found.snapshot.resources.retain(|full| &*full.object.id.name != "inner");
    for (after, change) in [(vec![], "is deleted"), (vec![inner("./b")], "changes")] {
        let plan = found.plan(&files(Some(remote(json!({}))), after, vec![]));
        let gap = plan.gaps().iter().find(|gap| gap.subject.ends_with("in cluster edge")).expect("a gap");
        assert!(gap.message.contains(change), "{gap:?}");
        assert!(plan.owners().iter().all(|row| row.owner.name != "inner"), "it is no owner here");
    }
    let same = found.plan(&before);
    assert!(same.is_complete(), "{:?}", same.gaps());
    let new = found.plan(&files(Some(remote(json!({}))), vec![inner("./a"), ks("new", "./", json!({}))], vec![]));
    assert!(new.is_complete(), "what is new deletes nothing: {:?}", new.gaps());
}
