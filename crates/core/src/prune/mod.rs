//! What will be deleted, and why: plans, cascades, guards, order and outcome. Pure.

pub mod candidates;
pub mod collectors;
pub mod leaked;
