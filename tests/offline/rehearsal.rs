//! Dry-runs of a preview on scripted API servers: which requests are sent, as which user, and what a missing answer means.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gitops_core::flux::build::{Answers, BuildContext, Needs, build_text};
use gitops_core::flux::kustomize_controller::Features;
use gitops_core::flux::source::artifact::Artifact;
use gitops_core::flux::source::options::SourceOptions;
use gitops_core::flux::spec::{KustomizationSpec, NamespacedName};
use gitops_core::text::sha256;
use serde_json::{Value, json};
use test_support::fake_api::{Answer, FakeApi};
use test_support::folder::Folder;
use test_support::gitops::{Run, command};

use super::connection::one_connection::{self, Counted, warnings};
use super::plan_document::server;

const KUSTOMIZE: &str = "kustomize.toolkit.fluxcd.io";
const REVIEWS: &str = "POST /apis/authorization.k8s.io/v1";
const DRY_RUN: &str = "?dryRun=All&fieldManager=kustomize-controller&force=true";

/// A kustomize that prints the only manifest of a directory.
const PROGRAM: &str = "#!/bin/sh\nif [ \"$1\" = version ]; then echo v5.8.1; exit; fi\ncat \"$2/objects.yaml\"\n";

/// A repository of one Kustomization whose last applied revision is its first commit, and a server with its objects.
struct Fleet {
    folder: Folder,
    api: FakeApi,
    count: usize,
    spec: Value,
}

fn manifests(values: &BTreeMap<usize, &str>) -> String {
    let text = |(number, value): (&usize, &&str)| {
        format!(
            "apiVersion: v1\ndata:\n  a: {value}\nkind: ConfigMap\nmetadata:\n  name: cm-{number}\n  namespace: shop\n"
        )
    };
    values.iter().map(text).collect::<Vec<_>>().join("---\n")
}

fn config_map(number: usize, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": value},
        "metadata": {"name": format!("cm-{number}"), "namespace": "shop", "uid": format!("u{number}"),
            "resourceVersion": "1", "labels": {format!("{KUSTOMIZE}/name"): "one", format!("{KUSTOMIZE}/namespace"): "flux-system"}}})
}

impl Fleet {
    /// Creates a fleet of `count` ConfigMaps, and changes some of them in the tree, and removes the last.
    fn new(count: usize, changed: usize, service_account: Option<&str>) -> Self {
        let folder = Folder::outside_checkouts("rehearsal");
        let program = folder.write("kustomize", PROGRAM);
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let mut values: BTreeMap<usize, &str> = (0..count).map(|number| (number, "old")).collect();
        let before = manifests(&values);
        folder.write("tree/apps/objects.yaml", &before);
        let tree = folder.path().join("tree");
        for words in [&["init", "-q", "-b", "main"][..], &["add", "-A"], &["commit", "-q", "-m", "one"]] {
            xtask::git::run(&tree, words).unwrap();
        }
        let commit = xtask::git::run(&tree, &["rev-parse", "HEAD"]).unwrap();
        for number in 0..changed {
            values.insert(number, "new");
        }
        values.remove(&(count - 1));
        folder.write("tree/apps/objects.yaml", manifests(&values));
        let mut spec = json!({"path": "./apps", "prune": true, "sourceRef": {"kind": "GitRepository", "name": "repo"}});
        if let Some(account) = service_account {
            spec["serviceAccountName"] = account.into();
        }
        let fleet = Self { folder, api: server(), count, spec };
        fleet.answer(&before, &commit);
        service_account.into_iter().for_each(|name| fleet.serve_account(name));
        fleet
    }

