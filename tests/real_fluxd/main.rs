//! The real fluxd beside the plans of this tool, on the real API server, by uid.

mod cases;
mod deployed;
mod edges;
mod fluxd;
mod random;
#[path = "../support/mod.rs"]
mod support;
mod table;

use xtask::cluster::{Cluster, Options};

/// The cluster of this test file.
pub(crate) fn cluster() -> &'static Cluster {
    static CLUSTER: std::sync::OnceLock<Cluster> = std::sync::OnceLock::new();
    CLUSTER.get_or_init(|| {
        xtask::controlplane::ensure(&["fluxd"]).expect("fluxd is built");
        Cluster::up(Options::default()).expect("the test cluster comes up")
    })
}
