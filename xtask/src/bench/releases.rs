//! `cargo xtask bench --releases N`: measures the plan of a commit that changes values of three HelmReleases, compared with
//! the builds and the renderings that it needs.
//!
//! helm-controller has installed N releases of one chart, which source-controller stores as an OCIRepository. The commit
//! lets an object vanish from three of them. The baseline runs `helm template` for these three as they are deployed and as
//! they will be, and builds both trees.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::measure::{self, Contender};
use super::report;
use crate::cluster::{Cluster, Flux, Options};
use crate::controlplane::bin;
use crate::{answer, git, tool};

/// Releases that the commit changes.
const CHANGED: usize = 3;
/// Objects of one release.
const OBJECTS: usize = 10;
const ROUNDS: usize = 7;

/// Measures the plan with an empty and with a filled build cache.
pub(crate) fn run(releases: usize) -> Result<()> {
    ensure!(releases >= CHANGED, "the commit changes {CHANGED} releases");
    let program = tool::build(true)?;
    let options = Options { flux: Flux::All, source_service: true, audit: true, ..Options::default() };
    let cluster = Cluster::up(options)?;
    let folder = cluster.dir().join("bench");
    let archive = chart(&folder)?;
    write(&folder.join("old"), releases, 0)?;
    for words in [&["init", "-q", "-b", "main"][..], &["add", "-A"], &["commit", "-q", "-m", "all"]] {
        git::run(folder.join("old"), words)?;
    }
    cluster.publish("GitRepository/flux-system/fleet", folder.join("old"))?;
    cluster.publish("OCIRepository/flux-system/app", &archive)?;
    cluster.kubectl_stdin(&["apply", "--server-side", "-f", "-"], ROOT)?;
    cluster.wait_for("all releases installed", Duration::from_secs(1800), || {
        let path = "jsonpath={.items[*].status.conditions[?(@.type==\"Ready\")].status}";
        let ready = cluster.kubectl(&["get", "helmreleases", "-n", "flux-system", "-o", path])?;
        Ok(ready.split(' ').filter(|status| *status == "True").count() == releases)
    })?;
    git::run(&folder, &["clone", "-q", "old", "new"])?;
    write(&folder.join("new"), releases, CHANGED)?;
    let load = report::load();
    let mut contenders = contenders(&cluster, &program, &folder);
    for contender in &contenders {
        contender.run_once()?;
    }
    for _ in 0..ROUNDS {
        contenders.iter_mut().try_for_each(Contender::run)?;
    }
    report(&contenders, &load, releases);
    for contender in contenders.iter().filter(|contender| "pw".contains(contender.letter)) {
        let before = cluster.requests_of("admin", "gitops-prune/")?.len();
        contender.run_once()?;
        let own = cluster.requests_of("admin", "gitops-prune/")?.split_off(before);
        let dry_runs = own.iter().filter(|request| request.uri.contains("dryRun")).count();
        answer(format!("{} sends {} requests, of which {dry_runs} are dry-runs", contender.letter, own.len()));
    }
    Ok(())
}

const ROOT: &str = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: root, namespace: flux-system}\n\
     spec: {interval: 1h, retryInterval: 5s, path: ./, prune: true, sourceRef: {kind: GitRepository, name: fleet}}\n";

/// Writes the chart, and returns its archive.
fn chart(folder: &Path) -> Result<std::path::PathBuf> {
    let templates = folder.join("app/templates");
    fs::create_dir_all(&templates)?;
    fs::write(folder.join("app/Chart.yaml"), "apiVersion: v2\nname: app\nversion: 1.0.0\n")?;
    fs::write(folder.join("app/values.yaml"), "extra: true\n")?;
    for number in 0..OBJECTS {
        let object = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: '{{{{ .Release.Name }}}}-{number}'}}\n\
             data: {{a: '{{{{ .Release.Namespace }}}}'}}\n"
        );
        let object =
            if number == 0 { format!("{{{{- if .Values.extra }}}}\n{object}{{{{- end }}}}\n") } else { object };
        fs::write(templates.join(format!("{number}.yaml")), object)?;
    }
    let archive = folder.join("app-1.0.0.tgz");
    let packed = Command::new("tar").arg("-C").arg(folder).arg("-czf").arg(&archive).arg("app").status();
    ensure!(packed.context("cannot run tar")?.success(), "tar failed");
    Ok(archive)
}

