//! Waits until nothing changes any more in a scenario.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::Value;

use super::run::{Run, ready_condition};
use crate::{items, text};

/// Time without any change until a scenario is idle: longer than the short interval of its Kustomizations, or than the time
/// after which one that waits for a dependency tries again.
const QUIET: [Duration; 2] = [Duration::from_secs(7), Duration::from_secs(5)];
/// Options of a Kustomization that reconciles on request.
pub(super) const ON_REQUEST: &str = "interval=1h json:retryInterval=\"1h\"";
/// Annotation that requests a reconciliation.
const REQUESTED: &str = "reconcile.fluxcd.io/requestedAt";
/// Maximum number of requests until nothing changes any more.
const ROUNDS: usize = 8;
/// Time between two reads of the cluster.
const POLL: Duration = Duration::from_secs(2);
/// Time for which a Kustomization is seen to reconcile, from longer work to a wait without an end.
const LONG_WORK: std::ops::Range<Duration> = Duration::from_secs(6)..Duration::from_secs(135);
/// Time for every Kustomization to begin with a revision, on a machine that is busy with other scenarios.
const BEGINNING: Duration = Duration::from_secs(90);
/// Finalizer that nothing removes until the scenario ends.
const HOLD: &str = "example.com/hold";
/// Time after which a claim or a volume that is being deleted is held by a Pod or a claim.
const PROTECTED: chrono::TimeDelta = chrono::TimeDelta::seconds(12);
/// Time after which the finalizer of an owner that is being deleted fails again and again, and a Namespace is held.
const REFUSED: chrono::TimeDelta = chrono::TimeDelta::seconds(75);
/// Time limit for a scenario to become idle.
const LIMIT: Duration = Duration::from_secs(240);

impl Run<'_> {
    /// Waits until nothing changes any more, also if every Kustomization reconciles once more.
    pub(super) fn wait_until_idle(&self) -> Result<()> {
        self.wait_until_quiet()?;
        if self.has_releases {
            // helm-controller reads changed values at its next interval, or when it is asked.
            self.request("helmreleases", &self.prefix, "now")?;
            self.wait_until_quiet()?;
        }
        for round in 0..ROUNDS {
            if !self.is_on_request {
                return Ok(());
            }
            let before = self.read()?;
            for namespace in self.namespaces_of_kustomizations()? {
                self.request("kustomizations", &namespace, &round.to_string())?;
            }
            self.wait_until_quiet()?;
            if without_work(&before) == without_work(&self.read()?) {
                return Ok(());
            }
        }
        bail!("objects still change after {ROUNDS} reconciliations in {}", self.prefix)
    }

    /// Requests a reconciliation of all objects of a type in a namespace.
    fn request(&self, what: &str, namespace: &str, round: &str) -> Result<()> {
        let value = format!("{REQUESTED}={}-{round}", chrono::Utc::now().timestamp_millis());
        let annotate = ["annotate", what, "--all", "--overwrite", "--field-manager=flux", "-n", namespace, &value];
        self.cluster.kubectl(&annotate).map(drop)
    }

    /// Waits until nothing has changed for some time.
    pub(super) fn wait_until_quiet(&self) -> Result<()> {
        let quiet = QUIET[usize::from(self.is_on_request)];
        let end = Instant::now() + LIMIT;
        let mut last = self.read()?;
        let start = Instant::now();
        let mut since = start;
        let mut working_since = None;
        while since.elapsed() < quiet {
            if Instant::now() > end {
                bail!("objects still change after {} s in {}", LIMIT.as_secs(), self.prefix);
            }
            std::thread::sleep(POLL);
            let now = self.read()?;
            // At every interval a Kustomization reconciles for a moment. Longer work, such as waiting for a namespace, counts,
            // but not a wait without an end, such as for the finalizer of another controller.
            let is_working = now.values().any(|(_, progress)| progress.contains("working"));
            working_since = working_since.or_else(|| Some(Instant::now())).filter(|_| is_working);
            if (self.has_releases && self.pack_charts()?)
                || without_work(&now) != without_work(&last)
                || (start.elapsed() < BEGINNING && self.is_behind()?)
                || now.values().any(|(_, progress)| progress.contains("busy"))
                || working_since.is_some_and(|since: Instant| LONG_WORK.contains(&since.elapsed()))
            {
                last = now;
                since = Instant::now();
            }
        }
        Ok(())
    }
}

