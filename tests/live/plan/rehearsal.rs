//! Rights and policies in plans without `--diff`, against what the real controller then does.

use serde_json::Value;
use test_support::cluster::{LIMIT, with_kustomize_controller};
use test_support::flux::{deploy, publish};
use test_support::folder::folder;
use test_support::gitops::{Run, gitops_as};
use test_support::shared_cluster;
use test_support::tree_plan::{arguments, document, plan, rows};
use xtask::cluster::Cluster;

/// The controller's Deployment and service account, as Flux installs them. The controller itself runs elsewhere.
pub(super) const DEPLOYMENT: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: kustomize-controller, namespace: flux-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: kustomize-controller}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: kustomize-controller, namespace: flux-system}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: kustomize-controller, namespace: flux-system}
spec:
  replicas: 0
  selector: {matchLabels: {app: kustomize-controller}}
  template:
    metadata: {labels: {app: kustomize-controller}}
    spec:
      serviceAccountName: kustomize-controller
      containers: [{name: manager, image: 'ghcr.io/fluxcd/kustomize-controller:v1.9.5'}]
";

/// Users without rights of their own to change anything: carol may impersonate, bob may ask about rights, alice neither.
const USERS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules: [{apiGroups: ['*'], resources: ['*'], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: bob}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: carol}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: impersonator}
rules: [{apiGroups: [''], resources: [serviceaccounts], verbs: [impersonate]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: impersonator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: impersonator}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: carol}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: rehearser}
rules:
- {apiGroups: [authorization.k8s.io], resources: [subjectaccessreviews], verbs: [create]}
- {apiGroups: ['*'], resources: ['*'], verbs: [patch, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: rehearser}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: rehearser}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: bob}]
";

fn start() -> Cluster {
    let cluster = with_kustomize_controller();
    for manifests in [DEPLOYMENT, USERS] {
        cluster.kubectl_stdin(&["apply", "-f", "-"], manifests).unwrap();
    }
    cluster
}

shared_cluster!(start);

/// A service account that may do everything but delete.
fn team(namespace: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: team, namespace: {namespace}}}\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {{name: team, namespace: {namespace}}}\n\
         rules: [{{apiGroups: ['*'], resources: ['*'], verbs: [get, list, create, patch]}}]\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {{name: team, namespace: {namespace}}}\n\
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: team}}\n\
         subjects: [{{kind: ServiceAccount, name: team, namespace: {namespace}}}]\n"
    )
}

fn plan_as(cluster: &Cluster, user: &str, namespace: &str, tree: &std::path::Path) -> Run {
    let words = arguments(namespace, tree, &["--max-percent=100"]);
    gitops_as(&cluster.kubeconfig_for(user), &words.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn a_service_account_without_the_right_to_delete_leaves_its_kustomization_terminating() {
    let (cluster, namespace, tree) = (&cluster(), "stuck", folder("rehearsal-stuck"));
    let map =
        |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {namespace}}}\n");
    let child = format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: child, namespace: {namespace}}}\n\
         spec: {{interval: 1h, path: ./child, prune: true, serviceAccountName: team, sourceRef: {{kind: GitRepository, name: src}}}}\n"
    );
    cluster.kubectl(&["create", "namespace", namespace]).unwrap();
    cluster.kubectl_stdin(&["apply", "-f", "-"], &team(namespace)).unwrap();
    std::fs::create_dir(tree.join("child")).unwrap();
    std::fs::write(tree.join("child/held.yaml"), map("held")).unwrap();
    std::fs::write(tree.join("kustomization.yaml"), "resources: [child.yaml, other.yaml]\n").unwrap();
    std::fs::write(tree.join("child.yaml"), child).unwrap();
    std::fs::write(tree.join("other.yaml"), map("other")).unwrap();
    deploy(cluster, namespace, &tree);
    test_support::flux::settled(cluster, namespace, "child");
    std::fs::write(tree.join("kustomization.yaml"), "resources: [other.yaml]\n").unwrap();

    let run = plan(cluster, namespace, &tree, &["--max-percent=100"]);
    let document = document(&run);
    let found = rows(&run);
    assert!(found["keep ConfigMap/held"].starts_with("deletion-refused: "), "{run}");
    assert!(found["keep ConfigMap/held"].contains("system:serviceaccount:stuck:team"), "{run}");
    assert!(found.contains_key("delete Kustomization/child"), "{run}");
    let stuck: Vec<&Value> =
        document["blockedByFinalizers"].as_array().unwrap().iter().map(|row| &row["object"]["name"]).collect();
    assert_eq!(stuck, ["child"], "{run}");
    assert_eq!((run.code, &document["rehearsed"]), (0, &Value::Bool(true)), "{run}");
    // Who may impersonate and who may ask about rights get the same plan.
    for user in ["carol", "bob"] {
        let other = plan_as(cluster, user, namespace, &tree);
        assert_eq!(
            (other.code, rows(&other).keys().collect::<Vec<_>>()),
            (0, found.keys().collect()),
            "{user}: {other}"
        );
    }
    let alice = plan_as(cluster, "alice", namespace, &tree);
    assert_eq!(alice.code, 5, "{alice}");
    assert!(alice.stderr.contains("the rights of serviceaccount/team -n stuck"), "{alice}");

    publish(cluster, namespace, &tree);
    let message = "jsonpath={.metadata.deletionTimestamp} {.status.conditions[?(@.type==\"Ready\")].message}";
    let terminating = || {
        let state = cluster.kubectl(&["get", "kustomization", "child", "-n", namespace, "-o", message])?;
        Ok(!state.starts_with(' '))
    };
    cluster.wait_for("the child to be deleted", LIMIT, terminating).unwrap();
    std::thread::sleep(std::time::Duration::from_secs(5));
    let left = cluster.kubectl(&["get", "kustomization,configmap", "-n", namespace, "-o", "name"]).unwrap();
    assert!(left.contains("/child") && left.contains("/held"), "{left}");
    let unblock = [
        "patch",
        "kustomization",
        "child",
        "-n",
        namespace,
        "--type=merge",
        "-p",
        r#"{"metadata":{"finalizers":null}}"#,
    ];
    cluster.kubectl(&unblock).unwrap();
}
