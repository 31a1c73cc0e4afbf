//! Every top-level key of `kubectl-gitops/plan/v1`, from the command line to the document: what a planner finds must reach
//! the JSON, the table and the comment.

use std::fs;

use insta::assert_snapshot;
use serde_json::{Value, json};
use test_support::fake_api::{Answer, FakeApi};
use test_support::folder::Folder;
use test_support::gitops::{Run, command};

use crate::prune::deletion::{CONFIG_MAPS, KUSTOMIZATIONS};

const KUSTOMIZE: &str = "kustomize.toolkit.fluxcd.io";
const SOURCE: &str = "source.toolkit.fluxcd.io";

/// A kustomize that concatenates the manifests of a directory.
const PROGRAM: &str = "#!/bin/sh
if [ \"$1\" = version ]; then echo v5.8.1; exit; fi
for file in \"$2\"/*.yaml; do
  case $file in */kustomization.yaml) ;; *) echo ---; cat \"$file\" ;; esac
done
";

/// A cluster with the Kustomizations `one` and `two`, and `lost`, whose path is not in the tree.
fn cluster() -> Value {
    let owners = [("one", "./one", &["old", "older"][..]), ("two", "./two", &[]), ("lost", "./lost", &["kept"])];
    let mut full: Vec<Value> = owners.iter().map(|(name, path, members)| kustomization(name, path, members)).collect();
    full.push(json!({"object": object(SOURCE, "GitRepository", "flux-system", "repo"),
        "content": {"spec": {"url": "https://example.invalid/fleet.git", "ref": {"branch": "main"}}}}));
    let mut objects: Vec<Value> = full.iter().map(|full| full["object"].clone()).collect();
    for (name, owner) in [("old", "one"), ("older", "one"), ("kept", "lost")] {
        let mut object = object("", "ConfigMap", "shop", name);
        object["labels"] = json!({format!("{KUSTOMIZE}/name"): owner, format!("{KUSTOMIZE}/namespace"): "flux-system"});
        objects.push(object);
    }
    objects.iter_mut().find(|object| object["name"] == "old").unwrap()["finalizers"] = json!(["example.com/hold"]);
    let key =
        |object: &Value| ["group", "kind", "namespace", "name"].map(|key| object[key].as_str().unwrap().to_owned());
    objects.sort_by_key(key);
    full.sort_by_key(|full| key(&full["object"]));
    let types = [
        ("", "ConfigMap", "configmaps"),
        (KUSTOMIZE, "Kustomization", "kustomizations"),
        (SOURCE, "GitRepository", "gitrepositories"),
    ];
    let types: Vec<Value> = types
        .iter()
        .map(|(group, kind, plural)| json!({"group": group, "version": "v1", "kind": kind, "plural": plural, "namespaced": true}))
        .collect();
    json!({"schema": "kubectl-gitops/snapshot/v1", "taken": "2026-01-02T03:04:05Z",
        "gaps": [{"kind": "forbidden", "subject": "widgets.example.com", "namespace": "shop", "message": "not allowed"}],
        "cluster": {"uid": "c", "server": "https://recorded.example.invalid"},
        "types": types, "objects": objects, "full": full})
}

fn object(group: &str, kind: &str, namespace: &str, name: &str) -> Value {
    json!({"group": group, "kind": kind, "namespace": namespace, "name": name, "version": "v1",
        "uid": format!("{kind}-{name}"), "resource_version": "1", "generation": 1})
}

fn kustomization(name: &str, path: &str, members: &[&str]) -> Value {
    let entries: Vec<Value> =
        members.iter().map(|member| json!({"id": format!("shop_{member}__ConfigMap"), "v": "v1"})).collect();
    json!({"object": object(KUSTOMIZE, "Kustomization", "flux-system", name),
        "content": {"spec": {"path": path, "prune": true, "sourceRef": {"kind": "GitRepository", "name": "repo"}},
            "status": {"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True"}],
                "inventory": {"entries": entries}}}})
}

