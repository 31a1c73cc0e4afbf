//! Evidence of deletions in a cluster: Events, and the revisions that owners applied.

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;

use crate::flux::kinds;
use crate::kubernetes::object::{ObjectId, Resource, list_at, parse_time, text_at};
use crate::kubernetes::snapshot::Snapshot;
use crate::ownership::schemes::flux_kustomization::{GROUP, KIND};

/// An Event by a controller of Flux.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ControllerEvent {
    /// Time of the last occurrence.
    pub at: DateTime<Utc>,
    /// Name of the controller that sent it.
    pub by: String,
    /// Owner that it is about.
    pub owner: ObjectId,
    /// Revision that the owner was at.
    pub revision: Option<String>,
    pub reason: String,
    /// The line about the object.
    pub message: String,
}

impl ControllerEvent {
    /// Returns the Event with the line that says that an object is deleted; `None` if it does not say so. A release is
    /// uninstalled as a whole: `owners` are the owners that declared the object.
    ///
    /// Source: fluxcd/pkg/ssa `ChangeSet.String`, a line `KIND/NAMESPACE/NAME deleted` for each object; helm-controller v1.6.3
    /// `internal/reconcile/uninstall.go`, the reason `UninstallSucceeded`.
    pub fn about(self, object: &ObjectId, owners: impl IntoIterator<Item = ObjectId>) -> Option<Self> {
        let place = if object.namespace.is_empty() { String::new() } else { format!("{}/", object.namespace) };
        let wanted = format!("{}/{place}{} deleted", object.kind, object.name);
        let is_uninstall = self.reason == "UninstallSucceeded" && owners.into_iter().any(|owner| owner == self.owner);
        let line = self.message.lines().map(str::trim).find(|line| is_uninstall || *line == wanted)?;
        let message = line.to_owned();
        Some(Self { message, ..self })
    }
}

/// Last revision that an owner applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Applied {
    pub owner: ObjectId,
    pub revision: String,
    /// True if the revision has the commit of the removal; `null` if the checkout does not have the revision.
    pub has_commit: Option<bool>,
    /// Time at which the owner had applied a revision with that commit: the earliest that its status proves.
    pub first: Option<DateTime<Utc>>,
    /// True if the owner is suspended now.
    pub suspended: bool,
    pub ready: bool,
}

impl Applied {
    /// Reads what an owner applied. `has_commit` says if a revision has the commit of the removal, which came into the branch
    /// at `landed`.
    ///
    /// An entry of `status.history` stands for all revisions with equal builds and names the last of them, so that its first
    /// reconciliation can be older than the commit.
    /// Source: fluxcd/pkg/apis/meta `History.Upsert`.
    pub fn read(
        owner: &ObjectId,
        snapshot: &Snapshot,
        landed: Option<DateTime<Utc>>,
        has_commit: impl Fn(&str) -> Option<bool>,
    ) -> Option<Self> {
        let full = snapshot.resource(owner)?;
        let revision = full.text("/status/lastAppliedRevision")?.to_owned();
        let history = list_at(&full.content, "/status/history").iter();
        let with_commit = history.filter(|entry| has_commit(text_at(entry, "/metadata/revision")) == Some(true));
        let proven = with_commit.filter_map(|entry| {
            let [first, last] = ["/firstReconciled", "/lastReconciled"].map(|time| parse_time(text_at(entry, time)));
            first.filter(|first| landed.is_some_and(|landed| *first >= landed)).or(last)
        });
        let first = proven.min();
        Some(Self {
            has_commit: has_commit(&revision),
            first,
            suspended: full.flag("/spec/suspend"),
            ready: full.is_true("Ready"),
            owner: owner.clone(),
            revision,
        })
    }
}

/// Returns the cluster with nothing that keeps owners from applying a revision, and without the wanted objects. Older
/// revisions are played on it: what holds an owner today says nothing about what it held then.
pub fn unobstructed(snapshot: &Snapshot, is_wanted: impl Fn(&ObjectId) -> bool) -> Snapshot {
    let mut free = snapshot.clone();
    free.objects.retain(|object| !is_wanted(&object.id));
    free.resources.retain(|full| !is_wanted(&full.object.id));
    for full in &mut free.resources {
        if kinds::find(&full.object.id.group, &full.object.id.kind).is_some() {
            release(full);
        }
    }
    free
}

/// Makes an object of Flux ready, and resumes it.
fn release(full: &mut Resource) {
    let generation = full.object.generation;
    if let Some(spec) = full.content.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("suspend");
    }
    let Some(status) = full.content.get_mut("status").and_then(Value::as_object_mut) else { return };
    let ready = serde_json::json!([{"type": "Ready", "status": "True", "reason": "ReconciliationSucceeded",
        "observedGeneration": generation}]);
    status.insert("conditions".to_owned(), ready);
    status.insert("observedGeneration".to_owned(), generation.into());
    if full.object.id.is(GROUP, KIND) {
        // Nothing is compared with the builds of the past.
        status.remove("history");
        if let Some(applied) = status.get("lastAppliedRevision").cloned() {
            status.insert("lastAttemptedRevision".to_owned(), applied);
        }
    }
}
