//! What the state alone decides, for the floors above.

pub(crate) mod copied_data;
pub(crate) mod refused_deletions;
pub(crate) mod unknown_builds;
pub(crate) mod watch_selector;
