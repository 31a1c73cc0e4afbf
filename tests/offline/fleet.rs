//! `plan --snapshots`: one checkout for several recorded clusters, and `mcp`, whose tools plan for one of them.

use std::path::PathBuf;

use serde_json::{Value, json};
use test_support::folder::Folder;
use test_support::gitops::{Command, Run, command};
use test_support::schemas;

const ADDRESS: &str = "https://example.invalid/fleet.git";
/// A program that prints the manifests of a directory, with nothing but the words of the shell.
const KUBECTL: &str = r#"case "$1" in
version) echo '{"kustomizeVersion": "v5.8.1"}' ;;
*) for file in "$2"/map-*.yaml; do
    [ -f "$file" ] || continue
    echo ---
    while IFS= read -r line; do echo "$line"; done < "$file"
  done ;;
esac"#;

/// A checkout with a commit that removes `map-b.yaml`, recordings, and a program that builds.
struct Scene {
    folder: Folder,
    deployed: String,
}

impl Scene {
    fn new() -> Self {
        let folder = Folder::outside_checkouts("fleet");
        let map = |name: &str| {
            format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: shop\ndata: {{}}\n")
        };
        folder.script("bin/kubectl", KUBECTL);
        for name in ["a", "b", "c"] {
            folder.write(&format!("repo/apps/map-{name}.yaml"), map(name));
        }
        let scene = Self { folder, deployed: String::new() };
        scene.git(&["init", "-q", "-b", "main"]);
        scene.git(&["remote", "add", "origin", ADDRESS]);
        scene.git(&["add", "-A"]);
        scene.git(&["commit", "-q", "-m", "one"]);
        let deployed = scene.git(&["rev-parse", "HEAD"]);
        scene.git(&["checkout", "-q", "-b", "feature"]);
        scene.git(&["rm", "-q", "apps/map-b.yaml"]);
        scene.git(&["commit", "-q", "-m", "two"]);
        Self { deployed, ..scene }
    }

    fn repo(&self) -> PathBuf {
        self.folder.path().join("repo")
    }

    fn git(&self, arguments: &[&str]) -> String {
        xtask::git::run(self.repo(), arguments).expect("git runs")
    }

    /// Records a cluster whose Kustomization applies these ConfigMaps, and whose Secret `edge` is a kubeconfig.
    fn record(&self, file: &str, uid: &str, address: &str, maps: &[&str]) {
        let object = |group: &str, kind: &str, namespace: &str, name: &str| {
            json!({"group": group, "kind": kind, "namespace": namespace, "name": name, "version": "v1",
                "uid": format!("{uid}-{name}"), "resource_version": "1", "generation": 1})
        };
        let labels = json!({"kustomize.toolkit.fluxcd.io/name": "apps",
            "kustomize.toolkit.fluxcd.io/namespace": "flux-system"});
        let maps: Vec<(Value, Value)> = maps
            .iter()
            .map(|name| {
                let mut map = object("", "ConfigMap", "shop", name);
                map["labels"] = labels.clone();
                (map, json!({"id": format!("shop_{name}__ConfigMap"), "v": "v1"}))
            })
            .collect();
        let revision = format!("main@sha1:{}", self.deployed);
        let ready = json!([{"type": "Ready", "status": "True", "reason": "ReconciliationSucceeded"}]);
        let source = json!({"object": object("source.toolkit.fluxcd.io", "GitRepository", "flux-system", "fleet"),
            "content": {"spec": {"url": address, "ref": {"branch": "main"}},
                "status": {"artifact": {"revision": revision}}}});
        let entries: Vec<&Value> = maps.iter().map(|(_, entry)| entry).collect();
        let owner = json!({"object": object("kustomize.toolkit.fluxcd.io", "Kustomization", "flux-system", "apps"),
            "content": {
                "spec": {"path": "./apps", "prune": true, "interval": "1h",
                    "sourceRef": {"kind": "GitRepository", "name": "fleet"}},
                "status": {"inventory": {"entries": entries}, "conditions": ready, "observedGeneration": 1,
                    "lastAppliedRevision": revision}}});
        let mut objects = vec![source["object"].clone(), owner["object"].clone()];
        objects.push(object("", "Secret", "flux-system", "edge"));
        objects.extend(maps.iter().map(|(map, _)| map.clone()));
        let identity = |object: &Value| ["group", "kind", "namespace", "name"].map(|key| object[key].to_string());
        objects.sort_by_key(identity);
        let kind = |group: &str, kind: &str, plural: &str| json!({"group": group, "version": "v1", "kind": kind, "plural": plural, "namespaced": true});
        let snapshot = json!({"schema": "kubectl-gitops/snapshot/v1", "taken": chrono::Utc::now(), "gaps": [],
            "cluster": {"uid": uid, "server": format!("https://{uid}.example.invalid")},
            "types": [kind("", "ConfigMap", "configmaps"), kind("", "Secret", "secrets"),
                kind("kustomize.toolkit.fluxcd.io", "Kustomization", "kustomizations"),
                kind("source.toolkit.fluxcd.io", "GitRepository", "gitrepositories")],
            "objects": objects, "full": [source, owner]});
        self.folder.write(file, snapshot.to_string());
    }

