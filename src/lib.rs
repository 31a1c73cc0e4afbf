//! `kubectl gitops`: what GitOps tools manage in a cluster, suspension with a reason, and what a prune will delete.
//!
//! Three rings, arrows inward: `command` translates the command line; the adapters (`cluster`, `terminal`,
//! `render`) do all I/O; the core (`object`, `selector`, `snapshot`, `words`, `suspension`, `ownership`, `prune`, `flux`)
//! is pure: no network, no clock, no terminal.

pub mod cli;
pub mod cluster;
pub mod commands;
pub mod controller;
pub mod error;
pub mod exit;
pub mod output;
pub mod suggest;
pub mod tools;
pub mod usage;
