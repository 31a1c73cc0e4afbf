//! Bad input and bad clusters: each ends with a clear message, a hint where one helps, and its exit code.

mod support;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use support::fake_api::{Answer, FakeApi};
use support::folder::Folder;
use support::live::{Run, gitops_as};

/// Runs without any kubeconfig.
fn alone(args: &[&str]) -> Run {
    let folder = Folder::new("bad-input");
    let output = Command::new(env!("CARGO_BIN_EXE_kubectl-gitops"))
        .args(args)
        .env_remove("KUBECONFIG")
        .env("HOME", folder.path())
        .output()
        .unwrap();
    Run {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

#[track_caller]
fn expect(run: &Run, code: i32, words: &[&str]) {
    assert_eq!(run.code, code, "{run:?}");
    assert_eq!(run.stdout, "", "data goes to stdout, messages to stderr");
    for word in words {
        assert!(run.stderr.contains(word), "{word:?} is missing in:\n{}", run.stderr);
    }
}

#[test]
fn without_a_kubeconfig_it_says_so() {
    expect(&alone(&["prune", "--plan"]), 1, &["error: ", "kubeconfig", "hint: "]);
}

#[test]
fn an_unknown_context_is_named() {
    let folder = Folder::new("bad-input");
    let api = FakeApi::start();
    let run = gitops_as(&api.kubeconfig(&folder), &["prune", "--plan", "--context", "fakee"]);
    expect(&run, 1, &["context was not found for specified context: fakee", "hint: ", "fake"]);
}

#[test]
fn a_server_that_is_down_is_named_within_five_seconds() {
    let folder = Folder::new("bad-input");
    let api = FakeApi::start();
    let (kubeconfig, host) = (api.kubeconfig(&folder), api.host());
    drop(api);
    let start = Instant::now();
    let run = gitops_as(&kubeconfig, &["prune", "--plan"]);
    expect(&run, 1, &["The connection to the server", &host, "was refused"]);
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn rejected_credentials_are_said_in_kubectls_words() {
    let folder = Folder::new("bad-input");
    let api = FakeApi::start();
    api.on("GET /api", [Answer::status(401, "Unauthorized", "Unauthorized")]);
    api.on("GET /apis", [Answer::status(401, "Unauthorized", "Unauthorized")]);
    let run = gitops_as(&api.kubeconfig(&folder), &["prune", "--plan"]);
    expect(&run, 1, &["You must be logged in to the server", "hint: "]);
}

/// Discovery with ConfigMaps and Secrets only.
fn two_types(api: &FakeApi) {
    let resource = |plural: &str, kind: &str| {
        json!({"resource": plural, "responseKind": {"group": "", "version": "v1", "kind": kind}, "scope": "Namespaced",
               "singularResource": kind.to_lowercase(), "verbs": ["list", "delete", "get"]})
    };
    let core = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": [
        {"metadata": {"name": ""}, "versions": [{"version": "v1", "freshness": "Current",
         "resources": [resource("configmaps", "ConfigMap"), resource("secrets", "Secret")]}]}]});
    let none = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": []});
    let kind = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    api.on("GET /api", [Answer::raw(200, kind, core.to_string())]);
    api.on("GET /apis", [Answer::raw(200, kind, none.to_string())]);
}

fn list(names: &[&str]) -> Answer {
    let items: Vec<_> =
        names.iter().map(|name| json!({"metadata": {"name": name, "namespace": "shop", "uid": name}})).collect();
    Answer::json(
        json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "items": items}),
    )
}

fn denied(what: &str) -> Answer {
    Answer::status(403, "Forbidden", &format!("{what} is forbidden: User \"t\" cannot list resource"))
}

#[test]
fn what_is_forbidden_is_a_gap_and_the_rest_is_read() {
    let folder = Folder::new("bad-input");
    let api = FakeApi::start();
    two_types(&api);
    api.on("GET /api/v1/configmaps", [list(&["a"])]);
    api.on("GET /api/v1/secrets", [denied("secrets")]);
    api.on("GET /api/v1/namespaces/shop/secrets", [denied("secrets")]);
    let run = gitops_as(&api.kubeconfig(&folder), &["prune", "--plan"]);
    expect(&run, 5, &["warning: secrets could not be read", "nothing to prune; the plan is incomplete"]);
}

#[test]
fn what_may_be_listed_in_the_namespace_only_is_read_there() {
    let folder = Folder::new("bad-input");
    let api = FakeApi::start();
    two_types(&api);
    api.on("GET /api/v1/configmaps", [list(&["a"])]);
    api.on("GET /api/v1/secrets", [denied("secrets")]);
    api.on("GET /api/v1/namespaces/shop/secrets", [list(&["s"])]);
    let run = gitops_as(&api.kubeconfig(&folder), &["prune", "--plan"]);
    expect(&run, 5, &["warning: secrets could not be read", "read in shop only"]);
}

#[test]
fn where_everything_is_forbidden_nothing_is_claimed() {
    let folder = Folder::new("bad-input");
    let api = FakeApi::start();
    two_types(&api);
    for path in ["configmaps", "secrets", "namespaces/shop/configmaps", "namespaces/shop/secrets"] {
        api.on(&format!("GET /api/v1/{path}"), [denied("it")]);
    }
    let run = gitops_as(&api.kubeconfig(&folder), &["prune", "--plan"]);
    expect(&run, 1, &["nothing in this cluster can be read", "hint: `kubectl auth can-i --list`"]);
}

