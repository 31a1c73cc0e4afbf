//! Core of `kubectl gitops`: pure functions over a [`kubernetes::snapshot::Snapshot`], without network, files, clock or
//! terminal.
//!
//! [`kubernetes`] knows no GitOps system. [`ownership`] says which owner manages an object, [`plan`] describes deletions,
//! [`prune`] plans those of this tool, and [`flux`] predicts those of Flux. ARCHITECTURE.md describes the folders.

pub mod error;
pub mod flux;
pub mod kubernetes;
pub mod ownership;
pub mod plan;
pub mod prune;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod text;
