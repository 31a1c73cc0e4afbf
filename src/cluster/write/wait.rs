//! Waits for a requested reconciliation.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::cluster::connection::Cluster;
use crate::cluster::http::failure::Failure;
use gitops_core::flux::suspension::wait::{WaitProgress, progress};
use gitops_core::kubernetes::object::{ObjectId, ResourceType};

/// First and longest pause between two reads; each pause is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Waits until a requested reconciliation is done or cannot be; [`WaitProgress::Pending`] after the time limit.
pub(crate) async fn wait_until_reconciled(
    cluster: &Cluster,
    kind: &ResourceType,
    id: &ObjectId,
    token: &str,
    limit: Duration,
) -> Result<WaitProgress, Failure> {
    let end = Instant::now() + limit;
    let mut pause = FIRST_PAUSE;
    loop {
        let Some(full) = cluster.fetch(kind, id).await? else {
            return Ok(WaitProgress::Superseded("it does not exist any more"));
        };
        let reached = progress(&full, token);
        if !matches!(reached, WaitProgress::Pending(_)) || Instant::now() + pause > end {
            return Ok(reached);
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
