//! Changes one object by a JSON merge patch that was decided from the object as it was read, and decides anew when
//! somebody else was faster.

use std::time::Duration;

use http::{Request, header};
use tokio::time::{Instant, sleep};

use crate::cluster::read::fetch::object_path;
use crate::cluster::read::list::full_object;
use crate::cluster::read::metadata::Interner;
use crate::cluster::{Cluster, Failure, FailureKind};
use gitops_core::flux::suspension::FIELD_MANAGER;
use gitops_core::flux::suspension::patch::{MetadataChange, PatchStep};
use gitops_core::flux::suspension::wait;
use gitops_core::flux::suspension::wait::WaitProgress;
use gitops_core::kubernetes::object::{ObjectId, Resource, ResourceType};

/// How often a patch is tried against writers who are faster, and the first pause between two tries; each pause is twice
/// the one before, so that the last try comes after six seconds.
const TRIES: u32 = 8;
const PAUSE: Duration = Duration::from_millis(50);

/// How often an object is looked at while waiting, at the least.
const SLOWEST: Duration = Duration::from_secs(1);

/// What became of one object.
#[derive(Debug)]
pub enum PatchResult {
    /// It was as it should be.
    Unchanged(Box<Resource>),
    /// It was changed, or would be by a dry run.
    Done {
        /// As it was read.
        before: Box<Resource>,
        /// As the server answered; the same as `before` when nothing was sent.
        after: Box<Resource>,
        /// What was sent.
        change: MetadataChange,
    },
    /// It must not be changed.
    Refused {
        /// Why; may hold text written by others.
        reason: String,
        /// What to do instead.
        hint: String,
    },
    /// It does not exist any more.
    Missing,
    /// The server did not do it.
    Failed(Failure),
}

/// Whether a change is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Made.
    Real,
    /// The server checks it as if.
    ServerDryRun,
    /// Nothing is sent.
    ClientDryRun,
}

impl Cluster {
    /// Does what `decide` says of an object. When the object changed since it was read it is read again and decided
    /// again, a limited number of times.
    pub async fn change(
        &self,
        kind: &ResourceType,
        read: Resource,
        mode: Mode,
        decide: impl Fn(&Resource) -> PatchStep,
    ) -> PatchResult {
        let mut before = Box::new(read);
        let mut attempt = 0;
        loop {
            let change = match decide(&before) {
                PatchStep::Unchanged => return PatchResult::Unchanged(before),
                PatchStep::Refused { reason, hint } => return PatchResult::Refused { reason, hint },
                PatchStep::Patch(change) => change,
            };
            if mode == Mode::ClientDryRun {
                return PatchResult::Done { after: before.clone(), before, change };
            }
            let failure = match self.patch(kind, &before, &change, mode).await {
                Ok(after) => return PatchResult::Done { before, after: Box::new(after), change },
                Err(failure) if failure.kind == FailureKind::Missing => return PatchResult::Missing,
                Err(failure) => failure,
            };
            attempt += 1;
            if failure.kind != FailureKind::Conflict || attempt == TRIES {
                return PatchResult::Failed(failure);
            }
            sleep(PAUSE * 2u32.pow(attempt - 1)).await;
            match self.fetch(kind, &before.object.id).await {
                Ok(Some(now)) => *before = now,
                Ok(None) => return PatchResult::Missing,
                Err(failure) => return PatchResult::Failed(failure),
            }
        }
    }

    /// Waits until a reconcile that was asked for is done, or can't be; [`WaitProgress::Pending`] when the time is up.
    ///
    /// Fails when the object cannot be read any more.
    pub async fn wait_until_reconciled(
        &self,
        kind: &ResourceType,
        id: &ObjectId,
        token: &str,
        limit: Duration,
    ) -> Result<WaitProgress, Failure> {
        let end = Instant::now() + limit;
        let mut pause = PAUSE;
        loop {
            let Some(now) = self.fetch(kind, id).await? else {
                return Ok(WaitProgress::Superseded("it does not exist any more"));
            };
            let progress = wait::progress(&now, token);
            if !matches!(progress, WaitProgress::Pending(_)) || Instant::now() + pause > end {
                return Ok(progress);
            }
            sleep(pause).await;
            pause = (pause * 2).min(SLOWEST);
        }
    }

    async fn patch(
        &self,
        kind: &ResourceType,
        before: &Resource,
        change: &MetadataChange,
        mode: Mode,
    ) -> Result<Resource, Failure> {
        let path = object_path(kind, &before.object.id);
        let dry_run = if mode == Mode::ServerDryRun { "&dryRun=All" } else { "" };
        let request = Request::patch(format!("{path}?fieldManager={FIELD_MANAGER}{dry_run}"))
            .header(header::CONTENT_TYPE, "application/merge-patch+json")
            .header(header::ACCEPT, "application/json")
            .body(change.body.to_string().into_bytes())
            .map_err(Failure::unreadable)?;
        let response = self.send(request).await?;
        let text = std::str::from_utf8(&response.body).map_err(Failure::unreadable)?;
        full_object(text, kind, &mut Interner::default()).map_err(Failure::unreadable)
    }
}
