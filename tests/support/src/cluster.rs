//! Test clusters that several tests use.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use xtask::cluster::{Cluster, Flux, Options};

/// Limit of every wait in a test cluster.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Every shared cluster that runs.
static RUNNING: Mutex<Vec<&SharedCluster>> = Mutex::new(vec![]);

/// A cluster for the tests of one module.
///
/// The first test starts it. It runs while a test holds what [`SharedCluster::get`] gave, and after that until another
/// shared cluster is started: tests run in the order of their modules, so only as many clusters run as threads do, and not
/// one for each module. Every test has to hold it from its beginning to its end.
pub struct SharedCluster {
    start: fn() -> Cluster,
    running: Mutex<Option<Arc<Cluster>>>,
}

impl SharedCluster {
    /// A cluster that `start` brings up, with all that every test needs in it.
    pub const fn new(start: fn() -> Cluster) -> Self {
        Self { start, running: Mutex::new(None) }
    }

    /// The cluster, which runs at least as long as the answer is held.
    pub fn get(&'static self) -> Arc<Cluster> {
        let mut running = lock(&self.running);
        if let Some(cluster) = &*running {
            return cluster.clone();
        }
        stop_unused();
        let cluster = Arc::new((self.start)());
        *running = Some(cluster.clone());
        lock(&RUNNING).push(self);
        cluster
    }

    /// Stops the cluster when nobody holds it, and tells whether it is stopped.
    fn stop_if_unused(&self) -> bool {
        // Whoever has locked it is about to use it.
        let Ok(mut running) = self.running.try_lock() else { return false };
        if running.as_ref().is_some_and(|cluster| Arc::strong_count(cluster) > 1) {
            return false;
        }
        *running = None;
        true
    }
}

/// Defines `fn cluster()`, which returns the cluster that the tests of a module share. The argument starts it.
#[macro_export]
macro_rules! shared_cluster {
    ($start:expr) => {
        fn cluster() -> std::sync::Arc<xtask::cluster::Cluster> {
            static CLUSTER: $crate::cluster::SharedCluster = $crate::cluster::SharedCluster::new($start);
            CLUSTER.get()
        }
    };
}

/// Starts a cluster with kustomize-controller and an audit log.
pub fn with_kustomize_controller() -> Cluster {
    up(Options { flux: Flux::Kustomize, audit: true, ..Options::default() })
}

/// Starts a cluster.
pub fn up(options: Options) -> Cluster {
    Cluster::up(options).expect("the test cluster comes up")
}

fn stop_unused() {
    lock(&RUNNING).retain(|shared| !shared.stop_if_unused());
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
