use super::*;
use crate::kubernetes::gap::{Gap, GapKind};
use crate::kubernetes::snapshot::ClusterIdentity;
use crate::plan::BlockedByFinalizers;
use crate::plan::finished::finalizers::add_blocked_by_finalizers;
use crate::plan::{Action, Actor, Change, ReasonCode};
use crate::testing;

fn blocked(objects: Vec<ObjectMetadata>, kept: &str) -> Vec<String> {
    let mut snapshot = Snapshot::new(chrono::DateTime::UNIX_EPOCH, ClusterIdentity::default());
    snapshot.objects = objects;
    blocked_in(snapshot, kept)
}

fn blocked_line(blocked: &BlockedByFinalizers) -> String {
    let controller = blocked.controller.as_ref().map_or_else(String::new, |id| format!(" without {}", id.name));
    let why = blocked.detail.as_ref().map_or_else(String::new, |why| format!("; {why}"));
    format!("{} by {}{controller}{why}", blocked.object.name, blocked.finalizers.join(","))
}

/// Returns the blocked objects when one owner deletes everything but the objects of one name.
fn blocked_in(mut snapshot: Snapshot, kept: &str) -> Vec<String> {
    snapshot.normalise();
    let owner = crate::ownership::OwnerId::new("flux", "Kustomization", "n", "all");
    let change = |object: &ObjectMetadata| {
        let action = if *object.id.name == *kept { Action::Keep } else { Action::Delete };
        Change::new(action, object, Some(owner.clone()), Actor::KubectlGitops, ReasonCode::Leaked)
    };
    let mut plan = Plan::new(ClusterIdentity::default());
    plan.add_changes(snapshot.objects.iter().map(change));
    let controllers = FluxControllers::new(&plan, &snapshot);
    add_blocked_by_finalizers(&mut plan, &snapshot, &controllers);
    plan.blocked_by_finalizers().iter().map(blocked_line).collect()
}

/// A release with Flux's finalizer among Deployments of these names, and a Kustomization whose status was written
/// so many seconds before.
fn release(deployments: &[&str], written: i64) -> Snapshot {
    const FLUX_GROUP: &str = "kustomize.toolkit.fluxcd.io";
    let taken = chrono::DateTime::from_timestamp(1_000_000, 0).unwrap();
    let mut snapshot = Snapshot::new(taken, ClusterIdentity::default());
    let release = testing::object("helm.toolkit.fluxcd.io", "HelmRelease", "n", "web");
    snapshot.objects = vec![with(release, &["finalizers.fluxcd.io"])];
    snapshot.objects.extend(deployments.iter().map(|name| testing::object("apps", "Deployment", "kept", name)));
    let mut kustomization = testing::object(FLUX_GROUP, "Kustomization", "n", "apps");
    kustomization.managed_fields = vec![crate::kubernetes::object::ManagedFieldsEntry {
        manager: "kustomize-controller".into(),
        subresource: "status".into(),
        time: Some(taken - chrono::TimeDelta::seconds(written)),
        ..crate::kubernetes::object::ManagedFieldsEntry::default()
    }];
    let content = serde_json::json!({"spec": {"interval": "1m"}});
    snapshot.resources = vec![crate::kubernetes::object::Resource { object: kustomization, content }];
    snapshot.types = vec![testing::resource_type("apps", "Deployment", "deployments", true)];
    snapshot
}

