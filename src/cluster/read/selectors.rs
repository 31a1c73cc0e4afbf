//! Readings of less than the whole cluster, for answers that provably need no more: see [`ReadScope`].

use chrono::{DateTime, Utc};

use super::owners::is_owner;
use crate::cluster::{Cluster, Failure, Query};
use gitops_core::kubernetes::snapshot::{ClusterIdentity, Snapshot};
use gitops_core::ownership::read_scope::ReadScope;

impl Cluster {
    /// What a reading asks for, in the order and with the care of [`Cluster::snapshot`].
    ///
    /// # Errors
    /// When discovery fails.
    pub async fn snapshot_of(&self, now: DateTime<Utc>, reading: &ReadScope) -> Result<Snapshot, Failure> {
        let discovered = self.discover().await?;
        Ok(self.read(discovered, now, Some(reading), None).await)
    }

    /// Reads the owners first, lets the caller choose by them what else it needs, and reads that; with what was chosen.
    /// The owners count as they are after everything else.
    ///
    /// # Errors
    /// When discovery fails.
    pub async fn snapshot_by_owners(
        &self,
        now: DateTime<Utc>,
        choose: impl FnOnce(&Snapshot) -> Option<ReadScope>,
    ) -> Result<(Snapshot, Option<ReadScope>), Failure> {
        let discovered = self.discover().await?;
        let owners: Vec<_> = discovered.types.iter().filter(|kind| is_owner(kind)).cloned().collect();
        let (early, gaps) = self.read_full(&owners, Query::default()).await;
        let mut first = Snapshot::new(now, ClusterIdentity::default());
        first.full = early;
        let reading = if gaps.is_empty() { choose(&first) } else { None };
        let early = gaps.is_empty().then_some(first.full);
        Ok((self.read(discovered, now, reading.as_ref(), early).await, reading))
    }
}
