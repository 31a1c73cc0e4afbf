//! Helm releases of helm-controller: their targets, and what an uninstall deletes.

pub mod target;
pub mod uninstall;