#[test]
fn an_absent_controller_blocks_its_finalizers_and_one_that_may_run_does_not() {
    let kept = "kustomize-controller";
    let absent = "web by finalizers.fluxcd.io; no Deployment helm-controller is in this cluster";
    assert_eq!(blocked_in(release(&[kept], 60), kept), [absent]);
    let none = "web by finalizers.fluxcd.io; no Deployment of Flux is in this cluster, and no Flux controller wrote a status recently";
    assert_eq!(blocked_in(release(&[], 600), ""), [none]);
    assert_eq!(blocked_in(release(&["shop"], 600), ""), [none]);
    let nothing: [&str; 0] = [];
    // Something of Flux writes without a Deployment, so helm-controller may run without one too.
    assert_eq!(blocked_in(release(&[], 60), ""), nothing);
    assert_eq!(blocked_in(release(&["helm-controller"], 600), "helm-controller"), nothing);
    let mut labelled = release(&[kept, "flux-helm"], 60);
    labelled.objects[2].labels = [("app.kubernetes.io/component", "helm-controller")].into_iter().collect();
    assert_eq!(blocked_in(labelled.clone(), "flux-helm"), nothing);
    assert_eq!(blocked_in(labelled, kept), ["web by finalizers.fluxcd.io without flux-helm"]);
    let mut hidden = release(&[kept], 60);
    hidden.gaps.push(Gap {
        kind: GapKind::Forbidden,
        subject: "deployments.apps".to_owned(),
        namespace: None,
        message: String::new(),
    });
    assert_eq!(blocked_in(hidden, kept), nothing);
}

fn order_and_operator(owner_of_both: bool) -> Vec<ObjectMetadata> {
    let group = if owner_of_both { "shop.example.com" } else { "else.example.com" };
    let name = format!("orders.{group}");
    vec![
        with(testing::object("shop.example.com", "Order", "n", "one"), &["shop.example.com/cleanup"]),
        testing::object("apiextensions.k8s.io", "CustomResourceDefinition", "", &name),
        testing::object("apps", "Deployment", "n", "operator"),
    ]
}

fn blocked_orders(owner_of_both: bool, kept: &str) -> Vec<String> {
    let mut snapshot = Snapshot::new(chrono::DateTime::UNIX_EPOCH, ClusterIdentity::default());
    snapshot.objects = order_and_operator(owner_of_both);
    snapshot.types = vec![testing::resource_type("shop.example.com", "Order", "orders", true)];
    blocked_in(snapshot, kept)
}

#[test]
fn an_owner_of_a_definition_and_a_deployment_may_delete_the_controller_too() {
    let plain = "one by shop.example.com/cleanup";
    let why = "deployment.apps/operator -n n may be its controller and is deleted too";
    assert_eq!(blocked_orders(true, ""), [format!("{plain}; {why}")]);
    assert_eq!(blocked_orders(true, "operator"), [plain]);
    assert_eq!(blocked_orders(false, ""), [plain]);
}

fn blocked_volumes(kept: &str) -> Vec<String> {
    let mut snapshot = Snapshot::new(chrono::DateTime::UNIX_EPOCH, ClusterIdentity::default());
    let volume = with(testing::object("", "PersistentVolume", "", "pv"), &["kubernetes.io/pv-protection"]);
    let claim = testing::object("", "PersistentVolumeClaim", "n", "data");
    let content = serde_json::json!({"spec": {"claimRef": {"namespace": "n", "name": "data", "uid": claim.uid}}});
    snapshot.resources = vec![crate::kubernetes::object::Resource { object: volume.clone(), content }];
    snapshot.objects = vec![volume, claim];
    blocked_in(snapshot, kept)
}

#[test]
fn a_volume_stays_terminating_while_its_claim_stays() {
    let why = "it is bound to persistentvolumeclaim/data -n n, which stays";
    assert_eq!(blocked_volumes("data"), [format!("pv by kubernetes.io/pv-protection; {why}")]);
    assert_eq!(blocked_volumes(""), Vec::<String>::new());
}

fn with(object: ObjectMetadata, finalizers: &[&str]) -> ObjectMetadata {
    ObjectMetadata { finalizers: finalizers.iter().map(|text| (*text).into()).collect(), ..object }
}

