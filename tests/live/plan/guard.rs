//! The guard on the real API server: the disaster that this project starts from is stopped, and runs once it is approved.
//! kustomize-controller acts as its service account, and as that of a tenant.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::rehearsal::DEPLOYMENT;
use serde_json::Value;
use test_support::cluster::{LIMIT, up};
use test_support::flux::settled;
use test_support::folder::folder;
use test_support::gitops::{Run, gitops};
use test_support::shared_cluster;
use test_support::tree_plan::{document, rows};
use xtask::cluster::{Cluster, Flux, Options};
use xtask::controlplane::bin;

/// User of the controller.
const CONTROLLER: &str = "system:serviceaccount:flux-system:kustomize-controller";

/// Namespace and service account of a tenant.
const TENANT: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: fleet}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: team, namespace: fleet}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: team, namespace: fleet}]
";

/// Returns a program that runs the controller as its service account.
fn controller() -> PathBuf {
    let program = folder("guard-controller").join("kustomize-controller.sh");
    let impersonation = format!(r"s/^    token:/    as: {CONTROLLER}\n    as-groups: [system:masters]\n    token:/");
    let script = format!(
        "#!/bin/sh\nsed '{impersonation}' \"$KUBECONFIG\" > \"$HOME/as.kubeconfig\"\n\
         KUBECONFIG=\"$HOME/as.kubeconfig\" exec {} \"$@\"\n",
        bin("kustomize-controller").display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    program
}

fn start() -> Cluster {
    let kustomize_controller = Some(controller());
    let cluster = up(Options { flux: Flux::Kustomize, whole: true, kustomize_controller, ..Options::default() });
    for manifests in [DEPLOYMENT, TENANT] {
        cluster.kubectl_stdin(&["apply", "-f", "-"], manifests).unwrap();
    }
    cluster
}

shared_cluster!(start);

fn kustomization(name: &str, path: &str, more: &str) -> String {
    format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: {name}, namespace: fleet}}\n\
         spec: {{interval: 10m, retryInterval: 2s, path: {path}, prune: true, \
         sourceRef: {{kind: GitRepository, name: src}}{more}}}\n"
    )
}

