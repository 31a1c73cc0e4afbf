//! What may be deleted, and how deletions are sent.

mod deletion;
mod safety_rules;
