//! `kubectl gitops`: what GitOps tools manage in a cluster, suspension with a reason, and what a prune will delete.
//!
//! Three rings, arrows inward: `command` translates the command line; the adapters (`cluster`, `terminal`,
//! `render`) do all I/O; the core (`object`, `selector`, `snapshot`, `words`, `suspension`, `ownership`, `prune`, `flux`)
//! is pure: no network, no clock, no terminal.

pub mod error;
pub mod flux;
pub mod kubernetes;
pub mod ownership;
pub mod plan;
pub mod prune;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod text;
