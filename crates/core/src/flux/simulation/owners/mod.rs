//! Owners that a change affects: those of other kinds, and Kustomizations whose objects or source are elsewhere.

pub(crate) mod affected_kustomizations;
pub(crate) mod affected_owner_rows;
pub(crate) mod affected_owners;
pub(crate) mod comparison;
pub(crate) mod effective_fields;
pub(crate) mod finalizers;
pub(crate) mod generator;
pub(crate) mod helm;
pub(crate) mod references;
pub(crate) mod resource_set;
pub(crate) mod search;
pub(crate) mod source_changes;
pub(crate) mod spoke;
