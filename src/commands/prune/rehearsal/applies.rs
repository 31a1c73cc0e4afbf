//! Dry-runs of applies, as kustomize-controller, helm-controller and flux-operator would send them.

use serde_json::{Value, json};

use super::{Rehearsal, Sender};
use crate::cluster::read::snapshot::read_pods;
use crate::cluster::write::dry_run::{apply_dry_run, create_dry_run};
use crate::cluster::{Applying, Failure, FailureKind};
use gitops_core::flux::apply::AppliedObject;
use gitops_core::flux::apply::dry_run::{
    DryRunResult, UnknownFieldRetries, is_freed_by_deletion, is_in_new_namespace, rename_for_creation,
    without_long_values,
};
use gitops_core::flux::apply::manifest::manifest_to_apply;
use gitops_core::flux::apply::question::Question;
use gitops_core::flux::apply::update::{compare_applied, is_applied_already};
use gitops_core::flux::controllers::foreign_finalizers;
use gitops_core::kubernetes::deletion::finalizers::protection;
use gitops_core::kubernetes::deletion::volumes::claim_of;
use gitops_core::kubernetes::object::{ObjectId, ObjectMetadata, ResourceType, text_at};
use gitops_core::ownership::schemes::flux_operator;

impl Rehearsal<'_> {
    /// Returns the answer of the server to the apply of an object by kustomize-controller.
    pub(super) async fn apply(&self, applied: &AppliedObject, sender: &Sender<'_>) -> Result<DryRunResult, Failure> {
        let id = &applied.id;
        let Some(kind) = self.snapshot.type_of(id) else { return Ok(DryRunResult::of_new_kind()) };
        // The controller sends, and compares in, the version of the manifest.
        let kind = ResourceType { version: applied.built.version.as_str().into(), ..kind.clone() };
        let object = self.snapshot.object(id);
        let verbs: &[&'static str] = if object.is_some() { &["patch"] } else { &["patch", "create"] };
        if let Some(missing) = sender.actors.missing_right(&sender.subject, verbs, &kind, id).await {
            return Ok(DryRunResult::Refused(missing));
        }
        if is_in_new_namespace(id, self.snapshot) {
            return self.validate_elsewhere(applied, &kind, sender).await;
        }
        let live = self.request(id, sender.read(&kind, id)).await?;
        let mut manifest = manifest_to_apply(applied);
        let failure = match self.send_apply(sender, &kind, id, &mut manifest).await {
            Ok(merged) => {
                let (controller, live) = (&self.kustomize_controller, live.as_ref());
                return Ok(DryRunResult::of_accepted(applied, self.snapshot, controller, live, &merged));
            }
            Err(failure) => failure,
        };
        let error = sender.error(&failure);
        if live.is_some() && applied.forces(object) && error.is_refusal() && error.is_immutable_field() {
            return self.recreate(applied, sender, &kind, (manifest, live.as_ref()), failure).await;
        }
        if let Some(object) = object.filter(|_| error.is_refusal())
            && let Some(change) = self.change_before_dry_run(object, error.is_of_live_fields())
        {
            let first = format!("the controller {change} first, and may get another answer");
            return Err(Failure { message: format!("{}; {first}", failure.message), ..failure });
        }
        error.result().ok_or(failure)
    }

    /// Returns what kustomize-controller changes in a live object before its dry-run, if that can change the answer.
    fn change_before_dry_run(&self, object: &ObjectMetadata, is_of_live_fields: bool) -> Option<String> {
        self.kustomize_controller.flags.change_before_dry_run(object, is_of_live_fields)
    }

    /// Applies without the unknown fields that kustomize-controller and flux-operator drop.
    async fn send_apply(
        &self,
        sender: &Sender<'_>,
        kind: &ResourceType,
        id: &ObjectId,
        manifest: &mut Value,
    ) -> Result<Value, Failure> {
        let applying = Applying { manager: sender.controller.name, is_strict: false, forces: true };
        let mut retries = UnknownFieldRetries::new(kind);
        loop {
            match self.request(id, apply_dry_run(&sender.subject.cluster, kind, id, manifest, applying)).await {
                Err(failure) if retries.should_retry(manifest, sender.error(&failure)) => {}
                Err(failure) => {
                    return Err(Failure { message: without_long_values(&failure.message), ..failure });
                }
                Ok(merged) => return Ok(merged),
            }
        }
    }

    /// Returns the result of deleting the object and creating it again.
    async fn recreate(
        &self,
        applied: &AppliedObject,
        sender: &Sender<'_>,
        kind: &ResourceType,
        (manifest, live): (Value, Option<&Value>),
        refusal: Failure,
    ) -> Result<DryRunResult, Failure> {
        let id = &applied.id;
        if let Some(object) = self.snapshot.object(id) {
            let deletion = self.delete(object, sender).await?;
            if deletion != DryRunResult::Accepted {
                return Ok(deletion);
            }
            if let Some(finalizer) = self.holding_finalizer(object, sender).await {
                return Ok(DryRunResult::HeldByFinalizer(finalizer));
            }
        }
        let creation = self.try_creation(id, sender, kind, (manifest, live)).await?;
        Ok(match creation {
            DryRunResult::Refused(message) => DryRunResult::DeletedOnly(message),
            _ => DryRunResult::Recreated(refusal.message),
        })
    }

    /// Returns the finalizer that keeps an object terminating after its deletion: a foreign one, that of a claim for as
    /// long as a Pod on a node mounts it, or that of a bound volume.
    async fn holding_finalizer(&self, object: &ObjectMetadata, sender: &Sender<'_>) -> Option<String> {
        if let Some(foreign) = foreign_finalizers(object).next() {
            return Some(foreign.to_owned());
        }
        let finalizer = protection(object)?;
        let snapshot = self.snapshot.of_cluster(object.id.cluster.as_ref())?;
        if object.id.is("", "PersistentVolume") {
            return claim_of(object, self.snapshot).map(|_| finalizer.to_owned());
        }
        let pods = read_pods(&sender.subject.cluster, snapshot, &object.id.namespace).await;
        pods.iter().any(|pod| pod.keeps(&object.id)).then(|| finalizer.to_owned())
    }

    /// Returns the answer of the server to the apply of an object whose live one is deleted before.
    pub(super) async fn create(&self, applied: &AppliedObject, sender: &Sender<'_>) -> Result<DryRunResult, Failure> {
        let id = &applied.id;
        let Some(kind) = self.snapshot.type_of(id) else { return Ok(DryRunResult::of_new_kind()) };
        let kind = ResourceType { version: applied.built.version.as_str().into(), ..kind.clone() };
        if let Some(missing) = sender.actors.missing_right(&sender.subject, &["patch", "create"], &kind, id).await {
            return Ok(DryRunResult::Refused(missing));
        }
        if let Some(object) = self.snapshot.object(id)
            && let Some(finalizer) = self.holding_finalizer(object, sender).await
        {
            return Ok(DryRunResult::HeldByFinalizer(finalizer));
        }
        let live = self.request(id, sender.read(&kind, id)).await?;
        self.try_creation(id, sender, &kind, (manifest_to_apply(applied), live.as_ref())).await
    }

    /// Applies an object under a name that none has, without what only the live one can have.
    async fn try_creation(
        &self,
        id: &ObjectId,
        sender: &Sender<'_>,
        kind: &ResourceType,
        (mut manifest, live): (Value, Option<&Value>),
    ) -> Result<DryRunResult, Failure> {
        let Some(other) = rename_for_creation(id, &mut manifest, live) else { return Ok(DryRunResult::Created) };
        match self.send_apply(sender, kind, &other, &mut manifest).await {
            Ok(_) => Ok(DryRunResult::Created),
            Err(failure) if live.is_some() && is_freed_by_deletion(&failure.message) => Ok(DryRunResult::Created),
            Err(failure) if sender.error(&failure).is_refusal() => Ok(DryRunResult::Refused(failure.message)),
            Err(failure) => Err(failure),
        }
    }

    /// Validates an object of a namespace that does not exist yet, in the namespace of its Kustomization. Only an
    /// invalid object is refused everywhere: policies and quotas of the new namespace are not known.
    async fn validate_elsewhere(
        &self,
        applied: &AppliedObject,
        kind: &ResourceType,
        sender: &Sender<'_>,
    ) -> Result<DryRunResult, Failure> {
        if applied.id.cluster.is_some() {
            // The namespace of its Kustomization is one of the cluster that has the Kustomization.
            return Ok(DryRunResult::of_new_namespace());
        }
        let mut manifest = manifest_to_apply(applied);
        let id = ObjectId { namespace: applied.owner.namespace.as_str().into(), ..applied.id.clone() };
        let Some(other) = rename_for_creation(&id, &mut manifest, None) else {
            return Ok(DryRunResult::of_new_namespace());
        };
        manifest["metadata"]["namespace"] = json!(other.namespace);
        match self.send_apply(sender, kind, &other, &mut manifest).await {
            Err(failure) if failure.kind == FailureKind::Invalid => Ok(DryRunResult::Refused(failure.message)),
            _ => Ok(DryRunResult::of_new_namespace()),
        }
    }

    /// Returns the answer of the server to the apply of a manifest by another controller than kustomize-controller,
    /// which takes over fields of other managers or not.
    pub(super) async fn apply_manifest(
        &self,
        question: &Question,
        (manifest, forces): (&Value, bool),
        sender: &Sender<'_>,
    ) -> Result<DryRunResult, Failure> {
        let id = &question.id;
        let Some(kind) = self.snapshot.type_of(id) else { return Ok(DryRunResult::of_new_kind()) };
        let api_version = text_at(manifest, "/apiVersion");
        let version = api_version.rsplit_once('/').map_or(api_version, |(_, version)| version);
        let kind = ResourceType { version: version.into(), ..kind.clone() };
        let live = self.snapshot.object(id);
        let verbs: &[&'static str] = if live.is_some() { &["get", "patch"] } else { &["get", "patch", "create"] };
        if let Some(missing) = sender.actors.missing_right(&sender.subject, verbs, &kind, id).await {
            return Ok(DryRunResult::Refused(missing));
        }
        let answer = if sender.controller.name == flux_operator::NAME {
            self.send_apply(sender, &kind, id, &mut manifest.clone()).await
        } else {
            let applying = Applying { manager: sender.controller.name, is_strict: true, forces };
            self.request(id, apply_dry_run(&sender.subject.cluster, &kind, id, manifest, applying)).await
        };
        match answer {
            Ok(merged) => match live {
                Some(live) => self.change_by_apply(question, live, &merged, (sender, &kind)).await,
                None => Ok(DryRunResult::Accepted),
            },
            // Its namespace can be created by the same owner.
            Err(failure) if failure.kind == FailureKind::NotFound => Ok(DryRunResult::of_new_namespace()),
            Err(failure) => sender.error(&failure).result().ok_or(failure),
        }
    }

    /// Returns the answer of the server to the creation of the Secret in which Helm records a release.
    pub(super) async fn store_record(
        &self,
        id: &ObjectId,
        manifest: &Value,
        sender: &Sender<'_>,
    ) -> Result<DryRunResult, Failure> {
        let Some(kind) = self.snapshot.type_of(id) else { return Ok(DryRunResult::of_new_kind()) };
        if let Some(missing) = sender.actors.missing_right(&sender.subject, &["create"], kind, id).await {
            return Ok(DryRunResult::Refused(missing));
        }
        let creation = create_dry_run(&sender.subject.cluster, kind, id, manifest, sender.controller.name);
        match self.request(id, creation).await {
            Ok(()) => Ok(DryRunResult::Accepted),
            Err(failure) => sender.error(&failure).result().ok_or(failure),
        }
    }

    /// Returns what an apply that the server accepts changes in a live object.
    async fn change_by_apply(
        &self,
        question: &Question,
        seen: &ObjectMetadata,
        merged: &Value,
        (sender, kind): (&Sender<'_>, &ResourceType),
    ) -> Result<DryRunResult, Failure> {
        let (id, controller) = (&question.id, sender.controller.name);
        if is_applied_already(controller, seen, merged) {
            return Ok(DryRunResult::Unchanged);
        }
        // Without the live object, what the manifests say is all that is known.
        let Ok(Some(live)) = self.request(id, sender.read(kind, id)).await else {
            return Ok(DryRunResult::Accepted);
        };
        let update = compare_applied(id, controller, question.is_private, &live, merged);
        Ok(update.map_or(DryRunResult::Unchanged, DryRunResult::Updated))
    }
}

impl Sender<'_> {
    /// Returns the live object. The service account may lack the right to read it, and applies all the same.
    async fn read(&self, kind: &ResourceType, id: &ObjectId) -> Result<Option<Value>, Failure> {
        match self.subject.cluster.fetch_json(kind, id).await {
            Err(failure) if failure.kind == FailureKind::Forbidden && self.subject.is_account => {
                self.actors.cluster.fetch_json(kind, id).await
            }
            answer => answer,
        }
    }
}
