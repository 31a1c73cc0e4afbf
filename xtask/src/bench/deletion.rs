//! `cargo xtask bench --prune N`: measures how long `prune` takes for N leaked objects, one after another and eight at a
//! time.

use std::process::Command;

use anyhow::{Result, ensure};
use chrono::{SecondsFormat, TimeDelta, Utc};
use serde_json::{Value, json};

use super::measure::{self, Contender};
use super::report;
use crate::cluster::{Cluster, Flux, Options};
use crate::{answer, tool};

const ROUNDS: usize = 5;
const NAMESPACE: &str = "shop";

/// Measures both in turn. Each run begins with new objects.
pub(crate) fn run(count: usize) -> Result<()> {
    let program = tool::build(true)?;
    let cluster = Cluster::up(Options { flux: Flux::Crds, ..Options::default() })?;
    cluster.kubectl(&["create", "namespace", NAMESPACE])?;
    cluster.kubectl_stdin(&["create", "-f", "-"], &owner().to_string())?;
    let patch = ["patch", "kustomization/apps", "-n", NAMESPACE, "--subresource=status", "--type=merge", "-p"];
    let limits = [format!("--max-delete={count}"), "--max-percent=100".to_owned()];
    let [one, eight] = ["1", "8"].map(|parallel| {
        let (program, kubeconfig, limits) = (program.clone(), cluster.kubeconfig(), limits.clone());
        move || {
            let mut command = Command::new(&program);
            command.arg("--kubeconfig").arg(&kubeconfig).args([
                "prune",
                "-n",
                NAMESPACE,
                "--yes",
                "--parallel",
                parallel,
            ]);
            command.args(&limits);
            command
        }
    });
    let mut contenders = [Contender::new('s', "one after another", one), Contender::new('p', "--parallel 8", eight)];
    let load = report::load();
    for _ in 0..ROUNDS {
        for contender in &mut contenders {
            let apply = ["apply", "--server-side", "--field-manager=kustomize-controller", "-f", "-"];
            cluster.kubectl_stdin(&apply, &objects(count).to_string())?;
            cluster.kubectl(&[&patch[..], &[&status().to_string()]].concat())?;
            contender.run()?;
            let left = cluster.kubectl(&["get", "configmaps", "-n", NAMESPACE, "-o", "name"])?;
            ensure!(!left.contains("/config-"), "{} did not delete all objects", contender.title);
        }
    }
    answer(format!("\n{count} ConfigMaps; load {load} before and {} after", report::load()));
    answer(measure::HEAD);
    contenders.iter().for_each(|contender| answer(contender.row()));
    let [alone, parallel] = contenders.map(|contender| contender.median().as_secs_f64());
    let share = 200.0 / count as f64;
    answer("");
    report::target("seconds of s for 200 objects", "at most 6.00", alone * share, |value| value <= 6.0);
    report::target("seconds of p for 200 objects", "at most 1.50", parallel * share, |value| value <= 1.5);
    Ok(())
}

fn owner() -> Value {
    json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": "apps", "namespace": NAMESPACE},
        "spec": {"interval": "1h", "prune": true, "path": "./", "sourceRef": {"kind": "GitRepository", "name": "fleet"}}})
}

/// Returns the status after a reconciliation that ended after the last object was created, and does not list them.
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
