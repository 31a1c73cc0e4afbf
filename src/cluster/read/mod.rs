//! Reading from the API server: discovery, lists, single objects, watches, Events, and the snapshot made of them.

mod access;
mod answer;
mod content;
mod decode;
mod discovery;
mod events;
pub(crate) mod fetch;
mod helm_storage;
mod hub;
pub(crate) mod list;
pub(crate) mod metadata;
mod per_namespace;
mod protobuf;
mod snapshot;
mod user;
mod watch;
mod wire;

pub(crate) use access::user_of;
pub use decode::{metadata_from_json, metadata_from_protobuf};
pub use discovery::Discovered;
pub use list::{Listing, Query};
pub use watch::WatchedChange;
