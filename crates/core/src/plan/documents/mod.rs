//! Documents about several plans: the steps of one cluster, and one commit in many clusters.

pub mod fleet;
pub mod sequence;
