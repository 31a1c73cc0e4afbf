//! Rules that need nothing but the state: refused deletions, unknown builds, the watch selector, copied data,
//! live objects with values of Secrets, known or not, the health of owners, failures that can last, Services that exclude each other.

pub(crate) mod contested_services;
pub(crate) mod copied_data;
pub(crate) mod live_secrets;
pub(crate) mod owner_readiness;
pub(crate) mod refused_deletions;
pub(crate) mod standing_failures;
pub(crate) mod unknown_builds;
pub(crate) mod unread_secrets;
pub(crate) mod watch_selector;
