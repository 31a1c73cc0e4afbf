//! Dry-runs of the upgrades of Helm releases, as helm-controller would send them.

use futures::{StreamExt, stream};

use super::actors::{Actors, Applier, ControllerUser, Subject};
use super::{PARALLEL, Rehearsal};
use crate::cluster::{Applying, Cluster, FailureKind};
use crate::commands::prune::tree::read_deployment;
use gitops_core::flux::apply::dry_run::{DryRunResult, HIDDEN_MESSAGE};
use gitops_core::flux::kustomize_controller;
use gitops_core::flux::simulation::release_dry_runs::{FIELD_MANAGER, ReleaseAnswer};
use gitops_core::helm::upgrade::ReleaseQuestion;
use gitops_core::kubernetes::object::{ResourceType, text_at};
use gitops_core::kubernetes::snapshot::Snapshot;

/// How helm-controller applies.
const APPLYING: Applying = Applying { manager: FIELD_MANAGER, is_strict: true };

/// The helm-controller of a cluster.
pub(super) struct HelmController {
    actors: Actors,
    /// `--default-service-account`: account of HelmReleases that name none.
    default_service_account: Option<String>,
}

impl HelmController {
    async fn find(cluster: &Cluster, snapshot: &Snapshot) -> Self {
        let found = match kustomize_controller::deployment(snapshot, FIELD_MANAGER) {
            Some(deployment) => Some((deployment, read_deployment(cluster, deployment).await)),
            None => None,
        };
        let (user, default_service_account) = match found {
            None => (ControllerUser::NotInCluster, None),
            Some((_, Err(failure))) => (ControllerUser::Unreadable(failure), None),
            Some((deployment, Ok(content))) => {
                let account = kustomize_controller::service_account(&content, &deployment.id.namespace, snapshot);
                let user = account.map_or(ControllerUser::NotInCluster, ControllerUser::Account);
                (user, kustomize_controller::default_service_account(&content))
            }
        };
        Self { actors: Actors::new(cluster.clone(), FIELD_MANAGER, user), default_service_account }
    }
}

impl Rehearsal<'_> {
    /// Asks the API server about the upgrades of releases. A question that it cannot answer stays open.
    pub(super) async fn send_releases(&mut self, questions: Vec<ReleaseQuestion>) {
        if questions.is_empty() {
            return;
        }
        let mut helm = match self.helm_controller.take() {
            Some(helm) => helm,
            None => HelmController::find(&self.cluster, self.snapshot).await,
        };
        helm.actors.prepare(questions.iter().map(|question| applier(question, &helm.default_service_account))).await;
        let (this, asking) = (&*self, &helm);
        let asked = questions.into_iter().map(|question| async move {
            let subject = asking.actors.subject(applier(&question, &asking.default_service_account));
            (this.ask(&asking.actors, &subject, &question).await, question)
        });
        let answers: Vec<_> = stream::iter(asked).buffered(PARALLEL).collect().await;
        self.answers.add_failures(helm.actors.take_failures());
        self.helm_controller = Some(helm);
        for (answer, question) in answers {
            if let Some(answer) = answer {
                self.releases.add(question, answer);
            }
        }
    }

    /// Returns the answer of the server to one change; `None` if it says nothing about helm-controller.
    async fn ask(&self, actors: &Actors, subject: &Subject, question: &ReleaseQuestion) -> Option<ReleaseAnswer> {
        let result = match &question.manifest {
            Some(_) => self.ask_about_apply(actors, subject, question).await?,
            None => match self.delete_as(actors, subject, self.snapshot.object(&question.id)?).await.ok()? {
                Some(result) => result,
                None => return Some(Ok(())),
            },
        };
        match result {
            DryRunResult::Refused(_) if question.is_private || question.id.is("", "Secret") => {
                Some(Err(HIDDEN_MESSAGE.to_owned()))
            }
            DryRunResult::Refused(message) => Some(Err(message)),
            DryRunResult::Unchanged => Some(Ok(())),
            _ => None,
        }
    }

    async fn ask_about_apply(
        &self,
        actors: &Actors,
        subject: &Subject,
        question: &ReleaseQuestion,
    ) -> Option<DryRunResult> {
        let (id, manifest) = (&question.id, question.manifest.as_ref()?);
        let kind = self.snapshot.resource_type(&id.group_kind())?;
        let api_version = text_at(manifest, "/apiVersion");
        let version = api_version.rsplit_once('/').map_or(api_version, |(_, version)| version);
        let kind = ResourceType { version: version.into(), ..kind.clone() };
        let verbs: &[&'static str] =
            if self.snapshot.object(id).is_some() { &["get", "patch"] } else { &["get", "patch", "create"] };
        if let Some(missing) = actors.missing_right(subject, verbs, &kind, id).await {
            return Some(DryRunResult::Refused(missing));
        }
        match self.request(subject.cluster.apply_dry_run(&kind, id, manifest, APPLYING)).await {
            Ok(_) => Some(DryRunResult::Unchanged),
            // Its namespace can be part of the release.
            Err(failure) if failure.kind == FailureKind::NotFound => None,
            Err(failure) => self.error(subject, &failure).result(),
        }
    }
}

fn applier<'a>(question: &'a ReleaseQuestion, default: &'a Option<String>) -> Applier<'a> {
    let service_account = question.service_account.as_ref().or(default.as_ref());
    Applier { namespace: &question.release.namespace, service_account: service_account.map(String::as_str) }
}
