//! The artifact that source-controller packs of a tree, and the sources of a cluster that a tree is the content of.

pub mod artifact;
pub mod ignore;
pub mod matching;
pub mod obstacles;
pub mod options;
pub mod path;
pub mod tree;
