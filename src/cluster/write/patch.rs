//! Sends the patch that suspends or resumes one object, and computes it again when somebody else changed the object first.

use std::time::Duration;

use clap::ValueEnum;
use http::{Request, header};
use tokio::time::sleep;

use crate::cluster::connection::Cluster;
use crate::cluster::http::failure::{Failure, FailureKind};
use crate::cluster::read::fetch::object_path;
use crate::cluster::read::list::full_object;
use gitops_core::flux::suspension::FIELD_MANAGER;
use gitops_core::flux::suspension::patch::{PatchDecision, PatchRefusal, SuspensionPatch};
use gitops_core::kubernetes::object::{Resource, ResourceType};

/// Number of attempts against conflicts, and the pause after the first. Each pause is twice the one before, so the last
/// attempt comes after six seconds.
const ATTEMPTS: u32 = 8;
const PAUSE: Duration = Duration::from_millis(50);

/// Result of the change of one object.
#[derive(Debug)]
pub enum PatchResult {
    /// The object was as requested.
    Unchanged(Box<Resource>),
    /// The object was changed, or would be without the dry-run.
    Done {
        /// Object as it was read.
        before: Box<Resource>,
        /// Object in the answer of the server, or with the patch if nothing was sent.
        after: Box<Resource>,
        patch: SuspensionPatch,
    },
    Refused(PatchRefusal),
    /// The object does not exist any more.
    Missing,
    Failed(Failure),
}

/// Kind of dry-run; the values of `--dry-run`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DryRun {
    /// Change the objects for real.
    #[default]
    None,
    /// Send nothing to the server.
    Client,
    /// Send the patch as a server-side dry-run.
    Server,
}

/// Sends the patch that `decide` computes for an object. After a conflict, the object is read and the patch computed
/// again, up to a limit.
pub(crate) async fn change(
    cluster: &Cluster,
    kind: &ResourceType,
    read: Resource,
    dry_run: DryRun,
    decide: impl Fn(&Resource) -> PatchDecision,
) -> PatchResult {
    let mut before = Box::new(read);
    let mut attempt = 0;
    loop {
        let patch = match decide(&before) {
            PatchDecision::Unchanged => return PatchResult::Unchanged(before),
            PatchDecision::Refused(refusal) => return PatchResult::Refused(refusal),
            PatchDecision::Patch(patch) => patch,
        };
        if dry_run == DryRun::Client {
            return PatchResult::Done { after: Box::new(patch.applied_to(&before)), before, patch };
        }
        let failure = match send_patch(cluster, kind, &before, &patch, dry_run).await {
            Ok(after) => return PatchResult::Done { before, after: Box::new(after), patch },
            Err(failure) if failure.kind == FailureKind::NotFound => return PatchResult::Missing,
            Err(failure) => failure,
        };
        attempt += 1;
        if failure.kind != FailureKind::Conflict || attempt == ATTEMPTS {
            return PatchResult::Failed(failure);
        }
        sleep(PAUSE * 2u32.pow(attempt - 1)).await;
        match cluster.fetch(kind, &before.object.id).await {
            Ok(Some(now)) => *before = now,
            Ok(None) => return PatchResult::Missing,
            Err(failure) => return PatchResult::Failed(failure),
        }
    }
}

async fn send_patch(
    cluster: &Cluster,
    kind: &ResourceType,
    before: &Resource,
    patch: &SuspensionPatch,
    dry_run: DryRun,
) -> Result<Resource, Failure> {
    let path = object_path(kind, &before.object.id);
    let dry_run = if dry_run == DryRun::Server { "&dryRun=All" } else { "" };
    let request = Request::patch(format!("{path}?fieldManager={FIELD_MANAGER}{dry_run}"))
        .header(header::CONTENT_TYPE, "application/merge-patch+json")
        .header(header::ACCEPT, "application/json")
        .body(patch.body.to_string().into_bytes())
        .map_err(Failure::unreadable)?;
    let response = cluster.send(request).await?;
    let text = std::str::from_utf8(&response.body).map_err(Failure::unreadable)?;
    full_object(text, kind, &before.object.id).map_err(Failure::unreadable)
}
