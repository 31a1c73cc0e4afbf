//! Dry-runs of a preview: asks the API server what it would refuse or recreate, with the rights of the controllers.

mod actors;
mod applies;
mod controllers;
mod deletions;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{StreamExt, stream};

use super::spokes::SpokeClusters;
use crate::cluster::read::access::is_allowed;
use crate::cluster::write::dry_run::NO_DRY_RUNS;
use crate::cluster::{Cluster, Failure, FailureKind};
use crate::error::Error;
pub(super) use actors::ControllerUser;
use actors::{Actors, Subject};
use controllers::Controller;
use gitops_core::flux::apply::dry_run::{ApplyError, DryRunResult};
use gitops_core::flux::apply::question::{DryRunAnswer, Question, Request};
use gitops_core::flux::kustomize_controller::{self, KustomizeController};
use gitops_core::flux::simulation::questions::DryRunAnswers;
use gitops_core::kubernetes::gap::DRY_RUNS;
use gitops_core::kubernetes::object::{GroupKind, ObjectId, ResourceType};
use gitops_core::kubernetes::snapshot::Snapshot;

/// Maximum number of dry-runs that wait for an answer. After the first time-out, no further one begins.
const PARALLEL: usize = 32;

/// Time limit of one dry-run. The API server ends its own requests after 60 s.
const REQUEST_LIMIT: Duration = Duration::from_secs(75);

/// Dry-runs of one preview.
pub(super) struct Rehearsal<'a> {
    cluster: Cluster,
    /// Connections to other clusters.
    spokes: SpokeClusters,
    snapshot: &'a Snapshot,
    kustomize_controller: KustomizeController,
    /// Controllers by name, once a change by them is asked about.
    controllers: BTreeMap<&'static str, Controller>,
    /// Failure after which no further request is sent to a cluster.
    broken: Mutex<BTreeMap<Option<Arc<str>>, Failure>>,
    /// First failure of each resource.
    failures: BTreeMap<String, Failure>,
    /// Failures to find out about rights, by service account.
    unknown_rights: BTreeMap<String, Failure>,
    /// Types by cluster, each with true if its API server knows dry-runs.
    tries: BTreeMap<(Option<Arc<str>>, GroupKind), bool>,
    /// The guard of this tool counts as approving every deletion.
    as_approved: bool,
}

/// The sender of the dry-run of one change: a controller, and the rights that count.
struct Sender<'q> {
    controller: &'q Controller,
    actors: &'q Actors,
    subject: Subject,
}

impl<'a> Rehearsal<'a> {
    /// Prepares the dry-runs in the cluster and in `spokes`, other clusters by name.
    pub(super) fn new(
        cluster: &Cluster,
        snapshot: &'a Snapshot,
        user: ControllerUser,
        kustomize_controller: KustomizeController,
        spokes: &SpokeClusters,
    ) -> Self {
        let own = cluster.with_request_timeout(REQUEST_LIMIT);
        let limited = spokes.iter().map(|(name, spoke)| (name.clone(), spoke.with_request_timeout(REQUEST_LIMIT)));
        let spokes: SpokeClusters = limited.collect();
        let controller = Controller::new(kustomize_controller::NAME, user, None, &own, &spokes);
        Self {
            controllers: [(kustomize_controller::NAME, controller)].into(),
            cluster: own,
            spokes,
            snapshot,
            kustomize_controller,
            broken: Mutex::default(),
            failures: BTreeMap::new(),
            unknown_rights: BTreeMap::new(),
            tries: BTreeMap::new(),
            as_approved: false,
        }
    }

    /// Sets whether the guard of this tool counts as approving every deletion.
    pub(super) fn with_approvals(self, as_approved: bool) -> Self {
        Self { as_approved, ..self }
    }

    /// Answers the questions. A question of an owner whose controller would get another answer stays open.
    pub(super) async fn answer(&mut self, questions: Vec<Question>, answers: &mut DryRunAnswers) {
        self.prepare(&questions).await;
        let this = &*self;
        // In order: of several refusals, a plan always names the same one.
        let asked = questions.into_iter().map(|question| async move { (this.ask(&question).await, question) });
        let results: Vec<_> = stream::iter(asked).buffered(PARALLEL).collect().await;
        for (result, question) in results {
            let answer = match result {
                Ok(result) => DryRunAnswer::Result(result),
                Err(failure) => self.missing(&question, failure),
            };
            answers.record(&question, answer);
        }
        for failures in self.controllers.values().flat_map(Controller::take_failures) {
            for (subject, failure) in failures {
                answers.record_unknown_rights(failure.gap(subject.clone(), None));
                self.unknown_rights.insert(subject, failure);
            }
        }
    }

    /// Finds the controllers of the questions, and as whom they apply.
    async fn prepare(&mut self, questions: &[Question]) {
        for question in questions {
            let name = question.controller;
            if !self.controllers.contains_key(name) {
                let controller = Controller::find(name, &self.cluster, self.snapshot, &self.spokes).await;
                self.controllers.insert(name, controller);
            }
        }
        for controller in self.controllers.values_mut() {
            controller.prepare(questions).await;
        }
        for question in questions.iter().filter(|question| !matches!(question.request, Request::Read)) {
            self.find_out_about_dry_runs(&question.id).await;
        }
    }

