//! Readiness of an object that was read in full, by the rules that Flux and kubectl's tools share (kstatus).

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::scheme::owner_status::condition;
use crate::kubernetes::object::ObjectMetadata;

/// Readiness of an object. Messages of conditions were written by others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "status", content = "reason", rename_all = "kebab-case")]
pub enum Readiness {
    /// The status matches the spec, or the kind has no status.
    Ready,
    /// The controller has not finished.
    InProgress(String),
    /// The controller gave up, or needs help.
    Failed(String),
    /// It has a deletion timestamp.
    Terminating,
}

impl Readiness {
    /// Returns true if the status matches the spec.
    pub fn is_ready(&self) -> bool {
        *self == Self::Ready
    }
}

/// Content of an object. Missing numbers and texts have the defaults of the API server.
struct Content<'a>(&'a Value);

impl<'a> Content<'a> {
    fn number(&self, pointer: &str) -> Option<i64> {
        self.0.pointer(pointer).and_then(Value::as_i64)
    }

    fn count(&self, pointer: &str) -> i64 {
        self.number(pointer).unwrap_or_default()
    }

    fn text(&self, pointer: &str) -> &'a str {
        self.0.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    fn is(&self, kind: &str, status: &str) -> bool {
        condition(self.0, kind).is_some_and(|condition| condition.status == status)
    }

    fn message(&self, kind: &str) -> String {
        let text =
            condition(self.0, kind).map(|found| if found.message.is_empty() { found.reason } else { found.message });
        text.unwrap_or_default().to_owned()
    }
}

pub fn ready(object: &ObjectMetadata, content: &Value) -> Readiness {
    if object.deletion_timestamp.is_some() {
        return Readiness::Terminating;
    }
    let content = Content(content);
    if let Some(observed) = content.number("/status/observedGeneration")
        && observed != object.generation
    {
        return in_progress(format!("generation {} is not observed yet", object.generation));
    }
    if content.is("Stalled", "True") {
        return Readiness::Failed(content.message("Stalled"));
    }
    if content.is("Reconciling", "True") {
        return in_progress(content.message("Reconciling"));
    }
    match (&*object.id.group, &*object.id.kind) {
        ("apps", "Deployment") => deployment(&content),
        ("apps", "ReplicaSet") => replica_set(&content),
        ("apps", "StatefulSet") => stateful_set(&content),
        ("apps", "DaemonSet") => daemon_set(&content),
        ("batch", "Job") => job(&content),
        ("", "Pod") => pod(&content),
        ("", "PersistentVolumeClaim") => claim(&content),
        ("", "Service") => service(&content),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition(&content),
        _ => by_condition(&content),
    }
}

fn in_progress(reason: impl Into<String>) -> Readiness {
    Readiness::InProgress(reason.into())
}

/// Returns `InProgress` with the first number that is too low, as `name: have/want`.
fn compare(rows: &[(&str, i64, i64)]) -> Readiness {
    let lacking = rows.iter().find(|(_, have, want)| have < want);
    lacking.map_or(Readiness::Ready, |(name, have, want)| in_progress(format!("{name}: {have}/{want}")))
}

fn by_condition(content: &Content<'_>) -> Readiness {
    let kind = if condition(content.0, "Ready").is_some() { "Ready" } else { "Available" };
    match condition(content.0, kind) {
        Some(found) if found.status != "True" => in_progress(content.message(kind)),
        _ => Readiness::Ready,
    }
}

fn deployment(content: &Content<'_>) -> Readiness {
    if condition(content.0, "Progressing").is_some_and(|found| found.reason == "ProgressDeadlineExceeded") {
        return Readiness::Failed(content.message("Progressing"));
    }
    let want = content.number("/spec/replicas").unwrap_or(1);
    let (all, updated) = (content.count("/status/replicas"), content.count("/status/updatedReplicas"));
    match compare(&[
        ("replicas", all, want),
        ("updated", updated, want),
        ("available", content.count("/status/availableReplicas"), updated),
        ("ready", content.count("/status/readyReplicas"), want),
    ]) {
        Readiness::Ready if all > want => in_progress(format!("old replicas: {}", all - want)),
        Readiness::Ready if content.is("Available", "False") => in_progress(content.message("Available")),
        other => other,
    }
}