/// A tree in which `one` and `two` apply the same ConfigMap.
fn tree() -> Folder {
    let folder = Folder::outside_checkouts("plan-document");
    let web = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web, namespace: shop}\ndata: {a: new}\n";
    folder.write("tree/one/web.yaml", web);
    folder.write("tree/two/web.yaml", web);
    let program = folder.write("kustomize", PROGRAM);
    #[cfg(unix)]
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    folder
}

/// Plans the tree on the recorded cluster.
fn plan(format: &str) -> Run {
    let folder = tree();
    folder.write("cluster.json", cluster().to_string());
    let args = ["prune", "--plan", "--source=GitRepository/flux-system/repo=tree", "--snapshot", "cluster.json"];
    let mut command = command(&args);
    command.args(["--kustomize", "./kustomize", "-o", format]).current_dir(folder.path());
    Run::of(command.env_remove("KUBECONFIG").env("HOME", folder.path()).env_remove("XDG_CACHE_HOME"))
}

fn document() -> Value {
    let run = plan("json");
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run}"))
}

#[test]
fn the_subject_names_the_tree_its_source_and_the_time_of_the_recording() {
    let document = document();
    let subject = &document["subject"];
    assert_eq!((&subject["tree"], &subject["content"]), (&json!("tree"), &json!("directory")));
    assert_eq!((&subject["sources"][0]["name"], &subject["at"]), (&json!("repo"), &document["recorded"]));
    assert_eq!(subject["server"], document["cluster"]["server"]);
}

#[test]
fn the_document_has_exactly_these_keys() {
    let document = document();
    let keys: Vec<&str> = document.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "alarms",
        "blockedByFinalizers",
        "changes",
        "cluster",
        "complete",
        "contested",
        "diffs",
        "gaps",
        "owners",
        "recorded",
        "rehearsed",
        "schema",
        "subject",
        "summary",
        "unrehearsed",
        "withoutDryRuns",
    ];
    assert_eq!(keys, expected, "each key has a test in this file");
    let page = std::fs::read_to_string("docs/plan.md").unwrap();
    for key in keys {
        assert!(page.contains(&format!("| `{key}` | ")), "docs/plan.md lacks {key}");
    }
}

#[test]
fn schema_cluster_and_recorded() {
    let document = document();
    assert_eq!(document["schema"], "kubectl-gitops/plan/v1");
    assert_eq!(document["cluster"], json!({"uid": "c", "server": "https://recorded.example.invalid"}));
    assert_eq!(document["recorded"], "2026-01-02T03:04:05Z");
    assert!(plan("markdown").stdout.contains("2026-01-02 03:04 UTC"));
}

#[test]
fn gaps_make_a_plan_incomplete() {
    let document = document();
    assert_eq!(document["complete"], false);
    assert_eq!(document["gaps"][0]["subject"], "widgets.example.com");
    let (table, comment) = (plan("table"), plan("markdown"));
    assert!(table.stdout.contains("gap: widgets.example.com in namespace shop: not allowed"), "{table}");
    assert!(table.stderr.contains("; the plan is incomplete"), "{table}");
    assert!(comment.stdout.contains("- gap in namespace `shop`: `widgets.example.com`: `not allowed`"), "{comment}");
}

#[test]
fn blocked_owners() {
    let document = document();
    let lost = document["owners"].as_array().unwrap().iter().find(|owner| owner["name"] == "lost").unwrap();
    assert_eq!((&lost["outcome"], &lost["reason"]["code"]), (&json!("blocked"), &json!("path-not-found")));
    let (table, comment) = (plan("table"), plan("markdown"));
    let lost =
        "kustomization/lost -n flux-system   blocked\n  reason: path-not-found: path \"lost\" is not in the artifact\n";
    assert!(table.stdout.contains(lost), "{table}");
    assert!(table.stderr.contains("; 1 owner blocked: kustomization/lost -n flux-system ("), "{table}");
    assert!(comment.stdout.contains("; 1 owner blocked: `kustomization/lost -n flux-system` (`"), "{comment}");
    assert!(comment.stdout.contains("<code>kustomization/lost -n flux-system</code>: blocked"));
}

