//! cluster::write.

pub mod delete;
pub mod dry_run;
pub mod execute;
pub mod patch;
pub mod wait;
