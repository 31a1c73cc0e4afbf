//! `cargo xtask bench --tree`: measures the plan of a commit, compared with the kustomize runs that it needs.
//!
//! A repository of many applications, each with a Kustomization and a kustomization.yaml, is applied in a real cluster. One
//! parent applies all Kustomizations. In some applications, a commit removes one object and changes another. The baseline builds every
//! directory of the new tree, and the changed directories of the old tree.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;

use super::measure::{self, Contender};
use super::report;
use crate::cluster::audit::Request;
use crate::cluster::{Cluster, Flux, Options};
use crate::controlplane::bin;
use crate::{answer, git, tool};

/// Applications that the commit changes.
const CHANGED: usize = 5;

/// Size of the repository.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub applications: usize,
    /// Objects of one application, including its namespace.
    pub objects: usize,
    rounds: usize,
    /// Maximum median of the plan with a filled cache, in seconds.
    target: f64,
}

impl Size {
    /// 2,000 objects.
    pub(crate) const USUAL: Self = Self { applications: 50, objects: 40, rounds: 7, target: 0.5 };

    /// Returns the size of a fleet with this number of Kustomizations.
    pub(crate) fn fleet(applications: usize) -> Self {
        Self { applications, objects: 20, rounds: 3, target: 1.0 }
    }
}

/// Measures the plan with an empty and with a filled build cache.
pub(crate) fn run(size: Size) -> Result<()> {
    let program = tool::build(true)?;
    let cluster = Cluster::up(Options { flux: Flux::Kustomize, audit: true, ..Options::default() })?;
    let (old, new) = (cluster.dir().join("bench/old"), cluster.dir().join("bench/new"));
    write(&old, size)?;
    for words in [&["init", "-q", "-b", "main"][..], &["add", "-A"], &["commit", "-q", "-m", "all"]] {
        git::run(&old, words)?;
    }
    cluster.publish("GitRepository/flux-system/fleet", &old)?;
    cluster.kubectl_stdin(&["apply", "--server-side", "-f", "-"], &kustomization("root", "./root"))?;
    cluster.wait_for("all applications applied", Duration::from_secs(1800), || {
        let path = "jsonpath={.items[*].status.conditions[?(@.type==\"Ready\")].status}";
        let ready = cluster.kubectl(&["get", "kustomizations", "-n", "flux-system", "-o", path])?;
        Ok(ready.split(' ').filter(|status| *status == "True").count() == size.applications + 1)
    })?;
    git::run(cluster.dir(), &["clone", "-q", "bench/old", "bench/new"])?;
    (0..CHANGED).try_for_each(|number| change(&new, number, size))?;
    let load = report::load();
    let mut contenders = contenders(&cluster, &program, [&old, &new], size);
    for contender in &contenders {
        contender.run_once()?;
    }
    for _ in 0..size.rounds {
        contenders.iter_mut().try_for_each(Contender::run)?;
    }
    report_targets(&contenders, &load, size);
    report_peaks_and_requests(&contenders, &cluster)
}

fn contenders(cluster: &Cluster, program: &Path, [old, new]: [&Path; 2], size: Size) -> Vec<Contender> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let all = (0..size.applications).map(|number| new.join(directory(number))).chain([new.join("root")]);
    let before = (0..CHANGED).map(|number| old.join(directory(number)));
    let directories: Vec<String> = all.chain(before).map(|directory| directory.display().to_string()).collect();
    let (kubeconfig, kubectl) = (cluster.kubeconfig(), bin("kubectl"));
    let caches = cluster.dir().join("bench/caches");
    let build = {
        let kubectl = kubectl.clone();
        move || {
            let run = format!("{} kustomize --load-restrictor LoadRestrictionsNone", kubectl.display());
            let script = format!("printf '%s\\n' \"$@\" | xargs -P {cores} -n 1 {run}");
            let mut command = Command::new("sh");
            command.args(["-c", &script, "sh"]).args(&directories);
            command
        }
    };
    let gitops = {
        let (program, kubeconfig) = (program.to_path_buf(), kubeconfig.clone());
        move || {
            let mut command = Command::new(&program);
            command.arg("--kubeconfig").arg(&kubeconfig);
            command
        }
    };
    let source = format!("GitRepository/flux-system/fleet={}", new.display());
    let plan = {
        let gitops = gitops.clone();
        move |cache: PathBuf| {
            let mut command = gitops();
            command.args(["prune", "--plan", "--source", &source, "--kustomize"]).arg(&kubectl);
            command.env("XDG_CACHE_HOME", cache);
            command
        }
    };
    let (cold, warm, diff) = (plan.clone(), plan.clone(), plan);
    let fresh = AtomicUsize::new(0);
    let (cold_caches, caches_of_diff) = (caches.clone(), caches.clone());
    vec![
        Contender::new('k', "kustomize alone", build),
        Contender::new('i', "inventory", move || {
            let mut command = gitops();
            command.arg("inventory");
            command
        }),
        Contender::new('p', "plan, no cache", move || {
            cold(cold_caches.join(fresh.fetch_add(1, Ordering::Relaxed).to_string()))
        }),
        Contender::new('w', "plan, cached", move || warm(caches.join("warm"))),
        Contender::new('d', "the same, --diff", move || {
            let mut command = diff(caches_of_diff.join("warm"));
            command.arg("--diff");
            command
        }),
    ]
}

