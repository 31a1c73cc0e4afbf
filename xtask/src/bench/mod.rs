//! `cargo xtask bench`: measures how long it takes to read a whole cluster, compared with curl (the same lists) and with
//! `kubectl get` of all types.
//!
//! It is not a test: the times depend on the machine and are only printed beside their targets. The programs run in turn,
//! so that a slow minute affects all of them; medians are compared.

mod curl;
mod deletion;
mod measure;
mod objects;
mod releases;
mod report;
mod seed;
mod server;
mod suspension;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use self::curl::{Curl, Transfer};
use self::measure::Contender;
use self::report::Stage;
use self::seed::SeededCluster;
use crate::cluster::{Cluster, Flux, Options};
use crate::controlplane::bin;
use crate::{say, target_dir, text, tool};

/// Command that reads the whole cluster.
const VERB: [&str; 1] = ["inventory"];

/// Number of runs of `kubectl get`. It takes seconds and varies little.
const KUBECTL_RUNS: usize = 3;

/// Runs the benchmark that the options name. Returns `None` for unknown options.
pub fn dispatch(words: &[&str]) -> Option<Result<()>> {
    let (mut objects, mut pairs, mut keep) = (13_000, 15, false);
    if let ["--kustomizations", count] = words {
        return Some(suspension::run(count.parse().ok()?));
    }
    if let ["--releases", count] = words {
        return Some(releases::run(count.parse().ok()?));
    }
    if let ["--prune", count] = words {
        return Some(deletion::run(count.parse().ok()?));
    }
    if let ["--tree", rest @ ..] = words {
        return match rest {
            [] => Some(tree::run(tree::Size::USUAL)),
            ["--kustomizations", count] => Some(tree::run(tree::Size::fleet(count.parse().ok()?))),
            _ => None,
        };
    }
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--objects" => objects = words.next()?.parse().ok()?,
            "--pairs" => pairs = words.next()?.parse().ok()?,
            "--keep" => keep = true,
            _ => return None,
        }
    }
    Some(run(objects, pairs, keep))
}

/// From 100,000 objects on, a tenth of the size is measured too, to see how the time grows.
fn run(objects: usize, pairs: usize, keep: bool) -> Result<()> {
    let program = tool::build(true)?;
    let dir = keep.then(|| target_dir().join("bench-cluster"));
    let cluster = Cluster::up(Options { flux: Flux::Crds, dir, ..Options::default() })?;
    let mut seeded = SeededCluster::prepare(cluster)?;
    let sizes = if objects >= 100_000 { vec![objects / 10, objects] } else { vec![objects] };
    let mut stages = vec![];
    for size in sizes {
        seeded.fill(size)?;
        let stage = measure(&seeded, &program, size, pairs)?;
        report::stage(&stage);
        stages.push(stage);
    }
    report::targets(&stages);
    if keep {
        say(format!("the cluster keeps running; its kubeconfig is {}", seeded.cluster.kubeconfig().display()));
        seeded.cluster.keep_running();
    }
    Ok(())
}

fn measure(seeded: &SeededCluster, program: &Path, objects: usize, pairs: usize) -> Result<Stage> {
    let snapshot = seeded.cluster.dir().join("bench/snapshot.json.gz");
    let types = record(seeded, program, &snapshot)?;
    let mut contenders = vec![
        curl_lists('a', "curl, JSON", &seeded.curl, "application/json", &types)?,
        curl_lists('b', "curl, protobuf", &seeded.curl, "application/vnd.kubernetes.protobuf", &types)?,
        inventory(seeded, program),
    ];
    let mut from_snapshot = from_snapshot(program, &snapshot);
    let mut kubectl = kubectl(&seeded.cluster, &types);
    let load = report::load();
    // The first run of each program fills the caches of the server and of kubectl, and is not counted.
    for contender in contenders.iter().chain([&from_snapshot, &kubectl]) {
        contender.run_once()?;
    }
    for round in 0..pairs {
        contenders.rotate_left(round % 2);
        contenders.iter_mut().try_for_each(Contender::run)?;
        from_snapshot.run()?;
    }
    for _ in 0..KUBECTL_RUNS {
        kubectl.run()?;
    }
    contenders.extend([kubectl, from_snapshot]);
    contenders.sort_by_key(|contender| contender.letter);
    let observed: Result<Vec<_>> = contenders.iter().map(|contender| contender.observe(&seeded.cluster)).collect();
    Ok(Stage {
        objects,
        types: types.len(),
        snapshot_bytes: fs::metadata(&snapshot)?.len(),
        load: (load, report::load()),
        contenders: contenders.into_iter().zip(observed?).collect(),
    })
}

