//! Snapshots.

use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::index::Index;

/// A snapshot that is read is written so that it is read again to the same, and its objects can be classified.
pub(crate) fn check(data: &[u8]) {
    let Ok(snapshot) = serde_json::from_slice::<Snapshot>(data) else { return };
    let written = serde_json::to_vec(&snapshot).expect("a snapshot is JSON");
    let again: Snapshot = serde_json::from_slice(&written).expect("a written snapshot is read");
    assert_eq!(again, snapshot);
    let index = Index::build(&snapshot);
    assert_eq!(index.statuses().count(), snapshot.objects.len());
}
