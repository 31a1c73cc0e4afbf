//! `prune --parallel N` on a scripted API server: no more than N at once, waves one after another, everything else as
//! without it.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use serde_json::{Value, json};
use test_support::fake_api::{Answer, FakeApi, Recorded};
use test_support::folder::Folder;
use test_support::gitops::{Run, Transcript, binary, gitops_as};

const FLUX: &str = "kustomize.toolkit.fluxcd.io";
/// Leaked objects of each of the two kinds.
const EACH: usize = 10;
const DELAY: Duration = Duration::from_millis(100);

fn path(plural: &str, number: usize) -> String {
    format!("/api/v1/namespaces/shop/{plural}/x{number}")
}

fn kind_of(plural: &str) -> &'static str {
    if plural == "secrets" { "Secret" } else { "ConfigMap" }
}

fn leaked(plural: &str, number: usize) -> Value {
    let (name, namespace) = (format!("{FLUX}/name"), format!("{FLUX}/namespace"));
    json!({"apiVersion": "v1", "kind": kind_of(plural), "metadata": {"name": format!("x{number}"), "namespace": "shop", "uid": format!("{plural}-{number}"),
        "resourceVersion": "1", "labels": {&name: "apps", &namespace: "flux-system"},
        "managedFields": [{"manager": "kustomize-controller", "operation": "Apply",
            "fieldsV1": {"f:metadata": {"f:labels": {format!("f:{name}"): {}, format!("f:{namespace}"): {}}}}}]}})
}

/// A cluster with a settled Kustomization, ten leaked Secrets and ten leaked ConfigMaps; deletions take their time.
fn cluster() -> FakeApi {
    cluster_of(EACH, DELAY)
}

fn cluster_of(each: usize, delay: Duration) -> FakeApi {
    let api = FakeApi::start();
    api.serve_types(&[
        ("v1", "ConfigMap", "configmaps", true),
        ("v1", "Secret", "secrets", true),
        (&format!("{FLUX}/v1"), "Kustomization", "kustomizations", true),
    ]);
    let entries: Vec<Value> =
        (0..900).map(|number| json!({"id": format!("shop_cm-{number}__ConfigMap"), "v": "v1"})).collect();
    let owner = json!({"apiVersion": format!("{FLUX}/v1"), "kind": "Kustomization", "metadata": {"name": "apps", "namespace": "flux-system", "uid": "o", "resourceVersion": "5", "generation": 1},
        "spec": {"prune": true},
        "status": {"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True"}], "inventory": {"entries": entries}}});
    api.on(
        &format!("GET /apis/{FLUX}/v1/kustomizations"),
        [Answer::list(&format!("{FLUX}/v1"), "Kustomization", vec![owner.clone()])],
    );
    api.on(&format!("GET /apis/{FLUX}/v1/namespaces/flux-system/kustomizations/apps"), [Answer::json(owner)]);
    for plural in ["configmaps", "secrets"] {
        let all = (0..each).map(|number| leaked(plural, number)).collect();
        api.on(&format!("GET /api/v1/{plural}"), [Answer::list("v1", kind_of(plural), all)]);
        for number in 0..each {
            let path = path(plural, number);
            let gone = Answer::missing(&format!("x{number}"));
            api.on(&format!("GET {path}"), [Answer::json(leaked(plural, number)).after(delay), gone]);
            api.on(&format!("DELETE {path}"), [accepted().after(delay)]);
        }
    }
    api
}

fn accepted() -> Answer {
    Answer::json(json!({"kind": "Status", "status": "Success"})).after(DELAY)
}

fn prune(api: &FakeApi, parallel: &str) -> Run {
    let folder = Folder::new("parallel");
    let parallel = format!("--parallel={parallel}");
    gitops_as(&api.kubeconfig(&folder), &["prune", "--yes", "--timeout=2s", &parallel])
}

/// Requests after the dry-runs.
fn executed(api: &FakeApi) -> Vec<Recorded> {
    let requests = api.requests();
    let rehearsal = |request: &Recorded| request.method == "DELETE" && request.body.windows(6).any(|w| w == b"dryRun");
    let last = requests.iter().rposition(rehearsal).expect("a rehearsal");
    requests[last + 1..].to_vec()
}

