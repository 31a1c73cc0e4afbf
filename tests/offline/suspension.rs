//! `get`, `suspend` and `resume` against a server that misbehaves as the real one does not on demand.

use insta::assert_snapshot;
use serde_json::{Value, json};
use test_support::fake_api::{Answer, FakeApi};
use test_support::folder::Folder;
use test_support::gitops::{Run, Transcript, gitops_as};

use crate::prune::deletion::KUSTOMIZATIONS;

pub(crate) const PATH: &str = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/shop/kustomizations";

/// A server with the type Kustomization.
pub(crate) fn api() -> FakeApi {
    let api = FakeApi::start();
    api.serve_types(&[KUSTOMIZATIONS]);
    api.on(&format!("GET {PATH}/nope"), [Answer::missing("nope")]);
    api
}

pub(crate) fn object(version: u32, annotations: Value) -> Value {
    json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": "apps", "namespace": "shop", "uid": "u", "resourceVersion": version.to_string(),
                     "generation": 1, "annotations": annotations},
        "spec": {"prune": false},
    })
}

/// An entry of managedFields that owns annotations, and `spec.suspend` if `spec` is true.
pub(crate) fn owner(manager: &str, annotations: &[&str], spec: bool) -> Value {
    let keys = annotations.iter().map(|key| (format!("f:{key}"), json!({})));
    let mut fields = json!({"f:metadata": {"f:annotations": Value::Object(keys.collect())}});
    if spec {
        fields["f:spec"] = json!({"f:suspend": {}});
    }
    json!({"manager": manager, "operation": "Update", "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
           "time": "2026-01-02T12:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields})
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
    kustomization.kustomize.toolkit.fluxcd.io/apps annotated
    --- stderr
    warning: no released Flux controller honours the annotation reconcile.fluxcd.io/suspended: reconciliation goes on
    hint: --spec sets spec.suspend too; set KUBECTL_GITOPS_ANNOTATION_HONOURED=true if your controllers honour the annotation
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
    hint: replace the message with --overwrite
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
    kustomization.kustomize.toolkit.fluxcd.io/apps annotated
    --- stderr
    warning: kustomization.kustomize.toolkit.fluxcd.io/apps: generation moved from 1 to 2: something changed its spec with this request
    warning: no released Flux controller honours the annotation reconcile.fluxcd.io/suspended: reconciliation goes on
    hint: --spec sets spec.suspend too; set KUBECTL_GITOPS_ANNOTATION_HONOURED=true if your controllers honour the annotation
    ");
    assert_snapshot!(suspend(&api, &["--spec"]), @"
    exit code 5
    --- stdout
    kustomization.kustomize.toolkit.fluxcd.io/apps unchanged
    --- stderr
    error: kustomization.kustomize.toolkit.fluxcd.io/apps: the server dropped spec.suspend, which this version of the kind does not have
    error: kustomization.kustomize.toolkit.fluxcd.io/apps: the server dropped the annotation reconcile.fluxcd.io/suspended
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
    kustomization.kustomize.toolkit.fluxcd.io/apps annotated (dry run)
    --- stderr
    warning: no released Flux controller honours the annotation reconcile.fluxcd.io/suspended: reconciliation goes on
    hint: --spec sets spec.suspend too; set KUBECTL_GITOPS_ANNOTATION_HONOURED=true if your controllers honour the annotation
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

/// A server with two Kustomizations that prune and carry the label `team=web`.
fn api_with_two_kustomizations() -> FakeApi {
    let api = api();
    let mut items = vec![];
    for name in ["apps", "web"] {
        let mut item = object(7, json!({"reconcile.fluxcd.io/suspended": "true"}));
        item["metadata"]["name"] = json!(name);
        item["metadata"]["uid"] = json!(name);
        item["metadata"]["labels"] = json!({"team": "web"});
        item["metadata"]["managedFields"] = json!([owner("gitops-suspend", &["reconcile.fluxcd.io/suspended"], false)]);
        item["spec"]["prune"] = json!(true);
        api.on(&format!("GET {PATH}/{name}"), [Answer::json(item.clone())]);
        api.on(&format!("PATCH {PATH}/{name}"), [Answer::json(item.clone())]);
        items.push(item);
    }
    let list = json!({"kind": "KustomizationList", "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
                      "metadata": {"resourceVersion": "7"}, "items": items});
    api.on(&format!("GET {PATH}"), [Answer::json(list)]);
    api.on("GET /api/v1/namespaces/shop/events", [Answer::list("v1", "Event", vec![])]);
    api
}

pub(crate) fn gitops(api: &FakeApi, args: &[&str]) -> Run {
    gitops_as(&api.kubeconfig(&Folder::new("verbs")), args)
}

#[test]
fn selected_objects_are_changed_only_after_confirmation() {
    for (verb, selection) in [
        ("suspend", &["-l", "team=web"][..]),
        ("suspend", &["--all"]),
        ("resume", &["-l", "team=web"]),
        ("resume", &["--all"]),
    ] {
        let api = api_with_two_kustomizations();
        let message: &[&str] = if verb == "suspend" { &["-m", "drill"] } else { &[] };
        let command = [&[verb, "ks"], selection, message].concat();
        let run = gitops(&api, &command);
        assert_eq!((run.code, run.stdout.as_str()), (6, ""), "{command:?}: {run}");
        let refusal = format!("error: refusing to {verb} 2 objects: no terminal to ask on\n");
        assert!(run.stderr.contains(&refusal) && run.stderr.contains("then pass --yes"), "{command:?}: {run}");
        let dry = gitops(&api, &[&command[..], &["--dry-run=client"]].concat());
        assert_eq!((dry.code, dry.stdout.matches("(dry run)").count()), (0, 2), "{command:?}: {dry}");
        assert!(api.requests_to("PATCH *").is_empty(), "{command:?}");
        let confirmed = gitops(&api, &[&command[..], &["--yes"]].concat());
        assert_eq!(confirmed.stdout.lines().count(), 2, "{command:?}: {confirmed}");
        assert_eq!(api.requests_to("PATCH *").len(), 2, "{command:?}");
    }
}

#[test]
fn named_objects_are_suspended_without_a_question() {
    let api = api_with_two_kustomizations();
    assert_snapshot!(gitops(&api, &["suspend", "ks", "apps", "web", "-m", "drill"]), @"
    exit code 0
    --- stdout
    kustomization.kustomize.toolkit.fluxcd.io/apps annotated
    kustomization.kustomize.toolkit.fluxcd.io/web annotated
    --- stderr
    warning: with the annotation alone, deleting a Kustomization still prunes what it applied; --spec prevents that
    warning: no released Flux controller honours the annotation reconcile.fluxcd.io/suspended: reconciliation goes on
    hint: --spec sets spec.suspend too; set KUBECTL_GITOPS_ANNOTATION_HONOURED=true if your controllers honour the annotation
    ");
    assert_eq!(api.requests_to("PATCH *").len(), 2);
}

pub(crate) fn json_of(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run}"))
}

fn keys(document: &Value) -> Vec<&str> {
    document.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn every_key_of_the_get_document_comes_from_the_cluster() {
    let api = api_with_two_kustomizations();
    let document = json_of(&gitops(&api, &["get", "ks", "-o", "json"]));
    assert_eq!(keys(&document), ["complete", "errors", "gaps", "items", "schema"]);
    assert_eq!(document["schema"], "kubectl-gitops/get/v1");
    assert_eq!((&document["complete"], &document["gaps"], &document["errors"]), (&json!(true), &json!([]), &json!([])));
    let names: Vec<_> = document["items"].as_array().unwrap().iter().map(|item| &item["object"]["name"]).collect();
    assert_eq!(names, ["apps", "web"]);
    assert_eq!(document["items"][0]["suspension"]["by"], "annotation");

    let missing = gitops(&api, &["get", "ks", "apps", "nope", "-o", "json"]);
    let document = json_of(&missing);
    assert_eq!((missing.code, &document["complete"]), (5, &json!(false)), "{missing}");
    let error = "Error from server (NotFound): kustomizations.kustomize.toolkit.fluxcd.io \"nope\" not found";
    assert_eq!(document["errors"], json!([error]));

    api.on(&format!("GET {PATH}"), [Answer::status(403, "Forbidden", "no")]);
    let denied = gitops(&api, &["get", "ks", "-o", "json"]);
    let document = json_of(&denied);
    assert_eq!((denied.code, &document["complete"]), (5, &json!(false)), "{denied}");
    let gap = json!({"kind": "forbidden", "subject": "kustomizations.kustomize.toolkit.fluxcd.io", "namespace": "shop",
                     "message": "no", "affectsAnswer": true});
    assert_eq!(document["gaps"], json!([gap]));

    let recorded = json_of(&gitops(&api, &["get", "--snapshot", "examples/shop.json.gz", "-o", "json"]));
    assert_eq!((keys(&recorded), &recorded["schema"]), (keys(&document), &json!("kubectl-gitops/get/v1")));
    assert!(recorded["items"].as_array().unwrap().iter().any(|item| item["object"]["kind"] == "Kustomization"));
}

#[test]
fn every_key_of_the_result_document_comes_from_the_patches() {
    let api = api_with_two_kustomizations();
    let suspended = json_of(&gitops(&api, &["suspend", "ks/apps", "-m", "drill", "-o", "json"]));
    assert_eq!(keys(&suspended), ["complete", "dryRun", "errors", "gaps", "items", "schema"]);
    assert_eq!((&suspended["schema"], &suspended["dryRun"]), (&json!("kubectl-gitops/result/v1"), &json!("none")));
    assert_eq!(
        (&suspended["complete"], &suspended["gaps"], &suspended["errors"]),
        (&json!(true), &json!([]), &json!([]))
    );
    let item = &suspended["items"][0];
    assert_eq!(keys(item), ["error", "object", "result", "suspension"]);
    assert_eq!(
        (&item["object"]["name"], &item["result"], &item["error"]),
        (&json!("apps"), &json!("annotated"), &Value::Null)
    );
    assert_eq!(item["suspension"]["by"], "annotation");

    let dry = json_of(&gitops(&api, &["resume", "ks/apps", "--dry-run=client", "-o", "json"]));
    assert_eq!((&dry["dryRun"], &dry["items"][0]["result"]), (&json!("client"), &json!("resumed")));

    let missing = gitops(&api, &["suspend", "ks", "apps", "nope", "-o", "json"]);
    let document = json_of(&missing);
    assert_eq!(
        (missing.code, &document["complete"], &document["items"][0]["result"]),
        (5, &json!(false), &json!("unchanged")),
        "{missing}"
    );
    assert!(document["errors"][0].as_str().unwrap().contains("\"nope\" not found"), "{missing}");

    let other = object(7, json!({"reconcile.fluxcd.io/suspended": "mine"}));
    api.on(&format!("GET {PATH}/apps"), [Answer::json(other)]);
    let refused = json_of(&gitops(&api, &["suspend", "ks/apps", "-m", "drill", "-o", "json"]));
    assert_eq!((&refused["complete"], &refused["items"][0]["result"]), (&json!(false), &json!("refused")));
    assert_eq!(refused["items"][0]["error"], "already suspended with another message: mine");

    api.on(&format!("GET {PATH}"), [Answer::status(403, "Forbidden", "no")]);
    let denied = json_of(&gitops(&api, &["resume", "ks", "--all", "--yes", "-o", "json"]));
    assert_eq!((&denied["complete"], &denied["gaps"][0]["kind"]), (&json!(false), &json!("forbidden")));
}

/// An object that is suspended until a time.
fn until(name: &str, time: &str) -> Value {
    let annotations = json!({"reconcile.fluxcd.io/suspended": "drill", "kubectl-gitops/suspended-until": time});
    let mut object = object(7, annotations);
    object["metadata"]["name"] = json!(name);
    object["metadata"]["uid"] = json!(format!("uid-{name}"));
    object
}

#[test]
fn an_end_and_a_link_are_stored_with_the_suspension() {
    let api = api();
    api.on(&format!("GET {PATH}/apps"), [Answer::json(object(7, json!({})))]);
    api.on(&format!("PATCH {PATH}/apps"), [suspended(8)]);
    let before = chrono::Utc::now();
    suspend(&api, &["--for", "1h30m", "--link", "https://inc.example.com/1"]);
    let patch: Value = serde_json::from_slice(&api.requests_to(&format!("PATCH {PATH}/apps"))[0].body).unwrap();
    let annotations = &patch["metadata"]["annotations"];
    assert_eq!(annotations["kubectl-gitops/suspended-link"], "https://inc.example.com/1");
    let until = annotations["kubectl-gitops/suspended-until"].as_str().unwrap();
    let minutes = (until.parse::<chrono::DateTime<chrono::Utc>>().unwrap() - before).num_minutes();
    assert!((89..=91).contains(&minutes), "{until}");
}

#[test]
fn an_end_that_is_no_time_is_refused_before_any_request() {
    let api = api();
    for value in ["-1h", "0", "0s", "10ms", "soon", "", "9000h", "99999999999999h", "1d", "2"] {
        let run = suspend(&api, &["--for", value]);
        assert!(run.code == 2 && run.stderr.contains("--for"), "{value:?}: {run}");
    }
    for value in ["", "inc/1", "https://", "javascript:alert(1)", "https://a b", "https://\u{202e}x", "ftp://x"] {
        let run = suspend(&api, &["--link", value]);
        assert!(run.code == 2 && run.stderr.contains("--link"), "{value:?}: {run}");
    }
    assert!(api.requests().is_empty());
}

#[test]
fn expired_suspensions_are_shown_and_ended_and_others_are_not() {
    let (api, folder) = (api(), Folder::new("expired"));
    let objects =
        || vec![until("over", "2020-01-01T00:00:00Z"), until("later", "2999-01-01T00:00:00Z"), object(7, json!({}))];
    api.on(&format!("GET {PATH}*"), [Answer::list("kustomize.toolkit.fluxcd.io/v1", "Kustomization", objects())]);
    let mut resumed = until("over", "2020-01-01T00:00:00Z");
    resumed["metadata"]["annotations"] = json!({});
    api.on(&format!("PATCH {PATH}/over"), [Answer::json(resumed)]);
    let kubeconfig = api.kubeconfig(&folder);

    let shown = gitops_as(&kubeconfig, &["get", "ks", "--expired", "-o", "name"]);
    assert_eq!(shown.stdout, "kustomization.kustomize.toolkit.fluxcd.io/over\n", "{shown}");

    let refused = gitops_as(&kubeconfig, &["resume", "ks", "--expired"]);
    assert!(refused.code == 6 && refused.stderr.contains("refusing to resume 1 object"), "{refused}");

    let resumed = gitops_as(&kubeconfig, &["resume", "ks", "--expired", "--yes"]);
    assert_eq!(resumed.stdout, "kustomization.kustomize.toolkit.fluxcd.io/over resumed\n", "{resumed}");
    let patches: Vec<_> = api.requests().into_iter().filter(|request| request.method == "PATCH").collect();
    assert_eq!(patches.len(), 1);
    let patch: Value = serde_json::from_slice(&patches[0].body).unwrap();
    assert_eq!(patch["metadata"]["annotations"]["kubectl-gitops/suspended-until"], Value::Null);
}

/// Somebody prolongs the suspension between the list and the patch.
#[test]
fn a_suspension_that_was_prolonged_in_the_meantime_goes_on() {
    let (api, folder) = (api(), Folder::new("prolonged"));
    api.on(
        &format!("GET {PATH}/over"),
        [Answer::json(until("over", "2020-01-01T00:00:00Z")), Answer::json(until("over", "2999-01-01T00:00:00Z"))],
    );
    api.on(&format!("PATCH {PATH}/over"), [conflict()]);
    let run = gitops_as(&api.kubeconfig(&folder), &["resume", "ks", "over", "--expired"]);
    assert_eq!(api.requests_to(&format!("PATCH {PATH}/over")).len(), 1, "{run}");
    assert!(!run.stdout.contains("resumed\n"), "{run}");
}
