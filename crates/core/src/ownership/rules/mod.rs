//! Rules beside those of one system: protections, objects that Kubernetes itself creates, and the table of the keys of all
//! systems.

pub(crate) mod keys;
pub mod protection;
pub(crate) mod system_objects;