#[test]
fn changes_and_summary() {
    let document = document();
    let changes = document["changes"].as_array().unwrap();
    let rows: Vec<String> = changes.iter().map(|row| format!("{} {}", row["action"], row["object"]["name"])).collect();
    assert_eq!(rows, ["\"delete\" \"old\"", "\"delete\" \"older\"", "\"create\" \"web\""]);
    assert_eq!(document["summary"]["delete"], 2);
    assert_eq!(document["summary"]["create"], 1);
    assert_eq!(plan("name").stdout, "configmap/old\nconfigmap/older\n");
}

#[test]
fn contested_objects() {
    let document = document();
    let contested = &document["contested"][0];
    assert_eq!(contested["object"]["name"], "web");
    let owners: Vec<&Value> = contested["owners"].as_array().unwrap().iter().map(|owner| &owner["name"]).collect();
    assert_eq!(owners, ["one", "two"]);
    let (table, comment) = (plan("table"), plan("markdown"));
    let row = table.stdout.lines().find(|line| line.starts_with("contested: ")).unwrap_or_else(|| panic!("{table}"));
    let owners = "kustomization/one -n flux-system and kustomization/two -n flux-system";
    assert!(row.contains("configmap/web -n shop is applied by") && row.contains(owners), "{row}");
    assert!(table.stderr.contains("configmap/web -n shop is applied by"), "{table}");
    assert!(comment.stdout.contains("`configmap/web -n shop` is applied by"), "{comment}");
}

#[test]
fn objects_blocked_by_finalizers() {
    let document = document();
    assert_eq!(document["blockedByFinalizers"][0]["object"]["name"], "old");
    assert_eq!(document["blockedByFinalizers"][0]["finalizers"], json!(["example.com/hold"]));
    let (table, comment) = (plan("table"), plan("markdown"));
    assert!(table.stdout.contains("will stay terminating until a controller removes example.com/hold"), "{table}");
    assert!(
        comment.stdout.contains("will stay terminating until a controller removes `example.com/hold`"),
        "{comment}"
    );
}

#[test]
fn alarms_come_with_exit_code_6() {
    let document = document();
    assert_eq!(document["alarms"][0]["code"], "owner-emptied");
    assert_eq!(document["alarms"][0]["owner"]["name"], "one");
    let (table, comment) = (plan("table"), plan("markdown"));
    assert_eq!((table.code, comment.code), (6, 6));
    assert!(table.stdout.contains("\nalarm: this deletes 100 % of kustomization/one"), "{table}");
    assert!(comment.stdout.starts_with("🛑 **Alarm:** `this deletes 100 % of kustomization/one"), "{comment}");
}

#[test]
fn table_of_everything() {
    let table = plan("table");
    assert_snapshot!(table.stdout);
    assert!(table.stderr.contains("1 to create; "), "{table}");
    let wide = plan("wide");
    assert!(wide.stdout.contains("\ncreate ") && !wide.stderr.contains("-o wide"), "{wide}");
}

#[test]
fn a_plan_without_dry_runs_says_so() {
    let document = document();
    assert_eq!((&document["rehearsed"], &document["diffs"]), (&json!(false), &json!([])));
    assert_eq!(document["withoutDryRuns"], true);
    let words = "; without dry-runs, updates and refusals are not known";
    let (table, comment, page) = (plan("table"), plan("markdown"), plan("html"));
    assert!(table.stderr.contains(words) && comment.stdout.contains(words), "{table}{comment}");
    assert!(page.stdout.contains("none: updates and refusals are not known"), "{page}");
    let open: Vec<&Value> = document["unrehearsed"].as_array().unwrap().iter().map(|id| &id["name"]).collect();
    assert_eq!(open, ["old", "older", "web"], "what the controller would change");
}

/// `diffs` need a server, which is asked by dry-runs.
#[test]
fn diffs_of_a_plan_with_dry_runs() {
    let folder = tree();
    let api = server();
    let mut command =
        command(&["prune", "--plan", "--source=GitRepository/flux-system/repo=tree", "--diff", "-o", "json"]);
    command.args(["--kustomize", "./kustomize", "--max-percent=100"]).current_dir(folder.path());
    let run = Run::of(command.env("KUBECONFIG", api.kubeconfig(&folder)).env("HOME", folder.path()));
    let document: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run}"));
    assert_eq!(document["rehearsed"], true, "{run}");
    let diff = &document["diffs"][0];
    assert_eq!(diff["object"]["name"], "web", "{run}");
    let text = diff["text"].as_str().unwrap();
    assert!(text.contains("-  a: old\n+  a: new\n"), "{text}");
    let sent = api.requests_to("PATCH *");
    assert!(!sent.is_empty() && sent.iter().all(|request| request.target.contains("dryRun=All")), "only dry-runs");
}

