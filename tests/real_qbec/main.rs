//! The real qbec beside the plans of this tool, on the real API server, by uid.

mod app;
mod cases;
mod large;
mod random;
#[path = "../support/mod.rs"]
mod support;

use xtask::cluster::{Cluster, Options};

/// The cluster of this test file.
pub(crate) fn cluster() -> &'static Cluster {
    static CLUSTER: std::sync::OnceLock<Cluster> = std::sync::OnceLock::new();
    CLUSTER.get_or_init(|| {
        xtask::controlplane::ensure(&["qbec"]).expect("qbec is built");
        Cluster::up(Options { audit: true, ..Options::default() }).expect("the test cluster comes up")
    })
}
