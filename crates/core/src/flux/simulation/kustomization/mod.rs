//! Kustomizations after the change: their specs, sources, builds, blockers and deletions.

pub(crate) mod blockers;
pub(crate) mod classes;
pub(crate) mod containers;
pub(crate) mod deletions;
pub(crate) mod dependencies;
pub(crate) mod derivation;
pub(crate) mod ignored_fields;
pub(crate) mod last_applied;
pub(crate) mod live_spec;
pub(crate) mod passes;
pub(crate) mod scope;
pub(crate) mod source_states;
pub(crate) mod spec_changes;
pub(crate) mod unserved_versions;
pub(crate) mod variables;
