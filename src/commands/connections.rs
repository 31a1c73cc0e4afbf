//! Connections of one run. Each cluster is connected to once, so that a credential plugin runs once and asks once. The
//! warnings of the API servers stay here until the command prints them.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tokio::sync::OnceCell;

use crate::cluster::Cluster;
use crate::cluster::config::args::ConnectionArgs;
use crate::error::Result;

#[derive(Default)]
pub(super) struct Connections {
    /// Cluster of the connection flags, once it is needed.
    own: OnceCell<Cluster>,
    /// Clusters of other contexts.
    others: Mutex<Vec<Cluster>>,
    /// Warnings of clusters that other sessions have read.
    received: Vec<String>,
    printed: BTreeSet<String>,
}

impl Connections {
    /// Returns the cluster of the connection flags.
    pub(super) async fn own(&self, args: &ConnectionArgs) -> Result<Cluster> {
        self.own.get_or_try_init(|| Cluster::connect(args)).await.cloned()
    }

    /// Connects to the cluster of another context.
    pub(super) async fn connect(&self, args: &ConnectionArgs) -> Result<Cluster> {
        let cluster = Cluster::connect(args).await?;
        self.others.lock().unwrap_or_else(PoisonError::into_inner).push(cluster.clone());
        Ok(cluster)
    }

    /// Adds warnings of a cluster that another session has read.
    pub(super) fn add_warnings(&mut self, warnings: impl IntoIterator<Item = String>) {
        self.received.extend(warnings);
    }

    /// Returns the warnings since the last call; a text that was returned before is left out.
    pub(super) fn take_warnings(&mut self) -> Vec<String> {
        let others = self.others.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut warnings: Vec<String> =
            self.own.get().into_iter().chain(&*others).flat_map(Cluster::take_warnings).collect();
        warnings.append(&mut self.received);
        warnings.retain(|warning| self.printed.insert(warning.clone()));
        warnings
    }
}
