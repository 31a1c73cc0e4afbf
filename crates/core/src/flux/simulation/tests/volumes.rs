//! Volumes whose reclaim policies change, and what volumes name.

use serde_json::{Value, json};

use super::cluster::{Files, NS, TestCluster, cm, finished, ks};
use crate::kubernetes::object::Resource;
use crate::plan::mask::SecretMask;
use crate::testing::resource_type;

fn volume(policy: &str) -> Value {
    let spec = json!({"persistentVolumeReclaimPolicy": policy, "hostPath": {"path": "/tmp/a"}});
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "vol"}, "spec": spec})
}

fn claim() -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": NS}})
}

fn files(first: Vec<Value>, second: Vec<Value>) -> Files {
    let owners = vec![ks("k1", "./p1", json!({})), ks("k2", "./p2", json!({}))];
    vec![
        ("root/k.yaml", owners),
        ("p1/a.yaml", [first, vec![cm("stay")]].concat()),
        ("p2/a.yaml", [second, vec![cm("other")]].concat()),
    ]
}

/// Returns a cluster with the volume of these files, which is bound to a claim with this uid.
fn cluster(files: &Files, policy: &str, uid: &str) -> TestCluster {
    let mut cluster = TestCluster::new(files);
    let types =
        [("PersistentVolume", "persistentvolumes", false), ("PersistentVolumeClaim", "persistentvolumeclaims", true)];
    cluster
        .snapshot
        .types
        .extend(types.map(|(kind, plural, is_namespaced)| resource_type("", kind, plural, is_namespaced)));
    let mut content = volume(policy);
    content["spec"]["claimRef"] = json!({"namespace": NS, "name": "data", "uid": uid});
    let object = cluster.object("vol").clone();
    cluster.snapshot.resources.push(Resource { object, content });
    cluster.snapshot.normalise();
    cluster
}

const CLAIM: &str = "persistentvolumeclaim/data -n flux-system";

/// Returns the rows of a plan, also those that the end of the planning adds.
fn rows(cluster: &TestCluster, files: &Files) -> Vec<String> {
    let plan = finished(cluster.plan(files), &cluster.snapshot, &SecretMask::default());
    let changes = plan.changes().iter().filter(|change| change.object.id.kind.starts_with("Persistent"));
    changes.map(|change| format!("{} {} {:?}", change.action, change.object.id.name, change.certainty)).collect()
}

#[test]
fn the_reclaim_policy_counts_that_a_volume_has_when_its_claim_is_gone() {
    let planned = |before: &str, after: &str, is_of_other: bool| {
        let at = |policy: &str, has_claim: bool| {
            let claims = if has_claim { vec![claim()] } else { vec![] };
            let volumes = vec![volume(policy)];
            if is_of_other { files(claims, volumes) } else { files([volumes, claims].concat(), vec![]) }
        };
        rows(&cluster(&at(before, true), before, CLAIM), &at(after, false))
    };
    let kept = vec!["keep vol Certain", "delete data Certain"];
    let gone = vec!["recreate vol Certain", "delete data Certain"];
    let open = vec!["recreate vol Race", "delete data Certain"];
    assert_eq!(planned("Retain", "Retain", false), kept);
    assert_eq!(planned("Delete", "Delete", false), gone);
    assert_eq!(planned("Retain", "Delete", false), gone);
    assert_eq!(planned("Delete", "Retain", false), kept, "it is applied before the claim is pruned");
    assert_eq!(planned("Retain", "Delete", true), gone, "whenever it is applied");
    assert_eq!(planned("Delete", "Retain", true), open);
}

#[test]
fn a_volume_without_a_claim_follows_a_new_policy_at_once() {
    let planned = |before: &str, after: &str, uid: &str| {
        let at = |policy: &str| files(vec![volume(policy), claim()], vec![]);
        rows(&cluster(&at(before), before, uid), &at(after))
    };
    assert_eq!(planned("Retain", "Delete", "old"), ["recreate vol Certain"]);
    assert_eq!(planned("Retain", "Recycle", "old"), ["keep vol Certain"]);
    assert_eq!(planned("Retain", "Delete", CLAIM), [""; 0]);
    assert_eq!(planned("Delete", "Retain", "old"), [""; 0]);
    assert_eq!(planned("Retain", "Delete", ""), [""; 0]);
}

#[test]
fn a_class_stays_while_a_volume_names_it() {
    let class =
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass", "metadata": {"name": "gold"}});
    let blocked = |name: &str| {
        let before = files(vec![class.clone(), volume("Retain")], vec![]);
        let mut cluster = cluster(&before, "Retain", CLAIM);
        cluster.snapshot.types.push(resource_type(
            "storage.k8s.io",
            "VolumeAttributesClass",
            "volumeattributesclasses",
            false,
        ));
        cluster.object("gold").finalizers = vec!["kubernetes.io/vac-protection".into()];
        let volumes = cluster.snapshot.resources.iter_mut().filter(|full| &*full.object.id.name == "vol");
        volumes.for_each(|full| full.content["spec"]["volumeAttributesClassName"] = name.into());
        let plan = cluster.plan(&files(vec![volume("Retain")], vec![]));
        let plan = finished(plan, &cluster.snapshot, &SecretMask::default());
        plan.blocked_by_finalizers().iter().map(|blocked| blocked.detail.clone()).collect::<Vec<_>>()
    };
    assert_eq!(blocked("silver"), []);
    assert_eq!(blocked("gold"), [Some("persistentvolume/vol, which stays, names it".to_owned())]);
}