    /// Serves the service account.
    fn serve_account(&self, name: &str) {
        const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let resource = |kind: &str, plural: &str| {
            json!({"resource": plural, "responseKind": {"kind": kind}, "scope": "Namespaced", "singularResource": "",
                "verbs": ["list", "get", "patch", "delete"]})
        };
        let resources = [resource("ConfigMap", "configmaps"), resource("ServiceAccount", "serviceaccounts")];
        let versions = json!([{"version": "v1", "freshness": "Current", "resources": resources}]);
        let core =
            json!({"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": ""}, "versions": versions}]});
        self.api.on("GET /api", [Answer::raw(200, DISCOVERY, core.to_string())]);
        let account =
            json!({"metadata": {"name": name, "namespace": "flux-system", "uid": "sa", "resourceVersion": "7"}});
        self.api.on("GET /api/v1/serviceaccounts", [Answer::list("v1", "ServiceAccount", vec![account])]);
    }

    /// Scripts the objects, the Kustomization, and answers to dry-runs that accept everything.
    fn answer(&self, before: &str, commit: &str) {
        let objects = (0..self.count).map(|number| config_map(number, "old")).collect();
        self.api.on("GET /api/v1/configmaps", [Answer::list("v1", "ConfigMap", objects)]);
        let entries: Vec<Value> =
            (0..self.count).map(|number| json!({"id": format!("shop_cm-{number}__ConfigMap"), "v": "v1"})).collect();
        let revision = format!("main@sha1:{commit}");
        let status = json!({"observedGeneration": 1, "lastAppliedRevision": revision, "inventory": {"entries": entries},
            "history": [{"digest": self.digest(before), "metadata": {"revision": revision}}],
            "conditions": [{"type": "Ready", "status": "True"}]});
        let owner = json!({"spec": self.spec, "status": status,
            "metadata": {"name": "one", "namespace": "flux-system", "uid": "o", "resourceVersion": "5", "generation": 1}});
        let owners = Answer::list(&format!("{KUSTOMIZE}/v1"), "Kustomization", vec![owner]);
        self.api.on(&format!("GET /apis/{KUSTOMIZE}/v1/kustomizations"), [owners]);
        for number in (0..self.count).filter(|number| *number < 20 || number + 1 == self.count) {
            let path = format!("/api/v1/namespaces/shop/configmaps/cm-{number}");
            self.api.on(&format!("GET {path}"), [Answer::json(config_map(number, "old"))]);
            self.api.on(&format!("PATCH {path}"), [Answer::json(config_map(number, "new"))]);
            self.api.on(&format!("DELETE {path}"), [Answer::json(json!({"kind": "Status", "status": "Success"}))]);
        }
    }

    /// Returns the digest that the controller records for the build.
    fn digest(&self, before: &str) -> String {
        let tree = [("apps/objects.yaml", before.to_owned())].into_iter().collect();
        let artifact = Arc::new(Artifact::pack(&tree, &SourceOptions::default()));
        let owner = NamespacedName { namespace: "flux-system".to_owned(), name: "one".to_owned() };
        let (spec, mut answers) = (KustomizationSpec::new(&self.spec), Answers::default());
        for _ in 0..2 {
            let mut needs = Needs::default();
            let mut context = BuildContext::new(Features::default(), &answers, &mut needs);
            if let Ok(text) = build_text(&artifact, &owner, &spec, &mut context) {
                return sha256(text.as_bytes());
            }
            needs.runs.into_keys().for_each(|key| answers.record_run(key, Ok(before.to_owned())));
        }
        panic!("the build has further needs");
    }

    fn plan(&self, more: &[&str]) -> Run {
        self.plan_with(&self.api.kubeconfig(&self.folder), more)
    }

    fn plan_with(&self, kubeconfig: &std::path::Path, more: &[&str]) -> Run {
        let args = ["prune", "--plan", "--source=GitRepository/flux-system/repo=tree", "-o", "json"];
        let mut command = command(&[&args[..], more].concat());
        if !more.contains(&"--kustomize") {
            command.args(["--kustomize", "./kustomize"]);
        }
        command.arg("--max-percent=100").current_dir(self.folder.path());
        Run::of(command.env("KUBECONFIG", kubeconfig).env("HOME", self.folder.path()))
    }

    /// Returns the requests that would write without a dry-run.
    fn writes(&self) -> Vec<String> {
        let writes = self.api.requests().into_iter().filter(|request| request.method != "GET");
        writes.map(|request| request.line()).collect()
    }
}

fn document(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run}"))
}

