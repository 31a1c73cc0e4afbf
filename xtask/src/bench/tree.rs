//! `cargo xtask bench --tree`: measures the plan of a commit, compared with the kustomize runs that it needs.
//!
//! A repository of many applications, each with a Kustomization and a kustomization.yaml, is applied in a real cluster. A
//! commit removes one object from some of them. The baseline builds every directory of the new tree, and the changed
//! directories of the old tree.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;

use super::measure::{self, Contender};
use super::report;
use crate::cluster::{Cluster, Flux, Options};
use crate::controlplane::bin;
use crate::{answer, git, tool};

const APPLICATIONS: usize = 50;
/// Objects of one application, including its namespace.
const OBJECTS: usize = 40;
/// Applications that the commit changes.
const CHANGED: usize = 5;
const ROUNDS: usize = 7;

/// Measures the plan with an empty and with a filled build cache.
pub(crate) fn run() -> Result<()> {
    let program = tool::build(true)?;
    let cluster = Cluster::up(Options { flux: Flux::Kustomize, ..Options::default() })?;
    let (old, new) = (cluster.dir().join("bench/old"), cluster.dir().join("bench/new"));
    write(&old, OBJECTS)?;
    for words in [&["init", "-q", "-b", "main"][..], &["add", "-A"], &["commit", "-q", "-m", "all"]] {
        git::run(&old, words)?;
    }
    cluster.publish("GitRepository/flux-system/fleet", &old)?;
    cluster.kubectl_stdin(&["apply", "--server-side", "-f", "-"], &kustomization("root", "./root"))?;
    cluster.wait_for("all applications applied", Duration::from_secs(180), || {
        let path = "jsonpath={.items[*].status.conditions[?(@.type==\"Ready\")].status}";
        let ready = cluster.kubectl(&["get", "kustomizations", "-n", "flux-system", "-o", path])?;
        Ok(ready.split(' ').filter(|status| *status == "True").count() == APPLICATIONS + 1)
    })?;
    git::run(cluster.dir(), &["clone", "-q", "bench/old", "bench/new"])?;
    for number in 0..CHANGED {
        application(&new, number, OBJECTS - 1)?;
    }
    let load = report::load();
    let mut contenders = contenders(&cluster, &program, &old, &new);
    for contender in &contenders {
        contender.run_once()?;
    }
    for _ in 0..ROUNDS {
        contenders.iter_mut().try_for_each(Contender::run)?;
    }
    report_targets(&contenders, &load);
    Ok(())
}

fn contenders(cluster: &Cluster, program: &Path, old: &Path, new: &Path) -> Vec<Contender> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let all = (0..APPLICATIONS).map(|number| new.join(directory(number))).chain([new.join("root")]);
    let before = (0..CHANGED).map(|number| old.join(directory(number)));
    let directories: Vec<String> = all.chain(before).map(|directory| directory.display().to_string()).collect();
    let (kubeconfig, kubectl) = (cluster.kubeconfig(), bin("kubectl"));
    let caches = cluster.dir().join("bench/caches");
    let build = {
        let kubectl = kubectl.clone();
        move || {
            let run = format!("{} kustomize --load-restrictor LoadRestrictionsNone", kubectl.display());
            let script = format!("printf '%s\\n' {} | xargs -P {cores} -n 1 {run}", directories.join(" "));
            let mut command = Command::new("sh");
            command.args(["-c", &script]);
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

fn report_targets(contenders: &[Contender], load: &str) {
    answer(format!(
        "\n{APPLICATIONS} applications of {OBJECTS} objects, {CHANGED} changed; load {load} before and {} after",
        report::load()
    ));
    answer(measure::HEAD);
    contenders.iter().for_each(|contender| answer(contender.row()));
    let [build, inventory, plan, cached] = ['k', 'i', 'p', 'w'].map(|letter| {
        let found = contenders.iter().find(|contender| contender.letter == letter);
        found.map_or(Duration::ZERO, Contender::median).as_secs_f64()
    });
    let ratio = (plan - inventory) / build;
    answer(format!("\ntarget: (p - i) / k, planning in addition to the builds   at most 1.30   reached {ratio:.2}"));
    answer(format!("target: w, with a filled cache, in s                     below 0.50     reached {:.2}", cached));
}

fn directory(number: usize) -> String {
    format!("apps/app-{number:02}")
}

fn kustomization(name: &str, path: &str) -> String {
    format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: {name}, namespace: flux-system}}\n\
         spec: {{interval: 1h, retryInterval: 5s, path: {path}, prune: true, sourceRef: {{kind: GitRepository, name: fleet}}}}\n"
    )
}

fn write(tree: &Path, objects: usize) -> Result<()> {
    let root: Vec<String> = (0..APPLICATIONS)
        .map(|number| kustomization(&format!("app-{number:02}"), &format!("./{}", directory(number))))
        .collect();
    fs::create_dir_all(tree.join("root"))?;
    fs::write(tree.join("root/applications.yaml"), root.join("---\n"))?;
    fs::write(tree.join("root/kustomization.yaml"), "resources: [applications.yaml]\n")?;
    (0..APPLICATIONS).try_for_each(|number| application(tree, number, objects))
}

fn application(tree: &Path, number: usize, objects: usize) -> Result<()> {
    let (folder, name) = (tree.join(directory(number)), format!("app-{number:02}"));
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
