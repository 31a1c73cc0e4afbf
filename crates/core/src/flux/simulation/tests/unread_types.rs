//! Objects of types that could not be read, and gaps that cannot change the plan.

use serde_json::json;

use super::cluster::{Files, NS, TestCluster, annotated, cm, finished, ks, set};
use super::*;
use crate::kubernetes::gap::GapKind;
use crate::plan::mask::SecretMask;
use crate::plan::{FinishedPlan, Plan};
use crate::testing::{gap, resource_type};

/// Hides the ConfigMaps of a cluster from its reader.
fn hide(cluster: &mut TestCluster) {
    cluster.snapshot.objects.retain(|object| !object.id.is("", "ConfigMap"));
    cluster.snapshot.gaps.push(gap(GapKind::Forbidden, "configmaps"));
}

/// Returns all rows of a plan, also those of created objects.
fn all_rows(cluster: &TestCluster, after: &Files) -> BTreeSet<String> {
    let plan = cluster.plan(after);
    let rows = plan.changes().iter();
    rows.map(|change| {
        let doubt = if change.certainty == Certainty::Race { "?" } else { "" };
        format!("{}{doubt} {}", change.action, change.object.id.name)
    })
    .collect()
}

fn finish(cluster: &TestCluster, plan: Plan) -> FinishedPlan {
    finished(plan, &cluster.snapshot, &SecretMask::default())
}

#[test]
fn an_object_of_a_type_that_could_not_be_read_is_neither_created_nor_forgotten() {
    let before = vec![("root/a.yaml", vec![cm("a"), cm("b")])];
    let after = vec![("root/a.yaml", vec![cm("b"), cm("new")])];
    let mut cluster = TestCluster::new(&before);
    assert_eq!(all_rows(&cluster, &after), set(&["delete a", "create new"]));
    hide(&mut cluster);
    assert_eq!(all_rows(&cluster, &after), set(&["unknown a", "create? new"]));
    let plan = cluster.plan(&after);
    let details: Vec<String> = plan.changes().iter().map(|change| change.reason.text()).collect();
    let unread = "configmaps could not be read (forbidden)";
    assert_eq!(details[0], format!("{unread}; kustomization/root -n {NS} lists it and no longer applies it"));
    assert_eq!(details[1], format!("race: it is updated if it exists; {unread}"));
    // An object in another namespace than the unread one is known to be absent.
    cluster.snapshot.gaps[0].namespace = Some("shop".to_owned());
    assert_eq!(all_rows(&cluster, &after), set(&["create b", "create new"]));
}

#[test]
fn an_object_of_a_type_that_could_not_be_read_is_deleted_with_its_owner_as_far_as_is_known() {
    let before = vec![
        ("root/k.yaml", vec![ks("k", "./p", json!({}))]),
        ("p/a.yaml", vec![annotated(cm("a"), "prune", "disabled")]),
        ("root/x.yaml", vec![cm("x")]),
    ];
    let mut cluster = TestCluster::new(&before);
    hide(&mut cluster);
    assert_eq!(all_rows(&cluster, &vec![("root/x.yaml", vec![cm("x")])]), set(&["delete k", "unknown a"]));
}

#[test]
fn a_gap_counts_only_if_it_can_change_the_plan() {
    let keys = json!({"decryption": {"provider": "sops", "secretRef": {"name": "keys"}}});
    let before = vec![("root/a.yaml", vec![cm("a"), cm("b")])];
    let with_keys = vec![("root/a.yaml", vec![cm("a"), cm("b"), ks("k", "./root", keys)])];
    let release = json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
        "metadata": {"name": "web", "namespace": NS}, "spec": {}});
    let of_release = vec![("root/a.yaml", vec![cm("a"), cm("b"), release])];
    let cases = [
        ("nothing changes", before.clone(), vec!["namespaces"]),
        ("an object is created", vec![("root/a.yaml", vec![cm("a"), cm("b"), cm("c")])], vec!["namespaces"]),
        ("a namespaced object is deleted", vec![("root/a.yaml", vec![cm("a")])], vec!["namespaces", "secrets"]),
        ("a new spec needs keys", with_keys, vec!["namespaces", "secrets"]),
        (
            "another owner is affected",
            of_release,
            vec!["clusterroles.rbac.authorization.k8s.io", "namespaces", "nodes", "secrets"],
        ),
    ];
    for (name, after, expected) in cases {
        let mut cluster = TestCluster::new(&before);
        cluster.snapshot.types.push(resource_type("", "Node", "nodes", false));
        let unread = ["clusterroles.rbac.authorization.k8s.io", "namespaces", "nodes", "secrets"];
        cluster.snapshot.gaps = unread.map(|subject| gap(GapKind::Forbidden, subject)).to_vec();
        let plan = finish(&cluster, cluster.plan(&after));
        let counting = plan.counting_gaps().map(|gap| &*gap.subject);
        let counting: Vec<&str> = counting.filter(|subject| unread.contains(subject)).collect();
        assert_eq!(counting, expected, "{name}");
    }
}
