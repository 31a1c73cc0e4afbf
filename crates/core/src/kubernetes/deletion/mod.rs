//! Consequences of a deletion: cascades, volumes, tokens, finalizers and the order of deletions.

pub mod cascade;
pub mod finalizers;
pub mod namespaces;
pub mod order;
pub mod tokens;
pub mod volumes;
