//! Two attacks of a tenant on an administrator's `prune`, on the real API server with its RBAC: he makes an owner in his own
//! namespace whose name an object of somebody else carries (docs/safety.md, what others can write).

use serde_json::{Value, json};
use test_support::cluster::{LIMIT, up};
use test_support::gitops::gitops;
use test_support::shared_cluster;
use xtask::cluster::{Cluster, Options};

/// A tenant, who may write everything in his own namespace `tenant-a`, and nothing elsewhere.
const TENANT: &str = "--as=tenant-a";

const OBJECTS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: applications.argoproj.io}
spec:
  group: argoproj.io
  scope: Namespaced
  names: {kind: Application, plural: applications}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Namespace
metadata: {name: tenant-a}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: everything, namespace: tenant-a}
rules:
- {apiGroups: ['*'], resources: ['*'], verbs: ['*']}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: everything, namespace: tenant-a}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: everything}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: tenant-a}
";

fn start() -> Cluster {
    let cluster = up(Options::default());
    cluster.kubectl_stdin(&["apply", "-f", "-"], OBJECTS).unwrap();
    let established = ["wait", "crd/applications.argoproj.io", "--for=condition=Established", "--timeout=60s"];
    cluster.kubectl(&established).unwrap();
    let may_write =
        || Ok(cluster.kubectl(&["auth", "can-i", "create", "configmaps", "-n", "tenant-a", TENANT]).is_ok());
    cluster.wait_for("the role", LIMIT, may_write).unwrap();
    cluster
}

shared_cluster!(start);

/// Creates an object of the tenant.
fn create_as_tenant(cluster: &Cluster, object: &Value) {
    cluster.kubectl_stdin(&["create", TENANT, "-f", "-"], &object.to_string()).unwrap();
}

/// Creates a ConfigMap of the shop with an annotation, as a system writes it.
fn create_in_shop(cluster: &Cluster, name: &str, manager: &str, annotation: (&str, &str)) {
    let (key, value) = annotation;
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "shop", "annotations": {key: value}}});
    let apply = ["apply", "--server-side", &format!("--field-manager={manager}"), "-f", "-"];
    cluster.kubectl_stdin(&apply, &object.to_string()).unwrap();
    let may_delete = cluster.kubectl(&["auth", "can-i", "delete", &format!("configmap/{name}"), "-n", "shop", TENANT]);
    assert!(may_delete.is_err(), "the tenant cannot delete {name} himself");
}

/// Returns action and code of the row of a ConfigMap of the shop.
fn row(cluster: &Cluster, name: &str, more: &[&str]) -> String {
    let run = gitops(cluster, &[&["prune", "--plan", "-o", "json", "--max-percent=100"][..], more].concat());
    let plan: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run}"));
    let mut rows = plan["changes"].as_array().unwrap().iter();
    let row = rows.find(|row| row["object"]["name"] == name && row["object"]["namespace"] == "shop");
    let text = |row: &Value| format!("{} {}", row["action"].as_str().unwrap(), row["reason"]["code"].as_str().unwrap());
    row.map(text).unwrap_or_default()
}

#[test]
fn an_application_of_a_tenant_deletes_nothing_of_the_shop() {
    let cluster = &cluster();
    create_in_shop(
        cluster,
        "tracked",
        "argocd-controller",
        ("argocd.argoproj.io/tracking-id", "web:/ConfigMap:shop/tracked"),
    );
    assert_eq!(row(cluster, "tracked", &[]), "keep orphaned");
    let application = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": "web", "namespace": "tenant-a"},
        "spec": {"destination": {"server": "https://kubernetes.default.svc"}},
        "status": {"resources": [], "sync": {"status": "Synced"}, "health": {"status": "Healthy"}}});
    create_as_tenant(cluster, &application);
    for more in [&[][..], &["--include", "orphaned"]] {
        assert_eq!(row(cluster, "tracked", more), "keep owner-untrusted", "{more:?}");
    }
}

#[test]
fn an_inventory_with_a_copied_id_deletes_nothing_of_the_shop() {
    let cluster = &cluster();
    let inventory = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "inventory", "namespace": "tenant-a",
            "labels": {"cli-utils.sigs.k8s.io/inventory-id": "shop-1"}}});
    create_as_tenant(cluster, &inventory);
    create_in_shop(cluster, "owned", "kpt", ("config.k8s.io/owning-inventory", "shop-1"));
    for more in [&[][..], &["--include", "orphaned"]] {
        assert_eq!(row(cluster, "owned", more), "keep owner-untrusted", "{more:?}");
    }
}
