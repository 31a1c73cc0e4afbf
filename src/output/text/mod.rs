//! Parts of output: words, escapes, lines and tables.

pub mod duration;
pub mod prose;
pub mod sanitize;
pub mod table;
pub(crate) mod wrap;
