//! Content that only some commands need: Flux kinds that no plan needs, Helm's release records, and what objects refer to.

use std::sync::Arc;

use super::per_namespace::{Namespaces, read_content};
use crate::cluster::connection::Cluster;
use crate::cluster::read::list::{ListRequest, LiveReferrer, list_all};
use gitops_core::flux::kinds;
use gitops_core::kubernetes::gap::Gap;
use gitops_core::kubernetes::object::ResourceType;
use gitops_core::kubernetes::references::is_referrer;
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

/// Returns what live objects refer to, sorted, and gaps for types that could be listed before and not now. Namespaced types
/// are listed in one namespace, or everywhere. Objects with content in the snapshot are left out.
pub(crate) async fn read_referrers(
    cluster: &Cluster,
    snapshot: &Snapshot,
    namespace: Option<&Arc<str>>,
) -> (Vec<Referrer>, Vec<Gap>) {
    let known = snapshot.types.iter().filter(|kind| is_referrer(&kind.group, &kind.kind));
    // A type that could not be listed before has its gap.
    let listed = known.filter(|kind| {
        let resource = kind.resource();
        !has_content(snapshot, kind) && !snapshot.gaps.iter().any(|gap| gap.subject == resource)
    });
    let requests = listed.map(|kind| ListRequest {
        kind: kind.clone(),
        // Routes may name Services of other namespaces.
        namespace: namespace.filter(|_| kind.namespaced && &*kind.group != "gateway.networking.k8s.io").cloned(),
        selector: "".into(),
    });
    let (items, gaps) = list_all::<LiveReferrer>(&cluster.without_deprecations(), requests).await;
    let mut referrers: Vec<Referrer> = items.into_iter().filter_map(|item| item.0).collect();
    referrers.sort_by(|a, b| a.object.cmp(&b.object));
    (referrers, gaps)
}

fn has_content(snapshot: &Snapshot, kind: &ResourceType) -> bool {
    snapshot.resources.iter().any(|full| kind.is(&full.object.id.group, &full.object.id.kind))
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
