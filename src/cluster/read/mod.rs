//! Reading from the API server: discovery, lists, single objects, watches, Events, reviews, and the snapshot made of them.

pub(crate) mod access;
pub(crate) mod content;
pub(crate) mod discovery;
pub(crate) mod events;
pub(crate) mod fetch;
pub(crate) mod format;
pub(crate) mod hub;
pub(crate) mod list;
pub(crate) mod snapshot;
pub(crate) mod watch;
