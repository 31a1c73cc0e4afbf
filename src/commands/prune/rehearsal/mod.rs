//! Dry-runs of a preview: asks the API server what it would refuse or recreate, with the rights of the controller.
//!
//! A refusal changes the plan, and a changed plan can have other objects to ask about. So the questions are repeated until
//! there is no new one.

mod actors;
mod answers;
mod applies;
mod deletions;
mod owners;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{StreamExt, stream};
use serde_json::Value;

pub(super) use actors::ControllerUser;
use actors::{Actors, Applier, Subject};
use answers::Answers;
pub(super) use answers::Rehearsed;
use applies::encrypted_warning;
use owners::OwnerController;

use super::tree::BuildRunner;
use crate::cluster::{Cluster, Failure, FailureKind};
use crate::error::Result;
use gitops_core::flux::apply::AppliedObject;
use gitops_core::flux::apply::dry_run::ApplyError;
use gitops_core::flux::controller_flags::ControllerFlags;
use gitops_core::flux::kustomize_controller::{self, KustomizeController};
use gitops_core::flux::simulation::Preview;
use gitops_core::flux::simulation::owner_dry_runs::OwnerDryRuns;
use gitops_core::flux::simulation::rehearsal::PlannedDeletion;
use gitops_core::flux::spec::{KustomizationSpec, NamespacedName};
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::schemes::flux_kustomization;
use gitops_core::plan::Plan;

/// Maximum number of times that the plan is made again with new answers.
const MAX_ROUNDS: usize = 8;

/// Maximum number of dry-runs that wait for an answer. After the first time-out, no further one begins.
const PARALLEL: usize = 32;

/// Time limit of one dry-run. The API server ends its own requests after 60 s.
const REQUEST_LIMIT: Duration = Duration::from_secs(75);

/// Dry-runs of one preview.
pub(super) struct Rehearsal<'a> {
    cluster: Cluster,
    snapshot: &'a Snapshot,
    kustomize_controller: KustomizeController,
    /// Subjects of kustomize-controller by cluster; no name for the cluster itself.
    actors: BTreeMap<Option<Arc<str>>, Actors>,
    /// Controllers of other owners by name, once a change of such an owner is asked about.
    controllers: BTreeMap<&'static str, OwnerController>,
    of_owners: OwnerDryRuns,
    /// Every applied object is sent, so that differences of unchanged manifests are found too.
    sends_everything: bool,
    /// Owner, object and manifest of each question so far.
    asked: BTreeSet<(ObjectId, ObjectId, String)>,
    answers: Answers,
    /// Failure after which no further request is sent to a cluster.
    broken: Mutex<BTreeMap<Option<Arc<str>>, Failure>>,
    encrypted: Vec<AppliedObject>,
}

impl<'a> Rehearsal<'a> {
    /// Prepares the dry-runs in the cluster and in `spokes`, other clusters by name. With `with_diffs`, every applied object
    /// is compared, and the plan gets the differences.
    pub(super) fn new(
        cluster: &Cluster,
        snapshot: &'a Snapshot,
        user: ControllerUser,
        kustomize_controller: KustomizeController,
        with_diffs: bool,
        spokes: &BTreeMap<Arc<str>, Cluster>,
    ) -> Self {
        let cluster = cluster.with_request_timeout(REQUEST_LIMIT);
        let actors = |cluster, user| Actors::new(cluster, kustomize_controller::NAME, user);
        // In another cluster the controller is the user of the kubeconfig, which is not read.
        let in_spoke =
            |spoke: &Cluster| actors(spoke.with_request_timeout(REQUEST_LIMIT), ControllerUser::NotInCluster);
        let spokes = spokes.iter().map(|(name, spoke)| (Some(name.clone()), in_spoke(spoke)));
        Self {
            actors: spokes.chain([(None, actors(cluster.clone(), user))]).collect(),
            controllers: BTreeMap::new(),
            of_owners: OwnerDryRuns::default(),
            cluster,
            snapshot,
            kustomize_controller,
            sends_everything: with_diffs,
            asked: BTreeSet::new(),
            answers: Answers::new(with_diffs),
            broken: Mutex::default(),
            encrypted: vec![],
        }
    }

