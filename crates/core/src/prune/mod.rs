//! Plans of deletions: leaked and orphaned objects, and objects that the manifests of a system no longer contain.

pub mod candidates;
pub mod collectors;
pub mod leaked;
pub mod reevaluation;

#[cfg(test)]
mod tests;
