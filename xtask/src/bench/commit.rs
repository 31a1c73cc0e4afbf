//! The plan of a commit, compared with the programs that it runs: `bench --tree` and `bench --releases`.
//!
//! A repository is applied in a real cluster, and a commit changes it. The plan is measured with an empty and with a filled
//! build cache.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::measure::{Contender, Line, Times};
use super::report;
use crate::cluster::audit::Request;
use crate::cluster::{Cluster, Options};
use crate::controlplane::bin;
use crate::{answer, git, tool};

/// A cluster that has applied a repository.
pub(crate) struct Commit {
    pub cluster: Cluster,
    program: PathBuf,
    /// Checkout of the applied revision.
    pub old: PathBuf,
    /// Checkout with the change.
    pub new: PathBuf,
}

impl Commit {
    /// Starts the cluster, with an empty repository.
    pub(crate) fn new(options: Options) -> Result<Self> {
        let program = tool::build(true)?;
        let cluster = Cluster::up(Options { audit: true, ..options })?;
        let [old, new] = ["old", "new"].map(|name| cluster.dir().join("bench").join(name));
        std::fs::create_dir_all(&old).with_context(|| format!("cannot create {}", old.display()))?;
        Ok(Self { cluster, program, old, new })
    }

    /// Applies the repository by a Kustomization of this path, and waits until so many objects of a type are ready. Then it
    /// copies the repository for the change.
    pub(crate) fn apply(&self, path: &str, plural: &str, count: usize) -> Result<()> {
        for words in [&["init", "-q", "-b", "main"][..], &["add", "-A"], &["commit", "-q", "-m", "all"]] {
            git::run(&self.old, words)?;
        }
        self.cluster.publish("GitRepository/flux-system/fleet", &self.old)?;
        self.cluster.kubectl_stdin(&["apply", "--server-side", "-f", "-"], &kustomization("root", path))?;
        self.cluster.wait_for(&format!("{count} {plural} ready"), Duration::from_secs(1800), || {
            let path = "jsonpath={.items[*].status.conditions[?(@.type==\"Ready\")].status}";
            let ready = self.cluster.kubectl(&["get", plural, "-n", "flux-system", "-o", path])?;
            Ok(ready.split(' ').filter(|status| *status == "True").count() == count)
        })?;
        git::run(self.cluster.dir(), &["clone", "-q", "bench/old", "bench/new"]).map(drop)
    }

    /// Measures the plan beside `alone`, the programs that it needs, run by themselves. `flags` are those of the plan.
    pub(crate) fn measure(&self, alone: Contender, flags: &[String], rounds: usize) -> Result<Times> {
        let gitops = Line::of(&self.program, &self.cluster);
        let source = format!("--source=GitRepository/flux-system/fleet={}", self.new.display());
        let plan = gitops.clone().and(["prune", "--plan", &source]).and(flags);
        let (plan, caches) =
            (plan.and(["--kustomize".into(), bin("kubectl")]), self.cluster.dir().join("bench/caches"));
        let cached = plan.clone().with("XDG_CACHE_HOME", caches.join("warm"));
        let contenders = vec![
            alone,
            Contender::new('i', "inventory", gitops.and(["inventory"])),
            Contender::new('p', "plan, no cache", plan.cold(caches)),
            Contender::new('w', "plan, cached", cached.clone()),
            Contender::new('d', "the same, --diff", cached.and(["--diff"])),
        ];
        Times::measure(contenders, rounds)
    }

    /// Prints the peak memory of the plans, and what they ask the API server.
    pub(crate) fn report_peaks_and_requests(&self, times: &Times) -> Result<()> {
        for contender in times.contenders.iter().filter(|contender| "pwd".contains(contender.letter)) {
            let before = self.requests()?.len();
            let peak = contender.line.peak()?;
            let own = self.requests()?.split_off(before);
            // The dry-run of a DELETE is in its body, and a plan deletes nothing.
            let is_dry_run = |request: &&Request| request.uri.contains("dryRun") || request.verb == "delete";
            let dry_runs = own.iter().filter(is_dry_run).count();
            report::at_most(&format!("peak memory of {} in MiB", contender.letter), 300.0, peak);
            answer(format!("{} sends {} requests, of which {dry_runs} are dry-runs", contender.letter, own.len()));
        }
        Ok(())
    }

    fn requests(&self) -> Result<Vec<Request>> {
        self.cluster.requests_of("admin", "gitops-prune/")
    }
}

/// Returns a program that runs shell commands, one on each core.
pub(crate) fn in_parallel(commands: &[String], folder: &Path) -> Line {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let script = format!("printf '%s\\n' \"$@\" | xargs -P {cores} -I LINE sh -c LINE");
    Line::new("sh").and(["-c", &script, "sh"]).and(commands).inside(folder)
}

/// Returns a Kustomization of the repository.
pub(crate) fn kustomization(name: &str, path: &str) -> String {
    format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: {name}, namespace: flux-system}}\n\
         spec: {{interval: 1h, retryInterval: 5s, path: {path}, prune: true, sourceRef: {{kind: GitRepository, name: fleet}}}}\n"
    )
}
