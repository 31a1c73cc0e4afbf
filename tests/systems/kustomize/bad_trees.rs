//! Bad input of `prune --plan --repo|--source`: each ends in bounded time with a clear message and its exit code, and
//! nothing is claimed to go that does not. The cluster is a recording; kustomize is the real one.

use std::path::Path;
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use serde_json::{Value, json};
use test_support::folder::Folder;
use test_support::gitops::without_subject;
use test_support::gitops::{Run, Transcript, command};
use xtask::controlplane::bin;

/// A folder outside of any checkout, so that it is read as a plain one.
pub(super) fn tree(files: &[(&str, &str)]) -> Folder {
    let tree = Folder::outside_checkouts("tree-input");
    for (path, content) in files {
        tree.write(path, content);
    }
    tree
}

pub(super) fn object(group: &str, kind: &str, name: &str, uid: &str) -> Value {
    let namespace = if kind == "Namespace" { "" } else { "flux-system" };
    json!({"group": group, "kind": kind, "namespace": namespace, "name": name, "version": "v1", "uid": uid,
           "resource_version": "1", "generation": 1})
}

/// A recorded cluster: sources `repo` and `other`, and the Kustomization `apps` of `repo` at `./apps`, which lists the
/// ConfigMaps `a` and `b`.
pub(super) struct Recording {
    pub(super) snapshot: Value,
    folder: Folder,
}

impl Recording {
    pub(super) fn new() -> Self {
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
            "objects": objects, "full": full, "referrers": []});
        let mut recording = Self { snapshot, folder: Folder::new("tree-input") };
        recording.sort();
        recording
    }

    /// Objects are recorded in the order of their identity.
    pub(super) fn sort(&mut self) {
        let key =
            |object: &Value| ["group", "kind", "namespace", "name"].map(|key| object[key].as_str().unwrap().to_owned());
        self.snapshot["objects"].as_array_mut().unwrap().sort_by_key(key);
        self.snapshot["full"].as_array_mut().unwrap().sort_by_key(|full| key(&full["object"]));
    }

    pub(super) fn apps(&mut self) -> &mut Value {
        let full = self.snapshot["full"].as_array_mut().unwrap();
        full.iter_mut().find(|full| full["object"]["name"] == "apps").unwrap()
    }

    fn run(&self, program: &Path, args: &[&str]) -> Run {
        let file = self.folder.write("cluster.json", self.snapshot.to_string());
        let limit = args.iter().find(|arg| arg.starts_with("--max-percent")).unwrap_or(&"--max-percent=100");
        let args: Vec<&str> = args.iter().copied().filter(|arg| arg != limit).collect();
        let mut command = command(&["prune", "--plan", limit, "--snapshot"]);
        command.arg(file).arg("--kustomize").arg(program).args(args);
        command.env_remove("KUBECONFIG").env("HOME", self.folder.path()).env_remove("XDG_CACHE_HOME");
        // Otherwise git says it in other words where the folder for temporary files is a file system of its own.
        command.env("GIT_DISCOVERY_ACROSS_FILESYSTEM", "1");
        let run = Run::of(&mut command);
        run.with("HOME", self.folder.path().display())
    }

    pub(super) fn source(&self, tree: &Path, more: &[&str]) -> Run {
        let source = format!("--source=GitRepository/flux-system/repo={}", tree.display());
        self.run(&bin("kustomize"), &[&[source.as_str()], more].concat())
    }

    /// Outcome of `apps`, its reason, and the deleted objects.
    fn plan(&self, tree: &Path) -> (String, String, Vec<String>) {
        self.plan_with(tree, &[], 0)
    }

    /// The same with more flags. An owner whose outcome is not known has exit code 5.
    fn plan_with(&self, tree: &Path, flags: &[&str], code: i32) -> (String, String, Vec<String>) {
        let run = self.source(tree, &[&["-o", "json"], flags].concat());
        assert_eq!(run.code, code, "{run:?}");
        let plan: Value = serde_json::from_str(&run.stdout).unwrap();
        let owner = &plan["owners"][0];
        let text = |pointer: &str| owner.pointer(pointer).and_then(Value::as_str).unwrap().to_owned();
        let going = plan["changes"].as_array().unwrap().iter().filter(|row| row["action"] == "delete");
        let names = going.map(|row| row["object"]["name"].as_str().unwrap().to_owned()).collect();
        (text("/outcome"), text("/reason/detail"), names)
    }
}

