//! Rules of deletions, and the requests that delete.

pub(crate) mod deletion;
mod safety_rules;
