//! What a release is rendered from: its chart, its values and what templates look up; and its renders.

pub(crate) mod lookups;
pub(crate) mod preserved_values;
pub(crate) mod release_charts;
pub(crate) mod release_values;
pub(crate) mod rendering;
