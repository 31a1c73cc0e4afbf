//! Requests of a step to the API server, which people get as commands of kubectl, and objects that a step waits for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use http::{Request, header};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::cluster::read::fetch::object_path;
use crate::cluster::write::delete::delete;
use crate::cluster::{Cluster, Failure, FailureKind, Interrupts};
use crate::error::{Error, Result};
use crate::output::steps::kubectl::{kubectl_name, patches_hold};
use gitops_core::flux::handover::{FIELD_MANAGER, Hold};
use gitops_core::flux::source::matching::commit_of;
use gitops_core::kubernetes::object::{ObjectId, text_at};
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::schemes::flux_kustomization::KIND;

/// Pause between two reads of what a step waits for.
const PAUSE: Duration = Duration::from_secs(1);

/// One request to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Sets the field of a hold.
    Set(ObjectId, Hold),
    /// Removes the field of a hold.
    Unset(ObjectId, Hold),
    Delete(ObjectId),
}

impl Act {
    pub(crate) fn object(&self) -> &ObjectId {
        match self {
            Self::Set(id, _) | Self::Unset(id, _) | Self::Delete(id) => id,
        }
    }

    /// Returns the command of kubectl.
    pub(crate) fn command(&self) -> String {
        match self {
            Self::Delete(id) => format!("kubectl delete {}", kubectl_name(id)),
            Self::Set(id, hold) => patches_hold(id, *hold, true),
            Self::Unset(id, hold) => patches_hold(id, *hold, false),
        }
    }

    /// Carries it out on the object that the plan is about.
    ///
    /// Fails if that has gone, is another one of the same name, or the API server refuses.
    pub(crate) async fn carry_out(&self, cluster: &Cluster, planned: &Snapshot) -> Result<()> {
        let id = self.object();
        let failed = |failure: Failure| Error::failed(format!("{id}: {failure}"));
        let Some(kind) = planned.type_of(id) else { return Err(Error::failed(format!("{id} has no type"))) };
        let live = cluster
            .fetch_metadata(kind, id)
            .await
            .map_err(failed)?
            .filter(|live| planned.object(id).is_some_and(|planned| planned.uid == live.uid));
        let Some(live) = live else {
            return Err(Error::refused(format!("{id} is not the object that was planned with")));
        };
        let set = match self {
            Self::Delete(_) => return delete(cluster, kind, &live, false).await.map_err(failed),
            Self::Set(_, hold) => hold.field().merge_patch(true),
            Self::Unset(_, hold) => hold.field().merge_patch(false),
        };
        let request = Request::patch(format!("{}?fieldManager={FIELD_MANAGER}", object_path(kind, id)))
            .header(header::CONTENT_TYPE, "application/merge-patch+json")
            .header(header::ACCEPT, "application/json")
            .body(set.into_bytes())
            .map_err(|error| Error::failed(error.to_string()))?;
        cluster.send(request).await.map(drop).map_err(failed)
    }
}

/// Objects and settings that a step waits for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Awaited {
    /// Objects that must be gone, with their uids.
    pub(crate) gone: BTreeMap<ObjectId, Box<str>>,
    /// Settings that must be there.
    pub(crate) set: BTreeMap<ObjectId, Hold>,
    /// HelmReleases that must have a later revision of their release than this one: their upgrade by another chart changes no generation.
    pub(crate) upgraded: BTreeMap<ObjectId, u64>,
    /// Owners of Flux that must be ready for what they are now.
    pub(crate) applied: BTreeSet<ObjectId>,
    /// Commit that Kustomizations of `applied` must have applied.
    pub(crate) commit: Option<String>,
}

impl Awaited {
    /// Returns the part with these objects, and the rest.
    pub(crate) fn split(&self, is_first: impl Fn(&ObjectId) -> bool) -> (Self, Self) {
        let (gone, other_gone) = self.gone.clone().into_iter().partition(|(id, _)| is_first(id));
        let (set, other_set) = self.set.clone().into_iter().partition(|(id, _)| is_first(id));
        (Self { gone, set, ..Self::default() }, Self { gone: other_gone, set: other_set, ..self.clone() })
    }

