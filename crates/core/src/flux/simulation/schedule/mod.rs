//! Order of the events of Kustomizations, and the possible outcomes of each object.

pub(crate) mod consequences;
pub(crate) mod cycles;
pub(crate) mod dependency_order;
pub(crate) mod event_order;
pub(crate) mod explore;
pub(crate) mod object_events;
pub(crate) mod orders;
pub(crate) mod outcomes;
pub(crate) mod race_conditions;
pub(crate) mod reclaim_policies;