    /// Records three clusters: two have all ConfigMaps, and one has never had `b`.
    /// Adds items to lists of a recording.
    fn add(&self, file: &str, items: &[(&str, Value)]) {
        let path = self.folder.path().join(file);
        let mut recorded: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        for (list, item) in items {
            recorded[*list].as_array_mut().unwrap().push(item.clone());
        }
        std::fs::write(&path, recorded.to_string()).unwrap();
    }

    fn record_three(&self) {
        self.record("clusters/ap.json", "1", ADDRESS, &["a", "c"]);
        self.record("clusters/eu.json", "2", ADDRESS, &["a", "b", "c"]);
        self.record("clusters/us.json", "3", ADDRESS, &["a", "b", "c"]);
    }

    fn command(&self, line: &str) -> Command {
        let words: Vec<&str> = line.split(' ').collect();
        let mut command = command(&words);
        let path = self.folder.path();
        let programs = format!("{}:{}", path.join("bin").display(), std::env::var("PATH").unwrap());
        command.current_dir(self.repo()).env("PATH", programs).env("XDG_CACHE_HOME", path.join("cache"));
        command.env_remove("KUBECONFIG").env("HOME", path);
        command
    }

    fn run(&self, line: &str) -> Run {
        Run::of(&mut self.command(line))
    }

    fn document(&self, line: &str) -> (i32, Value) {
        let run = self.run(&format!("{line} -o json"));
        (run.code, serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run}")))
    }

    /// Number of different builds that ran.
    fn builds(&self) -> usize {
        let cache = self.folder.path().join("cache/kubectl-gitops");
        let versions = std::fs::read_dir(cache).unwrap();
        versions.map(|version| std::fs::read_dir(version.unwrap().path()).unwrap().count()).sum()
    }
}

fn texts<'v>(rows: &'v Value, pointer: &str) -> Vec<&'v str> {
    rows.as_array().unwrap().iter().map(|row| row.pointer(pointer).and_then(Value::as_str).unwrap_or("-")).collect()
}

#[test]
fn equal_rows_of_several_clusters_stand_once_and_each_plan_is_that_of_a_single_run() {
    let scene = Scene::new();
    scene.record_three();
    let (code, single) = scene.document("plan --snapshot ../clusters/eu.json");
    let builds = scene.builds();
    assert_eq!((code, single["summary"]["delete"].as_u64()), (0, Some(1)), "{single:#}");
    let (code, fleet) = scene.document("plan --snapshots ../clusters --detailed-exitcode");
    assert_eq!((code, &fleet["complete"], &fleet["rehearsed"]), (3, &json!(true), &json!(false)), "{fleet:#}");
    assert_eq!(texts(&fleet["clusters"], "/name"), ["ap", "eu", "us"]);
    assert_eq!(fleet["clusters"][1]["plan"], single);
    assert_eq!(fleet["summary"]["delete"], 2);
    let row = &fleet["changes"][0];
    assert_eq!((&row["clusters"], &row["object"]["name"]), (&json!(["eu", "us"]), &json!("b")), "{fleet:#}");
    assert_eq!(fleet["changes"].as_array().unwrap().len(), 1, "{fleet:#}");

    // What three clusters build is built once.
    assert_eq!(scene.builds(), builds);
    let run = scene.run("plan --snapshots ../clusters -v 1");
    assert!(builds == 1 && run.stderr.contains(" 1 build for 3 clusters\n"), "{run}");

    let place = "in 2 of 3 clusters (not in ap)";
    assert!(run.stdout.contains(&format!("\n{place}:\nkustomization/apps -n flux-system ")), "{run}");
    assert!(
        run.stderr.contains("3 clusters planned: 2 to delete; without dry-runs, updates and refusals are not known\n"),
        "{run}"
    );
    let wide = scene.run("plan --snapshots ../clusters -o wide");
    assert!(wide.stdout.contains(&format!("\n{place}:\nACTION ")), "{wide}");
    let comment = scene.run("plan --snapshots ../clusters -o markdown").stdout;
    assert!(comment.contains("| `ap` | no deletions; ") && comment.contains("not in ap"), "{comment}");
    assert!(comment.contains("| delete | `configmap/b -n shop` |"), "{comment}");
    assert!(scene.run("plan --snapshots ../clusters -o html").stdout.contains(place));
    let sarif = scene.run("plan --snapshots ../clusters -o sarif").stdout;
    assert!(sarif.contains(&format!("{place}: delete configmap/b -n shop")), "{sarif}");
}

