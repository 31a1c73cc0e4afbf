//! The real qbec beside the plans of this tool, on the real API server, by uid.

pub(crate) mod app;
mod cases;
mod large;
mod random;
mod sandbox;

use std::sync::Arc;

use test_support::cluster::{SharedCluster, up};
use xtask::cluster::{Cluster, Options};

use self::app::App;

/// The cluster of these tests.
fn cluster() -> Arc<Cluster> {
    static CLUSTER: SharedCluster = SharedCluster::new(|| {
        xtask::controlplane::ensure(&["qbec"]).expect("qbec is built");
        up(Options { audit: true, ..Options::default() })
    });
    CLUSTER.get()
}

/// An application in the cluster of these tests.
fn new_app(name: &str) -> App {
    App::new(&cluster(), name)
}
