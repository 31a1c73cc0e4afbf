//! One connection per run: the credential plugin of the kubeconfig runs once for every verb, and every warning of the API
//! server is printed once.

use serde_json::{Value, json};
use test_support::fake_api::{Answer, FakeApi, Recorded};
use test_support::folder::Folder;
use test_support::gitops::{Run, gitops_as};

use crate::prune::deletion;

const CREDENTIALS: &str = r#"{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "from-plugin"}}"#;

/// A manifest of the object that is leaked in the cluster, so that no system deletes it.
const MANIFEST: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other, namespace: shop}\n";

/// A kubeconfig with three contexts of one cluster, and a plugin that counts its runs.
pub(crate) struct Counted {
    pub(crate) folder: Folder,
    pub(crate) kubeconfig: std::path::PathBuf,
}

impl Counted {
    pub(crate) fn new(api: &FakeApi) -> Self {
        let folder = Folder::outside_checkouts("one-connection");
        let runs = folder.path().join("runs").display().to_string();
        let plugin = folder.script("plugin", &format!("echo run >> {runs}\necho '{CREDENTIALS}'"));
        let exec = json!({"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never",
            "command": plugin.display().to_string()});
        let context = |name: &str| json!({"name": name, "context": {"cluster": "fake", "user": "fake", "namespace": "flux-system"}});
        let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "fake",
            "clusters": [{"name": "fake", "cluster": {"server": api.url()}}],
            "users": [{"name": "fake", "user": {"exec": exec}}], "contexts": [context("fake"), context("again"), context("hub")]});
        let kubeconfig = folder.write("kubeconfig", config.to_string());
        folder.write("manifest.yaml", MANIFEST);
        Self { folder, kubeconfig }
    }

    /// Returns the number of runs of the plugin since the last call.
    pub(crate) fn take_runs(&self) -> usize {
        let file = self.folder.path().join("runs");
        let runs = std::fs::read_to_string(&file).unwrap_or_default().lines().count();
        let _ = std::fs::remove_file(file);
        runs
    }

    /// Runs a verb; `FOLDER/` in a word is the folder.
    fn run(&self, words: &[&str]) -> Run {
        let folder = format!("{}/", self.folder.path().display());
        let words: Vec<String> = words.iter().map(|word| word.replace("FOLDER/", &folder)).collect();
        gitops_as(&self.kubeconfig, &words.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// A cluster with a leaked ConfigMap whose every answer warns of its request.
fn cluster() -> FakeApi {
    let api = deletion::cluster();
    deletion::add_namespaces(&api, &["one"]);
    let owner = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/apps";
    let one = api.answer_to(&format!("GET {owner}"));
    api.on(&format!("PATCH {owner}"), [one.clone()]);
    let list = Answer::list("kustomize.toolkit.fluxcd.io/v1", "Kustomization", vec![one.content()]);
    api.on("GET /apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations", [list]);
    api.warn(warning);
    api
}

/// Returns the warning of one answer.
pub(crate) fn warning(request: &Recorded) -> String {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let how = if body.get("dryRun").is_some() || request.target.contains("dryRun") { "dry-run of a " } else { "" };
    format!("{how}{} is deprecated", request.method)
}

/// Returns the warnings of the API server in the messages of a run.
pub(crate) fn warnings(run: &Run) -> Vec<&str> {
    run.stderr.lines().filter_map(|line| line.strip_prefix("warning: ")?.strip_suffix(" is deprecated")).collect()
}

/// Every verb that reads or changes a cluster, with what the server warns of in its answers.
const VERBS: [(&[&str], &[&str]); 25] = [
    (&["get"], &["GET"]),
    (&["get", "kustomization", "apps", "-o", "json"], &["GET"]),
    (&["get", "--contexts", "fake"], &["context fake: GET"]),
    (&["suspend", "ks/apps", "-m", "drill"], &["GET", "PATCH", "POST"]),
    (&["suspend", "ks/apps", "--record-user", "-m", "drill"], &["GET", "POST"]),
    (&["suspend", "ks/apps", "-m", "drill", "--dry-run=server"], &["GET", "POST", "dry-run of a PATCH"]),
    (&["resume", "ks/apps", "--spec"], &["GET"]),
    (&["resume", "--all", "--yes"], &["GET"]),
    (&["inventory"], &["GET"]),
    (&["inventory", "kustomization/apps"], &["GET"]),
    (&["inventory", "--by", "flux"], &["GET"]),
    (&["inventory", "--leaked"], &["GET"]),
    (&["inventory", "--read-secrets"], &["GET"]),
    (&["inventory", "--why", "configmap/leaked", "-n", "shop"], &["GET"]),
    (&["inventory", "--contexts", "again"], &["context again: GET"]),
    (&["inventory", "nothing/here"], &["GET"]),
    (&["snapshot", "FOLDER/snapshot.json"], &["GET"]),
    (&["prune", "--plan"], &["GET"]),
    (&["prune", "--plan", "--out", "FOLDER/plan.json"], &["GET", "POST"]),
    (&["prune", "--apply", "FOLDER/plan.json", "--yes"], &["GET", "POST", "dry-run of a DELETE", "DELETE"]),
    (&["prune", "--yes"], &["GET", "POST", "dry-run of a DELETE", "DELETE"]),
    (&["prune"], &["GET", "POST", "dry-run of a DELETE"]),
    (&["prune", "qbec", "--plan", "--app", "shop", "--env", "dev", "-f", "FOLDER/manifest.yaml"], &["GET"]),
    (&["prune", "flux-v1", "--plan", "--git-url", "git@example.com:org/repo", "-f", "FOLDER/manifest.yaml"], &["GET"]),
    (&["prune", "applyset", "--plan", "--applyset", "shop", "-n", "shop", "-f", "FOLDER/manifest.yaml"], &["GET"]),
];

#[test]
fn every_verb_connects_once_and_prints_each_warning_once() {
    let counted = Counted::new(&FakeApi::start());
    let mut found = vec![];
    for (words, expected) in VERBS {
        let api = cluster();
        let text = std::fs::read_to_string(&counted.kubeconfig).unwrap();
        let mut config: Value = serde_json::from_str(&text).unwrap();
        config["clusters"][0]["cluster"]["server"] = api.url().into();
        counted.folder.write("kubeconfig", config.to_string());
        if words.contains(&"--apply") {
            std::fs::remove_file(counted.folder.path().join("plan.json")).unwrap();
            counted.run(&["prune", "--plan", "--out", "FOLDER/plan.json"]);
            counted.take_runs();
        }
        let run = counted.run(words);
        let (runs, mut given) = (counted.take_runs(), warnings(&run));
        given.sort_unstable();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        if runs != 1 || given != expected {
            found.push(format!("{words:?}: {runs} runs, warnings {given:?}, expected {expected:?}\n{run}"));
        }
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn a_hub_is_one_more_connection() {
    let api = cluster();
    let counted = Counted::new(&api);
    let run = counted.run(&["inventory", "--owner-context", "again"]);
    assert_eq!(counted.take_runs(), 2, "{run}");
    assert_eq!(warnings(&run), ["GET"], "{run}");
    let run = counted.run(&["inventory", "--contexts", "fake,again", "--owner-context", "hub"]);
    assert_eq!(counted.take_runs(), 3, "one for each cluster, and one for the hub of both: {run}");
    assert_eq!(warnings(&run), ["GET", "context again: GET", "context fake: GET"], "{run}");
}

#[test]
fn completion_runs_a_plugin_at_most_once_and_prints_no_warning() {
    let api = cluster();
    let counted = Counted::new(&api);
    let run = counted.run(&["__complete", "get", "kustomization", ""]);
    assert!(counted.take_runs() <= 1, "{run}");
    assert_eq!(run.stderr, "");
}

#[test]
fn a_recorded_cluster_needs_no_connection() {
    let api = cluster();
    let counted = Counted::new(&api);
    counted.run(&["snapshot", "FOLDER/snapshot.json"]);
    assert_eq!(counted.take_runs(), 1);
    for words in [&["get", "-A"][..], &["inventory"], &["inventory", "kustomization/apps"], &["prune", "--plan"]] {
        let run = counted.run(&[words, &["--snapshot", "FOLDER/snapshot.json"]].concat());
        assert_eq!((counted.take_runs(), warnings(&run)), (0, vec![]), "{words:?}: {run}");
    }
}
