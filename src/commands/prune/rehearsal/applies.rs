//! Dry-runs of every object that the Kustomizations apply, as kustomize-controller would send them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Rehearsal;
use super::actors::{Actors, Subject};
use super::answers::NAMED_OBJECTS;
use crate::cluster::write::dry_run::apply_dry_run;
use crate::cluster::{Applying, Failure, FailureKind};
use gitops_core::flux::apply::AppliedObject;
use gitops_core::flux::apply::dry_run::{
    DryRunResult, NEW_NAMESPACE, UnknownFieldRetries, foreign_finalizer, rename_for_creation,
};
use gitops_core::flux::apply::manifest::manifest_to_apply;
use gitops_core::flux::kustomize_controller;
use gitops_core::flux::simulation::rehearsal::PlannedDeletion;
use gitops_core::kubernetes::object::{ObjectId, ResourceType};
use gitops_core::text::join_limited;

/// How kustomize-controller applies.
const APPLYING: Applying = Applying { manager: kustomize_controller::NAME, is_strict: false };

/// Returns a warning that names the objects that are not compared because the keys to their content are not here.
pub(super) fn encrypted_warning(objects: &[AppliedObject]) -> Option<String> {
    let encrypted = objects.iter().filter(|applied| applied.built.undecrypted.is_some());
    let encrypted: BTreeSet<String> = encrypted.map(|applied| applied.built.shown_id().to_string()).collect();
    if encrypted.is_empty() {
        return None;
    }
    let reason = "encrypted, or name what has a hash of encrypted content";
    Some(format!("not compared, as they are {reason}: {}", join_limited(encrypted, NAMED_OBJECTS)))
}

impl Rehearsal<'_> {
    /// Returns the answer of the server to the apply of an object.
    pub(super) async fn apply(&self, applied: &AppliedObject) -> Result<DryRunResult, Failure> {
        let id = &applied.id;
        let known = DryRunResult::without_request(applied, self.snapshot);
        let is_in_new_namespace = matches!(&known, Some(DryRunResult::NotValidated(why)) if why == NEW_NAMESPACE);
        if let Some(known) = known.filter(|_| !is_in_new_namespace) {
            return Ok(known);
        }
        let Some(kind) = self.snapshot.type_of(id) else { return Ok(DryRunResult::Unchanged) };
        let Some(actors) = self.actors(id) else { return Ok(DryRunResult::Unchanged) };
        // The controller sends, and compares in, the version of the manifest.
        let kind = ResourceType { version: applied.built.version.as_str().into(), ..kind.clone() };
        let subject = actors.subject(self.applier(&applied.owner, &applied.spec));
        let exists = self.snapshot.object(id).is_some();
        let verbs: &[&'static str] = if exists { &["patch"] } else { &["patch", "create"] };
        if let Some(missing) = actors.missing_right(&subject, verbs, &kind, id).await {
            return Ok(DryRunResult::Refused(missing));
        }
        if is_in_new_namespace {
            return self.validate_elsewhere(applied, &kind, &subject).await;
        }
        let live = self.request(id, self.read(actors, &subject, &kind, id)).await?;
        let mut manifest = manifest_to_apply(applied);
        let failure = match self.send_apply(&subject, &kind, id, &mut manifest).await {
            Ok(merged) => {
                return Ok(DryRunResult::of_accepted(
                    applied,
                    self.snapshot,
                    &self.kustomize_controller,
                    live.as_ref(),
                    &merged,
                ));
            }
            Err(failure) => failure,
        };
        let error = self.error(&subject, &failure);
        let may_replace = live.is_some() && applied.forces(self.snapshot.object(id));
        if may_replace && error.is_refusal() && error.is_immutable_field() {
            return self.recreate(applied, &subject, &kind, manifest, failure).await;
        }
        let live = self.snapshot.object(id);
        if let Some(manager) = live
            .and_then(|live| self.kustomize_controller.flags.manager_taken_over_first(live))
            .filter(|_| error.is_refusal())
        {
            let first = format!("the controller takes over the fields of {manager} first, and may get another answer");
            return Err(Failure { message: format!("{}; {first}", failure.message), ..failure });
        }
        error.result().ok_or(failure)
    }

    /// Returns the live object. The service account may lack the right to read it, and applies all the same.
    async fn read(
        &self,
        actors: &Actors,
        subject: &Subject,
        kind: &ResourceType,
        id: &ObjectId,
    ) -> Result<Option<Value>, Failure> {
        match subject.cluster.fetch_json(kind, id).await {
            Err(failure) if failure.kind == FailureKind::Forbidden && subject.is_account => {
                actors.cluster.fetch_json(kind, id).await
            }
            answer => answer,
        }
    }

    /// Applies without the fields that a built-in kind does not know.
    async fn send_apply(
        &self,
        subject: &Subject,
        kind: &ResourceType,
        id: &ObjectId,
        manifest: &mut Value,
    ) -> Result<Value, Failure> {
        let mut retries =
            UnknownFieldRetries::new(kind, self.snapshot.of_cluster(id.cluster.as_ref()).unwrap_or(self.snapshot));
        loop {
            match self.request(id, apply_dry_run(&subject.cluster, kind, id, manifest, APPLYING)).await {
                Err(failure) if retries.should_retry(manifest, self.error(subject, &failure)) => {}
                answer => return answer,
            }
        }
    }

    /// Returns the result of deleting the object and creating it again.
    async fn recreate(
        &self,
        applied: &AppliedObject,
        subject: &Subject,
        kind: &ResourceType,
        mut manifest: Value,
        refusal: Failure,
    ) -> Result<DryRunResult, Failure> {
        let id = &applied.id;
        if let Some(object) = self.snapshot.object(id) {
            let deletion = PlannedDeletion { owner: applied.owner.clone(), spec: applied.spec.clone(), object };
            if let Some(refused) = self.delete(&deletion).await? {
                return Ok(refused);
            }
            if let Some(finalizer) = foreign_finalizer(object) {
                return Ok(DryRunResult::HeldByFinalizer(finalizer.to_owned()));
            }
        }
        let other = rename_for_creation(id, &mut manifest);
        match self.send_apply(subject, kind, &other, &mut manifest).await {
            Ok(_) => Ok(DryRunResult::Recreated(refusal.message)),
            Err(failure) if self.error(subject, &failure).is_refusal() => {
                Ok(DryRunResult::DeletedOnly(failure.message))
            }
            Err(failure) => Err(failure),
        }
    }

    /// Validates an object of a namespace that does not exist yet, in the namespace of its Kustomization. Only an invalid
    /// object is refused everywhere: policies and quotas of the new namespace are not known.
    async fn validate_elsewhere(
        &self,
        applied: &AppliedObject,
        kind: &ResourceType,
        subject: &Subject,
    ) -> Result<DryRunResult, Failure> {
        if applied.id.cluster.is_some() {
            // The namespace of its Kustomization is one of the cluster that has the Kustomization.
            return Ok(DryRunResult::NotValidated(NEW_NAMESPACE.to_owned()));
        }
        let mut manifest = manifest_to_apply(applied);
        let id = ObjectId { namespace: applied.owner.namespace.as_str().into(), ..applied.id.clone() };
        let other = rename_for_creation(&id, &mut manifest);
        manifest["metadata"]["namespace"] = json!(other.namespace);
        match self.send_apply(subject, kind, &other, &mut manifest).await {
            Err(failure) if failure.kind == FailureKind::Invalid => Ok(DryRunResult::Refused(failure.message)),
            _ => Ok(DryRunResult::NotValidated(NEW_NAMESPACE.to_owned())),
        }
    }
}