    /// Returns what is still missing, for people; `None` once everything is there.
    async fn missing(&self, cluster: &Cluster, planned: &Snapshot) -> Result<Option<String>, Failure> {
        for (id, uid) in &self.gone {
            let Some(kind) = planned.type_of(id) else { continue };
            let live = match cluster.fetch_metadata(kind, id).await {
                // Its definition is gone.
                Err(failure) if failure.kind == FailureKind::NotFound => None,
                other => other?,
            };
            if let Some(live) = live.filter(|live| live.uid == *uid) {
                let waits: Vec<&str> = live.finalizers.iter().map(|finalizer| &**finalizer).collect();
                return Ok(Some(match (live.deletion_timestamp, &waits[..]) {
                    (None, _) => format!("{id} to be deleted"),
                    (Some(_), []) => format!("{id} to go"),
                    (Some(_), finalizers) => format!("{id} to go, which has {}", finalizers.join(", ")),
                }));
            }
        }
        for (id, hold) in &self.set {
            let Some(kind) = planned.type_of(id) else { continue };
            let live = cluster.fetch_json(kind, id).await?;
            let field = hold.field();
            if live.is_some_and(|live| !field.is_set(&live)) {
                return Ok(Some(format!("`{field}` on {id}")));
            }
        }
        for (id, revision) in &self.upgraded {
            let Some(kind) = planned.type_of(id) else { continue };
            let live = cluster.fetch_json(kind, id).await?;
            if live.is_some_and(|live| release_revision(&live) <= Some(*revision)) {
                return Ok(Some(format!("{id} to upgrade its release, which has revision {revision}")));
            }
        }
        for id in &self.applied {
            let Some(kind) = planned.type_of(id) else { continue };
            let live = cluster.fetch_json(kind, id).await?;
            if let Some(missing) = self.unapplied(id, live.as_ref()) {
                return Ok(Some(missing));
            }
        }
        Ok(None)
    }

    /// Returns what an owner has not done yet, for people. Nothing is expected of one that is suspended.
    fn unapplied(&self, id: &ObjectId, live: Option<&Value>) -> Option<String> {
        let Some(live) = live else { return Some(format!("{id} to be created")) };
        let is_off = [Hold::Suspend, Hold::Disable].iter().any(|hold| hold.field().is_set(live));
        let revision = text_at(live, "/status/lastAppliedRevision");
        let wanted = self.commit.as_deref().filter(|_| &*id.kind == KIND && !is_off);
        if let Some(wanted) = wanted.filter(|wanted| commit_of(revision) != Some(wanted)) {
            return Some(format!("{id} to apply {wanted}"));
        }
        let conditions = live.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
        let ready = conditions.filter(|condition| condition["type"] == "Ready").find(|condition| {
            condition["status"] == "True" && condition["observedGeneration"] == live["metadata"]["generation"]
        });
        (ready.is_none() && !is_off).then(|| format!("{id} to be ready"))
    }

    /// Waits until everything is there. `waiting` gets what is missing whenever that changes.
    ///
    /// Fails after the time limit, and after Ctrl-C.
    pub(crate) async fn wait(
        &self,
        cluster: &Cluster,
        planned: &Snapshot,
        limit: Duration,
        waiting: impl FnMut(&str),
    ) -> Result<()> {
        wait_for(limit, waiting, async || self.missing(cluster, planned).await).await
    }
}

/// Returns the revision of the last release of a HelmRelease.
pub(super) fn release_revision(release: &Value) -> Option<u64> {
    release.pointer("/status/history/0/version").and_then(Value::as_u64)
}

/// A wait with a time limit. It knows when something else is missing than before, so that this can be shown once.
pub(super) struct Wait {
    interrupts: Interrupts,
    end: Instant,
    last: String,
}

impl Wait {
    pub(super) fn new(limit: Duration) -> Self {
        Self { interrupts: Interrupts::new(), end: Instant::now() + limit, last: String::new() }
    }

    /// Returns true if something else was missing before.
    pub(super) fn is_new(&mut self, missing: &str) -> bool {
        let is_new = missing != self.last;
        missing.clone_into(&mut self.last);
        is_new
    }

    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// Pauses before the next look. Returns false after Ctrl-C.
    pub(super) async fn pause(&mut self, pause: Duration) -> bool {
        tokio::select! {
            () = sleep(pause) => true,
            () = self.interrupts.next() => false,
        }
    }
}

/// Waits until nothing is missing. `waiting` gets what is missing whenever that changes.
///
/// Fails after the time limit, and after Ctrl-C.
pub(crate) async fn wait_for(
    limit: Duration,
    mut waiting: impl FnMut(&str),
    mut missing: impl AsyncFnMut() -> Result<Option<String>, Failure>,
) -> Result<()> {
    let mut wait = Wait::new(limit);
    loop {
        // A read that fails is repeated.
        let missing = match missing().await {
            Ok(None) => return Ok(()),
            Ok(Some(missing)) => missing,
            Err(failure) => format!("an answer of the API server: {failure}"),
        };
        if wait.is_new(&missing) {
            waiting(&missing);
        }
        if wait.is_over() {
            return Err(Error::failed(format!("still waiting for {missing} after {} s", limit.as_secs())));
        }
        if !wait.pause(PAUSE).await {
            return Err(Error::interrupted(format!("interrupted while waiting for {missing}")));
        }
    }
}
