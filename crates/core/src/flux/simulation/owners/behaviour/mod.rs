//! Common ground of the kinds of owners: the interface of a kind, and the comparison of an owner, and of everything that it refers
//! to, before and after the change.

pub(crate) mod artifact_inputs;
pub(crate) mod changed_owners;
pub(crate) mod commands;
pub(crate) mod comparison;
pub(crate) mod effective_fields;
pub(crate) mod owner_kind;
pub(crate) mod privacy;
pub(crate) mod quotas;
pub(crate) mod references;
pub(crate) mod restarts;
pub(crate) mod scaling;
pub(crate) mod source_changes;
