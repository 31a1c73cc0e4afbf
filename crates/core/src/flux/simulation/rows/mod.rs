//! Rows, outcomes and gaps of a plan.

pub(crate) mod emptied_files;
pub(crate) mod encrypted_objects;
pub(crate) mod kustomization_outcomes;
pub(crate) mod object_rows;
mod owner_rows;
pub(crate) mod secret_names;