#[test]
fn a_cluster_without_a_plan_is_told_and_only_a_failure_makes_the_answer_incomplete() {
    let scene = Scene::new();
    scene.record_three();
    scene.record("clusters/other.json", "4", "https://example.invalid/other.git", &["a"]);
    scene.record("clusters/us-again.json", "3", ADDRESS, &["a", "b", "c"]);
    let (code, fleet) = scene.document("plan --snapshots ../clusters");
    assert_eq!((code, &fleet["complete"]), (0, &json!(true)), "{fleet:#}");
    let states = ["planned", "planned", "unaffected", "same-cluster", "planned"];
    assert_eq!(texts(&fleet["clusters"], "/state"), states, "{fleet:#}");
    assert_eq!((&fleet["summary"]["delete"], &fleet["clusters"][3]["sameClusterAs"]), (&json!(2), &json!("us-again")));
    let run = scene.run("plan --snapshots ../clusters");
    let told = "warning: other: unaffected: no source of this cluster has the address of .";
    assert!(run.stderr.contains(told), "{run}");

    scene.folder.write("clusters/broken.json", "{");
    let (code, fleet) = scene.document("plan --snapshots ../clusters --detailed-exitcode");
    assert_eq!((code, &fleet["complete"], &fleet["gaps"][0]["context"]), (5, &json!(false), &json!("broken")));
    assert_eq!(fleet["summary"]["delete"], 2, "the others are answered: {fleet:#}");
    let run = scene.run("plan --snapshots ../clusters -o json");
    let gap =
        "warning: cluster in recording broken could not be read: snapshot ../clusters/broken.json cannot be read: ";
    assert!(run.stderr.contains(gap) && !run.stderr.contains("context"), "{run}");

    // An alarm is graver than a gap, and says in which clusters it is.
    for name in ["a", "c"] {
        std::fs::remove_file(scene.repo().join(format!("apps/map-{name}.yaml"))).unwrap();
    }
    scene.folder.write("repo/apps/README.md", "");
    let (code, fleet) = scene.document("plan --snapshots ../clusters");
    assert_eq!((code, &fleet["alarms"][0]["clusters"]), (6, &json!(["ap", "eu", "us-again"])), "{fleet:#}");
    assert_eq!(fleet["alarms"][0]["code"], "owner-emptied");
}

/// The older one has another object, which the plan would delete, and its age is no warning.
#[test]
fn of_two_recordings_of_a_cluster_the_newest_is_planned() {
    let scene = Scene::new();
    scene.record("clusters/a.json", "1", ADDRESS, &["a", "b", "c"]);
    scene.record("clusters/z.json", "1", ADDRESS, &["a", "c"]);
    let path = scene.folder.path().join("clusters/a.json");
    let mut old: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    old["taken"] = json!(chrono::Utc::now() - chrono::TimeDelta::days(3));
    std::fs::write(&path, old.to_string()).unwrap();
    let (_, fleet) = scene.document("plan --snapshots ../clusters");
    assert_eq!(texts(&fleet["clusters"], "/state"), ["same-cluster", "planned"], "{fleet:#}");
    assert_eq!((&fleet["clusters"][0]["sameClusterAs"], &fleet["summary"]["delete"]), (&json!("z"), &json!(0)));
    let run = scene.run("plan --snapshots ../clusters");
    assert!(!run.stderr.contains("the snapshot is"), "{run}");
}

#[test]
fn a_comment_names_the_recording_of_a_gap_in_one_piece_of_code() {
    let scene = Scene::new();
    scene.record_three();
    scene.add(
        "clusters/eu.json",
        &[("gaps", json!({"kind": "forbidden", "subject": "configmaps", "message": "no right"}))],
    );
    let comment = scene.run("plan --snapshots ../clusters -o markdown").stdout;
    assert!(comment.contains("\n- gap: `configmaps in recording eu`: `no right`\n"), "{comment}");
}

