//! Replays of garbage collectors that work by label. qbec, Flux v1 and `kubectl apply --applyset` label what they apply,
//! and delete objects that carry their label and are in no manifest any more.
//!
//! Every object gets two answers: what the system's own collector does ([`NativeAction`]), and what this tool does under
//! its own safety rules ([`PlannedAction`]; docs/reference/ownership.md 8). The [`CollectorReason`] explains a difference.
//!
//! Rules: docs/reference/qbec-and-flux-v1.md, and docs/reference/ownership.md 2.6 for ApplySets.

pub mod applyset;
pub mod collector;
pub mod flux_v1;
pub mod qbec;
pub mod request;
