//! Rule 7 of the design: how a deletion is sent, and what stops it at the last moment. Faults come from a fake server.

use std::cell::Cell;
use std::time::Duration;

use gitops_core::kubernetes::snapshot::ClusterIdentity;
use gitops_core::ownership::index::Index;
use gitops_core::plan::{Action, Actor, Change, Plan, ReasonCode};
use insta::assert_snapshot;
use kubectl_gitops::cluster::{Execution, OWNERS_AGE, execute};
use serde_json::{Value, json};
use test_support::connection::connect;
use test_support::fake_api::{Answer, FakeApi};
use test_support::folder::Folder;
use test_support::gitops::{Run, Transcript, gitops_as};

pub(crate) const CONFIG_MAPS: (&str, &str, &str, bool) = ("v1", "ConfigMap", "configmaps", true);
pub(crate) const KUSTOMIZATIONS: (&str, &str, &str, bool) =
    ("kustomize.toolkit.fluxcd.io/v1", "Kustomization", "kustomizations", true);
pub(crate) const OBJECT: &str = "/api/v1/namespaces/shop/configmaps/leaked";

/// A cluster with a settled Kustomization of 20 objects and one leaked ConfigMap.
pub(crate) fn cluster() -> FakeApi {
    let api = FakeApi::start();
    let flux = "kustomize.toolkit.fluxcd.io";
    api.serve_types(&[CONFIG_MAPS, KUSTOMIZATIONS]);
    api.on("GET /api/v1/configmaps", [Answer::list("v1", "ConfigMap", vec![leaked("1")])]);
    api.on(&format!("GET /apis/{flux}/v1/kustomizations"), [owners(vec![owner("True")])]);
    api.on(&format!("GET /apis/{flux}/v1/namespaces/flux-system/kustomizations/apps"), [Answer::json(owner("True"))]);
    api.on(&format!("GET {OBJECT}"), [Answer::json(leaked("1")), gone()]);
    api.on(&format!("DELETE {OBJECT}"), [Answer::json(json!({"kind": "Status", "status": "Success"}))]);
    api
}

fn owners(items: Vec<Value>) -> Answer {
    Answer::list("kustomize.toolkit.fluxcd.io/v1", "Kustomization", items)
}

fn gone() -> Answer {
    Answer::missing("leaked")
}

pub(crate) fn leaked(resource_version: &str) -> Value {
    let name = "kustomize.toolkit.fluxcd.io/name";
    let namespace = "kustomize.toolkit.fluxcd.io/namespace";
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "leaked", "namespace": "shop", "uid": "u1", "resourceVersion": resource_version,
        "labels": {name: "apps", namespace: "flux-system"},
        "managedFields": [{"manager": "kustomize-controller", "operation": "Apply",
            "fieldsV1": {"f:metadata": {"f:labels": {format!("f:{name}"): {}, format!("f:{namespace}"): {}}}}}]}})
}

fn owner(ready: &str) -> Value {
    let entries: Vec<Value> =
        (0..20).map(|number| json!({"id": format!("shop_cm-{number}__ConfigMap"), "v": "v1"})).collect();
    json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": "apps", "namespace": "flux-system", "uid": "o", "resourceVersion": "5", "generation": 1},
        "spec": {"prune": true},
        "status": {"observedGeneration": 1, "conditions": [{"type": "Ready", "status": ready}], "inventory": {"entries": entries}}})
}

fn prune(api: &FakeApi) -> Run {
    let folder = Folder::new("deleting");
    gitops_as(&api.kubeconfig(&folder), &["prune", "--yes", "--timeout=2s"])
}

/// The deletions that were sent for real.
pub(crate) fn real_deletes(api: &FakeApi) -> Vec<Value> {
    let bodies = api.requests_to("DELETE *").into_iter().map(|request| serde_json::from_slice(&request.body).unwrap());
    bodies.filter(|body: &Value| body.get("dryRun").is_none()).collect()
}

