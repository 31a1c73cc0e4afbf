//! Rules that need nothing but the state: refused deletions, unknown builds, the watch selector, copied data.

pub(crate) mod copied_data;
pub(crate) mod refused_deletions;
pub(crate) mod unknown_builds;
pub(crate) mod watch_selector;
