//! What Flux is: its kinds and how each tells of itself.
//!
//! Everything here is pure. Source of the rules: reference flux and kustomize-controller.

pub mod kinds;
pub mod order;
pub mod view;
