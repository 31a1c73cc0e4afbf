//! Flux: its kinds, suspension, and what its controllers do with a working tree.
//!
//! Imports point one way: `source` <- `build` <- `generator` and `apply` <- `simulation`. The files of this folder are
//! below all of them, and `suspension` stands apart. Nothing here does I/O: files come in as a [`source::tree::Tree`], and a build
//! asks for a run of kustomize or helm as a value.

pub mod apply;
pub mod build;
pub mod controller_deployment;
pub(crate) mod controller_flags;
pub mod controllers;
pub mod generator;
pub mod guard;
pub mod handover;
pub(crate) mod health_exprs;
pub mod helm_controller;
pub mod history;
pub mod kinds;
pub mod kustomize_controller;
mod ready_expr;
pub mod retire;
pub mod simulation;
pub mod source;
pub mod spec;
pub(crate) mod stages;
pub mod suspension;
