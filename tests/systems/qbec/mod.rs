//! The real qbec beside the plans of this tool, on the real API server, by uid.

pub(crate) mod app;
mod cases;
mod large;
mod random;
mod sandbox;

use test_support::cluster::up;
use test_support::shared_cluster;
use xtask::cluster::Options;

use self::app::App;

// The cluster of these tests.
shared_cluster!(|| {
    xtask::controlplane::ensure(&["qbec"]).expect("qbec is built");
    up(Options { audit: true, ..Options::default() })
});

/// An application in the cluster of these tests.
fn new_app(name: &str) -> App {
    App::new(&cluster(), name)
}