#[test]
fn the_control_plane_removes_its_finalizers_and_kept_objects_are_not_blocked() {
    let objects = vec![
        with(testing::object("", "PersistentVolumeClaim", "n", "claim"), &["kubernetes.io/pvc-protection"]),
        with(testing::object("", "ConfigMap", "n", "blocked"), &["shop.example.com/backup", "orphan"]),
        with(testing::object("", "ConfigMap", "n", "kept"), &["shop.example.com/backup"]),
        testing::object("", "ConfigMap", "n", "plain"),
    ];
    assert_eq!(blocked(objects, "kept"), ["blocked by shop.example.com/backup"]);
}

fn objects_of_flux() -> Vec<ObjectMetadata> {
    vec![
        with(testing::object("", "ConfigMap", "a", "blocked"), &["shop.example.com/backup"]),
        with(testing::object("kustomize.toolkit.fluxcd.io", "Kustomization", "n", "apps"), &["finalizers.fluxcd.io"]),
        with(testing::object("helm.toolkit.fluxcd.io", "HelmRelease", "n", "web"), &["finalizers.fluxcd.io"]),
        testing::object("apps", "Deployment", "flux-system", "kustomize-controller"),
    ]
}

#[test]
fn flux_removes_its_finalizers_unless_its_controller_is_deleted_too() {
    assert_eq!(
        blocked(objects_of_flux(), ""),
        ["apps by finalizers.fluxcd.io without kustomize-controller", "blocked by shop.example.com/backup"]
    );
    assert_eq!(blocked(objects_of_flux(), "kustomize-controller"), ["blocked by shop.example.com/backup"]);
}

#[test]
fn a_load_balancer_is_removed_by_the_controller_of_the_cloud() {
    let services = |others: Vec<ObjectMetadata>, kept: &str| {
        let mut snapshot = Snapshot::new(chrono::DateTime::UNIX_EPOCH, ClusterIdentity::default());
        let finalizer = &["service.kubernetes.io/load-balancer-cleanup"];
        snapshot.objects = [vec![with(testing::object("", "Service", "n", "web"), finalizer)], others].concat();
        snapshot.types = vec![testing::resource_type("coordination.k8s.io", "Lease", "leases", true)];
        blocked_in(snapshot, kept)
    };
    let lease = || testing::object("coordination.k8s.io", "Lease", "kube-system", "cloud-controller-manager");
    let deployment = testing::object("apps", "Deployment", "kube-system", "hcloud-cloud-controller-manager");
    let blocked = "web by service.kubernetes.io/load-balancer-cleanup";
    let absent = "no cloud-controller-manager has a Lease in this cluster";
    assert_eq!(services(vec![], ""), [format!("{blocked}; {absent}")]);
    assert_eq!(services(vec![lease()], "cloud-controller-manager"), [""; 0]);
    assert_eq!(services(vec![lease(), deployment], "cloud-controller-manager").len(), 1, "it is deleted too");
}

#[test]
fn a_namespace_stays_until_every_api_group_answers() {
    let of_cluster = |kept: &str| {
        let mut snapshot = Snapshot::new(chrono::DateTime::UNIX_EPOCH, ClusterIdentity::default());
        let service = testing::object("apiregistration.k8s.io", "APIService", "", "v1beta1.metrics.k8s.io");
        snapshot.objects = vec![testing::object("", "Namespace", "", "shop"), service];
        snapshot.gaps = vec![Gap {
            kind: GapKind::StaleGroup,
            subject: "metrics.k8s.io/v1beta1".to_owned(),
            namespace: None,
            message: String::new(),
        }];
        blocked_in(snapshot, kept)
    };
    let waits = "shop by kubernetes; the namespace controller waits for an answer of metrics.k8s.io/v1beta1";
    assert_eq!(of_cluster("v1beta1.metrics.k8s.io"), [waits]);
    let nothing: [&str; 0] = [];
    assert_eq!(of_cluster("shop"), nothing);
    assert_eq!(of_cluster(""), nothing, "the group goes, too");
}
