//! flux::source.

pub mod artifact;
pub mod glob;
pub mod ignore;
pub mod matching;
pub mod path;
pub mod tree;
