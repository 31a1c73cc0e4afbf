//! `cargo xtask bench --prune N`: measures how long `prune` takes for N leaked objects, one after another and eight at a
//! time.

use anyhow::{Result, ensure};
use chrono::{SecondsFormat, TimeDelta, Utc};
use serde_json::{Value, json};

use super::commit::kustomization;
use super::measure::{Contender, Line, Times};
use super::report;
use crate::cluster::{Cluster, Flux, Options};
use crate::tool;

const ROUNDS: usize = 5;
const NAMESPACE: &str = "flux-system";

/// Measures both in turn. Each run begins with new objects.
pub(crate) fn run(count: usize) -> Result<()> {
    let program = tool::build(true)?;
    let cluster = Cluster::up(Options { flux: Flux::Crds, ..Options::default() })?;
    cluster.kubectl_stdin(&["create", "-f", "-"], &kustomization("apps", "./"))?;
    let prune = Line::of(&program, &cluster).and(["prune", "-n", NAMESPACE, "--yes", "--max-percent=100"]);
    let prune = prune.and([format!("--max-delete={count}")]);
    let contenders = vec![
        Contender::new('s', "one after another", prune.clone().and(["--parallel=1"])),
        Contender::new('p', "--parallel 8", prune.and(["--parallel=8"])),
    ];
    let times = Times::measure_prepared(contenders, ROUNDS, || create(&cluster, count))?;
    ensure_deleted(&cluster)?;
    report::table(&format!("{count} ConfigMaps"), &times);
    let share = 200.0 / count as f64;
    let [alone, parallel] = ['s', 'p'].map(|name| times.median(name) * share);
    report::target("seconds of s for 200 objects", "at most 6.00", alone, alone <= 6.0);
    report::target("seconds of p for 200 objects", "at most 1.50", parallel, parallel <= 1.5);
    Ok(())
}

/// Creates the objects, of which none is left, and writes a status that does not list them.
fn create(cluster: &Cluster, count: usize) -> Result<()> {
    ensure_deleted(cluster)?;
    let apply = ["apply", "--server-side", "--field-manager=kustomize-controller", "-f", "-"];
    cluster.kubectl_stdin(&apply, &objects(count).to_string())?;
    let patch = ["patch", "kustomization/apps", "-n", NAMESPACE, "--subresource=status", "--type=merge", "-p"];
    cluster.kubectl(&[&patch[..], &[&status().to_string()]].concat()).map(drop)
}

fn ensure_deleted(cluster: &Cluster) -> Result<()> {
    let left = cluster.kubectl(&["get", "configmaps", "-n", NAMESPACE, "-o", "name"])?;
    ensure!(!left.contains("/config-"), "the last run did not delete all objects");
    Ok(())
}

/// Returns the status after a reconciliation that ended after the last object was created.
fn status() -> Value {
    let ended = (Utc::now() + TimeDelta::seconds(2)).to_rfc3339_opts(SecondsFormat::Secs, true);
    let entry = json!({"id": format!("{NAMESPACE}_stays__ConfigMap"), "v": "v1"});
    json!({"status": {"observedGeneration": 1, "inventory": {"entries": [entry]},
        "conditions": [{"type": "Ready", "status": "True", "reason": "ReconciliationSucceeded", "message": "",
            "observedGeneration": 1, "lastTransitionTime": ended}]}})
}

fn objects(count: usize) -> Value {
    let labels =
        json!({"kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": NAMESPACE});
    let names = (0..count).map(|number| format!("config-{number}")).chain(["stays".to_owned()]);
    let items = names.map(|name| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels}})
    });
    json!({"apiVersion": "v1", "kind": "List", "items": items.collect::<Vec<_>>()})
}
