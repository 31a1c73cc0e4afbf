//! The real fluxd beside the plans of this tool, on the real API server, by uid.

mod cases;
mod configuration_changes;
mod deployed;
mod edges;
mod random;
pub(crate) mod repository;

use test_support::cluster::up;
use test_support::shared_cluster;
use xtask::cluster::Options;

use self::repository::Repository;

// The cluster of these tests, with the definitions that some of them need.
shared_cluster!(|| {
    xtask::controlplane::ensure(&["fluxd"]).expect("fluxd is built");
    let cluster = up(Options::default());
    cases::define_types(&cluster);
    cluster
});

/// A repository for the fluxd of these tests.
fn repository(name: &str) -> Repository {
    Repository::new(&cluster(), name)
}