fn write(tree: &Path, path: &str, content: &str) {
    let path = tree.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

fn application(name: &str) -> String {
    let meta = format!("metadata: {{name: {name}, namespace: {name}}}");
    [
        format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n"),
        format!("apiVersion: v1\nkind: ConfigMap\n{meta}\ndata: {{a: b}}\n"),
        format!(
            "apiVersion: v1\nkind: PersistentVolumeClaim\n{meta}\nspec: {{accessModes: [ReadWriteOnce], \
             storageClassName: none, resources: {{requests: {{storage: 1Mi}}}}}}\n"
        ),
    ]
    .join("---\n")
}

/// Uids of what the disaster would delete.
fn uids(cluster: &Cluster) -> BTreeMap<String, String> {
    let kinds = "namespaces,configmaps,persistentvolumeclaims,kustomizations";
    let path = "jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.uid} {.metadata.namespace}{\"\\n\"}{end}";
    let list = cluster.kubectl(&["get", kinds, "-A", "-o", path]).unwrap();
    let names = ["billing", "web", "tenant"];
    let lines = list.lines().filter_map(|line| line.split_once(' '));
    let own = lines.filter(|(object, _)| names.iter().any(|name| object.ends_with(&format!("/{name}"))));
    own.map(|(object, uid)| (object.to_owned(), uid.to_owned())).collect()
}

fn plan(cluster: &Cluster, tree: &Path, more: &[&str]) -> Run {
    let source = format!("--source=GitRepository/fleet/src={}", tree.display());
    let kustomize = format!("--kustomize={}", bin("kubectl").display());
    gitops(cluster, &[&["plan", &source, &kustomize], more].concat())
}

/// Deletes an object as the controller, by a dry-run.
fn delete(cluster: &Cluster, object: &[&str]) -> Result<String, String> {
    let as_controller = ["--dry-run=server", "--as", CONTROLLER, "--as-group=system:masters"];
    cluster.kubectl(&[&["delete"], object, &as_controller].concat()).map_err(|error| format!("{error:#}"))
}

fn install(cluster: &Cluster, manifests: &str) {
    cluster.kubectl_stdin(&["apply", "--server-side", "-f", "-"], manifests).unwrap();
    // The API server takes policies and parameters into account some time after they are stored.
    std::thread::sleep(Duration::from_secs(5));
}

#[test]
fn a_guarded_cluster_loses_nothing_until_the_plan_is_approved() {
    let (cluster, tree) = (&cluster(), folder("guard"));
    write(&tree, "clusters/prod/applications.yaml", &kustomization("applications", "./apps", ""));
    write(&tree, "aps/README.md", "notes on the applications\n");
    for (name, more) in [("billing", ""), ("web", ""), ("tenant", ", serviceAccountName: team")] {
        write(&tree, &format!("apps/{name}.yaml"), &kustomization(name, &format!("./deploy/{name}"), more));
        write(&tree, &format!("deploy/{name}/all.yaml"), &application(name));
    }
    cluster.publish("GitRepository/fleet/src", &tree).unwrap();
    cluster.kubectl_stdin(&["apply", "-f", "-"], &kustomization("root", "./clusters/prod", "")).unwrap();
    cluster.wait_for("all applications", LIMIT, || Ok(uids(cluster).len() == 12)).unwrap();
    for owner in ["applications", "billing", "web", "tenant"] {
        settled(cluster, "fleet", owner);
    }
    let before = uids(cluster);

    // It is installed, and the API server finds no mistake in its expressions.
    let guard = gitops(cluster, &["guard"]);
    assert_eq!(guard.code, 0, "{guard}");
    for user in [CONTROLLER, "system:serviceaccount:fleet:team"] {
        assert!(guard.stdout.contains(&format!("\"{user}\"")) && guard.stderr.contains(user), "{guard}");
    }
    install(cluster, &guard.stdout);
    let checked = || {
        let path = "jsonpath={range .items[*]}{.status}{\"\\n\"}{end}";
        let states = cluster.kubectl(&["get", "validatingadmissionpolicies", "-o", path])?;
        let states: Vec<Value> = states.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let is_checked = |state: &Value| state["observedGeneration"] == 1 && state.get("typeChecking").is_some();
        if states.len() == 4 && states.iter().all(is_checked) {
            assert!(states.iter().all(|state| state["typeChecking"].get("expressionWarnings").is_none()), "{states:?}");
            return Ok(true);
        }
        Ok(false)
    };
    cluster.wait_for("the expressions to be checked", LIMIT, checked).unwrap();
    let check = gitops(cluster, &["guard", "--check"]);
    assert_eq!((check.code, &*check.stdout), (0, ""), "{check}");

    // The plan says that nothing goes, and nothing does.
    write(&tree, "clusters/prod/applications.yaml", &kustomization("applications", "./aps", ""));
    let kept = rows(&plan(cluster, &tree, &["-o", "json"]));
    for name in ["billing", "web", "tenant"] {
        let reason = &kept[&format!("keep Kustomization/{name}")];
        assert!(reason.contains("ValidatingAdmissionPolicy 'kubectl-gitops-guard-kinds'"), "{kept:?}");
    }
    assert!(kept.keys().all(|row| !row.starts_with("delete")), "{kept:?}");
    let approving = plan(cluster, &tree, &["-o", "vap"]);
    assert_eq!(approving.code, 6, "the alarm of the plan: {approving}");
    // Without dry-runs it approves the same.
    let offline = plan(cluster, &tree, &["--offline", "-o", "vap"]);
    assert_eq!(offline.code, 6, "the alarm of the plan: {offline}");
    let without_digest = |run: &Run| -> Vec<String> {
        run.stdout.lines().filter(|line| !line.contains("sha256:")).map(str::to_owned).collect()
    };
    assert_eq!(without_digest(&offline), without_digest(&approving), "{offline}");
    let approved = document(&plan(cluster, &tree, &["--as-approved", "-o", "json"]));
    let by_controller =
        approved["changes"].as_array().unwrap().iter().filter(|row| row["by"] == "kustomize-controller");
    assert_eq!(by_controller.filter(|row| row["action"] == "delete").count(), 12, "{approved}");
    cluster.publish("GitRepository/fleet/src", &tree).unwrap();
    let message = "jsonpath={.status.conditions[?(@.type==\"Ready\")].message}";
    let refused = || {
        let state = cluster.kubectl(&["get", "kustomization", "applications", "-n", "fleet", "-o", message])?;
        Ok(state.contains("kubectl-gitops-guard-kinds"))
    };
    cluster.wait_for("the controller to be refused", LIMIT, refused).unwrap();
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(uids(cluster), before, "the controller deletes nothing");

    // Approved, it runs: the controller tries again.
    install(cluster, &approving.stdout);
    cluster.wait_for("the approved deletions", LIMIT, || Ok(uids(cluster).is_empty())).unwrap();
    let check = gitops(cluster, &["guard", "--check"]);
    assert_eq!(check.code, 1, "the tenant is gone: {check}");
    assert_eq!(check.stdout.lines().filter(|line| line.contains("differs from what this cluster needs")).count(), 4);
    annotations_end_and_marked_objects_need_approvals(cluster);
    what_goes_round_a_single_deletion_is_refused_too(cluster);
}

fn annotations_end_and_marked_objects_need_approvals(cluster: &Cluster) {
    let guard = gitops(cluster, &["guard", "--for-user", "somebody"]);
    assert_eq!(guard.code, 0, "{guard}");
    install(cluster, &guard.stdout);
    cluster.kubectl(&["create", "namespace", "later"]).unwrap();
    let refused = delete(cluster, &["namespace", "later"]).unwrap_err();
    assert!(refused.contains("needs an approval to delete it: no plan approves uid "), "{refused}");
    cluster.kubectl(&["delete", "namespace", "later", "--dry-run=server"]).unwrap();
    for (until, expected) in [
        ("2020-01-01T00:00:00Z", Some("the one by annotation ended at 2020-01-01T00:00:00Z")),
        ("tomorrow", Some("no plan approves uid")),
        ("2999-01-01T00:00:00Z", None),
    ] {
        let annotation = format!("kubectl-gitops/deletion-approved-until={until}");
        cluster.kubectl(&["annotate", "--overwrite", "namespace", "later", &annotation]).unwrap();
        let answer = delete(cluster, &["namespace", "later"]);
        match expected {
            Some(message) => assert!(answer.as_ref().is_err_and(|why| why.contains(message)), "{until}: {answer:?}"),
            None => assert!(answer.is_ok(), "{until}: {answer:?}"),
        }
    }
    cluster.kubectl(&["create", "configmap", "marked", "-n", "later"]).unwrap();
    delete(cluster, &["configmap", "marked", "-n", "later"]).unwrap();
    cluster.kubectl(&["label", "configmap", "marked", "-n", "later", "kubectl-gitops/guard=true"]).unwrap();
    let refused = delete(cluster, &["configmap", "marked", "-n", "later"]).unwrap_err();
    assert!(refused.contains("'kubectl-gitops-guard-marked'"), "{refused}");
    // The ConfigMap with the approvals is marked.
    assert!(delete(cluster, &["configmap", "kubectl-gitops-guard", "-n", "kube-system"]).is_err());
    cluster
        .kubectl(&[
            "annotate",
            "--overwrite",
            "namespace",
            "later",
            "kubectl-gitops/deletion-approved-until=2020-01-01T00:00:00Z",
        ])
        .unwrap();
    let check = gitops(cluster, &["guard", "--check", "--for-user", "somebody"]);
    let over = "the approval to delete namespace/later ended at 2020-01-01T00:00:00Z";
    assert!(check.code == 1 && check.stdout.contains(over), "{check}");
}

/// Sends a request as a user of Kubernetes with all rights.
fn delete_raw(cluster: &Cluster, user: &str, path: &str) -> Result<String, String> {
    let words = ["delete", "--raw", path, "--as", user, "--as-group=system:masters"];
    cluster.kubectl(&words).map_err(|error| format!("{error:#}"))
}

/// Collections, other accounts of controllers, and finalizers.
fn what_goes_round_a_single_deletion_is_refused_too(cluster: &Cluster) {
    cluster.kubectl(&["create", "namespace", "attacked"]).unwrap();
    for name in ["one", "two"] {
        cluster.kubectl_stdin(&["apply", "-n", "attacked", "-f", "-"], &kustomization_of(name)).unwrap();
        cluster.kubectl_stdin(&["apply", "-n", "attacked", "-f", "-"], &claim(name)).unwrap();
    }
    cluster.kubectl(&["create", "configmap", "marked", "-n", "attacked"]).unwrap();
    cluster.kubectl(&["label", "configmap", "marked", "-n", "attacked", "kubectl-gitops/guard="]).unwrap();
    // A controller whose Pods run with an account of another name, and one that names none.
    for shard in [shard("one", "serviceAccountName: applier, "), shard("two", "")] {
        cluster.kubectl_stdin(&["apply", "-f", "-"], &shard).unwrap();
    }
    let guard = gitops(cluster, &["guard", "--for-user", CONTROLLER]);
    assert_eq!(guard.code, 0, "{guard}");
    install(cluster, &guard.stdout);
    let refused = |user: &str, path: &str| {
        let answer = delete_raw(cluster, user, path);
        let is_refused = answer.as_ref().is_err_and(|why| why.contains("needs an approval to delete it"));
        assert!(is_refused, "{user} {path}: {answer:?}\n{}", guard.stdout);
    };
    let claims = "/api/v1/namespaces/attacked/persistentvolumeclaims";
    let owners = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/attacked/kustomizations";
    for user in [CONTROLLER, "system:serviceaccount:flux-system:applier", "system:serviceaccount:flux-system:default"] {
        for path in [claims, owners, "/api/v1/namespaces/attacked/configmaps"] {
            refused(user, &format!("{path}?labelSelector="));
        }
        refused(user, "/api/v1/namespaces/attacked?gracePeriodSeconds=0&propagationPolicy=Orphan");
        refused(user, &format!("{claims}/one?dryRun=All"));
    }
    let left = cluster.kubectl(&["get", "pvc,ks,cm", "-n", "attacked", "-o", "name"]).unwrap();
    for name in ["claim/one", "claim/two", "fluxcd.io/one", "fluxcd.io/two", "configmap/marked"] {
        assert!(left.contains(name), "{left}");
    }
    // Others may: a person, the garbage collector.
    delete_raw(cluster, "admin", &format!("{claims}/one?dryRun=All")).unwrap();
    a_namespace_with_finalizers_needs_one_approval(cluster);
}

/// An approval is about one uid, and what is being deleted already may be deleted again.
fn a_namespace_with_finalizers_needs_one_approval(cluster: &Cluster) {
    cluster.kubectl(&["create", "namespace", "held"]).unwrap();
    cluster.kubectl(&["create", "configmap", "holder", "-n", "held"]).unwrap();
    let hold = r#"{"metadata":{"finalizers":["example.com/held"]}}"#;
    let patch = |finalizers: &str| {
        cluster.kubectl(&["patch", "configmap", "holder", "-n", "held", "--type=merge", "-p", finalizers]).unwrap();
    };
    patch(hold);
    let approve = |uid: &str| {
        let data = format!("{{\"data\":{{\"{uid}\":\"namespace/held\"}}}}");
        let config = ["patch", "configmap", "kubectl-gitops-guard", "-n", "kube-system", "--type=merge", "-p", &data];
        cluster.kubectl(&config).unwrap();
        std::thread::sleep(Duration::from_secs(2));
    };
    let uid = || cluster.kubectl(&["get", "namespace", "held", "-o", "jsonpath={.metadata.uid}"]).unwrap();
    let held = "/api/v1/namespaces/held";
    assert!(delete_raw(cluster, CONTROLLER, held).is_err());
    let first = uid();
    approve(&first);
    for _ in 0..2 {
        delete_raw(cluster, CONTROLLER, held).unwrap();
    }
    let terminating = || {
        cluster.kubectl(&["get", "configmap", "holder", "-n", "held", "-o", "jsonpath={.metadata.deletionTimestamp}"])
    };
    cluster.wait_for("the deletion of the content", LIMIT, || Ok(!terminating()?.is_empty())).unwrap();
    patch(r#"{"metadata":{"finalizers":null}}"#);
    let gone = || Ok(cluster.kubectl(&["get", "namespace", "held", "--ignore-not-found", "-o", "name"])?.is_empty());
    cluster.wait_for("the namespace to go", LIMIT, gone).unwrap();
    // One that is made again under the same name has another uid.
    cluster.kubectl(&["create", "namespace", "held"]).unwrap();
    assert_ne!(uid(), first);
    assert!(delete_raw(cluster, CONTROLLER, held).is_err());
}

/// Returns a Deployment of the controller without Pods.
fn shard(name: &str, account: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: kustomize-controller-{name}, namespace: flux-system}}\n\
         spec: {{replicas: 0, selector: {{matchLabels: {{app: {name}}}}}, template: {{metadata: {{labels: {{app: {name}}}}}, \
         spec: {{{account}containers: [{{name: manager, image: 'ghcr.io/fluxcd/kustomize-controller:v1.9.5'}}]}}}}}}\n"
    )
}

fn kustomization_of(name: &str) -> String {
    kustomization(name, "./none", ", suspend: true").replace("namespace: fleet", "namespace: attacked")
}

fn claim(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: {name}, namespace: attacked}}\nspec: {{accessModes: \
         [ReadWriteOnce], storageClassName: none, resources: {{requests: {{storage: 1Mi}}}}}}\n"
    )
}
