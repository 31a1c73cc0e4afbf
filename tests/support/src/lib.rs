//! Helpers that several test binaries use.
//!
//! * [`chart`] packs Helm charts.
//! * [`cluster`] lends test clusters to several tests.
//! * [`comparison`] compares what another tool deletes with a plan, by uid.
//! * [`connection`] connects as the binary does, in an environment of the test's own.
//! * [`fake_api`] is an API server with scripted answers.
//! * [`flux`] deploys and waits for Kustomizations.
//! * [`folder`] makes folders for files.
//! * [`gitops`] runs the built binary.
//! * [`objects`] builds recorded objects and clusters.
//! * [`pages`] runs the command lines of the documents.
//! * [`random`] gives repeatable random numbers.
//! * [`schemas`] checks documents with the committed JSON Schemas.
//! * [`servers`] serve files and git repositories.
//! * [`suspension`] reads what suspensions leave in a cluster.
//! * [`tree_plan`] plans a working tree.
//! * [`workers`] run cases on all processors.
//! * [`world`] is an API server with state, an actor who changes it, and a witness.

pub mod chart;
pub mod cluster;
pub mod comparison;
pub mod connection;
pub mod fake_api;
pub mod flux;
pub mod folder;
pub mod gitops;
pub mod objects;
#[cfg(unix)]
pub mod pages;
pub mod random;
pub mod schemas;
pub mod servers;
pub mod suspension;
pub mod tree_plan;
pub mod workers;
pub mod world;
