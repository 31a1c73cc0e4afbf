//! Runs one scenario on the real control plane.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::check::{self, Uids};
use super::manifest::{self, File, Files};
use super::scenarios::Scenario;
use crate::cluster::Cluster;
use crate::controlplane::bin;
use crate::{git, items, text};

/// Time without any change until a scenario is idle: longer than the interval of its Kustomizations.
const QUIET: Duration = Duration::from_secs(7);
/// Time between two reads of the cluster.
const POLL: Duration = Duration::from_millis(1500);
/// Reads in a row that see a Kustomization reconcile, from longer work to a wait without an end.
const LONG_WORK: std::ops::Range<usize> = 3..60;
/// Finalizer that nothing removes until the scenario ends.
const HOLD: &str = "example.com/hold";
/// Time limit for a scenario to become idle.
const LIMIT: Duration = Duration::from_secs(240);

/// Result of one run of a scenario.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// Differences between the plan and the controller.
    pub mismatches: Vec<String>,
    /// Number of rows of the plan for objects of the scenario.
    pub rows: usize,
    /// Actual results of the rows that are races, by object. `@` is the prefix of the scenario.
    pub races: BTreeMap<String, &'static str>,
    /// With mismatches: status and inventory of each Kustomization.
    pub evidence: Vec<String>,
}

/// The program that plans.
#[derive(Clone, Debug)]
pub struct Program {
    /// Path of kubectl-gitops.
    pub path: PathBuf,
    /// Version of kustomize-controller that it is told.
    pub controller_version: Option<String>,
}

/// Runs one scenario in its own namespaces.
pub(super) fn scenario(cluster: &Cluster, program: &Program, scenario: &Scenario, number: usize) -> Result<Comparison> {
    let run = Run { cluster, prefix: format!("s{number:03}x"), folder: folder(number)? };
    let comparison = run.compare(program, scenario);
    let _ = std::fs::remove_dir_all(&run.folder);
    // Delete the scenario, so that the controller no longer reconciles it.
    let _ = cluster.kubectl(&["delete", "kustomizations", "--all", "-n", &run.prefix, "--wait=false"]);
    let _ = cluster.kubectl(&["delete", "namespace", &run.prefix, "--wait=false"]);
    comparison
}

/// Creates a folder outside this checkout, so that the plan does not use this git repository.
fn folder(number: usize) -> Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("oracle-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

struct Run<'a> {
    cluster: &'a Cluster,
    prefix: String,
    folder: PathBuf,
}

