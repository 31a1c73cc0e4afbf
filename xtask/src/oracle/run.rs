//! Runs one scenario on the real control plane.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::PINNED;
use super::agent;
use super::check::{self, Compared, Contents, Race, Uids};
use super::idle::{self, ON_REQUEST, progress};
use super::manifest::{self, File, Files};
use super::peers::{self, Answer, Peer, Question, Score};
use super::reader::Reader;
use super::scenarios::{Checkout, Scenario};
use crate::cluster::{self, Cluster};
use crate::controlplane::bin;
use crate::{child, git, items, text};

/// Time limit for a plan, on a machine that runs many scenarios at the same time.
pub(super) const PLAN_LIMIT: Duration = Duration::from_secs(240);

/// First word of a live command after which no HelmRelease is asked to reconcile.
const UNSEEN: &str = "unseen ";

/// Result of one run of a scenario.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// Differences between the plan and the controller.
    pub mismatches: Vec<String>,
    /// Those of them where a certain deletion does not happen, or one happens that the plan does not announce.
    pub dangerous: Vec<String>,
    /// Kustomizations with a last build that the plan reproduced exactly.
    pub verified: usize,
    /// Number of rows of the plan for objects of the scenario.
    pub rows: usize,
    /// Rows that are races, by object. `@` is the prefix of the scenario.
    pub races: BTreeMap<String, Race>,
    /// Predicted states that give a revert the same plan as the real state: 0 or 1.
    pub states: usize,
    /// The answer of `mcp` is the plan of the command line; `None` if it was not asked.
    pub agent: Option<bool>,
    /// The plan says that it is incomplete: what it does not know, by the message of the gap.
    pub gaps: Vec<String>,
    /// With mismatches: status and inventory of each Kustomization.
    pub evidence: Vec<String>,
    /// Scores of the plan and of the other programs, if they are asked.
    pub scores: BTreeMap<&'static str, Score>,
}

/// The program that plans.
#[derive(Clone, Debug)]
pub struct Program {
    /// Path of kubectl-gitops.
    pub path: PathBuf,
    /// Version of kustomize-controller that it is told.
    pub controller_version: String,
    /// Other programs that are asked about the same edit.
    pub peers: Vec<Peer>,
    /// Compares the plan of a revert on the predicted state with the one on the real state.
    pub reverts: bool,
    /// Compares the answer of `mcp` with the plan of the command line.
    pub asks_agent: bool,
}

/// Runs one scenario in its own namespaces.
pub(super) fn scenario(
    cluster: &Cluster,
    reader: &Reader,
    program: &Program,
    scenario: &Scenario,
    number: usize,
) -> Result<Comparison> {
    let lines = [&scenario.cluster, &scenario.before, &scenario.between, &scenario.live, &scenario.after];
    let has_widgets = lines.into_iter().flatten().any(|line| line.contains("widget ") || line.contains("kind: Widget"));
    let (is_on_request, has_releases) = (scenario.is_on_request, scenario.has_releases());
    let (prefix, folder) = (format!("s{number:03}x"), folder(number)?);
    let run = Run { cluster, reader, has_widgets, has_releases, is_on_request, prefix, folder };
    let comparison = run.compare(program, scenario);
    let _ = std::fs::remove_dir_all(&run.folder);
    // Delete the scenario, so that the controller no longer reconciles it.
    for namespace in run.namespaces_of_kustomizations().unwrap_or_default() {
        let _ = cluster.kubectl(&["delete", "kustomizations", "--all", "-n", &namespace, "--wait=false"]);
    }
    let _ = cluster.kubectl(&["delete", "namespace", &run.prefix, "--wait=false"]);
    comparison
}

/// Creates a folder outside this checkout, so that the plan does not use this git repository.
fn folder(number: usize) -> Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("oracle-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Objects of the scenario at one time.
struct Objects {
    uids: Uids,
    contents: Contents,
}

/// One run of a scenario.
pub(super) struct Run<'a> {
    pub(super) cluster: &'a Cluster,
    reader: &'a Reader,
    /// The scenario has custom resources.
    has_widgets: bool,
    pub(super) has_releases: bool,
    pub(super) is_on_request: bool,
    pub(super) prefix: String,
    folder: PathBuf,
}

