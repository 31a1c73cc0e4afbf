//! Renders of a release, and their input: its chart, its values, and the objects that templates look up.

pub(crate) mod lookups;
pub(crate) mod preserved_values;
pub(crate) mod release_charts;
pub(crate) mod release_values;
pub(crate) mod rendering;
pub(crate) mod values_digest;
