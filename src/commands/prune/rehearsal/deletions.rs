//! Dry-runs of deletions, as kustomize-controller sends them when it prunes and in its finalizer, and Helm in an upgrade.

use super::Rehearsal;
use super::actors::{Actors, Subject};
use crate::cluster::write::delete::delete;
use crate::cluster::{Failure, FailureKind};
use gitops_core::flux::apply::dry_run::DryRunResult;
use gitops_core::flux::simulation::rehearsal::PlannedDeletion;
use gitops_core::kubernetes::object::ObjectMetadata;

/// Number of dry-runs of a deletion whose object changes each time.
const ATTEMPTS: usize = 5;

impl Rehearsal<'_> {
    /// Returns the refusal of a deletion, or `None` if the server accepts it or the object is gone.
    pub(super) async fn delete(&self, deletion: &PlannedDeletion<'_>) -> Result<Option<DryRunResult>, Failure> {
        let Some(actors) = self.actors(&deletion.object.id) else { return Ok(None) };
        let subject = actors.subject(self.applier(&deletion.owner, &deletion.spec));
        self.delete_as(actors, &subject, deletion.object).await
    }

    /// As [`Self::delete`], by the subject of a controller.
    pub(super) async fn delete_as(
        &self,
        actors: &Actors,
        subject: &Subject,
        object: &ObjectMetadata,
    ) -> Result<Option<DryRunResult>, Failure> {
        let id = &object.id;
        let Some(kind) = self.snapshot.type_of(id) else { return Ok(None) };
        if let Some(missing) = actors.missing_right(subject, &["get", "delete"], kind, id).await {
            return Ok(Some(DryRunResult::Refused(missing)));
        }
        let sent = async || match subject.cluster.fetch_metadata(kind, id).await? {
            Some(live) if live.uid == object.uid => delete(&subject.cluster, kind, &live, true).await,
            _ => Ok(()),
        };
        let mut attempts = 1;
        let failure = loop {
            match self.request(id, sent()).await {
                Ok(()) => return Ok(None),
                Err(failure) if failure.kind == FailureKind::NotFound => return Ok(None),
                // The object changed between the GET and the DELETE, as a Kustomization does while it reconciles.
                Err(failure) if failure.kind == FailureKind::Conflict && attempts < ATTEMPTS => attempts += 1,
                Err(failure) if failure.kind == FailureKind::Conflict => return Err(failure),
                Err(failure) => break failure,
            }
        };
        self.error(subject, &failure).result().map(Some).ok_or(failure)
    }
}
