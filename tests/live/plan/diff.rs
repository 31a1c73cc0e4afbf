//! Dry-runs of `prune --plan`, and the differences of `--diff`, against the real API server, and against what the real controller then does.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use test_support::cluster::{LIMIT, with_kustomize_controller};
use test_support::flux::{self, deploy, publish};
use test_support::folder::folder;
use test_support::gitops::{Run, gitops, gitops_as};
use test_support::shared_cluster;
use test_support::tree_plan::{arguments, document, plan, reason, rows};
use xtask::cluster::Cluster;

// The cluster of these tests, with kustomize-controller and an audit log.
shared_cluster!(with_kustomize_controller);

fn config_map(name: &str, data: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n{data}\n")
}

fn deployment(label: &str, annotation: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web, annotations: {{{annotation}}}}}\nspec:\n  replicas: 1\n  \
         selector: {{matchLabels: {{a: {label}}}}}\n  template:\n    metadata: {{labels: {{a: {label}}}}}\n    \
         spec: {{containers: [{{name: c, image: i}}]}}\n"
    )
}

fn service(port: u32, annotation: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: web, annotations: {{{annotation}}}}}\n\
         spec: {{clusterIP: None, ports: [{{port: {port}}}]}}\n"
    )
}

const FORCE: &str = "kustomize.toolkit.fluxcd.io/force: enabled";

fn write(tree: &Path, name: &str, content: &str) {
    std::fs::write(tree.join(name), content).unwrap();
}

fn diff_of(run: &Run, name: &str) -> String {
    let plan = document(run);
    let diffs = plan["diffs"].as_array().unwrap();
    let found = diffs.iter().find(|diff| diff["object"]["name"] == name);
    found.unwrap_or_else(|| panic!("no diff of {name}: {diffs:?}"))["text"].as_str().unwrap().to_owned()
}

/// Name to resourceVersion of every ConfigMap and Secret of a namespace.
fn versions(cluster: &Cluster, namespace: &str) -> BTreeMap<String, String> {
    let list = cluster.kubectl(&["get", "configmaps,secrets", "-n", namespace, "-o", "json"]).unwrap();
    let list: Value = serde_json::from_str(&list).unwrap();
    let text = |item: &Value, key: &str| item["metadata"][key].as_str().unwrap().to_owned();
    list["items"].as_array().unwrap().iter().map(|item| (text(item, "name"), text(item, "resourceVersion"))).collect()
}