/// Returns the revision of the source that Kustomizations of a scenario have by default.
pub(super) fn published(item: &Value) -> Option<&str> {
    let is_source = item["kind"] == "GitRepository" && text(item, "/metadata/name") == "repo";
    is_source.then(|| text(item, "/status/artifact/revision"))
}

/// Returns true if a Kustomization of the default source can begin with a revision and has not.
pub(super) fn has_not_attempted(item: &Value, revision: &str) -> bool {
    item["kind"] == "Kustomization"
        && item["spec"]["sourceRef"]["kind"] == "GitRepository"
        && text(item, "/spec/sourceRef/name") == "repo"
        && item["spec"]["suspend"] != true
        && text(item, "/metadata/deletionTimestamp").is_empty()
        && text(item, "/status/lastAttemptedRevision") != revision
        && ready_condition(item).is_none_or(|ready| ready["reason"] != "DependencyNotReady")
}

/// Returns what to compare of two reads: everything except that a Kustomization reconciles.
fn without_work(read: &BTreeMap<String, (String, String)>) -> Vec<(&str, &str, String)> {
    read.iter().map(|(id, (uid, progress))| (id.as_str(), uid.as_str(), progress.replace("working", ""))).collect()
}

/// Returns true if an object that was deleted stays: a claim that a Pod mounts, a volume that a claim binds, an owner whose
/// finalizer may not delete an object, or a Namespace with a Pod that a finalizer holds.
fn is_kept(item: &Value) -> bool {
    let since = chrono::DateTime::parse_from_rfc3339(text(item, "/metadata/deletionTimestamp"));
    let limit = match text(item, "/kind") {
        "PersistentVolumeClaim" | "PersistentVolume" => PROTECTED,
        // Nothing in its status tells of a Pod that keeps it.
        "Kustomization" | "HelmRelease" | "ResourceSet" | "Namespace" => REFUSED,
        _ => return false,
    };
    since.is_ok_and(|since| chrono::Utc::now().signed_duration_since(since) > limit)
}

/// Describes the work on an object: `busy` during its deletion, unless a finalizer holds it or its content, before the first
/// attempt of a Kustomization, and until it answers a request, `working` while it reconciles.
pub(super) fn progress(item: &Value) -> String {
    let terminating = !text(item, "/metadata/deletionTimestamp").is_empty();
    // No kubelet ends a Pod.
    let deleting = terminating && text(item, "/kind") != "Pod";
    let holds_content = |condition: &Value| {
        condition["type"] == "NamespaceFinalizersRemaining" && text(condition, "/message").contains(HOLD)
    };
    let held = terminating
        && (items(item, "/metadata/finalizers").any(|finalizer| finalizer == HOLD)
            || is_kept(item)
            || items(item, "/status/conditions").any(holds_content));
    let annotation = |key: &str| item.pointer("/metadata/annotations").and_then(|annotations| annotations.get(key));
    let is_off = annotation("fluxcd.controlplane.io/reconcile").is_some_and(|value| value == "disabled");
    let is_active = item.pointer("/spec/suspend") != Some(&Value::Bool(true)) && !is_off;
    let kustomization = text(item, "/kind") == "Kustomization" && is_active;
    let release = matches!(text(item, "/kind"), "HelmRelease" | "ResourceSet") && is_active;
    let ready = ready_condition(item);
    let unseen =
        release && !deleting && ready.is_none_or(|ready| ready["observedGeneration"] != item["metadata"]["generation"]);
    let untouched = kustomization && item.pointer("/status/conditions").is_none();
    let requested = annotation(REQUESTED);
    let unanswered =
        kustomization && requested.is_some_and(|at| item.pointer("/status/lastHandledReconcileAt") != Some(at));
    let busy = if held {
        "held"
    } else if (deleting && !release) || untouched || unanswered || unseen {
        "busy"
    } else {
        ""
    };
    // Its finalizer may never succeed.
    let is_uninstalled = deleting && release;
    let working = (kustomization || release) && ready.is_some_and(|ready| ready["status"] == "Unknown");
    let working = match (is_uninstalled, working) {
        (true, _) => "working terminating",
        (_, true) => "working",
        _ => "",
    };
    format!(
        "{busy}{working} {} {} {}",
        text(item, "/status/lastAttemptedRevision"),
        text(item, "/status/lastAppliedRevision"),
        item.pointer("/status/history/0/version").unwrap_or_default()
    )
}