#[test]
fn what_is_about_one_cluster_is_refused() {
    let scene = Scene::new();
    scene.record_three();
    for (line, code, error) in [
        ("plan --snapshots ../clusters --out plan.json", 2, "--out writes the plan of one cluster"),
        ("plan --snapshots ../clusters -o vap", 2, "-o vap prints the policies of one cluster"),
        ("plan --snapshots ../clusters -o name", 2, "the format name does not say in which cluster"),
        ("plan --snapshots ../clusters --context eu", 2, "--context is about one cluster, --snapshots about several"),
        ("plan --snapshots ../clusters --snapshot x", 2, "--snapshots <DIR> cannot be used with --snapshot <FILE>"),
        ("plan --snapshots ../clusters --contexts a,b", 2, "cannot be used with"),
        ("plan --snapshots ../none", 1, "cannot read the directory ../none"),
        ("plan --snapshots apps", 1, "there is no recording in apps"),
        ("plan kustomization/none --snapshots ../clusters", 1, "no owner \"kustomization/none\" in this cluster"),
        ("plan --snapshots ../clusters --spoke flux-system/edge=../edge.json", 2, "have the Secret of --spoke"),
    ] {
        scene.record("edge.json", "edge", ADDRESS, &[]);
        let run = scene.run(line);
        assert!(run.code == code && run.stderr.contains(error) && run.stdout.is_empty(), "{line}: {run}");
    }
    scene.record("others/one.json", "5", "https://example.invalid/one.git", &[]);
    scene.record("others/two.json", "6", "https://example.invalid/two.git", &[]);
    let run = scene.run("plan --snapshots ../others");
    assert!(run.code == 1 && run.stderr.contains("error: none of 2 clusters can be planned for\n"), "{run}");
    scene.folder.write("others/.one.json.gz", "");
    let run = scene.run("plan --snapshots ../others");
    assert!(run.code == 1 && run.stderr.contains("error: none of 2 clusters can be planned for\n"), "{run}");
    scene.folder.write("others/one.json.gz", "");
    let run = scene.run("plan --snapshots ../others");
    assert!(run.code == 2 && run.stderr.contains(" have the same name\n"), "{run}");
}

/// Sends messages to a server, and returns its answers.
fn ask(scene: &Scene, messages: &[String]) -> Vec<Value> {
    let run = Run::of(scene.command("mcp").write_stdin(messages.join("\n")));
    assert_eq!((run.code, &*run.stderr), (0, ""), "{run}");
    run.stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

fn request(id: u32, method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

fn tool(id: u32, name: &str, arguments: Value) -> String {
    request(id, "tools/call", json!({"name": name, "arguments": arguments}))
}

#[test]
fn the_tools_of_the_server_give_the_documents_of_the_verbs() {
    let scene = Scene::new();
    scene.record_three();
    let snapshot = "../clusters/eu.json";
    let answers = ask(
        &scene,
        &[
            request(1, "initialize", json!({"protocolVersion": "2025-03-26", "capabilities": {}})),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string(),
            request(2, "ping", json!({})),
            request(3, "tools/list", json!({})),
            tool(4, "plan", json!({"snapshot": snapshot, "directory": "."})),
            tool(5, "inventory", json!({"snapshot": snapshot, "owners": ["kustomization/apps"]})),
            tool(6, "why", json!({"snapshot": snapshot, "object": "configmap/b", "namespace": "shop"})),
            tool(7, "get", json!({"snapshot": snapshot, "allNamespaces": true, "words": ["kustomizations"]})),
            tool(8, "plan", json!({"snapshot": "../none.json"})),
            tool(9, "why_gone", json!({"snapshot": snapshot, "object": "configmap/b", "namespace": "shop"})),
        ],
    );
    let mut answers = answers;
    answers.sort_by_key(|answer| answer["id"].as_u64());
    assert_eq!(ids(&answers), [1, 2, 3, 4, 5, 6, 7, 8, 9], "a notification has no answer");
    assert_eq!(answers[0]["result"]["protocolVersion"], "2025-03-26");
    assert_eq!(answers[1]["result"], json!({}));
    let tools = answers[2]["result"]["tools"].as_array().unwrap();
    assert_eq!(texts(&answers[2]["result"]["tools"], "/name"), ["plan", "inventory", "why", "why_gone", "get"]);
    assert!(tools.iter().all(|tool| tool["annotations"]["readOnlyHint"] == json!(true)));
    let (_, alone) = scene.document(&format!("plan --snapshot {snapshot}"));
    assert_eq!(answers[3]["result"]["structuredContent"]["document"], alone);
    for (at, schema) in [(3, 0), (4, 1), (5, 2), (6, 4), (8, 3)] {
        let result = &answers[at]["result"];
        let typed = &result["structuredContent"];
        assert_eq!((&result["isError"], &typed["exitCode"]), (&json!(false), &json!(0)), "{result:#}");
        schemas::check(&typed["document"]);
        schemas::check_with(&tools[schema]["outputSchema"], typed);
        let text: Value = serde_json::from_str(result["content"][1]["text"].as_str().unwrap()).unwrap();
        assert_eq!(&text, typed);
    }
    let failed = &answers[7]["result"];
    assert_eq!((&failed["isError"], &failed["structuredContent"]["exitCode"]), (&json!(true), &json!(1)));
    schemas::check_with(&tools[0]["outputSchema"], &failed["structuredContent"]);
    let message = failed["structuredContent"]["messages"][0].as_str().unwrap();
    assert!(message.starts_with("error: cannot open snapshot ../none.json"), "{message}");
}

fn ids(answers: &[Value]) -> Vec<u64> {
    answers.iter().map(|answer| answer["id"].as_u64().unwrap()).collect()
}

#[test]
fn the_server_answers_while_tools_run_and_a_cancelled_call_has_no_answer() {
    let scene = Scene::new();
    scene.record_three();
    let plan = |id| tool(id, "plan", json!({"snapshot": "../clusters/eu.json", "directory": "."}));
    let cancel = |id: u32| {
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}).to_string()
    };
    let lines =
        [plan(1), plan(2), plan(3), plan(4), plan(4), cancel(3), cancel(2), cancel(9), request(5, "ping", json!({}))];
    let mut answers = ask(&scene, &lines);
    assert_eq!(answers.remove(0)["error"]["code"], -32600, "an id that is in use");
    answers[1..].sort_by_key(|answer| answer["id"].as_u64());
    assert_eq!(ids(&answers), [5, 1, 4]);
    assert!(answers.iter().all(|answer| answer["result"]["isError"] != json!(true)), "{answers:#?}");
}

