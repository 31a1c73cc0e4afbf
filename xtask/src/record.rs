//! `cargo xtask record`: plays the demo's story on a real cluster and records it with the tool itself.
//!
//! The story: a shop deployed by Flux. Banners were once removed while pruning was off, so two objects are leaked, one
//! of them protected. Then somebody mistyped the path of `checkout`: the directory exists and holds no manifest, so Flux
//! prunes everything, and its namespace hangs on an object whose finalizer nobody serves. The cart is suspended
//! meanwhile.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::cluster::{Cluster, Flux, Options};
use crate::{demo, target_dir, tool, workspace_root};

const SOURCE: &str = "GitRepository/flux-system/shop";
const LIMIT: Duration = Duration::from_secs(90);
const ROOT: &str = "\
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: prod, namespace: flux-system}
spec: {interval: 10m, path: ./clusters/prod, prune: true, sourceRef: {kind: GitRepository, name: shop}}
";

/// Plays the story and writes the recording.
pub fn run() -> Result<()> {
    let program = tool::build(false)?;
    // Blocked applications look again every second, not every half minute.
    let flags = vec!["--requeue-dependency=1s".to_owned()];
    let cluster =
        Cluster::up(Options { flux: Flux::Kustomize, kustomize_controller_flags: flags, ..Options::default() })?;
    let tree = target_dir().join("record");
    let _ = fs::remove_dir_all(&tree);
    copy(&workspace_root().join("examples/shop"), &tree)?;
    cluster.publish(SOURCE, &tree)?;
    cluster.kubectl_stdin(&["apply", "-f", "-"], ROOT)?;
    for name in ["prod", "infrastructure", "web", "cart", "checkout"] {
        ready(&cluster, name)?;
    }
    leak(&cluster, &tree)?;
    mistype(&cluster, &tree)?;
    let gitops = |args: &[&str]| {
        let output = Command::new(&program).args(args).env("KUBECONFIG", cluster.kubeconfig()).output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { bail!("kubectl gitops {}: {said}", args.join(" ")) }
    };
    let message = "card payments are down, INC-2081; resume when the bank is back";
    gitops(&["suspend", "kustomization", "cart", "-n", "flux-system", "--spec", "--yes", "-m", message])?;
    let recording = workspace_root().join(demo::RECORDING);
    gitops(&["snapshot", recording.to_str().context("the path of the recording is no text")?])
}

/// Turns pruning off, removes two manifests, turns it on again: nobody will ever collect the two objects.
fn leak(cluster: &Cluster, tree: &Path) -> Result<()> {
    let manifest = tree.join("clusters/prod/web.yaml");
    let text = fs::read_to_string(&manifest)?;
    let publish = |text: &str| -> Result<()> {
        fs::write(&manifest, text)?;
        let revision = cluster.publish(SOURCE, tree)?;
        applied(cluster, "prod", &revision)?;
        applied(cluster, "web", &revision)
    };
    publish(&text.replace("prune: true", "prune: false"))?;
    fs::remove_file(tree.join("apps/web/banner-easter.yaml"))?;
    fs::remove_file(tree.join("apps/web/vouchers.yaml"))?;
    publish(&text.replace("prune: true", "prune: false"))?;
    publish(&text)
}

/// Merges the typo of the story and waits until the namespace hangs.
fn mistype(cluster: &Cluster, tree: &Path) -> Result<()> {
    let manifest = tree.join("clusters/prod/checkout.yaml");
    let text = fs::read_to_string(&manifest)?;
    fs::write(&manifest, text.replace("./apps/checkout", "./aps/checkout"))?;
    let revision = cluster.publish(SOURCE, tree)?;
    let hangs =
        || Ok(cluster.kubectl(&["get", "namespace", "checkout", "-o", "jsonpath={.status.phase}"])? == "Terminating");
    cluster.wait_for("namespace checkout to hang in Terminating", LIMIT, hangs)?;
    let emptied = || Ok(cluster.kubectl(&["get", "pods", "-n", "checkout", "-o", "name"])?.is_empty());
    cluster.wait_for("the Pods of checkout to go", LIMIT, emptied)?;
    ["prod", "infrastructure", "web", "cart", "checkout"].iter().try_for_each(|name| applied(cluster, name, &revision))
}

fn applied(cluster: &Cluster, name: &str, revision: &str) -> Result<()> {
    let args = ["get", "kustomization", name, "-n", "flux-system", "-o", "jsonpath={.status.lastAppliedRevision}"];
    cluster.wait_for(&format!("{name} at {revision}"), LIMIT, || Ok(cluster.kubectl(&args)? == revision))?;
    ready(cluster, name)
}

fn ready(cluster: &Cluster, name: &str) -> Result<()> {
    let path = "jsonpath={.metadata.generation} {.status.observedGeneration} {.status.conditions[?(@.type==\"Ready\")].status}";
    let args = ["get", "kustomization", name, "-n", "flux-system", "-o", path];
    let settled = || {
        let found = cluster.kubectl(&args)?;
        let words: Vec<&str> = found.split_whitespace().collect();
        Ok(words.len() == 3 && words[0] == words[1] && words[2] == "True")
    };
    cluster.wait_for(&format!("kustomization {name} to be ready"), LIMIT, settled)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() { copy(&entry.path(), &target)? } else { _ = fs::copy(entry.path(), target)? }
    }
    Ok(())
}
