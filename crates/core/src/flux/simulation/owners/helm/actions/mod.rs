//! Actions of helm-controller on a release: their conditions, objects, hooks and records, their failures, and the
//! remedies.

pub(crate) mod action;
pub(crate) mod action_kind;
pub(crate) mod applied;
pub(crate) mod conditions;
pub(crate) mod drift_rules;
pub(crate) mod dry_runs;
pub(crate) mod failure;
pub(crate) mod hook_runs;
pub(crate) mod records;
pub(crate) mod remedies;
mod storage;