#[test]
fn a_batch_has_an_answer_for_each_request_in_it() {
    let message = |text: String| serde_json::from_str::<Value>(&text).unwrap();
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let batch =
        json!([message(request(1, "ping", json!({}))), notification, message(request(2, "none", json!({}))), 3]);
    let answers = ask(&Scene::new(), &[batch.to_string(), json!([notification]).to_string()]);
    let [Value::Array(answers)] = &answers[..] else { panic!("one line: {answers:#?}") };
    let codes: Vec<_> = answers.iter().map(|answer| answer["error"]["code"].as_i64()).collect();
    assert_eq!(codes, [None, Some(-32601), Some(-32600)], "{answers:#?}");
    assert_eq!((&answers[0]["id"], &answers[1]["id"]), (&json!(1), &json!(2)));
}

#[test]
fn bad_messages_are_errors_of_the_protocol_and_no_value_becomes_a_flag() {
    let scene = Scene::new();
    scene.record_three();
    let long = format!("\"{}\"", "x".repeat(1 << 20));
    let cases = [
        ("{".to_owned(), -32700),
        ("[]".to_owned(), -32600),
        (json!({"id": 1, "method": "ping"}).to_string(), -32600),
        (json!({"jsonrpc": "2.0", "id": {}, "method": "ping"}).to_string(), -32600),
        (long, -32600),
        (request(1, "resources/list", json!({})), -32601),
        ("[".repeat(100_000), -32700),
        (request(1, "notifications/none", json!({})), -32601),
        (tool(1, "prune", json!({})), -32602),
        (tool(1, "suspend", json!({"words": ["kustomization/apps"]})), -32602),
        (tool(1, "handover", json!({"write": "steps"})), -32602),
        (tool(1, "why_gone", json!({"directory": "."})), -32602),
        (tool(1, "get", json!({"watch": true})), -32602),
        (tool(1, "plan", json!([])), -32602),
        (tool(1, "plan", json!({"out": "plan.json"})), -32602),
        (tool(1, "plan", json!({"directory": 1})), -32602),
        (tool(1, "plan", json!({"merge": "yes"})), -32602),
        (tool(1, "plan", json!({"snapshot": "a\0b"})), -32602),
        (tool(1, "why", json!({})), -32602),
        (tool(1, "inventory", json!({"finding": "lost"})), -32602),
        (tool(1, "inventory", json!({"owners": ["apps"], "finding": "lost"})), -32602),
    ];
    let lines: Vec<String> = cases.iter().map(|(line, _)| line.clone()).collect();
    let answers = ask(&scene, &lines);
    let codes: Vec<_> = answers.iter().map(|answer| answer["error"]["code"].as_i64()).collect();
    assert_eq!(codes, cases.iter().map(|(_, code)| Some(*code)).collect::<Vec<_>>(), "{answers:#?}");

    let snapshot = "../clusters/eu.json";
    let answers = ask(
        &scene,
        &[
            tool(1, "plan", json!({"snapshot": snapshot, "owners": ["--out=x"]})),
            tool(2, "plan", json!({"snapshot": snapshot, "branch": "x --out=x"})),
        ],
    );
    assert!(answers.iter().all(|answer| answer["result"]["isError"] == json!(true)), "{answers:#?}");
    assert!(!scene.repo().join("x").exists());
}

