//! `get`, `suspend` and `resume` against a server that misbehaves as the real one does not on demand.

use insta::assert_snapshot;
use serde_json::{Value, json};
use test_support::fake_api::{Answer, FakeApi};
use test_support::folder::Folder;
use test_support::gitops::{Run, Transcript, gitops_as};

const PATH: &str = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/shop/kustomizations";

/// A server with the type Kustomization.
fn api() -> FakeApi {
    let api = FakeApi::start();
    let resource = json!({
        "resource": "kustomizations", "singularResource": "kustomization", "scope": "Namespaced", "verbs": ["list", "delete"],
        "responseKind": {"group": "kustomize.toolkit.fluxcd.io", "version": "v1", "kind": "Kustomization"},
    });
    let group = json!({"metadata": {"name": "kustomize.toolkit.fluxcd.io"},
                       "versions": [{"version": "v1", "freshness": "Current", "resources": [resource]}]});
    let core =
        json!({"metadata": {"name": ""}, "versions": [{"version": "v1", "freshness": "Current", "resources": []}]});
    let kind = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    for (path, item) in [("GET /api", core), ("GET /apis", group)] {
        let list = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": [item]});
        api.on(path, [Answer::raw(200, kind, list.to_string())]);
    }
    api
}

fn object(version: u32, annotations: Value) -> Value {
    json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": "apps", "namespace": "shop", "uid": "u", "resourceVersion": version.to_string(),
                     "generation": 1, "annotations": annotations},
        "spec": {"prune": false},
    })
}

fn suspended(version: u32) -> Answer {
    Answer::json(object(version, json!({"reconcile.fluxcd.io/suspended": "drill"})))
}

fn conflict() -> Answer {
    Answer::status(409, "Conflict", "the object has been modified")
}

fn suspend(api: &FakeApi, more: &[&str]) -> Run {
    let folder = Folder::new("verbs");
    gitops_as(&api.kubeconfig(&folder), &[&["suspend", "ks/apps", "-m", "drill"], more].concat())
}