/// Returns `ACTION NAME: CODE` of each row.
fn rows(plan: &Value) -> Vec<String> {
    let text = |row: &Value, pointer: &str| row.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let row =
        |row: &Value| format!("{} {}: {}", text(row, "/action"), text(row, "/object/name"), text(row, "/reason/code"));
    plan["changes"].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn a_change_of_5_of_2000_objects_costs_tens_of_requests() {
    let fleet = Fleet::new(2000, 5, None);
    let run = fleet.plan(&[]);
    let plan = document(&run);
    assert_eq!((run.code, &plan["rehearsed"], &plan["complete"]), (0, &json!(true), &json!(true)), "{run}");
    assert_eq!(plan["owners"][0]["fidelity"], "verified", "{run}");
    assert_eq!((&plan["summary"]["update"], &plan["summary"]["delete"]), (&json!(5), &json!(1)));
    assert_eq!((&plan["diffs"], &plan["unrehearsed"]), (&json!([]), &Value::Null));
    let sent = fleet.api.requests_to("PATCH *");
    assert_eq!(sent.len(), 5, "{sent:?}");
    assert!(sent.iter().all(|request| request.target.ends_with(DRY_RUN)), "{sent:?}");
    let deletions = fleet.api.requests_to("DELETE *");
    assert_eq!(deletions.len(), 1);
    assert!(deletions.iter().all(|request| String::from_utf8_lossy(&request.body).contains(r#""dryRun":["All"]"#)));
    let total = fleet.api.requests().len();
    assert!(total < 40, "{total} requests: {:?}", fleet.api.requests());
}

#[test]
fn a_preview_connects_once_and_prints_each_warning_once() {
    let fleet = Fleet::new(3, 1, None);
    let counted = Counted::new(&fleet.api);
    fleet.api.warn(one_connection::warning);
    let dry_runs = ["GET", "dry-run of a PATCH", "dry-run of a DELETE"];
    for (more, expected, code) in
        [(&[][..], &dry_runs[..], 0), (&["--offline"], &["GET"], 0), (&["--kustomize", "./none"], &["GET"], 1)]
    {
        let run = fleet.plan_with(&counted.kubeconfig, more);
        let (mut given, mut expected) = (warnings(&run), expected.to_vec());
        given.sort_unstable();
        expected.sort_unstable();
        assert_eq!((counted.take_runs(), given, run.code), (1, expected, code), "{more:?}: {run}");
    }
}

#[test]
fn an_unverified_build_is_asked_about_completely_and_so_is_a_diff() {
    for (path, more) in [("status", &[][..]), ("", &["--diff"])] {
        let fleet = Fleet::new(12, 2, None);
        if path == "status" {
            // The history has no such commit.
            let unknown = "0".repeat(40);
            fleet.answer("other: true\n", &unknown);
        }
        let run = fleet.plan(more);
        assert_eq!(fleet.api.requests_to("PATCH *").len(), 11, "{run}");
        let plan = document(&run);
        assert_eq!(plan["rehearsed"], true, "{run}");
        let diffs = plan["diffs"].as_array().unwrap().len();
        assert_eq!(diffs > 0, more == ["--diff"], "{run}");
    }
}

#[test]
fn offline_sends_nothing_and_names_what_is_not_rehearsed() {
    let fleet = Fleet::new(12, 2, None);
    let run = fleet.plan(&["--offline"]);
    let plan = document(&run);
    assert_eq!((run.code, &plan["rehearsed"], &plan["complete"]), (0, &json!(false), &json!(true)), "{run}");
    assert_eq!(plan["unrehearsed"][0]["name"], "cm-11", "{run}");
    assert_eq!(fleet.writes(), [""; 0]);
    let both = fleet.plan(&["--offline", "--diff"]);
    assert_eq!(both.code, 2, "{both}");
}

#[test]
fn a_deletion_that_is_refused_keeps_the_object_and_one_that_fails_is_a_race() {
    let fleet = Fleet::new(12, 0, None);
    let path = "DELETE /api/v1/namespaces/shop/configmaps/cm-11";
    let denied = "configmaps \"cm-11\" is forbidden: ValidatingAdmissionPolicy 'keep' denied request: no";
    fleet.api.on(path, [Answer::status(403, "Forbidden", denied)]);
    let run = fleet.plan(&[]);
    let plan = document(&run);
    assert_eq!(rows(&plan), ["keep cm-11: deletion-refused"], "{run}");
    assert_eq!((run.code, &plan["rehearsed"]), (0, &json!(true)), "{run}");
    assert_eq!(plan["owners"][0]["reason"]["code"], "prune-refused", "{run}");
    fleet.api.on(path, [Answer::status(500, "InternalError", "failed calling webhook")]);
    let plan = document(&fleet.plan(&[]));
    assert_eq!(rows(&plan), ["delete cm-11: not-in-build"]);
    assert_eq!(plan["changes"][0]["certainty"], "race");
}

#[test]
fn a_missing_answer_is_a_gap() {
    let forbidden = "configmaps \"cm-0\" is forbidden: User \"bob\" cannot patch resource \"configmaps\" in API group \"\" in the namespace \"shop\"";
    let escalates = "roles.rbac.authorization.k8s.io \"x\" is forbidden: user \"bob\" (groups=[]) is attempting to grant RBAC permissions not currently held: {}";
    for (name, answer) in [
        ("no right", Answer::status(403, "Forbidden", forbidden)),
        ("no right to grant", Answer::status(403, "Forbidden", escalates)),
        ("time-out", Answer::hang()),
        ("no answer", Answer::drop_connection()),
        ("another answer", Answer::raw(200, "text/html", "<html>")),
    ] {
        let fleet = Fleet::new(12, 2, None);
        fleet.api.on("PATCH *", [answer]);
        let run = fleet.plan(&["--request-timeout=1s"]);
        let plan = document(&run);
        assert_eq!(
            (run.code, &plan["rehearsed"], &plan["complete"]),
            (5, &json!(false), &json!(false)),
            "{name}: {run}"
        );
        assert_eq!(plan["gaps"][0]["subject"], "answers to dry-runs of configmaps", "{name}: {run}");
        let open: Vec<&Value> = plan["unrehearsed"].as_array().unwrap().iter().map(|id| &id["name"]).collect();
        assert!(open.contains(&&json!("cm-0")) && open.contains(&&json!("cm-1")), "{name}: {open:?}");
        assert!(rows(&plan).contains(&"delete cm-11: not-in-build".to_owned()), "{name}: {run}");
    }
}

#[test]
fn a_server_that_hangs_is_asked_only_once_more_for_each_connection() {
    let fleet = Fleet::new(2000, 2000, None);
    fleet.api.on("GET /api/v1/namespaces/*", [Answer::hang()]);
    let started = std::time::Instant::now();
    let run = fleet.plan(&["--request-timeout=1s"]);
    assert_eq!(run.code, 5, "{}", run.stderr);
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
}

#[test]
fn the_service_account_is_impersonated_where_that_is_permitted() {
    let fleet = Fleet::new(12, 2, Some("team"));
    let review =
        |allowed: bool| Answer::json(json!({"kind": "SelfSubjectAccessReview", "status": {"allowed": allowed}}));
    fleet.api.on(&format!("{REVIEWS}/selfsubjectaccessreviews"), [review(true)]);
    let denied = "configmaps \"cm-11\" is forbidden: User \"system:serviceaccount:flux-system:team\" cannot delete resource \"configmaps\" in API group \"\" in the namespace \"shop\"";
    fleet.api.on("DELETE *", [Answer::status(403, "Forbidden", denied)]);
    let run = fleet.plan(&[]);
    let plan = document(&run);
    let sent = [fleet.api.requests_to("PATCH *"), fleet.api.requests_to("DELETE *")].concat();
    let users: Vec<_> = sent.iter().map(|request| request.header("impersonate-user").unwrap_or_default()).collect();
    assert_eq!(users, ["system:serviceaccount:flux-system:team"; 3], "{run}");
    // The missing right of the service account is an answer, not a gap.
    assert_eq!((run.code, &plan["rehearsed"]), (0, &json!(true)), "{run}");
    assert!(rows(&plan).contains(&"keep cm-11: deletion-refused".to_owned()), "{run}");
    assert!(fleet.api.requests_to("POST *").iter().all(|request| !request.target.contains("/subjectaccess")));
}

#[test]
fn without_impersonation_access_reviews_decide_and_without_those_the_plan_is_incomplete() {
    let fleet = Fleet::new(12, 2, Some("team"));
    let no = Answer::json(json!({"kind": "SelfSubjectAccessReview", "status": {"allowed": false}}));
    fleet.api.on(&format!("{REVIEWS}/selfsubjectaccessreviews"), [no.clone()]);
    let forbidden = "subjectaccessreviews.authorization.k8s.io is forbidden: User \"bob\" cannot create resource \"subjectaccessreviews\" in API group \"authorization.k8s.io\" at the cluster scope";
    let reviews = format!("{REVIEWS}/subjectaccessreviews");
    fleet.api.on(&reviews, [Answer::status(403, "Forbidden", forbidden)]);
    let run = fleet.plan(&[]);
    let plan = document(&run);
    assert_eq!((run.code, &plan["rehearsed"]), (5, &json!(false)), "{run}");
    assert_eq!(plan["gaps"][0]["subject"], "the rights of serviceaccount/team -n flux-system", "{run}");
    // As the user.
    assert!(fleet.api.requests_to("PATCH *").iter().all(|request| request.header("impersonate-user").is_none()));

    let before = fleet.api.requests_to("PATCH *").len();
    fleet.api.on(&reviews, [no]);
    let run = fleet.plan(&[]);
    let plan = document(&run);
    assert_eq!((run.code, &plan["rehearsed"]), (6, &json!(true)), "{run}");
    assert_eq!(plan["owners"][0]["outcome"], "blocked", "{run}");
    let detail = plan["owners"][0]["reason"]["detail"].as_str().unwrap();
    assert!(
        detail.contains("system:serviceaccount:flux-system:team may not patch configmaps in namespace shop"),
        "{detail}"
    );
    assert_eq!(fleet.api.requests_to("PATCH *").len(), before, "nothing is sent that the service account may not do");
}