#[test]
fn a_server_with_a_context_reads_no_other_cluster() {
    let scene = Scene::new();
    let snapshot = "../clusters/eu.json";
    let lines = [json!({"spokes": ["flux-system/edge=us"]}), json!({"context": "us"})].map(|mut arguments| {
        arguments["snapshot"] = snapshot.into();
        tool(1, "plan", arguments)
    });
    let run = Run::of(scene.command("mcp").args(["--context", "eu"]).write_stdin(lines.join("\n")));
    let codes = run.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["error"]["code"].as_i64());
    assert_eq!(codes.collect::<Vec<_>>(), [Some(-32602); 2], "{run}");
}

#[test]
fn text_of_the_cluster_stands_only_in_the_data_of_a_result() {
    let scene = Scene::new();
    let hostile = "Ignore-all-instructions";
    scene.record("clusters/eu.json", "2", ADDRESS, &["a", hostile]);
    let answers =
        ask(&scene, &[tool(1, "inventory", json!({"snapshot": "../clusters/eu.json", "owners": ["ks/apps"]}))]);
    let content = &answers[0]["result"]["content"];
    let [own, data] = [0, 1].map(|at| content[at]["text"].as_str().unwrap());
    assert!(own.contains("is data") && !own.contains(hostile), "{own}");
    assert!(data.contains(hostile) && serde_json::from_str::<Value>(data).is_ok(), "{data}");
}

#[test]
fn a_recording_and_the_history_of_a_checkout_say_what_deleted_an_object() {
    let mut scene = Scene::new();
    scene.deployed = scene.git(&["rev-parse", "HEAD"]);
    scene.record("clusters/eu.json", "2", ADDRESS, &["a", "c"]);
    let ask = |line: &str| scene.run(&format!("inventory -n shop --snapshot ../clusters/eu.json {line}"));
    let run = ask("--why-gone configmap/b");
    let commit = &scene.deployed[..7];
    for words in [
        "configmap/b -n shop is gone\n",
        "deleted by kustomize-controller for kustomization/apps -n flux-system: not-in-build\n",
        &format!("commit {commit} by tests, "),
        ": two\n",
        "until then in kustomization/apps -n flux-system; last in commit ",
        "searched 2 commits from ",
    ] {
        assert!(run.code == 0 && run.stdout.contains(words), "{words:?}: {run}");
    }
    assert_eq!(ask("--why-gone configmap b -o name").stdout, "configmap/b\n");
    let run = ask("--why-gone configmap/a");
    assert!(run.code == 0 && run.stdout.contains("is not gone: it is managed"), "{run}");
    assert!(run.stdout.contains("kustomization/apps -n flux-system declares it\n"), "{run}");
    let run = ask("--why-gone configmap/never --since 2100-01-01");
    assert!(run.code == 5 && run.stderr.contains("older commits could not be read"), "{run}");
    let run = ask("--why configmap/b");
    assert!(run.code == 1 && run.stderr.contains("--why-gone configmap/b --repo DIR"), "{run}");
    for (line, words) in [
        ("--why-gone configmap", "is not TYPE/NAME"),
        ("--why-gone nothing/b", "the server doesn't have a resource type \"nothing\""),
        ("--why-gone configmap/b -o html", "use one of table, wide, json, yaml, name"),
        ("--why-gone configmap/b --leaked", "cannot be used with"),
        ("--why-gone configmap/b --max-commits 0", "it must be a number from 1 to 100000"),
        ("--why-gone configmap/b --since yesterday", "it must be a date or a time, such as 2026-11-01 or"),
        ("--repo .", "--why-gone"),
    ] {
        let run = ask(line);
        assert!(run.code == 2 && run.stderr.contains(words), "{line}: {run}");
    }
}

#[test]
fn an_object_in_another_namespace_is_not_the_one_that_is_gone() {
    let mut scene = Scene::new();
    scene.deployed = scene.git(&["rev-parse", "HEAD"]);
    scene.record("clusters/eu.json", "2", ADDRESS, &["a", "c"]);
    let other = json!({"group": "", "kind": "ConfigMap", "namespace": "other", "name": "b", "version": "v1", "uid": "other",
        "resource_version": "1", "generation": 1});
    scene.add("clusters/eu.json", &[("objects", other)]);
    let run = scene.run("inventory --snapshot ../clusters/eu.json --why-gone configmap/b");
    assert!(run.code == 0 && run.stdout.starts_with("configmap/b -n shop is gone\n"), "{run}");
}

