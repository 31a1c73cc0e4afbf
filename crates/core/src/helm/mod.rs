//! Helm releases of helm-controller: their targets, their rendered charts with hooks, and what an uninstall deletes.

pub(crate) mod hooks;
pub mod records;
pub mod rendered;
pub mod target;
pub mod uninstall;