fn replica_set(content: &Content<'_>) -> Readiness {
    if content.is("ReplicaFailure", "True") {
        return in_progress(content.message("ReplicaFailure"));
    }
    let want = content.number("/spec/replicas").unwrap_or(1);
    let all = content.count("/status/replicas");
    match compare(&[
        ("labelled", content.count("/status/fullyLabeledReplicas"), want),
        ("available", content.count("/status/availableReplicas"), want),
        ("ready", content.count("/status/readyReplicas"), want),
    ]) {
        Readiness::Ready if all > want => in_progress(format!("replicas: {all}/{want}")),
        other => other,
    }
}

fn stateful_set(content: &Content<'_>) -> Readiness {
    if content.text("/spec/updateStrategy/type") == "OnDelete" {
        return Readiness::Ready;
    }
    let want = content.number("/spec/replicas").unwrap_or(1);
    let all = content.count("/status/replicas");
    let ready = compare(&[("replicas", all, want), ("ready", content.count("/status/readyReplicas"), want)]);
    if ready != Readiness::Ready {
        return ready;
    }
    if all > want {
        return in_progress(format!("replicas: {all}/{want}"));
    }
    let updated = content.count("/status/updatedReplicas");
    if let Some(partition) = content.number("/spec/updateStrategy/rollingUpdate/partition").filter(|number| *number > 0)
    {
        return compare(&[("updated", updated, want.saturating_sub(partition))]);
    }
    if content.text("/status/currentRevision") != content.text("/status/updateRevision") {
        return in_progress(format!("updated: {updated}/{want}"));
    }
    compare(&[("current", content.count("/status/currentReplicas"), want)])
}

fn daemon_set(content: &Content<'_>) -> Readiness {
    if content.number("/status/observedGeneration").is_none() {
        return in_progress("not observed yet");
    }
    let want = content.count("/status/desiredNumberScheduled");
    let on_delete = content.text("/spec/updateStrategy/type") == "OnDelete";
    let updated = if on_delete { want } else { content.count("/status/updatedNumberScheduled") };
    compare(&[
        ("scheduled", content.count("/status/currentNumberScheduled"), want),
        ("updated", updated, want),
        ("available", content.count("/status/numberAvailable"), want),
        ("ready", content.count("/status/numberReady"), want),
    ])
}

/// A Job that has started counts as ready: waiting for its end would block.
fn job(content: &Content<'_>) -> Readiness {
    if content.is("Failed", "True") {
        return Readiness::Failed(content.message("Failed"));
    }
    let started = !content.text("/status/startTime").is_empty() || content.is("Complete", "True");
    if started || content.is("Suspended", "True") { Readiness::Ready } else { in_progress("not started yet") }
}

fn pod(content: &Content<'_>) -> Readiness {
    let statuses = content.0.pointer("/status/containerStatuses").and_then(Value::as_array);
    let waiting = statuses.into_iter().flatten().filter_map(|status| status.pointer("/state/waiting/reason")?.as_str());
    let broken =
        waiting.into_iter().find(|reason| ["CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull"].contains(reason));
    match (content.text("/status/phase"), broken) {
        ("Succeeded", _) => Readiness::Ready,
        ("Failed", _) => Readiness::Failed(content.text("/status/reason").to_owned()),
        (_, Some(reason)) => Readiness::Failed(reason.to_owned()),
        ("Running", None) if content.is("Ready", "True") => Readiness::Ready,
        ("Pending", None) if content.is("PodScheduled", "False") => in_progress(content.message("PodScheduled")),
        (phase, None) => in_progress(if phase.is_empty() { "not started yet" } else { phase }),
    }
}

fn claim(content: &Content<'_>) -> Readiness {
    match content.text("/status/phase") {
        "Bound" => Readiness::Ready,
        "Lost" => Readiness::Failed("its volume is lost".to_owned()),
        phase => in_progress(format!("not bound: {phase}")),
    }
}

fn service(content: &Content<'_>) -> Readiness {
    let ingress = content.0.pointer("/status/loadBalancer/ingress").and_then(Value::as_array);
    match content.text("/spec/type") {
        "LoadBalancer" if ingress.is_none_or(Vec::is_empty) => in_progress("no load balancer address yet"),
        _ => Readiness::Ready,
    }
}

fn definition(content: &Content<'_>) -> Readiness {
    if content.is("NamesAccepted", "False") {
        return Readiness::Failed(content.message("NamesAccepted"));
    }
    match condition(content.0, "Established") {
        Some(found) if found.status == "True" => Readiness::Ready,
        Some(found) if found.status == "False" && found.reason != "Installing" => {
            Readiness::Failed(content.message("Established"))
        }
        _ => in_progress("not established yet"),
    }
}
