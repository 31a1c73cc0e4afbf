//! Content that only some commands need: Flux kinds that no plan needs, and Helm's release records.

use super::per_namespace::{Namespaces, read_content};
use crate::cluster::connection::Cluster;
use gitops_core::flux::kinds;
use gitops_core::kubernetes::object::ResourceType;
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
