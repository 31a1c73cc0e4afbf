//! Content that only some commands need: Flux kinds that no plan needs, Helm's release records, and what objects refer to.

use std::sync::Arc;

use serde_json::Value;

use super::per_namespace::{Namespaces, read_content, read_in_namespaces};
use crate::cluster::connection::Cluster;
use crate::cluster::read::list::{ListRequest, LiveReferrer, Query, list_all};
use gitops_core::flux::kinds;
use gitops_core::kubernetes::gap::Gap;
use gitops_core::kubernetes::object::{Resource, ResourceType};
use gitops_core::kubernetes::references::{is_referrer, names_other_namespaces};
use gitops_core::kubernetes::referrer::Referrer;
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::schemes::helm;

/// Selects deployed revisions: the newest of them is authoritative for a release.
const DEPLOYED: &str = "owner=helm,status=deployed";

/// Adds the content of the Flux kinds that `get` shows and no plan needs.
pub(crate) async fn add_suspendable(cluster: &Cluster, snapshot: &mut Snapshot) {
    let flux_kinds = snapshot.types.iter().filter(|kind| kinds::find(&kind.group, &kind.kind).is_some());
    let missing: Vec<_> = flux_kinds.filter(|kind| !has_content(snapshot, kind)).cloned().collect();
    let namespaces = Namespaces::to_read(cluster, &snapshot.objects);
    let (contents, gaps) = read_content(cluster, &missing, None, &namespaces).await;
    snapshot.resources.extend(contents);
    snapshot.gaps.extend(gaps);
    snapshot.normalise();
}

/// Returns what live objects refer to, sorted, and gaps for types that could be listed before and not now. Types whose objects
/// name others of their own namespace only are listed in one namespace, or everywhere. Types that the snapshot has with content
/// are left out.
pub(crate) async fn read_referrers(
    cluster: &Cluster,
    snapshot: &Snapshot,
    namespace: Option<&Arc<str>>,
) -> (Vec<Referrer>, Vec<Gap>) {
    let quiet = &cluster.without_deprecations();
    let known = snapshot.types.iter().filter(|kind| is_referrer(&kind.group, &kind.kind));
    let kinds: Vec<ResourceType> = known.filter(|kind| lacks_content(snapshot, kind)).cloned().collect();
    let requests = kinds.iter().map(|kind| ListRequest {
        kind: kind.clone(),
        namespace: namespace.filter(|_| kind.namespaced && !names_other_namespaces(&kind.group)).cloned(),
        selector: "".into(),
    });
    let (mut items, mut gaps) = list_all::<LiveReferrer>(quiet, requests).await;
    if namespace.is_none() {
        let namespaces = Namespaces::to_read(quiet, &snapshot.objects);
        items.extend(read_in_namespaces::<LiveReferrer>(quiet, &kinds, "", &namespaces, &mut gaps).await);
    }
    gaps.retain(|gap| is_new(gap, snapshot));
    let mut referrers: Vec<Referrer> = items.into_iter().filter_map(|item| item.0).collect();
    referrers.sort_by(|a, b| a.object.cmp(&b.object));
    (referrers, gaps)
}

/// Returns the Pods of a namespace with what they refer to, as far as they can be read.
pub(crate) async fn read_pods(cluster: &Cluster, snapshot: &Snapshot, namespace: &Arc<str>) -> Vec<Referrer> {
    let kinds = snapshot.types.iter().filter(|kind| kind.is("", "Pod")).cloned();
    let requests = kinds.map(|kind| ListRequest { kind, namespace: Some(namespace.clone()), selector: "".into() });
    let (items, _) = list_all::<LiveReferrer>(cluster, requests).await;
    items.into_iter().filter_map(|item| item.0).collect()
}

/// Returns true if the snapshot has an object of this type without its content.
fn lacks_content(snapshot: &Snapshot, kind: &ResourceType) -> bool {
    let mut own = snapshot.objects.iter().filter(|object| kind.is(&object.id.group, &object.id.kind));
    own.any(|object| snapshot.resource(&object.id).is_none())
}

fn has_content(snapshot: &Snapshot, kind: &ResourceType) -> bool {
    snapshot.resources.iter().any(|full| kind.is(&full.object.id.group, &full.object.id.kind))
}

/// Adds the versions in which objects of definitions may be stored.
pub(crate) async fn add_stored_versions(cluster: &Cluster, snapshot: &mut Snapshot) {
    let definitions = snapshot.types.iter().filter(|kind| kind.is("apiextensions.k8s.io", "CustomResourceDefinition"));
    let (contents, gaps) =
        cluster.without_deprecations().list_full(&definitions.cloned().collect::<Vec<_>>(), Query::default()).await;
    let stored = contents.iter().map(|full| (full.object.id.name.to_string(), stored_versions(full)));
    snapshot.stored_versions = stored.collect();
    let new: Vec<Gap> = gaps.into_iter().filter(|gap| is_new(gap, snapshot)).collect();
    snapshot.gaps.extend(new);
}

fn is_new(gap: &Gap, snapshot: &Snapshot) -> bool {
    !snapshot.gaps.iter().any(|known| known.subject == gap.subject)
}

fn stored_versions(definition: &Resource) -> Vec<String> {
    let versions = definition.at("/status/storedVersions").and_then(Value::as_array).into_iter().flatten();
    versions.filter_map(|version| version.as_str().map(str::to_owned)).collect()
}

/// Adds the records of deployed Helm releases (docs/reference/ownership.md 2.4). They are read only if the user allows
/// Secrets to be read, and only the identities in their manifests are kept. Records that cannot be read are gaps.
pub(crate) async fn add_release_records(cluster: &Cluster, snapshot: &mut Snapshot) {
    let storage = snapshot.types.iter().filter(|kind| kind.is("", "Secret") || kind.is("", "ConfigMap"));
    let kinds: Vec<_> = storage.cloned().collect();
    let namespaces = Namespaces::to_read(cluster, &snapshot.objects);
    let (contents, gaps) = read_content(cluster, &kinds, Some(DEPLOYED), &namespaces).await;
    snapshot.add_resources(contents.into_iter().filter_map(helm::record_of).collect(), |_| false);
    snapshot.gaps.extend(gaps);
    snapshot.normalise();
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use gitops_core::kubernetes::snapshot::ClusterIdentity;
    use gitops_core::testing::{object, resource_type};

    use super::*;

    #[test]
    fn the_content_of_one_object_does_not_stand_for_its_type() {
        let mut snapshot = Snapshot::new(DateTime::UNIX_EPOCH, ClusterIdentity::default());
        let deployments = resource_type("apps", "Deployment", "deployments", true);
        assert!(!lacks_content(&snapshot, &deployments), "there is none");
        let fluxd = object("apps", "Deployment", "flux", "fluxd");
        let content = serde_json::json!({});
        snapshot.objects = vec![fluxd.clone()];
        snapshot.resources = vec![Resource { object: fluxd, content }];
        assert!(!lacks_content(&snapshot, &deployments));
        snapshot.objects.push(object("apps", "Deployment", "shop", "web"));
        snapshot.normalise();
        assert!(lacks_content(&snapshot, &deployments));
    }
}
