//! One hub, several ways to point elsewhere.

use serde_json::{Value, json};

use super::*;
use crate::kubernetes::gap::GapKind;
use crate::kubernetes::object::ObjectMetadata;
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::index::ExtraOwners;
use crate::ownership::index::Index;
use crate::ownership::report::InventoryReport;
use crate::ownership::{OwnerId, OwnershipStatus};
use crate::testing::{self, Build, gap, object, snapshot};

const THIS: &str = "https://10.0.0.1:6443";

fn kustomization(name: &str, kube_config: Value, entries: &[&str]) -> Resource {
    let mut made = testing::kustomization(name, entries);
    made.content["spec"]["kubeConfig"] = kube_config;
    made
}

fn to(secret: &str) -> Value {
    json!({"secretRef": {"name": secret}})
}

fn application(name: &str, destination: Value) -> Resource {
    object("argoproj.io", "Application", "argocd", name)
        .with_content(json!({"spec": {"destination": destination}, "status": {
        "resources": [{"kind": "ConfigMap", "namespace": "shop", "name": name}]}}))
}

fn claiming(name: &str, owner: &str) -> ObjectMetadata {
    object("", "ConfigMap", "shop", name).of_kustomization(owner)
}

fn tracked(name: &str) -> ObjectMetadata {
    let id = format!("{name}:/ConfigMap:shop/{name}");
    object("", "ConfigMap", "shop", name).annotation("argocd.argoproj.io/tracking-id", &id)
}

fn secret_access(name: &str) -> Access {
    Access { id: ObjectId::new("", "Secret", "flux-system", name), key: None }
}

fn hub(owners: Vec<Resource>) -> Hub {
    let addresses =
        [(secret_access("this"), "https://10.0.0.1:6443/"), (secret_access("other"), "https://10.0.0.2:6443")];
    let addresses = addresses.into_iter().map(|(access, address)| (access, address.to_owned())).collect();
    Hub { owners, addresses, this: Some(THIS.to_owned()), ..Hub::default() }
}

/// Status of each object, "unsure" for a leak that cannot be trusted.
fn statuses(here: &Snapshot, hub: Hub) -> Vec<String> {
    let given = ExtraOwners { hub: Some(hub), ..ExtraOwners::default() };
    let index = Index::build_with(here, &given);
    let line = |object: &ObjectMetadata, status: OwnershipStatus| match &status {
        OwnershipStatus::Leaked(claim) if index.untrusted_reason(object, claim).is_some() => "unsure".to_owned(),
        status => status.as_str().to_owned(),
    };
    index.statuses().map(|(object, status)| format!("{} {}", object.id.name, line(object, status))).collect()
}

#[test]
fn only_an_address_that_is_this_clusters_makes_an_owner_of_it() {
    let here = snapshot(
        vec![
            claiming("a", "here"),
            claiming("b", "here"),
            claiming("c", "there"),
            claiming("d", "sealed"),
            claiming("e", "hub"),
            claiming("f", "gone"),
        ],
        vec![],
    );
    let owners = vec![
        kustomization("here", to("this"), &["shop_a__ConfigMap"]),
        kustomization("there", to("other"), &["shop_c__ConfigMap"]),
        kustomization("sealed", to("unreadable"), &[]),
        kustomization("hub", Value::Null, &["shop_e__ConfigMap"]),
    ];
    // What applies to the hub itself owns nothing here, whatever its name.
    let expected = ["a managed", "b leaked", "c unknown", "d unknown", "e orphaned", "f orphaned"];
    assert_eq!(statuses(&here, hub(owners.clone())), expected);
    let mut changed = hub(owners.clone());
    changed.changed = changed.owners.iter().map(|full| full.object.uid.clone()).collect();
    assert_eq!(statuses(&here, changed)[1], "b unsure", "it changed while this cluster was being read");
    let mut half = hub(owners);
    half.gaps = vec![gap(GapKind::Forbidden, "applications.argoproj.io")];
    assert_eq!(statuses(&here, half), ["a managed", "b unsure", "c unknown", "d unknown", "e unknown", "f unknown"]);
}

