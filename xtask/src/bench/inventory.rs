//! `cargo xtask bench`: measures how long it takes to read a whole cluster, compared with curl (the same lists) and with
//! `kubectl get` of all types.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::curl::{Curl, Transfer};
use super::measure::{Contender, Line, Times};
use super::number;
use super::report::{self, target};
use super::seed::SeededCluster;
use super::server::Traffic;
use crate::cluster::{self, Cluster, Flux};
use crate::controlplane::bin;
use crate::{Usage, answer, say, target_dir, text, tool};

/// Number of runs of `kubectl get`. It takes seconds and varies little.
const KUBECTL_RUNS: usize = 3;

/// Options of the command line.
pub(crate) struct Options {
    objects: usize,
    pairs: usize,
    keep: bool,
}

impl Options {
    /// Reads the words of the command line.
    pub(crate) fn parse(words: &[&str]) -> Result<Self, Usage> {
        let mut options = Self { objects: 13_000, pairs: 15, keep: false };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--objects" => options.objects = number(words.next().ok_or(Usage)?)?,
                "--pairs" => options.pairs = number(words.next().ok_or(Usage)?)?,
                "--keep" => options.keep = true,
                _ => return Err(Usage),
            }
        }
        Ok(options)
    }
}

/// Results at one size.
struct Stage {
    /// Number of created objects.
    objects: usize,
    times: Times,
    /// Peak memory of `d` in MiB.
    peak: f64,
    snapshot_bytes: u64,
}

/// From 100,000 objects on, a tenth of the size is measured too, to see how the time grows.
pub(crate) fn run(Options { objects, pairs, keep }: Options) -> Result<()> {
    let program = tool::build(true)?;
    let dir = keep.then(|| target_dir().join("bench-cluster"));
    let cluster = Cluster::up(cluster::Options { flux: Flux::Crds, dir, ..cluster::Options::default() })?;
    let mut seeded = SeededCluster::prepare(cluster)?;
    let sizes = if objects >= 100_000 { vec![objects / 10, objects] } else { vec![objects] };
    let mut stages = vec![];
    for size in sizes {
        seeded.fill(size)?;
        stages.push(measure(&seeded, &program, size, pairs)?);
    }
    report_targets(&stages);
    if keep {
        say(format!("the cluster keeps running; its kubeconfig is {}", seeded.cluster.kubeconfig().display()));
        seeded.cluster.keep_running();
    }
    Ok(())
}

fn measure(seeded: &SeededCluster, program: &Path, objects: usize, pairs: usize) -> Result<Stage> {
    let (cluster, curl) = (&seeded.cluster, &seeded.curl);
    let snapshot = cluster.dir().join("bench/snapshot.json.gz");
    let gitops = Line::of(program, cluster);
    let types = record(&gitops, &snapshot)?;
    let offline = Line::new(program).and(["get", "--all-namespaces", "--snapshot"]).and([&snapshot]);
    let contenders = vec![
        Contender::new('a', "curl, JSON", curl_lists(curl, "json", "application/json", &types)?),
        Contender::new('b', "curl, protobuf", curl_lists(curl, "pb", "application/vnd.kubernetes.protobuf", &types)?),
        Contender::new('c', "kubectl get", kubectl(cluster, &types)).at_most(KUBECTL_RUNS),
        Contender::new('d', "kubectl gitops", gitops.and(["inventory"])),
        Contender::new('e', "from a snapshot", offline),
    ];
    let times = Times::measure(contenders, pairs)?;
    let (head, rows) = times.rows();
    answer(times.title(&format!("{objects} objects, {} types; {}", types.len(), report::processors())));
    answer(format!("{head}   lists       bytes  peak MiB"));
    let mut stage = Stage { objects, times, peak: 0.0, snapshot_bytes: fs::metadata(&snapshot)?.len() };
    for (contender, row) in stage.times.contenders.iter().zip(rows) {
        let before = Traffic::read(cluster)?;
        let peak = contender.line.peak()?;
        let traffic = Traffic::read(cluster)?.since(before);
        answer(format!("{row} {:>7} {:>11} {peak:>9.1}", traffic.lists, traffic.bytes));
        if contender.letter == 'd' {
            stage.peak = peak;
        }
    }
    Ok(stage)
}

/// Records the cluster. Returns group, version and plural of the listed types.
fn record(gitops: &Line, snapshot: &Path) -> Result<Vec<[String; 3]>> {
    let plain = snapshot.with_extension("");
    for path in [snapshot, plain.as_path()] {
        gitops.clone().and(["snapshot".as_ref(), path]).run()?;
    }
    let recorded: Value = serde_json::from_slice(&fs::read(&plain)?).context("the snapshot is not JSON")?;
    let types = recorded["types"].as_array().context("the snapshot names no types")?;
    Ok(types.iter().map(|kind| ["/group", "/version", "/plural"].map(|key| text(kind, key).to_owned())).collect())
}

/// Returns curl with the same lists: metadata only, without pages, responses discarded.
fn curl_lists(curl: &Curl, name: &str, encoding: &str, types: &[[String; 3]]) -> Result<Line> {
    let lists = types.iter().map(|[group, version, plural]| {
        let root = if group.is_empty() { "/api".to_owned() } else { format!("/apis/{group}") };
        Transfer {
            method: "GET",
            path: format!("{root}/{version}/{plural}"),
            header: format!("Accept: {encoding};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
            body: String::new(),
        }
    });
    curl.line(&format!("list-{name}"), &lists.collect::<Vec<_>>())
}

/// Returns `kubectl get` of all types. The first run fills its discovery cache.
fn kubectl(cluster: &Cluster, types: &[[String; 3]]) -> Line {
    let names = types.iter().map(|[group, version, plural]| match group.as_str() {
        "" => plural.clone(),
        _ => format!("{plural}.{version}.{group}"),
    });
    let all = names.collect::<Vec<_>>().join(",");
    let line = Line::of(&bin("kubectl"), cluster).and(["get", &all, "--all-namespaces", "--output=name"]);
    line.with("KUBECACHEDIR", cluster.dir().join("cache")).with("KUBERC", "off")
}

/// Prints every target and its result.
fn report_targets(stages: &[Stage]) {
    let Some(Stage { objects, times, peak, snapshot_bytes }) = stages.last() else { return };
    let is_large = *objects >= 100_000;
    let ratio = |letter, to| times.median(letter) / times.median(to);
    answer("");
    report::at_most("time of d / a, the lists by curl in JSON", 1.0, ratio('d', 'a'));
    report::at_most("time of d / b, the lists by curl in protobuf", 2.5, ratio('d', 'b'));
    target("time of c / d, kubectl get of all types", "at least 8.00", ratio('c', 'd'), ratio('c', 'd') >= 8.0);
    let limit = if is_large { 200.0 } else { 64.0 };
    target("peak memory of d in MiB", &format!("below {limit} MiB"), *peak, *peak < limit);
    if !is_large {
        let (megabytes, milliseconds) = (*snapshot_bytes as f64 / 1e6, times.median('e') * 1e3);
        target("snapshot.json.gz in MB", "below 3", megabytes, megabytes < 3.0);
        target("get from a snapshot, whole process, in ms", "below 100", milliseconds, milliseconds < 100.0);
    }
    if let [first, .., last] = stages {
        let size = last.objects as f64 / first.objects as f64;
        let growth = last.times.median('d') / first.times.median('d');
        target(
            "growth of d from the first size to the last",
            &format!("linear, at most {size:.1}"),
            growth,
            growth <= size,
        );
    }
}
