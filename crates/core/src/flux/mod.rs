//! What Flux is: its kinds, how each tells of itself, and what it makes of a working tree.
//!
//! Everything here is pure: files come in as a [`source::tree::Tree`], the run of kustomize itself is asked for as a value and
//! answered by the adapter [`kubectl_gitops::tools::kustomize`]. Source of the rules: reference flux and kustomize-controller.

pub mod apply;
pub mod build;
pub mod controller;
pub mod controllers;
pub mod features;
pub mod kinds;
pub mod order;
pub mod simulation;
pub mod source;
pub mod spec;
pub mod suspension;
