//! Kubernetes itself, without any GitOps system: objects, API types, selectors, a reading of a cluster, and the
//! consequences of a deletion.

pub mod aggregation;
pub(crate) mod allocations;
pub(crate) mod definition_names;
pub mod deletion;
pub mod duration;
pub mod gap;
pub(crate) mod limit_range;
pub mod object;
pub(crate) mod quantity;
pub(crate) mod quota;
pub mod recording;
pub mod redact;
pub mod references;
pub mod referrer;
pub mod selector;
pub mod snapshot;
