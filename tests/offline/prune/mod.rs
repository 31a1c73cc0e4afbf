//! What may be deleted, and how deletions are sent.

pub(crate) mod deletion;
mod safety_rules;
