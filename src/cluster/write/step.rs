//! One deletion: read, judge, DELETE, and find out what became of it.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::delete::DeletionProgress;
use super::execute::{Prepared, Run};
use crate::cluster::read::fetch::is_path_segment;
use crate::cluster::{Failure, FailureKind};
use gitops_core::kubernetes::object::{ObjectMetadata, ResourceType};
use gitops_core::plan::Change;
use gitops_core::plan::outcome::{DeletionResult, Event};
use gitops_core::prune::reevaluation::{replaced, unsettled};

/// Number of attempts to delete an object that changes between its last read and the DELETE, or whose DELETE fails.
const ATTEMPTS: usize = 3;
/// Pause before another attempt after a failure, unless the server asks for a longer one.
const PAUSE: Duration = Duration::from_millis(200);
/// Time in which a DELETE without an answer is expected to take effect.
const GRACE: Duration = Duration::from_secs(2);

/// State of an object after a DELETE that failed or whose answer was lost.
enum Settled {
    Gone,
    Terminating,
    /// It still exists and is not terminating.
    Unchanged,
    /// It could not be read.
    Unreadable(Failure),
}

impl Run<'_, '_> {
    /// Deletes the first of these changes; the others are the rest of its wave. Nothing else runs between the last read of
    /// the object and its owners and the re-evaluation, so no older read can replace it.
    pub(super) async fn delete_one(&self, changes: &[&Change]) -> DeletionResult {
        let change = changes[0];
        let id = &change.object.id;
        let end = Instant::now() + self.timeout;
        let mut failed: Option<Failure> = None;
        for _ in 0..ATTEMPTS {
            let (kind, fresh) = match self.judge(changes).await {
                Ok(judged) => judged,
                // An earlier DELETE may have taken effect after all.
                Err(DeletionResult::Gone) if failed.is_some() => return DeletionResult::Deleted,
                Err(result) => return result,
            };
            if failed.is_some() && fresh.deletion_timestamp.is_some() {
                return self.finish(&kind, change, &fresh, end).await;
            }
            let sent = match self.prepare(change, &fresh).await {
                Ok(Prepared::Ready) => self.cluster.delete(&kind, &fresh, false).await,
                Ok(Prepared::Changed) => continue,
                Ok(Prepared::Stopped) => return DeletionResult::NotTried,
                Err(failure) => return DeletionResult::Failed(failure.to_string()),
            };
            let failure = match sent {
                Ok(()) => return self.finish(&kind, change, &fresh, end).await,
                Err(failure) if failure.kind == FailureKind::Conflict => {
                    failed.get_or_insert(failure);
                    continue;
                }
                Err(failure) => failure,
            };
            match self.settle(&kind, &fresh, &failure).await {
                // A refused DELETE deleted nothing: somebody else did.
                Settled::Gone if !is_temporary(&failure) && failed.is_none() => return DeletionResult::Gone,
                Settled::Gone => return DeletionResult::Deleted,
                Settled::Terminating => return self.finish(&kind, change, &fresh, end).await,
                Settled::Unreadable(read) => {
                    return DeletionResult::Unknown(format!("{failure}; reading {id} again failed too: {read}"));
                }
                Settled::Unchanged if !is_temporary(&failure) => return DeletionResult::Failed(failure.to_string()),
                Settled::Unchanged => {}
            }
            let pause = failure.retry_after.unwrap_or_default().max(PAUSE);
            failed = Some(failure);
            if Instant::now() + pause >= end {
                break;
            }
            sleep(pause).await;
        }
        match failed {
            Some(failure) if failure.kind == FailureKind::Conflict => DeletionResult::Skipped(unsettled(ATTEMPTS)),
            Some(failure) if failure.code.is_none() => DeletionResult::Unknown(format!(
                "{failure}; the object still exists, and the DELETE may still take effect"
            )),
            Some(failure) => DeletionResult::Failed(failure.to_string()),
            None => DeletionResult::Skipped(unsettled(ATTEMPTS)),
        }
    }

    /// Reads everything again that decides on an object, and decides. Returns its type and fresh metadata if it may be
    /// deleted.
    async fn judge(&self, changes: &[&Change]) -> Result<(ResourceType, ObjectMetadata), DeletionResult> {
        let change = changes[0];
        let id = &change.object.id;
        self.reading.read_content(&self.cluster, change).await.map_err(DeletionResult::Skipped)?;
        let kind = self.reading.resource_type(id).filter(|_| is_path_segment(&id.name));
        let kind = kind.ok_or_else(|| DeletionResult::Failed("its type is not served".to_owned()))?;
        let fresh = match self.cluster.fetch_metadata(&kind, id).await {
            Ok(Some(fresh)) => fresh,
            Ok(None) => return Err(DeletionResult::Gone),
            Err(failure) => return Err(DeletionResult::Failed(failure.to_string())),
        };
        if *fresh.uid != *change.object.uid {
            return Err(DeletionResult::Skipped(replaced()));
        }
        self.reading.update_object(id, &fresh);
        self.reading.read_owners(&self.cluster, change).await.map_err(DeletionResult::Skipped)?;
        match self.reading.reason_to_keep(changes) {
            Some(reason) => Err(DeletionResult::Skipped(reason)),
            None => Ok((kind, fresh)),
        }
    }

    /// Waits until a deletion that the server accepted has taken effect.
    async fn finish(
        &self,
        kind: &ResourceType,
        change: &Change,
        object: &ObjectMetadata,
        end: Instant,
    ) -> DeletionResult {
        let mut waiting = |finalizers: &[String]| self.report(Event::Waiting(&change.object, finalizers));
        match self.cluster.wait_until_gone(kind, object, end, &mut waiting).await {
            Ok(DeletionProgress::Gone) => DeletionResult::Deleted,
            Ok(DeletionProgress::Terminating(finalizers)) => DeletionResult::Terminating(finalizers),
            Ok(DeletionProgress::Unchanged) => DeletionResult::Failed(
                "the server accepted the deletion, but the object is not being deleted".to_owned(),
            ),
            Err(failure) => DeletionResult::Unknown(format!(
                "the server accepted the deletion, but the object cannot be read again: {failure}"
            )),
        }
    }

    /// Reads an object after a DELETE that failed. Without an answer, the DELETE may still take effect for a moment.
    async fn settle(&self, kind: &ResourceType, object: &ObjectMetadata, failure: &Failure) -> Settled {
        let end = Instant::now() + if failure.code.is_some() { Duration::ZERO } else { GRACE };
        let mut pause = Duration::from_millis(50);
        loop {
            let settled = match self.cluster.fetch_metadata(kind, &object.id).await {
                Ok(Some(current)) if current.uid == object.uid && current.deletion_timestamp.is_none() => {
                    Settled::Unchanged
                }
                Ok(Some(current)) if current.uid == object.uid => return Settled::Terminating,
                Ok(_) => return Settled::Gone,
                Err(failure) => Settled::Unreadable(failure),
            };
            let wait_for_read = matches!(settled, Settled::Unreadable(_)) && pause < GRACE;
            if Instant::now() >= end && !wait_for_read {
                return settled;
            }
            sleep(pause).await;
            pause *= 2;
        }
    }
}

/// Returns true if the same DELETE may succeed later: the server was busy, failed, or did not answer.
fn is_temporary(failure: &Failure) -> bool {
    failure.code.is_none_or(|code| code == 408 || code == 429 || code >= 500)
}
