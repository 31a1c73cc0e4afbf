//! `cargo xtask record`: runs the story of the demo on a real cluster and records the cluster with `snapshot`.
//!
//! Flux deploys a shop. Two manifests of `web` are removed while pruning is off: both objects are leaked, and one of them
//! is protected. This is the first recording, for the plan of a branch that renames a Kustomization. The next commit
//! mistypes the path of `checkout`: the directory exists and has only a README.md, so Flux prunes everything. The namespace stays Terminating, because no controller
//! removes the finalizer of one object. `cart` is suspended. This is the second recording.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::cluster::{Cluster, Flux, Options};
use crate::files::copy_folder;
use crate::{child, demo, picture, target_dir, tool, workspace_root};

const KUSTOMIZATIONS: [&str; 5] = ["prod", "infrastructure", "web", "cart", "checkout"];
const SOURCE: &str = "GitRepository/flux-system/shop";
const LIMIT: Duration = Duration::from_secs(90);
/// Manifest of the Kustomization that applies the shop.
const ROOT: &str = "examples/shop-root.yaml";

/// Runs the story, and writes the recordings, the answer of the preview and its picture.
pub fn run() -> Result<()> {
    let program = tool::build(false)?;
    let cluster = Cluster::up(options(Flux::Kustomize))?;
    let tree = target_dir().join("record");
    deploy(&cluster, &tree)?;
    record(&program, &cluster, demo::BEFORE)?;
    mistype_path(&cluster, &tree)?;
    let message = "card payments are down, INC-2081; resume when the bank is back";
    gitops(
        &program,
        &cluster,
        &["suspend", "kustomization", "cart", "-n", "flux-system", "--spec", "--yes", "-m", message],
    )?;
    record(&program, &cluster, demo::RECORDING)?;
    picture::run()
}

/// Returns the options of a cluster for the story, with these parts of Flux.
pub fn options(flux: Flux) -> Options {
    // Kustomizations with unready dependencies retry every second instead of every 30 seconds.
    let flags = vec!["--requeue-dependency=1s".to_owned()];
    Options { flux, kustomize_controller_flags: flags, ..Options::default() }
}

/// Deploys the shop from `tree`, and leaves two leaked objects. The revision is the first commit of [`demo::checkout`].
pub fn deploy(cluster: &Cluster, tree: &Path) -> Result<()> {
    let _ = fs::remove_dir_all(tree);
    copy_folder(&workspace_root().join("examples/shop"), tree)?;
    cluster.publish(SOURCE, tree)?;
    cluster.kubectl_stdin(&["apply", "-f", "-"], &fs::read_to_string(workspace_root().join(ROOT))?)?;
    KUSTOMIZATIONS.iter().try_for_each(|name| cluster.wait_until_settled("flux-system", name, LIMIT))?;
    leak_objects(cluster, tree)
}

fn record(program: &Path, cluster: &Cluster, file: &str) -> Result<()> {
    let file = workspace_root().join(file);
    gitops(program, cluster, &["snapshot", file.to_str().context("the path of the recording is not UTF-8")?])
}

fn gitops(program: &Path, cluster: &Cluster, args: &[&str]) -> Result<()> {
    child::output(Command::new(program).args(args).env("KUBECONFIG", cluster.kubeconfig())).map(drop)
}

/// Turns pruning off, removes two manifests and turns pruning on again. Flux never prunes the two objects.
fn leak_objects(cluster: &Cluster, tree: &Path) -> Result<()> {
    let manifest = tree.join("clusters/prod/web.yaml");
    let text = fs::read_to_string(&manifest)?;
    let unpruned = text.replace("prune: true", "prune: false");
    fs::write(&manifest, unpruned)?;
    publish(cluster, tree)?;
    demo::remove_leaked(tree)?;
    publish(cluster, tree)?;
    fs::write(&manifest, text)?;
    demo::commit_deployed(tree)?;
    publish(cluster, tree)
}

/// Publishes the tree, and waits until every Kustomization has applied it.
fn publish(cluster: &Cluster, tree: &Path) -> Result<()> {
    let revision = cluster.publish(SOURCE, tree)?;
    KUSTOMIZATIONS.iter().try_for_each(|name| cluster.wait_until_applied("flux-system", name, &revision, LIMIT))
}

/// Publishes the mistyped path and waits until the namespace stays Terminating.
fn mistype_path(cluster: &Cluster, tree: &Path) -> Result<()> {
    demo::mistype(tree)?;
    demo::commit(tree, "Move checkout")?;
    let revision = cluster.publish(SOURCE, tree)?;
    cluster.wait_for("namespace checkout to be Terminating", LIMIT, || {
        Ok(cluster.kubectl(&["get", "namespace", "checkout", "-o", "jsonpath={.status.phase}"])? == "Terminating")
    })?;
    cluster.wait_for("the Pods of checkout to be deleted", LIMIT, || {
        Ok(cluster.kubectl(&["get", "pods", "-n", "checkout", "-o", "name"])?.is_empty())
    })?;
    KUSTOMIZATIONS.iter().try_for_each(|name| cluster.wait_until_applied("flux-system", name, &revision, LIMIT))
}
