//! Dry-runs of deletions, as kustomize-controller sends them when it prunes and in its finalizer, and Helm in an upgrade.

use super::{Rehearsal, Sender};
use crate::cluster::write::delete::delete;
use crate::cluster::{Failure, FailureKind};
use gitops_core::flux::apply::dry_run::DryRunResult;
use gitops_core::flux::apply::question::KUBE_CONTROLLER_MANAGER;
use gitops_core::flux::guard;
use gitops_core::kubernetes::object::{ObjectMetadata, ResourceType};

/// Number of dry-runs of a deletion whose object changes each time.
const ATTEMPTS: usize = 5;

impl Rehearsal<'_> {
    /// Returns the answer of the server to a deletion. It is accepted if the object is gone.
    pub(super) async fn delete(&self, object: &ObjectMetadata, sender: &Sender<'_>) -> Result<DryRunResult, Failure> {
        let id = &object.id;
        let Some(kind) = self.snapshot.type_of(id) else { return Ok(DryRunResult::Accepted) };
        // The controllers of Kubernetes may delete everything.
        let is_of_flux = sender.controller.name != KUBE_CONTROLLER_MANAGER;
        if is_of_flux
            && let Some(missing) = sender.actors.missing_right(&sender.subject, &["get", "delete"], kind, id).await
        {
            return Ok(DryRunResult::Refused(missing));
        }
        let mut attempts = 1;
        let failure = loop {
            match self.request(id, sender.delete_same(kind, object)).await {
                // The guard asks who deletes, and these are not the rights of the controller.
                Ok(())
                    if is_of_flux
                        && !sender.subject.is_account
                        && !self.as_approved
                        && guard::may_refuse(self.snapshot, object) =>
                {
                    return Err(Failure::unreadable(
                        "the guard may refuse it to the controller, which you may not impersonate",
                    ));
                }
                Ok(()) => return Ok(DryRunResult::Accepted),
                Err(failure) if failure.kind == FailureKind::NotFound => return Ok(DryRunResult::Accepted),
                // The object changed between the GET and the DELETE, as a Kustomization does while it reconciles.
                Err(failure) if failure.kind == FailureKind::Conflict && attempts < ATTEMPTS => attempts += 1,
                Err(failure) if failure.kind == FailureKind::Conflict => return Err(failure),
                Err(failure) => break failure,
            }
        };
        match sender.error(&failure).result() {
            Some(DryRunResult::Refused(message)) if self.as_approved && guard::is_refusal(&message) => {
                Ok(DryRunResult::Accepted)
            }
            result => result.ok_or(failure),
        }
    }
}

impl Sender<'_> {
    /// Sends the dry-run, unless the object was deleted or replaced since the snapshot.
    async fn delete_same(&self, kind: &ResourceType, object: &ObjectMetadata) -> Result<(), Failure> {
        match self.subject.cluster.fetch_metadata(kind, &object.id).await? {
            Some(live) if live.uid == object.uid => delete(&self.subject.cluster, kind, &live, true).await,
            _ => Ok(()),
        }
    }
}
