//! Dry-runs of deletions, as kustomize-controller sends them when it prunes and in its finalizer.

use super::Rehearsal;
use crate::cluster::{Failure, FailureKind};
use gitops_core::flux::apply::dry_run::DryRunResult;
use gitops_core::flux::simulation::rehearsal::PlannedDeletion;

/// Number of dry-runs of a deletion whose object changes each time.
const ATTEMPTS: usize = 5;

impl Rehearsal<'_> {
    /// Returns the refusal of a deletion, or `None` if the server accepts it or the object is gone.
    pub(super) async fn delete(&self, deletion: &PlannedDeletion<'_>) -> Result<Option<DryRunResult>, Failure> {
        let id = &deletion.object.id;
        let Some(kind) = self.snapshot.resource_type(&id.group_kind()) else { return Ok(None) };
        let subject = self.actors.subject(&deletion.owner, &deletion.spec);
        if let Some(missing) = self.actors.missing_right(&subject, &["get", "delete"], kind, id).await {
            return Ok(Some(DryRunResult::Refused(missing)));
        }
        let sent = async || match subject.cluster.fetch_metadata(kind, id).await? {
            Some(live) if live.uid == deletion.object.uid => subject.cluster.delete(kind, &live, true).await,
            _ => Ok(()),
        };
        let mut attempts = 1;
        let failure = loop {
            match self.request(sent()).await {
                Ok(()) => return Ok(None),
                Err(failure) if failure.kind == FailureKind::NotFound => return Ok(None),
                // The object changed between the GET and the DELETE, as a Kustomization does while it reconciles.
                Err(failure) if failure.kind == FailureKind::Conflict && attempts < ATTEMPTS => attempts += 1,
                Err(failure) if failure.kind == FailureKind::Conflict => return Err(failure),
                Err(failure) => break failure,
            }
        };
        self.error(&subject, &failure).result().map(Some).ok_or(failure)
    }
}