    /// Sends the dry-runs for a plan of the preview, and returns the plan with their answers.
    pub(super) async fn run(
        mut self,
        runner: &mut BuildRunner<'_>,
        preview: &mut Preview<'a>,
        mut plan: Plan,
    ) -> Result<Rehearsed> {
        let applied = match self.sends_everything {
            true => Default::default(),
            false => preview.applied_builds(&runner.answers),
        };
        for _ in 0..MAX_ROUNDS {
            let mut objects = preview.changed_objects(&applied);
            objects.retain(|object| {
                self.is_new(kustomization(&object.owner), &object.id, object.built.manifest.to_string())
            });
            let (mut deletions, secrets) = (preview.planned_deletions(&plan), preview.secret_mask(&runner.answers));
            // Its name would be in the URL of the request, and so in logs.
            deletions
                .retain(|deletion| !secrets.hides(&deletion.object.id) || self.answers.leave_open(&deletion.object.id));
            deletions
                .retain(|deletion| self.is_new(kustomization(&deletion.owner), &deletion.object.id, String::new()));
            let mut of_owners = preview.owner_questions();
            of_owners.retain(|question| {
                let manifest = question.manifest.as_ref().map_or_else(String::new, Value::to_string);
                self.is_new(question.owner.clone(), &question.id, manifest)
            });
            if objects.is_empty() && deletions.is_empty() && of_owners.is_empty() {
                return Ok(self.answers.add_to(plan, self.snapshot, preview, encrypted_warning(&self.encrypted)));
            }
            let unasked =
                objects.iter().map(|object| &object.id).chain(deletions.iter().map(|deletion| &deletion.object.id));
            let unasked: Vec<ObjectId> = unasked.filter(|id| self.actors(id).is_none()).cloned().collect();
            unasked.iter().for_each(|id| self.answers.add_unasked(id));
            self.encrypted.extend(objects.iter().filter(|object| object.built.undecrypted.is_some()).cloned());
            self.send(objects, deletions).await;
            self.send_of_owners(of_owners).await;
            let is_refused = preview.set_refusals(self.answers.refusals(), self.answers.refused_deletions());
            if !preview.set_owner_dry_runs(self.of_owners.clone()) && !is_refused {
                return Ok(self.answers.add_to(plan, self.snapshot, preview, encrypted_warning(&self.encrypted)));
            }
            plan = runner.plan(preview).await?;
        }
        self.answers.add_endless();
        Ok(self.answers.add_to(plan, self.snapshot, preview, encrypted_warning(&self.encrypted)))
    }

    /// Returns true if the question was not asked yet.
    fn is_new(&mut self, owner: ObjectId, id: &ObjectId, manifest: String) -> bool {
        self.asked.insert((owner, id.clone(), manifest))
    }

    async fn send(&mut self, objects: Vec<AppliedObject>, deletions: Vec<PlannedDeletion<'_>>) {
        let flags = self.kustomize_controller.flags.clone();
        for (name, actors) in &mut self.actors {
            let applying = objects.iter().map(|object| (&object.id, &object.owner, &object.spec));
            let deleting = deletions.iter().map(|deletion| (&deletion.object.id, &deletion.owner, &deletion.spec));
            let in_cluster = applying.chain(deleting).filter(|(id, ..)| id.cluster == *name);
            actors.prepare(in_cluster.map(|(_, owner, spec)| applier(&flags, owner, spec))).await;
        }
        let this = &*self;
        // In order: of several refusals, a plan always names the same one.
        let applies = objects.into_iter().map(|object| async move { (this.apply(&object).await, object) });
        let applies: Vec<_> = stream::iter(applies).buffered(PARALLEL).collect().await;
        let deletes = deletions.into_iter().map(|deletion| async move { (this.delete(&deletion).await, deletion) });
        let deletes: Vec<_> = stream::iter(deletes).buffered(PARALLEL).collect().await;
        for (result, object) in applies {
            self.answers.add_apply(self.snapshot, object, result);
        }
        for (result, deletion) in deletes {
            self.answers.add_deletion(self.snapshot, deletion, result);
        }
        for actors in self.actors.values() {
            self.answers.add_failures(actors.take_failures());
        }
    }

    /// Returns the subjects in the cluster of an object; `None` if it was read from a file, and cannot be asked.
    fn actors(&self, id: &ObjectId) -> Option<&Actors> {
        self.actors.get(&id.cluster)
    }

    /// Sends one request about an object, unless its server stopped answering. Then all further requests fail in the same
    /// way.
    async fn request<T>(
        &self,
        id: &ObjectId,
        request: impl Future<Output = std::result::Result<T, Failure>>,
    ) -> std::result::Result<T, Failure> {
        let broken = || self.broken.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(failure) = broken().get(&id.cluster).cloned() {
            return Err(failure);
        }
        let result = request.await;
        if let Err(failure) = &result
            && matches!(failure.kind, FailureKind::Timeout | FailureKind::Unreachable)
            && failure.code.is_none()
        {
            broken().entry(id.cluster.clone()).or_insert_with(|| failure.clone());
        }
        result
    }

    /// Returns what decides as whom kustomize-controller applies for a Kustomization.
    fn applier<'b>(&'b self, owner: &'b NamespacedName, spec: &'b KustomizationSpec) -> Applier<'b> {
        applier(&self.kustomize_controller.flags, owner, spec)
    }

    /// Reads a failed request as an answer to the controller.
    fn error<'f>(&self, subject: &Subject, failure: &'f Failure) -> ApplyError<'f> {
        ApplyError { code: failure.code, message: &failure.message, has_controllers_rights: subject.is_account }
    }
}

fn applier<'a>(flags: &'a ControllerFlags, owner: &'a NamespacedName, spec: &'a KustomizationSpec) -> Applier<'a> {
    Applier { namespace: &owner.namespace, service_account: flags.service_account(spec) }
}

/// Returns a Kustomization as an object.
fn kustomization(key: &NamespacedName) -> ObjectId {
    ObjectId::new(flux_kustomization::GROUP, flux_kustomization::KIND, &key.namespace, &key.name)
}