#[test]
fn an_owner_of_the_same_name_in_both_clusters_makes_no_leak() {
    let local = kustomization("apps", Value::Null, &[]);
    let here = || snapshot(vec![claiming("a", "apps"), local.object.clone()], vec![local.clone()]);
    assert_eq!(statuses(&here(), Hub::default())[0], "a leaked");
    for target in [to("this"), to("other")] {
        assert_eq!(statuses(&here(), hub(vec![kustomization("apps", target, &["shop_a__ConfigMap"])]))[0], "a unsure");
    }
    assert_eq!(statuses(&here(), hub(vec![kustomization("apps", Value::Null, &[])]))[0], "a leaked");
}

#[test]
fn applications_are_matched_by_server_and_never_by_name() {
    let names = ["addressed", "elsewhere", "inside", "named"];
    let here = snapshot(names.iter().map(|name| tracked(name)).collect(), vec![]);
    let owners = vec![
        application("addressed", json!({"server": "HTTPS://10.0.0.1:6443"})),
        application("elsewhere", json!({"server": "https://10.0.0.2:6443"})),
        application("inside", json!({"server": "https://kubernetes.default.svc"})),
        application("named", json!({"name": "this"})),
    ];
    let expected = ["addressed managed", "elsewhere unknown", "inside orphaned", "named unknown"];
    assert_eq!(statuses(&here, hub(owners.clone())), expected);
    let given = ExtraOwners { hub: Some(hub(owners)), ..ExtraOwners::default() };
    let index = Index::build_with(&here, &given);
    let views = InventoryReport::new(&index, &[]);
    let summary =
        |name: &str| views.summary(index.owner(&OwnerId::new("argocd", "Application", "argocd", name)).unwrap());
    assert!(summary("addressed").in_hub && summary("addressed").objects == 1 && summary("addressed").missing == 0);
    assert_eq!(summary("named").missing, 0, "what is remote is not looked for");
    assert!(index.owner(&OwnerId::new("argocd", "Application", "argocd", "inside")).is_none());
}

#[test]
fn addresses_are_compared_as_such() {
    for (one, other, same) in [
        ("https://10.0.0.1:6443", "https://10.0.0.1:6443/", true),
        ("https://API.example.com", "https://api.example.com:443", true),
        ("http://h", "http://h:80", true),
        ("https://h", "http://h", false),
        ("https://h:6443", "https://h:6444", false),
        ("https://h/clusters/a", "https://h/clusters/b", false),
        ("https://h/clusters/a", "https://h/clusters/a/", true),
        ("h:6443", "h:6443", false),
        ("", "", false),
        ("https://", "https://", false),
    ] {
        assert_eq!(is_same_address(one, other), same, "{one} {other}");
    }
}

#[test]
fn without_an_address_of_its_own_this_cluster_has_no_owner_in_the_hub() {
    let here = snapshot(vec![claiming("a", "here")], vec![]);
    let mut hub = hub(vec![kustomization("here", to("this"), &["shop_a__ConfigMap"])]);
    hub.this = None;
    assert_eq!(statuses(&here, hub), ["a unknown"]);
}

fn kustomization_of_hub(name: &str) -> Resource {
    kustomization(name, Value::Null, &[])
}

#[test]
fn owners_with_another_version_and_new_owners_changed() {
    let earlier = hub(vec![kustomization_of_hub("a"), kustomization_of_hub("b")]);
    let mut later = hub(vec![kustomization_of_hub("a"), kustomization_of_hub("b"), kustomization_of_hub("c")]);
    later.owners[1].object.resource_version = "2".into();
    let changed = later.since(&earlier).changed;
    assert_eq!(changed.len(), 2, "{changed:?}");
}
