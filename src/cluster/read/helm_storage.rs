//! Helm's own records, read only where the user asked for Secrets to be read. Of each nothing but the identities in its
//! manifest outlives this file.

use super::namespaced::Namespaces;
use crate::cluster::Cluster;
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::schemes::helm;

/// The newest revision that was deployed speaks for a release (reference ownership-and-prune 1.5).
const DEPLOYED: &str = "owner=helm,status=deployed";

impl Cluster {
    /// Adds what the releases of Helm recorded. What may not be read is a gap.
    pub async fn add_release_records(&self, snapshot: &mut Snapshot) {
        let holds =
            |kind: &&gitops_core::kubernetes::object::ResourceType| kind.is("", "Secret") || kind.is("", "ConfigMap");
        let kinds: Vec<_> = snapshot.types.iter().filter(holds).cloned().collect();
        let namespaces = Namespaces::of(self, &snapshot.objects);
        let (contents, gaps) = self.content(&kinds, Some(DEPLOYED), &namespaces).await;
        snapshot.take_full(contents.into_iter().filter_map(helm::record_of).collect(), |_| false);
        snapshot.gaps.extend(gaps);
        snapshot.normalise();
    }
}