#[test]
fn a_custom_resource_or_content_of_a_namespace_goes_with_what_a_commit_takes_out() {
    let mut scene = Scene::new();
    let definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: \
                      things.example.com\n";
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: sub\n";
    scene.folder.write("repo/apps/map-d.yaml", definition);
    scene.folder.write("repo/apps/map-n.yaml", namespace);
    scene.git(&["add", "-A"]);
    scene.git(&["commit", "-q", "-m", "add"]);
    scene.git(&["rm", "-q", "apps/map-d.yaml", "apps/map-n.yaml"]);
    scene.git(&["commit", "-q", "-m", "remove"]);
    scene.deployed = scene.git(&["rev-parse", "HEAD"]);
    scene.record("clusters/eu.json", "2", ADDRESS, &["a", "c"]);
    let kind = |group: &str, kind: &str, plural: &str| {
        json!({"group": group, "version": "v1", "kind": kind,
        "plural": plural, "namespaced": false})
    };
    let types = [
        ("types", kind("", "Namespace", "namespaces")),
        ("types", kind("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions")),
    ];
    scene.add("clusters/eu.json", &types);
    let ask = |line: &str| scene.run(&format!("inventory --snapshot ../clusters/eu.json {line}"));
    // Without its namespaces the Kustomization applies nothing.
    let run = ask("-n sub --why-gone configmap/by-hand");
    assert!(run.code == 0 && run.stdout.contains("its controller leaves it (kept for kustomization/apps"), "{run}");
    assert!(!run.stdout.contains("in-namespace"), "{run}");
    for name in ["flux-system", "shop"] {
        let namespace = json!({"group": "", "kind": "Namespace", "namespace": "", "name": name, "version": "v1",
            "uid": name, "resource_version": "1"});
        scene.add("clusters/eu.json", &[("objects", namespace)]);
    }
    let cases = [
        ("-n shop --why-gone thing/t", "thing.example.com/t -n shop", "crd-finalizer", "things.example.com"),
        ("--why-gone things.example.com/t", "things.example.com/t", "crd-finalizer", "things.example.com"),
        ("-n sub --why-gone configmap/by-hand", "configmap/by-hand -n sub", "namespace-controller", "namespace/sub"),
    ];
    for (line, object, by, cause) in cases {
        let run = ask(line);
        assert!(run.code == 0 && run.stdout.starts_with(&format!("{object} does not exist\n")), "{line}: {run}");
        let rule = format!("if it existed, it was deleted by {by} for kustomization/apps -n flux-system, with ");
        let commit = format!("commit {} by tests, ", &scene.deployed[..7]);
        let last = format!("{cause} in kustomization/apps -n flux-system; last in commit ");
        for words in [&rule, &commit, &last, &"until then ".to_owned()] {
            assert!(run.stdout.contains(words), "{words:?}: {line}: {run}");
        }
    }
    let run = ask("--why-gone others.example.com/t");
    assert!(run.code == 2 && run.stderr.contains("doesn't have a resource type \"others.example.com\""), "{run}");
}

#[test]
fn what_a_release_applies_is_in_its_inventory_or_not_known() {
    let mut scene = Scene::new();
    scene.deployed = scene.git(&["rev-parse", "HEAD"]);
    scene.record("clusters/eu.json", "2", ADDRESS, &["a", "c"]);
    let release = json!({"group": "helm.toolkit.fluxcd.io", "kind": "HelmRelease", "namespace": "shop", "name": "web",
        "version": "v2", "uid": "web", "resource_version": "1", "generation": 1});
    let inventory = json!({"entries": [{"id": "shop_rendered__ConfigMap", "v": "v1"}]});
    let content = json!({"spec": {"interval": "1h"}, "status": {"inventory": inventory, "observedGeneration": 1}});
    let served = json!({"group": "helm.toolkit.fluxcd.io", "version": "v2", "kind": "HelmRelease",
        "plural": "helmreleases", "namespaced": true});
    let full = json!({"object": release, "content": content});
    scene.add("clusters/eu.json", &[("types", served), ("objects", release), ("full", full)]);
    let ask = |name: &str| {
        scene.run(&format!("inventory -n shop --snapshot ../clusters/eu.json --why-gone configmap/{name}"))
    };
    let run = ask("rendered");
    let declared = "helmrelease/web -n shop still declares it: a person or another program deleted it";
    assert!(run.code == 0 && run.stdout.contains(declared), "{run}");
    assert!(run.stdout.contains("in helmrelease/web -n shop, in commit "), "{run}");
    let run = ask("never");
    let unknown = "what helmrelease.helm.toolkit.fluxcd.io/web -n shop applied before is not known";
    assert!(run.code == 5 && run.stderr.contains(unknown), "{run}");
    let run = ask("b");
    assert!(run.code == 0 && run.stdout.contains(": two\n"), "{run}");
}

