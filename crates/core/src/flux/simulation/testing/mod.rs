//! A cluster in memory that answers everything that a preview asks, for tests; compiled only with the feature `testing`.

pub(crate) mod answerer;
pub(crate) mod cluster;
pub mod leaks;
