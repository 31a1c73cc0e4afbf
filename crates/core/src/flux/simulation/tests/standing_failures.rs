//! Kustomizations that fail today for a reason that nothing else shows.

use serde_json::{Value, json};

use super::cluster::{Files, NS, TestCluster, cm, ks, set};

fn files(spec: Value, objects: Vec<Value>) -> Files {
    vec![("root/k.yaml", vec![ks("k", "./p", spec)]), ("p/a.yaml", objects)]
}

/// Returns a cluster whose Kustomization `k`, with the objects `a` and `b`, fails with a message.
fn failing(spec: Value, reason: &str, message: &str) -> TestCluster {
    let mut cluster = TestCluster::new(&files(spec, vec![cm("a"), cm("b")]));
    cluster.kustomization("k").content["status"]["conditions"] =
        json!([{"type": "Ready", "status": "False", "reason": reason, "message": message}]);
    cluster
}

#[test]
fn what_no_dry_run_shows_is_a_condition_of_the_apply() {
    let rows = |message: &str, is_asked: bool| {
        let mut cluster = failing(json!({}), "ReconciliationFailed", message);
        cluster.upgrades = is_asked.then(|| [].into());
        cluster.rows(&files(json!({}), vec![cm("b")]))
    };
    let (certain, race) = (set(&["delete a"]), set(&["delete? a"]));
    let of = |name: &str, what: &str| format!("ConfigMap/{NS}/{name} {what}");
    assert_eq!(rows(&of("b", "apply failed: conflict"), true), race);
    assert_eq!(rows(&of("a", "apply failed: conflict"), true), certain, "it is applied no longer");
    assert_eq!(rows(&of("b", "metadata.managedFields cleanup failed: denied"), true), race);
    assert_eq!(rows("timeout waiting for: [Namespace/x status: 'Terminating']", true), race);
    for shown in ["dry-run failed (Invalid): no", "not found: no", "immutable field detected, failed to delete object"]
    {
        assert_eq!(rows(&of("b", shown), true), certain, "{shown}: the dry-run is accepted by now");
        assert_eq!(rows(&of("b", shown), false), race, "{shown}: nothing is asked");
        assert_eq!(rows(&of("a", shown), false), certain, "{shown}: it is applied no longer");
    }
    assert_eq!(rows("failed to build kube client: no", true), certain, "it acts as the controller");
}

#[test]
fn the_condition_names_the_failure_without_the_words_of_the_server() {
    let message = format!("ConfigMap/{NS}/b apply failed: \"secret\" is denied");
    let cluster = failing(json!({}), "ReconciliationFailed", &message);
    let outcome = cluster.outcome(&files(json!({}), vec![cm("b")]), "k");
    let expected = format!(
        "Applies: not-ready: race: it applies only once its present failure is resolved: \
         ConfigMap/{NS}/b apply failed (ReconciliationFailed)"
    );
    assert_eq!(outcome, expected);
}

#[test]
fn a_client_keys_a_source_and_a_denied_access_can_go_on_failing() {
    let rows = |spec: Value, reason: &str, message: &str| {
        failing(spec.clone(), reason, message).rows(&files(spec, vec![cm("b")]))
    };
    let account = || json!({"serviceAccountName": "team"});
    let keys = || json!({"decryption": {"provider": "sops"}});
    let (certain, race) = (set(&["delete a"]), set(&["delete? a"]));
    assert_eq!(rows(account(), "ReconciliationFailed", "failed to build kube client: no"), race);
    assert_eq!(rows(keys(), "BuildFailed", "decryption failed for 'v1/Secret/s': no key"), race);
    assert_eq!(rows(keys(), "BuildFailed", "kustomize build failed: no such file"), certain);
    assert_eq!(rows(json!({}), "ArtifactFailed", "failed to download archive: GET http://x: refused"), race);
    assert_eq!(rows(json!({}), "ArtifactFailed", "kustomization path not found: stat /tmp/p"), certain);
    for reason in ["HealthCheckFailed", "DependencyNotReady", "AccessDenied"] {
        assert_eq!(rows(json!({}), reason, "no"), certain, "{reason}");
    }
    let mut retrying = failing(json!({}), "ReconciliationFailed", "");
    retrying.kustomization("k").content["status"] = json!({
        "inventory": retrying.kustomization("k").content["status"]["inventory"],
        "conditions": [{"type": "Ready", "status": "Unknown", "reason": "Progressing"}],
        "history": [{"lastReconciledStatus": "ReconciliationFailed"}],
    });
    assert_eq!(retrying.rows(&files(json!({}), vec![cm("b")])), race, "it tries again");
}

#[test]
fn an_object_that_is_not_pruned_today_may_stay() {
    let message = format!("delete failed, errors: ConfigMap/{NS}/a query failed: forbidden;");
    let cluster = failing(json!({}), "PruneFailed", &message);
    assert_eq!(cluster.rows(&files(json!({}), vec![cm("b")])), set(&["delete? a"]));
    assert_eq!(cluster.rows(&files(json!({}), vec![cm("a")])), set(&["delete b"]), "only that one fails");
    assert_eq!(cluster.rows(&files(json!({}), vec![])), set(&["delete? a", "delete b"]));
}

#[test]
fn a_new_kustomization_does_not_inherit_the_failure_of_another() {
    let cluster = failing(json!({}), "ReconciliationFailed", "timeout waiting for: [Namespace/x]");
    let after = vec![("root/k.yaml", vec![ks("other", "./p", json!({}))]), ("p/a.yaml", vec![cm("a"), cm("b")])];
    assert_eq!(cluster.rows(&after), set(&["delete k", "recreate a", "recreate b"]));
}

#[test]
fn what_depends_on_a_kustomization_that_fails_may_wait() {
    let files = |objects: Vec<Value>| {
        let root = vec![ks("k", "./p", json!({})), ks("d", "./d", json!({"dependsOn": [{"name": "k"}]}))];
        vec![("root/k.yaml", root), ("p/x.yaml", vec![cm("x")]), ("d/a.yaml", objects)]
    };
    let cluster = TestCluster::new(&files(vec![cm("a"), cm("b")]));
    assert_eq!(cluster.rows(&files(vec![cm("b")])), set(&["delete a"]));
    let fails = |reason: &str, message: String| {
        let mut cluster = TestCluster::new(&files(vec![cm("a"), cm("b")]));
        let status = &mut cluster.kustomization("k").content["status"];
        status["conditions"] = json!([{"type": "Ready", "status": "False", "reason": reason, "message": message}]);
        let entries = status["inventory"]["entries"].as_array_mut().unwrap();
        entries.push(json!({"id": format!("{NS}_y__ConfigMap"), "v": "v1"}));
        cluster.add(&cm("y"), Some("k"));
        cluster.snapshot.normalise();
        cluster.rows(&files(vec![cm("b")]))
    };
    let applies = |name: &str| fails("ReconciliationFailed", format!("ConfigMap/{NS}/{name} apply failed: conflict"));
    assert_eq!(applies("x"), set(&["delete? a", "delete? y"]));
    assert_eq!(applies("y"), set(&["delete a", "delete y"]));
    let prunes =
        |name: &str| fails("PruneFailed", format!("delete failed, errors: ConfigMap/{NS}/{name} delete failed: no;"));
    assert_eq!(prunes("y"), set(&["delete? a", "delete? y"]));
    assert_eq!(prunes("z"), set(&["delete a", "delete y"]));
}
