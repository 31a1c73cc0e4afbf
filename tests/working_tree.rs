//! A working tree as Flux would see it: what git would commit, and what the real kustomize builds of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use gitops_core::flux::build;
use gitops_core::flux::build::{Answers, BuildContext, Needs};
use gitops_core::flux::kustomize_controller::Features;
use gitops_core::flux::source::artifact::Artifact;
use gitops_core::flux::source::options::SourceOptions;
use gitops_core::flux::source::tree::{File, Tree};
use gitops_core::flux::spec::{KustomizationSpec, NamespacedName};
use kubectl_gitops::tools::git::WorktreeState;
use kubectl_gitops::tools::kustomize::Kustomize;
use kubectl_gitops::tools::worktree;
use serde_json::json;

/// A folder that goes with its value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("working-tree-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.0.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn git(&self, arguments: &[&str]) {
        xtask::git::run(&self.0, arguments).unwrap();
    }

    fn read(&self, state: &WorktreeState) -> BTreeMap<String, String> {
        shown(&worktree::read(&self.0, state).unwrap())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn shown(tree: &Tree) -> BTreeMap<String, String> {
    let file = |file: &File| match file {
        File::Regular(content) => String::from_utf8_lossy(content).into_owned(),
        File::Symlink(target) => format!("-> {target}"),
        File::Submodule => "submodule".to_owned(),
    };
    tree.iter().map(|(path, content)| (path.to_owned(), file(content))).collect()
}

fn map(rows: &[(&str, &str)]) -> BTreeMap<String, String> {
    rows.iter().map(|(path, content)| ((*path).to_owned(), (*content).to_owned())).collect()
}

#[test]
fn each_state_of_a_checkout_is_what_git_would_commit() {
    let folder = Folder::new();
    folder.git(&["init", "-q", "-b", "main"]);
    folder.write("a.yaml", "committed");
    folder.write("gone.yaml", "committed");
    folder.write("dir/staged.yaml", "committed");
    std::os::unix::fs::symlink("a.yaml", folder.0.join("link.yaml")).unwrap();
    folder.write(".gitignore", "ignored.yaml\n");
    folder.git(&["add", "-A"]);
    folder.git(&["commit", "-q", "-m", "one"]);
    folder.write("dir/staged.yaml", "staged");
    folder.git(&["add", "-A"]);
    folder.write("a.yaml", "edited");
    folder.write("new.yaml", "new");
    folder.write("ignored.yaml", "never");
    std::fs::remove_file(folder.0.join("gone.yaml")).unwrap();
    let base = [(".gitignore", "ignored.yaml\n"), ("link.yaml", "-> a.yaml")];
    let with = |rows: &[(&str, &str)]| map(&[&base[..], rows].concat());
    let revision = [("a.yaml", "committed"), ("gone.yaml", "committed"), ("dir/staged.yaml", "committed")];
    assert_eq!(folder.read(&WorktreeState::Revision("HEAD".to_owned())), with(&revision));
    let index = [("a.yaml", "committed"), ("gone.yaml", "committed"), ("dir/staged.yaml", "staged")];
    assert_eq!(folder.read(&WorktreeState::Index), with(&index));
    let worktree = [("a.yaml", "edited"), ("new.yaml", "new"), ("dir/staged.yaml", "staged")];
    assert_eq!(folder.read(&WorktreeState::Worktree), with(&worktree));
    // A part of a checkout is a source of its own.
    assert_eq!(
        shown(&worktree::read(&folder.0.join("dir"), &WorktreeState::Index).unwrap()),
        map(&[("staged.yaml", "staged")])
    );
}

#[test]
fn line_ends_are_those_of_the_blob() {
    let folder = Folder::new();
    folder.git(&["init", "-q", "-b", "main"]);
    folder.write(".gitattributes", "*.yaml text eol=crlf\n");
    folder.write("a.yaml", "one\r\ntwo\r\n");
    assert_eq!(folder.read(&WorktreeState::Worktree)["a.yaml"], "one\ntwo\n");
    let objects = std::fs::read_dir(folder.0.join(".git/objects")).unwrap().count();
    assert_eq!(objects, 2, "reading must not write objects: only `info` and `pack` may be there");
}

#[test]
fn a_plain_folder_is_read_as_it_is_and_has_no_revisions() {
    let folder = Folder::new();
    folder.write("p/a.yaml", "a");
    assert_eq!(folder.read(&WorktreeState::Worktree), map(&[("p/a.yaml", "a")]));
    let failure = worktree::read(&folder.0, &WorktreeState::Index).unwrap_err();
    assert!(failure.message.contains("is not in a git checkout"), "{}", failure.message);
    assert!(worktree::read(&folder.0.join("none"), &WorktreeState::Worktree).is_err());
}

/// Trees whose order, names and generated parts differ.
const TREES: [&[(&str, &str)]; 3] = [
    &[
        ("z.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: z}\n"),
        (
            "a.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: z}\ndata: {x: '0123', y: \"yes\"}\n",
        ),
        ("b/kustomization.yaml", "resources: [c.yaml]\nnamePrefix: pre-\n"),
        ("b/c.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: z}\n"),
    ],
    &[
        (
            "kustomization.yaml",
            "Resources: [a.yaml]\nunknown: 1\ncommonLabels: {x: true}\nconfigMapGenerator: [{name: g, literals: [k=v]}]\n",
        ),
        ("a.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {ports: [{port: 80}]}\n"),
    ],
    &[("README.md", "nothing here")],
];

#[tokio::test]
async fn kubectl_and_kustomize_build_the_same_bytes_in_the_order_of_the_files() {
    let bin = xtask::controlplane::bin;
    for (number, files) in TREES.iter().enumerate() {
        let artifact = Arc::new(Artifact::pack(&files.iter().copied().collect(), &SourceOptions::default()));
        let kubectl = text(&bin("kubectl"), &artifact).await;
        let kustomize = text(&bin("kustomize"), &artifact).await;
        assert_eq!(kubectl, kustomize, "tree {number}");
        assert_eq!(kubectl.is_empty(), number == 2, "tree {number}");
    }
    let artifact = Arc::new(Artifact::pack(&TREES[0].iter().copied().collect(), &SourceOptions::default()));
    let text = text(&bin("kubectl"), &artifact).await;
    let kinds: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("kind: ")).collect();
    assert_eq!(kinds, ["ConfigMap", "Deployment", "Namespace"]);
}

async fn text(program: &Path, artifact: &Arc<Artifact>) -> String {
    let kustomize = Kustomize::new(Some(program)).without_cache();
    let version = kustomize.version().await.unwrap();
    assert_eq!(version.trim_start_matches("v").split('.').next(), Some("5"), "{version}");
    let owner = NamespacedName { namespace: "n".to_owned(), name: "k".to_owned() };
    let (spec, mut answers) = (KustomizationSpec::new(&json!({"path": "./"})), Answers::default());
    loop {
        let mut needs = Needs::default();
        let mut context = BuildContext::new(Features::default(), &answers, &mut needs);
        if let Some(built) = build::build_text(artifact, &owner, &spec, &mut context) {
            return built.unwrap();
        }
        for (key, output) in kustomize.run_all(&version, needs.runs.into_values(), 2).await.unwrap() {
            answers.record_run(key, output);
        }
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let failure = Kustomize::new(Some(Path::new("/nowhere/kustomize"))).version().await.unwrap_err();
    assert!(failure.message.contains("/nowhere/kustomize"), "{}", failure.message);
    assert!(failure.hint.is_some());
}
