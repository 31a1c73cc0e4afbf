//! Consequences of a deletion: cascades, volumes, finalizers and the order of deletions.

pub mod cascade;
pub mod finalizers;
pub mod order;
pub mod volumes;
