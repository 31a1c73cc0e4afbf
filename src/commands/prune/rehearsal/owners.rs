//! Dry-runs of the changes of HelmReleases and ResourceSets, as their controllers would send them.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::{StreamExt, stream};

use super::actors::{Actors, Applier, ControllerUser, Subject};
use super::{PARALLEL, Rehearsal};
use crate::cluster::write::dry_run::apply_dry_run;
use crate::cluster::{Applying, Cluster, FailureKind};
use crate::commands::prune::tree::read_deployment;
use gitops_core::flux::apply::dry_run::{DryRunResult, HIDDEN_MESSAGE};
use gitops_core::flux::controller_deployment;
use gitops_core::flux::simulation::owner_dry_runs::{OwnerAnswer, field_manager};
use gitops_core::kubernetes::object::{ResourceType, text_at};
use gitops_core::kubernetes::question::OwnerQuestion;
use gitops_core::kubernetes::snapshot::Snapshot;

/// A controller of owners in a cluster: helm-controller or flux-operator.
pub(super) struct OwnerController {
    /// Its subjects by cluster; no name for the cluster itself.
    actors: BTreeMap<Option<Arc<str>>, Actors>,
    /// Its name, also of its Deployment and as field manager.
    name: &'static str,
    /// `--default-service-account`: account of owners that name none.
    default_service_account: Option<String>,
}

impl OwnerController {
    async fn find(
        name: &'static str,
        cluster: &Cluster,
        snapshot: &Snapshot,
        spokes: impl Iterator<Item = (&Arc<str>, &Cluster)>,
    ) -> Self {
        let found = match controller_deployment::deployment(snapshot, name) {
            Some(deployment) => Some((deployment, read_deployment(cluster, deployment).await)),
            None => None,
        };
        let (user, default_service_account) = match found {
            None => (ControllerUser::NotInCluster, None),
            Some((_, Err(failure))) => (ControllerUser::Unreadable(failure), None),
            Some((deployment, Ok(content))) => {
                let account = controller_deployment::service_account(&content, &deployment.id.namespace, snapshot);
                let user = account.map_or(ControllerUser::NotInCluster, ControllerUser::Account);
                (user, controller_deployment::default_service_account(&content))
            }
        };
        let here = (None, Actors::new(cluster.clone(), name, user));
        let there = |spoke: &Cluster| Actors::new(spoke.clone(), name, ControllerUser::NotInCluster);
        let actors = spokes.map(|(spoke, cluster)| (Some(spoke.clone()), there(cluster))).chain([here]).collect();
        Self { actors, name, default_service_account }
    }
}

impl Rehearsal<'_> {
    /// Asks the API server about changes of owners. A question that it cannot answer stays open.
    pub(super) async fn send_of_owners(&mut self, questions: Vec<OwnerQuestion>) {
        let mut by_controller: BTreeMap<&'static str, Vec<OwnerQuestion>> = BTreeMap::new();
        for question in questions {
            by_controller.entry(field_manager(&question)).or_default().push(question);
        }
        for (name, questions) in by_controller {
            self.send_of_controller(name, questions).await;
        }
    }

    async fn send_of_controller(&mut self, name: &'static str, questions: Vec<OwnerQuestion>) {
        let mut controller = match self.controllers.remove(name) {
            Some(controller) => controller,
            None => {
                let spokes = self.actors.iter().filter_map(|(name, actors)| Some((name.as_ref()?, &actors.cluster)));
                OwnerController::find(name, &self.cluster, self.snapshot, spokes).await
            }
        };
        let default = &controller.default_service_account;
        for (cluster, actors) in &mut controller.actors {
            let asked = questions.iter().filter(|question| question.id.cluster == *cluster);
            actors.prepare(asked.map(|question| applier(question, default))).await;
        }
        let (this, asking) = (&*self, &controller);
        let asked = questions.into_iter().map(|question| async move { (this.ask(asking, &question).await, question) });
        let answers: Vec<_> = stream::iter(asked).buffered(PARALLEL).collect().await;
        controller.actors.values().for_each(|actors| self.answers.add_failures(actors.take_failures()));
        self.controllers.insert(name, controller);
        for (answer, question) in answers {
            if let Some(answer) = answer {
                self.of_owners.add(question, answer);
            }
        }
    }

    /// Returns the answer of the server to one change; `None` if it says nothing about the controller.
    async fn ask(&self, controller: &OwnerController, question: &OwnerQuestion) -> Option<OwnerAnswer> {
        let actors = controller.actors.get(&question.id.cluster)?;
        let subject = &actors.subject(applier(question, &controller.default_service_account));
        let result = match &question.manifest {
            Some(_) => self.ask_about_apply(controller, actors, subject, question).await?,
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
        controller: &OwnerController,
        actors: &Actors,
        subject: &Subject,
        question: &OwnerQuestion,
    ) -> Option<DryRunResult> {
        let (id, manifest) = (&question.id, question.manifest.as_ref()?);
        let kind = self.snapshot.type_of(id)?;
        let api_version = text_at(manifest, "/apiVersion");
        let version = api_version.rsplit_once('/').map_or(api_version, |(_, version)| version);
        let kind = ResourceType { version: version.into(), ..kind.clone() };
        let verbs: &[&'static str] =
            if self.snapshot.object(id).is_some() { &["get", "patch"] } else { &["get", "patch", "create"] };
        if let Some(missing) = actors.missing_right(subject, verbs, &kind, id).await {
            return Some(DryRunResult::Refused(missing));
        }
        let applying = Applying { manager: controller.name, is_strict: true };
        match self.request(id, apply_dry_run(&subject.cluster, &kind, id, manifest, applying)).await {
            Ok(_) => Some(DryRunResult::Unchanged),
            // Its namespace can be created by the same owner.
            Err(failure) if failure.kind == FailureKind::NotFound => None,
            Err(failure) => self.error(subject, &failure).result(),
        }
    }
}

fn applier<'a>(question: &'a OwnerQuestion, default: &'a Option<String>) -> Applier<'a> {
    let service_account = question.service_account.as_ref().or(default.as_ref());
    Applier { namespace: &question.owner.namespace, service_account: service_account.map(String::as_str) }
}
