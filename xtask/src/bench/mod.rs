//! `cargo xtask bench`: how long it takes to read a whole cluster, compared with the least that can be done (curl of the
//! same lists) and with what people do today (`kubectl get` of all types).
//!
//! No test: figures depend on the machine and on what else it does, so they are printed beside their targets and fail
//! nothing. Contenders run in turn, in rounds, so that a slow minute is slow for all of them; only medians are compared.

mod curl;
mod measure;
mod objects;
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
use self::seed::Field;
use crate::cluster::{Cluster, Flux, Options};
use crate::controlplane::bin;
use crate::{say, target_dir, tool};

/// What the whole cluster is read for.
const VERB: [&str; 1] = ["inventory"];

/// Runs of `kubectl get`: it takes seconds and does not vary much.
const KUBECTL_RUNS: usize = 3;

/// Finds the options; `None` when the words are none.
pub fn dispatch(words: &[&str]) -> Option<Result<()>> {
    let (mut objects, mut pairs, mut keep) = (13_000, 15, false);
    if let ["--kustomizations", count] = words {
        return Some(suspension::run(count.parse().ok()?));
    }
    if words == ["--tree"] {
        return Some(tree::run());
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

/// A run of ten times the usual size is measured at a tenth of it, too, to see how time grows.
fn run(objects: usize, pairs: usize, keep: bool) -> Result<()> {
    let program = tool::build(true)?;
    let dir = keep.then(|| target_dir().join("bench-cluster"));
    let cluster = Cluster::up(Options { flux: Flux::Crds, dir, ..Options::default() })?;
    let mut field = Field::prepare(cluster)?;
    let sizes = if objects >= 100_000 { vec![objects / 10, objects] } else { vec![objects] };
    let mut stages = vec![];
    for size in sizes {
        field.fill(size)?;
        let stage = measure(&field, &program, size, pairs)?;
        report::stage(&stage);
        stages.push(stage);
    }
    report::targets(&stages);
    if keep {
        say(format!("the cluster runs on; its kubeconfig is {}", field.cluster.kubeconfig().display()));
        field.cluster.keep_running();
    }
    Ok(())
}

fn measure(field: &Field, program: &Path, objects: usize, pairs: usize) -> Result<Stage> {
    let snapshot = field.cluster.dir().join("bench/snapshot.json.gz");
    let types = record(field, program, &snapshot)?;
    let mut racers = vec![
        yardstick('a', "curl, JSON", &field.curl, "application/json", &types)?,
        yardstick('b', "curl, protobuf", &field.curl, "application/vnd.kubernetes.protobuf", &types)?,
        ours(field, program),
    ];
    let mut reading = reading(program, &snapshot);
    let mut kubectl = kubectl(&field.cluster, &types);
    let load = report::load();
    // The first run of each fills the server's caches and the discovery cache of kubectl, and is not kept.
    for contender in racers.iter().chain([&reading, &kubectl]) {
        contender.run_once()?;
    }
    for round in 0..pairs {
        racers.rotate_left(round % 2);
        racers.iter_mut().try_for_each(Contender::run)?;
        reading.run()?;
    }
    for _ in 0..KUBECTL_RUNS {
        kubectl.run()?;
    }
    racers.extend([kubectl, reading]);
    racers.sort_by_key(|contender| contender.letter);
    let observed: Result<Vec<_>> = racers.iter().map(|contender| contender.observe(&field.cluster)).collect();
    Ok(Stage {
        objects,
        types: types.len(),
        snapshot_bytes: fs::metadata(&snapshot)?.len(),
        load: (load, report::load()),
        contenders: racers.into_iter().zip(observed?).collect(),
    })
}

/// Records the cluster, and gives the types that were listed for it: group, version, plural.
fn record(field: &Field, program: &Path, snapshot: &Path) -> Result<Vec<[String; 3]>> {
    let plain = snapshot.with_extension("");
    for path in [snapshot, plain.as_path()] {
        let output = gitops(field, program).arg("snapshot").arg(path).output().context("cannot record a snapshot")?;
        if !output.status.success() {
            bail!("the cluster cannot be recorded: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
    }
    let recorded: Value = serde_json::from_slice(&fs::read(&plain)?).context("the snapshot is not JSON")?;
    let types = recorded["types"].as_array().context("the snapshot names no types")?;
    let text = |kind: &Value, key: &str| kind[key].as_str().unwrap_or_default().to_owned();
    Ok(types.iter().map(|kind| ["group", "version", "plural"].map(|key| text(kind, key))).collect())
}

/// The same lists by curl: metadata only, whole, each object once, and thrown away.
fn yardstick(
    letter: char,
    title: &'static str,
    curl: &Curl,
    encoding: &str,
    types: &[[String; 3]],
) -> Result<Contender> {
    let list = |[group, version, plural]: &[String; 3]| Transfer {
        method: "GET",
        path: if group.is_empty() {
            format!("/api/{version}/{plural}")
        } else {
            format!("/apis/{group}/{version}/{plural}")
        },
        header: format!("Accept: {encoding};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
        body: String::new(),
    };
    let file = curl.write(&format!("list-{letter}"), &types.iter().map(list).collect::<Vec<_>>())?;
    Ok(Contender::new(letter, title, move || curl::command(&file)))
}

/// What people do today. Its discovery cache is warm after the first run.
fn kubectl(cluster: &Cluster, types: &[[String; 3]]) -> Contender {
    let name = |[group, version, plural]: &[String; 3]| match group.as_str() {
        "" => plural.clone(),
        _ => format!("{plural}.{version}.{group}"),
    };
    let all = types.iter().map(name).collect::<Vec<_>>().join(",");
    let (kubeconfig, cache) = (cluster.kubeconfig(), cluster.dir().join("cache"));
    Contender::new('c', "kubectl get", move || {
        let mut command = Command::new(bin("kubectl"));
        command.arg("--kubeconfig").arg(&kubeconfig).args(["get", &all, "--all-namespaces", "--output=name"]);
        command.env("KUBECACHEDIR", &cache).env("KUBERC", "off");
        command
    })
}

fn ours(field: &Field, program: &Path) -> Contender {
    let (program, kubeconfig) = (program.to_path_buf(), field.cluster.kubeconfig());
    Contender::new('d', "kubectl gitops", move || {
        let mut command = Command::new(&program);
        command.arg("--kubeconfig").arg(&kubeconfig).args(VERB);
        command
    })
}

/// Reads a recorded snapshot and shows what it holds of Flux, the least that can be asked of one: no server, only the file.
fn reading(program: &Path, snapshot: &Path) -> Contender {
    let (program, snapshot): (PathBuf, PathBuf) = (program.into(), snapshot.into());
    Contender::new('e', "from a snapshot", move || {
        let mut command = Command::new(&program);
        command.args(["get", "--all-namespaces", "--snapshot"]).arg(&snapshot);
        command
    })
}

fn gitops(field: &Field, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("--kubeconfig").arg(field.cluster.kubeconfig());
    command
}
