//! Owners that a change affects: those of other kinds, and Kustomizations whose objects or source are elsewhere.
//!
//! Each kind has a folder that uses [`behaviour`], and one line in [`kinds::KINDS`].

pub(crate) mod behaviour;
pub(crate) mod effects;
pub(crate) mod generator;
pub(crate) mod helm;
pub(crate) mod instance;
pub(crate) mod kinds;
pub(crate) mod kustomization;
pub(crate) mod resource_set;
pub(crate) mod search;
pub(crate) mod spoke;