#[test]
fn updates_drift_and_takeovers_are_those_that_the_controller_then_makes() {
    let (cluster, namespace, tree) = (&cluster(), "updates", folder("diff-updates"));
    for name in ["same", "changed", "drifted", "edited", "gone"] {
        write(&tree, &format!("{name}.yaml"), &config_map(name, "data: {v: '1'}"));
    }
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: token}\nstringData: {a: tok-old, b: tok-same}\n";
    write(&tree, "secret.yaml", secret);
    deploy(cluster, namespace, &tree);
    let patch = |name: &str, manager: &str, body: &str| {
        let manager: &[&str] = if manager.is_empty() { &[] } else { &["--field-manager", manager] };
        let fixed = ["patch", "configmap", name, "-n", namespace, "--type=merge", "-p", body];
        cluster.kubectl(&[&fixed, manager].concat()).unwrap();
    };
    patch("drifted", "operator", r#"{"data":{"v":"2"}}"#);
    patch("edited", "", r#"{"data":{"extra":"x"}}"#);
    patch("same", "operator", r#"{"data":{"theirs":"x"},"metadata":{"finalizers":["example.com/x"]}}"#);
    write(&tree, "changed.yaml", &config_map("changed", "data: {v: '2'}"));
    write(&tree, "secret.yaml", &secret.replace("tok-old", "tok-new"));
    write(&tree, "new.yaml", &config_map("new", "data: {v: '1'}\ndta: {typo: '1'}"));
    std::fs::remove_file(tree.join("gone.yaml")).unwrap();

    let without = plan(cluster, namespace, &tree, &[]);
    let run = plan(cluster, namespace, &tree, &["--diff"]);
    assert_eq!((run.code, without.code), (0, 0), "{run:?}");
    let expected = [
        ("create ConfigMap/new", "in-build"),
        ("delete ConfigMap/gone", "not-in-build"),
        ("update ConfigMap/changed", "changed"),
        ("update ConfigMap/drifted", "drift: data.v was set by operator"),
        ("update ConfigMap/edited", "taken-over: data.extra is removed, it was set by kubectl-patch"),
        ("update Secret/token", "changed"),
    ];
    let expected: BTreeMap<_, _> = expected.iter().map(|(row, why)| ((*row).to_owned(), (*why).to_owned())).collect();
    assert_eq!(rows(&run), expected, "{}", run.stderr);
    // The folder has no history to build the last applied revision from, so every object is asked about.
    assert_eq!(rows(&without), expected, "{}", without.stderr);
    assert_eq!(document(&without)["diffs"], serde_json::json!([]), "only --diff shows texts");
    let offline = plan(cluster, namespace, &tree, &["--offline"]);
    assert_eq!(rows(&offline).len(), 2, "{:?}", rows(&offline));
    let edits = |name: &str| -> Vec<String> {
        let diff = diff_of(&run, name);
        diff.lines().skip(2).filter(|line| line.starts_with(['+', '-'])).map(str::to_owned).collect()
    };
    assert_eq!(edits("changed"), ["-  v: '1'", "+  v: '2'"]);
    assert_eq!(edits("drifted"), ["-  v: '2'", "+  v: '1'"]);
    assert_eq!(edits("edited"), ["-  extra: x"]);
    assert_eq!(edits("token"), ["-  a: '*** (before)'", "+  a: '*** (after)'"]);
    for value in ["tok-", "dG9r"] {
        assert!(!run.stdout.contains(value), "a value of a Secret is in the plan");
    }

    let before = versions(cluster, namespace);
    publish(cluster, namespace, &tree);
    let after = versions(cluster, namespace);
    let touched = before.iter().filter(|(name, version)| after.get(*name).is_some_and(|now| now != *version));
    let touched: Vec<&str> = touched.map(|(name, _)| name.as_str()).collect();
    assert_eq!(touched, ["changed", "drifted", "edited", "token"], "what the controller changed");
    assert!(after.contains_key("new") && !after.contains_key("gone"));
    let extra = cluster.kubectl(&["get", "configmap", "edited", "-n", namespace, "-o", "jsonpath={.data}"]).unwrap();
    assert_eq!(extra, r#"{"v":"1"}"#);
    let quiet = plan(cluster, namespace, &tree, &["--diff"]);
    assert_eq!((quiet.code, rows(&quiet).len()), (0, 0), "{quiet:?}");
    let patch = r#"{"metadata":{"finalizers":null}}"#;
    cluster.kubectl(&["patch", "configmap", "same", "-n", namespace, "--type=merge", "-p", patch]).unwrap();
}

#[test]
fn objects_that_the_server_cannot_check_yet_are_unvalidated() {
    let (cluster, namespace, tree) = (&cluster(), "unvalidated", folder("diff-unvalidated"));
    write(&tree, "a.yaml", &config_map("a", ""));
    cluster.kubectl(&["create", "namespace", namespace]).unwrap();
    cluster.publish(&format!("GitRepository/{namespace}/src"), &tree).unwrap();
    let kustomization = flux::kustomization(namespace, "apps", "./", ", suspend: false");
    write(&tree, "a.yaml", &config_map("a", "").replace("name: a", &format!("name: a, namespace: {namespace}")));
    cluster.publish(&format!("GitRepository/{namespace}/src"), &tree).unwrap();
    cluster.kubectl_stdin(&["apply", "-f", "-"], &kustomization).unwrap();
    flux::settled(cluster, namespace, "apps");
    write(
        &tree,
        "new.yaml",
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: brand-new}\n---\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata: {name: inside, namespace: brand-new}\n---\n\
         apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: gears.diff.example.com}\n\
         spec:\n  group: diff.example.com\n  scope: Namespaced\n  names: {kind: Gear, plural: gears, singular: gear, listKind: GearList}\n  \
         versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]\n---\n\
         apiVersion: diff.example.com/v1\nkind: Gear\nmetadata: {name: g, namespace: unvalidated}\n",
    );
    let run = plan(cluster, namespace, &tree, &["--diff"]);
    assert_eq!(run.code, 0, "{run:?}");
    let rows = rows(&run);
    assert_eq!(rows["create ConfigMap/inside"], "in-build: not validated: its namespace is new");
    assert_eq!(rows["create Gear/g"], "in-build: not validated: its kind is new");
    assert_eq!(rows["create Namespace/brand-new"], "in-build");
    assert_eq!(rows["create CustomResourceDefinition/gears.diff.example.com"], "in-build");
}

/// Publishes a tree that cannot be applied and waits until the controller has said so.
fn publish_failing(cluster: &Cluster, namespace: &str, tree: &Path) {
    let revision = cluster.publish(&format!("GitRepository/{namespace}/src"), tree).unwrap();
    let path = "jsonpath={.status.lastAttemptedRevision} {.status.conditions[?(@.type==\"Ready\")].status}";
    let probe = || {
        let found = cluster.kubectl(&["get", "kustomization", "apps", "-n", namespace, "-o", path])?;
        Ok(found.contains(revision.trim()) && found.ends_with("False"))
    };
    cluster.wait_for("the revision to fail", LIMIT, probe).unwrap();
}