impl Run<'_> {
    fn compare(&self, program: &Program, scenario: &Scenario) -> Result<Comparison> {
        let mut files = self.deploy(scenario)?;
        self.run_live(scenario)?;
        let deployed = files.clone();
        manifest::edit(&mut files, &scenario.after, &self.prefix)?;
        self.write(&files)?;
        if scenario.checkout == Checkout::Branch {
            git::run(&self.folder, &["checkout", "-q", "-b", "feature"])?;
            self.commit()?;
        }
        let asks_agent = program.asks_agent && scenario.has_own_checkout();
        if asks_agent {
            self.set_address()?;
        }
        let before = self.objects()?;
        let start = Instant::now();
        let plan = self.plan(program, scenario, &[])?;
        let time = start.elapsed();
        let (listed, mut answers) = (self.listed()?, BTreeMap::new());
        if !program.peers.is_empty() {
            answers = self.ask(&program.peers, deployed.clone(), files.clone())?;
            answers.insert(peers::OWN, Answer { deleted: Some(peers::deleted_by_plan(&plan)), time });
        }
        let kubeconfig = self.cluster.kubeconfig();
        let of_agent =
            if asks_agent { agent::differing(&program.path, &self.folder, &kubeconfig, &self.prefix)? } else { vec![] };
        // A plan of several steps compares no manifests.
        let compares = scenario.flags.iter().any(|flag| flag == "--diff");
        let reverts = program.reverts && scenario.checkout != Checkout::None && !compares;
        let predicted = if reverts { Some(self.plan(program, scenario, &["--then", "main"])?) } else { None };
        self.publish(&files, scenario)?;
        self.wait_until_idle().context("after")?;
        let after = self.objects()?;
        let is_pinned = program.controller_version == PINNED;
        let mut comparison = self.judge(&plan, scenario, is_pinned, &before, &after, &listed)?;
        comparison.agent = asks_agent.then_some(of_agent.is_empty());
        comparison.mismatches.extend(of_agent);
        comparison.scores = peers::scores(&answers, &before.uids, &after.uids, &listed, |id| self.is_part(id));
        if let Some(predicted) = predicted.filter(|_| comparison.mismatches.is_empty()) {
            self.write(&deployed)?;
            let real = self.plan(program, scenario, &["--offline"])?;
            let step = &predicted["steps"][1]["plan"];
            if step["complete"] == true && real["complete"] == true {
                comparison.mismatches = check::differing(step, &real, |id| self.is_part(id));
                comparison.states = usize::from(comparison.mismatches.is_empty());
            }
        }
        if !comparison.mismatches.is_empty() {
            comparison.evidence = self.evidence()?;
            let others = items(&plan, "/owners").filter(|owner| owner["kind"] != "Kustomization");
            comparison.evidence.extend(others.map(Value::to_string));
        }
        Ok(comparison)
    }

    /// Makes the cluster of the scenario, and the commits before the change. Returns the files of the last one.
    fn deploy(&self, scenario: &Scenario) -> Result<Files> {
        self.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.prefix}}))?;
        for text in &scenario.cluster {
            self.apply(&manifest::object(&text.replace('@', &self.prefix), &self.prefix)?)?;
        }
        if scenario.checkout != Checkout::None {
            git::run(&self.folder, &["init", "-q", "-b", "main"])?;
            self.commit()?;
        }
        let mut files = Files::new();
        manifest::edit(&mut files, &scenario.before, &self.prefix)?;
        self.publish(&files, scenario)?;
        let options = if self.is_on_request { ON_REQUEST } else { "" };
        self.apply(&manifest::object(&format!("ks root ./root {options}"), &self.prefix)?)?;
        self.wait_until_idle().context("before")?;
        if !scenario.between.is_empty() {
            manifest::edit(&mut files, &scenario.between, &self.prefix)?;
            self.publish(&files, scenario)?;
            self.wait_until_idle().context("between")?;
        }
        Ok(files)
    }

    /// Runs the live commands of the scenario.
    fn run_live(&self, scenario: &Scenario) -> Result<()> {
        for line in &scenario.live {
            let line = self.with_uids(&line.replace('@', &self.prefix))?;
            let line = line.strip_prefix(UNSEEN).unwrap_or(&line);
            if let Some(text) = line.strip_prefix("apply ") {
                self.apply(&manifest::object(text, &self.prefix)?)?;
                continue;
            }
            // In a random repository, the object of the command may not exist.
            match self.cluster.kubectl(&line.split(' ').collect::<Vec<_>>()) {
                Err(error) if !error.to_string().contains("NotFound") => return Err(error),
                _ => {}
            }
        }
        if scenario.live.iter().any(|line| line.starts_with(UNSEEN)) {
            self.wait_until_quiet().context("after the live commands")?;
        } else if !scenario.live.is_empty() {
            self.wait_until_idle().context("after the live commands")?;
        }
        Ok(())
    }

    /// Compares the plan with what happened. `listed` tells how many inventories list an object.
    fn judge(
        &self,
        plan: &Value,
        scenario: &Scenario,
        is_pinned: bool,
        before: &Objects,
        after: &Objects,
        listed: &BTreeMap<String, usize>,
    ) -> Result<Comparison> {
        let (rows, mut mismatches) = check::predictions(plan, |id| self.is_part(id));
        let may_be_incomplete = scenario.may_be_incomplete || !is_pinned;
        let is_incomplete = scenario.incomplete || (may_be_incomplete && plan["complete"] == false);
        let Compared { wrong, dangerous, races } = check::compare(&rows, &before.uids, &after.uids, is_incomplete);
        mismatches.extend(wrong);
        mismatches.extend(check::not_updated(&rows, &before.contents, &after.contents));
        if !is_incomplete && plan["rehearsed"] == true {
            let changed = check::changed(&before.contents, &after.contents);
            let silent = check::not_announced(&rows, &before.uids, &after.uids, &changed);
            // Two owners that apply the same object undo what the other does, and a plan leaves out what it does not change.
            let is_shared = |id: &str| listed.get(&peers::without_group(id)).is_some_and(|owners| *owners > 1);
            mismatches.extend(silent.filter(|(id, _)| !is_shared(id)).map(|(_, mismatch)| mismatch));
        }
        // What is expected is the work of the pinned version. The plan for another one is compared with what happens.
        let of_pinned = |rows: &[String]| -> Vec<String> {
            rows.iter().filter(|_| is_pinned).map(|row| row.replace('@', &self.prefix)).collect()
        };
        mismatches.extend(check::missing(&rows, &of_pinned(&scenario.expect)));
        mismatches.extend(check::misjudged(&rows, &of_pinned(&scenario.needed)));
        mismatches.extend(check::not_happened(&before.uids, &after.uids, &of_pinned(&scenario.happens)));
        let unverified = check::builds(plan, &self.prefix, "unverified");
        mismatches.extend(unverified.map(|name| format!("{name}: its last build was not reproduced")));
        let gaps = items(plan, "/gaps").filter(|_| is_incomplete);
        Ok(Comparison {
            mismatches,
            dangerous,
            verified: check::builds(plan, &self.prefix, "verified").count(),
            rows: rows.len(),
            races: races.into_iter().map(|(id, race)| (id.replace(&self.prefix, "@"), race)).collect(),
            gaps: gaps.map(|gap| text(gap, "/message").replace(&self.prefix, "@")).collect(),
            ..Comparison::default()
        })
    }

    /// Packs charts that changed, as source-controller does. Returns true if there are some.
    ///
    /// Source: source-controller v1.9.3 `internal/helm/chart/builder_local.go`: a chart of the same name and version is packed
    /// again only if the spec of its HelmChart changes.
    pub(super) fn pack_charts(&self) -> Result<bool> {
        let own = |item: &Value| {
            item["kind"] == "HelmChart" && self.is_part(&format!(" -n {}", text(item, "/metadata/namespace")))
        };
        let mut has_packed = false;
        for chart in self.reader.each(|item| own(item).then(|| item.clone()))? {
            let folder = self.folder.join(text(&chart, "/spec/chart"));
            let Ok(about) = std::fs::read_to_string(folder.join("Chart.yaml")) else { continue };
            let mut version = cluster::chart_field(&about, "version").unwrap_or_default().to_owned();
            if chart["spec"]["reconcileStrategy"] == "Revision" {
                version = format!("{version}+{}", &git::run(&self.folder, &["rev-parse", "HEAD"])?[..12]);
            }
            let is_same = text(&chart, "/status/artifact/revision") == version
                && cluster::chart_field(&about, "name") == Some(text(&chart, "/status/observedChartName"));
            if is_same && chart["status"]["observedGeneration"] == chart["metadata"]["generation"] {
                continue;
            }
            let id = format!("{}/{}", text(&chart, "/metadata/namespace"), text(&chart, "/metadata/name"));
            has_packed |= self.cluster.publish_chart(&id, folder, &version).is_ok();
        }
        Ok(has_packed)
    }

    /// Gives the source an address of its own, which the checkout has too: `mcp` finds the source by it.
    fn set_address(&self) -> Result<()> {
        let url = format!("https://example.invalid/{}.git", self.prefix);
        git::run(&self.folder, &["remote", "add", "origin", &url])?;
        let patch = json!({"spec": {"url": url}}).to_string();
        self.cluster.kubectl(&["patch", "gitrepository", "repo", "-n", &self.prefix, "--type=merge", "-p", &patch])?;
        let is_read = || {
            let mut urls = self.reader.each(|item| (item["spec"]["url"] == url).then_some(()))?.into_iter();
            Ok(urls.next().is_some())
        };
        self.cluster.wait_for("the address of the source", Duration::from_secs(10), is_read)
    }

    pub(super) fn namespaces_of_kustomizations(&self) -> Result<BTreeSet<String>> {
        let namespaces = self.reader.each(|item| {
            let namespace = text(item, "/metadata/namespace");
            (item["kind"] == "Kustomization" && namespace.starts_with(&self.prefix)).then(|| namespace.to_owned())
        });
        Ok(namespaces?.into_iter().collect())
    }

    /// Asks other programs, which get the repository without and with the edit.
    fn ask(&self, peers: &[Peer], before: Files, after: Files) -> Result<BTreeMap<&'static str, Answer>> {
        let root = manifest::object("ks root ./root", &self.prefix)?.to_string();
        let [before, after] = [(before, "before"), (after, "after")].map(|(mut files, name)| {
            files.insert("root.yaml".to_owned(), File::Text(root.clone()));
            let folder = self.folder.with_extension(name);
            write(&folder, &files).map(|()| folder)
        });
        let (before, after) = (before?, after?);
        let question = Question {
            cluster: self.cluster,
            namespace: &self.prefix,
            folder: &self.folder,
            before: &before,
            after: &after,
        };
        let answers = peers.iter().map(|peer| (peer.name(), peer.ask(&question))).collect();
        std::fs::remove_dir_all(&before)?;
        std::fs::remove_dir_all(&after)?;
        Ok(answers)
    }

    /// Returns in how many inventories of Kustomizations each object is.
    fn listed(&self) -> Result<BTreeMap<String, usize>> {
        let own = |item: &Value| text(item, "/metadata/namespace").starts_with(&self.prefix);
        let inventories = self.reader.each(|item| own(item).then(|| peers::listed(item).collect::<Vec<_>>()))?;
        let mut owners = BTreeMap::new();
        inventories.into_iter().flatten().for_each(|id| *owners.entry(id).or_default() += 1);
        Ok(owners)
    }

    /// Returns one line for each object of Flux: its Ready condition and its inventory.
    fn evidence(&self) -> Result<Vec<String>> {
        let own = |item: &Value| text(item, "/metadata/namespace") == self.prefix && ready_condition(item).is_some();
        let is_source = |item: &Value| ["GitRepository", "HelmChart"].contains(&text(item, "/kind"));
        self.reader.each(|item| (own(item) && !is_source(item)).then(|| state(item)))
    }

    /// Replaces `uid(TYPE/NAME)` by the uid of that object in the namespace of the scenario.
    fn with_uids(&self, line: &str) -> Result<String> {
        let Some((before, rest)) = line.split_once("uid(") else { return Ok(line.to_owned()) };
        let (object, after) = rest.split_once(')').context("uid( is not closed")?;
        let uid = self.cluster.kubectl(&["get", object, "-n", &self.prefix, "-o", "jsonpath={.metadata.uid}"])?;
        Ok(format!("{before}{}{after}", uid.trim()))
    }

    fn apply(&self, manifest: &Value) -> Result<()> {
        let arguments = ["apply", "--server-side", "--force-conflicts", "--field-manager=setup", "-f", "-"];
        self.cluster.kubectl_stdin(&arguments, &manifest.to_string()).map(drop)
    }

    /// Writes the files to the checkout without a commit.
    fn write(&self, files: &Files) -> Result<()> {
        for entry in std::fs::read_dir(&self.folder)? {
            let entry = entry?;
            // A symlink to a directory is no directory here.
            if !entry.file_type()?.is_dir() {
                std::fs::remove_file(entry.path())?;
            } else if entry.file_name() != ".git" {
                std::fs::remove_dir_all(entry.path())?;
            }
        }
        write(&self.folder, files)
    }

    /// Returns the sources of a scenario.
    fn sources(&self, scenario: &Scenario) -> impl Iterator<Item = String> {
        let sources = ["GitRepository/repo"].into_iter().chain(scenario.sources.iter().map(String::as_str));
        sources.filter_map(|source| source.split_once('/')).map(|(kind, name)| format!("{kind}/{}/{name}", self.prefix))
    }

    fn publish(&self, files: &Files, scenario: &Scenario) -> Result<()> {
        self.write(files)?;
        if scenario.checkout != Checkout::None {
            self.commit()?;
        }
        self.sources(scenario).try_for_each(|source| self.cluster.publish(&source, &self.folder).map(drop))?;
        // source-controller packs them while kustomize-controller builds, so that releases mostly get the new chart first.
        if self.has_releases {
            self.pack_charts()?;
        }
        Ok(())
    }

    fn commit(&self) -> Result<()> {
        git::run(&self.folder, &["add", "-A"])?;
        git::run(&self.folder, &["commit", "-q", "--allow-empty", "-m", "change"]).map(drop)
    }

    fn plan(&self, program: &Program, scenario: &Scenario, more: &[&str]) -> Result<Value> {
        let sources = self.sources(scenario).map(|source| format!("--source={source}={}", self.folder.display()));
        let mut command = Command::new(&program.path);
        command
            .args(["prune", "--plan", "-o", "json", "--kustomize"])
            .arg(bin("kustomize"))
            .args(sources)
            .args(["--controller-version", &program.controller_version])
            .arg("--helm")
            .arg(bin("helm"))
            .arg("--flux-operator")
            .arg(bin("flux-operator"))
            .args(scenario.flags.iter().map(|flag| flag.replace('@', &self.prefix)))
            .args(more)
            .env("KUBECONFIG", self.cluster.kubeconfig());
        let output = child::output_within(&mut command, PLAN_LIMIT)?;
        let code = output.status.code().unwrap_or(-1);
        // Another version can link another kustomize, so that a failed build proves nothing.
        let may_be_incomplete = scenario.incomplete
            || scenario.may_be_incomplete
            || program.controller_version != PINNED
            || !more.is_empty();
        // 6 is the alarm, which most scenarios raise; 5 is a gap.
        let is_expected = matches!(code, 0 | 6) || (code == 5 && may_be_incomplete);
        if !is_expected {
            bail!("the plan ended with {code}: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        serde_json::from_slice(&output.stdout).context("the plan is no JSON")
    }

    fn is_part(&self, id: &str) -> bool {
        let (name, namespace) = id.split_once(" -n ").unwrap_or((id, ""));
        namespace.starts_with(&self.prefix) || name.contains(&self.prefix)
    }

    fn objects(&self) -> Result<Objects> {
        Ok(Objects { uids: self.uids()?, contents: self.contents()? })
    }

    /// Returns the uid of every object of the scenario that is not being deleted.
    fn uids(&self) -> Result<Uids> {
        let is_going = |progress: &str| progress.contains("held") || progress.contains("terminating");
        let live = self.read()?.into_iter().filter(|(_, (_, progress))| !is_going(progress));
        Ok(live.map(|(id, (uid, _))| (id, uid)).collect())
    }

    /// Returns the resource version of every object of the scenario, and what manifests decide of it.
    fn contents(&self) -> Result<check::Contents> {
        self.each(|item| (text(item, "/metadata/resourceVersion").to_owned(), check::content(item)))
    }

    /// Returns true if a Kustomization has not begun with the revision of its source.
    pub(super) fn is_behind(&self) -> Result<bool> {
        let own = |item: &Value| text(item, "/metadata/namespace") == self.prefix;
        let revisions = self.reader.each(|item| idle::published(item).filter(|_| own(item)).map(str::to_owned))?;
        let Some(revision) = revisions.first() else { return Ok(false) };
        Ok(!self.reader.each(|item| (own(item) && idle::has_not_attempted(item, revision)).then_some(()))?.is_empty())
    }

    /// Reads every object of the scenario: its uid and its [`progress`].
    pub(super) fn read(&self) -> Result<BTreeMap<String, (String, String)>> {
        self.each(|item| (text(item, "/metadata/uid").to_owned(), progress(item)))
    }

    /// Returns what `of` returns for each object of the scenario.
    fn each<T>(&self, of: impl Fn(&Value) -> T) -> Result<BTreeMap<String, T>> {
        let read = |item: &Value| {
            let id = id_of(item);
            self.is_part(&id).then(|| (id, of(item)))
        };
        let mut found: BTreeMap<_, _> = self.reader.each(&read)?.into_iter().collect();
        if self.has_widgets {
            let list = |version| {
                let path = format!("/apis/{}.example.com/{version}/widgets", self.prefix);
                self.cluster.kubectl(&["get", "--raw", &path]).ok()
            };
            // The definition may not exist, and it may serve either version.
            if let Some(list) = list("v1").or_else(|| list("v2")) {
                let list: Value = serde_json::from_str(&list)?;
                found.extend(items(&list, "/items").filter_map(&read));
            }
        }
        Ok(found)
    }
}

/// Writes files to a folder.
pub(super) fn write(folder: &Path, files: &Files) -> Result<()> {
    for (path, file) in files {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap_or(folder))?;
        match file {
            File::Text(text) => std::fs::write(path, text)?,
            File::Link(target) => std::os::unix::fs::symlink(target, path)?,
            File::Directory => std::fs::create_dir_all(path)?,
        }
    }
    Ok(())
}

/// Returns the Ready condition of a Kustomization.
pub(super) fn ready_condition(item: &Value) -> Option<&Value> {
    items(item, "/status/conditions").find(|condition| condition["type"] == "Ready")
}

/// Describes an object of Flux: its Ready condition and its inventory.
fn state(item: &Value) -> String {
    let ready = ready_condition(item).unwrap_or(&Value::Null);
    let entries: Vec<&str> = items(item, "/status/inventory/entries").map(|entry| text(entry, "/id")).collect();
    format!(
        "{}/{}: {} {}; inventory: {}",
        text(item, "/kind"),
        text(item, "/metadata/name"),
        text(ready, "/reason"),
        text(ready, "/message"),
        entries.join(" ")
    )
}

/// Returns the identity of an object as the rows of a plan have it.
fn id_of(item: &Value) -> String {
    let group = text(item, "/apiVersion").split_once('/').map_or("", |(group, _)| group);
    check::identity(group, text(item, "/kind"), text(item, "/metadata/namespace"), text(item, "/metadata/name"))
}