fn config_map(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: flux-system}}\n")
}

#[test]
fn a_tree_that_builds_is_planned() {
    let tree = tree(&[("apps/a.yaml", &config_map("a"))]);
    assert_eq!(Recording::new().plan(tree.path()), ("applies".to_owned(), String::new(), vec!["b".to_owned()]));
}

#[test]
fn a_directory_that_is_not_there_is_an_error() {
    let recording = Recording::new();
    assert_snapshot!(recording.source(Path::new("/nowhere/at/all"), &[]), @"
    exit code 1
    --- stderr
    error: cannot read /nowhere/at/all: No such file or directory (os error 2)
    hint: name a directory that exists and that this user may read
    ");
    assert_snapshot!(recording.run(&bin("kustomize"), &["--repo", "/nowhere/at/all"]), @"
    exit code 1
    --- stderr
    error: cannot read /nowhere/at/all: No such file or directory (os error 2)
    hint: name a directory that exists and that this user may read
    ");
}

#[test]
fn an_empty_directory_is_no_checkout_and_as_a_source_has_no_path() {
    let (recording, tree) = (Recording::new(), tree(&[]));
    let run = recording.run(&bin("kustomize"), &["--repo", tree.path().to_str().unwrap()]);
    assert_snapshot!(run.with("TREE", tree.path().display()), @"
    exit code 1
    --- stderr
    error: TREE is not in a git checkout
    hint: name a checkout, or change to one; --source KIND/NAMESPACE/NAME=DIR takes any directory
    ");
    let (outcome, reason, going) = recording.plan(tree.path());
    assert_eq!((outcome.as_str(), going.len()), ("blocked", 0), "{reason}");
    assert_snapshot!(reason, @r#"path "apps" is not in the artifact"#);
}

#[test]
fn a_failing_build_blocks_with_its_message_and_file() {
    let rows = [
        ("broken YAML", "apps/a.yaml", "apiVersion: v1\nkind: ["),
        ("no object", "apps/values.yaml", "replicas: 1\n"),
        ("a file that is not there", "apps/kustomization.yaml", "resources: [none.yaml]"),
        ("a broken patch", "apps/kustomization.yaml", "resources: []\npatches: [{path: p.yaml}]"),
        ("a chart", "apps/kustomization.yaml", "helmCharts: [{name: x, repo: https://example.invalid}]"),
    ];
    let mut reasons = String::new();
    for (name, path, content) in rows {
        let (outcome, reason, going) = Recording::new().plan(tree(&[(path, content)]).path());
        assert_eq!((outcome.as_str(), going.len()), ("blocked", 0), "{name}: {reason}");
        assert!(!reason.contains("/tmp/"), "{name}: our copy is nobody's business: {reason}");
        reasons += &format!("{name}: {reason}\n");
    }
    assert_snapshot!(reasons, @"
    broken YAML: accumulating resources: accumulating resources from './a.yaml': MalformedYAMLError: yaml: line 2: did not find expected node content in File: ./a.yaml
    no object: accumulating resources: accumulation err='accumulating resources from './values.yaml': missing Resource metadata': must build at directory: '/apps/values.yaml': file is not directory
    a file that is not there: accumulating resources: accumulation err='accumulating resources from 'none.yaml': open /apps/none.yaml: no such file or directory': must build at directory: not a valid directory: evalsymlink failure on '/apps/none.yaml' : lstat /apps/none.yaml: no such file or directory
    a broken patch: trouble configuring builtin PatchTransformer with config: `
    path: p.yaml
    `: failed to get the patch file from path(p.yaml): open /apps/p.yaml: no such file or directory
    a chart: trouble configuring builtin HelmChartInflationGenerator with config: `
    name: x
    repo: https://example.invalid
    `: must specify --enable-helm
    ");
}

#[test]
fn a_program_that_is_missing_too_old_or_silent_is_named() {
    let (recording, tree) = (Recording::new(), tree(&[("apps/a.yaml", &config_map("a"))]));
    let source = format!("--source=GitRepository/flux-system/repo={}", tree.path().display());
    let missing = recording.run(Path::new("/nowhere/kubectl"), &[&source]);
    assert_snapshot!(missing, @"
    exit code 1
    --- stderr
    error: cannot run /nowhere/kubectl: No such file or directory (os error 2)
    hint: install kubectl, or name a kustomize program with --kustomize
    ");
    let old = r#"echo '{"clientVersion": {"gitVersion": "v1.19.0"}}'"#;
    let old = recording.run(&recording.folder.script("kubectl", old), &[&source]);
    assert_snapshot!(old, @"
    exit code 1
    --- stderr
    error: HOME/kubectl does not print its kustomize version
    hint: kubectl 1.25 or newer is needed, or a kustomize program with --kustomize
    ");
}

#[test]
fn a_failure_of_another_kustomize_is_a_gap() {
    let (recording, tree) = (Recording::new(), tree(&[("apps/a.yaml", &config_map("a"))]));
    let source = format!("--source=GitRepository/flux-system/repo={}", tree.path().display());
    let other =
        r#"case "$1" in version) echo '{"kustomizeVersion": "v5.4.2"}';; *) echo "no such thing" >&2; exit 1;; esac"#;
    let other = recording.run(&recording.folder.script("other", other), &[&source, "-o", "wide"]);
    assert_snapshot!(without_subject(other), @"
    exit code 5
    --- stdout
    ACTION    NAMESPACE     KIND            NAME                                         OWNER   REASON                                                                                                                                         BY   CAUSE   UID
    unknown   flux-system   Kustomization   apps                                                 other-kustomize: kustomize v5.4.2 builds here, and the controller links 5.8.x; it failed: no such thing; any of its 2 objects may be deleted
    gap                                     build of kustomization/apps -n flux-system           kustomize v5.4.2 builds here, and the controller links 5.8.x; it failed: no such thing
    --- stderr
    planning SUBJECT
    warning: kustomize v5.4.2 builds here, and the controller links 5.8.x: builds may differ
    no known deletions; 1 owner unknown: kustomization/apps -n flux-system (kustomize v5.4.2 builds here, and the controller links 5.8.x; it failed: no such thing); the plan is incomplete; without dry-runs, updates and refusals are not known
    warning: build of kustomization/apps -n flux-system is not known: kustomize v5.4.2 builds here, and the controller links 5.8.x; it failed: no such thing
    hint: --kustomize names the program that builds: the controller has kustomize 5.8
    ");
}

#[test]
fn every_format_shows_blocked_and_unknown_owners() {
    let rows = [
        ("blocked", "resources: [none.yaml]", "no such file or directory", 0),
        ("unknown", "resources: ['https://example.invalid/a.yaml']", "--allow-remote-bases", 5),
    ];
    for (outcome, file, message, code) in rows {
        let tree = tree(&[("apps/kustomization.yaml", file)]);
        for format in ["table", "wide", "json", "yaml", "markdown", "name"] {
            let run = Recording::new().source(tree.path(), &["-o", format]);
            assert_eq!(run.code, code, "{format}: {run}");
            let counts = format!("1 owner {outcome}: kustomization/apps -n flux-system (");
            assert!(run.stderr.contains(&counts) && run.stderr.contains(message), "{format}: {run}");
            let shows = run.stdout.contains(outcome) && run.stdout.contains(message);
            assert!(shows || format == "name", "{format}: {run}");
        }
    }
}

#[test]
fn no_added_line_turns_the_alarm_off() {
    let emptied = "resources: []\n";
    let deep = format!("x: {}1{}\n", "[".repeat(140), "]".repeat(140));
    let ready = json!([{"type": "Ready", "status": "True", "observedGeneration": 1}]);
    let lines = [
        "",
        "patches: [{path: none.yaml}]\n",
        "unknown: field\n",
        "helmCharts: [{name: x, repo: 'https://example.invalid'}]\n",
        "components: ['https://example.invalid/x']\n",
        "bases: ['git@example.invalid:x']\n",
        "transformers: [none.yaml]\n",
        "resources: ['https://example.invalid/a.yaml']\n",
        "namePrefix: {a: b}\n",
        "patches: [\n",
        "a: &a [*a]\n",
        &deep,
    ];
    for line in lines {
        let mut recording = Recording::new();
        recording.apps()["content"]["status"]["conditions"] = ready.clone();
        let tree = tree(&[("apps/kustomization.yaml", &format!("{emptied}{line}"))]);
        let run = recording.source(tree.path(), &["--max-percent=50", "--detailed-exitcode"]);
        assert!([5, 6].contains(&run.code), "{line:?}: {run}");
    }
}

#[test]
fn a_remote_base_is_a_gap_that_names_the_flag() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://user:password@{}/base.yaml?token=secret", listener.local_addr().unwrap());
    let tree = tree(&[("apps/kustomization.yaml", &format!("resources: ['{url}']"))]);
    let (outcome, reason, going) = Recording::new().plan_with(tree.path(), &[], 5);
    assert_eq!((outcome.as_str(), going.len()), ("unknown", 0));
    let port = listener.local_addr().unwrap().port().to_string();
    assert_snapshot!(reason.replace(&port, "PORT"), @"it needs the remote base http://REDACTED@127.0.0.1:PORT/base.yaml?token=REDACTED, which is fetched only with --allow-remote-bases; any of its 2 objects may be deleted");
    assert!(listener.accept().is_err(), "nothing was contacted");
}

#[test]
fn a_remote_base_that_cannot_be_fetched_is_a_gap_in_bounded_time() {
    // Nobody listens at this port.
    let port = xtask::cluster::free_port().unwrap();
    let url = format!("http://127.0.0.1:{port}/base.yaml");
    let tree = tree(&[("apps/kustomization.yaml", &format!("resources: ['{url}']"))]);
    let start = Instant::now();
    let (outcome, reason, going) = Recording::new().plan_with(tree.path(), &["--allow-remote-bases"], 5);
    assert_eq!((outcome.as_str(), going.len()), ("unknown", 0));
    assert_snapshot!(reason.replace(&port.to_string(), "PORT"), @r#"a remote base was not fetched: accumulating resources: accumulation err='accumulating resources from 'http://127.0.0.1:PORT/base.yaml': Get "http://127.0.0.1:PORT/base.yaml": dial tcp 127.0.0.1:PORT: connect: connection refused': must build at directory: not a valid directory: evalsymlink failure on '/apps/http:/127.0.0.1:PORT/base.yaml' : lstat /apps/http:: no such file or directory; any of its 2 objects may be deleted"#);
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_build_that_hangs_ends_and_names_what_it_fetches() {
    use gitops_core::flux::build::{BuildFailure, Run, generator, references};
    use gitops_core::flux::kustomize_controller::KustomizeVersions;
    use gitops_core::flux::source::artifact::Artifact;
    use gitops_core::flux::source::options::SourceOptions;
    use gitops_core::plan::ReasonCode;
    let files = [("apps/kustomization.yaml", "resources: ['https://u:p@example.invalid/base.yaml']")];
    let artifact = std::sync::Arc::new(Artifact::pack(&files.into_iter().collect(), &SourceOptions::default()));
    let generated = generator::generate(&artifact, &json!({"path": "apps"}), false).unwrap();
    let folder = Folder::new("tree-input");
    let program = folder.script("kustomize", "exec sleep 600");
    let sandbox = kubectl_gitops::tools::sandbox::Sandbox::launched_by(test_support::gitops::binary());
    let mut kustomize = kubectl_gitops::tools::programs::kustomize::Kustomize::new(Some(&program)).without_cache();
    (kustomize.program.sandbox, kustomize.program.limit) = (sandbox, Duration::from_secs(1));
    let kustomize = kustomize.with_remote_bases(true);
    let inputs = references::check(&artifact, &generated).unwrap();
    let run = Run { key: "k".to_owned(), artifact, generated, inputs, is_private: false };
    let versions = KustomizeVersions { program: "v5.8.1".to_owned(), linked: Some("5.8") };
    let start = Instant::now();
    let answers = kustomize.run_all(&versions, [run], 1, |_, _| {}).await.unwrap();
    let said = answers[0].1.clone().unwrap_err();
    let expected = "kustomize did not finish within 1 s, fetching https://REDACTED@example.invalid/base.yaml";
    assert_eq!(said, BuildFailure::unknown(ReasonCode::BuildTimeout, expected));
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_tree_of_five_thousand_files_is_read() {
    let tree = tree(&[("apps/a.yaml", &config_map("a"))]);
    for number in 0..5000 {
        tree.write(&format!("docs/{}/{number}.txt", number % 50), b"nothing");
    }
    tree.git(&["init", "-q", "-b", "main"]);
    let start = Instant::now();
    assert_eq!(Recording::new().plan(tree.path()).2, ["b"]);
    assert!(start.elapsed() < Duration::from_secs(120), "{:?}", start.elapsed());
}

#[test]
fn a_link_out_of_the_tree_is_never_followed() {
    let secret = Folder::new("tree-input");
    let target = secret.write("outside.yaml", config_map("a"));
    for git in [false, true] {
        let tree = tree(&[("apps/b.yaml", &config_map("b"))]);
        std::os::unix::fs::symlink(&target, tree.path().join("apps/a.yaml")).unwrap();
        std::os::unix::fs::symlink("/etc", tree.path().join("apps/etc")).unwrap();
        if git {
            tree.git(&["init", "-q", "-b", "main"]);
        }
        // The artifact has no links, so what only a link named is not built.
        assert_eq!(
            Recording::new().plan(tree.path()),
            ("applies".to_owned(), String::new(), vec!["a".to_owned()]),
            "{git}"
        );
        tree.write("apps/kustomization.yaml", b"resources: [a.yaml, b.yaml]");
        let (outcome, reason, going) = Recording::new().plan(tree.path());
        assert_eq!((outcome.as_str(), going.len()), ("blocked", 0), "{reason}");
    }
}

#[test]
fn a_file_of_fifty_megabytes_is_carried_and_a_larger_one_is_named() {
    let tree = tree(&[("apps/a.yaml", &config_map("a"))]);
    tree.write("model.bin", vec![7; 50 << 20]);
    assert_eq!(Recording::new().plan(tree.path()).2, ["b"]);
    std::fs::File::create(tree.path().join("huge.bin")).unwrap().set_len(65 << 20).unwrap();
    let huge = Recording::new().source(tree.path(), &[]);
    assert_snapshot!(without_subject(huge.with("TREE", tree.path().display())), @"
    exit code 5
    --- stdout
    plan of SUBJECT

    kustomization/apps -n flux-system   applies   1 to delete   in namespace flux-system
      delete    ConfigMap/b   not-in-build

    gap: GitRepository/flux-system/repo: huge.bin: it cannot be read: it has 68157440 bytes, and the limit for one file is 64 MiB
    --- stderr
    planning SUBJECT
    1 to delete; the plan is incomplete; without dry-runs, updates and refusals are not known
    warning: GitRepository/flux-system/repo could not be read: huge.bin: it cannot be read: it has 68157440 bytes, and the limit for one file is 64 MiB
    ");
}

#[test]
fn a_source_that_no_kustomization_uses_is_no_empty_plan() {
    let (recording, tree) = (Recording::new(), tree(&[("apps/a.yaml", &config_map("a"))]));
    let other = format!("--source=GitRepository/flux-system/other={}", tree.path().display());
    let run = recording.run(&bin("kustomize"), &[&other]);
    assert_snapshot!(run, @"
    exit code 1
    --- stderr
    error: nothing in this cluster uses GitRepository/flux-system/other
    hint: `kubectl gitops get kustomizations -A -o wide --snapshot HOME/cluster.json` shows the sources in use
    ");
    let both = recording.source(tree.path(), &[&other]);
    assert_snapshot!(without_subject(both), @"
    exit code 0
    --- stdout
    plan of SUBJECT

    kustomization/apps -n flux-system   applies   1 to delete   in namespace flux-system
      delete    ConfigMap/b   not-in-build
    --- stderr
    warning: nothing in this cluster uses GitRepository/flux-system/other
    planning SUBJECT
    1 to delete; without dry-runs, updates and refusals are not known
    ");
    let none = format!("--source=GitRepository/flux-system/none={}", tree.path().display());
    let run = recording.run(&bin("kustomize"), &[&none]);
    assert_snapshot!(run.with("TREE", tree.path().display()), @"
    exit code 1
    --- stderr
    error: no source GitRepository/flux-system/none in this cluster
    hint: name a source: --source GitRepository/flux-system/repo=TREE
    ");
    let mut transcript = Transcript::default();
    for wrong in ["x", "GitRepository/x=y", "GitRepository/a/b/c=d"] {
        transcript.add(wrong, &recording.run(&bin("kustomize"), &["--source", wrong]));
    }
    assert_snapshot!(transcript, @r#"
    === x
    exit code 2
    --- stderr
    error: "x" is not KIND/NAMESPACE/NAME=DIR
    hint: name a source: --source GitRepository/flux-system/repo=.

    === GitRepository/x=y
    exit code 2
    --- stderr
    error: "GitRepository/x=y" is not KIND/NAMESPACE/NAME=DIR
    hint: name a source: --source GitRepository/flux-system/repo=y

    === GitRepository/a/b/c=d
    exit code 2
    --- stderr
    error: "GitRepository/a/b/c=d" is not KIND/NAMESPACE/NAME=DIR
    hint: name a source: --source GitRepository/flux-system/repo=d
    "#);
}

fn checkout(files: &[(&str, &str)]) -> Folder {
    let tree = tree(files);
    tree.git(&["init", "-q", "-b", "main"]);
    tree.git(&["remote", "add", "origin", "git@example.invalid:fleet.git"]);
    tree.git(&["add", "-A"]);
    tree.git(&["commit", "-q", "-m", "one"]);
    tree
}

#[test]
fn a_tree_may_be_two_sources() {
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
    let run = recording.run(&bin("kustomize"), &["--repo", tree.path().to_str().unwrap(), "-o", "json"]);
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
    let repo = ["--repo", tree.path().to_str().unwrap()];
    let other = Recording::new().run(&bin("kustomize"), &[&repo[..], &["--branch", "next"]].concat());
    assert_snapshot!(other.with("TREE", tree.path().display()), @"
    exit code 1
    --- stderr
    error: no source of TREE in this cluster follows branch next: GitRepository/flux-system/other (branch main), GitRepository/flux-system/repo (branch main)
    hint: choose the branch that it is merged into: --branch main
    ");
    tree.git(&["remote", "set-url", "origin", "https://example.invalid/another"]);
    let none = Recording::new().run(&bin("kustomize"), &repo);
    assert_snapshot!(none.with("TREE", tree.path().display()), @"
    exit code 1
    --- stderr
    error: no source of this cluster has the address of TREE: its remotes are https://example.invalid/another; the GitRepositories of the cluster have https://example.invalid/fleet.git
    hint: change to a checkout of the source; for one with another address, name its source: --source GitRepository/flux-system/repo=TREE
    ");
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
    let clone = tree(&[]);
    clone.git(&["clone", "-q", "--depth", "1", &format!("file://{}", whole.path().display()), "."]);
    let run = recording.source(clone.path(), &["-o", "json"]);
    assert_eq!(run.code, 0, "{run}");
    assert_snapshot!(without_subject(run.stderr.replace(&clone.path().display().to_string(), "TREE")), @"
    planning SUBJECT
    warning: TREE is a shallow clone: builds could not be compared with the controller's own; `git -C TREE fetch --unshallow` fetches the history
    no deletions; without dry-runs, updates and refusals are not known
    ");
    let plan: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(plan["owners"][0]["fidelity"], "unknown");
    let complete = recording.source(whole.path(), &["-o", "json"]);
    assert!(!complete.stderr.contains("shallow"), "{}", complete.stderr);
    let plan: Value = serde_json::from_str(&complete.stdout).unwrap();
    assert_eq!(plan["owners"][0]["fidelity"], "unverified");
}

#[test]
fn a_recording_that_is_old_or_of_another_cluster_says_so() {
    let tree = tree(&[("apps/a.yaml", &config_map("a"))]);
    let mut recording = Recording::new();
    let fresh = recording.source(tree.path(), &[]);
    assert_snapshot!(without_subject(fresh), @"
    exit code 0
    --- stdout
    plan of SUBJECT

    kustomization/apps -n flux-system   applies   1 to delete   in namespace flux-system
      delete    ConfigMap/b   not-in-build
    --- stderr
    planning SUBJECT
    1 to delete; without dry-runs, updates and refusals are not known
    ");
    recording.snapshot["taken"] = json!(chrono::Utc::now() - chrono::TimeDelta::hours(49));
    let old = recording.source(tree.path(), &[]);
    assert_snapshot!(without_subject(old), @"
    exit code 0
    --- stdout
    plan of SUBJECT

    kustomization/apps -n flux-system   applies   1 to delete   in namespace flux-system
      delete    ConfigMap/b   not-in-build
    --- stderr
    warning: the snapshot is 2d1h old; the answer ignores later changes
    hint: record a new one with `kubectl gitops snapshot FILE`
    planning SUBJECT
    1 to delete; without dry-runs, updates and refusals are not known
    ");
    let other = recording.source(tree.path(), &["--server", "https://other.example.invalid"]);
    assert_snapshot!(other, @"
    exit code 1
    --- stderr
    warning: the snapshot is 2d1h old; the answer ignores later changes
    hint: record a new one with `kubectl gitops snapshot FILE`
    error: the snapshot is of https://recorded.example.invalid, and the flags name https://other.example.invalid
    hint: leave the connection flags out, or record that cluster
    ");
    let same = recording.source(tree.path(), &["--server", "https://recorded.example.invalid"]);
    assert_eq!(same.code, 0, "{same}");
    assert!(same.stderr.contains("1 to delete"), "{same}");
}
