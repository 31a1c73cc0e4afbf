//! The rules of `kubectl gitops` as pure functions: no network, file, clock or terminal.
//!
//! `kubernetes` has objects, snapshots and cascading deletion; `ownership` finds the owner of each object; `plan` and
//! `prune` compute deletions; `helm` knows releases; `flux` knows Flux's kinds, suspension, builds and reconciliation.
//! Imports go in that order: `kubernetes` <- `ownership` <- `plan` <- `prune`, `helm` <- `flux`.

#![cfg_attr(not(test), warn(clippy::match_bool))]

pub mod bounds;
pub mod error;
mod expression;
pub mod flux;
pub mod glob;
pub mod helm;
pub mod kubernetes;
pub mod ownership;
pub mod plan;
pub mod private;
pub mod prune;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod text;
pub mod yaml;
pub mod yaml_quotes;