fn names(run: &Run) -> Vec<&str> {
    run.stdout.lines().filter(|line| line.contains("-n shop ")).collect()
}

fn in_order() -> Vec<String> {
    let of = |kind: &'static str| (0..EACH).rev().map(move |number| format!("{kind}/x{number} -n shop deleted"));
    of("secret").chain(of("configmap")).collect()
}

#[test]
fn one_after_another_unless_told_otherwise() {
    let _alone = crate::alone();
    let api = cluster();
    let folder = Folder::new("parallel");
    let run = gitops_as(&api.kubeconfig(&folder), &["prune", "--yes", "--timeout=2s"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(names(&run), in_order());
    assert_eq!((api.peak_of("DELETE *"), api.peak_of("GET /api/v1/namespaces/*")), (1, 1));
    assert_eq!(api.requests_to("GET /api").len(), 3, "the plan and each of the two waves read the cluster");
}

#[test]
fn as_many_at_once_as_asked_and_kind_after_kind() {
    let _alone = crate::alone();
    let api = cluster();
    let run = prune(&api, "4");
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(names(&run), in_order(), "printed in the order of the plan");
    assert_eq!((api.peak_of("DELETE *"), api.peak_of("/api/v1/namespaces/*")), (4, 4));
    let requests = executed(&api);
    let is = |plural: &'static str| move |request: &Recorded| request.target.contains(plural);
    let last = requests.iter().rposition(is("/secrets/")).unwrap();
    let first = requests.iter().position(is("/configmaps/")).unwrap();
    assert!(last < first, "no ConfigMap is looked at before every Secret is gone");
    let deletes = requests.iter().filter(|request| request.method == "DELETE");
    for request in deletes {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let (plural, number) = request.target.rsplit_once("/x").unwrap();
        let uid = format!("{}-{number}", plural.rsplit('/').next().unwrap());
        assert_eq!(body["preconditions"], json!({"uid": uid, "resourceVersion": "1"}));
    }
}

/// `cargo xtask bench --prune 200` measures the same on a real API server.
#[test]
fn eight_at_once_are_at_least_four_times_as_fast_as_one() {
    let _alone = crate::alone();
    let took = |parallel: &str| {
        let api = cluster_of(40, Duration::from_millis(40));
        let folder = Folder::new("parallel");
        let limit = "--max-delete=80";
        let start = Instant::now();
        let run = gitops_as(&api.kubeconfig(&folder), &["prune", "--yes", "--parallel", parallel, limit]);
        assert_eq!((run.code, names(&run).len()), (0, 80), "{run}");
        start.elapsed()
    };
    let (one, eight) = (took("1"), took("8"));
    xtask::say(format!("80 objects: {one:.1?} one after another, {eight:.1?} eight at a time"));
    assert!(one >= eight * 4, "{one:?} one after another, {eight:?} eight at a time");
}

#[test]
fn the_limit_of_requests_in_flight_holds_whatever_is_asked() {
    let _alone = crate::alone();
    let api = cluster();
    let run = prune(&api, "32");
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(api.peak_of("/api/v1/namespaces/*"), 8, "the limit on loopback");
    assert!(api.peak_of("*") <= 8, "{}", api.peak_of("*"));
}

#[test]
fn one_failure_among_many_is_reported_and_stops_nothing() {
    let _alone = crate::alone();
    let api = cluster();
    let refused = || Answer::status(403, "Forbidden", "a policy says no").after(DELAY);
    api.on(&format!("DELETE {}", path("secrets", 8)), [accepted(), refused()]);
    api.on(&format!("GET {}", path("secrets", 8)), [Answer::json(leaked("secrets", 8))]);
    let mut held = leaked("secrets", 6);
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    held["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let before = || Answer::json(leaked("secrets", 6));
    api.on(&format!("GET {}", path("secrets", 6)), [before(), Answer::json(held)]);
    let mut taken = leaked("configmaps", 3);
    taken["metadata"]["uid"] = json!("another");
    api.on(&format!("GET {}", path("configmaps", 3)), [Answer::json(taken)]);
    let run = prune(&api, "5");
    assert_eq!(run.code, 5, "{run:?}");
    let mut expected = in_order();
    expected[3] = "secret/x6 -n shop is still terminating, held by example.com/hold".to_owned();
    expected[16] =
        "configmap/x3 -n shop skipped: it changed after the plan was made: replaced: another object has taken its name"
            .to_owned();
    let told = names(&run);
    assert_snapshot!(told[1], @"secret/x8 -n shop not deleted: Error from server (Forbidden): a policy says no");
    expected[1] = told[1].to_owned();
    assert_eq!(told, expected);
    assert_snapshot!(run.stderr, @"
    20 to delete
    waiting for secret/x6 -n shop, held by example.com/hold
    17 of 20 objects deleted
    ");
}

#[test]
fn a_rehearsal_that_fails_stops_parallel_deletions() {
    let _alone = crate::alone();
    let api = cluster();
    api.on(&format!("DELETE {}", path("secrets", 8)), [Answer::status(403, "Forbidden", "a policy says no")]);
    let run = prune(&api, "5");
    assert_eq!(run.code, 6, "{run:?}");
    assert_snapshot!(run.stderr, @"
    20 to delete
    error: refused, nothing was deleted: the server would refuse 1 deletion: secret/x8 -n shop: Error from server (Forbidden): a policy says no
    hint: plan again; if it stays, look at your rights and at admission policies
    ");
    assert!(names(&run).is_empty());
    assert!(api.requests_to("DELETE *").iter().all(|request| request.body.windows(6).any(|w| w == b"dryRun")));
}

#[test]
fn absurd_numbers_are_usage_errors() {
    let _alone = crate::alone();
    let api = cluster();
    let mut transcript = Transcript::default();
    for number in ["0", "-1", "33", "many", ""] {
        let run = prune(&api, number);
        assert_eq!(run.code, 2, "{number}: {run}");
        transcript.add(&format!("--parallel={number}"), &run);
    }
    assert_snapshot!(transcript, @r#"
    === --parallel=0
    exit code 2
    --- stderr
    error: invalid value "0" for --parallel <N>: it must be a number from 1 to 32
    hint: `kubectl gitops prune -h` shows its usage

    === --parallel=-1
    exit code 2
    --- stderr
    error: invalid value "-1" for --parallel <N>: it must be a number from 1 to 32
    hint: `kubectl gitops prune -h` shows its usage

    === --parallel=33
    exit code 2
    --- stderr
    error: invalid value "33" for --parallel <N>: it must be a number from 1 to 32
    hint: `kubectl gitops prune -h` shows its usage

    === --parallel=many
    exit code 2
    --- stderr
    error: invalid value "many" for --parallel <N>: it must be a number from 1 to 32
    hint: `kubectl gitops prune -h` shows its usage

    === --parallel=
    exit code 2
    --- stderr
    error: invalid value "" for --parallel <N>: it must be a number from 1 to 32
    hint: `kubectl gitops prune -h` shows its usage
    "#);
    assert!(api.requests().is_empty());
}

#[test]
fn an_interrupt_begins_nothing_more() {
    let _alone = crate::alone();
    let api = cluster();
    for number in 0..EACH {
        api.on(&format!("DELETE {}", path("secrets", number)), [accepted(), Answer::hang()]);
        api.on(&format!("GET {}", path("secrets", number)), [Answer::json(leaked("secrets", number))]);
    }
    let folder = Folder::new("parallel");
    let child = Command::new(binary())
        .args(["prune", "--yes", "--timeout=2s", "--parallel=4"])
        .env("KUBECONFIG", api.kubeconfig(&folder))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    // Each of the twenty is rehearsed once; what follows is meant.
    while api.requests_to("DELETE *").len() < 2 * EACH + 4 {
        assert!(Instant::now() < end, "four deletions were not sent within a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
    let signal = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(signal.success());
    let output = child.wait_with_output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(130), "{out} {err}");
    assert_eq!(out.matches("interrupted: the deletion may have been sent").count(), 4, "{out}");
    assert_eq!(out.matches(" not tried\n").count(), 2 * EACH - 4, "{out}");
    assert!(err.contains("interrupted: 0 of 20 objects deleted; plan again to see what is left"), "{err}");
    assert_eq!(api.requests_to("DELETE *").len(), 2 * EACH + 4);
}
