//! `cargo xtask demo`: runs the reading commands on the recorded clusters in this repository. Needs no cluster.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::files::copy_folder;
use crate::{answer, say, workspace_root};

/// Recording of a cluster after a commit with a mistyped path.
pub const RECORDING: &str = "examples/shop.json.gz";
/// Recording of the same cluster before that commit.
pub const BEFORE: &str = "examples/shop-before.json.gz";
/// Recorded answer of the preview of that commit.
pub const PREVIEW: &str = "examples/shop-preview.txt";

/// Manifest with the path, and the path before and after the commit.
const MISTYPED: (&str, &str, &str) = ("clusters/prod/checkout.yaml", "./apps/checkout", "./aps/checkout");

/// Questions about the cluster after the commit, and the command that answers each one.
const SCENES: [(&str, &[&str]); 5] = [
    ("What is suspended, by whom and why? What is not ready?", &["get", "-A"]),
    ("What manages this cluster's objects?", &["inventory"]),
    ("Which objects belong to the Kustomization web?", &["inventory", "-o", "tree", "kustomization/web"]),
    ("Which objects will their owner never prune?", &["inventory", "--leaked"]),
    ("What would prune delete, and what would it keep?", &["prune", "--plan"]),
];

/// Prints every question and the output of its command.
pub fn run() -> Result<()> {
    let program = build()?;
    preview(&program)?;
    say("\nThe commit was merged. This is the cluster afterwards.");
    for (question, args) in SCENES {
        say(format!("\n# {question}"));
        answer(format!("$ kubectl gitops {} --snapshot {RECORDING}", args.join(" ")));
        let mut command = Command::new(&program);
        command.args(args).args(["--snapshot", RECORDING]).current_dir(workspace_root());
        let status = command.status().with_context(|| format!("cannot run {}", program.display()))?;
        ensure!(status.success(), "kubectl gitops {} ended with {status}", args.join(" "));
    }
    Ok(())
}

/// Builds the program in the profile `demo`, which compiles in the shortest time, and returns its path.
fn build() -> Result<PathBuf> {
    say("compiling kubectl-gitops; the first time takes a minute or two");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--locked", "--profile", "demo", "--package", "kubectl-gitops"]);
    cargo.args(["--bin", "kubectl-gitops"]).current_dir(workspace_root());
    ensure!(cargo.status().context("cannot run cargo build")?.success(), "kubectl-gitops does not build");
    Ok(workspace_root().join("target/demo/kubectl-gitops"))
}

/// Prints the plan of the commit with the mistyped path, or the recorded one on a machine without kubectl.
fn preview(program: &Path) -> Result<()> {
    let (manifest, before, after) = MISTYPED;
    say("\n# A commit mistypes a path. What will be deleted if it is merged?");
    answer(format!("$ git diff {manifest}\n-  path: {before}\n+  path: {after}"));
    answer(format!("$ kubectl gitops prune --plan --source GitRepository/flux-system/shop=. --snapshot {BEFORE}"));
    if Command::new("kubectl").args(["version", "--client"]).output().is_err() {
        let recorded = fs::read_to_string(workspace_root().join(PREVIEW))?;
        say("kubectl is not on the PATH, and this preview builds Kustomizations with it. This is the recorded answer:");
        answer(recorded.trim_end());
        return Ok(());
    }
    let tree = Tree::new()?;
    let status = plan(program, &tree).status().context("cannot run the preview")?;
    ensure!(status.code() == Some(6), "the preview ended with {status}, and not with the alarm");
    Ok(())
}

/// Returns the answer of the preview, built by this kustomize: standard output, then messages.
pub fn preview_answer(program: &Path, kustomize: &Path) -> Result<String> {
    let tree = Tree::new()?;
    let output = plan(program, &tree).arg("--kustomize").arg(kustomize).output().context("cannot run the preview")?;
    ensure!(output.status.code() == Some(6), "the preview ended with {}", output.status);
    String::from_utf8([output.stdout, output.stderr].concat()).context("the preview prints no UTF-8")
}

fn plan(program: &Path, tree: &Tree) -> Command {
    let mut command = Command::new(program);
    command.args(["prune", "--plan", "--snapshot", BEFORE, "--source"]);
    command.arg(format!("GitRepository/flux-system/shop={}", tree.0.display())).current_dir(workspace_root());
    command
}

/// The repository with the mistyped path, in a folder outside of this checkout.
struct Tree(PathBuf);

impl Tree {
    fn new() -> Result<Self> {
        let tree = Self(std::env::temp_dir().join(format!("kubectl-gitops-demo-{}", std::process::id())));
        copy_folder(&workspace_root().join("examples/shop"), &tree.0)?;
        remove_leaked(&tree.0)?;
        mistype(&tree.0)?;
        Ok(tree)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes the manifests whose objects are leaked.
pub fn remove_leaked(tree: &Path) -> Result<()> {
    ["apps/web/banner-easter.yaml", "apps/web/vouchers.yaml"]
        .iter()
        .try_for_each(|file| fs::remove_file(tree.join(file)).with_context(|| format!("cannot remove {file}")))
}

/// Mistypes the path of `checkout`.
pub fn mistype(tree: &Path) -> Result<()> {
    let (manifest, before, after) = MISTYPED;
    let manifest = tree.join(manifest);
    let text = fs::read_to_string(&manifest).with_context(|| format!("cannot read {}", manifest.display()))?;
    fs::write(&manifest, text.replace(before, after)).with_context(|| format!("cannot write {}", manifest.display()))
}
