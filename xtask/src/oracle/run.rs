//! One scenario on the real control plane.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::check::{self, Uids};
use super::manifest::{self, File, Files};
use super::scenarios::Scenario;
use crate::cluster::Cluster;
use crate::controlplane::bin;
use crate::git;

/// How long nothing may change before a scenario counts as settled: more than an interval of its Kustomizations.
const QUIET: Duration = Duration::from_secs(7);
/// Between two readings.
const POLL: Duration = Duration::from_millis(1500);
/// How long settling may take.
const LIMIT: Duration = Duration::from_secs(240);

/// What a scenario came to.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Where plan and controller disagree.
    pub mismatches: Vec<String>,
    /// Rows of the plan that concern the scenario.
    pub rows: usize,
    /// What came of those of them that are races, by object; `@` stands for the scenario's prefix.
    pub races: BTreeMap<String, &'static str>,
    /// With mismatches only: what the Kustomizations said of themselves in the end.
    pub evidence: Vec<String>,
}

/// Runs one scenario in namespaces of its own.
pub(super) fn scenario(cluster: &Cluster, binary: &Path, scenario: &Scenario, number: usize) -> Result<Verdict> {
    let place = Place { cluster, prefix: format!("s{number:03}x"), folder: folder(number)? };
    let verdict = place.play(binary, scenario);
    let _ = std::fs::remove_dir_all(&place.folder);
    // Nothing of the scenario may keep the controller busy.
    let _ = cluster.kubectl(&["delete", "kustomizations", "--all", "-n", &place.prefix, "--wait=false"]);
    let _ = cluster.kubectl(&["delete", "namespace", &place.prefix, "--wait=false"]);
    verdict
}

/// Outside of this checkout, so that the binary reads it as a plain folder.
fn folder(number: usize) -> Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("oracle-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

struct Place<'a> {
    cluster: &'a Cluster,
    prefix: String,
    folder: PathBuf,
}