    /// Finds out if the server of the type of an object knows dry-runs.
    async fn find_out_about_dry_runs(&mut self, id: &ObjectId) {
        let what = (id.cluster.clone(), id.group_kind());
        if self.tries.contains_key(&what) {
            return;
        }
        let cluster = id.cluster.as_ref().map_or(Some(&self.cluster), |name| self.spokes.get(name));
        let (Some(cluster), Some(kind)) = (cluster, self.snapshot.type_of(id)) else { return };
        let Some(snapshot) = self.snapshot.of_cluster(id.cluster.as_ref()) else { return };
        let tries = cluster.tries(kind, snapshot).await;
        self.tries.insert(what, tries);
    }

    async fn ask(&self, question: &Question) -> Result<DryRunResult, Failure> {
        let Some(sender) = self.sender(question) else { return Ok(DryRunResult::of_new_kind()) };
        if self.tries.get(&(question.id.cluster.clone(), question.id.group_kind())) == Some(&false) {
            return Err(Failure::of_request(NO_DRY_RUNS));
        }
        match &question.request {
            Request::ApplyBuilt(applied) => self.apply(applied, &sender).await,
            Request::Create(applied) => self.create(applied, &sender).await,
            Request::Apply { manifest, forces } => self.apply_manifest(question, (manifest, *forces), &sender).await,
            Request::Read => self.read(&question.id, &sender).await,
            Request::Record(manifest) => self.store_record(&question.id, manifest, &sender).await,
            Request::Delete => match self.snapshot.object(&question.id) {
                Some(object) => {
                    let result = self.delete(object, &sender).await?;
                    if sender.subject.is_account || question.is_answered_to_anybody(&result) {
                        Ok(result)
                    } else {
                        Err(Failure::of_request("you may not impersonate that account"))
                    }
                }
                None => Ok(DryRunResult::Accepted),
            },
        }
    }

    /// Returns whether the account of a change may read an object, or all objects of a kind.
    async fn read(&self, id: &ObjectId, sender: &Sender<'_>) -> Result<DryRunResult, Failure> {
        let Some(kind) = self.snapshot.type_of(id) else { return Ok(DryRunResult::Accepted) };
        let verb = if id.name.is_empty() { "list" } else { "get" };
        let Subject { cluster, account, is_account } = &sender.subject;
        if let (true, Some(account)) = (is_account, account) {
            let name = Some(&*id.name).filter(|name| !name.is_empty());
            let is_allowed = self.request(id, is_allowed(cluster, verb, kind, &id.namespace, name)).await?;
            let refusal = format!("{} may not {verb} {}", account.user(), kind.resource());
            return Ok(if is_allowed { DryRunResult::Accepted } else { DryRunResult::Refused(refusal) });
        }
        let missing = sender.actors.missing_right(&sender.subject, &[verb], kind, id).await;
        Ok(missing.map_or(DryRunResult::Accepted, DryRunResult::Refused))
    }

    /// Returns the sender of a change; `None` if its cluster cannot be asked.
    fn sender(&self, question: &Question) -> Option<Sender<'_>> {
        let controller = self.controllers.get(question.controller)?;
        let actors = controller.actors(&question.id)?;
        let mut subject = actors.subject(controller.applier(question));
        if question.hides_denials() {
            subject.cluster = subject.cluster.without_warnings();
        }
        Some(Sender { controller, actors, subject })
    }

    /// Returns the gap of a question without an answer.
    fn missing(&mut self, question: &Question, failure: Failure) -> DryRunAnswer {
        let id = &question.id;
        let mut resource =
            self.snapshot.type_of(id).map_or_else(|| id.group_kind().to_string(), ResourceType::resource);
        if let Some(cluster) = &id.cluster {
            resource += &format!(" in cluster {cluster}");
        }
        let gap = failure.gap(format!("{DRY_RUNS}{resource}"), None);
        if question.is_of_kustomization() {
            let message = if question.is_private { String::new() } else { failure.message.clone() };
            self.failures.entry(resource).or_insert(Failure { message, ..failure });
        }
        DryRunAnswer::Missing(gap)
    }

    /// Returns the hint for missing rights.
    pub(super) fn hint(&self) -> Option<String> {
        let mut failures = self.failures.values().chain(self.unknown_rights.values());
        let denied = failures.find(|failure| failure.kind == FailureKind::Forbidden)?;
        let hint = Error::from(denied.clone()).hint?;
        Some(format!("dry-runs need the right to get, patch and delete; --offline plans without them; {hint}"))
    }

    /// Sends one request about an object, unless its server stopped answering. Then all further requests fail in the
    /// same way.
    async fn request<T>(&self, id: &ObjectId, request: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        if let Some(failure) = self.broken.lock().unwrap_or_else(PoisonError::into_inner).get(&id.cluster) {
            return Err(failure.clone());
        }
        let result = request.await;
        if let Err(failure) = &result
            && matches!(failure.kind, FailureKind::Timeout | FailureKind::Unreachable)
            && failure.code.is_none()
        {
            let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
            broken.entry(id.cluster.clone()).or_insert_with(|| failure.clone());
        }
        result
    }
}

impl Sender<'_> {
    /// Reads a failed request as an answer to the controller.
    fn error<'f>(&self, failure: &'f Failure) -> ApplyError<'f> {
        ApplyError { code: failure.code, message: &failure.message, has_controllers_rights: self.subject.is_account }
    }
}