/// Records the cluster. Returns group, version and plural of the listed types.
fn record(seeded: &SeededCluster, program: &Path, snapshot: &Path) -> Result<Vec<[String; 3]>> {
    let plain = snapshot.with_extension("");
    for path in [snapshot, plain.as_path()] {
        let output = gitops(seeded, program).arg("snapshot").arg(path).output().context("cannot record a snapshot")?;
        if !output.status.success() {
            bail!("the cluster cannot be recorded: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
    }
    let recorded: Value = serde_json::from_slice(&fs::read(&plain)?).context("the snapshot is not JSON")?;
    let types = recorded["types"].as_array().context("the snapshot names no types")?;
    Ok(types.iter().map(|kind| ["/group", "/version", "/plural"].map(|key| text(kind, key).to_owned())).collect())
}

/// Returns curl with the same lists: metadata only, without pages, responses discarded.
fn curl_lists(
    letter: char,
    title: &'static str,
    curl: &Curl,
    encoding: &str,
    types: &[[String; 3]],
) -> Result<Contender> {
    let mut lists = vec![];
    for [group, version, plural] in types {
        let root = if group.is_empty() { "/api".to_owned() } else { format!("/apis/{group}") };
        lists.push(Transfer {
            method: "GET",
            path: format!("{root}/{version}/{plural}"),
            header: format!("Accept: {encoding};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
            body: String::new(),
        });
    }
    let file = curl.write(&format!("list-{letter}"), &lists)?;
    Ok(Contender::new(letter, title, move || curl::command(&file)))
}

/// Returns `kubectl get` of all types. The first run fills its discovery cache.
fn kubectl(cluster: &Cluster, types: &[[String; 3]]) -> Contender {
    let names = types.iter().map(|[group, version, plural]| match group.as_str() {
        "" => plural.clone(),
        _ => format!("{plural}.{version}.{group}"),
    });
    let all = names.collect::<Vec<_>>().join(",");
    let (kubeconfig, cache) = (cluster.kubeconfig(), cluster.dir().join("cache"));
    Contender::new('c', "kubectl get", move || {
        let mut command = Command::new(bin("kubectl"));
        command.arg("--kubeconfig").arg(&kubeconfig).args(["get", &all, "--all-namespaces", "--output=name"]);
        command.env("KUBECACHEDIR", &cache).env("KUBERC", "off");
        command
    })
}

fn inventory(seeded: &SeededCluster, program: &Path) -> Contender {
    let (program, kubeconfig) = (program.to_path_buf(), seeded.cluster.kubeconfig());
    Contender::new('d', "kubectl gitops", move || {
        let mut command = Command::new(&program);
        command.arg("--kubeconfig").arg(&kubeconfig).args(VERB);
        command
    })
}

/// Returns `get` on a recorded snapshot, without a server.
fn from_snapshot(program: &Path, snapshot: &Path) -> Contender {
    let (program, snapshot): (PathBuf, PathBuf) = (program.into(), snapshot.into());
    Contender::new('e', "from a snapshot", move || {
        let mut command = Command::new(&program);
        command.args(["get", "--all-namespaces", "--snapshot"]).arg(&snapshot);
        command
    })
}

fn gitops(seeded: &SeededCluster, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("--kubeconfig").arg(seeded.cluster.kubeconfig());
    command
}
