//! Refusals of the server in dry-runs.

use super::*;

fn refused(owner: &str, manifest: Value) -> Refusal {
    let name = manifest["metadata"]["name"].as_str().unwrap();
    let kind = manifest["kind"].as_str().unwrap();
    let namespace = manifest["metadata"]["namespace"].as_str().unwrap_or_default();
    let id = ObjectId::new("", kind, namespace, name);
    Refusal {
        owner: NamespacedName { namespace: NS.into(), name: owner.into() },
        id,
        manifest: manifest.into(),
        message: "it is immutable".into(),
    }
}

#[test]
fn a_kustomization_with_a_refused_object_prunes_nothing() {
    let before = one_child(json!({}));
    let after = vec![before[0].clone(), ("p/a.yaml", vec![cm("b"), cluster_scoped("Namespace", "early"), cm("new")])];
    let mut cluster = TestCluster::new(&before);
    assert_eq!(cluster.rows(&after), set(&["delete a", "delete x"]));
    cluster.refusals = vec![refused("k", cm("b"))];
    assert_eq!(cluster.rows(&after), set(&["keep a", "delete x"]));
    let plan = cluster.plan(&after);
    let row = |name: &str| plan.changes().iter().find(|change| &*change.object.id.name == name);
    assert_eq!(row("a").unwrap().reason.to_string(), "held-back: it is deleted once this is resolved: it is immutable");
    // The earlier stage is applied.
    assert_eq!(row("early").unwrap().action, Action::Create);
    assert!(row("new").is_none());
    assert_eq!(cluster.outcome(&after, "k"), "Blocked: apply-refused: it is immutable");
}

#[test]
fn a_refusal_in_the_first_stage_stops_everything() {
    let before = one_child(json!({}));
    let after = vec![before[0].clone(), ("p/a.yaml", vec![cm("b"), cluster_scoped("Namespace", "early"), cm("new")])];
    let mut cluster = TestCluster::new(&before);
    cluster.refusals = vec![refused("k", cluster_scoped("Namespace", "early"))];
    assert_eq!(cluster.rows(&after), set(&["keep a", "delete x"]));
    assert!(cluster.plan(&after).changes().iter().all(|change| change.action != Action::Create));
}

#[test]
fn a_refusal_concerns_one_manifest_of_one_kustomization() {
    let before = one_child(json!({}));
    let after = vec![before[0].clone(), ("p/a.yaml", vec![cm("b")])];
    let mut cluster = TestCluster::new(&before);
    let mut other = cm("b");
    other["data"]["v"] = "2".into();
    cluster.refusals = vec![refused("k", other), refused("root", cm("b"))];
    assert_eq!(cluster.rows(&after), set(&["delete a", "delete x"]));
}

#[test]
fn a_refused_kustomization_blocks_its_dependants() {
    let files = |objects: Vec<Value>, more: Vec<Value>| {
        vec![
            ("root/k.yaml", vec![ks("d", "./d", json!({})), ks("k", "./p", json!({"dependsOn": [{"name": "d"}]}))]),
            ("d/x.yaml", objects),
            ("p/a.yaml", more),
        ]
    };
    let after = files(vec![cm("x")], vec![cm("b")]);
    let mut cluster = TestCluster::new(&files(vec![cm("x")], vec![cm("a"), cm("b")]));
    assert_eq!(cluster.rows(&after), set(&["delete a"]));
    cluster.refusals = vec![refused("d", cm("x"))];
    assert_eq!(cluster.rows(&after), set(&[]));
    assert!(cluster.outcome(&after, "k").contains("which cannot reconcile: it is immutable"));
}

fn refused_deletion(owner: &str, name: &str) -> DeletionRefusal {
    DeletionRefusal {
        owner: NamespacedName { namespace: NS.into(), name: owner.into() },
        id: ObjectId::new("", "ConfigMap", NS, name),
        message: "denied by a policy".into(),
    }
}

#[test]
fn a_refused_deletion_keeps_one_object_and_blocks_dependants() {
    let files = |objects: Vec<Value>, more: Vec<Value>| {
        vec![
            ("root/k.yaml", vec![ks("d", "./d", json!({})), ks("k", "./p", json!({"dependsOn": [{"name": "d"}]}))]),
            ("d/x.yaml", objects),
            ("p/a.yaml", more),
        ]
    };
    let mut cluster = TestCluster::new(&files(vec![cm("held"), cm("x"), cm("y")], vec![cm("a"), cm("b")]));
    let after = files(vec![cm("y")], vec![cm("b")]);
    assert_eq!(cluster.rows(&after), set(&["delete held", "delete x", "delete a"]));
    cluster.deletion_refusals = vec![refused_deletion("d", "held"), refused_deletion("k", "x")];
    assert_eq!(cluster.rows(&after), set(&["keep held", "delete x"]));
    assert!(cluster.outcome(&after, "d").contains("prune-refused"), "{}", cluster.outcome(&after, "d"));
    let plan = cluster.plan(&after);
    let held = plan.changes().iter().find(|change| &*change.object.id.name == "held").unwrap();
    assert_eq!(held.reason.to_string(), "deletion-refused: denied by a policy");
    // Before 1.9 the object is forgotten, and the next run succeeds.
    cluster.features = Features::of((1, 8, 5));
    assert_eq!(cluster.rows(&after), set(&["keep held", "delete x", "delete a"]));
}

#[test]
fn a_deleted_kustomization_stays_if_the_server_refuses_one_of_its_objects() {
    let before = one_child(json!({}));
    let after = vec![("root/x.yaml", vec![cm("x")]), before[1].clone()];
    let mut cluster = TestCluster::new(&before);
    assert_eq!(cluster.rows(&after), set(&["delete k", "delete a", "delete b"]));
    cluster.deletion_refusals = vec![refused_deletion("k", "a")];
    assert_eq!(cluster.rows(&after), set(&["delete k", "keep a", "delete b"]));
    assert!(cluster.outcome(&after, "k").contains("owner-stuck"), "{}", cluster.outcome(&after, "k"));
}