#[test]
fn a_list_that_runs_out_of_its_revision_is_read_again_whole() {
    let folder = Folder::new("bad-input");
    let api = FakeApi::start();
    two_types(&api);
    let mut first = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {"continue": "next"}, "items": []});
    first["items"] = json!([{"metadata": {"name": "a", "namespace": "shop", "uid": "a"}}]);
    let expired = Answer::status(410, "Expired", "the provided continue parameter is too old");
    api.on("GET /api/v1/configmaps", [Answer::json(first), expired, list(&["a", "b"])]);
    api.on("GET /api/v1/secrets", [list(&[])]);
    let run = gitops_as(&api.kubeconfig(&folder), &["prune", "--plan"]);
    expect(&run, 0, &["nothing to prune"]);
    let lists = api.requests_to("GET /api/v1/configmaps");
    assert_eq!(lists.len(), 3);
    assert!(!lists[2].target.contains("limit="), "the last list is whole: {}", lists[2].target);
}

#[test]
fn a_server_that_cannot_give_metadata_and_one_that_hangs_are_gaps_in_bounded_time() {
    let folder = Folder::new("bad-input");
    let api = FakeApi::start();
    two_types(&api);
    api.on("GET /api/v1/configmaps", [Answer::status(406, "NotAcceptable", "only JSON")]);
    api.on("GET /api/v1/secrets", [Answer::hang()]);
    let start = Instant::now();
    let run = gitops_as(&api.kubeconfig(&folder), &["prune", "--plan", "--request-timeout=1s"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_stale_group_is_a_gap() {
    let folder = Folder::new("bad-input");
    let api = FakeApi::start();
    two_types(&api);
    let stale = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": [
        {"metadata": {"name": "metrics.k8s.io"}, "versions": [{"version": "v1beta1", "freshness": "Stale"}]}]});
    let kind = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    api.on("GET /apis", [Answer::raw(200, kind, stale.to_string())]);
    api.on("GET /api/v1/configmaps", [list(&["a"])]);
    api.on("GET /api/v1/secrets", [list(&[])]);
    let run = gitops_as(&api.kubeconfig(&folder), &["prune", "--plan"]);
    expect(&run, 5, &["warning: metrics.k8s.io/v1beta1 could not be read"]);
}

#[test]
fn an_old_server_without_aggregated_discovery_is_read_group_by_group() {
    let folder = Folder::new("bad-input");
    let api = FakeApi::start();
    api.on("GET /api", [Answer::json(json!({"kind": "APIVersions", "versions": ["v1"]}))]);
    api.on(
        "GET /apis",
        [Answer::json(json!({"kind": "APIGroupList", "groups": [
        {"name": "dead.example.com", "versions": [{"groupVersion": "dead.example.com/v1", "version": "v1"}],
         "preferredVersion": {"groupVersion": "dead.example.com/v1", "version": "v1"}}]}))],
    );
    api.on("GET /api/v1", [Answer::json(json!({"kind": "APIResourceList", "resources": [
        {"name": "configmaps", "singularName": "", "namespaced": true, "kind": "ConfigMap", "verbs": ["list", "delete"]},
        {"name": "pods/log", "singularName": "", "namespaced": true, "kind": "Pod", "verbs": ["get"]}]}))]);
    api.on("GET /apis/dead.example.com/v1", [Answer::status(503, "ServiceUnavailable", "no endpoints")]);
    api.on("GET /api/v1/configmaps", [list(&["a"])]);
    let run = gitops_as(&api.kubeconfig(&folder), &["prune", "--plan"]);
    expect(&run, 5, &["warning: dead.example.com/v1 could not be read"]);
}

#[test]
fn snapshots_that_are_none_are_refused_with_their_fault() {
    let folder = Folder::new("bad-input");
    let good = json!({"schema": "kubectl-gitops/snapshot/v1", "taken": "2026-01-01T00:00:00Z", "cluster": {"uid": "", "server": ""},
                      "types": [], "objects": [], "full": [], "gaps": []}).to_string();
    let mut packed = flate2::write::GzEncoder::new(vec![], flate2::Compression::default());
    packed.write_all(good.as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    let cases: [(&str, &[u8], i32, &str); 6] = [
        ("good.json", good.as_bytes(), 0, "nothing to prune"),
        ("good.json.gz", &packed, 0, "nothing to prune"),
        ("cut.json", &good.as_bytes()[..40], 1, "it is truncated"),
        ("cut.json.gz", &packed[..20], 1, "it is damaged or truncated"),
        ("other.json", br#"{"schema": "someone/else/v2"}"#, 1, "its schema is \"someone/else/v2\""),
        ("text.json", b"hello", 1, "it is not a JSON document"),
    ];
    for (name, content, code, words) in cases {
        let file = folder.path().join(name);
        fs::write(&file, content).unwrap();
        let run = alone(&["prune", "--plan", "--snapshot", file.to_str().unwrap()]);
        expect(&run, code, &[words]);
    }
    let run = alone(&["prune", "--plan", "--snapshot", "no-such-file.json"]);
    expect(
        &run,
        1,
        &["cannot open snapshot no-such-file.json", "hint: record one with `kubectl gitops snapshot FILE`"],
    );
}

#[test]
fn a_closed_pipe_is_no_error() {
    let binary = Path::new(env!("CARGO_BIN_EXE_kubectl-gitops")).display().to_string();
    let output = Command::new("bash")
        .args(["-c", &format!("'{binary}' completion bash | head -c 1 > /dev/null; echo ${{PIPESTATUS[0]}}")])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "0");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn usage_errors_end_with_two() {
    for args in
        [&["prune", "--plan", "--max-percent=101"][..], &["prune", "--out", "x"], &["prun"], &["get", "-o", "bogus"]]
    {
        assert_eq!(alone(args).code, 2, "{args:?}");
    }
    assert_eq!(alone(&["prune", "--plan", "--by", "nobody", "--snapshot", "examples/none.json"]).code, 1);
}
