//! Text of plans of several steps.

pub(crate) mod handover;
pub(crate) mod kubectl;
pub(crate) mod retire;
pub(crate) mod sequence;
