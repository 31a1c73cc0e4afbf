//! plan.

pub mod document;
pub mod filter;
pub mod limits;
pub mod outcome;
pub mod preview_limits;
