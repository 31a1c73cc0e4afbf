//! Controllers as which dry-runs are sent: kustomize-controller, helm-controller and flux-operator.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::actors::{Actors, Applier, ControllerUser};
use crate::cluster::read::content::read_deployment;
use crate::cluster::{Cluster, Failure};
use crate::commands::prune::spokes::SpokeClusters;
use gitops_core::flux::apply::question::Question;
use gitops_core::flux::controller_deployment;
use gitops_core::kubernetes::object::ObjectId;
use gitops_core::kubernetes::snapshot::Snapshot;

/// A controller that applies in a cluster and in its spokes.
pub(super) struct Controller {
    /// Its name, also of its Deployment and as field manager.
    pub(super) name: &'static str,
    /// Its subjects by cluster; no name for the cluster itself.
    actors: BTreeMap<Option<Arc<str>>, Actors>,
    /// `--default-service-account`: account of owners that name none.
    default_service_account: Option<String>,
}

impl Controller {
    pub(super) fn new(
        name: &'static str,
        user: ControllerUser,
        default_service_account: Option<String>,
        cluster: &Cluster,
        spokes: &SpokeClusters,
    ) -> Self {
        let mut actors: BTreeMap<_, _> = [(None, Actors::new(cluster.clone(), name, user))].into();
        for (spoke, cluster) in spokes {
            // In another cluster the controller is the user of the kubeconfig, which is not read.
            let there = Actors::new(cluster.clone(), name, ControllerUser::NotInCluster);
            actors.insert(Some(spoke.clone()), there);
        }
        Self { name, actors, default_service_account }
    }

    /// Reads the Deployment of a controller.
    pub(super) async fn find(
        name: &'static str,
        cluster: &Cluster,
        snapshot: &Snapshot,
        spokes: &SpokeClusters,
    ) -> Self {
        let (mut user, mut default_service_account) = (ControllerUser::NotInCluster, None);
        if let Some(deployment) = controller_deployment::deployment(snapshot, name) {
            match read_deployment(cluster, &deployment.id).await {
                Ok(content) => {
                    let account = controller_deployment::service_account(&content, &deployment.id.namespace, snapshot);
                    user = account.map_or(ControllerUser::NotInCluster, ControllerUser::Account);
                    default_service_account = controller_deployment::default_service_account(&content);
                }
                Err(failure) => user = ControllerUser::Unreadable(failure),
            }
        }
        Self::new(name, user, default_service_account, cluster, spokes)
    }

    /// Finds out as whom the controller applies in the questions that are about it.
    pub(super) async fn prepare(&mut self, questions: &[Question]) {
        let default = self.default_service_account.as_deref();
        for (cluster, actors) in &mut self.actors {
            let own = questions.iter().filter(|question| question.controller == self.name);
            let asked = own.filter(|question| question.id.cluster == *cluster);
            actors.prepare(asked.map(|question| applier(question, default))).await;
        }
    }

    /// Returns the subjects in the cluster of an object; `None` if it was read from a file, and cannot be asked.
    pub(super) fn actors(&self, id: &ObjectId) -> Option<&Actors> {
        self.actors.get(&id.cluster)
    }

    /// Returns what decides as whom the controller applies in a question.
    pub(super) fn applier<'q>(&'q self, question: &'q Question) -> Applier<'q> {
        applier(question, self.default_service_account.as_deref())
    }

    /// Returns the rights that could not be asked about since the last call, for each cluster.
    pub(super) fn take_failures(&self) -> impl Iterator<Item = BTreeMap<String, Failure>> {
        self.actors.values().map(Actors::take_failures)
    }
}

fn applier<'q>(question: &'q Question, default: Option<&'q str>) -> Applier<'q> {
    let service_account = question.service_account.as_deref().or(default);
    Applier { namespace: &question.owner.namespace, service_account }
}
