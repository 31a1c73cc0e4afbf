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
    /// Other clusters, each with the beginning of its warnings.
    others: Mutex<Vec<(String, Cluster)>>,
    /// Warnings that were returned already.
    known: BTreeSet<String>,
}

impl Connections {
    /// Returns the cluster of the connection flags.
    pub(super) async fn own(&self, args: &ConnectionArgs) -> Result<Cluster> {
        self.own.get_or_try_init(|| Cluster::connect(args)).await.cloned()
    }

    /// Connects to the cluster of another context.
    pub(super) async fn connect(&self, args: &ConnectionArgs) -> Result<Cluster> {
        let cluster = Cluster::connect(args).await?;
        self.others.lock().unwrap_or_else(PoisonError::into_inner).push((String::new(), cluster.clone()));
        Ok(cluster)
    }

    /// Takes over the cluster of a part of the run. Its warnings name the context.
    pub(super) fn add(&mut self, context: &str, part: Self) {
        let others = self.others.get_mut().unwrap_or_else(PoisonError::into_inner);
        others.extend(part.own.into_inner().map(|cluster| (format!("context {context}: "), cluster)));
    }

    /// Returns the warnings since the last call; a text that was returned before is left out.
    pub(super) fn take_warnings(&mut self) -> Vec<String> {
        let others = self.others.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut warnings: Vec<String> = self.own.get().map(Cluster::take_warnings).unwrap_or_default();
        for (place, cluster) in others {
            warnings.extend(cluster.take_warnings().iter().map(|warning| format!("{place}{warning}")));
        }
        warnings.retain(|warning| self.known.insert(warning.clone()));
        warnings
    }
}