fn owner(run: &Run) -> (String, String) {
    let plan = document(run);
    let owner = &plan["owners"][0];
    (owner["outcome"].as_str().unwrap().to_owned(), reason(owner))
}

fn uid(cluster: &Cluster, namespace: &str, what: &str) -> String {
    cluster
        .kubectl(&["get", what, "web", "-n", namespace, "-o", "jsonpath={.metadata.uid}", "--ignore-not-found"])
        .unwrap()
}

#[test]
fn a_refusal_blocks_its_kustomization_and_holds_back_what_that_would_delete() {
    let (cluster, namespace, tree) = (&cluster(), "refused", folder("diff-refused"));
    write(&tree, "web.yaml", &deployment("one", ""));
    write(&tree, "gone.yaml", &config_map("gone", ""));
    deploy(cluster, namespace, &tree);
    write(&tree, "web.yaml", &deployment("two", ""));
    write(&tree, "bad.yaml", &config_map("bad", "data: {'a/b': '1'}"));
    std::fs::remove_file(tree.join("gone.yaml")).unwrap();
    let run = plan(cluster, namespace, &tree, &["--diff"]);
    let found = rows(&run);
    assert!(
        found["keep Deployment/web"].starts_with("refused: ")
            && found["keep Deployment/web"].contains("field is immutable"),
        "{found:?}"
    );
    assert!(found["unknown ConfigMap/bad"].starts_with("refused: "), "{found:?}");
    let held_back = &found["keep ConfigMap/gone"];
    // Of the two refusals, each plan names the first in the order of the requests, whichever is answered first.
    assert!(
        held_back.starts_with("held-back: it is deleted once this is resolved: the server refuses configmap/bad "),
        "{held_back}"
    );
    assert_eq!(rows(&plan(cluster, namespace, &tree, &["--offline"]))["delete ConfigMap/gone"], "not-in-build");
    assert_eq!(rows(&plan(cluster, namespace, &tree, &[])), found, "the server is asked without --diff");
    assert!(!found.contains_key("create ConfigMap/bad"), "{found:?}");
    let (outcome, reason) = owner(&run);
    assert_eq!(outcome, "blocked");
    assert!(reason.contains("the server refuses configmap/bad") && reason.contains("nothing is deleted"), "{reason}");
    publish_failing(cluster, namespace, &tree);
    assert!(versions(cluster, namespace).contains_key("gone"), "the controller deleted nothing, as the plan says");
}

#[test]
fn a_webhook_that_does_not_answer_today_makes_a_race() {
    let (cluster, namespace, tree) = (&cluster(), "faltering", folder("diff-faltering"));
    write(&tree, "changed.yaml", &config_map("changed", "data: {v: '1'}"));
    write(&tree, "gone.yaml", &config_map("gone", ""));
    deploy(cluster, namespace, &tree);
    let webhook = serde_json::json!({"apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "nobody"},
        "webhooks": [{"name": "nobody.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
                "resources": ["configmaps"]}]}]});
    cluster.kubectl_stdin(&["create", "-f", "-"], &webhook.to_string()).unwrap();
    write(&tree, "changed.yaml", &config_map("changed", "data: {v: '2'}"));
    std::fs::remove_file(tree.join("gone.yaml")).unwrap();
    // A new webhook takes effect a moment after it is created.
    let mut found = BTreeMap::new();
    let refused = || {
        found = rows(&plan(cluster, namespace, &tree, &["--diff"]));
        Ok(found.get("update? ConfigMap/changed").is_some_and(|reason| reason.contains("race: ")))
    };
    let waited = cluster.wait_for("the webhook to be asked", LIMIT, refused);
    assert!(waited.is_ok(), "{found:?}");
    cluster.kubectl(&["delete", "validatingwebhookconfiguration", "nobody"]).unwrap();
    let said = &found["update? ConfigMap/changed"];
    assert!(said.starts_with("refused: race: ") && said.contains("failed calling webhook"), "{said}");
    let said = &found["delete? ConfigMap/gone"];
    assert!(said.starts_with("not-in-build: race: ") && said.contains("failed calling webhook"), "{found:?}");
}

