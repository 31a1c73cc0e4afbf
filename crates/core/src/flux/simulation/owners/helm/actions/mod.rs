//! What one action of helm-controller does to a release, when it does it, and which records it leaves: objects, hooks, failures
//! and their remedies.

pub(crate) mod action;
pub(crate) mod action_kind;
pub(crate) mod applied;
pub(crate) mod conditions;
pub(crate) mod dry_runs;
pub(crate) mod failure;
pub(crate) mod records;
pub(crate) mod remedies;
