//! Controllers of the cluster, as their Deployments show them: versions and flags, and the users as which they apply.

use crate::cluster::Cluster;
use crate::cluster::read::content::read_deployment;
use crate::commands::prune::rehearsal::ControllerUser;
use crate::error::{Error, Result};
use gitops_core::flux::controller_deployment;
use gitops_core::flux::guard::DELETING_CONTROLLERS;
use gitops_core::flux::kustomize_controller::{self, KustomizeController};
use gitops_core::flux::retire::DefaultAccounts;
use gitops_core::kubernetes::snapshot::Snapshot;

/// Name of the Deployment of source-watcher.
const SOURCE_WATCHER: &str = "source-watcher";
/// Name of the Deployment of helm-controller.
const HELM_CONTROLLER: &str = "helm-controller";
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
            return Err(Error::usage(format!("{text:?} is no version")));
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
    if !controller.flags.watched.is_empty() {
        add_shards(cluster, snapshot, &mut controller).await;
    }
    Ok((controller, account.map_or(ControllerUser::NotInCluster, ControllerUser::Account)))
}

/// Adds the label selectors of further Deployments of the controller. One without a selector, or one that cannot be read,
/// may reconcile every Kustomization.
async fn add_shards(cluster: &Cluster, snapshot: &Snapshot, controller: &mut KustomizeController) {
    for shard in kustomize_controller::shards(snapshot) {
        let content = read_deployment(cluster, &shard.id).await.ok();
        match content.as_ref().and_then(kustomize_controller::watch_selector) {
            Some(selector) => controller.flags.watched.push(selector),
            None => return controller.flags.watched.clear(),
        }
    }
}

/// Returns true if source-watcher lets generators use sources of their own namespace only. Without its Deployment the default
/// of the flag is assumed.
pub(super) async fn denies_other_namespaces(cluster: Option<&Cluster>, snapshot: &Snapshot) -> bool {
    let deployment = controller_deployment::deployment(snapshot, SOURCE_WATCHER);
    let (Some(cluster), Some(deployment)) = (cluster, deployment) else { return false };
    let content = read_deployment(cluster, &deployment.id).await;
    content.is_ok_and(|content| controller_deployment::denies_other_namespaces(&content))
}

/// Returns the account of HelmReleases that name none, if the Deployment of helm-controller can be read.
pub(super) async fn release_account(cluster: Option<&Cluster>, snapshot: &Snapshot) -> Option<String> {
    default_account(cluster?, snapshot, HELM_CONTROLLER).await
}

/// Returns the account of ResourceSets that name none, if the Deployment of flux-operator can be read.
pub(super) async fn set_account(cluster: Option<&Cluster>, snapshot: &Snapshot) -> Option<String> {
    default_account(cluster?, snapshot, FLUX_OPERATOR).await
}

/// Returns the account of owners that name none, if the Deployment of their controller can be read.
async fn default_account(cluster: &Cluster, snapshot: &Snapshot, controller: &str) -> Option<String> {
    let deployment = controller_deployment::deployment(snapshot, controller)?;
    let content = read_deployment(cluster, &deployment.id).await.ok()?;
    controller_deployment::default_service_account(&content)
}

/// Returns the accounts of owners that name none, of the controllers whose Deployments can be read.
pub(super) async fn default_accounts(cluster: Option<&Cluster>, snapshot: &Snapshot) -> DefaultAccounts {
    let mut accounts = DefaultAccounts::new();
    let Some(cluster) = cluster else { return accounts };
    for (name, kinds) in DELETING_CONTROLLERS {
        if let Some(account) = default_account(cluster, snapshot, name).await {
            accounts.extend(kinds.iter().map(|(_, kind)| ((*kind).to_owned(), account.clone())));
        }
    }
    accounts
}
