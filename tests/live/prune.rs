//! `prune` against the real API server and the real kustomize-controller.

use std::sync::Arc;

use serde_json::Value;
use test_support::cluster::with_kustomize_controller;
use test_support::flux::{self, deploy};
use test_support::folder::folder;
use test_support::gitops::{Run, gitops, gitops_as, gitops_typing};
use test_support::shared_cluster;
use xtask::cluster::Cluster;

// The cluster of these tests, with kustomize-controller and an audit log.
shared_cluster!(with_kustomize_controller);

/// A namespace whose Kustomization has `count` ConfigMaps, of which the last is leaked.
fn with_leak(name: &str, count: usize) -> Arc<Cluster> {
    let shared = cluster();
    let cluster = &shared;
    let tree = folder(name);
    flux::config_maps(&tree, count);
    deploy(cluster, name, &tree);
    flux::leak(cluster, name, &tree, count - 1);
    shared
}

fn config_maps(cluster: &Cluster, namespace: &str) -> usize {
    let names = cluster.kubectl(&["get", "configmaps", "-n", namespace, "-o", "name"]).unwrap();
    names.lines().filter(|name| name.contains("/cm-")).count()
}

fn deletions(run: &Run) -> Vec<String> {
    let plan: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(plan["schema"], "kubectl-gitops/plan/v1");
    let rows = plan["changes"].as_array().unwrap().iter().filter(|row| row["action"] == "delete");
    rows.map(|row| row["object"]["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn leaked_objects_are_planned_then_deleted_with_yes_only() {
    let cluster = &with_leak("story", 12);
    let plan = gitops(cluster, &["prune", "--plan", "-n", "story", "-o", "json"]);
    assert_eq!((plan.code, deletions(&plan)), (0, vec!["cm-11".to_owned()]), "{}", plan.stderr);

    let detailed = gitops(cluster, &["prune", "--plan", "-n", "story", "--detailed-exitcode"]);
    assert_eq!(detailed.code, 3);

    let refused = gitops(cluster, &["prune", "-n", "story"]);
    assert_eq!(refused.code, 6);
    assert!(refused.stderr.contains("no terminal to confirm 1 object on"), "{}", refused.stderr);
    assert!(refused.stderr.contains("hint: review with --plan, then pass --yes"), "{}", refused.stderr);
    assert_eq!(config_maps(cluster, "story"), 12, "nothing was deleted");

    let done = gitops(cluster, &["prune", "-n", "story", "--yes"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(done.stdout.contains("configmap/cm-11 -n story deleted"), "{}", done.stdout);
    assert_eq!(config_maps(cluster, "story"), 11, "exactly one was deleted");

    let again = gitops(cluster, &["prune", "-n", "story", "--yes"]);
    assert_eq!((again.code, again.stderr.as_str()), (0, "nothing to prune\n"));
}

#[test]
fn a_policy_denies_a_prune_before_anything_is_deleted() {
    let cluster = &with_leak("policy", 12);
    cluster.kubectl(&["label", "configmap", "cm-11", "-n", "policy", "example.com/team=shop"]).unwrap();
    let files = folder("policy-files");
    let policy = |deny: &str| {
        let rule =
            serde_json::json!({"name": "labelled", "each": "changes", "deny": deny, "message": "it is labelled"});
        let file = files.join("policy.yaml");
        std::fs::write(&file, serde_json::json!({"rules": [rule]}).to_string()).unwrap();
        file.display().to_string()
    };
    let denying = policy("change.action == 'delete' && labels['example.com/team'] == 'shop'");
    let out = files.join("plan.json");
    let run = |more: &[&str]| gitops(cluster, &[&["prune", "-n", "policy", "--policy", &denying][..], more].concat());
    for more in [&["--yes"][..], &["--plan", "--out", out.to_str().unwrap()]] {
        let denied = run(more);
        let message = "error: denied by rule \"labelled\": it is labelled: configmap/cm-11 -n policy\n";
        assert!(denied.code == 6 && denied.stderr.contains(message), "{denied}");
    }
    assert!(!out.exists(), "a denied plan is not written");
    policy("change.owner.nothing == 'x'");
    let broken = run(&["--yes"]);
    assert!(
        broken.code == 1 && broken.stderr.contains("cannot be evaluated for configmap/cm-11 -n policy"),
        "{broken}"
    );
    assert_eq!(config_maps(cluster, "policy"), 12, "nothing was deleted");
    policy("change.action == 'delete' && !('example.com/team' in labels)");
    assert_eq!((run(&["--yes"]).code, config_maps(cluster, "policy")), (0, 11));
}

#[test]
fn a_no_at_the_prompt_deletes_nothing_and_a_yes_deletes() {
    let cluster = &with_leak("asked", 12);
    let no = gitops_typing(cluster, &["prune", "-n", "asked"], "n");
    assert_eq!(no.code, 4, "{}", no.stdout);
    assert!(no.stdout.contains("cancelled: nothing was deleted"), "{}", no.stdout);
    assert_eq!(config_maps(cluster, "asked"), 12);
    let yes = gitops_typing(cluster, &["prune", "-n", "asked"], "y");
    assert_eq!(yes.code, 0, "{}", yes.stdout);
    assert_eq!(config_maps(cluster, "asked"), 11);
}

#[test]
fn a_plan_sends_two_discovery_requests_one_list_per_type_and_no_write() {
    let cluster = &cluster();
    let agent = "gitops-prune/";
    // Other tests run beside this one, so this one uses an identity of its own: bob, who may read everything.
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: reads-all}\n\
                rules: [{apiGroups: ['*'], resources: ['*'], verbs: [get, list]}]\n";
    cluster.kubectl_stdin(&["apply", "-f", "-"], role).unwrap();
    let _ = cluster.kubectl(&["create", "clusterrolebinding", "bob-reads", "--clusterrole=reads-all", "--user=bob"]);
    let before = cluster.requests_of("bob", agent).unwrap().len();
    let plan = gitops_as(&cluster.kubeconfig_for("bob"), &["prune", "--plan"]);
    assert!([0, 6].contains(&plan.code), "what other tests leak may exceed a limit: {}", plan.stderr);
    let requests = cluster.requests_of("bob", agent).unwrap().split_off(before);
    let writes: Vec<_> = requests.iter().filter(|request| request.writes()).collect();
    assert!(writes.is_empty(), "{writes:?}");
    let discovery = requests.iter().filter(|request| matches!(request.uri.as_str(), "/api" | "/apis")).count();
    assert_eq!(discovery, 2);
    let lists: Vec<_> = requests.iter().filter(|request| request.verb == "list").collect();
    let mut paths: Vec<&str> = lists.iter().map(|request| request.uri.split('?').next().unwrap()).collect();
    paths.sort_unstable();
    let total = paths.len();
    paths.dedup();
    let twice: Vec<&str> = vec![
        "kustomizations",
        "gitrepositories",
        "ocirepositories",
        "buckets",
        "helmrepositories",
        "helmcharts",
        "externalartifacts",
    ];
    assert_eq!(total - paths.len(), twice.len(), "owners and sources are read a second time, with content: {paths:?}");
    assert_eq!(requests.len(), 2 + total, "nothing else is asked: {requests:#?}");
}

#[test]
fn a_reviewed_plan_deletes_what_still_qualifies_by_uid() {
    let cluster = &with_leak("reviewed", 12);
    let file = folder("reviewed-plan").join("plan.json");
    let file = file.to_str().unwrap();
    assert_eq!(gitops(cluster, &["prune", "--plan", "-n", "reviewed", "--out", file]).code, 0);
    let manifest = cluster
        .kubectl(&["get", "configmap", "cm-11", "-n", "reviewed", "-o", "yaml", "--show-managed-fields"])
        .unwrap();
    cluster.kubectl(&["delete", "configmap", "cm-11", "-n", "reviewed"]).unwrap();
    cluster.kubectl_stdin(&["create", "-f", "-"], &manifest).unwrap();
    let run = gitops(cluster, &["prune", "--apply", file, "-n", "reviewed", "--yes"]);
    assert_eq!(config_maps(cluster, "reviewed"), 12, "another object of the same name was not reviewed: {run:?}");
}

#[test]
fn objects_held_by_finalizers_are_named_and_the_exit_code_says_partly() {
    let cluster = &with_leak("held", 12);
    let patch = r#"{"metadata":{"finalizers":["example.com/held"]}}"#;
    cluster.kubectl(&["patch", "configmap", "cm-11", "-n", "held", "--type=merge", "-p", patch]).unwrap();
    let run = gitops(cluster, &["prune", "-n", "held", "--yes", "--timeout=1s"]);
    let warning = "warning: configmap/cm-11 -n held will stay terminating until a controller removes example.com/held";
    assert!(run.stderr.contains(warning), "{}", run.stderr);
    assert_eq!(run.code, 5, "{run:?}");
    assert!(run.stdout.contains("cm-11 -n held is still terminating, held by example.com/held"), "{}", run.stdout);
    let finalizers =
        cluster.kubectl(&["get", "configmap", "cm-11", "-n", "held", "-o", "jsonpath={.metadata.finalizers}"]).unwrap();
    assert!(finalizers.contains("example.com/held"), "finalizers are never stripped");
    let patch = r#"{"metadata":{"finalizers":null}}"#;
    cluster.kubectl(&["patch", "configmap", "cm-11", "-n", "held", "--type=merge", "-p", patch]).unwrap();
}

#[test]
fn a_refusal_of_the_server_is_found_before_the_first_deletion() {
    let cluster = &with_leak("refusing", 12);
    // alice may read everything and delete nothing.
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: alice-reads}\n\
                rules: [{apiGroups: ['*'], resources: ['*'], verbs: [get, list]}]\n";
    cluster.kubectl_stdin(&["apply", "-f", "-"], role).unwrap();
    let _ =
        cluster.kubectl(&["create", "clusterrolebinding", "alice-reads", "--clusterrole=alice-reads", "--user=alice"]);
    let run = gitops_as(&cluster.kubeconfig_for("alice"), &["prune", "-n", "refusing", "--yes"]);
    assert_eq!(run.code, 6, "{run:?}");
    let missing = "error: refused, nothing was deleted: you may not delete configmaps in namespace refusing (1 object)";
    assert!(run.stderr.contains(missing), "{}", run.stderr);
    assert_eq!(config_maps(cluster, "refusing"), 12);
}
