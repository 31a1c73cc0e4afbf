//! What Flux is: its kinds, how each tells of itself, and what it makes of a working tree.
//!
//! Everything here is pure: files come in as a [`tree::Tree`], the run of kustomize itself is asked for as a value and
//! answered by the adapter [`crate::kustomize`]. Source of the rules: reference flux and kustomize-controller.

pub mod apply;
pub mod artifact;
pub mod build;
pub mod controller;
pub mod data;
pub mod envsubst;
pub mod features;
pub mod fidelity;
pub mod generator;
pub mod glob;
pub mod ignore;
pub mod kinds;
pub mod kustomization_file;
pub mod objects;
pub mod order;
pub mod path;
pub mod preview;
pub mod references;
pub mod sops;
pub mod spec;
pub mod substitute;
pub mod tree;
pub mod tree_source;
pub mod veil;
pub mod view;
