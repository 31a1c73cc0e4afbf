//! StatefulSets of Kustomizations that shrink, and the claims that go with their replicas.

use serde_json::{Value, json};

use super::cluster::{Files, NS, TestCluster, artifact, cm, ks, set};
use crate::testing::resource_type;

fn stateful_set(replicas: Value, policy: &str) -> Files {
    let spec = json!({"replicas": replicas, "persistentVolumeClaimRetentionPolicy": {"whenScaled": policy},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}}]});
    let metadata = json!({"name": "db", "namespace": NS});
    vec![(
        "root/a.yaml",
        vec![json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec})],
    )]
}

/// Returns a cluster with a StatefulSet of three replicas, and one claim more.
fn cluster(policy: &str) -> TestCluster {
    with_claims(TestCluster::new(&stateful_set(json!(3), policy)))
}

fn with_claims(mut cluster: TestCluster) -> TestCluster {
    for (group, kind, plural) in
        [("apps", "StatefulSet", "statefulsets"), ("", "PersistentVolumeClaim", "persistentvolumeclaims")]
    {
        cluster.snapshot.types.push(resource_type(group, kind, plural, true));
    }
    for number in 0..4 {
        let name = format!("data-db-{number}");
        let metadata = json!({"name": name, "namespace": NS});
        cluster.add(&json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}), None);
    }
    cluster.snapshot.normalise();
    cluster.content.insert("db".to_owned(), json!({"spec": {"replicas": 3}}));
    cluster
}

#[test]
fn a_stateful_set_whose_first_ordinal_rises_deletes_the_claims_below_it() {
    let mut files = stateful_set(json!(2), "Delete");
    files[0].1[0]["spec"]["ordinals"] = json!({"start": 1});
    assert_eq!(cluster("Delete").rows(&files), set(&["delete data-db-0"]));
    let mut unread = cluster("Delete");
    unread.content.clear();
    assert_eq!(unread.rows(&files), set(&["delete? data-db-0", "delete? data-db-3"]));
}

#[test]
fn a_stateful_set_that_shrinks_deletes_the_claims_of_its_last_replicas_if_its_policy_says_so() {
    let rows = |policy: &str, replicas: Value| cluster(policy).rows(&stateful_set(replicas, policy));
    assert_eq!(rows("Delete", json!(1)), set(&["delete data-db-1", "delete data-db-2"]));
    assert_eq!(rows("Delete", json!(3)), set(&[]));
    assert_eq!(rows("Delete", Value::Null), set(&[]), "an autoscaler may set the number");
    assert_eq!(rows("Retain", json!(1)), set(&[]));
    let mut unread = cluster("Delete");
    unread.content.clear();
    let raced = ["delete? data-db-1", "delete? data-db-2", "delete? data-db-3"];
    assert_eq!(unread.rows(&stateful_set(json!(1), "Delete")), set(&raced));
    let plan = cluster("Delete").plan(&stateful_set(json!(1), "Delete"));
    let row = plan.deletions().next().unwrap();
    assert_eq!(
        (row.reason.to_string(), row.owner.as_ref().map(|owner| &*owner.name)),
        ("scaled-down".into(), Some("root"))
    );
    assert_eq!(plan.owners().iter().filter(|row| row.owner.kind == "Kustomization").count(), 1);
}

#[test]
fn claims_do_not_tell_a_number_of_replicas_that_comes_from_a_secret() {
    let files = |replicas: Value| -> Files {
        let (_, objects) = stateful_set(replicas, "Delete").remove(0);
        vec![("root/x.yaml", vec![cm("x")]), ("apps/a.yaml", objects)]
    };
    let rows = |number: u8| {
        let before = files(json!(3));
        let mut cluster = with_claims(TestCluster::new(&before));
        let metadata = json!({"name": "vars", "namespace": NS});
        // The builds here are JSON, in which a variable stands in quotes.
        let data = json!({"NAME": format!(r#"db","replicas":{number},"podManagementPolicy":"Parallel"#)});
        cluster.add(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}), None);
        let from = json!({"postBuild": {"substituteFrom": [{"kind": "Secret", "name": "vars"}]}});
        cluster.apply(&ks("apps", "./apps", from), None, &artifact(&before));
        cluster.snapshot.normalise();
        let mut after = files(Value::Null);
        let spec = after[1].1[0]["spec"].as_object_mut().unwrap();
        spec.remove("replicas");
        spec.insert("serviceName".to_owned(), "${NAME}".into());
        cluster.rows(&after)
    };
    let all = ["delete? data-db-0", "delete? data-db-1", "delete? data-db-2", "delete? data-db-3"];
    assert_eq!([rows(1), rows(2)], [set(&all), set(&all)]);
    assert_eq!(rows(3), set(&[]));
}
