//! `cargo xtask bench --kustomizations N`: measures get, suspend and resume of many Kustomizations.

use std::fmt::Write;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::cluster::{Cluster, Flux, Options};
use crate::controlplane::bin;
use crate::{answer, tool};

const ROUNDS: usize = 5;
/// Commands to measure. After the last one, the state is that before the first.
const STEPS: [&[&str]; 5] = [
    &["get", "-A"],
    &["get", "ks", "-A"],
    &["suspend", "ks", "--all", "-n", "default", "-m", "drill", "--yes"],
    &["suspend", "ks", "--all", "-n", "default", "-m", "drill", "--yes"],
    &["resume", "ks", "--all", "-n", "default", "--yes"],
];

/// Measures every command, and `kubectl get` for comparison.
pub(crate) fn run(count: usize) -> Result<()> {
    let program = tool::build(true)?;
    let cluster = Cluster::up(Options { flux: Flux::Crds, audit: true, ..Options::default() })?;
    cluster.kubectl_stdin(&["create", "-f", "-"], &manifests(count))?;
    let kubeconfig = cluster.kubeconfig();
    let mut times = vec![vec![]; STEPS.len() + 1];
    let mut requests = vec![0; STEPS.len()];
    for _ in 0..ROUNDS {
        for (at, step) in STEPS.iter().enumerate() {
            let before = cluster.requests_of("admin", "gitops")?.len();
            times[at].push(timed(Command::new(&program).args(*step).env("KUBECONFIG", &kubeconfig))?);
            requests[at] = cluster.requests_of("admin", "gitops")?.len() - before;
        }
        let mut kubectl = Command::new(bin("kubectl"));
        kubectl
            .args(["get", "ks", "-A"])
            .env("KUBECONFIG", &kubeconfig)
            .env("KUBECACHEDIR", cluster.dir().join("cache"));
        times[STEPS.len()].push(timed(&mut kubectl)?);
    }
    let titles = STEPS.iter().map(|step| step.join(" ")).chain(["(kubectl get ks -A)".to_owned()]);
    let counts = requests.iter().map(ToString::to_string).chain(["-".to_owned()]);
    answer(format!("{count} Kustomizations, {ROUNDS} rounds: min / median / max"));
    for ((title, requests), mut times) in titles.zip(counts).zip(times) {
        times.sort();
        let [min, median, max] = [times[0], times[ROUNDS / 2], times[ROUNDS - 1]];
        answer(format!("{title:60} {requests:>5} requests  {min:.2?} / {median:.2?} / {max:.2?}"));
    }
    Ok(())
}

fn manifests(count: usize) -> String {
    let mut text = String::new();
    for number in 0..count {
        write!(
            text,
            "---\napiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: ks-{number:04}, namespace: default}}\n\
             spec: {{interval: 10m, path: ./, prune: true, sourceRef: {{kind: GitRepository, name: shop}}}}\n"
        )
        .expect("writing to a String cannot fail");
    }
    text
}

fn timed(command: &mut Command) -> Result<Duration> {
    let start = Instant::now();
    let output = command.output().context("cannot run the measured command")?;
    let took = start.elapsed();
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(took)
}
