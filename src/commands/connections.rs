//! Connections of one run. Each cluster is connected to once, so that a credential plugin runs once and asks once. The
//! warnings of the API servers stay here until the command prints them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OnceCell;

use crate::cluster::Cluster;
use crate::cluster::config::args::ConnectionArgs;
use crate::error::Result;

/// Beginning of the warnings of a cluster, and its context if it is not the cluster of the connection flags.
pub(super) type Key = (String, Option<String>);

#[derive(Default)]
pub(super) struct Connections {
    clusters: Mutex<BTreeMap<Key, Arc<OnceCell<Cluster>>>>,
    /// Warnings that were returned already.
    known: Mutex<BTreeSet<String>>,
}

impl Connections {
    /// Returns a cluster. The first call with a key connects.
    pub(super) async fn get(&self, key: Key, args: &ConnectionArgs) -> Result<Cluster> {
        let cell = lock(&self.clusters).entry(key).or_default().clone();
        cell.get_or_try_init(|| Cluster::connect(args)).await.cloned()
    }

    /// Promises that a cluster will be connected to.
    pub(super) fn reserve(&self, key: Key) {
        lock(&self.clusters).entry(key).or_default();
    }

    /// Returns true if a cluster is connected to, or will be.
    pub(super) fn has(&self, key: &Key) -> bool {
        lock(&self.clusters).contains_key(key)
    }

    /// Returns the warnings since the last call; a text that was returned before is left out.
    pub(super) fn take_warnings(&self) -> Vec<String> {
        let mut warnings = vec![];
        for ((place, _), cell) in &*lock(&self.clusters) {
            let own = cell.get().map(Cluster::take_warnings).unwrap_or_default();
            warnings.extend(own.iter().map(|warning| format!("{place}{warning}")));
        }
        let mut known = lock(&self.known);
        warnings.retain(|warning| known.insert(warning.clone()));
        warnings
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