/// Writes the HelmReleases; the first `changed` have other values.
fn write(tree: &Path, releases: usize, changed: usize) -> Result<()> {
    fs::create_dir_all(tree)?;
    let release = |number: usize| {
        format!(
            "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: app-{number:03}, namespace: flux-system}}\n\
             spec: {{interval: 1h, chartRef: {{kind: OCIRepository, name: app}}, values: {{extra: {}}}}}\n",
            number >= changed
        )
    };
    let text: Vec<String> = (0..releases).map(release).collect();
    fs::write(tree.join("releases.yaml"), text.join("---\n"))?;
    fs::write(tree.join("kustomization.yaml"), "resources: [releases.yaml]\n")?;
    Ok(())
}

fn contenders(cluster: &Cluster, program: &Path, folder: &Path) -> Vec<Contender> {
    let (kubeconfig, kubectl, helm) = (cluster.kubeconfig(), bin("kubectl"), bin("helm"));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let alone = {
        let (kubectl, helm, folder) = (kubectl.display().to_string(), helm.display().to_string(), folder.to_path_buf());
        let render = |number: usize, extra: bool| {
            format!("{helm} template app-{number:03} app-1.0.0.tgz -n flux-system --set extra={extra}")
        };
        let mut lines: Vec<String> =
            (0..CHANGED).flat_map(|number| [render(number, true), render(number, false)]).collect();
        lines.extend(["old", "new"].map(|tree| format!("{kubectl} kustomize {tree}")));
        let script = format!("printf '%s\\n' \"$@\" | xargs -P {cores} -I LINE sh -c LINE");
        move || {
            let mut command = Command::new("sh");
            command.args(["-c", &script, "sh"]).args(&lines).current_dir(&folder);
            command
        }
    };
    let gitops = {
        let program = program.to_path_buf();
        move || {
            let mut command = Command::new(&program);
            command.arg("--kubeconfig").arg(&kubeconfig);
            command
        }
    };
    let source = format!("GitRepository/flux-system/fleet={}", folder.join("new").display());
    let caches = cluster.dir().join("bench/caches");
    let plan = {
        let gitops = gitops.clone();
        move |cache: &str| {
            let mut command = gitops();
            command.args(["prune", "--plan", "--source", &source, "--kustomize"]).arg(&kubectl);
            command.arg("--helm").arg(&helm).env("XDG_CACHE_HOME", caches.join(cache));
            command
        }
    };
    let (cold, warm, fresh) = (plan.clone(), plan, AtomicUsize::new(0));
    vec![
        Contender::new('h', "helm, kustomize", alone),
        Contender::new('i', "inventory", move || {
            let mut command = gitops();
            command.arg("inventory");
            command
        }),
        Contender::new('p', "plan, no cache", move || cold(&fresh.fetch_add(1, Ordering::Relaxed).to_string())),
        Contender::new('w', "plan, cached", move || warm("warm")),
    ]
}

fn report(contenders: &[Contender], load: &str, releases: usize) {
    answer(format!(
        "\n{releases} HelmReleases of {OBJECTS} objects, {CHANGED} changed; load {load} before and {} after",
        report::load()
    ));
    answer(measure::HEAD);
    contenders.iter().for_each(|contender| answer(contender.row()));
    let [alone, inventory, plan, cached] = ['h', 'i', 'p', 'w'].map(|letter| {
        let found = contenders.iter().find(|contender| contender.letter == letter);
        found.map_or(Duration::ZERO, Contender::median).as_secs_f64()
    });
    answer("");
    for (what, plan) in [("(p - i) / h, plan beside its programs", plan), ("(w - i) / h, with a filled cache", cached)]
    {
        report::target(what, "at most 1.30", (plan - inventory) / alone, |value| value <= 1.3);
    }
}