/// A server with a Kustomization `one` that applied ConfigMap `web`.
pub(crate) fn server() -> FakeApi {
    let api = FakeApi::start();
    let sources = (&*format!("{SOURCE}/v1"), "GitRepository", "gitrepositories", true);
    api.serve_types(&[CONFIG_MAPS, KUSTOMIZATIONS, sources]);
    let web = |value: &str, version: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": value},
            "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": version,
                "labels": {format!("{KUSTOMIZE}/name"): "one", format!("{KUSTOMIZE}/namespace"): "flux-system"}}})
    };
    let mut owner = kustomization("one", "./one", &["web"])["content"].clone();
    owner["metadata"] =
        json!({"name": "one", "namespace": "flux-system", "uid": "o", "resourceVersion": "5", "generation": 1});
    let source = json!({"metadata": {"name": "repo", "namespace": "flux-system", "uid": "s", "resourceVersion": "6", "generation": 1},
        "spec": {"url": "https://example.invalid/fleet.git", "ref": {"branch": "main"}}});
    api.on("GET /api/v1/configmaps", [Answer::list("v1", "ConfigMap", vec![web("old", "1")])]);
    let owners = Answer::list(&format!("{KUSTOMIZE}/v1"), "Kustomization", vec![owner]);
    api.on(&format!("GET /apis/{KUSTOMIZE}/v1/kustomizations"), [owners]);
    let sources = Answer::list(&format!("{SOURCE}/v1"), "GitRepository", vec![source]);
    api.on(&format!("GET /apis/{SOURCE}/v1/gitrepositories"), [sources]);
    api.on("GET /api/v1/namespaces/shop/configmaps/web", [Answer::json(web("old", "1"))]);
    api.on("PATCH /api/v1/namespaces/shop/configmaps/web", [Answer::json(web("new", "1"))]);
    api
}

#[test]
fn reports_have_the_same_plan_in_other_formats() {
    let folder = Folder::new("reports");
    let file = |name: &str| folder.path().join(name);
    let shop = ["prune", "--plan", "--snapshot", "examples/shop.json.gz"];
    let reports = ["json", "html", "markdown"].map(|format| format!("--report={format}={}", file(format).display()));
    let run = Run::of(command(&shop).args(["-o", "name"]).args(&reports));
    assert_eq!((run.code, run.stdout.as_str()), (0, "configmap/banner-easter\n"), "{run}");
    for format in ["json", "html", "markdown"] {
        let alone = Run::of(command(&shop).args(["-o", format]));
        assert_eq!(fs::read_to_string(file(format)).unwrap(), alone.stdout, "{format}");
    }

    let missing = Run::of(command(&shop).args(["-o", "name", "--report", "html=/nonexistent/plan.html"]));
    assert_eq!((missing.code, missing.stdout.as_str()), (1, "configmap/banner-easter\n"), "{missing}");
    assert!(missing.stderr.contains("cannot write report /nonexistent/plan.html"), "{missing}");
    for (arguments, expected) in [
        (&["--report", "pdf=x"][..], "the formats are table, wide, json"),
        (&["--report", "html"], "write FORMAT=FILE"),
        (&["--report", "html="], "write the name of a file"),
        (&["--report", "html=x", "--report", "json=x"], "two reports are written to x"),
    ] {
        let run = Run::of(command(&shop).args(arguments));
        assert!(run.code == 2 && run.stderr.contains(expected) && run.stdout.is_empty(), "{run}");
    }
    let executed = Run::of(&mut command(&["prune", "--report", "html=x"]));
    assert!(executed.code == 2 && executed.stderr.contains("--report needs --plan"), "{executed}");
}
