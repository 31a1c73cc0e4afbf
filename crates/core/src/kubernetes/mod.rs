//! kubernetes.

pub mod deletion;
pub mod duration;
pub mod gap;
pub mod object;
pub mod selector;
pub mod snapshot;
