//! Bad input of `prune --plan --repo|--source`: each ends in bounded time with a clear message and its exit code, and
//! nothing is claimed to go that does not. The cluster is a recording; kustomize is the real one.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::folder::Folder;
use support::live::Run;
use xtask::controlplane::bin;

/// A directory outside of any checkout, so that it is read as a plain folder.
struct Tree(PathBuf);

impl Tree {
    fn new(files: &[(&str, &str)]) -> Self {
        use std::sync::atomic::{AtomicU32, Ordering};
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("tree-input-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let tree = Self(std::env::temp_dir().join(name));
        std::fs::create_dir_all(&tree.0).unwrap();
        files.iter().for_each(|(path, content)| tree.write(path, content.as_bytes()));
        tree
    }

    fn write(&self, path: &str, content: &[u8]) {
        let path = self.0.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn git(&self, arguments: &[&str]) -> String {
        xtask::git::run(&self.0, arguments).unwrap()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn object(group: &str, kind: &str, name: &str, uid: &str) -> Value {
    let namespace = if kind == "Namespace" { "" } else { "flux-system" };
    json!({"group": group, "kind": kind, "namespace": namespace, "name": name, "version": "v1", "uid": uid,
           "resource_version": "1", "generation": 1})
}

/// A recorded cluster: sources `repo` and `other`, and the Kustomization `apps` of `repo` at `./apps`, which lists the
/// ConfigMaps `a` and `b`.
struct Recording {
    snapshot: Value,
    folder: Folder,
}

impl Recording {
    fn new() -> Self {
        let labels =
            json!({"kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"});
        let config_map = |name: &str| {
            let mut object = object("", "ConfigMap", name, name);
            object["labels"] = labels.clone();
            object
        };
        let source = |name: &str| {
            let content = json!({"spec": {"url": "https://example.invalid/fleet.git", "ref": {"branch": "main"}}});
            json!({"object": object("source.toolkit.fluxcd.io", "GitRepository", name, name), "content": content})
        };
        let entries: Vec<Value> =
            ["a", "b"].iter().map(|name| json!({"id": format!("flux-system_{name}__ConfigMap"), "v": "v1"})).collect();
        let apps = json!({
            "object": object("kustomize.toolkit.fluxcd.io", "Kustomization", "apps", "apps"),
            "content": {"spec": {"path": "./apps", "prune": true, "sourceRef": {"kind": "GitRepository", "name": "repo"}},
                "status": {"inventory": {"entries": entries}, "observedGeneration": 1}},
        });
        let full = [source("other"), source("repo"), apps];
        let kind = |group: &str, kind: &str, plural: &str, namespaced: bool| json!({"group": group, "version": "v1", "kind": kind, "plural": plural, "namespaced": namespaced});
        let types = [
            kind("", "ConfigMap", "configmaps", true),
            kind("", "Namespace", "namespaces", false),
            kind("kustomize.toolkit.fluxcd.io", "Kustomization", "kustomizations", true),
            kind("source.toolkit.fluxcd.io", "GitRepository", "gitrepositories", true),
        ];
        let mut objects = vec![object("", "Namespace", "flux-system", "ns"), config_map("a"), config_map("b")];
        objects.extend(full.iter().map(|full| full["object"].clone()));
        let snapshot = json!({"schema": "kubectl-gitops/snapshot/v1", "taken": chrono::Utc::now(), "gaps": [],
            "cluster": {"uid": "c", "server": "https://recorded.example.invalid"}, "types": types,
            "objects": objects, "full": full});
        let mut recording = Self { snapshot, folder: Folder::new("tree-input") };
        recording.sort();
        recording
    }

    /// Objects are recorded in the order of their identity.
    fn sort(&mut self) {
        let key =
            |object: &Value| ["group", "kind", "namespace", "name"].map(|key| object[key].as_str().unwrap().to_owned());
        self.snapshot["objects"].as_array_mut().unwrap().sort_by_key(key);
        self.snapshot["full"].as_array_mut().unwrap().sort_by_key(|full| key(&full["object"]));
    }

    fn apps(&mut self) -> &mut Value {
        let full = self.snapshot["full"].as_array_mut().unwrap();
        full.iter_mut().find(|full| full["object"]["name"] == "apps").unwrap()
    }

    fn run(&self, program: &Path, args: &[&str]) -> Run {
        let file = self.folder.write("cluster.json", &self.snapshot.to_string());
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-gitops"));
        command.args(["prune", "--plan", "--max-percent=100", "--snapshot"]).arg(file).arg("--kustomize").arg(program);
        command.args(args).env_remove("KUBECONFIG").env("HOME", self.folder.path()).env_remove("XDG_CACHE_HOME");
        let output = command.stdin(Stdio::null()).output().unwrap();
        Run {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn source(&self, tree: &Path, more: &[&str]) -> Run {
        let source = format!("--source=GitRepository/flux-system/repo={}", tree.display());
        self.run(&bin("kustomize"), &[&[source.as_str()], more].concat())
    }

    /// What happens to `apps`, why, and what goes.
    fn plan(&self, tree: &Path) -> (String, String, Vec<String>) {
        let run = self.source(tree, &["-o", "json"]);
        assert_eq!(run.code, 0, "{run:?}");
        let plan: Value = serde_json::from_str(&run.stdout).unwrap();
        let text = |key: &str| plan["owners"][0][key].as_str().unwrap().to_owned();
        let going = plan["changes"].as_array().unwrap().iter().filter(|row| row["action"] == "delete");
        let names = going.map(|row| row["object"]["name"].as_str().unwrap().to_owned()).collect();
        (text("outcome"), text("reason"), names)
    }
}

fn config_map(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: flux-system}}\n")
}

#[track_caller]
fn expect(run: &Run, code: i32, words: &[&str]) {
    assert_eq!(run.code, code, "{run:?}");
    for word in words {
        assert!(run.stderr.contains(word), "{word:?} is missing in:\n{}", run.stderr);
    }
}

#[test]
fn what_builds_is_planned() {
    let tree = Tree::new(&[("apps/a.yaml", &config_map("a"))]);
    assert_eq!(Recording::new().plan(&tree.0), ("applies".to_owned(), String::new(), vec!["b".to_owned()]));
}

#[test]
fn a_directory_that_is_not_there_is_an_error() {
    let recording = Recording::new();
    expect(&recording.source(Path::new("/nowhere/at/all"), &[]), 1, &["cannot read /nowhere/at/all"]);
    expect(&recording.run(&bin("kustomize"), &["--repo", "/nowhere/at/all"]), 1, &["/nowhere/at/all", "No such file"]);
}

#[test]
fn an_empty_directory_is_no_checkout_and_as_a_source_has_no_path() {
    let (recording, tree) = (Recording::new(), Tree::new(&[]));
    let run = recording.run(&bin("kustomize"), &["--repo", tree.0.to_str().unwrap()]);
    expect(&run, 1, &["not a git repository", "hint: "]);
    let (outcome, reason, going) = recording.plan(&tree.0);
    assert_eq!((outcome.as_str(), going.len()), ("blocked", 0), "{reason}");
    assert!(reason.contains("./apps") || reason.contains("path"), "{reason}");
}

/// What is wrong, the files, and what the message has to name.
type Broken = (&'static str, &'static [(&'static str, &'static str)], &'static [&'static str]);

#[test]
fn what_does_not_build_blocks_with_the_message_and_the_file() {
    let rows: [Broken; 5] = [
        ("broken YAML", &[("apps/a.yaml", "apiVersion: v1\nkind: [")], &["a.yaml"]),
        ("no object", &[("apps/values.yaml", "replicas: 1\n")], &["values.yaml"]),
        ("a file that is not there", &[("apps/kustomization.yaml", "resources: [none.yaml]")], &["none.yaml"]),
        ("a broken patch", &[("apps/kustomization.yaml", "resources: []\npatches: [{path: p.yaml}]")], &["p.yaml"]),
        (
            "a chart",
            &[("apps/kustomization.yaml", "helmCharts: [{name: x, repo: https://example.invalid}]")],
            &["helm"],
        ),
    ];
    for (name, files, words) in rows {
        let (outcome, reason, going) = Recording::new().plan(&Tree::new(files).0);
        assert_eq!((outcome.as_str(), going.len()), ("blocked", 0), "{name}: {reason}");
        for word in words {
            assert!(reason.contains(word), "{name}: {word:?} is missing in {reason:?}");
        }
        assert!(!reason.contains("/tmp/"), "{name}: our copy is nobody's business: {reason}");
    }
}

#[test]
fn a_program_that_is_missing_too_old_or_silent_is_named() {
    let (recording, tree) = (Recording::new(), Tree::new(&[("apps/a.yaml", &config_map("a"))]));
    let source = format!("--source=GitRepository/flux-system/repo={}", tree.0.display());
    let missing = recording.run(Path::new("/nowhere/kubectl"), &[&source]);
    expect(&missing, 1, &["cannot run /nowhere/kubectl", "hint: install kubectl"]);
    let old = r#"echo '{"clientVersion": {"gitVersion": "v1.19.0"}}'"#;
    let old = recording.run(&recording.folder.script("kubectl", old), &[&source]);
    expect(&old, 1, &["does not tell its kustomize version", "hint: kubectl 1.25 or newer"]);
    let other =
        r#"case "$1" in version) echo '{"kustomizeVersion": "v5.4.2"}';; *) echo "no such thing" >&2; exit 1;; esac"#;
    let other = recording.run(&recording.folder.script("other", other), &[&source, "-o", "wide"]);
    expect(&other, 0, &["warning: kustomize v5.4.2 builds here, and Flux links 5.8.x"]);
}

#[test]
fn a_remote_base_without_a_network_blocks_in_bounded_time() {
    // Nobody listens at this port.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}/base.yaml");
    let tree = Tree::new(&[("apps/kustomization.yaml", &format!("resources: ['{url}']"))]);
    let start = Instant::now();
    let (outcome, reason, going) = Recording::new().plan(&tree.0);
    assert_eq!((outcome.as_str(), going.len()), ("blocked", 0));
    assert!(reason.contains(&format!("127.0.0.1:{port}")), "{reason}");
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_build_that_hangs_ends_and_names_what_it_fetches() {
    use gitops_core::flux::build::{Run, generator};
    use gitops_core::flux::source::artifact::Artifact;
    use gitops_core::flux::source::options::SourceOptions;
    let files = [("apps/kustomization.yaml", "resources: ['https://example.invalid/base.yaml']")];
    let artifact = std::sync::Arc::new(Artifact::pack(&files.into_iter().collect(), &SourceOptions::default()));
    let generated = generator::generate(&artifact, &json!({"path": "apps"}), false).unwrap();
    let folder = Folder::new("tree-input");
    let program = folder.script("kustomize", "exec sleep 600");
    let kustomize = kubectl_gitops::tools::kustomize::Kustomize::new(Some(&program)).without_cache();
    let kustomize = kustomize.with_limit(Duration::from_secs(1));
    let run = Run { key: "k".to_owned(), artifact, generated };
    let start = Instant::now();
    let answers = kustomize.run_all("v5", [run], 1).await.unwrap();
    let said = answers[0].1.clone().unwrap_err();
    assert_eq!(said, "kustomize did not finish within 1 s, fetching https://example.invalid/base.yaml");
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_tree_of_five_thousand_files_is_read() {
    let tree = Tree::new(&[("apps/a.yaml", &config_map("a"))]);
    for number in 0..5000 {
        tree.write(&format!("docs/{}/{number}.txt", number % 50), b"nothing");
    }
    tree.git(&["init", "-q", "-b", "main"]);
    let start = Instant::now();
    assert_eq!(Recording::new().plan(&tree.0).2, ["b"]);
    assert!(start.elapsed() < Duration::from_secs(120), "{:?}", start.elapsed());
}

#[test]
fn a_link_out_of_the_tree_is_never_followed() {
    let secret = Folder::new("tree-input");
    let target = secret.write("outside.yaml", &config_map("a"));
    for git in [false, true] {
        let tree = Tree::new(&[("apps/b.yaml", &config_map("b"))]);
        std::os::unix::fs::symlink(&target, tree.0.join("apps/a.yaml")).unwrap();
        std::os::unix::fs::symlink("/etc", tree.0.join("apps/etc")).unwrap();
        if git {
            tree.git(&["init", "-q", "-b", "main"]);
        }
        // The artifact has no links, so what only a link named is not built.
        assert_eq!(
            Recording::new().plan(&tree.0),
            ("applies".to_owned(), String::new(), vec!["a".to_owned()]),
            "{git}"
        );
        tree.write("apps/kustomization.yaml", b"resources: [a.yaml, b.yaml]");
        let (outcome, reason, going) = Recording::new().plan(&tree.0);
        assert_eq!((outcome.as_str(), going.len()), ("blocked", 0), "{reason}");
    }
}

#[test]
fn a_file_of_fifty_megabytes_is_carried_and_a_larger_one_is_named() {
    let tree = Tree::new(&[("apps/a.yaml", &config_map("a"))]);
    tree.write("model.bin", &vec![7; 50 << 20]);
    assert_eq!(Recording::new().plan(&tree.0).2, ["b"]);
    std::fs::File::create(tree.0.join("huge.bin")).unwrap().set_len(65 << 20).unwrap();
    expect(&Recording::new().source(&tree.0, &[]), 1, &["huge.bin is too large", "hint: "]);
}

#[test]
fn a_source_that_no_kustomization_uses_is_no_empty_plan() {
    let (recording, tree) = (Recording::new(), Tree::new(&[("apps/a.yaml", &config_map("a"))]));
    let other = format!("--source=GitRepository/flux-system/other={}", tree.0.display());
    let run = recording.run(&bin("kustomize"), &[&other]);
    expect(&run, 1, &["no Kustomization of this cluster uses GitRepository/flux-system/other", "hint: "]);
    let both = recording.source(&tree.0, &[&other]);
    expect(
        &both,
        0,
        &["warning: no Kustomization of this cluster uses GitRepository/flux-system/other", "1 to delete"],
    );
    let none = format!("--source=GitRepository/flux-system/none={}", tree.0.display());
    expect(&recording.run(&bin("kustomize"), &[&none]), 1, &["no source GitRepository/flux-system/none", "hint: "]);
    for wrong in ["x", "GitRepository/x=y", "GitRepository/a/b/c=d"] {
        expect(&recording.run(&bin("kustomize"), &["--source", wrong]), 2, &["is not KIND/NAMESPACE/NAME=DIR"]);
    }
}

fn checkout(files: &[(&str, &str)]) -> Tree {
    let tree = Tree::new(files);
    tree.git(&["init", "-q", "-b", "main"]);
    tree.git(&["remote", "add", "origin", "git@example.invalid:fleet.git"]);
    tree.git(&["add", "-A"]);
    tree.git(&["commit", "-q", "-m", "one"]);
    tree
}

#[test]
fn two_sources_of_one_tree_are_both_it() {
    let mut recording = Recording::new();
    let mut second = recording.apps().clone();
    second["object"]["name"] = json!("more");
    second["object"]["uid"] = json!("more");
    second["content"]["spec"]["path"] = json!("./more");
    second["content"]["spec"]["sourceRef"]["name"] = json!("other");
    second["content"]["status"]["inventory"]["entries"] = json!([]);
    recording.snapshot["objects"].as_array_mut().unwrap().push(second["object"].clone());
    recording.snapshot["full"].as_array_mut().unwrap().push(second);
    recording.sort();
    let tree = checkout(&[("apps/a.yaml", &config_map("a")), ("more/c.yaml", &config_map("c"))]);
    let run = recording.run(&bin("kustomize"), &["--repo", tree.0.to_str().unwrap(), "-o", "json"]);
    assert_eq!(run.code, 0, "{run:?}");
    let plan: Value = serde_json::from_str(&run.stdout).unwrap();
    let outcomes: Vec<_> = plan["owners"].as_array().unwrap().iter().map(|owner| owner["outcome"].clone()).collect();
    assert_eq!(outcomes, ["applies", "applies"]);
    let rows: Vec<String> = plan["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| format!("{} {}", row["action"], row["object"]["name"]))
        .collect();
    assert_eq!(rows, ["\"delete\" \"b\"", "\"create\" \"c\""]);
}

#[test]
fn a_repository_that_is_no_source_says_what_is() {
    let tree = checkout(&[("apps/a.yaml", &config_map("a"))]);
    let repo = ["--repo", tree.0.to_str().unwrap()];
    let other = Recording::new().run(&bin("kustomize"), &[&repo[..], &["--branch", "next"]].concat());
    expect(&other, 1, &["not deployed from branch next", "GitRepository/flux-system/repo (branch main)", "hint: "]);
    tree.git(&["remote", "set-url", "origin", "https://example.invalid/another"]);
    let none = Recording::new().run(&bin("kustomize"), &repo);
    expect(&none, 1, &["no GitRepository of the cluster has the URL of one of its remotes", "hint: "]);
}

#[test]
fn a_shallow_clone_says_that_it_cannot_check_itself() {
    let whole = checkout(&[("apps/a.yaml", &config_map("a"))]);
    let first = whole.git(&["rev-parse", "HEAD"]);
    whole.write("apps/b.yaml", config_map("b").as_bytes());
    whole.git(&["add", "-A"]);
    whole.git(&["commit", "-q", "-m", "two"]);
    let mut recording = Recording::new();
    let revision = format!("main@sha1:{first}");
    recording.apps()["content"]["status"]["lastAppliedRevision"] = json!(revision);
    recording.apps()["content"]["status"]["history"] =
        json!([{"digest": "sha256:0", "metadata": {"revision": revision}}]);
    let clone = Tree::new(&[]);
    clone.git(&["clone", "-q", "--depth", "1", &format!("file://{}", whole.0.display()), "."]);
    let run = recording.source(&clone.0, &["-o", "json"]);
    expect(&run, 0, &["is a shallow clone: builds could not be compared", "git fetch --unshallow"]);
    let plan: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(plan["owners"][0]["fidelity"], "unknown");
    let complete = recording.source(&whole.0, &["-o", "json"]);
    assert!(!complete.stderr.contains("shallow"), "{}", complete.stderr);
    let plan: Value = serde_json::from_str(&complete.stdout).unwrap();
    assert_eq!(plan["owners"][0]["fidelity"], "unverified");
}

#[test]
fn a_recording_that_is_old_or_of_another_cluster_says_so() {
    let tree = Tree::new(&[("apps/a.yaml", &config_map("a"))]);
    let mut recording = Recording::new();
    let fresh = recording.source(&tree.0, &[]);
    expect(&fresh, 0, &["1 to delete"]);
    assert!(!fresh.stderr.contains("warning"), "{}", fresh.stderr);
    recording.snapshot["taken"] = json!(chrono::Utc::now() - chrono::TimeDelta::hours(49));
    let old = recording.source(&tree.0, &[]);
    expect(&old, 0, &["warning: the snapshot is 2d1h old", "hint: record a new one", "1 to delete"]);
    let other = recording.source(&tree.0, &["--server", "https://other.example.invalid"]);
    expect(
        &other,
        1,
        &["the snapshot is of https://recorded.example.invalid, and the flags name https://other.example", "hint: "],
    );
    let same = recording.source(&tree.0, &["--server", "https://recorded.example.invalid"]);
    expect(&same, 0, &["1 to delete"]);
}