impl Run<'_> {
    fn compare(&self, program: &Program, scenario: &Scenario) -> Result<Comparison> {
        self.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.prefix}}))?;
        for text in &scenario.cluster {
            self.apply(&manifest::object(&text.replace('@', &self.prefix), &self.prefix)?)?;
        }
        git::run(&self.folder, &["init", "-q", "-b", "main"])?;
        let mut files = Files::new();
        manifest::edit(&mut files, &scenario.before, &self.prefix)?;
        self.publish(&files, scenario)?;
        self.apply(&manifest::object("ks root ./root", &self.prefix)?)?;
        self.wait_until_idle().context("before")?;
        for line in &scenario.live {
            let line = self.with_uids(&line.replace('@', &self.prefix))?;
            // In a random repository, the object of the command may not exist.
            match self.cluster.kubectl(&line.split(' ').collect::<Vec<_>>()) {
                Err(error) if !error.to_string().contains("NotFound") => return Err(error),
                _ => {}
            }
        }
        if !scenario.live.is_empty() {
            self.wait_until_idle().context("after the live commands")?;
        }
        manifest::edit(&mut files, &scenario.after, &self.prefix)?;
        self.write(&files)?;
        let before = self.uids()?;
        let plan = self.plan(program, scenario)?;
        self.publish(&files, scenario)?;
        self.wait_until_idle().context("after")?;
        let after = self.uids()?;
        let (rows, mut mismatches) = check::predictions(&plan, |id| self.is_part(id));
        let (wrong, races) = check::compare(&rows, &before, &after, scenario.incomplete);
        mismatches.extend(wrong);
        let races = races.into_iter().map(|(id, happened)| (id.replace(&self.prefix, "@"), happened)).collect();
        let expected: Vec<String> = scenario.expect.iter().map(|row| row.replace('@', &self.prefix)).collect();
        mismatches.extend(check::missing(&rows, &expected));
        let happens: Vec<String> = scenario.happens.iter().map(|row| row.replace('@', &self.prefix)).collect();
        mismatches.extend(check::not_happened(&before, &after, &happens));
        mismatches.extend(check::unverified(&plan, &self.prefix));
        let evidence = if mismatches.is_empty() { vec![] } else { self.evidence()? };
        Ok(Comparison { mismatches, rows: rows.len(), races, evidence })
    }

    /// Returns one line for each Kustomization: its Ready condition and its inventory.
    fn evidence(&self) -> Result<Vec<String>> {
        let list = self.cluster.kubectl(&["get", "kustomizations", "-n", &self.prefix, "-o", "json"])?;
        let list: Value = serde_json::from_str(&list)?;
        Ok(items(&list, "/items").map(state).collect())
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
            let path = entry?.path();
            if path.is_dir() && path.file_name().is_some_and(|name| name != ".git") {
                std::fs::remove_dir_all(path)?;
            } else if path.is_file() {
                std::fs::remove_file(path)?;
            }
        }
        for (path, file) in files {
            let path = self.folder.join(path);
            std::fs::create_dir_all(path.parent().unwrap_or(&self.folder))?;
            match file {
                File::Text(text) => std::fs::write(path, text)?,
                File::Link(target) => std::os::unix::fs::symlink(target, path)?,
                File::Directory => std::fs::create_dir_all(path)?,
            }
        }
        Ok(())
    }

    /// Returns the sources of a scenario.
    fn sources(&self, scenario: &Scenario) -> impl Iterator<Item = String> {
        let sources = ["GitRepository/repo"].iter().chain(scenario.sources);
        sources.filter_map(|source| source.split_once('/')).map(|(kind, name)| format!("{kind}/{}/{name}", self.prefix))
    }

    fn publish(&self, files: &Files, scenario: &Scenario) -> Result<()> {
        self.write(files)?;
        git::run(&self.folder, &["add", "-A"])?;
        git::run(&self.folder, &["commit", "-q", "--allow-empty", "-m", "change"])?;
        self.sources(scenario).try_for_each(|source| self.cluster.publish(&source, &self.folder).map(drop))
    }

    fn plan(&self, program: &Program, scenario: &Scenario) -> Result<Value> {
        let sources = self.sources(scenario).map(|source| format!("--source={source}={}", self.folder.display()));
        let version = program.controller_version.iter().flat_map(|version| ["--controller-version", version]);
        let output = Command::new(&program.path)
            .args(["prune", "--plan", "-o", "json", "--kustomize"])
            .arg(bin("kustomize"))
            .args(sources)
            .args(version)
            .args(scenario.flags.iter().map(|flag| flag.replace('@', &self.prefix)))
            .env("KUBECONFIG", self.cluster.kubeconfig())
            .output()
            .context("cannot run kubectl-gitops")?;
        let code = output.status.code().unwrap_or(-1);
        // 6 is the alarm, which most scenarios raise; 5 is a gap.
        let is_expected = matches!(code, 0 | 6) || (code == 5 && scenario.incomplete);
        if !is_expected {
            bail!("the plan ended with {code}: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        serde_json::from_slice(&output.stdout).context("the plan is no JSON")
    }

    fn is_part(&self, id: &str) -> bool {
        let (name, namespace) = id.split_once(" -n ").unwrap_or((id, ""));
        namespace.starts_with(&self.prefix) || name.contains(&self.prefix)
    }

    /// Returns the uid of every object of the scenario that is not being deleted.
    fn uids(&self) -> Result<Uids> {
        let live = self.read()?.into_iter().filter(|(_, (_, progress))| !progress.contains("held"));
        Ok(live.map(|(id, (uid, _))| (id, uid)).collect())
    }

    /// Reads every object of the scenario: its uid and its [`progress`].
    fn read(&self) -> Result<BTreeMap<String, (String, String)>> {
        const TYPES: &str = "namespaces,configmaps,secrets,serviceaccounts,services,pods,deployments.apps,replicasets.apps,\
            clusterroles,roles.rbac.authorization.k8s.io,runtimeclasses,customresourcedefinitions,kustomizations.kustomize.toolkit.fluxcd.io,\
            gitrepositories.source.toolkit.fluxcd.io";
        let mut lists = vec![self.cluster.kubectl(&["get", TYPES, "-A", "-o", "json"])?];
        let widgets = format!("widgets.{}.example.com", self.prefix);
        lists.extend(self.cluster.kubectl(&["get", &widgets, "-A", "-o", "json"]));
        let mut found = BTreeMap::new();
        for list in lists {
            let list: Value = serde_json::from_str(&list)?;
            for item in items(&list, "/items") {
                let group = text(item, "/apiVersion").split_once('/').map_or("", |(group, _)| group);
                let (namespace, name) = (text(item, "/metadata/namespace"), text(item, "/metadata/name"));
                let id = check::identity(group, text(item, "/kind"), namespace, name);
                if self.is_part(&id) {
                    found.insert(id, (text(item, "/metadata/uid").to_owned(), progress(item)));
                }
            }
        }
        Ok(found)
    }

    /// Waits until nothing has changed for [`QUIET`].
    fn wait_until_idle(&self) -> Result<()> {
        let end = Instant::now() + LIMIT;
        let mut last = self.read()?;
        let mut since = Instant::now();
        let mut working = 0;
        while since.elapsed() < QUIET {
            if Instant::now() > end {
                bail!("objects still change after {} s in {}", LIMIT.as_secs(), self.prefix);
            }
            std::thread::sleep(POLL);
            let now = self.read()?;
            // At every interval a Kustomization reconciles for a moment. Longer work, such as waiting for a namespace, counts,
            // but not a wait without an end, such as for the finalizer of another controller.
            working = if now.values().any(|(_, progress)| progress.contains("working")) { working + 1 } else { 0 };
            if without_work(&now) != without_work(&last)
                || now.values().any(|(_, progress)| progress.contains("busy"))
                || LONG_WORK.contains(&working)
            {
                last = now;
                since = Instant::now();
            }
        }
        Ok(())
    }
}

/// Returns what to compare of two reads: everything except that a Kustomization reconciles.
fn without_work(read: &BTreeMap<String, (String, String)>) -> Vec<(&str, &str, String)> {
    read.iter().map(|(id, (uid, progress))| (id.as_str(), uid.as_str(), progress.replace("working", ""))).collect()
}

/// Describes the work on an object: `busy` during its deletion, unless a finalizer holds it or its content, and before the first attempt of a Kustomization, `working`
/// while a Kustomization reconciles.
fn progress(item: &Value) -> String {
    let deleting = !text(item, "/metadata/deletionTimestamp").is_empty() && text(item, "/kind") != "Pod";
    let holds_content = |condition: &Value| {
        condition["type"] == "NamespaceFinalizersRemaining" && text(condition, "/message").contains(HOLD)
    };
    let held = deleting
        && (items(item, "/metadata/finalizers").any(|finalizer| finalizer == HOLD)
            || items(item, "/status/conditions").any(holds_content));
    let kustomization =
        text(item, "/kind") == "Kustomization" && item.pointer("/spec/suspend") != Some(&Value::Bool(true));
    let untouched = kustomization && item.pointer("/status/conditions").is_none();
    let busy = if held {
        "held"
    } else if deleting || untouched {
        "busy"
    } else {
        ""
    };
    let working = kustomization && ready_condition(item).is_some_and(|ready| ready["status"] == "Unknown");
    let working = if working { "working" } else { "" };
    format!(
        "{busy}{working} {} {}",
        text(item, "/status/lastAttemptedRevision"),
        text(item, "/status/lastAppliedRevision")
    )
}

fn ready_condition(item: &Value) -> Option<&Value> {
    items(item, "/status/conditions").find(|condition| condition["type"] == "Ready")
}

/// Describes a Kustomization: its Ready condition and its inventory.
fn state(item: &Value) -> String {
    let ready = ready_condition(item).unwrap_or(&Value::Null);
    let entries: Vec<&str> = items(item, "/status/inventory/entries").map(|entry| text(entry, "/id")).collect();
    format!(
        "{}: {} {}; inventory: {}",
        text(item, "/metadata/name"),
        text(ready, "/reason"),
        text(ready, "/message"),
        entries.join(" ")
    )
}
