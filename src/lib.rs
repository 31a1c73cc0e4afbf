//! `kubectl gitops`: what GitOps tools manage in a cluster, suspension with a reason, and what a prune will delete.
//!
//! Three rings, arrows inward: `command` translates the command line; the adapters (`cluster`, `terminal`,
//! `render`) do all I/O; the core (`object`, `selector`, `snapshot`, `words`, `suspension`, `ownership`, `prune`, `flux`)
//! is pure: no network, no clock, no terminal.

pub mod cli;
pub mod cluster;
pub mod command;
pub mod connection;
pub mod controller;
pub mod duration;
pub mod error;
pub mod exit;
pub mod flux;
pub mod folder;
pub mod git;
pub mod kustomize;
pub mod manifests;
pub mod nearest;
pub mod object;
pub mod ownership;
pub mod plan_file;
pub mod prune;
pub mod qbec_cli;
pub mod render;
pub mod selector;
pub mod snapshot;
pub mod snapshot_file;
pub mod suspension;
pub mod terminal;
pub mod words;