fn report_targets(contenders: &[Contender], load: &str, size: Size) {
    let Size { applications, objects, target, .. } = size;
    answer(format!(
        "\n{applications} applications of {objects} objects, {CHANGED} changed; load {load} before and {} after",
        report::load()
    ));
    answer(measure::HEAD);
    contenders.iter().for_each(|contender| answer(contender.row()));
    let [build, inventory, plan, cached] = ['k', 'i', 'p', 'w'].map(|letter| {
        let found = contenders.iter().find(|contender| contender.letter == letter);
        found.map_or(Duration::ZERO, Contender::median).as_secs_f64()
    });
    let ratio = (plan - inventory) / build;
    answer("");
    report::target("(p - i) / k, plan beside its builds", "at most 1.30", ratio, |value| value <= 1.3);
    report::target("w, with a filled cache, in s", &format!("at most {target:.2}"), cached, |value| value <= target);
}

/// Prints the peak memory of the plans, and what they ask the API server.
fn report_peaks_and_requests(contenders: &[Contender], cluster: &Cluster) -> Result<()> {
    let requests = || cluster.requests_of("admin", "gitops-prune/");
    for contender in contenders.iter().filter(|contender| "pwd".contains(contender.letter)) {
        let before = requests()?.len();
        let (peak, _) = contender.observe(cluster)?;
        let own = requests()?.split_off(before);
        // The dry-run of a DELETE is in its body, and a plan deletes nothing.
        let is_dry_run = |request: &&Request| request.uri.contains("dryRun") || request.verb == "delete";
        let dry_runs = own.iter().filter(is_dry_run).count();
        let peak = peak as f64 / 1024.0;
        report::target(&format!("peak memory of {} in MiB", contender.letter), "at most 300", peak, |value| {
            value <= 300.0
        });
        answer(format!("{} sends {} requests, of which {dry_runs} are dry-runs", contender.letter, own.len()));
    }
    Ok(())
}

fn directory(number: usize) -> String {
    format!("apps/app-{number:03}")
}

fn kustomization(name: &str, path: &str) -> String {
    format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: {name}, namespace: flux-system}}\n\
         spec: {{interval: 1h, retryInterval: 5s, path: {path}, prune: true, sourceRef: {{kind: GitRepository, name: fleet}}}}\n"
    )
}

fn write(tree: &Path, size: Size) -> Result<()> {
    let root: Vec<String> = (0..size.applications)
        .map(|number| kustomization(&format!("app-{number:03}"), &format!("./{}", directory(number))))
        .collect();
    fs::create_dir_all(tree.join("root"))?;
    fs::write(tree.join("root/applications.yaml"), root.join("---\n"))?;
    fs::write(tree.join("root/kustomization.yaml"), "resources: [applications.yaml]\n")?;
    (0..size.applications).try_for_each(|number| application(tree, number, size.objects))
}

/// Removes the last object of an application, and changes a value of the first ConfigMap.
fn change(tree: &Path, number: usize, size: Size) -> Result<()> {
    application(tree, number, size.objects - 1)?;
    let file = tree.join(directory(number)).join("objects.yaml");
    let text = fs::read_to_string(&file)?;
    fs::write(&file, text.replacen("number: \"1\"", "number: \"changed\"", 1))?;
    Ok(())
}

fn application(tree: &Path, number: usize, objects: usize) -> Result<()> {
    let (folder, name) = (tree.join(directory(number)), format!("app-{number:03}"));
    fs::create_dir_all(&folder)?;
    let namespace = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n");
    let objects = (1..objects).map(|object| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: config-{object:02}, namespace: {name}, labels: {{app: {name}}}}}\n\
             data: {{url: \"https://{name}.example.com\", number: \"{object}\"}}\n"
        )
    });
    let text: Vec<String> = std::iter::once(namespace).chain(objects).collect();
    fs::write(folder.join("objects.yaml"), text.join("---\n"))?;
    let overlay = format!("resources: [objects.yaml]\ncommonAnnotations: {{team: {name}}}\n");
    fs::write(folder.join("kustomization.yaml"), overlay)?;
    Ok(())
}
