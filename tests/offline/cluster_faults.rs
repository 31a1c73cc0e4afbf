//! Clusters that do not answer as they should: each fault ends with a clear message, a hint where one helps, and its exit code.

use std::time::{Duration, Instant};

use insta::assert_snapshot;
use serde_json::json;
use test_support::fake_api::{Answer, FakeApi};
use test_support::folder::Folder;
use test_support::gitops::{Transcript, gitops_as};

#[test]
fn an_unknown_context_is_named() {
    let folder = Folder::new("cluster-faults");
    let api = FakeApi::start();
    let run = gitops_as(&api.kubeconfig(&folder), &["prune", "--plan", "--context", "fakee"]);
    assert_snapshot!(run, @r#"
    exit code 1
    --- stderr
    error: context was not found for specified context: fakee
    hint: did you mean context "fake"?
    "#);
}

#[test]
fn a_server_that_is_down_is_named_within_five_seconds() {
    let folder = Folder::new("cluster-faults");
    let api = FakeApi::start();
    let (kubeconfig, host) = (api.kubeconfig(&folder), api.host());
    drop(api);
    let start = Instant::now();
    let run = gitops_as(&kubeconfig, &["prune", "--plan"]);
    assert_snapshot!(run.with("SERVER", host), @"
    exit code 1
    --- stderr
    The connection to the server SERVER was refused - did you specify the right host or port?
    hint: check the address with `kubectl config view`, and the network connection to it
    ");
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn rejected_credentials_are_said_in_kubectls_words() {
    let folder = Folder::new("cluster-faults");
    let api = FakeApi::start();
    api.on("GET /api", [Answer::status(401, "Unauthorized", "Unauthorized")]);
    api.on("GET /apis", [Answer::status(401, "Unauthorized", "Unauthorized")]);
    let run = gitops_as(&api.kubeconfig(&folder), &["prune", "--plan"]);
    assert_snapshot!(run, @"
    exit code 1
    --- stderr
    You must be logged in to the server (Unauthorized)
    hint: log in again, or check the credentials with `kubectl auth whoami`
    ");
}

#[test]
fn what_answers_in_place_of_the_api_server_is_named() {
    let mut transcript = Transcript::default();
    for (name, body) in [("a login page", "<html>log in</html>"), ("an empty body", ""), ("text", "hello")] {
        let (folder, api) = (Folder::new("cluster-faults"), FakeApi::start());
        api.on("GET *", [Answer::raw(200, "text/html", body)]);
        transcript.add(name, &gitops_as(&api.kubeconfig(&folder), &["prune", "--plan"]).with("SERVER", api.host()));
    }
    assert_snapshot!(transcript, @"
    === a login page
    exit code 1
    --- stderr
    error: the server SERVER answered GET /api with a web page, as no Kubernetes API server does
    hint: check the address with `kubectl config view`, and whether a proxy or a login page answers in place of the API server

    === an empty body
    exit code 1
    --- stderr
    error: the server SERVER answered GET /api with an empty body, as no Kubernetes API server does
    hint: check the address with `kubectl config view`, and whether a proxy or a login page answers in place of the API server

    === text
    exit code 1
    --- stderr
    error: the server SERVER answered GET /api with text, as no Kubernetes API server does
    hint: check the address with `kubectl config view`, and whether a proxy or a login page answers in place of the API server
    ");
}

/// Discovery with ConfigMaps and Secrets only.
fn two_types(api: &FakeApi) {
    api.serve_types(&[("v1", "ConfigMap", "configmaps", true), ("v1", "Secret", "secrets", true)]);
}

fn list(names: &[&str]) -> Answer {
    let items: Vec<_> =
        names.iter().map(|name| json!({"metadata": {"name": name, "namespace": "shop", "uid": name}})).collect();
    Answer::json(
        json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "1"}, "items": items}),
    )
}

fn denied(what: &str) -> Answer {
    Answer::status(403, "Forbidden", &format!("{what} is forbidden: User \"t\" cannot list resource"))
}

#[test]
fn forbidden_types_are_gaps_and_the_rest_is_read() {
    let folder = Folder::new("cluster-faults");
    let api = FakeApi::start();
    two_types(&api);
    api.on("GET /api/v1/configmaps", [list(&["a"])]);
    api.on("GET /api/v1/secrets", [denied("secrets")]);
    api.on("GET /api/v1/namespaces/shop/secrets", [denied("secrets")]);
    let run = gitops_as(&api.kubeconfig(&folder), &["prune", "--plan"]);
    assert_snapshot!(run, @r#"
    exit code 5
    --- stdout
    gap: secrets: secrets is forbidden: User "t" cannot list resource
    --- stderr
    no deletions; the plan is incomplete
    warning: secrets could not be read: secrets is forbidden: User "t" cannot list resource
    "#);
}

#[test]
fn types_that_may_be_listed_in_one_namespace_are_read_there() {
    let folder = Folder::new("cluster-faults");
    let api = FakeApi::start();
    two_types(&api);
    api.on("GET /api/v1/configmaps", [list(&["a"])]);
    api.on("GET /api/v1/secrets", [denied("secrets")]);
    api.on("GET /api/v1/namespaces/shop/secrets", [list(&["s"])]);
    let run = gitops_as(&api.kubeconfig(&folder), &["prune", "--plan"]);
    assert_snapshot!(run, @r#"
    exit code 5
    --- stdout
    gap: secrets: secrets is forbidden: User "t" cannot list resource; read in shop only
    --- stderr
    no deletions; the plan is incomplete
    warning: secrets could not be read: secrets is forbidden: User "t" cannot list resource; read in shop only
    "#);
}

#[test]
fn a_cluster_that_may_not_be_read_is_an_error() {
    let folder = Folder::new("cluster-faults");
    let api = FakeApi::start();
    two_types(&api);
    for path in ["configmaps", "secrets", "namespaces/shop/configmaps", "namespaces/shop/secrets"] {
        api.on(&format!("GET /api/v1/{path}"), [denied("it")]);
    }
    let run = gitops_as(&api.kubeconfig(&folder), &["prune", "--plan"]);
    assert_snapshot!(run, @r#"
    exit code 1
    --- stderr
    error: nothing can be read, in the whole cluster or in namespace shop: it is forbidden: User "t" cannot list resource
    hint: pass -n with a namespace that you may read; `kubectl auth can-i --list` shows your rights
    "#);
}

#[test]
fn a_list_that_runs_out_of_its_revision_is_read_again_whole() {
    let folder = Folder::new("cluster-faults");
    let api = FakeApi::start();
    two_types(&api);
    let mut first = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "1", "continue": "next"}, "items": []});
    first["items"] = json!([{"metadata": {"name": "a", "namespace": "shop", "uid": "a"}}]);
    let expired = Answer::status(410, "Expired", "the provided continue parameter is too old");
    api.on("GET /api/v1/configmaps", [Answer::json(first), expired, list(&["a", "b"])]);
    api.on("GET /api/v1/secrets", [list(&[])]);
    let run = gitops_as(&api.kubeconfig(&folder), &["prune", "--plan"]);
    assert_snapshot!(run, @"
    exit code 0
    --- stderr
    nothing to prune
    ");
    let lists = api.requests_to("GET /api/v1/configmaps");
    assert_eq!(lists.len(), 3);
    assert!(!lists[2].target.contains("limit="), "the last list is whole: {}", lists[2].target);
}

#[test]
fn a_server_without_metadata_lists_or_without_answers_is_an_error_in_bounded_time() {
    let folder = Folder::new("cluster-faults");
    let api = FakeApi::start();
    two_types(&api);
    api.on("GET /api/v1/configmaps", [Answer::status(406, "NotAcceptable", "only JSON")]);
    api.on("GET /api/v1/secrets", [Answer::hang()]);
    let start = Instant::now();
    let run = gitops_as(&api.kubeconfig(&folder), &["prune", "--plan", "--request-timeout=1s"]);
    assert_snapshot!(run.with("SERVER", api.host()), @"
    exit code 1
    --- stderr
    error: nothing can be read, in the whole cluster or in namespace shop: only JSON
    hint: pass -n with a namespace that you may read; `kubectl auth can-i --list` shows your rights
    ");
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_stale_group_is_a_gap() {
    let folder = Folder::new("cluster-faults");
    let api = FakeApi::start();
    two_types(&api);
    let stale = json!({"version": "v1beta1", "freshness": "Stale"});
    let stale = json!({"metadata": {"name": "metrics.k8s.io"}, "versions": [stale]});
    api.on("GET /apis", [Answer::discovery(vec![stale])]);
    api.on("GET /api/v1/configmaps", [list(&["a"])]);
    api.on("GET /api/v1/secrets", [list(&[])]);
    let run = gitops_as(&api.kubeconfig(&folder), &["prune", "--plan"]);
    assert_snapshot!(run, @"
    exit code 5
    --- stdout
    gap: metrics.k8s.io/v1beta1: the server of this API group does not answer
    --- stderr
    no deletions; the plan is incomplete
    warning: metrics.k8s.io/v1beta1 could not be read: the server of this API group does not answer
    ");
}

#[test]
fn an_old_server_without_aggregated_discovery_is_read_group_by_group() {
    let folder = Folder::new("cluster-faults");
    let api = FakeApi::start();
    api.on("GET /api", [Answer::json(json!({"kind": "APIVersions", "versions": ["v1"]}))]);
    api.on(
        "GET /apis",
        [Answer::json(json!({"kind": "APIGroupList", "groups": [
        {"name": "dead.example.com", "versions": [{"groupVersion": "dead.example.com/v1", "version": "v1"}],
         "preferredVersion": {"groupVersion": "dead.example.com/v1", "version": "v1"}}]}))],
    );
    api.on("GET /api/v1", [Answer::json(json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": [
        {"name": "configmaps", "singularName": "", "namespaced": true, "kind": "ConfigMap", "verbs": ["list", "delete"]},
        {"name": "pods/log", "singularName": "", "namespaced": true, "kind": "Pod", "verbs": ["get"]}]}))]);
    api.on("GET /apis/dead.example.com/v1", [Answer::status(503, "ServiceUnavailable", "no endpoints")]);
    api.on("GET /api/v1/configmaps", [list(&["a"])]);
    let run = gitops_as(&api.kubeconfig(&folder), &["prune", "--plan"]);
    assert_snapshot!(run, @"
    exit code 5
    --- stdout
    gap: dead.example.com/v1: no endpoints
    --- stderr
    no deletions; the plan is incomplete
    warning: dead.example.com/v1 could not be read: no endpoints
    ");
}
