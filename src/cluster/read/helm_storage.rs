//! Helm's release records (docs/reference/ownership.md 2.4). They are read only if the user allows Secrets to be read,
//! and only the identities in their manifests are kept.

use super::per_namespace::Namespaces;
use crate::cluster::Cluster;
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::schemes::helm;

/// Selects deployed revisions: the newest of them is authoritative for a release.
const DEPLOYED: &str = "owner=helm,status=deployed";

impl Cluster {
    /// Adds the records of deployed Helm releases. Records that cannot be read are gaps.
    pub async fn add_release_records(&self, snapshot: &mut Snapshot) {
        let storage = snapshot.types.iter().filter(|kind| kind.is("", "Secret") || kind.is("", "ConfigMap"));
        let kinds: Vec<_> = storage.cloned().collect();
        let namespaces = Namespaces::to_read(self, &snapshot.objects);
        let (contents, gaps) = self.read_content(&kinds, Some(DEPLOYED), &namespaces).await;
        snapshot.add_resources(contents.into_iter().filter_map(helm::record_of).collect(), |_| false);
        snapshot.gaps.extend(gaps);
        snapshot.normalise();
    }
}
