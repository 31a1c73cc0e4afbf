//! kubernetes.

pub mod deletion;
pub mod duration;
pub mod object;
pub mod selector;
pub mod snapshot;