#[test]
fn a_conflict_is_retried_with_the_new_resource_version() {
    let api = api();
    api.on(&format!("GET {PATH}/apps"), [Answer::json(object(7, json!({}))), Answer::json(object(8, json!({})))]);
    api.on(&format!("PATCH {PATH}/apps"), [conflict(), suspended(9)]);
    let run = suspend(&api, &[]);
    assert_snapshot!(run, @"
    exit code 0
    --- stdout
    kustomization.kustomize.toolkit.fluxcd.io/apps suspended
    --- stderr
    warning: no released Flux controller honours the annotation reconcile.fluxcd.io/suspended: reconciliation goes on
    hint: --spec sets spec.suspend too; KUBECTL_GITOPS_ANNOTATION_HONOURED=true says that your controllers honour it
    ");
    let patches = api.requests_to(&format!("PATCH {PATH}/apps"));
    let versions: Vec<Value> = patches
        .iter()
        .map(|patch| serde_json::from_slice::<Value>(&patch.body).unwrap()["metadata"]["resourceVersion"].clone())
        .collect();
    assert_eq!(versions, ["7", "8"]);
    assert_eq!(patches[0].target, format!("{PATH}/apps?fieldManager=gitops-suspend"));
    assert_eq!(patches[0].header("content-type"), Some("application/merge-patch+json"));
    assert!(!patches[0].header("user-agent").unwrap().starts_with("kubectl"), "kustomize-controller would undo it");
}

#[test]
fn endless_conflicts_are_given_up() {
    let api = api();
    api.on(&format!("GET {PATH}/apps"), [Answer::json(object(7, json!({})))]);
    api.on(&format!("PATCH {PATH}/apps"), [conflict()]);
    let run = suspend(&api, &[]);
    assert_snapshot!(run, @"
    exit code 1
    --- stderr
    error: kustomization.kustomize.toolkit.fluxcd.io/apps: Error from server (Conflict): the object has been modified
    ");
    assert_eq!(api.requests_to(&format!("PATCH {PATH}/apps")).len(), 8, "the tries are limited");
}

#[test]
fn a_concurrent_suspension_by_somebody_else_is_kept() {
    let api = api();
    let other = object(8, json!({"reconcile.fluxcd.io/suspended": "mine"}));
    api.on(&format!("GET {PATH}/apps"), [Answer::json(object(7, json!({}))), Answer::json(other)]);
    api.on(&format!("PATCH {PATH}/apps"), [conflict(), suspended(9)]);
    let run = suspend(&api, &[]);
    assert_snapshot!(run, @"
    exit code 6
    --- stderr
    error: kustomization.kustomize.toolkit.fluxcd.io/apps: already suspended with another message: mine
    hint: replace it with --overwrite
    ");
    assert_eq!(api.requests_to(&format!("PATCH {PATH}/apps")).len(), 1);
}

#[test]
fn the_patched_object_is_verified() {
    let api = api();
    let mut moved = object(9, json!({"reconcile.fluxcd.io/suspended": "drill"}));
    moved["metadata"]["generation"] = json!(2);
    api.on(&format!("GET {PATH}/apps"), [Answer::json(object(7, json!({})))]);
    api.on(&format!("PATCH {PATH}/apps"), [Answer::json(moved), Answer::json(object(9, json!({})))]);
    assert_snapshot!(suspend(&api, &[]), @"
    exit code 0
    --- stdout
    kustomization.kustomize.toolkit.fluxcd.io/apps suspended
    --- stderr
    warning: kustomization.kustomize.toolkit.fluxcd.io/apps: generation moved from 1 to 2: something changed its spec with this request
    warning: no released Flux controller honours the annotation reconcile.fluxcd.io/suspended: reconciliation goes on
    hint: --spec sets spec.suspend too; KUBECTL_GITOPS_ANNOTATION_HONOURED=true says that your controllers honour it
    ");
    assert_snapshot!(suspend(&api, &["--spec"]), @"
    exit code 5
    --- stdout
    kustomization.kustomize.toolkit.fluxcd.io/apps suspended
    --- stderr
    error: kustomization.kustomize.toolkit.fluxcd.io/apps: the server dropped spec.suspend, which this version of the kind does not have
    error: kustomization.kustomize.toolkit.fluxcd.io/apps: the server dropped the annotation reconcile.fluxcd.io/suspended
    spec.suspend was set: the generation moved by one
    ");
}

#[test]
fn a_client_dry_run_writes_nothing() {
    let api = api();
    api.on(&format!("GET {PATH}/apps"), [Answer::json(object(7, json!({})))]);
    let run = suspend(&api, &["--dry-run=client"]);
    assert_snapshot!(run, @"
    exit code 0
    --- stdout
    kustomization.kustomize.toolkit.fluxcd.io/apps suspended (dry run)
    --- stderr
    warning: no released Flux controller honours the annotation reconcile.fluxcd.io/suspended: reconciliation goes on
    hint: --spec sets spec.suspend too; KUBECTL_GITOPS_ANNOTATION_HONOURED=true says that your controllers honour it
    ");
    assert!(api.requests().iter().all(|request| request.method == "GET"));
}

#[test]
fn contradictory_arguments_are_refused_before_any_request() {
    let api = api();
    let folder = Folder::new("verbs");
    let kubeconfig = api.kubeconfig(&folder);
    // 250 KiB do not fit into one argument of this system, so the longest message is tested beside its rule.
    let mut transcript = Transcript::default();
    for (name, args) in [
        ("an empty message", &["suspend", "ks/apps", "-m", ""][..]),
        ("a message without targets", &["suspend", "-m", "x"]),
        ("a type alone", &["suspend", "ks", "-m", "x"]),
        ("all and names", &["suspend", "ks", "apps", "--all"]),
        ("a selector and names", &["resume", "ks/apps", "-l", "a=b"]),
        ("all and a selector", &["resume", "ks", "--all", "-l", "a=b"]),
        ("an unknown dry run", &["resume", "ks/apps", "--dry-run=maybe"]),
        ("an unknown format", &["get", "-o", "bogus"]),
    ] {
        let run = gitops_as(&kubeconfig, args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{name}: {run}");
        transcript.add(name, &run);
    }
    assert_snapshot!(transcript);
    assert!(api.requests().is_empty());
}

#[test]
fn names_across_all_namespaces_are_refused() {
    let api = api();
    let folder = Folder::new("verbs");
    let run = gitops_as(&api.kubeconfig(&folder), &["get", "ks", "apps", "-A"]);
    assert_snapshot!(run, @"
    exit code 2
    --- stderr
    error: a resource cannot be retrieved by name across all namespaces
    hint: leave -A out, or name no object
    ");
}
