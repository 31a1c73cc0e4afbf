//! Deletion of owners other than Kustomizations: what their finalizers delete.

use serde_json::{Value, json};

use super::cluster::{Files, NS, TestCluster, cm, ks, set};
use super::unfollowed::{cluster, operator, release};
use crate::ownership::schemes::flux_operator;
use crate::plan::Plan;

const GONE: &str = "root/x.yaml";

fn before(owner: Value) -> Files {
    vec![(GONE, vec![cm("x")]), ("root/a.yaml", vec![owner])]
}

fn after() -> Files {
    vec![(GONE, vec![cm("x")])]
}

/// Returns a cluster with a ResourceSet that made the Kustomization `child`, which applied the ConfigMap `deep`, and the
/// ConfigMap `web`.
fn with_set(annotations: Value, spec: Value) -> TestCluster {
    let mut owner = operator("ResourceSet", "set", spec);
    owner["metadata"]["annotations"] = annotations;
    let files = before(owner);
    let mut cluster = cluster(&files, true);
    let applied = super::cluster::artifact(&vec![("deep/a.yaml", vec![cm("deep")])]);
    cluster.apply(&ks("child", "./deep", json!({})), None, &applied);
    cluster.add(&cm("web"), None);
    let labels = || flux_operator::SET.into_iter().zip(["set", "flux-system"]).collect();
    cluster.object("child").labels = labels();
    cluster.object("web").labels = labels();
    let child = "flux-system_child_kustomize.toolkit.fluxcd.io_Kustomization";
    let entries = ["flux-system_web__ConfigMap", child].map(|id| json!({"id": id, "v": "v1"}));
    cluster.kustomization("set").content["status"]["inventory"]["entries"] = json!(entries);
    cluster.snapshot.normalise();
    cluster
}

fn messages(plan: &Plan) -> Vec<String> {
    plan.gaps().iter().map(|gap| gap.message.clone()).collect()
}

#[test]
fn a_deleted_resource_set_deletes_its_inventory_and_what_is_below_it() {
    let cluster = with_set(json!({}), json!({}));
    assert_eq!(cluster.rows(&after()), set(&["delete set", "delete web", "delete child", "delete deep"]));
    let plan = cluster.plan(&after());
    assert_eq!(messages(&plan), [""; 0]);
    let row = plan.changes().iter().find(|change| &*change.object.id.name == "web").unwrap();
    assert_eq!(
        (row.owner.as_ref().unwrap().kind.as_str(), row.reason.to_string()),
        ("ResourceSet", "owner-deleted".into())
    );
    assert_eq!(serde_json::to_value(row.by).unwrap(), "flux-operator");
}

#[test]
fn a_resource_set_leaves_what_is_protected_or_not_its_own() {
    let mut cluster = with_set(json!({}), json!({}));
    cluster.object("web").annotations = [("fluxcd.controlplane.io/prune", "disabled")].into_iter().collect();
    cluster.object("child").labels = Default::default();
    assert_eq!(cluster.rows(&after()), set(&["delete set"]));
    let disabled = with_set(json!({"fluxcd.controlplane.io/reconcile": "disabled"}), json!({}));
    assert_eq!(disabled.rows(&after()), set(&["delete set"]));
    let without_account = with_set(json!({}), json!({"serviceAccountName": "missing"}));
    assert_eq!(without_account.rows(&after()), set(&["delete set"]));
}

#[test]
fn children_of_a_changed_resource_set_are_unknown() {
    let cluster = with_set(json!({}), json!({}));
    let mut changed = operator("ResourceSet", "set", json!({"inputs": [1]}));
    changed["metadata"]["annotations"] = json!({});
    let plan = cluster.plan(&before(changed));
    let row = plan.owners().iter().find(|row| row.owner.name == "child").unwrap();
    assert!(row.reason.to_string().starts_with("parent-unknown: resourceset/set -n flux-system"), "{}", row.reason);
}

#[test]
fn a_deleted_release_without_a_readable_inventory_is_a_gap() {
    let cluster_with = |inventory: Value, spec: Value| {
        let mut cluster = cluster(&before(release(spec)), true);
        cluster.kustomization("app").content["status"]["inventory"] = inventory;
        cluster.add(&super::releases::record(), None);
        let config = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "spoke", "namespace": NS}});
        cluster.add(&config, None);
        cluster.snapshot.normalise();
        messages(&cluster.plan(&after()))
    };
    let listed = json!({"entries": [{"id": "flux-system_web__ConfigMap", "v": "v1"}]});
    assert_eq!(cluster_with(listed.clone(), json!({})), [""; 0]);
    assert_eq!(cluster_with(Value::Null, json!({"suspend": true})), [""; 0]);
    assert!(cluster_with(Value::Null, json!({}))[0].ends_with("it records no inventory"));
    let remote = cluster_with(listed, json!({"kubeConfig": {"secretRef": {"name": "spoke"}}}));
    assert!(remote[0].ends_with("its release of 1 object in another cluster is uninstalled"), "{remote:?}");
    let listed = json!({"entries": [{"id": "flux-system_web__ConfigMap", "v": "v1"}]});
    let without = cluster_with(listed, json!({"kubeConfig": {"secretRef": {"name": "missing"}}}));
    assert_eq!(without, [""; 0], "helm-controller uninstalls nothing without the kubeconfig");
    assert_eq!(cluster_with(json!({"entries": [{"id": "absurd"}]}), json!({})).len(), 1);
}

#[test]
fn a_deleted_flux_instance_is_a_gap() {
    let cluster = cluster(&before(operator("FluxInstance", "flux", json!({}))), true);
    assert!(messages(&cluster.plan(&after()))[0].contains("flux-operator uninstalls Flux"));
}

#[test]
fn a_deleted_kustomization_on_another_cluster_is_a_gap() {
    let remote = |more: Value| {
        let mut spec = json!({"kubeConfig": {"secretRef": {"name": "spoke"}}});
        more.as_object().unwrap().iter().for_each(|(key, value)| spec[key] = value.clone());
        let mut files = before(ks("k", "./k", spec));
        files.push(("k/a.yaml", vec![cm("a")]));
        messages(&cluster(&files, true).plan(&after()))
    };
    assert_eq!(remote(json!({})).len(), 1);
    assert_eq!(remote(json!({"prune": false})), [""; 0]);
}

#[test]
fn a_release_that_waits_for_its_finalizer_is_uninstalled_once_a_rule_changes() {
    let mut cluster = cluster(&after(), true);
    cluster.add_with_content(&release(json!({})), None, super::unfollowed::status());
    cluster.add(&cm("web"), None);
    cluster.add(&super::releases::record(), None);
    let live = &mut cluster.kustomization("app").object;
    (live.deletion_timestamp, live.finalizers) =
        (Some(chrono::DateTime::UNIX_EPOCH), vec!["finalizers.fluxcd.io".into()]);
    let waiting = live.clone();
    *cluster.object("app") = waiting;
    cluster.snapshot.normalise();
    let with = |more: Value| [after(), vec![("root/more.yaml", vec![more])]].concat();
    assert_eq!(cluster.rows(&with(cm("y"))), set(&[]), "nothing lets it succeed");
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "more", "namespace": super::cluster::NS}});
    assert_eq!(cluster.rows(&with(account)), set(&["delete? web", "delete? sh.helm.release.v1.app.v1"]));
}