impl Place<'_> {
    fn play(&self, binary: &Path, scenario: &Scenario) -> Result<Verdict> {
        self.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.prefix}}))?;
        for text in &scenario.cluster {
            self.apply(&manifest::object(&text.replace('@', &self.prefix), &self.prefix)?)?;
        }
        git::run(&self.folder, &["init", "-q", "-b", "main"])?;
        let mut files = Files::new();
        manifest::edit(&mut files, &scenario.before, &self.prefix)?;
        self.publish(&files)?;
        self.apply(&manifest::object("ks root ./root", &self.prefix)?)?;
        self.settle().context("before")?;
        for line in &scenario.live {
            let line = line.replace('@', &self.prefix);
            // A random repository may not have created what its command is about.
            let done = self.cluster.kubectl(&line.split(' ').collect::<Vec<_>>());
            done.map(drop).or_else(|error| if error.to_string().contains("NotFound") { Ok(()) } else { Err(error) })?;
        }
        if !scenario.live.is_empty() {
            self.settle().context("after the live commands")?;
        }
        manifest::edit(&mut files, &scenario.after, &self.prefix)?;
        self.write(&files)?;
        let before = self.uids()?;
        let plan = self.plan(binary, scenario.flags)?;
        self.publish(&files)?;
        self.settle().context("after")?;
        let after = self.uids()?;
        let (rows, mut mismatches) = check::predictions(&plan, |id| self.concerns(id));
        let (wrong, races) = check::compare(&rows, &before, &after);
        mismatches.extend(wrong);
        let races = races.into_iter().map(|(id, happened)| (id.replace(&self.prefix, "@"), happened)).collect();
        let expected: Vec<String> = scenario.expect.iter().map(|row| row.replace('@', &self.prefix)).collect();
        mismatches.extend(check::missing(&rows, &expected));
        mismatches.extend(check::unverified(&plan, &self.prefix));
        let evidence = if mismatches.is_empty() { vec![] } else { self.evidence()? };
        Ok(Verdict { mismatches, rows: rows.len(), races, evidence })
    }

    /// One line for each Kustomization: its state and what its inventory holds.
    fn evidence(&self) -> Result<Vec<String>> {
        let list = self.cluster.kubectl(&["get", "kustomizations", "-n", &self.prefix, "-o", "json"])?;
        let list: Value = serde_json::from_str(&list)?;
        let line = |item: &Value| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let items = |pointer: &str| item.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
            let ready = items("/status/conditions").find(|condition| condition["type"] == "Ready");
            let ready = ready.map(|ready| format!("{} {}", text(&ready["reason"]), text(&ready["message"])));
            let entries: Vec<String> = items("/status/inventory/entries").map(|entry| text(&entry["id"])).collect();
            let name = text(&item["metadata"]["name"]);
            format!("{name}: {}; inventory: {}", ready.unwrap_or_default(), entries.join(" "))
        };
        Ok(list["items"].as_array().into_iter().flatten().map(line).collect())
    }

    fn apply(&self, manifest: &Value) -> Result<()> {
        let arguments = ["apply", "--server-side", "--force-conflicts", "--field-manager=setup", "-f", "-"];
        self.cluster.kubectl_stdin(&arguments, &manifest.to_string()).map(drop)
    }

    /// Puts the files into the checkout, without committing them.
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
            }
        }
        Ok(())
    }

    fn publish(&self, files: &Files) -> Result<()> {
        self.write(files)?;
        git::run(&self.folder, &["add", "-A"])?;
        git::run(&self.folder, &["commit", "-q", "--allow-empty", "-m", "change"])?;
        self.cluster.publish(&format!("GitRepository/{}/repo", self.prefix), &self.folder).map(drop)
    }

    fn plan(&self, binary: &Path, flags: &[&str]) -> Result<Value> {
        let source = format!("GitRepository/{}/repo={}", self.prefix, self.folder.display());
        let output = Command::new(binary)
            .args(["prune", "--plan", "-o", "json", "--source", &source, "--kustomize"])
            .arg(bin("kustomize"))
            .args(flags)
            .env("KUBECONFIG", self.cluster.kubeconfig())
            .output()
            .context("cannot run kubectl-gitops")?;
        let code = output.status.code().unwrap_or(-1);
        // 6 is the alarm, which most scenarios raise; 5 is a gap.
        if !matches!(code, 0 | 6) {
            bail!("the plan ended with {code}: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        serde_json::from_slice(&output.stdout).context("the plan is no JSON")
    }

    fn concerns(&self, id: &str) -> bool {
        let (name, namespace) = id.split_once(" -n ").unwrap_or((id, ""));
        namespace.starts_with(&self.prefix) || name.contains(&self.prefix)
    }

    /// Everything of the scenario with its uid.
    fn uids(&self) -> Result<Uids> {
        Ok(self.read()?.into_iter().map(|(id, (uid, _))| (id, uid)).collect())
    }

    /// Everything of the scenario: uid, and what shows that something is going on.
    fn read(&self) -> Result<BTreeMap<String, (String, String)>> {
        const TYPES: &str = "namespaces,configmaps,secrets,serviceaccounts,services,pods,deployments.apps,replicasets.apps,\
            clusterroles,customresourcedefinitions,kustomizations.kustomize.toolkit.fluxcd.io,\
            gitrepositories.source.toolkit.fluxcd.io";
        let mut lists = vec![self.cluster.kubectl(&["get", TYPES, "-A", "-o", "json"])?];
        let widgets = format!("widgets.{}.example.com", self.prefix);
        lists.extend(self.cluster.kubectl(&["get", &widgets, "-A", "-o", "json"]));
        let mut found = BTreeMap::new();
        for list in lists {
            let list: Value = serde_json::from_str(&list)?;
            for item in list["items"].as_array().into_iter().flatten() {
                let text = |pointer: &str| item.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
                let version = text("/apiVersion");
                let group = version.split_once('/').map_or("", |(group, _)| group);
                let id = check::identity(group, &text("/kind"), &text("/metadata/namespace"), &text("/metadata/name"));
                if self.concerns(&id) {
                    found.insert(id, (text("/metadata/uid"), progress(item)));
                }
            }
        }
        Ok(found)
    }

    /// Waits until nothing has changed for a while.
    fn settle(&self) -> Result<()> {
        let end = Instant::now() + LIMIT;
        let mut last = self.read()?;
        let mut since = Instant::now();
        let mut working = 0;
        while since.elapsed() < QUIET {
            if Instant::now() > end {
                bail!("nothing came to rest within {} s in {}", LIMIT.as_secs(), self.prefix);
            }
            std::thread::sleep(POLL);
            let now = self.read()?;
            // Every interval shows as work for a moment; work that goes on, such as a wait for a namespace, shows longer.
            working = if now.values().any(|(_, progress)| progress.contains("working")) { working + 1 } else { 0 };
            let still = |read: &BTreeMap<String, (String, String)>| -> Vec<(String, String)> {
                read.iter()
                    .map(|(id, (uid, progress))| (id.clone(), uid.clone() + &progress.replace("working", "")))
                    .collect()
            };
            if still(&now) != still(&last) || now.values().any(|(_, progress)| progress.contains("busy")) || working > 2
            {
                last = now;
                since = Instant::now();
            }
        }
        Ok(())
    }
}

/// `busy` while an object is being deleted or a Kustomization has not tried anything at all, `working` while one
/// reconciles.
fn progress(item: &Value) -> String {
    let text = |pointer: &str| item.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let deleting = !text("/metadata/deletionTimestamp").is_empty() && text("/kind") != "Pod";
    let kustomization = text("/kind") == "Kustomization" && item.pointer("/spec/suspend") != Some(&Value::Bool(true));
    let untouched = kustomization && item.pointer("/status/conditions").is_none();
    let busy = if deleting || untouched { "busy" } else { "" };
    let mut conditions = item.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let ready = conditions.find(|condition| condition["type"] == "Ready");
    let working = kustomization && ready.is_some_and(|ready| ready["status"] == "Unknown");
    let working = if working { "working" } else { "" };
    format!("{busy}{working} {} {}", text("/status/lastAttemptedRevision"), text("/status/lastAppliedRevision"))
}
