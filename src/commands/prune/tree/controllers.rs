//! Controllers of the cluster, as their Deployments show them: versions and flags, and the users as which they apply.

use crate::cluster::Cluster;
use crate::cluster::read::content::read_deployment;
use crate::commands::guard::invalid_controller_version;
use crate::commands::prune::rehearsal::ControllerUser;
use crate::error::Result;
use gitops_core::flux::controller_deployment;
use gitops_core::flux::guard::DELETING_CONTROLLERS;
use gitops_core::flux::helm_controller::{self, HelmController};
use gitops_core::flux::kustomize_controller::{self, KustomizeController};
use gitops_core::flux::retire::DefaultAccounts;
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::schemes::{flux_helmrelease, flux_operator};
use serde_json::Value;

/// Name of the Deployment of source-watcher.
const SOURCE_WATCHER: &str = "source-watcher";
/// Name of the Deployment of flux-operator.
const FLUX_OPERATOR: &str = "flux-operator";

/// Returns the rules of the version that was given, or of the controller's Deployment, and the user of the controller.
pub(super) async fn kustomize_controller(
    given: Option<&str>,
    cluster: Option<&Cluster>,
    snapshot: &Snapshot,
) -> Result<(KustomizeController, ControllerUser)> {
    let mut version = None;
    if let Some(text) = given {
        version = kustomize_controller::parse_version(text);
        if version.is_none() {
            return Err(invalid_controller_version(text));
        }
    }
    let assumed = version.map_or_else(KustomizeController::default, KustomizeController::of);
    let (Some(cluster), Some(deployment)) =
        (cluster, controller_deployment::deployment(snapshot, kustomize_controller::NAME))
    else {
        return Ok((assumed, ControllerUser::NotInCluster));
    };
    let content = match read_deployment(cluster, &deployment.id).await {
        Ok(content) => content,
        // Without the right to read it the newest rules are assumed.
        Err(failure) => return Ok((assumed, ControllerUser::Unreadable(failure))),
    };
    let account = controller_deployment::service_account(&content, &deployment.id.namespace, snapshot);
    let mut controller = KustomizeController::from_deployment(&content, version);
    // Further Deployments of that name may watch the other namespaces.
    if kustomize_controller::watches_own_namespace(&content)
        && controller_deployment::deployments(snapshot, kustomize_controller::NAME).count() == 1
    {
        controller.flags.watched_namespace = Some(deployment.id.namespace.to_string());
    }
    add_shards(cluster, snapshot, kustomize_controller::NAME, &mut controller.flags.watched).await;
    Ok((controller, account.map_or(ControllerUser::NotInCluster, ControllerUser::Account)))
}

/// Adds the label selectors of further Deployments of a controller to those of the first one, if that has one. One without a selector, or
/// one that cannot be read, may reconcile everything.
async fn add_shards(cluster: &Cluster, snapshot: &Snapshot, controller: &str, watched: &mut Vec<String>) {
    if watched.is_empty() {
        return;
    }
    for shard in controller_deployment::shards(snapshot, controller) {
        let content = read_deployment(cluster, &shard.id).await.ok();
        match content.as_ref().and_then(controller_deployment::watch_selector) {
            Some(selector) => watched.push(selector),
            None => return watched.clear(),
        }
    }
}

/// Settings of the controllers beside kustomize-controller, as their Deployments have them. Without a Deployment, or the right to read it,
/// the defaults of the flags are assumed.
#[derive(Clone, Debug, Default)]
pub(super) struct OtherControllers {
    pub(super) helm: HelmController,
    /// source-watcher lets generators use sources of their own namespace only.
    pub(super) denies_other_namespaces: bool,
    /// Account of ResourceSets that name none.
    pub(super) set_account: Option<String>,
}

impl OtherControllers {
    /// Reads the Deployments of those that have something to reconcile, at the same time.
    pub(super) async fn read(cluster: Option<&Cluster>, snapshot: &Snapshot) -> Self {
        let Some(cluster) = cluster else { return Self::default() };
        let (helm, watcher, operator) = futures::join!(
            helm_controller(cluster, snapshot),
            deployment_of(cluster, snapshot, SOURCE_WATCHER),
            flux_operator(cluster, snapshot),
        );
        Self {
            helm,
            denies_other_namespaces: watcher.as_ref().is_some_and(controller_deployment::denies_other_namespaces),
            set_account: operator.as_ref().and_then(controller_deployment::default_service_account),
        }
    }
}

async fn helm_controller(cluster: &Cluster, snapshot: &Snapshot) -> HelmController {
    if !has(snapshot, flux_helmrelease::GROUP, flux_helmrelease::KIND) {
        return HelmController::default();
    }
    let content = deployment_of(cluster, snapshot, helm_controller::NAME).await;
    let mut controller = content.as_ref().map(HelmController::from_deployment).unwrap_or_default();
    add_shards(cluster, snapshot, helm_controller::NAME, &mut controller.watched).await;
    controller
}

async fn flux_operator(cluster: &Cluster, snapshot: &Snapshot) -> Option<Value> {
    if !has(snapshot, flux_operator::GROUP, "ResourceSet") {
        return None;
    }
    deployment_of(cluster, snapshot, FLUX_OPERATOR).await
}

/// Returns true if the cluster has an object of this kind.
pub(super) fn has(snapshot: &Snapshot, group: &str, kind: &str) -> bool {
    snapshot.resources.iter().any(|full| full.object.id.is(group, kind))
}

/// Returns the Deployment of a controller, if it can be read.
async fn deployment_of(cluster: &Cluster, snapshot: &Snapshot, controller: &str) -> Option<Value> {
    let deployment = controller_deployment::deployment(snapshot, controller)?;
    read_deployment(cluster, &deployment.id).await.ok()
}

/// Returns the accounts of owners that name none, of the controllers whose Deployments can be read.
pub(super) async fn default_accounts(cluster: Option<&Cluster>, snapshot: &Snapshot) -> DefaultAccounts {
    let mut accounts = DefaultAccounts::new();
    let Some(cluster) = cluster else { return accounts };
    for (name, kinds) in DELETING_CONTROLLERS {
        let deployment = deployment_of(cluster, snapshot, name).await;
        if let Some(account) = deployment.as_ref().and_then(controller_deployment::default_service_account) {
            accounts.extend(kinds.iter().map(|(_, kind)| ((*kind).to_owned(), account.clone())));
        }
    }
    accounts
}
