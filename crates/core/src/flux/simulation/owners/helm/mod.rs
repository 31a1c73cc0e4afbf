//! HelmReleases: upgrades, replacements and uninstalls of their releases.

pub(crate) mod release_charts;
pub(crate) mod replaced_releases;
pub(crate) mod uninstall;
pub(crate) mod upgrades;