#[test]
fn with_force_immutable_objects_are_recreated_and_invalid_ones_are_lost() {
    let (cluster, namespace, tree) = (&cluster(), "forced", folder("diff-forced"));
    write(&tree, "web.yaml", &deployment("one", FORCE));
    write(&tree, "other.yaml", &config_map("other", ""));
    deploy(cluster, namespace, &tree);
    let before = uid(cluster, namespace, "deployment");
    write(&tree, "web.yaml", &deployment("two", FORCE));
    let run = plan(cluster, namespace, &tree, &["--diff"]);
    let found = rows(&run);
    assert!(found["recreate Deployment/web"].starts_with("forced: "), "{found:?}");
    assert!(
        found.keys().any(|row| row.starts_with("delete ReplicaSet/web-")),
        "its dependents are deleted too: {found:?}"
    );
    publish(cluster, namespace, &tree);
    let after = uid(cluster, namespace, "deployment");
    assert!(!after.is_empty() && after != before, "it was made again");

    let (namespace, tree) = ("lost", folder("diff-lost"));
    write(&tree, "web.yaml", &service(80, FORCE));
    write(&tree, "other.yaml", &config_map("other", ""));
    deploy(cluster, namespace, &tree);
    write(&tree, "web.yaml", &service(99999, FORCE));
    let run = plan(cluster, namespace, &tree, &["--diff"]);
    let found = rows(&run);
    assert!(found["delete Service/web"].starts_with("forced: it is deleted and not recreated"), "{found:?}");
    assert_eq!((owner(&run).0.as_str(), run.code), ("blocked", 6), "{}", run.stderr);
    publish_failing(cluster, namespace, &tree);
    let gone = || Ok(uid(cluster, namespace, "service").is_empty());
    cluster.wait_for("the Service to be gone", Duration::from_secs(30), gone).unwrap();
}

#[test]
fn only_dry_runs_are_sent_and_with_offline_nothing_that_writes() {
    let (cluster, namespace, tree) = (&cluster(), "audited", folder("diff-audited"));
    flux::config_maps(&tree, 12);
    deploy(cluster, namespace, &tree);
    std::fs::remove_file(tree.join("cm-11.yaml")).unwrap();
    write(&tree, "cm-0.yaml", &config_map("cm-0", "data: {a: c}"));
    let role = |name: &str, verbs: &str| {
        let role = format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {{name: diff-{name}}}\n\
             rules: [{{apiGroups: ['*'], resources: ['*'], verbs: [{verbs}]}}]\n"
        );
        cluster.kubectl_stdin(&["apply", "-f", "-"], &role).unwrap();
        let binding = format!("--clusterrole=diff-{name}");
        cluster.kubectl(&["create", "clusterrolebinding", &format!("diff-{name}"), &binding, "--user", name]).unwrap();
    };
    role("alice", "get, list, patch, create, delete");
    role("bob", "get, list");
    let writes = |user: &str, more: &[&str]| {
        let words = arguments(namespace, &tree, more);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let before = cluster.requests_of(user, "gitops-prune/").unwrap().len();
        let run = gitops_as(&cluster.kubeconfig_for(user), &words);
        let mut requests = cluster.requests_of(user, "gitops-prune/").unwrap().split_off(before);
        assert!(!requests.is_empty());
        requests.retain(xtask::cluster::audit::Request::writes);
        (run, requests)
    };
    let (without, none) = writes("alice", &["--offline"]);
    assert!(none.is_empty(), "{none:?}");
    let (with, mut patches) = writes("alice", &[]);
    patches.retain(|request| request.verb != "delete");
    assert_eq!(patches.len(), 11, "one per object that is applied: {patches:?}");
    assert!(versions(cluster, namespace).contains_key("cm-11"), "the DELETE was a dry-run");
    for request in &patches {
        let query = request.uri.split_once('?').unwrap().1;
        assert_eq!(request.verb, "patch");
        assert_eq!(query, "dryRun=All&fieldManager=kustomize-controller&force=true");
    }
    assert_eq!(rows(&with)["update ConfigMap/cm-0"], "changed");
    assert_eq!((without.code, with.code), (0, 0), "{}", with.stderr);

    // Without the right to patch: said, with a hint, and nothing of the deletions is missing.
    let (denied, refused) = writes("bob", &[]);
    assert!(!refused.is_empty() && refused.iter().all(|request| request.code == 403), "{refused:?}");
    assert_eq!(denied.code, 5, "{denied:?}");
    assert!(
        denied.stderr.contains("warning: answers to dry-runs of configmaps could not be read"),
        "{}",
        denied.stderr
    );
    assert!(
        denied.stderr.contains(
            "hint: dry-runs need the right to get, patch and delete; --offline plans without them; check with "
        ),
        "{}",
        denied.stderr
    );
    assert!(denied.stderr.contains("kubectl auth can-i patch configmaps"), "{}", denied.stderr);
    assert_eq!(rows(&denied), rows(&without));
}

#[test]
fn diff_needs_a_live_cluster_and_a_tree() {
    let cluster = &cluster();
    let run = gitops(cluster, &["prune", "--plan", "--diff", "--repo", ".", "--snapshot", "x.json"]);
    assert_eq!(run.code, 2, "{run:?}");
    let run = gitops(cluster, &["prune", "--plan", "--diff"]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.stderr.contains("hint: name the tree with --repo or --source"), "{}", run.stderr);
}
