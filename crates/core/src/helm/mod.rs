//! Helm releases of helm-controller: their targets, and what an uninstall or an upgrade deletes.

pub(crate) mod post_renderers;
pub mod target;
pub mod uninstall;
pub mod upgrade;