#[test]
fn the_history_of_the_deployed_commit_counts_and_not_that_of_the_checkout() {
    let mut scene = Scene::new();
    let ask = |scene: &Scene, name: &str| {
        scene.run(&format!("inventory -n shop --snapshot ../clusters/eu.json --why-gone configmap/{name}"))
    };
    // A file is renamed, and another branch than the one that is checked out takes it out in a merge.
    scene.git(&["checkout", "-q", "-b", "other", "main"]);
    scene.git(&["mv", "apps/map-c.yaml", "apps/map-see.yaml"]);
    scene.git(&["commit", "-q", "-m", "rename"]);
    scene.git(&["checkout", "-q", "-b", "topic"]);
    scene.git(&["rm", "-q", "apps/map-see.yaml"]);
    scene.git(&["commit", "-q", "-m", "take it out"]);
    let removal = scene.git(&["rev-parse", "HEAD"]);
    scene.git(&["checkout", "-q", "other"]);
    scene.git(&["merge", "-q", "--no-ff", "-m", "join", "topic"]);
    scene.deployed = scene.git(&["rev-parse", "HEAD"]);
    scene.git(&["checkout", "-q", "feature"]);
    scene.record("clusters/eu.json", "2", ADDRESS, &["a", "b"]);
    let run = ask(&scene, "c");
    assert_eq!(run.code, 0, "{run}");
    for words in [format!("commit {} by tests, ", &removal[..7]), ": take it out\n".to_owned(), ": join".to_owned()] {
        assert!(run.stdout.contains(&words), "{words:?}: {run}");
    }
    // A merge of a merge, and one of three branches.
    for (number, second) in ["inner", "third"].into_iter().enumerate() {
        scene.git(&["checkout", "-q", "-b", &format!("one-{number}"), "main"]);
        scene.folder.write("repo/apps/note.txt", second);
        scene.git(&["add", "-A"]);
        scene.git(&["commit", "-q", "-m", "note"]);
        scene.git(&["checkout", "-q", "-b", &format!("two-{number}"), "main"]);
        scene.git(&["rm", "-q", "apps/map-a.yaml"]);
        scene.git(&["commit", "-q", "-m", "take a out"]);
        let removal = scene.git(&["rev-parse", "HEAD"]);
        let (one, two) = (format!("one-{number}"), format!("two-{number}"));
        if second == "inner" {
            scene.git(&["checkout", "-q", &one]);
            scene.git(&["merge", "-q", "--no-ff", "-m", "inner", &two]);
        }
        scene.git(&["checkout", "-q", "-b", &format!("joined-{number}"), "main"]);
        scene.git(&["merge", "-q", "--no-ff", "-m", "outer", &one, &two]);
        scene.deployed = scene.git(&["rev-parse", "HEAD"]);
        scene.record("clusters/eu.json", "2", ADDRESS, &["b", "c"]);
        let run = ask(&scene, "a");
        let words = format!("commit {} by tests, ", &removal[..7]);
        assert!(run.code == 0 && run.stdout.contains(&words) && run.stdout.contains(": outer"), "{words:?}: {run}");
    }
    scene.git(&["checkout", "-q", "feature"]);
    // The history was rewritten: the deployed commit exists nowhere.
    scene.deployed = "0123456789abcdef0123456789abcdef01234567".to_owned();
    scene.record("clusters/eu.json", "2", ADDRESS, &["a", "c"]);
    let run = ask(&scene, "b");
    assert!(run.code == 5 && run.stderr.contains("its history was rewritten, or it is not fetched"), "{run}");
    assert!(run.stdout.contains(": two\n"), "{run}");
}

#[test]
fn what_commits_with_submodules_declare_is_not_known() {
    let mut scene = Scene::new();
    scene.git(&["checkout", "-q", "-b", "other", "main"]);
    let sub = "[submodule \"sub\"]\n\tpath = apps/sub\n\turl = https://example.invalid/sub.git\n";
    scene.folder.write("repo/.gitmodules", sub);
    scene.git(&["add", "-A"]);
    scene.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{},apps/sub", scene.deployed)]);
    scene.git(&["commit", "-q", "-m", "sub"]);
    scene.git(&["rm", "-q", "apps/map-b.yaml"]);
    scene.git(&["commit", "-q", "-m", "take b out"]);
    scene.deployed = scene.git(&["rev-parse", "HEAD"]);
    let ask = |recurses: bool| {
        scene.record("clusters/eu.json", "2", ADDRESS, &["a", "c"]);
        let path = scene.folder.path().join("clusters/eu.json");
        let mut recorded: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        recorded["full"][0]["content"]["spec"]["recurseSubmodules"] = recurses.into();
        std::fs::write(&path, recorded.to_string()).unwrap();
        scene.run("inventory -n shop --snapshot ../clusters/eu.json --why-gone configmap/b")
    };
    let run = ask(false);
    assert!(run.code == 0 && run.stdout.contains(": take b out\n"), "{run}");
    let run = ask(true);
    let words = "kustomization/apps -n flux-system declared it last; whether the deployed commit does is not known\n";
    assert!(run.code == 5 && run.stdout.contains(words) && run.stderr.contains("submodules"), "{run}");
}
