//! The real fluxd beside the plans of this tool, on the real API server, by uid.

mod cases;
mod configuration_changes;
mod deployed;
mod edges;
mod random;
pub(crate) mod repository;

use std::sync::Arc;

use test_support::cluster::{SharedCluster, up};
use xtask::cluster::{Cluster, Options};

use self::repository::Repository;

/// The cluster of these tests, with the definitions that some of them need.
fn cluster() -> Arc<Cluster> {
    static CLUSTER: SharedCluster = SharedCluster::new(|| {
        xtask::controlplane::ensure(&["fluxd"]).expect("fluxd is built");
        let cluster = up(Options::default());
        cases::define_types(&cluster);
        cluster
    });
    CLUSTER.get()
}

/// A repository for the fluxd of these tests.
fn repository(name: &str) -> Repository {
    Repository::new(&cluster(), name)
}
