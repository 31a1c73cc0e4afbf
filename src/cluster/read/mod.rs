//! cluster::read.

pub mod events;
pub mod helm_storage;
pub mod hub;
pub mod list;
pub mod metadata;
pub mod namespaced;
pub mod owners;
pub mod resources;
pub mod selectors;
pub mod user;
pub mod watch;