#[test]
fn a_deletion_is_rehearsed_then_read_again_then_sent_with_uid_and_resource_version() {
    let api = cluster();
    assert_snapshot!(prune(&api), @"
    exit code 0
    --- stdout
    kustomization/apps -n flux-system   1 to delete   in namespace shop
      delete    ConfigMap/leaked   leaked
    configmap/leaked -n shop deleted
    --- stderr
    1 to delete
    1 of 1 object deleted
    ");
    let lines: Vec<String> =
        api.requests().iter().map(|request| request.line()).skip_while(|line| !line.starts_with("DELETE")).collect();
    let owners = "GET /apis/kustomize.toolkit.fluxcd.io/v1/kustomizations";
    let owner = "GET /apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/apps";
    let (get, delete) = (format!("GET {OBJECT}"), format!("DELETE {OBJECT}"));
    let named = [&*delete, &*get, owner];
    let order: Vec<&str> = lines.iter().map(String::as_str).filter(|line| named.contains(line)).collect();
    assert_eq!(order, [&delete, &get, owner, &delete, &get], "rehearse, read object and owner, delete, see it gone");
    let last = |what: &str| lines.iter().rposition(|line| line == what).unwrap();
    let first_get = lines.iter().position(|line| *line == get).unwrap();
    assert!(
        first_get < last(owners) && last(owners) < last(&delete),
        "all owners are listed after the object: {lines:#?}"
    );
    assert!(lines[1..first_get].contains(&"GET /api/v1/configmaps".to_owned()), "the wave begins with a new reading");
    let deletes = real_deletes(&api);
    assert_eq!(deletes[0]["preconditions"], json!({"uid": "u1", "resourceVersion": "1"}));
    assert_eq!(deletes[0]["propagationPolicy"], "Background");
    let rehearsal: Value = serde_json::from_slice(&api.requests_to("DELETE *")[0].body).unwrap();
    assert_eq!(rehearsal["dryRun"], json!(["All"]));
}

#[test]
fn a_rehearsal_that_fails_stops_everything() {
    let api = cluster();
    api.on(&format!("DELETE {OBJECT}"), [Answer::status(403, "Forbidden", "admission webhook denied the request")]);
    let run = prune(&api);
    assert_snapshot!(run, @"
    exit code 6
    --- stdout
    kustomization/apps -n flux-system   1 to delete   in namespace shop
      delete    ConfigMap/leaked   leaked
    --- stderr
    1 to delete
    error: refused, nothing was deleted: the server would refuse 1 deletion: configmap/leaked -n shop: Error from server (Forbidden): admission webhook denied the request
    hint: plan again; if it stays, look at your rights and at admission policies
    ");
    assert!(real_deletes(&api).is_empty());
}

#[test]
fn objects_that_no_longer_qualify_are_not_deleted() {
    let mut protected = leaked("2");
    protected["metadata"]["annotations"] = json!({"kustomize.toolkit.fluxcd.io/prune": "disabled"});
    let mut unlabelled = leaked("2");
    unlabelled["metadata"]["labels"] = json!({});
    let mut another = leaked("2");
    another["metadata"]["uid"] = json!("u2");
    let mut transcript = Transcript::default();
    for (what, now) in [("protected", protected), ("no longer claimed", unlabelled), ("another object", another)] {
        let api = cluster();
        api.on(&format!("GET {OBJECT}"), [Answer::json(now)]);
        let run = prune(&api);
        transcript.add(what, &run);
        assert!(real_deletes(&api).is_empty(), "{what}");
    }
    assert_snapshot!(transcript, @"
    === protected
    exit code 5
    --- stdout
    kustomization/apps -n flux-system   1 to delete   in namespace shop
      delete    ConfigMap/leaked   leaked
    configmap/leaked -n shop skipped: it changed after the plan was made: protected: kustomize.toolkit.fluxcd.io/prune=disabled
    --- stderr
    1 to delete
    0 of 1 object deleted

    === no longer claimed
    exit code 5
    --- stdout
    kustomization/apps -n flux-system   1 to delete   in namespace shop
      delete    ConfigMap/leaked   leaked
    configmap/leaked -n shop skipped: it changed after the plan was made: unclaimed: no owner claims it any more
    --- stderr
    1 to delete
    0 of 1 object deleted

    === another object
    exit code 5
    --- stdout
    kustomization/apps -n flux-system   1 to delete   in namespace shop
      delete    ConfigMap/leaked   leaked
    configmap/leaked -n shop skipped: it changed after the plan was made: replaced: another object has taken its name
    --- stderr
    1 to delete
    0 of 1 object deleted
    ");
}

#[test]
fn an_owner_that_began_to_reconcile_or_lists_the_object_now_keeps_it() {
    let mut listing = owner("True");
    listing["status"]["inventory"]["entries"]
        .as_array_mut()
        .unwrap()
        .push(json!({"id": "shop_leaked__ConfigMap", "v": "v1"}));
    let mut transcript = Transcript::default();
    for (what, now) in [("reconciling", owner("Unknown")), ("listing", listing)] {
        let api = cluster();
        let path = "GET /apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/apps";
        api.on(path, [Answer::json(now)]);
        let run = prune(&api);
        transcript.add(what, &run);
        assert!(real_deletes(&api).is_empty(), "{what}");
    }
    assert_snapshot!(transcript, @"
    === reconciling
    exit code 5
    --- stdout
    kustomization/apps -n flux-system   1 to delete   in namespace shop
      delete    ConfigMap/leaked   leaked
    configmap/leaked -n shop skipped: it changed after the plan was made: owner-untrusted: kustomization/apps -n flux-system: its owner is reconciling
    --- stderr
    1 to delete
    0 of 1 object deleted

    === listing
    exit code 5
    --- stdout
    kustomization/apps -n flux-system   1 to delete   in namespace shop
      delete    ConfigMap/leaked   leaked
    configmap/leaked -n shop skipped: it changed after the plan was made: recorded: kustomization/apps -n flux-system lists it
    --- stderr
    1 to delete
    0 of 1 object deleted
    ");
}

/// Two objects share a reading of the owners. Their owner is read once more before the second DELETE.
#[test]
fn an_owner_that_records_an_object_while_another_one_is_deleted_keeps_it() {
    let api = cluster();
    let mut second = leaked("1");
    second["metadata"]["name"] = json!("and");
    second["metadata"]["uid"] = json!("u2");
    let mut listing = owner("True");
    listing["metadata"]["resourceVersion"] = json!("6");
    let entries = listing["status"]["inventory"]["entries"].as_array_mut().unwrap();
    entries.push(json!({"id": "shop_and__ConfigMap", "v": "v1"}));
    let path = "/api/v1/namespaces/shop/configmaps/and";
    api.on("GET /api/v1/configmaps", [Answer::list("v1", "ConfigMap", vec![leaked("1"), second.clone()])]);
    api.on(&format!("GET {path}"), [Answer::json(second)]);
    api.on(&format!("DELETE {path}"), [Answer::json(json!({"kind": "Status", "status": "Success"}))]);
    let owner_path = "GET /apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/apps";
    api.on(owner_path, [Answer::json(owner("True")), Answer::json(listing)]);
    let run = prune(&api);
    assert_eq!((run.code, real_deletes(&api).len()), (5, 1), "{run}");
    let lines: Vec<&str> = run.stdout.lines().filter(|line| line.starts_with("configmap/")).collect();
    assert_snapshot!(lines.join("\n"), @"
    configmap/leaked -n shop deleted
    configmap/and -n shop skipped: it changed after the plan was made: recorded: kustomization/apps -n flux-system lists it
    ");
}

#[test]
fn an_owner_that_only_one_answer_contains_keeps_the_object() {
    let api = cluster();
    let path = "GET /apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/apps";
    api.on(path, [Answer::missing("apps")]);
    let run = prune(&api);
    let why = "one answer of the server contains kustomization.kustomize.toolkit.fluxcd.io/apps -n flux-system, another one does not";
    let line = format!("configmap/leaked -n shop skipped: not-read: {why}");
    assert!(run.code == 5 && run.stdout.contains(&line), "{run}");
    assert!(real_deletes(&api).is_empty());
}

const OWNERS: &str = "GET /apis/kustomize.toolkit.fluxcd.io/v1/kustomizations";

/// Other actors make and delete owners all the time. One that is gone before it is read keeps nothing, unless it happens
/// again in the next reading.
#[test]
fn an_owner_that_passes_by_keeps_nothing() {
    let count = || {
        let api = cluster();
        assert_eq!(prune(&api).code, 0);
        api.requests_to(OWNERS).len()
    };
    let before = count();
    let mut passing = owner("True");
    passing["metadata"]["name"] = json!("passing");
    passing["metadata"]["uid"] = json!("p");
    let both = owners(vec![owner("True"), passing]);
    let settled = || owners(vec![owner("True")]);
    for (more, code) in [(vec![both.clone(), settled()], 0), (vec![both.clone(), both], 5)] {
        let api = cluster();
        // The last of the lists is the one before the DELETE.
        api.on(OWNERS, (1..before).map(|_| settled()).chain(more));
        let run = prune(&api);
        assert_eq!((run.code, real_deletes(&api).len()), (code, usize::from(code == 0)), "{run}");
        assert_eq!(api.requests_to(OWNERS).len(), before + 1, "the owners are read twice, and no more: {run}");
    }
}

/// A type that somebody removes while the cluster is read for a wave skips nothing, unless the next reading lacks it too.
#[test]
fn a_type_that_vanishes_during_a_reading_keeps_nothing() {
    let widgets = ("example.com/v1", "Widget", "widgets", true);
    let list = "GET /apis/example.com/v1/widgets";
    let found = || Answer::list("example.com/v1", "Widget", vec![]);
    let none = || Answer::status(404, "NotFound", "the server could not find the requested resource");
    for (answers, code) in [(vec![found(), none(), found()], 0), (vec![found(), none()], 5)] {
        let api = cluster();
        api.serve_types(&[CONFIG_MAPS, KUSTOMIZATIONS, widgets]);
        api.on(list, answers);
        let run = prune(&api);
        assert_eq!((run.code, real_deletes(&api).len()), (code, usize::from(code == 0)), "{run}");
        assert_eq!(api.requests_to(list).len(), 3, "once for the plan, twice for the wave: {run}");
        assert_eq!(run.stdout.contains("skipped: not-read: widgets.example.com"), code == 5, "{run}");
    }
}

/// Adds Namespaces to a cluster, with these uids of kube-system in turn.
pub(crate) fn add_namespaces(api: &FakeApi, uids: &[&str]) {
    api.serve_types(&[CONFIG_MAPS, KUSTOMIZATIONS, ("v1", "Namespace", "namespaces", false)]);
    let kube_system = |uid: &&str| {
        let metadata = json!({"name": "kube-system", "uid": uid, "resourceVersion": "1"});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        Answer::list("v1", "Namespace", vec![namespace])
    };
    api.on("GET /api/v1/namespaces", uids.iter().map(kube_system));
}

#[test]
fn another_cluster_behind_the_address_keeps_everything() {
    let api = cluster();
    add_namespaces(&api, &["one", "two"]);
    let run = prune(&api);
    let line = "skipped: not-read: another cluster answers than the one of the plan";
    assert!(run.code == 5 && run.stdout.contains(line), "{run}");
    assert!(real_deletes(&api).is_empty());
}

#[test]
fn an_object_that_changed_after_a_reviewed_plan_was_compared_is_kept() {
    for (more, code, deletes) in [(&[][..], 5, 0), (&["--allow-changed"], 0, 1)] {
        let api = cluster();
        add_namespaces(&api, &["one"]);
        let folder = Folder::new("deleting");
        let (kubeconfig, file) = (api.kubeconfig(&folder), folder.path().join("plan.json"));
        let file = file.to_str().unwrap();
        assert_eq!(gitops_as(&kubeconfig, &["prune", "--plan", "--out", file]).code, 0);
        api.on(&format!("GET {OBJECT}"), [Answer::json(leaked("2")), gone()]);
        let run = gitops_as(&kubeconfig, &[&["prune", "--apply", file, "--yes", "--timeout=2s"], more].concat());
        assert_eq!((run.code, real_deletes(&api).len()), (code, deletes), "{run}");
        let why = "changed-since-plan: its resourceVersion was 1 and is 2";
        assert_eq!(run.stdout.contains(why), deletes == 0, "{run}");
    }
}

#[test]
fn a_conflict_is_judged_again_and_given_up_after_three() {
    let api = cluster();
    let conflict = || Answer::status(409, "Conflict", "the object has been modified");
    let rehearsed = Answer::json(json!({"kind": "Status", "status": "Success"}));
    api.on(&format!("DELETE {OBJECT}"), [rehearsed, conflict()]);
    api.on(&format!("GET {OBJECT}"), [Answer::json(leaked("2"))]);
    let run = prune(&api);
    assert_snapshot!(run, @"
    exit code 5
    --- stdout
    kustomization/apps -n flux-system   1 to delete   in namespace shop
      delete    ConfigMap/leaked   leaked
    configmap/leaked -n shop skipped: it changed after the plan was made: unsettled: it changed 3 times while it was being deleted
    --- stderr
    1 to delete
    0 of 1 object deleted
    ");
    assert_eq!(real_deletes(&api).len(), 3);
    assert_eq!(real_deletes(&api)[0]["preconditions"]["resourceVersion"], "2", "the fresh version is the precondition");
}

#[test]
fn an_answer_that_confirms_nothing_is_no_deletion() {
    let api = cluster();
    let rehearsed = Answer::json(json!({"kind": "Status", "status": "Success"}));
    api.on(&format!("DELETE {OBJECT}"), [rehearsed, Answer::json(json!({}))]);
    api.on(&format!("GET {OBJECT}"), [Answer::json(leaked("2"))]);
    let run = prune(&api);
    assert_eq!(run.code, 5, "{run}");
    assert!(run.stdout.contains("configmap/leaked -n shop may be deleted, its state is unknown: "), "{run}");
    assert!(run.stdout.contains("is no confirmation of a deletion; the object still exists"), "{run}");
}

#[test]
fn rule_8_without_a_terminal_and_without_yes_nothing_is_sent_that_deletes() {
    let api = cluster();
    let folder = Folder::new("deleting");
    let run = gitops_as(&api.kubeconfig(&folder), &["prune", "--timeout=2s"]);
    assert_snapshot!(run, @"
    exit code 6
    --- stdout
    kustomization/apps -n flux-system   1 to delete   in namespace shop
      delete    ConfigMap/leaked   leaked
    --- stderr
    1 to delete
    error: refused, nothing was deleted: no terminal to confirm 1 object on
    hint: review with --plan, then pass --yes
    ");
    assert!(real_deletes(&api).is_empty());
}

#[test]
fn rule_6_a_plan_over_a_limit_sends_nothing_that_deletes_not_even_a_rehearsal() {
    let api = cluster();
    let folder = Folder::new("deleting");
    let run = gitops_as(&api.kubeconfig(&folder), &["prune", "--yes", "--max-delete=0"]);
    assert_snapshot!(run, @"
    exit code 6
    --- stdout
    alarm: this deletes 1 object, more than 0

    kustomization/apps -n flux-system   1 to delete   in namespace shop
      delete    ConfigMap/leaked   leaked
    --- stderr
    1 to delete
    error: refused, nothing was deleted: this deletes 1 object, more than 0
    hint: review the plan; if it is intended, pass --max-delete=1
    ");
    assert!(api.requests_to("DELETE *").is_empty());
}

/// The plan that is only shown has the exit code of its alarm in every format, as the plan file that it writes.
#[test]
fn rule_6_a_plan_that_is_only_shown_ends_with_the_code_of_its_alarm() {
    let (api, folder) = (cluster(), Folder::new("deleting"));
    let (kubeconfig, file) = (api.kubeconfig(&folder), folder.path().join("plan.json").display().to_string());
    let plan = |more: &[&str]| gitops_as(&kubeconfig, &[&["prune", "--plan", "--max-delete=0"], more].concat());
    assert_snapshot!(plan(&["--detailed-exitcode"]), @"
    exit code 6
    --- stdout
    alarm: this deletes 1 object, more than 0

    kustomization/apps -n flux-system   1 to delete   in namespace shop
      delete    ConfigMap/leaked   leaked
    --- stderr
    1 to delete
    error: this deletes 1 object, more than 0
    hint: review the plan; if it is intended, pass --max-delete=1
    ");
    for format in ["json", "yaml", "sarif", "junit", "markdown", "wide"] {
        assert_eq!(plan(&["-o", format]).code, 6, "{format}");
    }
    assert_eq!(plan(&["--out", &file]).code, 6);
    assert_eq!(gitops_as(&kubeconfig, &["plan", "--show", &file]).code, 6);
}

/// Objects of a wave share one re-evaluation. Only what a fresh read changes is evaluated again.
#[tokio::test]
async fn a_wave_is_reevaluated_once_unless_an_object_changed() {
    for (changed, expected) in [(false, 1), (true, 2)] {
        let api = cluster();
        let config_map = |name: &str, version: &str, labels: Value| {
            let metadata =
                json!({"name": name, "namespace": "shop", "uid": name, "resourceVersion": version, "labels": labels});
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        };
        let names = ["a", "b", "c"];
        let listed = names.map(|name| config_map(name, "1", json!({}))).to_vec();
        api.on("GET /api/v1/configmaps", [Answer::list("v1", "ConfigMap", listed)]);
        for name in names {
            let labels = if changed && name == "b" { json!({"app": "new"}) } else { json!({}) };
            let path = format!("/api/v1/namespaces/shop/configmaps/{name}");
            // The resource version alone changes nothing that is evaluated.
            api.on(&format!("GET {path}"), [Answer::json(config_map(name, "2", labels)), Answer::missing(name)]);
            api.on(&format!("DELETE {path}"), [Answer::json(json!({"kind": "Status", "status": "Success"}))]);
        }
        let folder = Folder::new("deleting");
        let cluster = connect(&api, &folder, &[]).await;
        let snapshot = cluster.snapshot(chrono::Utc::now()).await.unwrap();
        let mut plan = Plan::new(ClusterIdentity::default());
        let config_maps = snapshot.objects.iter().filter(|object| &*object.id.kind == "ConfigMap");
        let row = |object| Change::new(Action::Delete, object, None, Actor::KubectlGitops, ReasonCode::Leaked);
        plan.add_changes(config_maps.map(row));
        let evaluations = Cell::new(0);
        let reevaluate = |_: &Index<'_>, changes: &[&Change]| {
            evaluations.set(evaluations.get() + 1);
            vec![None; changes.len()]
        };
        // On a slow machine too, one reading of the owners serves all three.
        let owners_age = Duration::from_secs(60);
        let execution = Execution { timeout: Duration::from_secs(2), waves: vec![], parallel: 1, owners_age };
        let result = execute(&cluster, &plan, &reevaluate, &execution, &mut ()).await;
        assert_eq!((result.deleted(), evaluations.get()), (3, expected), "{result:?}");
        assert!(real_deletes(&api).iter().all(|body| body["preconditions"]["resourceVersion"] == "2"));
    }
}

/// The evaluation of a whole wave is not used after one of its deletions failed.
#[tokio::test]
async fn a_failed_deletion_keeps_an_object_of_the_same_wave_that_would_delete_it_too() {
    let api = cluster();
    let config_map = |name: &str, references: Value| {
        let metadata = json!({"name": name, "namespace": "shop", "uid": name, "resourceVersion": "1",
            "ownerReferences": references});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    };
    let reference = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "a"}]);
    let objects = [config_map("a", json!([])), config_map("b", reference)];
    api.on("GET /api/v1/configmaps", [Answer::list("v1", "ConfigMap", objects.to_vec())]);
    api.on("GET /api/v1/namespaces/shop/configmaps", [Answer::list("v1", "ConfigMap", objects.to_vec())]);
    for (name, object) in ["a", "b"].iter().zip(objects) {
        let path = format!("/api/v1/namespaces/shop/configmaps/{name}");
        api.on(&format!("GET {path}"), [Answer::json(object)]);
        api.on(&format!("DELETE {path}"), [Answer::status(403, "Forbidden", "a webhook denied the request")]);
    }
    let folder = Folder::new("deleting");
    let cluster = connect(&api, &folder, &[]).await;
    let snapshot = cluster.snapshot(chrono::Utc::now()).await.unwrap();
    let mut plan = Plan::new(ClusterIdentity::default());
    let config_maps = snapshot.objects.iter().filter(|object| &*object.id.kind == "ConfigMap");
    let row = |object| Change::new(Action::Delete, object, None, Actor::KubectlGitops, ReasonCode::Leaked);
    plan.add_changes(config_maps.map(row));
    let reevaluate = |_: &Index<'_>, changes: &[&Change]| vec![None; changes.len()];
    let execution = Execution { timeout: Duration::from_secs(2), waves: vec![], parallel: 1, owners_age: OWNERS_AGE };
    let result = execute(&cluster, &plan, &reevaluate, &execution, &mut ()).await;
    let steps: Vec<String> = result.steps.iter().map(|row| format!("{:?}", row.step)).collect();
    assert!(steps[0].contains("a webhook denied the request"), "{steps:?}");
    assert!(steps[1].contains("configmap/b -n shop, which was not deleted before"), "{steps:?}");
    assert_eq!(api.requests_to("DELETE *").len(), 1);
}
