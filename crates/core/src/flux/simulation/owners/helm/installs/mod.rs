//! Installations of releases: their renders, the first one after a failure, and what they delete.

pub(crate) mod deletions;
pub(crate) mod first_installs;
pub(crate) mod installation;
