//! Quotas that limit what a HelmRelease or a ResourceSet creates: the server counts one object after the other.

use serde_json::{Value, json};

use super::cluster::{Files, NS, TestCluster, cm, set};
use super::resource_sets::{self, tenants};
use super::upgrades::{Template, deployed, reason, spec, tree, without};
use crate::plan::Outcome;
use crate::testing::resource_type;

/// Returns a quota of ConfigMaps, some of which exist.
fn quota(used: u8, hard: u8) -> Value {
    let [used, hard] = [used, hard].map(|number| json!({"count/configmaps": number.to_string()}));
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": NS},
        "spec": {"hard": hard}, "status": {"hard": hard, "used": used}})
}

/// Adds a live quota to a cluster.
fn under(mut cluster: TestCluster, quota: Option<Value>) -> TestCluster {
    cluster.snapshot.types.push(resource_type("", "ResourceQuota", "resourcequotas", true));
    if let Some(quota) = quota {
        cluster.add(&quota, None);
        cluster.content.insert("few".to_owned(), quota);
    }
    cluster.upgrades = Some([].into());
    cluster.snapshot.normalise();
    cluster
}

/// Returns the spec of a release that Helm applies on the server.
fn applied() -> Value {
    let mut spec = spec(json!({}));
    spec["upgrade"] = json!({"serverSideApply": "enabled"});
    spec
}

fn with_new(names: &[&'static str]) -> Files {
    let paths = ["charts/app/templates/n1.yaml", "charts/app/templates/n2.yaml"];
    let new = names.iter().zip(paths).map(|(name, at)| (at, *name, json!({})));
    tree("2", &without("extra").into_iter().chain(new).collect::<Vec<Template>>(), applied())
}

#[test]
fn a_quota_has_room_for_all_new_objects_of_a_release_or_the_upgrade_fails() {
    let cluster = |hard: Option<u8>| under(deployed(applied()), hard.map(|hard| quota(4, hard)));
    let two = with_new(&["m", "n"]);
    assert_eq!(cluster(Some(6)).rows(&two), set(&["delete extra"]));
    let plan = cluster(Some(5)).plan(&two);
    let (outcome, why) = reason(&plan);
    assert_eq!((outcome, plan.summary().delete), (Outcome::Blocked, 0), "{why}");
    assert!(why.ends_with("its new configmaps exceed the quota few") && plan.is_complete(), "{why}");
    assert_eq!(cluster(Some(5)).rows(&with_new(&["n"])), set(&["delete extra"]));

    let rows = |hard: Option<u8>, beside: Value| {
        let mut after = with_new(&["m", "n"]);
        after[0].1.push(beside);
        cluster(hard).rows(&after)
    };
    assert_eq!(rows(Some(6), cm("beside")), set(&["delete? extra"]), "another owner takes the room");
    assert_eq!(rows(Some(9), quota(4, 5)), set(&["delete? extra"]), "it is lowered");
    assert_eq!(rows(None, quota(0, 4)), set(&["delete? extra"]), "it is new");
}

#[test]
fn a_quota_of_a_chart_can_refuse_its_new_objects() {
    let rows = |hard: u8| {
        let mut after = with_new(&["n"]);
        after.push(("charts/app/templates/quota.yaml", vec![quota(0, hard)]));
        under(deployed(applied()), None).rows(&after)
    };
    assert_eq!(rows(1), set(&["delete? extra"]));
    assert_eq!(rows(9), set(&["delete? extra"]), "it may not count yet, and then refuses everything");
}

#[test]
fn a_quota_has_room_for_all_new_objects_of_a_set_or_nothing_is_deleted() {
    let maps = json!([cm("<< inputs.tenant >>")]);
    let root = |names: &[&str], resources: &Value| vec![("root/a.yaml", vec![tenants(names, resources.clone())])];
    let rows = |hard: Option<u8>, resources: &Value| {
        let cluster = under(resource_sets::cluster(&root(&["a", "b"], &maps)), hard.map(|hard| quota(2, hard)));
        cluster.rows(&root(&["a", "m", "n"], resources))
    };
    assert_eq!(rows(Some(4), &maps), set(&["delete b"]));
    assert_eq!(rows(Some(3), &maps), set(&["delete? b"]));
    let with_quota = |hard: u8| json!([cm("<< inputs.tenant >>"), quota(0, hard)]);
    assert_eq!(rows(None, &with_quota(3)), set(&["delete? b"]));
    assert_eq!(rows(None, &with_quota(9)), set(&["delete b"]), "it is tried again until the quota counts");
}
