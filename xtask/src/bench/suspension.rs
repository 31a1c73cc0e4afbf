//! `cargo xtask bench --kustomizations N`: measures get, suspend and resume of many Kustomizations.

use anyhow::Result;

use super::commit::kustomization;
use super::measure::{Contender, Line, Times};
use super::report;
use crate::cluster::{Cluster, Flux, Options};
use crate::controlplane::bin;
use crate::{answer, tool};

const ROUNDS: usize = 5;
/// Commands to measure. After the last one, the state is that before the first.
const STEPS: [&str; 5] = [
    "get -A",
    "get ks -A",
    "suspend ks --all -n flux-system -m drill --yes",
    "suspend ks --all -n flux-system -m drill --yes",
    "resume ks --all -n flux-system --yes",
];

/// Measures every command, and `kubectl get` for comparison.
pub(crate) fn run(count: usize) -> Result<()> {
    let program = tool::build(true)?;
    let cluster = Cluster::up(Options { flux: Flux::Crds, audit: true, ..Options::default() })?;
    let manifests: Vec<String> = (0..count).map(|number| kustomization(&format!("ks-{number:04}"), "./")).collect();
    cluster.kubectl_stdin(&["create", "-f", "-"], &manifests.join("---\n"))?;
    let steps = STEPS
        .iter()
        .zip('a'..)
        .map(|(step, letter)| Contender::new(letter, *step, Line::of(&program, &cluster).and(step.split(' '))));
    let kubectl = Line::of(&bin("kubectl"), &cluster).and(["get", "ks", "-A"]);
    let kubectl = kubectl.with("KUBECACHEDIR", cluster.dir().join("cache"));
    let contenders = steps.chain([Contender::new('k', "(kubectl get ks -A)", kubectl)]).collect();
    let times = Times::measure(contenders, ROUNDS)?;
    report::table(&format!("{count} Kustomizations"), &times);
    for contender in times.contenders.iter().take(STEPS.len()) {
        let before = cluster.requests_of("admin", "gitops")?.len();
        contender.line.run()?;
        let requests = cluster.requests_of("admin", "gitops")?.len() - before;
        answer(format!("{} sends {requests} requests", contender.letter));
    }
    Ok(())
}
