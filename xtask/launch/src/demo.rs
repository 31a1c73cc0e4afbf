//! `cargo xtask demo`: runs the reading commands on the recorded clusters in this repository. Needs no cluster.
//!
//! The plan is that of a branch that renames a Kustomization. The demo leaves its checkout in `target/shop`.

use std::ffi::OsString;
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
/// Recorded plan of the branch that renames a Kustomization.
pub const PREVIEW: &str = "examples/shop-preview.txt";
/// Name of the recorded cluster in a checkout of [`checkout`].
pub const SNAPSHOT: &str = "cluster.json.gz";

/// Address of the GitRepository in the recorded cluster.
const ADDRESS: &str = "https://example.invalid/shop.git";
/// Manifest of the Kustomization that the branch renames, and the path that a later commit mistypes.
const MANIFEST: &str = "clusters/prod/checkout.yaml";
const RENAMED: (&str, &str) = ("name: checkout\n", "name: payments\n");
const MISTYPED: (&str, &str) = ("./apps/checkout", "./aps/checkout");

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
    say("\nAnother commit mistyped the path of checkout, and was merged. This is the cluster afterwards.");
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

/// Prints the plan of the branch, or the recorded one on a machine without kubectl.
fn preview(program: &Path) -> Result<()> {
    let tree = workspace_root().join("target/shop");
    checkout(&tree)?;
    say("\n# A branch renames a Kustomization. What will be deleted if it is merged?");
    answer(format!(
        "$ cd {}\n$ git diff main -U0 | tail -n 2\n-  {}+  {}",
        tree.display(),
        RENAMED.0,
        RENAMED.1.trim()
    ));
    answer(format!("$ kubectl gitops plan --snapshot {SNAPSHOT}"));
    if Command::new("kubectl").args(["version", "--client"]).output().is_err() {
        let recorded = fs::read_to_string(workspace_root().join(PREVIEW))?;
        say("kubectl is not on the PATH, and this plan builds Kustomizations with it. This is the recorded answer:");
        answer(recorded.trim_end());
        return Ok(());
    }
    let status = plan(program, &tree).status().context("cannot run the preview")?;
    ensure!(status.code() == Some(6), "the preview ended with {status}, and not with the alarm");
    Ok(())
}

/// Returns the answer of the preview, built by this kubectl: standard output, then messages.
pub fn preview_answer(program: &Path, kubectl: &Path) -> Result<String> {
    let tree = std::env::temp_dir().join(format!("kubectl-gitops-demo-{}", std::process::id()));
    checkout(&tree)?;
    let output = plan(program, &tree).env("PATH", path_to(kubectl)?).output().context("cannot run the preview")?;
    let _ = fs::remove_dir_all(&tree);
    let text = String::from_utf8([output.stdout, output.stderr].concat()).context("the preview prints no UTF-8")?;
    ensure!(output.status.code() == Some(6), "the preview ended with {}: {text}", output.status);
    Ok(without_age(&text))
}

/// Returns the `PATH` with which this program is found first.
pub fn path_to(program: &Path) -> Result<OsString> {
    let others = std::env::var_os("PATH").unwrap_or_default();
    let directories = program.parent().map(Path::to_owned).into_iter().chain(std::env::split_paths(&others));
    std::env::join_paths(directories).context("a directory of the PATH has a colon")
}

/// Leaves out the warning that a snapshot is old, and its hint: whether it is there depends on the day.
pub fn without_age(text: &str) -> String {
    let is_of_age = |line: &&str| {
        line.starts_with("warning: the snapshot is ")
            || line.starts_with("hint: record a new one with `kubectl gitops snapshot")
    };
    text.split_inclusive('\n').filter(|line| !is_of_age(line)).collect()
}

fn plan(program: &Path, tree: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["plan", "--snapshot", SNAPSHOT]).current_dir(tree);
    command
}

/// Makes `tree` a checkout of the recorded cluster's repository, on the branch that renames a Kustomization. The recording
/// is in it too, as an ignored file.
pub fn checkout(tree: &Path) -> Result<()> {
    let _ = fs::remove_dir_all(tree);
    copy_folder(&workspace_root().join("examples/shop"), tree)?;
    remove_leaked(tree)?;
    commit_deployed(tree)?;
    git(tree, &["remote", "add", "origin", ADDRESS])?;
    git(tree, &["update-ref", "refs/remotes/origin/main", "HEAD"])?;
    git(tree, &["checkout", "-q", "-b", "rename-checkout"])?;
    edit(tree, RENAMED)?;
    git(tree, &["commit", "-q", "-a", "-m", "Rename checkout to payments"])?;
    fs::copy(workspace_root().join(BEFORE), tree.join(SNAPSHOT)).context("cannot copy the recorded cluster")?;
    fs::write(tree.join(".git/info/exclude"), format!("/{SNAPSHOT}\n")).context("cannot ignore the recorded cluster")
}

/// Makes the deployed tree the first commit of a repository. Equal trees give the same commit.
pub fn commit_deployed(tree: &Path) -> Result<()> {
    git(tree, &["init", "-q", "-b", "main"])?;
    commit(tree, "Deploy the shop")
}

/// Commits all files of a tree.
pub fn commit(tree: &Path, message: &str) -> Result<()> {
    git(tree, &["add", "-A"])?;
    git(tree, &["commit", "-q", "-m", message])
}

/// Runs git with a fixed author and time, and without the configuration of the user.
fn git(tree: &Path, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("git");
    command.arg("-C").arg(tree).args(arguments).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "shop").env(format!("GIT_{role}_EMAIL"), "shop@example.invalid");
        command.env(format!("GIT_{role}_DATE"), "2026-01-05T09:00:00Z");
    }
    let output = command.output().context("cannot run git")?;
    let message = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "git {}: {}", arguments.join(" "), message.trim());
    Ok(())
}

/// Removes the manifests whose objects are leaked.
pub fn remove_leaked(tree: &Path) -> Result<()> {
    ["apps/web/banner-easter.yaml", "apps/web/vouchers.yaml"]
        .iter()
        .try_for_each(|file| fs::remove_file(tree.join(file)).with_context(|| format!("cannot remove {file}")))
}

/// Mistypes the path of `checkout`. The directory exists and has only a README.md, so Flux builds it.
pub fn mistype(tree: &Path) -> Result<()> {
    edit(tree, MISTYPED)
}

fn edit(tree: &Path, (before, after): (&str, &str)) -> Result<()> {
    let manifest = tree.join(MANIFEST);
    let text = fs::read_to_string(&manifest).with_context(|| format!("cannot read {}", manifest.display()))?;
    fs::write(&manifest, text.replace(before, after)).with_context(|| format!("cannot write {}", manifest.display()))
}
