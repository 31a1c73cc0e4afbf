//! Owners that a change affects: those of other kinds, and Kustomizations whose objects or source are elsewhere.
//!
//! Each kind has a folder, and one line in [`kinds::KINDS`].

pub(crate) mod changed_owners;
pub(crate) mod comparison;
pub(crate) mod effective_fields;
pub(crate) mod effects;
pub(crate) mod generator;
pub(crate) mod helm;
pub(crate) mod instance;
pub(crate) mod kinds;
pub(crate) mod kustomization;
pub(crate) mod references;
pub(crate) mod resource_set;
pub(crate) mod search;
pub(crate) mod source_changes;
pub(crate) mod spoke;

use crate::flux::build::Interrupt;

/// Result of a computation that lacks an answer, or fails with a reason for the user.
pub(super) type Asked<T> = Result<T, Interrupt<String>>;
